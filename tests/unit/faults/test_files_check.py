"""The verdict on files, on bytes made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lab.faults.guest.file_ledger import FIRST_FILE, FileLedger
from lab.faults.guest.files import ARBITRARY, HAS_NAME, IN_ORDER, IS_WHOLE, FilesCheck, Found, content_of, read_files
from lab.faults.guest.ledger import Content
from tests.unit.faults.test_files_ledger import done, replaced

F = FIRST_FILE
CONTENT = Content("1")
LOST, CORRUPT = "lost after acknowledgement", "silently corrupt"


def sectors(file: int, *runs: tuple[int, int]) -> bytes:
    """Runs of (generation, sectors) from the file's beginning; generation 0 is zeros."""
    data, first = b"", 0
    for generation, count in runs:
        data += content_of(CONTENT, file, first, count, generation) if generation else bytes(count * 512)
        first += count
    return data


def check(
    events: list[list[Any]], files: dict[str, bytes], *, is_power_cut: bool = True, is_arbitrary: bool = False
) -> FilesCheck:
    ledger = FileLedger(events)
    found = {name: Found(data) for name, data in files.items()}
    states = ledger.allowed(is_power_cut=is_power_cut)
    made = FilesCheck(CONTENT, states, found, is_arbitrary=is_arbitrary)
    made.look_for_more(ledger, len(events))
    return made


def written() -> list[list[Any]]:
    """A file of 12 sectors, all sure, and then one write of sectors 8 to 19 that is not."""
    return [
        *done("create", 1, F, "d0/f0"),
        *done("write", 2, F, 0, 12, 0),
        *done("syncfs", 3),
        *done("write", 4, F, 8, 12, 0),
    ]


@pytest.mark.parametrize(
    ("runs", "verdicts"),
    [
        ([(2, 12)], {"intact": 1, "in-flight old": 2}),
        ([(2, 8), (4, 12)], {"intact": 1, "in-flight new": 2}),
        ([(2, 12), (4, 8)], {"intact": 1, "torn": 1, "in-flight new": 1}),
        # It has grown, and its data have not come.
        ([(2, 12), (0, 8)], {"intact": 1, "in-flight old": 2}),
    ],
)
def test_what_is_allowed(runs: list[tuple[int, int]], verdicts: dict[str, int]) -> None:
    found = check(written(), {"d0/f0": sectors(F, *runs)})
    assert (found.bad, found.blocks, found.files) == ([], verdicts, {"intact": 1})


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


WHOLE = sectors(F, (2, 12))


@pytest.mark.parametrize(
    ("data", "bad"),
    [
        (flipped(WHOLE, 700), [["d0/f0", 512, CORRUPT, "unknown bytes", [2]]]),
        (
            WHOLE[:4096],
            [["d0/f0", 4096, LOST, "4096 bytes", "6144 bytes or more"], ["d0/f0", 4096, LOST, "zeros", [2, 4]]],
        ),
        (sectors(F, (2, 8), (0, 4)), [["d0/f0", 4096, LOST, "zeros", [2, 4]]]),
        (
            sectors(F, (2, 12), (4, 8)) + bytes(512),
            [["d0/f0", 10240, CORRUPT, "10752 bytes", "10240 bytes or fewer, in whole sectors"]],
        ),
        (sectors(F + 7, (2, 1)) + WHOLE[512:], [["d0/f0", 0, CORRUPT, f"block 0 of file {F + 7}, generation 2", [2]]]),
        (
            WHOLE[:512] + WHOLE[4096:4608] + WHOLE[1024:],
            [["d0/f0", 512, CORRUPT, f"block 1 of file {F}, generation 2", [2]]],
        ),
        (
            Content("before").block(77, 3)[:512] + WHOLE[512:],
            [["d0/f0", 0, CORRUPT, "what lay on the device before: its block 77", [2]]],
        ),
        (WHOLE[:-1], None),
    ],
)
def test_what_is_not(data: bytes, bad: list[Any] | None) -> None:
    found = check(written(), {"d0/f0": data})
    if bad is None:
        assert found.bad[0][2] in (LOST, CORRUPT)
    else:
        assert found.bad == bad


def test_an_older_generation_is_lost() -> None:
    events = [*written(), *done("fsync", 5, F)]
    found = check(events, {"d0/f0": sectors(F, (2, 12), (4, 8))})
    assert found.bad == [["d0/f0", 4096, LOST, "generation 2", [4]]]


