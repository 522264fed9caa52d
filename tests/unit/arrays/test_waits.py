from __future__ import annotations

import pytest

from lab.arrays.waits import CONTRADICTION_SECONDS, SETTLE_SECONDS, wait_for_rebuild_start, wait_until_idle
from lab.errors import WaitTimedOut
from tests.unit.arrays.captures import machine_with, show
from tests.unit.fakes import FakeClock, FakeMachine

PROGRESS = "/sys/block/md0/md/sync_completed"
ACTION = "/sys/block/md0/md/sync_action"


def test_idle_must_persist() -> None:
    clock = FakeClock()
    wait_until_idle(machine_with("raid6-assume-clean"), "md0", clock=clock)
    assert clock.now_seconds - 1000 >= SETTLE_SECONDS


def test_idle_beside_an_owed_resync_is_not_believed_at_once() -> None:
    fake = machine_with("raid6")
    fake.files |= {ACTION: "idle\n", PROGRESS: "none\n"}
    clock = FakeClock()
    wait_until_idle(fake, "md0", clock=clock)
    assert clock.now_seconds - 1000 >= CONTRADICTION_SECONDS


def test_progress_extends_the_wait() -> None:
    fake = machine_with("raid5-rebuilding")

    def move(now_seconds: float) -> None:
        elapsed = now_seconds - 1000
        fake.files[PROGRESS] = f"{int(elapsed // 8) * 1000} / 405504\n"
        if elapsed > 60:
            show(fake, "raid6-assume-clean")

    seen: list[str] = []
    wait_until_idle(
        fake, "md0", stall_seconds=10, clock=FakeClock(on_sleep=move), on_look=lambda status: seen.append(status.level)
    )
    assert set(seen) == {"raid5", "raid6"}


def test_a_stalled_sync_is_given_up() -> None:
    clock = FakeClock()
    with pytest.raises(WaitTimedOut, match="become idle") as caught:
        wait_until_idle(machine_with("raid5-rebuilding"), "md0", stall_seconds=10, clock=clock)
    assert caught.value.hint
    assert clock.now_seconds - 1000 < 15


def test_a_sync_that_moves_for_ever_is_given_up_at_the_deadline() -> None:
    fake = machine_with("raid5-rebuilding")

    def move(now_seconds: float) -> None:
        fake.files[PROGRESS] = f"{int(now_seconds)} / 405504\n"

    clock = FakeClock(on_sleep=move)
    with pytest.raises(WaitTimedOut):
        wait_until_idle(fake, "md0", stall_seconds=10, timeout_seconds=100, clock=clock)
    assert 100 <= clock.now_seconds - 1000 < 105


def turning(first: str, second: str) -> tuple[FakeMachine, FakeClock]:
    """A machine that shows ``first`` and, one second later, ``second``."""
    fake = machine_with(first)
    return fake, FakeClock(on_sleep=lambda now: show(fake, second) if now > 1001 else None)


def test_a_rebuild_starts_after_an_instant_of_idle() -> None:
    fake, clock = turning("raid5-failed", "raid5-rebuilding")
    status = wait_for_rebuild_start(fake, "md0", clock=clock)
    assert status.sync_progress is not None
    assert clock.now_seconds - 1000 >= 1 + SETTLE_SECONDS


def test_a_replacement_counts_as_a_rebuild() -> None:
    assert wait_for_rebuild_start(machine_with("raid1-replacing"), "md0", clock=FakeClock()).awaits_rebuild


def test_a_rebuild_that_is_over_already() -> None:
    assert not wait_for_rebuild_start(machine_with("raid6-assume-clean"), "md0", clock=FakeClock()).is_degraded


def test_recover_without_progress_is_not_believed() -> None:
    fake = machine_with("raid5-rebuilding")
    fake.files[PROGRESS] = "none\n"
    with pytest.raises(WaitTimedOut, match="rebuild of md0 to start"):
        wait_for_rebuild_start(fake, "md0", timeout_seconds=3, clock=FakeClock())


def test_nothing_to_rebuild_on() -> None:
    with pytest.raises(WaitTimedOut) as caught:
        wait_for_rebuild_start(machine_with("raid5-failed"), "md0", timeout_seconds=3, clock=FakeClock())
    assert "add a spare" in caught.value.hint
