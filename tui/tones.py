"""Tones: the condition of something as a colour together with a character, so that colour alone never shows it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from tui.glyphs import Glyphs

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus
    from tui.state import LabState


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


BROKEN = "broken"
FIRST_SYNC = "first sync"


def condition(state: LabState, status: ArrayStatus) -> tuple[Tone, str]:
    """The condition of an array as (tone, words); if several conditions apply, the worst one."""
    place = status.sync_place
    if status.has_lost_data:
        return Tone.BAD, status.loss_words or BROKEN
    if status.name in state.first_syncs:
        return Tone.BUSY, FIRST_SYNC
    if status.is_degraded:
        if status.sync_action.is_busy:
            return Tone.NOTICE, f"rebuilding array {place}" if place else "rebuilding"
        missing = f"degraded, {status.degraded_count} missing"
        return Tone.NOTICE, status.waits_words if status.awaits_rebuild else missing
    if status.sync_action.is_busy:
        return Tone.BUSY, f"{status.sync_action.noun} of array {place}" if place else status.sync_action.noun
    return Tone.GOOD, "whole" if status.is_redundant else "no redundancy"
