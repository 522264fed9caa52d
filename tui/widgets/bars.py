"""Bars: how far a rebuild is and when it ends, and how much of something is used."""

from __future__ import annotations

from dataclasses import dataclass

from tui.glyphs import Glyphs
from tui.quantities import Unit, format_seconds, format_value
from tui.widgets.lines import Line, LineWidget, RowsWidget

_BAR_LEAST_CELLS = 8


def bar(fraction: float, cells: int, glyphs: Glyphs) -> tuple[str, str]:
    """The full and the empty part of a bar; together ``cells`` long."""
    exact = max(0.0, min(1.0, fraction)) * cells
    whole = int(exact)
    part = int((exact - whole) * (len(glyphs.bar_parts) + 1))
    full = glyphs.bar_full * whole + (glyphs.bar_parts[part - 1] if part and whole < cells else "")
    return full, glyphs.bar_empty * (cells - len(full))


@dataclass(frozen=True, slots=True)
class SyncView:
    """A rebuild, scrub or reshape, or any other work with an end."""

    action: str
    """What is going on, for people: ``rebuild``, ``check``."""
    fraction: float
    """0 to 1."""
    bytes_per_second: float | None = None
    eta_seconds: float | None = None
    note: str = ""
    """Said instead of rate and time left."""


class SyncBar(LineWidget):
    """One row: action, bar, per cent, rate, time left; what does not fit goes in that order from the end."""

    PREFIX = "sync-bar"
    DEFAULT_CSS = """
    SyncBar {
        height: 1;
        & > .sync-bar--action { color: $text-warning; text-style: bold; }
        & > .sync-bar--full { color: $text-warning; }
        & > .sync-bar--empty { color: $foreground 20%; }
        & > .sync-bar--text { color: $foreground; }
    }
    """

    _view: SyncView | None = None

    def show(self, view: SyncView | None) -> None:
        """Show this work, or None for no work."""
        if view != self._view:
            self._view = view
            self.changed()

    def paint(self, width: int, height: int) -> list[Line]:
        view = self._view
        line = self.line(width)
        if view is None:
            return [line]
        line.add(f"{self.glyphs.busy} {view.action} ", self.style("action"))
        texts = [f"{view.fraction * 100:.1f} %"]
        if view.note:
            texts.append(view.note)
        else:
            texts += [format_value(view.bytes_per_second, Unit.BYTES_PER_SECOND)] if view.bytes_per_second else []
            texts += [f"{format_seconds(round(view.eta_seconds))} left"] if view.eta_seconds is not None else []
        while len(texts) > 1 and line.room - len("  ".join(texts)) - 2 < _BAR_LEAST_CELLS:
            texts.pop()
        text = "  ".join(texts)
        full, empty = bar(view.fraction, max(0, line.room - len(text) - 1), self.glyphs)
        line.add(full, self.style("full")).add(empty, self.style("empty"))
        return [line.add(" ").add(text, self.style("text"))]


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole."""

    label: str
    fraction: float
    """0 to 1."""


class ShareBars(RowsWidget[Share]):
    """Parts of one whole below each other."""

    PREFIX = "share-bars"
    DEFAULT_CSS = """
    ShareBars {
        height: auto;
        & > .share-bars--label { color: $foreground-muted; }
        & > .share-bars--full { color: $text-warning; }
        & > .share-bars--empty { color: $foreground 20%; }
        & > .share-bars--text { color: $foreground; }
    }
    """

    def lines_needed(self, width: int) -> int:
        return len(self._rows)

    def paint(self, width: int, height: int) -> list[Line]:
        labels = max((len(row.label) for row in self._rows), default=0)
        lines = []
        for row in self._rows:
            text = f"{100 * row.fraction:5.1f} %"
            line = self.line(width).add(row.label.ljust(labels + 1), self.style("label"))
            full, empty = bar(row.fraction, max(0, line.room - len(text) - 1), self.glyphs)
            line.add(full, self.style("full")).add(empty, self.style("empty"))
            lines.append(line.add_right(text, self.style("text")))
        return lines
