"""How an array stands, in a word or two and a tone. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.tones import Tone

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus
    from tui.state import LabState

BROKEN = "broken"
FIRST_SYNC = "first sync"


def condition(state: LabState, status: ArrayStatus) -> tuple[Tone, str]:
    """The worst that can be said of an array first."""
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
