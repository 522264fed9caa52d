"""The oracle under file systems: ledger and plan of operations, verdicts on files, and crash points."""

from __future__ import annotations

from typing import Any

import pytest

from lab.faults.guest.file_ledger import (
    FIRST_FILE,
    FileLedger,
    FilePlan,
    FileStates,
    Operation,
    changed,
    folder_of,
)
from lab.faults.guest.files import FilesCheck, Found, content_of, read_files
from lab.faults.guest.ledger import Content
from tests.kernel.files_points import file_point

F = FIRST_FILE


def ledger(*events: list[Any]) -> FileLedger:
    return FileLedger(events)


def done(*event: Any) -> list[list[Any]]:
    """An event and its acknowledgement."""
    return [list(event), ["acknowledged", event[1]]]


def cut(*events: list[Any]) -> FileStates:
    return ledger(*events).allowed(is_power_cut=True)


NEW_FILE = done("create", 1, F, "d0/f0")


@pytest.mark.parametrize(
    ("events", "names", "least", "most", "sectors"),
    [
        pytest.param(done("write", 2, F, 0, 2, 0), [0, F], 0, 2, {0: [0, 2], 1: [0, 2]}, id="nothing is synced"),
        pytest.param(
            [*done("write", 2, F, 0, 9, 0), *done("fsync", 3, F)],
            [0, F], 9, 9, {sector: [2] for sector in range(9)},
            id="fsync does not cover the name",
        ),
        pytest.param(
            [*done("write", 2, F, 0, 1, 0), *done("fsync folder", 3, "d0")],
            [F], 0, 1, {0: [0, 2]},
            id="fsync of the folder does not cover the data",
        ),
        pytest.param(
            [*done("write", 2, F, 0, 1, 0), *done("fsync folder", 3, "d1")],
            [0, F], 0, 1, {0: [0, 2]},
            id="fsync of another folder covers nothing here",
        ),
        pytest.param(
            [*done("write", 2, F, 0, 1, 0), *done("syncfs", 3)], [F], 1, 1, {0: [2]}, id="syncfs covers all"
        ),
        pytest.param(
            [*done("write", 2, F, 0, 1, 0), ["fsync", 3, F]], [0, F], 0, 1, {0: [0, 2]}, id="a sync that has not ended"
        ),
        pytest.param(
            [["write", 2, F, 0, 1, 0], ["fsync", 3, F], ["acknowledged", 2], ["acknowledged", 3]],
            [0, F], 0, 1, {0: [0, 2]},
            id="a write that ended after the sync began",
        ),
        pytest.param(
            [*done("write", 2, F, 0, 2, 0), *done("fsync", 3, F), *done("write", 4, F, 1, 2, 0)],
            [0, F], 2, 3, {0: [2], 1: [2, 4], 2: [0, 4]},
            id="newer writes after a sync",
        ),
        pytest.param(
            [*done("write", 2, F, 0, 1, 0), *done("write", 3, F, 1, 1, 1)],
            [0, F], 2, 2, {0: [0, 2], 1: [3]},
            id="O_DSYNC covers its own write alone",
        ),
    ],
)  # fmt: skip
def test_what_a_power_cut_may_leave(
    events: list[Any], names: list[int], least: int, most: int, sectors: dict[int, list[int]]
) -> None:
    states = cut(*NEW_FILE, *events)
    assert states.names == {"d0/f0": names}
    assert states.files[F] == (least * 512, most * 512, sectors)


def test_a_running_system_shows_all_that_ended_and_perhaps_what_failed() -> None:
    states = ledger(*NEW_FILE, *done("write", 2, F, 0, 8, 0)).allowed()
    assert states.names == {"d0/f0": [F]}
    assert states.files[F] == (4096, 4096, {sector: [2] for sector in range(8)})
    states = ledger(*NEW_FILE, ["write", 2, F, 0, 1, 0], ["failed", 2]).allowed()
    assert states.files[F] == (0, 512, {0: [0, 2]})
    assert ledger(*NEW_FILE).present() == ({"d0/f0": F}, {F: 0})


def replaced(*more: list[Any]) -> list[list[Any]]:
    """Events that create and sync an old file, then rename a new one over it."""
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
    # The rename has started but has not ended.
    assert whole.allowed(11, is_power_cut=True).names["d0/f0"] == [F, F + 1]


OPERATIONS = 600
SEEDS = [str(number) for number in range(8)]


def planned(seed: str, count: int = OPERATIONS, **mix: int) -> list[Operation]:
    plan = FilePlan(seed, FileLedger(), mix)
    return [plan.next() for _ in range(count)]


def events(seed: str, **mix: int) -> list[list[Any]]:
    return [each.event for each in planned(seed, **mix)]


def test_the_same_seed_gives_the_same_and_another_one_something_else() -> None:
    assert events("1") == events("1")
    assert events("1") != events("2")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_change_can_be_made_and_every_file_written_has_a_name(seed: str) -> None:
    names: dict[str, int] = {}
    for kind, _, *more in events(seed):
        if kind in ("create", "rename", "unlink"):
            after = changed(names, kind, more)
            assert after != names
            if kind == "rename":
                assert folder_of(more[0]) == folder_of(more[1])
            names = after
        elif kind in ("write", "fsync"):
            assert more[0] in names.values()
        if kind == "write":
            assert 0 <= more[1] < more[1] + more[2] <= 16 * 8


