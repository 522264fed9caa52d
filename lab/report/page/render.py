"""The page as HTML: one file with everything in it, that a browser shows without asking any network for anything."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec

from lab import __version__
from lab.errors import RequirementMissing
from lab.report.page.build import Page
from lab.report.page.plot import Plot

PARTS = Path(__file__).with_name("parts")


def render_page(page: Page) -> str:
    """The whole document. Raises RequirementMissing without jinja2 and plotly, which the extra ``report`` brings."""
    try:
        import jinja2
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise RequirementMissing(
            f"an HTML report needs {error.name or 'plotly'}", hint="install it: pip install 'raidlab[report]'"
        ) from None
    plots: list[Plot] = []

    def register(plot: Plot) -> int:
        plots.append(plot)
        return len(plots) - 1

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PARTS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    plotly, script = get_plotlyjs(), _part("report.js")
    # Marked as safe: our own files, and JSON in which nothing can end the element.
    return environment.get_template("report.html.jinja").render(
        page=page,
        version=__version__,
        register=register,
        figures=lambda: Markup(_json(plots)),
        style=Markup(_part("report.css")),
        plotly=Markup(plotly),
        script=Markup(script),
        script_hashes=Markup(" ".join(map(_hash, (plotly, script)))),
    )


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """For the page's policy: only these scripts run, whatever a stranger's result may hold."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _json(plots: list[Plot]) -> str:
    value: Any = [{"traces": plot.traces, "layout": plot.layout} for plot in plots]
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
