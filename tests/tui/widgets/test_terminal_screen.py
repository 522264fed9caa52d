"""A screen computed from program output: recorded output compared with tmux's screen of it, and hostile output."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.terminal import MOST_LINES, PASTE, TerminalScreen

RECORDED = Path(__file__).parent / "recorded"


def shown(data: bytes, columns: int = 80, lines: int = 12) -> list[str]:
    screen = TerminalScreen(columns, lines)
    screen.feed(data)
    return text_of(screen)


def text_of(screen: TerminalScreen) -> list[str]:
    return [line.rstrip() for line in screen.display]


@pytest.mark.parametrize("program", ["less", "vi", "top", "colours"])
def test_programs_look_as_in_tmux(program: str) -> None:
    data = (RECORDED / f"{program}.output").read_bytes()
    wanted = (RECORDED / f"{program}.screen").read_text().splitlines()
    assert shown(data) == wanted + [""] * (12 - len(wanted))
    # The pieces may end anywhere.
    piecewise = TerminalScreen(80, 12)
    for at in range(len(data)):
        piecewise.feed(data[at : at + 1])
    assert text_of(piecewise) == shown(data)


def test_colours_are_the_sixteen_by_name_and_all_others_as_numbers() -> None:
    screen = TerminalScreen(80, 12)
    screen.feed((RECORDED / "colours.output").read_bytes())
    looks = {text.strip(): look for y in range(12) for text, look in screen.runs(y)}
    assert looks["red"][0] == "red"
    assert looks["green"][:3] == ("brightgreen", "default", True)
    assert looks["orange"][0] == "ff8700"
    assert looks["own"][:2] == ("010203", "fafbfc")
    assert looks["back"][6]
    assert looks["line"][4]
    screen.feed(b"\x1b[H\x1b[38:2::9:8:7mnew\x1b[48:5:208;4:3mlook")
    assert [look[0] for _, look in screen.runs(0)][:2] == ["090807", "090807"]


def test_an_editor_uses_the_alternate_screen_and_the_first_is_restored() -> None:
    screen = TerminalScreen(20, 4)
    screen.feed(b"one\r\ntwo\r\n$ vi\x1b[?1049h\x1b[2J\x1b[Hedited\r\n\n\n\n\nmore")
    shows_second = [screen.is_alternate]
    assert "one" not in text_of(screen)
    assert not screen.scrolled
    screen.feed(b"\x1b[?1049l")
    shows_second.append(screen.is_alternate)
    assert shows_second == [True, False]
    assert text_of(screen) == ["one", "two", "$ vi", ""]
    assert (screen.cursor.x, screen.cursor.y) == (4, 2)


def test_scrolled_lines_are_stored_up_to_a_limit() -> None:
    screen = TerminalScreen(20, 4)
    screen.feed(b"".join(b"line %d\r\n" % number for number in range(MOST_LINES + 100)))
    assert len(screen.scrolled) == MOST_LINES
    assert screen.scrolled_count == MOST_LINES + 97
    assert screen.scrolled[-1][0][0] == f"line {MOST_LINES + 96}"
    # If only part of the screen scrolls, no line is stored.
    before = screen.scrolled_count
    screen.feed(b"\x1b[2;4r\x1b[4;1H\n\n\n")
    assert screen.scrolled_count == before


def test_another_size_loses_nothing_that_is_not_blank() -> None:
    screen = TerminalScreen(20, 6)
    screen.feed(b"a\r\nb\r\nc\r\nd\r\n$ ")
    screen.resize(3, 20)
    assert text_of(screen) == ["c", "d", "$"]
    assert [line[0][0] for line in screen.scrolled] == ["a", "b"]
    screen.resize(8, 30)
    assert text_of(screen)[:3] == ["c", "d", "$"]
    screen.feed(b"\x1b[?1049hx")
    screen.resize(2, 10)
    screen.feed(b"\x1b[?1049l")
    assert text_of(screen) == ["d", "$"]


def test_what_terminfo_promises_and_pyte_lacks() -> None:
    assert shown(b"ab\x1b[3bc", 10, 2) == ["abbbbc", ""]
    assert shown(b"1\r\n2\r\n3\x1b[1S", 5, 3) == ["2", "3", ""]
    assert shown(b"1\r\n2\r\n3\x1b[2T", 5, 3) == ["", "", "1"]
    assert shown(b"\x1b[I\x1b[Ix\x1b[Zy", 40, 1) == [" " * 16 + "y"]
    assert shown("a\u200db\ufe0fc e\u0301".encode(), 10, 1) == ["abc é"]


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b]52;c;aGVsbG8=\x07",
        b"\x1b]0;title\x1b\\",
        b"\x1bP+q544e\x1b\\",
        b"\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\",
        b"\x1b[>4;2m\x1b[=1c\x1b[<0;1;1M\x1b[?1000;1002;1006h\x1b[?3h",
        b"\x1b[1;2;3;4;5;6A\x1b[?6n\x1b[6;6;6n\x1b[!p\x1b[0 q\x1b[?2026$p",
        b"\xc2\x9b2J\xc2\x9d0;t\xc2\x9c",
        b"\x00\x01\x05\x07\x0e\x0f\x7f",
    ],
)
def test_control_sequences_are_not_shown_and_change_nothing(hostile: bytes) -> None:
    answers: list[bytes] = []
    screen = TerminalScreen(20, 3, answers.append)
    screen.feed(b"before " + hostile + b"after")
    letters = "".join(text_of(screen))
    # The letters of a C1 string may be shown: UTF-8 terminals differ in this, and letters do no harm.
    assert letters.startswith("before ")
    assert letters.endswith("after")
    assert letters.isprintable()
    assert screen.columns == 20
    assert not any(b"52" in answer or b"title" in answer for answer in answers)


def test_queries_of_cursor_and_device_are_answered_and_no_others() -> None:
    answers: list[bytes] = []
    screen = TerminalScreen(20, 5, answers.append)
    screen.feed(b"\x1b[3;7H\x1b[6n\x1b[5n\x1b[c\x1b[>c\x1b[?1;2c\x1b[21t\x1b]11;?\x07")
    assert answers == [b"\x1b[3;7R", b"\x1b[0n", b"\x1b[?6c"]


def test_a_string_without_end_is_not_waited_for() -> None:
    screen = TerminalScreen(20, 3)
    screen.feed(b"\x1b]0;" + b"x" * 100_000)
    screen.feed(b"\x1b[2J\x1b[Hhere")
    assert text_of(screen)[0] == "here"
    assert screen.has(PASTE) is False


STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of invisible characters that change how others are shown: controls, formats, line ends."""