def test_a_file_that_is_missing_is_lost_only_if_its_name_is_sure() -> None:
    assert check(written(), {}).bad == [["d0/f0", 0, LOST, "no such file", [f"file {F}"]]]
    unsure = check([*done("create", 1, F, "d0/f0"), *done("fsync", 2, F)], {})
    assert (unsure.bad, unsure.files) == ([], {"in-flight old": 1})
    assert unsure.extra[HAS_NAME] == [0, 1]


def test_a_removed_file_that_is_there_again_is_a_lost_removal() -> None:
    events = [*written(), *done("unlink", 5, "d0/f0"), *done("fsync folder", 6, "d0")]
    assert check(events, {}).bad == []
    assert check(events, {"d0/f0": WHOLE}).bad == [
        ["d0/f0", 0, LOST, "a file that was removed, 6144 bytes", ["no file"]]
    ]


NEW = sectors(F + 1, (4, 1))


@pytest.mark.parametrize(
    ("files", "is_good"),
    [
        ({"d0/f0": b""}, True),
        ({"d0/f0": b"", "d0/.f0.new": NEW}, True),
        ({"d0/f0": NEW}, True),
        # Each of these names may be so by itself, and not all of them together.
        ({"d0/f0": NEW, "d0/.f0.new": NEW}, False),
    ],
)
def test_a_rename_is_there_as_a_whole_or_not_at_all(files: dict[str, bytes], is_good: bool) -> None:
    found = check(replaced(), files)
    assert (not found.bad) == is_good
    assert found.extra[IN_ORDER] == ([1, 0] if is_good else [0, 1])


def test_a_file_that_is_lost_between_two_names_is_found() -> None:
    events = [*replaced(*done("fsync folder", 7, "d0")), *done("rename", 8, "d0/f0", "d0/f9")]
    found = check(events, {})
    assert found.files == {"in-flight new": 1, "in-flight old": 1, CORRUPT: 1}
    assert found.bad[0][:3] == ["d0", 0, CORRUPT]


def test_changes_out_of_order_are_no_fault_and_told() -> None:
    events = [*done("create", 1, F, "d0/f0"), *done("create", 2, F + 1, "d0/f1")]
    found = check(events, {"d0/f1": b""})
    assert (found.bad, found.extra[IN_ORDER]) == ([], [0, 1])


@pytest.mark.parametrize(("data", "kept"), [(sectors(F + 1, (4, 3)), [1, 0]), (bytes(3 * 512), [0, 1]), (b"", [0, 1])])
def test_what_was_renamed_over_another_without_a_sync(data: bytes, kept: list[int]) -> None:
    events = [*done("create", 1, F, "d0/f0"), *done("write", 9, F, 0, 1, 0), *done("syncfs", 10)]
    events += [
        *done("create", 12, F + 1, "d0/.f0.new"),
        *done("write", 4, F + 1, 0, 3, 0),
        *done("rename", 13, "d0/.f0.new", "d0/f0"),
    ]
    found = check(events, {"d0/f0": data})
    assert (found.bad, found.extra[IS_WHOLE]) == ([], kept)


def test_anything_may_be_in_flight_only_where_the_array_says_so() -> None:
    strange = flipped(sectors(F, (2, 8), (4, 12)), 9 * 512)
    assert check(written(), {"d0/f0": strange}).bad[0][2] == CORRUPT
    found = check(written(), {"d0/f0": strange}, is_arbitrary=True)
    assert (found.bad, found.blocks[ARBITRARY]) == ([], 1)
    # What no write is under way to is safe.
    assert check(written(), {"d0/f0": flipped(strange, 0)}, is_arbitrary=True).bad[0][1:3] == [0, CORRUPT]


def test_what_cannot_be_read_is_said_and_makes_no_other_fault() -> None:
    ledger = FileLedger(written())
    found = FilesCheck(CONTENT, ledger.allowed(is_power_cut=True), {"d0/f0": Found(b"", "Input/output error")})
    assert found.files == {"unreadable": 1}
    assert found.bad == [["d0/f0", 0, "unreadable", "Input/output error", [f"file {F}"]]]


def test_files_are_read_from_a_folder(tmp_path: Any) -> None:
    for folder in ("d0", "d1"):
        (tmp_path / folder).mkdir()
    (tmp_path / "d0/f0").write_bytes(WHOLE)
    (tmp_path / "d1/link").symlink_to("nothing")
    found = read_files(str(tmp_path))
    assert found["d0/f0"].data == WHOLE
    assert found["d1/link"].error
