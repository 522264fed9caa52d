"""How something stands, as a colour and a sign together: no state is told by colour alone."""

from __future__ import annotations

from enum import StrEnum

from tui.glyphs import Glyphs


class Tone(StrEnum):
    """The closed set of moods; the value is also the CSS class that gives the colour, and the name of its sign."""

    GOOD = "good"
    BAD = "bad"
    NOTICE = "notice"
    BUSY = "busy"
    QUIET = "quiet"

    def glyph(self, glyphs: Glyphs) -> str:
        """The sign that goes with the colour."""
        sign: str = getattr(glyphs, self.value)
        return sign

    @property
    def style(self) -> str:
        """The colour, for text."""
        return _STYLES[self]


_STYLES = {
    Tone.GOOD: "$text-success",
    Tone.BAD: "$text-error",
    Tone.NOTICE: "$text-warning",
    Tone.BUSY: "$text-primary",
    Tone.QUIET: "$foreground-muted",
}


def tone_css(prefix: str, *, quiet: str = _STYLES[Tone.QUIET]) -> str:
    """Rules of a widget's style sheet: a component ``PREFIX--TONE`` for each tone."""
    styles = _STYLES | {Tone.QUIET: quiet}
    return "".join(f"& > .{prefix}--{tone} {{ color: {style}; }}\n" for tone, style in styles.items())
