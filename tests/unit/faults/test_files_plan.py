"""What is done to files follows from the seed, and is what programs could do."""

from __future__ import annotations

from typing import Any

import pytest

from lab.faults.guest.file_ledger import FileLedger, FilePlan, Operation, changed, folder_of

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


def test_a_plan_that_skips_goes_on_where_another_is() -> None:
    plan = FilePlan("1", FileLedger(), {})
    plan.skip(100)
    assert [plan.next().event for _ in range(50)] == events("1")[100:150]


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
    """Direct writes beside others of the same pages have no order: the ledger could not tell which is newest."""
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


def test_it_does_all_that_there_is_to_do() -> None:
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
