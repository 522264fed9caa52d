"""Tones: the condition of something as a colour together with a character, so that colour alone never shows it."""

from __future__ import annotations

from enum import StrEnum

from tui.glyphs import Glyphs


class Tone(StrEnum):
    """The tones; the value is also the CSS class with the colour, and the name of the character in ``Glyphs``."""

    GOOD = "good"
    BAD = "bad"
    NOTICE = "notice"
    BUSY = "busy"
    QUIET = "quiet"

    def glyph(self, glyphs: Glyphs) -> str:
        """The character of the tone."""
        sign: str = getattr(glyphs, self.value)
        return sign

    @property
    def style(self) -> str:
        """The colour of the tone, as a style for text."""
        return _STYLES[self]


_STYLES = {
    Tone.GOOD: "$text-success",
    Tone.BAD: "$text-error",
    Tone.NOTICE: "$text-warning",
    Tone.BUSY: "$text-primary",
    Tone.QUIET: "$foreground-muted",
}


def tone_css(prefix: str, *, quiet: str = _STYLES[Tone.QUIET]) -> str:
    """CSS rules for a widget with a component class ``PREFIX--TONE`` for each tone."""
    styles = _STYLES | {Tone.QUIET: quiet}
    return "".join(f"& > .{prefix}--{tone} {{ color: {style}; }}\n" for tone, style in styles.items())
