"""What of a sweep's page is drawn without a reader's choice, as plots."""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.page.plot import Plot, Trace, colour, number, plain
from lab.sweep.effects import Sensitivity, sensitivities
from lab.sweep.grid import Axis, SweepGrid

_PATTERNS = ("", "/", "x", ".", "\\", "-", "+", "|")
_BAR_PIXELS, _FRAME_PIXELS = 26, 120
_FULL = 101.0
"""Of the axis: 100 per cent, and a little room."""


def sensitivity_plot(grid: SweepGrid) -> Plot:
    """A stacked bar for each group of figures, a part for each axis."""
    # Plotly counts places from below.
    groups = sensitivities(grid)[::-1]
    places = list(range(len(groups)))
    most = max(map(_together, groups), default=0.0)
    layout = {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": {
            "title": {"text": "per cent of the variance; what is missing to 100 are interactions and noise"},
            "range": [0, number(1.02 * most) if most > _FULL else _FULL],
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.01,
            "yanchor": "bottom",
            "traceorder": "normal",
            "font": {"size": 12},
        },
        "yaxis": {
            "tickvals": places,
            "ticktext": [plain(group.title) for group in groups],
            "zeroline": False,
            "showgrid": False,
        },
    }
    traces = [_axis_bars(axis, place, groups) for place, axis in enumerate(grid.axes)]
    title = "Share of the variance of log IOPS that each axis explains alone"
    height = _FRAME_PIXELS + _BAR_PIXELS * len(groups)
    return Plot(title, "The same figures stand in the table below.", traces, layout, height)


def _axis_bars(axis: Axis, place: int, groups: Sequence[Sensitivity]) -> Trace:
    shares = [{effect.axis: effect.share for effect in group.effects}.get(axis.name, 0.0) for group in groups]
    pattern = {"shape": _PATTERNS[place % len(_PATTERNS)], "fgcolor": "@paper", "fgopacity": 0.55, "size": 7}
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(axis.title),
        "y": list(range(len(groups))),
        "x": [number(100 * share) for share in shares],
        "marker": {"color": colour(place), "pattern": pattern | {"fillmode": "overlay"}},
        "hovertemplate": f"%{{x:.3~g}} %<extra>{plain(axis.title)}</extra>",
    }


def _together(group: Sensitivity) -> float:
    """In per cent; where combinations are missing, the shares overlap and may add up to more than 100."""
    return 100 * sum(effect.share for effect in group.effects)
