"""Pages as HTML: one file with everything in it, that a browser shows without asking any network for anything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab import __version__
from lab.errors import RequirementMissing
from lab.report.page.blocks import OwnScripts, Page
from lab.report.page.plot import Plot

PARTS = Path(__file__).with_name("parts")


def render_page(page: Page) -> str:
    """The whole document. Raises RequirementMissing without jinja2 and plotly, which the extra ``report`` brings."""
    plots: list[Plot] = []

    def register(plot: Plot) -> int:
        plots.append(plot)
        return len(plots) - 1

    own = page.own or OwnScripts(PARTS, (), (), None, has_plots=False)
    body = render_part("page.html.jinja", PARTS, page=page, register=register, version=__version__)
    # Without plots it unfolds everything for print; the page's own scripts draw with it.
    scripts = [
        PARTS / "drawing.js",
        *([PARTS / "plots.js"] if plots else ()),
        *(own.folder / each for each in own.scripts),
    ]
    figures = [{"traces": plot.traces, "layout": plot.layout} for plot in plots]
    return render_document(
        body,
        title=page.title,
        style="\n".join(map(_text, (PARTS / "report.css", *(own.folder / each for each in own.styles)))),
        data={**({"data": own.data} if own.scripts else {}), **({"figures": figures} if figures else {})},
        scripts=[*([_plotly()] if plots or own.has_plots else ()), "\n".join(map(_text, scripts))],
    )


def render_part(template: str, folder: Path, **values: Any) -> str:
    """A template of ``folder``, which may use those of this package; whatever is filled in is escaped.

    Raises RequirementMissing without jinja2.
    """
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise _missing(error) from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader((folder, PARTS)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["kind"] = lambda value: type(value).__name__
    environment.globals["file"] = lambda path: Markup(_text(path))
    return environment.get_template(template).render(**values)


def render_document(
    body: str,
    *,
    title: str,
    style: str,
    kind: str = "",
    data: Mapping[str, Any] | None = None,
    scripts: Sequence[str] = (),
) -> str:
    """A document around ``body``, of ``render_part``, with a policy under which only these scripts run.

    ``data`` they find as JSON in elements of these names. ``kind``: a name for the style sheet.
    """
    from markupsafe import Markup

    # Marked as safe: our own files, what a template has escaped, and JSON in which nothing can end the element.
    return render_part(
        "document.html.jinja",
        PARTS,
        title=title,
        kind=kind,
        version=__version__,
        body=Markup(body),
        style=Markup(style),
        data={name: Markup(_json(value)) for name, value in (data or {}).items()},
        scripts=[Markup(script) for script in scripts],
        script_hashes=Markup(" ".join(map(_hash, scripts))),
    )


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _missing(error) from None
    script: str = get_plotlyjs()
    return script


def _missing(error: ImportError) -> RequirementMissing:
    return RequirementMissing(
        f"an HTML page needs {error.name or 'plotly'}", hint="install it: pip install 'raidlab[report]'"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """For the page's policy: only these scripts run, whatever a stranger's result may hold."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
