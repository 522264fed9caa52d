from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.arrays.status import (
    ArrayState,
    ArrayStatus,
    SyncAction,
    SyncProgress,
    parse_array,
    parse_count,
    parse_export,
    parse_flags,
    parse_progress,
    read_array,
    read_arrays,
    read_detail,
)
from lab.errors import ArrayError
from tests.unit.arrays.captures import labels, load, machine_with
from tests.unit.fakes import FakeMachine


def status_of(label: str) -> ArrayStatus:
    return read_array(machine_with(label), "md0")


@pytest.mark.parametrize("label", labels())
def test_every_capture_reads_without_an_unknown_word(label: str) -> None:
    status = status_of(label)
    assert status.state is not ArrayState.UNKNOWN
    assert status.sync_action is not SyncAction.UNKNOWN
    assert status.size_bytes > 0
    assert status.metadata_version == "1.2"
    assert status.members
    assert status.in_sync_count + status.degraded_count >= status.raid_disks or status.awaits_rebuild


def test_one_round_trip_each_for_names_and_files() -> None:
    fake = machine_with("raid5")
    read_array(fake, "md0")
    assert (len(fake.listings), len(fake.reads)) == (1, 1)


def test_all_arrays_take_one_batch_of_reads() -> None:
    fake = machine_with("raid1")
    assert [status.name for status in read_arrays(fake)] == ["md0"]
    assert len(fake.reads) == 1
    assert read_arrays(FakeMachine(dirs={"/sys/block": ("sda", "md_d0")})) == ()


@pytest.mark.parametrize("state_text", ["clear\n", None])
def test_what_was_just_stopped_is_no_array_although_its_folder_is_still_there(state_text: str | None) -> None:
    fake = machine_with("raid1")
    fake.files["/sys/block/md0/md/array_state"] = state_text
    assert read_arrays(fake) == ()
    with pytest.raises(ArrayError, match="no array md0"):
        read_array(fake, "md0")


def test_an_array_that_is_not_there() -> None:
    with pytest.raises(ArrayError, match="no array md7") as caught:
        read_array(machine_with("raid1"), "md7")
    assert caught.value.hint


def test_a_rebuilding_raid5() -> None:
    status = status_of("raid5-rebuilding")
    assert status.sync_action is SyncAction.RECOVER
    assert status.sync_progress is not None
    assert 0 <= status.sync_progress.fraction < 1
    assert (status.level, status.raid_disks, status.degraded_count) == ("raid5", 3, 1)
    assert status.awaits_rebuild
    assert status.member("/dev/ubdb").is_rebuilding
    assert status.has_bitmap
    with pytest.raises(ArrayError, match="is not a member"):
        status.member("/dev/ubdg")


def test_a_failed_member_has_no_slot() -> None:
    status = status_of("raid5-failed")
    failed = status.member("/dev/ubdb")
    assert failed.is_faulty
    assert failed.slot is None
    assert not failed.is_spare
    assert status.is_degraded
    assert not status.awaits_rebuild


def test_a_replacement_rebuilds_without_degrading() -> None:
    status = status_of("raid1-replacing")
    assert not status.is_degraded
    assert status.awaits_rebuild
    assert status.member("/dev/ubda").flags == {"in_sync", "want_replacement"}
    assert "replacement" in status.member("/dev/ubdh").flags


def test_a_journal_is_neither_spare_nor_member_of_a_slot() -> None:
    journal = status_of("raid5-journal").member("/dev/ubdd")
    assert journal.is_journal
    assert journal.slot is None
    assert not journal.is_spare


def test_a_hot_spare_waits() -> None:
    assert [spare.device for spare in status_of("raid5-bitmap-spare").spares] == ["/dev/ubdd"]


def test_raid0_has_no_redundancy_to_tell_about() -> None:
    status = status_of("raid0")
    assert status.sync_action is SyncAction.NONE
    assert status.mismatch_sectors is None
    assert status.component_bytes is None


def test_a_fresh_raid6_owes_a_resync_even_before_it_runs() -> None:
    assert status_of("raid6").awaits_resync
    assert not status_of("raid6-assume-clean").awaits_resync


def test_broken_arrays() -> None:
    assert status_of("raid0-broken").state.is_broken
    assert status_of("raid1-broken").state.is_broken
    assert status_of("raid5-broken").degraded_count == 2


@pytest.mark.parametrize(
    ("label", "array_kib", "used_kib", "policy"),
    [
        ("raid0", 1019904, None, "none"),
        ("raid1", 510976, 510976, "resync"),
        ("raid5", 1019904, 509952, "resync"),
        ("raid5-ppl", 1017856, 508928, "ppl"),
        ("raid5-journal", 1019904, 509952, "journal"),
        ("raid1-bitmap", 510976, 510976, "bitmap"),
    ],
)
def test_details_of_500_mib_members(label: str, array_kib: int, used_kib: int | None, policy: str) -> None:
    detail = read_detail(machine_with(label), "md0")
    assert (detail.array_size_kib, detail.used_device_size_kib, detail.consistency_policy) == (
        array_kib,
        used_kib,
        policy,
    )
    assert detail.metadata_version == "1.2"
    assert detail.array_name == "any:0"
    assert detail.uuid


def test_details_name_chunk_layout_and_devices() -> None:
    detail = read_detail(machine_with("raid10-f2"), "md0")
    assert (detail.layout, detail.chunk_kib, detail.raid_devices, detail.total_devices) == ("f2", 64, 4, 4)
    assert read_detail(machine_with("raid5"), "md0").layout == "left-symmetric"
    assert read_detail(machine_with("raid5-bitmap-spare"), "md0").total_devices == 4
    assert read_detail(machine_with("raid1"), "md0").chunk_kib is None


def test_state_in_words() -> None:
    assert status_of("raid5-rebuilding").state_words.endswith("degraded, recovering")
    assert status_of("raid1-checking").state_words in ("clean, checking", "active, checking")
    assert status_of("raid0").state_words == "clean"


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
    assert read_detail(fake, "md0").layout is None


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
    assert [parse_count(text) for text in ("3 (2)\n", "none", "", "-1", "18446744073709551615")] == [
        3,
        None,
        None,
        None,
        18446744073709551615,
    ]


@given(st.text())
def test_no_text_upsets_the_parsers(text: str) -> None:
    parse_count(text)
    parse_progress(text)
    parse_flags(text)
    parse_export(text)


def test_export_keeps_equal_signs_in_values() -> None:
    assert parse_export("MD_NAME=any:0\nMD_X=a=b\nnoise\n") == {"MD_NAME": "any:0", "MD_X": "a=b"}
