from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.microscope.picture import (
    POWERS,
    differing,
    inverse,
    one_from_q,
    p_of,
    q_of,
    scaled,
    times,
    two_from_p_and_q,
    wrong_weight,
)

LENGTH = 16
pieces = st.lists(st.binary(min_size=LENGTH, max_size=LENGTH), min_size=2, max_size=8)


def by_hand(left: int, right: int) -> int:
    """Multiplication bit by bit, as in the paper."""
    found = 0
    while right:
        if right & 1:
            found ^= left
        left = left << 1 ^ (0x11D if left & 0x80 else 0)
        right >>= 1
    return found


def test_the_tables_are_the_field() -> None:
    assert all(times(a, b) == by_hand(a, b) for a in range(256) for b in range(256))
    assert all(times(value, inverse(value)) == 1 for value in range(1, 256))
    assert len(set(POWERS)) == 255


@given(pieces)
def test_every_loss_of_two_is_computed_back(parts: list[bytes]) -> None:
    data = dict(enumerate(parts))
    p, q = p_of(parts, LENGTH), q_of(data, LENGTH)
    for first in data:
        others = {power: part for power, part in data.items() if power != first}
        assert one_from_q(q, others, first) == data[first]
        assert p_of((p, *others.values()), LENGTH) == data[first]
        for second in others:
            left = {power: part for power, part in others.items() if power != second}
            assert two_from_p_and_q(p, q, left, (first, second)) == (data[first], data[second])


@given(pieces, st.integers(0, LENGTH - 1), st.integers(1, 255), st.data())
def test_p_and_q_name_the_one_that_is_wrong(parts: list[bytes], place: int, error: int, draw: st.DataObject) -> None:
    wrong = draw.draw(st.integers(0, len(parts) - 1))
    p, q = p_of(parts, LENGTH), q_of(dict(enumerate(parts)), LENGTH)
    spoilt = bytearray(parts[wrong])
    spoilt[place] ^= error
    now = {**dict(enumerate(parts)), wrong: bytes(spoilt)}
    computed_p, computed_q = p_of(now.values(), LENGTH), q_of(now, LENGTH)
    assert differing(p, computed_p) == differing(q, computed_q) == (place,)
    assert wrong_weight(p[place] ^ computed_p[place], q[place] ^ computed_q[place]) == wrong


def test_nothing_is_named_where_one_parity_fits() -> None:
    assert wrong_weight(0, 7) is None
    assert wrong_weight(7, 0) is None


def test_scaling_by_one_changes_nothing() -> None:
    assert scaled(b"\x01\x80", 1) == b"\x01\x80"
    assert scaled(b"\x01\x80", 2) == b"\x02\x1d"
