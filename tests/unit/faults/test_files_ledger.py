"""What a file system owes after a power cut: the ledger of files, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from lab.faults.guest.file_ledger import FIRST_FILE, FileLedger, FileStates, of_writes

F = FIRST_FILE


def ledger(*events: list[Any]) -> FileLedger:
    return FileLedger(events)


def done(*event: Any) -> list[list[Any]]:
    """An event and that it ended."""
    return [list(event), ["acknowledged", event[1]]]


def cut(*events: list[Any]) -> FileStates:
    return ledger(*events).allowed(is_power_cut=True)


def test_a_new_file_is_owed_nothing_before_a_sync() -> None:
    states = cut(*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 16, 0))
    assert states.names == {"d0/f0": [0, F]}
    assert states.files[F] == (0, 16 * 512, {sector: [0, 2] for sector in range(16)})


def test_a_running_system_shows_all_that_ended() -> None:
    states = ledger(*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 8, 0)).allowed()
    assert states.names == {"d0/f0": [F]}
    assert states.files[F] == (4096, 4096, {sector: [2] for sector in range(8)})


def test_fsync_makes_data_and_size_sure_but_not_the_name() -> None:
    states = cut(*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 9, 0), *done("fsync", 3, F))
    assert states.names == {"d0/f0": [0, F]}
    assert states.files[F] == (9 * 512, 9 * 512, {sector: [2] for sector in range(9)})


def test_fsync_of_the_folder_makes_the_name_sure_but_not_the_data() -> None:
    states = cut(*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 1, 0), *done("fsync folder", 3, "d0"))
    assert states.names == {"d0/f0": [F]}
    assert states.files[F] == (0, 512, {0: [0, 2]})


def test_another_folders_sync_is_none_of_this_one() -> None:
    assert cut(*done("create", 1, F, "d0/f0"), *done("fsync folder", 2, "d1")).names == {"d0/f0": [0, F]}


def test_syncfs_makes_all_sure() -> None:
    states = cut(*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 1, 0), *done("syncfs", 3))
    assert states.names == {"d0/f0": [F]}
    assert states.files[F] == (512, 512, {0: [2]})


def test_a_sync_that_has_not_ended_promises_nothing() -> None:
    states = cut(*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 1, 0), ["fsync", 3, F])
    assert states.files[F] == (0, 512, {0: [0, 2]})


def test_a_write_that_ended_after_the_sync_began_is_not_covered() -> None:
    events = [*done("create", 1, F, "d0/f0"), ["write", 2, F, 0, 1, 0], ["fsync", 3, F]]
    states = cut(*events, ["acknowledged", 2], ["acknowledged", 3])
    assert states.files[F] == (0, 512, {0: [0, 2]})


def test_what_was_synced_stays_allowed_while_newer_writes_are_not() -> None:
    events = [*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 2, 0), *done("fsync", 3, F)]
    states = cut(*events, *done("write", 4, F, 1, 2, 0))
    assert states.files[F] == (1024, 3 * 512, {0: [2], 1: [2, 4], 2: [0, 4]})


def test_a_write_with_o_dsync_is_sure_by_itself_and_leaves_the_others_open() -> None:
    events = [*done("create", 1, F, "d0/f0"), *done("write", 2, F, 0, 1, 0), *done("write", 3, F, 1, 1, 1)]
    assert cut(*events).files[F] == (1024, 1024, {0: [0, 2], 1: [3]})


def test_a_write_that_failed_may_be_there_or_not() -> None:
    states = ledger(*done("create", 1, F, "d0/f0"), ["write", 2, F, 0, 1, 0], ["failed", 2]).allowed()
    assert states.files[F] == (0, 512, {0: [0, 2]})


def replaced(*more: list[Any]) -> list[list[Any]]:
    """An old file, sure, and a new one renamed over it."""
    return [
        *done("create", 1, F, "d0/f0"),
        *done("fsync folder", 2, "d0"),
        *done("create", 3, F + 1, "d0/.f0.new"),
        *done("write", 4, F + 1, 0, 1, 0),
        *done("fsync", 5, F + 1),
        *done("rename", 6, "d0/.f0.new", "d0/f0"),
        *more,
    ]


def test_renamed_over_another_it_is_the_old_or_the_new_one() -> None:
    states = cut(*replaced())
    assert states.names == {"d0/f0": [F, F + 1], "d0/.f0.new": [0, F + 1, 0]}
    assert states.files[F + 1] == (512, 512, {0: [4]})
    sure, later = states.folders["d0"]
    assert sure == {"d0/f0": F}
    assert [event[0] for event in later] == ["create", "rename"]


def test_after_the_folders_sync_it_is_the_new_one_alone() -> None:
    states = cut(*replaced(*done("fsync folder", 7, "d0")))
    assert states.names == {"d0/f0": [F + 1]}
    assert list(states.files) == [F + 1]


def test_a_removed_file_may_come_back_until_its_folder_is_synced() -> None:
    before = [*done("create", 1, F, "d0/f0"), *done("fsync folder", 2, "d0"), *done("unlink", 3, "d0/f0")]
    assert cut(*before).names == {"d0/f0": [F, 0]}
    assert cut(*before, *done("fsync folder", 4, "d0")).names == {}


def test_an_earlier_moment_knows_nothing_of_later_events() -> None:
    whole = ledger(*replaced(*done("fsync folder", 7, "d0")))
    assert whole.allowed(4, is_power_cut=True).names == {"d0/f0": [F]}
    # The rename has come and has not ended.
    assert whole.allowed(11, is_power_cut=True).names["d0/f0"] == [F, F + 1]


def test_a_fresh_start_forgets_all_but_what_was_seen() -> None:
    told = ledger(*replaced(), ["fresh", 8], ["there", 9, F + 1, "d0/f0", [[4, 1], [0, 2]]])
    states = told.allowed(is_power_cut=True)
    assert states.names == {"d0/f0": [F + 1]}
    assert states.files[F + 1] == (3 * 512, 3 * 512, {0: [4], 1: [0], 2: [0]})
    assert told.present() == ({"d0/f0": F + 1}, {F + 1: 3})
    assert (told.newest, told.newest_file) == (9, F + 1)
    # What an earlier moment owed is still known.
    assert told.allowed(12, is_power_cut=True).names["d0/f0"] == [F, F + 1]


def test_a_file_without_a_write_has_a_size_too() -> None:
    assert ledger(*done("create", 1, F, "d0/f0")).present() == ({"d0/f0": F}, {F: 0})


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ([], (0, 0, {})),
        ([(1, 0, 1, True), (2, 0, 1, True)], (512, 512, {0: [2]})),
        ([(1, 0, 1, True), (2, 4, 1, False)], (512, 2560, {0: [1], 4: [0, 2]})),
    ],
)
def test_writes_by_themselves(writes: list[tuple[int, int, int, bool]], expected: object) -> None:
    assert of_writes(writes) == expected
