"""The terminal of the Commands screen: keys, focus, paste, scrolling, its end; the shell behind it is the test's."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from textual import events

from lab.errors import MachineLost
from lab.machine import TypedCommand
from tests.tui.conftest import AppMaker, AppPilot, idle, looked, until
from tests.tui.conftest import running as running
from tests.tui.fake_lab import FakeLab
from tests.tui.still import text_of
from tests.unit.fakes import FakeTerminal
from tui.app import RaidlabApp, Settings
from tui.help import HelpScreen
from tui.state import MachinePhase, Origin
from tui.terminal import TerminalScreen
from tui.terminal_screen import TerminalView, pasted, typed

SETTINGS = Settings(mode="commands", was_welcomed=True)


async def terminal_of(pilot: AppPilot, app: RaidlabApp, lab: FakeLab, count: int = 1) -> FakeTerminal:
    await until(pilot, lambda: len(lab.machine.terminals) == count and app.terminal.is_open, "a terminal")
    return lab.machine.terminals[-1]


async def printed(pilot: AppPilot, app: RaidlabApp, terminal: FakeTerminal, data: bytes, words: str) -> None:
    terminal.put(data)
    await until(pilot, lambda: words in text_of(app), words)


async def test_all_keys_but_a_few_are_the_programs(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        assert isinstance(app.focused, TerminalView)
        assert terminal.sizes[-1] == app.focused.size
        keys = [
            "1",
            "q",
            "question_mark",
            "comma",
            "escape",
            "f1",
            "f6",
            "tab",
            "shift+tab",
            "up",
            "backspace",
            "enter",
        ]
        await pilot.press(*keys, "ctrl+c", "ctrl+r", "ctrl+t", "ctrl+q", "ctrl+p", "alt+b", "pageup")
        wanted = b"1q?,\x1b\x1bOP\x1b[17~\t\x1b[Z\x1b[A\x7f\r" + b"\x03\x12\x14\x11\x10\x1bb"
        assert terminal.typed == wanted
        assert app.current_mode == "commands"
        assert app.is_running
        assert not isinstance(app.screen, HelpScreen)


async def test_a_machine_that_answers_late_holds_up_nothing_and_no_key_is_lost(
    app_on: AppMaker, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open, opens = threading.Event(), fake_lab.machine.terminal

    def late(*arguments: Any, **named: Any) -> FakeTerminal:
        assert may_open.wait(10)
        return opens(*arguments, **named)

    monkeypatch.setattr(fake_lab.machine, "terminal", late)
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await until(pilot, lambda: "Opening the terminal" in text_of(app), "it says that it waits")
        await pilot.press("l", "s")
        await pilot.press("f12", "f12", "enter")
        await pilot.resize_terminal(100, 30)
        may_open.set()
        terminal = await terminal_of(pilot, app, fake_lab)
        await until(pilot, lambda: terminal.typed.endswith(b"\r"), "what was pressed early is typed")
        assert (terminal.typed, terminal.sizes[-1]) == (b"ls\r", app.screen.query_one(TerminalView).size)
        assert len(fake_lab.machine.terminals) == 1


async def test_f12_leaves_and_comes_back_and_the_apps_keys_hold_in_between(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        await pilot.press("f12")
        assert not isinstance(app.focused, TerminalView)
        await pilot.press("ctrl+right_square_bracket", "x", "f12", "1")
        assert (terminal.typed, app.current_mode) == (b"x", "lab")
        # The shell goes on, and is there again.
        await pilot.press("5", "y")
        assert terminal.typed == b"xy"
        assert len(fake_lab.machine.terminals) == 1
        await pilot.press("f12", "f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen), "the help")


async def test_f11_gives_it_the_whole_screen_and_the_program_is_told(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app, (100, 30)) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        small = terminal.sizes[-1]
        await pilot.press("f11")
        await until(pilot, lambda: terminal.sizes[-1] == (98, 28), "the large size")
        await pilot.press("f11")
        await until(pilot, lambda: terminal.sizes[-1] == small, "the small size")
        await pilot.press("f11", "f12")
        await until(pilot, lambda: terminal.sizes[-1] == small, "the small size again")
        assert terminal.typed == b""


async def test_what_ended_is_logged_and_the_lab_looked_at_anew(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        await idle(pilot, app)
        runs = len(fake_lab.machine.runs)
        terminal.put(TypedCommand("mdadm --stop /dev/md0", 1, 0.5, "/"))
        await until(pilot, lambda: any(entry.origin is Origin.SHELL for entry in app.lab.commands), "an entry")
        entry = next(entry for entry in app.lab.commands if entry.origin is Origin.SHELL)
        assert (entry.line, entry.status, entry.seconds) == ("mdadm --stop /dev/md0", 1, 0.5)
        await until(pilot, lambda: len(fake_lab.machine.runs) > runs, "a look at the disks")
        # Enter on it brings it to the prompt; nothing runs by itself.
        await pilot.press("f12", "end", "enter")
        await until(pilot, lambda: terminal.typed == b"mdadm --stop /dev/md0", "the line at the prompt")
        assert isinstance(app.focused, TerminalView)


async def test_a_paste_is_told_apart_from_keys_where_the_program_can(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        assert app.focused
        app.focused.post_message(events.Paste("one\ntwo\x1b[201~\x03"))
        await until(pilot, lambda: terminal.typed == b"one\rtwo[201~", "the paste")
        await printed(pilot, app, terminal, b"\x1b[?2004hready", "ready")
        app.focused.post_message(events.Paste("three"))
        await until(pilot, lambda: terminal.typed.endswith(b"\x1b[200~three\x1b[201~"), "the second paste")


async def test_what_has_gone_by_can_be_seen_and_a_pager_gets_its_own_keys(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        many = b"".join(b"line %d.\r\n" % number for number in range(300))
        await printed(pilot, app, terminal, many + b"end", "end")
        await pilot.press("pageup")
        await until(pilot, lambda: "line 299." not in text_of(app), "older lines")
        seen = text_of(app)
        await printed(pilot, app, terminal, b"", "line")
        terminal.put(b"\r\nmore\r\n")
        await idle(pilot, app)
        assert "more" not in text_of(app)
        assert seen.count("line 2") == text_of(app).count("line 2")
        await pilot.press("x")
        await until(pilot, lambda: "more" in text_of(app), "the newest")
        assert terminal.typed == b"x"
        await printed(pilot, app, terminal, b"\x1b[?1049h\x1b[2J\x1b[Hpager\x1b[?1h", "pager")
        await pilot.press("pagedown", "up", "home")
        assert terminal.typed == b"x\x1b[6~\x1bOA\x1bOH"


async def test_its_end_is_told_and_enter_opens_another(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        terminal.put(3)
        await until(pilot, lambda: "exited with status 3" in text_of(app), "the end")
        # Then the app's keys hold again.
        await pilot.press("enter")
        await terminal_of(pilot, app, fake_lab, 2)


async def test_a_lost_machine_says_so_and_ctrl_r_brings_a_new_one(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        terminal = await terminal_of(pilot, app, fake_lab)
        await printed(pilot, app, terminal, b"what was there", "what was there")
        terminal.put(MachineLost("it was killed"))
        fake_lab.lose()
        await until(pilot, lambda: app.lab.phase is MachinePhase.LOST, "the loss")
        await until(pilot, lambda: "The machine is lost: it was killed" in text_of(app), "the news")
        assert "what was there" in text_of(app)
        await pilot.press("ctrl+r")
        await terminal_of(pilot, app, fake_lab, 2)


@pytest.mark.slow
async def test_a_flood_paints_little_and_keeps_keys_quick(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(SETTINGS)
    async with running(app) as pilot:
        terminal = await terminal_of(pilot, app, fake_lab)
        view = app.focused
        assert isinstance(view, TerminalView)
        paints = 0
        paint = view._paint

        def counted() -> None:
            nonlocal paints
            paints += 1
            paint()

        view._paint = counted  # type: ignore[method-assign]
        for number in range(2000):
            terminal.put(b"flood %d\r\n" % number)
        terminal.put(b"over")
        await until(pilot, lambda: "over" in text_of(app), "the flood's end")
        assert 1 <= paints < 500


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


def test_a_paste_holds_no_keys() -> None:
    assert pasted("a\r\nb\x07\x1b[201~c", is_bracketed=True) == b"\x1b[200~a\rb[201~c\x1b[201~"


def test_a_size_that_is_the_same_is_not_told() -> None:
    screen = TerminalScreen(10, 3)
    screen.resize(3, 10)
    assert (screen.columns, screen.lines) == (10, 3)
