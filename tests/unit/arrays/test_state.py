from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.arrays.array import OpenArrays
from lab.arrays.kinds import MdArray
from lab.arrays.status import (
    CONTRADICTION_SECONDS,
    MDSTAT,
    SETTLE_SECONDS,
    ArrayState,
    SyncAction,
    SyncProgress,
    parse_array,
    parse_count,
    parse_flags,
    parse_progress,
    read_array,
    read_arrays,
    wait_until_idle,
)
from lab.errors import ArrayError, WaitTimedOut
from tests.unit.arrays.captures import labels, load, machine_with, show
from tests.unit.fakes import FakeClock, FakeMachine, Scripted
from tests.unit.session.looks import captured


@pytest.mark.parametrize("label", labels())
def test_every_capture_reads_without_an_unknown_word(label: str) -> None:
    status = captured(label)
    assert status.state is not ArrayState.UNKNOWN
    assert status.sync_action is not SyncAction.UNKNOWN
    assert status.size_bytes > 0
    assert status.metadata_version == "1.2"
    assert status.members
    assert status.in_sync_count + status.degraded_count >= status.raid_disks or status.awaits_rebuild


def test_all_arrays_take_one_batch_of_reads() -> None:
    one, every = machine_with("raid1"), machine_with("raid1")
    assert [status.name for status in (read_array(one, "md0"), *read_arrays(every))] == ["md0", "md0"]
    assert (len(one.listings), len(one.reads), len(every.reads)) == (1, 1, 1)
    assert read_arrays(FakeMachine(dirs={"/sys/block": ("sda", "md_d0")})) == ()


@pytest.mark.parametrize("state_text", ["clear\n", None])
def test_a_stopped_array_with_a_remaining_sysfs_folder_is_not_listed(state_text: str | None) -> None:
    fake = machine_with("raid1")
    fake.files["/sys/block/md0/md/array_state"] = state_text
    assert read_arrays(fake) == ()
    with pytest.raises(ArrayError, match="no array md0"):
        read_array(fake, "md0")


def test_a_rebuilding_raid5() -> None:
    status = captured("raid5-rebuilding")
    assert status.sync_action is SyncAction.RECOVER
    assert status.sync_progress is not None
    assert 0 <= status.sync_progress.fraction < 1
    assert (status.level, status.raid_disks, status.degraded_count) == ("raid5", 3, 1)
    assert status.awaits_rebuild
    assert status.member("/dev/ubdb").is_rebuilding
    assert status.has_bitmap
    with pytest.raises(ArrayError, match="is not a member"):
        status.member("/dev/ubdg")


@pytest.mark.parametrize(
    ("label", "facts"),
    [
        ("raid5-failed", {"is_degraded": True, "awaits_rebuild": False}),
        # A replacement rebuilds a member without degrading the array.
        ("raid1-replacing", {"is_degraded": False, "awaits_rebuild": True}),
        ("raid0", {"sync_action": SyncAction.NONE, "mismatch_sectors": None, "component_bytes": None}),
        ("raid0", {"state_words": "clean"}),
        # A fresh RAID 6 needs a resync even before the resync runs.
        ("raid6", {"awaits_resync": True}),
        ("raid6-assume-clean", {"awaits_resync": False}),
        ("raid5-broken", {"degraded_count": 2}),
        ("raid0-broken", {"state": ArrayState.BROKEN, "state.is_broken": True}),
        ("raid1-broken", {"state": ArrayState.BROKEN, "state.is_broken": True}),
        ("raid1-checking", {"state_words": "clean, checking"}),
        ("raid5-rebuilding", {"state_words": "clean, degraded, recovering"}),
    ],
)
def test_facts_of_captured_arrays(label: str, facts: dict[str, object]) -> None:
    status = captured(label)
    assert {name: attrgetter(name)(status) for name in facts} == facts


