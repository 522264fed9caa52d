"""Bars: how far a rebuild is and when it ends, and how much of something is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style

from tui.glyphs import Glyphs
from tui.quantities import Unit, format_seconds, format_value
from tui.tones import Tone
from tui.widgets.lines import Line, LineWidget, shorten

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
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "sync-bar--action",
        "sync-bar--full",
        "sync-bar--empty",
        "sync-bar--text",
        "sync-bar--idle",
    }
    DEFAULT_CSS = """
    SyncBar {
        height: 1;
        & > .sync-bar--action { color: $text-warning; text-style: bold; }
        & > .sync-bar--full { color: $text-warning; }
        & > .sync-bar--empty { color: $foreground 20%; }
        & > .sync-bar--text { color: $foreground; }
        & > .sync-bar--idle { color: $foreground-muted; }
    }
    """

    def __init__(
        self,
        *,
        idle_text: str = "",
        id: str | None = None,  # noqa: A002 (textual's name)
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.idle_text = idle_text
        self._view: SyncView | None = None

    def show(self, view: SyncView | None) -> None:
        """Show this work, or None for no work."""
        if view != self._view:
            self._view = view
            self.changed()

    def paint(self, width: int, height: int) -> list[Line]:
        view = self._view
        line = self.line(width)
        if view is None:
            return [line.add(shorten(self.idle_text, width, self.glyphs.ellipsis), self.style("idle"))]
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


class Gauge(LineWidget):
    """One row: label, bar, text. The tone rises with the value where limits are given."""

    PREFIX = "gauge"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "gauge--label",
        "gauge--empty",
        "gauge--text",
        *(f"gauge--{tone}" for tone in Tone),
    }
    DEFAULT_CSS = """
    Gauge {
        height: 1;
        & > .gauge--label { color: $foreground-muted; }
        & > .gauge--text { color: $foreground; }
        & > .gauge--empty { color: $foreground 20%; }
        & > .gauge--good { color: $text-success; }
        & > .gauge--bad { color: $text-error; }
        & > .gauge--notice { color: $text-warning; }
        & > .gauge--busy { color: $text-primary; }
        & > .gauge--quiet { color: $foreground-muted; }
    }
    """

    def __init__(
        self,
        label: str,
        *,
        label_cells: int | None = None,
        id: str | None = None,  # noqa: A002 (textual's name)
        classes: str | None = None,
    ) -> None:
        """``label_cells`` makes the bars of several gauges begin in one column."""
        super().__init__(id=id, classes=classes)
        self.label = label
        self.label_cells = label_cells if label_cells is not None else len(label)
        self._shown: tuple[float | None, str, Tone] = (None, "", Tone.BUSY)

    def show(self, fraction: float | None, text: str = "", tone: Tone = Tone.BUSY) -> None:
        """Show a part of a whole, 0 to 1; None for no value."""
        if (fraction, text, tone) != self._shown:
            self._shown = (fraction, text, tone)
            self.changed()

    def paint(self, width: int, height: int) -> list[Line]:
        fraction, text, tone = self._shown
        line = self.line(width)
        line.add(shorten(self.label, self.label_cells, self.glyphs.ellipsis).ljust(self.label_cells) + " ", self._label)
        said = text or format_value(fraction, Unit.FRACTION)
        cells = max(0, line.room - len(said) - 1)
        full, empty = bar(fraction or 0.0, cells, self.glyphs)
        line.add(full, self.style(tone.value)).add(empty, self.style("empty"))
        return [line.add(" ").add(said, self.style("text"))]

    @property
    def _label(self) -> Style:
        return self.style("label")
