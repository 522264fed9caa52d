"""How something stands, as a colour and a sign together: no state is told by colour alone."""

from __future__ import annotations

from enum import StrEnum

from tui.glyphs import Glyphs


class Tone(StrEnum):
    """The closed set of moods; the value is also the CSS class that gives the colour."""

    GOOD = "good"
    BAD = "bad"
    NOTICE = "notice"
    BUSY = "busy"
    QUIET = "quiet"

    def glyph(self, glyphs: Glyphs) -> str:
        """The sign that goes with the colour."""
        signs = {
            Tone.GOOD: glyphs.good,
            Tone.BAD: glyphs.bad,
            Tone.NOTICE: glyphs.notice,
            Tone.BUSY: glyphs.busy,
            Tone.QUIET: glyphs.quiet,
        }
        return signs[self]
