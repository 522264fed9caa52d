"""Renders pages as HTML: one self-contained file that a browser shows without a network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab import __version__
from lab.errors import RequirementMissing
from lab.report.page.blocks import OwnScripts, Page, Plot

PARTS = Path(__file__).with_name("parts")


def render_page(page: Page) -> str:
    """The HTML document. Raises RequirementMissing without jinja2 or plotly, which the extra ``report`` installs."""
    plots: list[Plot] = []

    def register(plot: Plot) -> int:
        plots.append(plot)
        return len(plots) - 1

    own = page.own or OwnScripts(PARTS, (), (), None, has_plots=False)
    body = render_part("page.html.jinja", PARTS, page=page, register=register, version=__version__)
    # Without plots, this script only unfolds everything for printing; a page's own scripts use it to draw.
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
    """Render a template of ``folder``, which may include templates of this package; values are escaped.

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
    """A document around ``body``, an output of ``render_part``, with a content security policy for ``scripts``.

    ``data`` maps element ids to values, embedded as JSON. ``kind`` is a class for the style sheet. Raises
    RequirementMissing without jinja2.
    """
    from markupsafe import Markup

    # These are safe: raidlab's own files, escaped output of a template, and JSON that cannot end its element.
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
    """The hash for the content security policy, which prevents scripts in imported results from running."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