@pytest.mark.parametrize("seed", SEEDS)
def test_writes_that_are_under_way_together_touch_different_pages(seed: str) -> None:
    """Concurrent direct writes to the same pages have no order, so the ledger could not tell which is newer."""
    under_way: dict[int, tuple[int, range]] = {}
    for operation in planned(seed, direct=1):
        for number in operation.waits:
            under_way.pop(number, None)
        if operation.event[0] != "write":
            continue
        _, number, file, first, count, _ = operation.event
        pages = range(first // 8, -(-(first + count) // 8))
        for other, others in under_way.values():
            assert other != file or not set(pages) & set(others)
        if operation.is_direct:
            assert first % 8 == count % 8 == 0
            under_way[number] = (file, pages)


def test_a_plan_contains_every_kind_of_operation() -> None:
    done = planned("1", 3000)
    kinds = {each.event[0] for each in done}
    assert kinds == {"create", "rename", "unlink", "write", "fsync", "fsync folder", "syncfs"}
    writes = [each for each in done if each.event[0] == "write"]
    assert {each.is_direct for each in writes} == {False, True}
    assert {each.event[5] for each in writes} == {0, 1}
    assert any(each.event[4] % 8 for each in writes)
    assert {each.is_data_only for each in done if each.event[0] == "fsync"} == {False, True}


def test_a_rename_waits_for_the_sync_of_what_it_puts_in_place() -> None:
    synced: dict[int, int] = {}
    files: dict[str, int] = {}
    waited = 0
    for operation in planned("1", 3000, unsynced=0):
        kind, number, *more = operation.event
        if kind == "create":
            files[more[1]] = more[0]
        elif kind == "fsync":
            synced[more[0]] = number
        elif kind == "rename":
            assert synced[files[more[0]]] in operation.waits
            waited += 1
    assert waited > 50


CONTENT = Content("1")
LOST, CORRUPT = "lost after acknowledgement", "silently corrupt"


def sectors(file: int, *runs: tuple[int, int]) -> bytes:
    """Content made of runs of (generation, sectors) from the start of the file; generation 0 is zeros."""
    data, first = b"", 0
    for generation, count in runs:
        data += content_of(CONTENT, file, first, count, generation) if generation else bytes(count * 512)
        first += count
    return data


def check(events: list[list[Any]], files: dict[str, bytes]) -> FilesCheck:
    """The verdict on these files as the state after a power cut that follows these events."""
    found = {name: Found(data) for name, data in files.items()}
    return FilesCheck(CONTENT, FileLedger(events).allowed(is_power_cut=True), found)


def written() -> list[list[Any]]:
    """A file of 12 durable sectors, then a write to sectors 8 to 19 that is not durable."""
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
        # The file has grown, but its new data have not arrived.
        ([(2, 12), (0, 8)], {"intact": 1, "in-flight old": 2}),
    ],
)
def test_allowed_contents_after_a_power_cut(runs: list[tuple[int, int]], verdicts: dict[str, int]) -> None:
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
            [["d0/f0", 0, CORRUPT, "earlier content of the device: its block 77", [2]]],
        ),
        (WHOLE[:-1], None),
    ],
)
def test_contents_that_are_not_allowed_after_a_power_cut(data: bytes, bad: list[Any] | None) -> None:
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
        # Each of these names alone would be allowed, but not all of them together.
        ({"d0/f0": NEW, "d0/.f0.new": NEW}, False),
    ],
)
def test_a_rename_is_there_as_a_whole_or_not_at_all(files: dict[str, bytes], is_good: bool) -> None:
    assert (not check(replaced(), files).bad) == is_good


def test_a_file_that_is_lost_between_two_names_is_found() -> None:
    events = [*replaced(*done("fsync folder", 7, "d0")), *done("rename", 8, "d0/f0", "d0/f9")]
    found = check(events, {})
    assert found.files == {"in-flight new": 1, "in-flight old": 1, CORRUPT: 1}
    assert found.bad[0][:3] == ["d0", 0, CORRUPT]


def test_changes_may_be_present_out_of_order() -> None:
    events = [*done("create", 1, F, "d0/f0"), *done("create", 2, F + 1, "d0/f1")]
    assert check(events, {"d0/f1": b""}).bad == []


@pytest.mark.parametrize("data", [sectors(F + 1, (4, 3)), bytes(3 * 512), b""])
def test_a_file_renamed_over_another_without_a_sync_may_be_incomplete(data: bytes) -> None:
    events = [*done("create", 1, F, "d0/f0"), *done("write", 9, F, 0, 1, 0), *done("syncfs", 10)]
    events += [
        *done("create", 12, F + 1, "d0/.f0.new"),
        *done("write", 4, F + 1, 0, 3, 0),
        *done("rename", 13, "d0/.f0.new", "d0/f0"),
    ]
    assert check(events, {"d0/f0": data}).bad == []


def test_an_unreadable_file_is_reported_and_causes_no_other_fault() -> None:
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


@pytest.mark.parametrize(
    "broken",
    [
        {"dead": "x"}, {"unmountable": "x"}, {"stuck": "x"}, {"bad": [["d0/f1", 512, "corrupt", "zeros", [3]]]},
        {"fsck": 4, "fsck_said": "x"}, {"wrong_rows": [7]}, {"kernel": ["x"]},
    ],
)  # fmt: skip
def test_each_broken_promise_is_a_problem(broken: dict[str, Any]) -> None:
    assert len(file_point({"cut": "7", **broken}).problems) == 1
