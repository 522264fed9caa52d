"""Bars: the progress of a sync or other work, and shares of a whole."""

from __future__ import annotations

from dataclasses import dataclass

from tui.glyphs import Glyphs
from tui.quantities import Unit, format_seconds, format_value
from tui.widgets.lines import Line, LineWidget, RowsWidget

_BAR_LEAST_CELLS = 8


def bar(fraction: float, cells: int, glyphs: Glyphs) -> tuple[str, str]:
    """(full part, empty part) of a bar; together they are ``cells`` wide."""
    exact = max(0.0, min(1.0, fraction)) * cells
    whole = int(exact)
    part = int((exact - whole) * (len(glyphs.bar_parts) + 1))
    full = glyphs.bar_full * whole + (glyphs.bar_parts[part - 1] if part and whole < cells else "")
    return full, glyphs.bar_empty * (cells - len(full))


@dataclass(frozen=True, slots=True)
class SyncView:
    """The progress of a rebuild, a scrub, a reshape or other work."""

    action: str
    """The name of the work: ``rebuild``, ``check``."""
    fraction: float
    """Progress, 0 to 1."""
    bytes_per_second: float | None = None
    eta_seconds: float | None = None
    note: str = ""
    """Shown in place of the rate and the remaining time."""


class SyncBar(LineWidget):
    """One row: action, bar, per cent, rate, remaining time; what does not fit is omitted from the end."""

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
        """Show this progress; None: nothing."""
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
    """A labelled share of a whole."""

    label: str
    fraction: float
    """The share, 0 to 1."""


class ShareBars(RowsWidget[Share]):
    """The parts of a whole, one bar per line."""

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
