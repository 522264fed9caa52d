"""What a block may hold, by what the writer was told; and the words for what it does hold."""

from __future__ import annotations

import pytest

from lab.faults.guest.ledger import (
    BLOCK_BYTES,
    CORRUPT,
    INTACT,
    LOST,
    NEW,
    OLD,
    SECTOR_BYTES,
    TORN,
    Content,
    Ledger,
    generations_of,
    identity_of,
    judged,
    looks_like,
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
        # A flush that came before the acknowledgement says nothing of the write.
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
    assert [found.allowed(at, is_power_cut=True)[1] for at in range(8)] == [
        [0],
        [0, 1],
        [0, 1],
        [0, 1],
        [1],
        [1, 3],
        [3],
        [3, 4],
    ]


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


def test_content_tells_its_place_and_can_be_made_again() -> None:
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


def test_what_is_none_of_a_blocks_generations_is_named() -> None:
    content = Content("seed")
    assert looks_like(bytes(BLOCK_BYTES)) == "zeros"
    assert looks_like(content.block(8, 2)) == "block 8, generation 2"
    # Sectors of one block in another order.
    turned = content.block(7, 3)[SECTOR_BYTES:] + content.block(7, 3)[:SECTOR_BYTES]
    assert generations_of(content, 7, turned) == [None] * 8
    assert looks_like(b"\xff" * BLOCK_BYTES) == "unknown bytes"
    assert looks_like(content.block(7, 3)[:SECTOR_BYTES] + bytes(BLOCK_BYTES - SECTOR_BYTES)) == "a mixture"


def test_what_wrong_parity_gives_does_not_look_like_a_block() -> None:
    content = Content("x")
    blocks = [content.block(number, generation) for number, generation in ((7, 1), (8, 2), (9, 4))]
    wrong = bytes(a ^ b ^ c for a, b, c in zip(*blocks, strict=True))
    assert looks_like(wrong) == "unknown bytes"
    assert generations_of(content, 7 ^ 8 ^ 9, wrong) == [None] * 8
