"""The field of 256 elements and Q, compared with products computed bit by bit."""

from __future__ import annotations

import random

import pytest

from lab.arrays.parity_program import exclusive_or, one_from_q, q_of, scaled, two_from_p_and_q


def by_hand(left: int, right: int) -> int:
    """Multiplication bit by bit, as in the paper."""
    found = 0
    while right:
        if right & 1:
            found ^= left
        left = left << 1 ^ (0x11D if left & 0x80 else 0)
        right >>= 1
    return found


def test_products_are_those_of_the_field() -> None:
    values = bytes(range(256))
    for factor in range(1, 256):
        assert scaled(values, factor) == bytes(by_hand(factor, value) for value in values)


@pytest.mark.parametrize("powers", [(0, 1, 2, 3), (1, 3, 4), (2,), (0, 20)])
def test_q_is_the_weighted_sum_and_any_two_parts_follow_from_p_and_q(powers: tuple[int, ...]) -> None:
    chance = random.Random(1)
    parts = {power: chance.randbytes(64) for power in powers}
    weights = dict.fromkeys(powers, 1)
    for power in powers:
        for _ in range(power):
            weights[power] = by_hand(weights[power], 2)
    expected = [0] * 64
    for power, part in parts.items():
        expected = [old ^ by_hand(weights[power], value) for old, value in zip(expected, part, strict=True)]
    # A program on the machine passes views of its buffers.
    q, p = q_of({power: memoryview(part) for power, part in parts.items()}, 64), exclusive_or(parts.values(), 64)
    assert q == bytes(expected)
    first = powers[0]
    others = {power: part for power, part in parts.items() if power != first}
    assert one_from_q(q, others, first) == parts[first]
    for second in powers[1:]:
        rest = {power: part for power, part in others.items() if power != second}
        assert two_from_p_and_q(p, q, rest, (first, second)) == (parts[first], parts[second])


def test_without_any_part_both_parities_are_zeros() -> None:
    assert exclusive_or((), 16) == q_of({}, 16) == bytes(16)
