"""How an array stands, in a word or two and a tone. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.adapt.summary import VolumeArray
from tui.tones import Tone

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus
    from tui.state import LabState

BROKEN = "broken"
FIRST_SYNC = "first sync"


def condition(state: LabState, status: ArrayStatus) -> tuple[Tone, str]:
    """The worst that can be said of an array first."""
    if isinstance(status, VolumeArray):
        return _of_volume(state, status)
    if status.state.is_broken or has_lost_too_much(status):
        return Tone.BAD, BROKEN
    if status.name in state.first_syncs:
        return Tone.BUSY, FIRST_SYNC
    if status.is_degraded:
        if status.sync_action.is_busy:
            return Tone.NOTICE, "rebuilding"
        return (
            Tone.NOTICE,
            "waits to rebuild" if status.awaits_rebuild else f"degraded, {status.degraded_count} missing",
        )
    if status.sync_action.is_busy:
        return Tone.BUSY, str(status.sync_action)
    return Tone.GOOD, "whole" if status.level not in ("raid0", "linear") else "no redundancy"


def _of_volume(state: LabState, status: VolumeArray) -> tuple[Tone, str]:
    place = status.sync.place_words if status.sync else ""
    if status.whole.lost:
        return Tone.BAD, status.whole.state_words
    if status.name in state.first_syncs:
        return Tone.BUSY, FIRST_SYNC
    if status.is_degraded:
        if status.sync_action.is_busy:
            return Tone.NOTICE, f"rebuilding array {place}" if place else "rebuilding"
        missing = f"degraded, {status.degraded_count} missing"
        return Tone.NOTICE, "rebuild stands still" if status.is_interrupted else missing
    if status.sync_action.is_busy:
        return Tone.BUSY, f"{status.sync_action} of array {place}" if place else str(status.sync_action)
    return Tone.GOOD, "whole"


def has_lost_too_much(status: ArrayStatus) -> bool:
    """Whether more members are missing than the level survives: raid5 and raid6 say so only by their count."""
    from lab.errors import SpecError
    from lab.session.checks import level_of

    if not status.is_degraded:
        return False
    try:
        level = level_of(status)
    except SpecError:
        return False
    working = {member.slot for member in status.members if member.is_in_sync}
    lost = frozenset(slot for slot in range(status.raid_disks) if slot not in working)
    return not level.survives(lost, status.raid_disks)
