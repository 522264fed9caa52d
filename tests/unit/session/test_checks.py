"""Why an operation is refused, and what to do next."""

from __future__ import annotations

from dataclasses import replace

from lab.arrays.kinds import cannot_do_without
from lab.arrays.status import SyncAction
from tests.unit.session.looks import captured


def test_a_disk_is_refused_with_a_way_to_insist() -> None:
    idle = replace(captured("raid5-rebuilding"), sync_action=SyncAction.IDLE)
    refusal = cannot_do_without((idle,), "disk02", forced="fails")
    assert refusal.message == "array md0 cannot do without disk02: its data would be lost"
    assert refusal.hint == "--break-array fails it all the same"


def test_while_parity_is_computed_the_next_thing_is_to_wait() -> None:
    refusal = cannot_do_without((captured("raid5-rebuilding"),), "disk02", forced="pulls")
    assert "cannot do without disk02 yet" in refusal.message
    assert "raidlab array wait md0" in refusal.hint
    assert "--break-array pulls" in refusal.hint
