"""A tile, which shows a figure with its label and unit, and a banner, which shows a verdict."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style

from tui.quantities import Unit, format_value
from tui.tones import Tone, tone_css
from tui.widgets.lines import FittedLines, Line, LineWidget, shorten, wrapped

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
        """Hide the banner."""
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
