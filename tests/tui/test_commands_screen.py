"""The terminal of the Commands screen: keys, focus, paste, scrolling, its end. The test plays the shell behind it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from textual import events

from lab.errors import MachineLost
from lab.machine import TypedCommand
from tests.tui.conftest import Start
from tests.tui.fake_lab import FakeLab
from tests.tui.user import User, reached
from tests.unit.fakes import FakeTerminal
from tui.help import HelpScreen
from tui.state import MachinePhase, Origin
from tui.terminal_screen import PAINT_SECONDS, TerminalView, typed

pytestmark = pytest.mark.app(mode="commands")


async def terminal_of(user: User, count: int = 1) -> FakeTerminal:
    terminals = user.fake_lab.machine.terminals
    await user.until(lambda: len(terminals) == count and user.app.terminal.is_open, "a terminal")
    return terminals[-1]


async def printed(user: User, terminal: FakeTerminal, data: bytes, words: str) -> None:
    terminal.put(data)
    await user.see(words)


async def test_all_keys_but_a_few_are_the_programs(user: User) -> None:
    terminal = await terminal_of(user)
    assert isinstance(user.app.focused, TerminalView)
    assert terminal.sizes[-1] == user.app.focused.size
    keys = "1 q question_mark comma escape f1 f6 tab shift+tab up backspace enter"
    await user.press(*keys.split(), "ctrl+c", "ctrl+r", "ctrl+t", "ctrl+q", "ctrl+p", "alt+b", "pageup")
    assert terminal.typed == b"1q?,\x1b\x1bOP\x1b[17~\t\x1b[Z\x1b[A\x7f\r\x03\x12\x14\x11\x10\x1bb"
    assert user.app.current_mode == "commands"
    assert user.app.is_running
    assert not isinstance(user.screen, HelpScreen)


async def test_a_machine_that_answers_late_holds_up_nothing_and_no_key_is_lost(
    start: Start, monkeypatch: pytest.MonkeyPatch, fake_lab: FakeLab
) -> None:
    may_open, opens = threading.Event(), fake_lab.machine.terminal

    def late(*arguments: Any, **named: Any) -> FakeTerminal:
        assert may_open.wait(60)
        return opens(*arguments, **named)

    monkeypatch.setattr(fake_lab.machine, "terminal", late)
    async with start() as user:
        await user.see("Opening the terminal")
        await user.press("l", "s", "f12", "f12", "enter")
        await user.pilot.resize_terminal(100, 30)
        may_open.set()
        terminal = await terminal_of(user)
        await user.until(lambda: terminal.typed.endswith(b"\r"), "what was pressed early is typed")
        assert (terminal.typed, terminal.sizes[-1]) == (b"ls\r", user.find(TerminalView).size)
        assert len(user.fake_lab.machine.terminals) == 1


async def test_f12_leaves_and_comes_back_and_the_apps_keys_hold_in_between(user: User) -> None:
    terminal = await terminal_of(user)
    await user.press("f12")
    assert not isinstance(user.app.focused, TerminalView)
    await user.press("ctrl+right_square_bracket", "x", "f12", "1")
    assert (terminal.typed, user.app.current_mode) == (b"x", "lab")
    # The shell keeps running and is shown again.
    await user.press("5", "y")
    assert terminal.typed == b"xy"
    assert len(user.fake_lab.machine.terminals) == 1
    await user.press("f12", "f1")
    await user.until(lambda: isinstance(user.screen, HelpScreen), "the help")


@pytest.mark.app(size=(100, 30))
async def test_f11_shows_the_terminal_full_screen_and_resizes_it(user: User) -> None:
    terminal = await terminal_of(user)
    small = terminal.sizes[-1]
    await user.press("f11")
    await user.until(lambda: terminal.sizes[-1] == (98, 28), "the large size")
    await user.press("f11")
    await user.until(lambda: terminal.sizes[-1] == small, "the small size")
    await user.press("f11", "f12")
    await user.until(lambda: terminal.sizes[-1] == small, "the small size again")
    assert terminal.typed == b""


async def test_a_finished_command_is_logged_and_the_lab_is_read_again(user: User) -> None:
    terminal = await terminal_of(user)
    await user.idle()
    runs = len(user.fake_lab.machine.runs)
    terminal.put(TypedCommand("mdadm --stop /dev/md0", 1, 0.5, "/"))
    await user.until(lambda: any(entry.origin is Origin.SHELL for entry in user.lab.commands), "an entry")
    entry = next(entry for entry in user.lab.commands if entry.origin is Origin.SHELL)
    assert (entry.line, entry.status, entry.seconds) == ("mdadm --stop /dev/md0", 1, 0.5)
    await user.until(lambda: len(user.fake_lab.machine.runs) > runs, "a look at the disks")
    # Enter on the entry copies the line to the prompt, and nothing runs by itself.
    await user.press("f12", "end", "enter")
    await user.until(lambda: terminal.typed == b"mdadm --stop /dev/md0", "the line at the prompt")
    assert isinstance(user.app.focused, TerminalView)


async def test_a_paste_is_bracketed_if_the_program_supports_it(user: User) -> None:
    terminal = await terminal_of(user)
    assert user.app.focused
    user.app.focused.post_message(events.Paste("one\r\ntwo\nthree\x1b[201~\x03"))
    await user.until(lambda: terminal.typed == b"one\rtwo\rthree[201~", "the paste")
    await printed(user, terminal, b"\x1b[?2004hready", "ready")
    user.app.focused.post_message(events.Paste("four\x1b[201~"))
    await user.until(lambda: terminal.typed.endswith(b"\x1b[200~four[201~\x1b[201~"), "the second paste")


async def test_scrolled_lines_can_be_seen_and_a_pager_gets_its_own_keys(user: User) -> None:
    terminal = await terminal_of(user)
    many = b"".join(b"line %d.\r\n" % number for number in range(300))
    await printed(user, terminal, many + b"end", "end")
    await user.press("pageup")
    await user.until(lambda: "line 299." not in user.text, "older lines")
    seen = user.text
    await printed(user, terminal, b"", "line")
    terminal.put(b"\r\nmore\r\n")
    await user.idle()
    assert "more" not in user.text
    assert seen.count("line 2") == user.text.count("line 2")
    await user.press("x")
    await user.see("more")
    assert terminal.typed == b"x"
    await printed(user, terminal, b"\x1b[?1049h\x1b[2J\x1b[Hpager\x1b[?1h", "pager")
    await user.press("pagedown", "up", "home")
    assert terminal.typed == b"x\x1b[6~\x1bOA\x1bOH"


async def test_the_exit_of_the_shell_is_shown_and_enter_opens_another(user: User) -> None:
    terminal = await terminal_of(user)
    terminal.put(3)
    await user.see("exited with status 3")
    # The app's keys work again now.
    await user.press("enter")
    await terminal_of(user, 2)


async def test_a_lost_machine_is_shown_and_ctrl_r_starts_a_new_one(user: User) -> None:
    terminal = await terminal_of(user)
    await printed(user, terminal, b"what was there", "what was there")
    terminal.put(MachineLost("it was killed"))
    user.fake_lab.lose()
    await user.until(lambda: user.lab.phase is MachinePhase.LOST, "the loss")
    await user.see("The machine is lost: it was killed")
    assert "what was there" in user.text
    await user.press("ctrl+r")
    await terminal_of(user, 2)


@pytest.mark.slow
async def test_a_flood_paints_little_and_keeps_keys_quick(user: User) -> None:
    terminal = await terminal_of(user)
    view = user.app.focused
    assert isinstance(view, TerminalView)
    paints = 0
    paint = view._paint

    def counted() -> None:
        nonlocal paints
        paints += 1
        paint()

    view._paint = counted  # type: ignore[method-assign]
    begun = time.monotonic()
    for number in range(2000):
        before = paints
        terminal.put(b"flood %d\r\n" % number)
        # The messages about chunks that wait would become one.
        await reached(lambda before=before: view._is_due or paints > before, "a paint is due")  # type: ignore[misc]
    terminal.put(b"over")
    await user.see("over")
    # One of them may be due already.
    assert 1 <= paints <= (time.monotonic() - begun) / PAINT_SECONDS + 1


@pytest.mark.parametrize(
    ("key", "character", "sent"),
    [
        ("a", "a", b"a"), ("A", "A", b"A"), ("é", "é", "é".encode()), ("space", " ", b" "), ("enter", "\r", b"\r"),
        ("left", None, b"\x1b[D"), ("ctrl+left", None, b"\x1b[1;5D"), ("alt+up", None, b"\x1b[1;3A"),
        ("shift+end", None, b"\x1b[1;2F"), ("ctrl+shift+right", None, b"\x1b[1;6C"), ("home", None, b"\x1b[H"),
        ("delete", None, b"\x1b[3~"), ("ctrl+delete", None, b"\x1b[3;5~"), ("insert", None, b"\x1b[2~"),
        ("f2", None, b"\x1bOQ"), ("f5", None, b"\x1b[15~"),
        ("f10", None, b"\x1b[21~"), ("shift+f3", None, b"\x1b[1;2R"),
        ("ctrl+a", "\x01", b"\x01"), ("ctrl+at", "\x00", b"\x00"), ("ctrl+backslash", "\x1c", b"\x1c"),
        ("ctrl+underscore", "\x1f", b"\x1f"), ("alt+f", "f", b"\x1bf"), ("alt+backspace", None, b"\x1b\x7f"),
        ("escape", "\x1b", b"\x1b"), ("super+x", None, b""),
    ],
)  # fmt: skip
def test_keys_are_sent_as_xterm_sends_them(key: str, character: str | None, sent: bytes) -> None:
    assert typed(key, character, cursor_keys=False) == sent


def test_arrows_have_another_form_where_a_program_wants_it() -> None:
    assert typed("up", None, cursor_keys=True) == b"\x1bOA"
    assert typed("ctrl+up", None, cursor_keys=True) == b"\x1b[1;5A"
