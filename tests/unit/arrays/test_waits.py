from __future__ import annotations

import pytest

from lab.arrays.status import CONTRADICTION_SECONDS, SETTLE_SECONDS, wait_until_idle
from lab.errors import WaitTimedOut
from tests.unit.arrays.captures import machine_with, show
from tests.unit.fakes import FakeClock, Scripted

PROGRESS = "/sys/block/md0/md/sync_completed"
ACTION = "/sys/block/md0/md/sync_action"


def test_idle_must_persist() -> None:
    clock = FakeClock()
    wait_until_idle(machine_with("raid6-assume-clean", clock), "md0")
    assert clock.now_seconds - 1000 >= SETTLE_SECONDS


def test_idle_beside_an_owed_resync_is_not_believed_at_once() -> None:
    clock = FakeClock()
    fake = machine_with("raid6", clock)
    fake.files |= {ACTION: "idle\n", PROGRESS: "none\n"}
    wait_until_idle(fake, "md0")
    assert clock.now_seconds - 1000 >= CONTRADICTION_SECONDS


def test_an_array_that_grew_by_way_of_raid4_is_awaited_until_mdadm_has_turned_it_back() -> None:
    fake = machine_with("raid0-grow-reshaping")
    fake.files |= {ACTION: "idle\n", PROGRESS: "none\n", "/sys/block/md0/md/reshape_position": "none\n"}
    fake.answers[("pgrep", "-f")] = Scripted("814\n")

    def end(now_seconds: float) -> None:
        if now_seconds - 1000 > 6:
            fake.answers[("pgrep", "-f")] = Scripted(status=1)
            show(fake, "raid0")

    clock = fake.clock = FakeClock(on_sleep=end)
    assert wait_until_idle(fake, "md0").level == "raid0"
    assert clock.now_seconds - 1000 > 6


def test_a_raid4_without_its_parity_is_not_waited_for() -> None:
    fake = machine_with("raid0-grow-reshaping")
    fake.files |= {ACTION: "idle\n", PROGRESS: "none\n", "/sys/block/md0/md/reshape_position": "none\n"}
    fake.answers[("pgrep", "-f")] = Scripted(status=1)
    clock = fake.clock = FakeClock()
    assert wait_until_idle(fake, "md0").level == "raid4"
    assert clock.now_seconds - 1000 < CONTRADICTION_SECONDS + 1
    assert fake.runs[-1] == ("pgrep", "-f", "^([^ ]*/)?mdadm --grow (.* )?/dev/md0( |$)")


def test_progress_extends_the_wait() -> None:
    fake = machine_with("raid5-rebuilding")

    def move(now_seconds: float) -> None:
        elapsed = now_seconds - 1000
        fake.files[PROGRESS] = f"{int(elapsed // 8) * 1000} / 405504\n"
        if elapsed > 60:
            show(fake, "raid6-assume-clean")

    seen: list[str] = []
    fake.clock = FakeClock(on_sleep=move)
    wait_until_idle(fake, "md0", stall_seconds=10, on_look=lambda status: seen.append(status.level))
    assert set(seen) == {"raid5", "raid6"}


def test_a_stalled_sync_is_given_up() -> None:
    clock = FakeClock()
    with pytest.raises(WaitTimedOut, match="become idle") as caught:
        wait_until_idle(machine_with("raid5-rebuilding", clock), "md0", stall_seconds=10)
    assert caught.value.hint
    assert clock.now_seconds - 1000 < 15


def test_a_sync_that_moves_for_ever_is_given_up_at_the_deadline() -> None:
    fake = machine_with("raid5-rebuilding")

    def move(now_seconds: float) -> None:
        fake.files[PROGRESS] = f"{int(now_seconds)} / 405504\n"

    clock = fake.clock = FakeClock(on_sleep=move)
    with pytest.raises(WaitTimedOut):
        wait_until_idle(fake, "md0", stall_seconds=10, timeout_seconds=100)
    assert 100 <= clock.now_seconds - 1000 < 105