PIECES = st.one_of(
    st.binary(max_size=30),
    st.text(max_size=10).map(str.encode),
    st.sampled_from(["\xad", "\u202e", "\u2066", "\u0600", "\u2028", "\u038b", "\ue0b0"]).map(str.encode),
    st.sampled_from(
        [b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1bc", b"\x1b7", b"\x1b8", b"\n"]
    ),
    st.builds(
        lambda numbers, final: f"\x1b[{';'.join(map(str, numbers))}".encode() + bytes([final]),
        st.lists(st.integers(0, 99999), max_size=4),
        st.integers(0x40, 0x7E),
    ),
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES, max_size=25), size=st.tuples(st.integers(1, 30), st.integers(1, 12)))
def test_nothing_that_is_printed_can_break_it(pieces: list[bytes], size: tuple[int, int]) -> None:
    screen = TerminalScreen(16, 6)
    for number, piece in enumerate(pieces):
        screen.feed(piece)
        if number == 10:
            screen.resize(size[1], size[0])
    for y in range(screen.lines):
        assert {unicodedata.category(sign) for text, _ in screen.runs(y) for sign in text}.isdisjoint(STEERING)
    assert 0 <= screen.cursor.y < screen.lines
    assert 0 <= screen.cursor.x <= screen.columns
