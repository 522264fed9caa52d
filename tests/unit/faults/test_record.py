"""What a power cut could have left, taken from a record; and cuts as words."""

from __future__ import annotations

import random

import pytest

from lab.faults.guest.ledger import (
    ALL,
    DISCARD,
    DRIVE_FLUSH,
    DRIVE_WRITE,
    EVERYTHING,
    FLUSHED,
    KINDS,
    MARK,
    RECORD,
    SUBSET,
    THROUGH,
    TORN_WRITE,
    Cut,
    Record,
    chosen_cut,
    cut_of,
    joined,
)


def line(kind: int, came: int, ended: int, *, drive: int = 0, sector: int = 0, count: int = 8, flags: int = 0) -> bytes:
    return RECORD.pack(came, ended, sector, 0, count, drive, kind, flags)


RECORDED = b"".join(
    (
        line(DRIVE_WRITE, 1, 3),
        line(DRIVE_WRITE, 2, 4, drive=1),
        line(MARK, 5, 5, count=2),
        line(DRIVE_FLUSH, 6, 7, count=0),
        line(DRIVE_WRITE, 8, 10, sector=8),
        line(DRIVE_WRITE, 9, 12, sector=16, flags=THROUGH),
        line(DISCARD, 11, 13, sector=0),
        line(DRIVE_WRITE, 14, 0, sector=24),
    )
)


def indices(record: Record, drive: int, at: int) -> tuple[list[int], list[int]]:
    sure, open_ = record.split(drive, at)
    return [each.index for each in sure], [each.index for each in open_]


@pytest.mark.parametrize(
    ("at", "sure", "open_"),
    [
        (0, [], []),
        (1, [], [0]),
        (3, [], [0]),
        (6, [], [0]),
        (7, [0], []),
        (10, [0], [4, 5]),
        (12, [0, 5], [4, 6]),
        (14, [0, 5], [4, 6, 7]),
    ],
)
def test_what_is_sure_and_what_is_open(at: int, sure: list[int], open_: list[int]) -> None:
    assert indices(Record(RECORDED), 0, at) == (sure, open_)


def test_a_flush_is_of_one_drive() -> None:
    assert indices(Record(RECORDED), 1, 14) == ([], [1])


def test_the_ledger_is_known_by_its_marks() -> None:
    record = Record(RECORDED)
    assert [record.ledger_event(at) for at in (4, 5, 14)] == [0, 2, 2]
    assert record.moments() == [3, 4, 7, 10, 12, 13]


def test_kinds_of_cuts() -> None:
    record, chance = Record(RECORDED), random.Random(1)
    assert chosen_cut(record, 14, FLUSHED, chance).lists(record, (0, 1)) == {0: "0 5", 1: ""}
    assert chosen_cut(record, 14, ALL, chance).lists(record, (0, 1)) == {0: "0 4-6", 1: "1"}
    assert chosen_cut(record, 14, EVERYTHING, chance).lists(record, (0, 1)) == {0: "0 4-7", 1: "1"}
    subsets = {chosen_cut(record, 14, SUBSET, chance).lists(record, (0,))[0] for _ in range(200)}
    assert len(subsets) == 8
    torn = chosen_cut(record, 14, TORN_WRITE, random.Random(5))
    assert torn.torn
    assert all(0 <= first <= last < 8 and last - first < 7 for first, last in torn.torn.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_is_a_word(kind: str) -> None:
    record = Record(RECORDED)
    for seed in range(20):
        cut = chosen_cut(record, 14, kind, random.Random(seed), (1,) if seed % 2 else ())
        again = cut_of(cut.word())
        assert again.lists(record, (0, 1)) == cut.lists(record, (0, 1))
        assert again.missing == cut.missing


@pytest.mark.parametrize("word", ["", "x", "1:2", "1:0=a", "1::3=4", "1:::y"])
def test_other_words_are_none(word: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|not enough|unpack"):
        cut_of(word)


def test_lists_are_short() -> None:
    assert joined([], {}) == ""
    assert joined([0, 1, 2, 5, 7, 8], {}) == "0-2 5 7-8"
    assert joined([0, 1, 2], {1: (3, 4)}) == "0 1:3-4 2"
    assert joined([4, 3], {}) == "4 3"


def test_cut_at_the_moment_of_a_failed_write_leaves_it_out() -> None:
    record = Record(line(DRIVE_WRITE, 1, 2, flags=2))
    assert indices(record, 0, 2) == ([], [])
    assert Cut(2, {}).lists(record, (0,)) == {0: ""}
