"""Figures and verdicts: a tile with a figure, a banner with a verdict, a bar of progress, shares of a whole."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from tui.look import Glyphs, Tone, tone_css
from tui.quantities import Unit, format_seconds, format_value
from tui.widgets.lines import FittedLines, Line, LineWidget, shorten, wrapped

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
    """One row: action, bar, per cent, rate, remaining time; parts that do not fit are omitted from the end."""

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


_BOLD = Style(bold=True)


class Tile(LineWidget):
    """A label above a figure, and a note: below it if there are three rows, else after it."""

    PREFIX = "tile"
    DEFAULT_CSS = """
    Tile {
        height: 2;
        width: 1fr;
        min-width: 10;
        & > .tile--label { color: $foreground-muted; }
        & > .tile--note { color: $foreground-muted; }
    """ + tone_css("tile", quiet="$foreground") + "}"  # fmt: skip

    def __init__(self, label: str, *, id: str | None = None) -> None:  # noqa: A002 (textual's name)
        super().__init__(id=id)
        self.label = label
        self._shown = ("–", Tone.QUIET, "")

    def show(self, value: float | None, unit: Unit, tone: Tone = Tone.QUIET, note: str = "") -> None:
        """Show a measured value."""
        self.say(format_value(value, unit), tone, note)

    def say(self, text: str, tone: Tone = Tone.QUIET, note: str = "") -> None:
        """Show a text, such as a figure with its unit."""
        if (text, tone, note) != self._shown:
            self._shown = (text, tone, note)
            self.changed()

    def paint(self, width: int, height: int) -> list[Line]:
        text, tone, note = self._shown
        ellipsis = self.glyphs.ellipsis
        sign = "" if tone is Tone.QUIET else f"{tone.glyph(self.glyphs)} "
        figure = self.line(width).add(sign, self.style(tone.value))
        figure.add(shorten(text, figure.room, ellipsis), self.style(tone.value) + _BOLD)
        lines = [self.line(width).add(shorten(self.label, width, ellipsis), self.style("label")), figure]
        if height == 2 and note and figure.room > 5:
            figure.add("  ").add(shorten(note, figure.room - 1, ellipsis), self.style("note"))
        elif note:
            lines += [
                self.line(width).add(part, self.style("note")) for part in wrapped(note, width)[: max(0, height - 2)]
            ]
        return lines


class VerdictBanner(FittedLines):
    """A verdict as a highlighted headline, and a sentence."""

    PREFIX = "verdict"
    DEFAULT_CSS = """
    VerdictBanner {
        height: auto;
        & > .verdict--sentence { color: $foreground; }
        & > .verdict--good { color: $text-success; background: $success 30%; text-style: bold; }
        & > .verdict--bad { color: $text-error; background: $error 30%; text-style: bold; }
        & > .verdict--notice { color: $text-warning; background: $warning 30%; text-style: bold; }
        & > .verdict--busy { color: $text-primary; background: $primary 30%; text-style: bold; }
        & > .verdict--quiet { color: $foreground-muted; background: $foreground 10%; text-style: bold; }
    }
    """

    _shown: tuple[Tone, str, str] | None = None

    def show(self, tone: Tone, headline: str, sentence: str = "") -> None:
        """Show a verdict, such as GOOD, ``DATA INTACT`` and a sentence about the comparison."""
        self.display = True
        if (tone, headline, sentence) != self._shown:
            self._shown = (tone, headline, sentence)
            self.changed(layout=True)

    def clear(self) -> None:
        self.display = False
        if self._shown is not None:
            self._shown = None
            self.changed(layout=True)

    def paint(self, width: int, height: int) -> list[Line]:
        if self._shown is None:
            return []
        tone, headline, sentence = self._shown
        first = self.line(width).add(f" {tone.glyph(self.glyphs)} {headline} ", self.style(tone.value))
        if cell_len(sentence) + 2 <= first.room:
            return [first.add("  ").add(sentence, self.style("sentence"))]
        return [first, *(self.line(width).add(text, self.style("sentence")) for text in wrapped(sentence, width))]
