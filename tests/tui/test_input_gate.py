"""Input from a terminal before anything parses it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tui.driver import MOST_KEYS, MOST_PASTED, InputGate, Pasted

START, END = "\x1b[200~", "\x1b[201~"


def fed(*chunks: str, then_silence: float = 0.0) -> list[str | Pasted]:
    """What the gate passes on for chunks that arrive at once, with text joined, and for a silence after them."""
    gate = InputGate()
    items = [item for chunk in chunks for item in gate.feed(chunk, 0.0)]
    if then_silence:
        items += gate.tick(then_silence)
    joined: list[str | Pasted] = []
    for item in items:
        if isinstance(item, str) and joined and isinstance(joined[-1], str):
            joined[-1] += item
        else:
            joined.append(item)
    return joined


@pytest.mark.parametrize(
    "keys",
    ["abc é €", "\x1b[A", "\x1b[1;5C", "\x1bOP", "\x1b[[A", "\x1b[97;5u", "\x1b[24~", "\x1ba", "\x1b\x1b[A",
     "\x1b[?2026;2$y", "\x1b[I", "\x1b[<0;3;4M\x1b[<0;3;4m", "\x1b[2$x"],
)  # fmt: skip
def test_keys_pass_however_they_are_cut(keys: str) -> None:
    assert fed(keys) == [keys]
    for at in range(1, len(keys)):
        assert fed(keys[:at], keys[at:]) == [keys]


def test_escape_waits_for_what_may_follow() -> None:
    gate = InputGate()
    assert gate.feed("\x1b", 0.0) == []
    assert gate.tick(0.05) == []
    assert gate.tick(0.11) == ["\x1b"]
    assert fed("\x1b]", then_silence=0.11) == ["\x1b]"]


@pytest.mark.parametrize("end", [END, ""])
def test_a_paste_is_text_alone(end: str) -> None:
    assert fed(START + "A\x1b[31m\r\nB\x00\x07" + end, then_silence=2.0) == [Pasted("A[31m\r\nB", 0)]


def test_a_paste_that_does_not_end_is_given_up_and_keys_work_again() -> None:
    gate = InputGate()
    assert gate.feed(START + "text", 0.0) == []
    assert gate.tick(0.5) == []
    assert gate.tick(1.1) == [Pasted("text", 0)]
    assert gate.feed("2", 1.2) == ["2"]


def test_an_end_within_a_paste_runs_nothing() -> None:
    assert fed(START + "a" + END + "q" + END + "2") == [Pasted("aq", 0), "2"]
    assert fed(START + "a" + END + "2" + START + "b" + END) == [Pasted("a", 0), "2", Pasted("b", 0)]


def test_a_paste_is_cut_in_whatever_pieces_it_comes() -> None:
    text = "A\x1b[31m\n" * 200_000
    data = START + text + END + "z"
    places = sorted(random.Random(1).sample(range(1, len(data)), 500))
    pieces = [data[a:b] for a, b in pairwise((0, *places, len(data)))]
    for chunks in ([data], pieces):
        pasted, rest = fed(*chunks)
        assert isinstance(pasted, Pasted)
        assert len(pasted.text) == MOST_PASTED
        assert pasted.cut == 200_000 * 6 - MOST_PASTED
        assert rest == "z"


@pytest.mark.parametrize(
    "nonsense",
    [
        "\x1b[" + "1" * 1_000_000 + "m",
        "\x1b]52;c;" + "A" * 100_000 + "\x07",
        "\x1bP" + "q" * 100_000 + "\x1b\\",
        "\x1b[99999999999u",
        "\x1b[55296u",
        "\x1b[48;0;0;0;0t",
        "\x1b[M !!",
        END,
    ],
)
def test_input_that_is_not_a_key_is_dropped(nonsense: str) -> None:
    assert fed(nonsense + "z") == ["z"]
    half = len(nonsense) // 2
    assert fed(nonsense[:half], nonsense[half:], "z") == ["z"]


@pytest.mark.parametrize("start", ["\x1b]0;title", "\x1bPtext", "\x1b[12"])
def test_what_does_not_end_is_given_up(start: str) -> None:
    gate = InputGate()
    gate.feed(start, 0.0)
    gate.tick(0.2)
    assert gate.feed("z", 0.3) == ["z"]


def test_a_window_is_never_larger_than_can_be_drawn() -> None:
    assert fed("\x1b[48;9999999;9999999;0;0t") == ["\x1b[48;500;1000;500;1000t"]


def test_a_flood_of_keys_is_cut() -> None:
    assert fed("x" * 10_000) == ["x" * MOST_KEYS]
    moved = [f"\x1b[<35;{x};1M" for x in range(1, 200)]
    assert fed("".join(moved)) == [moved[-1]]
    assert len("".join(map(str, fed("\x1b[<64;1;1M" * 5000)))) < 1000


def test_random_input_never_raises_and_is_not_buffered_without_limit() -> None:
    rng = random.Random(4)
    gate = InputGate()
    pieces = [*"\x1b[OM]P\\\x07a1;$uté\x9c", "200~", "201~", "<35;1;1"]
    for moment in range(20_000):
        if rng.random() < 0.02:
            gate.tick(moment + 2.0)
        gate.feed("".join(rng.choices(pieces, k=rng.randint(1, 30))), float(moment))
        assert len(gate._held) <= 64
    gate.tick(1e6)
    gate.tick(2e6)
    assert gate.feed("z", 2e6)[-1] == "z"
