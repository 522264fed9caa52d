"""Allowed contents of a block, states of the drives after a power cut, and cuts as words."""

from __future__ import annotations

import random

import pytest

from lab.faults.guest.ledger import (
    ALL,
    BLOCK_BYTES,
    CORRUPT,
    DISCARD,
    DRIVE_FLUSH,
    DRIVE_WRITE,
    EVERYTHING,
    FLUSHED,
    INTACT,
    KINDS,
    LOST,
    MARK,
    NEW,
    OLD,
    RECORD,
    SECTOR_BYTES,
    SUBSET,
    THROUGH,
    TORN,
    TORN_WRITE,
    Content,
    Cut,
    Ledger,
    Record,
    chosen_cut,
    cut_of,
    describe_block,
    generations_of,
    identity_of,
    joined,
    judged,
)

FILLED = [["write", 1, 0, 4, 0], ["acknowledged", 1], ["flush", 2], ["acknowledged", 2]]


def ledger(*more: list[object]) -> Ledger:
    return Ledger([*FILLED, *more])


@pytest.mark.parametrize(
    ("more", "running", "cut"),
    [
        ([], [1], [1]),
        ([["write", 3, 1, 1, 0]], [1, 3], [1, 3]),
        ([["write", 3, 1, 1, 0], ["failed", 3]], [1, 3], [1, 3]),
        ([["write", 3, 1, 1, 0], ["acknowledged", 3]], [3], [1, 3]),
        ([["write", 3, 1, 1, 1], ["acknowledged", 3]], [3], [3]),
        ([["write", 3, 1, 1, 0], ["acknowledged", 3], ["flush", 4]], [3], [1, 3]),
        ([["write", 3, 1, 1, 0], ["acknowledged", 3], ["flush", 4], ["acknowledged", 4]], [3], [3]),
        # A flush that started before the acknowledgement does not cover the write.
        ([["write", 3, 1, 1, 0], ["flush", 4], ["acknowledged", 3], ["acknowledged", 4]], [3], [1, 3]),
        ([["write", 3, 1, 1, 0], ["acknowledged", 3], ["flush", 4], ["failed", 4]], [3], [1, 3]),
        ([["write", 3, 1, 1, 0], ["acknowledged", 3], ["write", 4, 1, 1, 0]], [3, 4], [1, 3, 4]),
        ([["write", 3, 1, 1, 0], ["write", 4, 2, 1, 0], ["settled", 1, 1]], [1], [1]),
        ([["write", 3, 1, 1, 0], ["settled", 1, 3], ["write", 4, 1, 1, 0]], [3, 4], [3, 4]),
    ],
)
def test_what_a_block_may_hold(more: list[list[object]], running: list[int], cut: list[int]) -> None:
    found = ledger(*more)
    assert found.allowed()[1] == running
    assert found.allowed(is_power_cut=True)[1] == cut
    assert found.allowed()[3] == [1]
    assert Ledger(found.events).allowed()[1] == running


def test_a_ledger_is_asked_about_any_moment() -> None:
    found = ledger(["write", 3, 1, 1, 1], ["acknowledged", 3], ["write", 4, 1, 1, 0])
    answers = [found.allowed(at, is_power_cut=True)[1] for at in range(8)]
    assert answers == [[0], [0, 1], [0, 1], [0, 1], [1], [1, 3], [3], [3, 4]]


@pytest.mark.parametrize(
    ("found", "allowed", "verdict"),
    [
        ([3] * 8, [3], INTACT),
        ([1] * 8, [1, 3], OLD),
        ([3] * 8, [1, 3], NEW),
        ([1, 3] * 4, [1, 3], TORN),
        ([1] * 8, [3], LOST),
        ([1, 3] * 4, [3], LOST),
        ([None] * 8, [3], CORRUPT),
        ([3] * 7 + [None], [3], CORRUPT),
        ([None] * 8, [0, 3], OLD),
        ([9] * 8, [3], LOST),
    ],
)
def test_verdicts(found: list[int | None], allowed: list[int], verdict: str) -> None:
    assert judged(found, allowed) == verdict


def test_content_identifies_its_place_and_can_be_regenerated() -> None:
    content = Content("seed")
    block = content.block(7, 3)
    assert len(block) == BLOCK_BYTES
    assert block == Content("seed").made(7, 3) != Content("other").made(7, 3)
    assert generations_of(content, 7, block) == [3] * 8
    assert identity_of(block[:SECTOR_BYTES]) == (7, 3)
    assert len({block[at : at + SECTOR_BYTES] for at in range(0, BLOCK_BYTES, SECTOR_BYTES)}) == 8


@pytest.mark.parametrize("at", [0, 5, 9, 13, 16, 511])
def test_a_single_changed_byte_is_seen(at: int) -> None:
    content = Content("seed")
    block = bytearray(content.block(7, 3))
    block[at] ^= 1
    assert generations_of(content, 7, bytes(block)) == [None, *[3] * 7]


def test_foreign_content_of_a_block_is_described() -> None:
    content = Content("seed")
    assert describe_block(bytes(BLOCK_BYTES)) == "zeros"
    assert describe_block(content.block(8, 2)) == "block 8, generation 2"
    # Sectors of one block in another order.
    turned = content.block(7, 3)[SECTOR_BYTES:] + content.block(7, 3)[:SECTOR_BYTES]
    assert generations_of(content, 7, turned) == [None] * 8
    assert describe_block(b"\xff" * BLOCK_BYTES) == "unknown bytes"
    assert describe_block(content.block(7, 3)[:SECTOR_BYTES] + bytes(BLOCK_BYTES - SECTOR_BYTES)) == "a mixture"


def test_what_wrong_parity_gives_does_not_look_like_a_block() -> None:
    content = Content("x")
    blocks = [content.block(number, generation) for number, generation in ((7, 1), (8, 2), (9, 4))]
    wrong = bytes(a ^ b ^ c for a, b, c in zip(*blocks, strict=True))
    assert describe_block(wrong) == "unknown bytes"
    assert generations_of(content, 7 ^ 8 ^ 9, wrong) == [None] * 8


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
def test_durable_and_open_writes_of_a_record(at: int, sure: list[int], open_: list[int]) -> None:
    assert indices(Record(RECORDED), 0, at) == (sure, open_)
    # A flush covers only its own drive.
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
    assert (indices(record, 0, 2), Cut(2, {}, {}).lists(record, (0,))) == (([], []), {0: ""})