@pytest.mark.parametrize(
    ("label", "device", "facts"),
    [
        ("raid5-failed", "/dev/ubdb", {"is_faulty": True, "slot": None, "is_spare": False}),
        ("raid5-journal", "/dev/ubdd", {"is_journal": True, "slot": None, "is_spare": False}),
        ("raid5-bitmap-spare", "/dev/ubdd", {"is_spare": True}),
        ("raid1-replacing", "/dev/ubda", {"flags": {"in_sync", "want_replacement"}}),
        ("raid1-replacing", "/dev/ubdh", {"flags": {"spare", "replacement"}}),
    ],
)
def test_facts_of_captured_members(label: str, device: str, facts: dict[str, object]) -> None:
    member = captured(label).member(device)
    assert {name: getattr(member, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("label", "facts"),
    [
        ("raid0", {"array_size_kib": "1019904", "used_device_size_kib": "N/A", "consistency_policy": "none"}),
        ("raid1", {"array_size_kib": "510976", "used_device_size_kib": "510976", "consistency_policy": "resync"}),
        ("raid1", {"layout": "N/A", "chunk_kib": "N/A", "metadata": "1.2"}),
        ("raid5", {"array_size_kib": "1019904", "used_device_size_kib": "509952", "consistency_policy": "resync"}),
        ("raid5", {"layout": "left-symmetric"}),
        ("raid5-ppl", {"array_size_kib": "1017856", "used_device_size_kib": "508928", "consistency_policy": "ppl"}),
        ("raid5-journal", {"array_size_kib": "1019904", "used_device_size_kib": "509952"}),
        ("raid5-journal", {"consistency_policy": "journal"}),
        ("raid1-bitmap", {"consistency_policy": "bitmap"}),
        ("raid10-f2", {"layout": "f2", "chunk_kib": "64", "raid_devices": "4", "total_devices": "4"}),
        ("raid5-bitmap-spare", {"total_devices": "4"}),
    ],
)
def test_details_of_500_mib_members(label: str, facts: dict[str, str]) -> None:
    arrays = cast("OpenArrays", SimpleNamespace(machine=machine_with(label)))
    found = MdArray(arrays, "md0").details()
    assert {name: found[name] for name in facts} == facts


@pytest.mark.parametrize(
    ("flags", "slot", "words"),
    [
        ("in_sync", 1, "in sync, write-mostly"),
        ("spare", 1, "rebuilding, write-mostly"),
        ("spare", None, "spare, write-mostly"),
        ("faulty", None, "faulty, write-mostly"),
        ("blocked", 1, "blocked, write_mostly"),
    ],
)
def test_a_write_mostly_member_is_marked_once_in_every_state(flags: str, slot: int | None, words: str) -> None:
    member = replace(captured("raid1").member("/dev/ubdb"), slot=slot, flags=frozenset({flags, "write_mostly"}))
    assert member.state_words == words


def test_new_words_of_a_newer_kernel_are_tolerated() -> None:
    fake = machine_with("raid5")
    fake.files |= {
        "/sys/block/md0/md/array_state": "hibernating\n",
        "/sys/block/md0/md/sync_action": "defragment\n",
        "/sys/block/md0/md/dev-ubda/state": "in_sync,quantum\n",
        "/sys/block/md0/md/level": "raid7\n",
    }
    status = read_array(fake, "md0")
    assert status.state is ArrayState.UNKNOWN
    assert status.sync_action is SyncAction.UNKNOWN
    assert status.sync_action.is_busy
    assert status.member("/dev/ubda").flags == {"in_sync", "quantum"}
    assert status.layout is None


def test_files_that_vanish_while_reading_are_tolerated() -> None:
    record = load("raid5")
    status = parse_array("md0", record["entries"]["/sys/block/md0/md"], {})
    assert (status.raid_disks, status.degraded_count, status.size_bytes) == (0, 0, 0)
    assert {member.flags for member in status.members} == {frozenset()}


@pytest.mark.parametrize(
    ("text", "progress"),
    [("none\n", None), ("delayed\n", None), ("", None), ("1024 / 4096\n", SyncProgress(1024, 4096)), ("x / y", None)],
)
def test_progress(text: str, progress: SyncProgress | None) -> None:
    assert parse_progress(text) == progress


def test_counts() -> None:
    counts = [parse_count(text) for text in ("3 (2)\n", "none", "", "-1", "18446744073709551615")]
    assert counts == [3, None, None, None, 18446744073709551615]


@given(st.text(st.sampled_from("0189 ()/,-_+\n\tnx\u0663\u00b2\x00\x85\u2028") | st.characters()))
def test_no_text_upsets_the_parsers(text: str) -> None:
    parse_count(text)
    parse_progress(text)
    parse_flags(text)


PROGRESS = "/sys/block/md0/md/sync_completed"
ACTION = "/sys/block/md0/md/sync_action"


@pytest.mark.parametrize(("label", "least"), [("raid6-assume-clean", SETTLE_SECONDS), ("raid6", CONTRADICTION_SECONDS)])
def test_idle_must_persist_and_longer_beside_a_resync_that_is_owed(label: str, least: float) -> None:
    clock = FakeClock()
    fake = machine_with(label, clock)
    fake.files |= {ACTION: "idle\n", PROGRESS: "none\n"}
    wait_until_idle(fake, "md0")
    assert clock.now_seconds - 1000 >= least


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


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PROGRESS, "{done} / 405504\n"),
        (MDSTAT, "md0 : active raid5\n      [>....]  recovery =  0.1% ({done}/202752) finish=1min"),
    ],
)
def test_progress_that_either_file_shows_extends_the_wait(
    path: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.arrays.status.STALL_SECONDS", 10)
    fake = machine_with("raid5-rebuilding")

    def move(now_seconds: float) -> None:
        elapsed = now_seconds - 1000
        fake.files[path] = text.format(done=int(elapsed // 8) * 1000)
        if elapsed > 60:
            show(fake, "raid6-assume-clean")

    seen: list[str] = []
    fake.clock = FakeClock(on_sleep=move)
    wait_until_idle(fake, "md0", on_status=lambda status: seen.append(status.level))
    assert set(seen) == {"raid5", "raid6"}


def test_a_stalled_sync_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.arrays.status.STALL_SECONDS", 10)
    clock = FakeClock()
    with pytest.raises(WaitTimedOut, match="become idle") as caught:
        wait_until_idle(machine_with("raid5-rebuilding", clock), "md0")
    assert caught.value.hint
    assert clock.now_seconds - 1000 < 15


def test_a_sync_that_moves_for_ever_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.arrays.status.LONGEST_SECONDS", 100)
    fake = machine_with("raid5-rebuilding")

    def move(now_seconds: float) -> None:
        fake.files[PROGRESS] = f"{int(now_seconds)} / 405504\n"

    clock = fake.clock = FakeClock(on_sleep=move)
    with pytest.raises(WaitTimedOut):
        wait_until_idle(fake, "md0")
    assert 100 <= clock.now_seconds - 1000 < 105
