"""The page as HTML: one file with everything in it, that a browser shows without asking any network for anything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from lab import __version__
from lab.errors import RequirementMissing
from lab.report.page.build import Page
from lab.report.page.plot import Plot

PARTS = Path(__file__).with_name("parts")


class Linked(Protocol):
    """A section of a page, as the links at its top need it."""

    @property
    def anchor(self) -> str: ...

    @property
    def title(self) -> str: ...


def render_page(page: Page) -> str:
    """The whole document. Raises RequirementMissing without jinja2 and plotly, which the extra ``report`` brings."""
    plots: list[Plot] = []

    def register(plot: Plot) -> int:
        plots.append(plot)
        return len(plots) - 1

    return render_document(
        "report.html.jinja",
        PARTS,
        ("report.js",),
        lambda: [{"traces": plot.traces, "layout": plot.layout} for plot in plots],
        title=page.title,
        lead=page.lead,
        sections=page.sections,
        page=page,
        register=register,
    )


def render_document(
    template: str,
    folder: Path,
    scripts: Sequence[str],
    data: Callable[[], Any],
    *,
    styles: Sequence[str] = (),
    title: str,
    lead: str,
    sections: Sequence[Linked],
    **values: Any,
) -> str:
    """A page in the common frame (``frame.html.jinja``): its template, scripts and further styles lie in ``folder``.

    ``data`` is asked once the template is filled; scripts find what it says as JSON in the element ``figures``.
    Raises RequirementMissing without jinja2 and plotly.
    """
    environment = page_environment(folder)
    try:
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _missing(error) from None
    plotly = get_plotlyjs()
    script = "\n".join((_text(PARTS / "drawing.js"), *(_text(folder / name) for name in scripts)))
    style = "\n".join((_text(PARTS / "report.css"), *(_text(folder / name) for name in styles)))
    # Marked as safe: our own files, and JSON in which nothing can end the element.
    rendered: str = environment.get_template(template).render(
        title=title,
        lead=lead,
        sections=sections,
        version=__version__,
        data=lambda: Markup(_json(data())),
        style=Markup(style),
        plotly=Markup(plotly),
        script=Markup(script),
        script_hashes=Markup(" ".join(map(_hash, (plotly, script)))),
        **values,
    )
    return rendered


def page_environment(folder: Path) -> Any:
    """jinja2 with the templates of ``folder`` and those of this package; whatever is filled in is escaped.

    Raises RequirementMissing without jinja2.
    """
    try:
        import jinja2
    except ImportError as error:
        raise _missing(error) from None
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader((folder, PARTS)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


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
