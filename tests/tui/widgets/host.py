"""A widget alone on a screen: its painted lines, and the messages that it posts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

from tui.look import ASCII, UNICODE, Glyphs, to_ascii
from tui.widgets import STYLE_SHEET

Act = Callable[[Pilot[None]], Awaitable[None]]


class Host(App[None]):
    """An app with one widget that fills its screen."""

    CSS_PATH = STYLE_SHEET
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, widget: Widget, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.widget = widget
        self.glyphs = glyphs

    def compose(self) -> ComposeResult:
        yield self.widget


def shown(
    widget: Widget, size: tuple[int, int] = (60, 12), act: Act | None = None, glyphs: Glyphs = UNICODE
) -> list[str]:
    """The lines that the widget paints, without blanks at their ends."""

    async def run() -> list[str]:
        host = Host(widget, glyphs)
        async with host.run_test(size=size) as pilot:
            await pilot.pause()
            if act:
                await act(pilot)
                await pilot.pause()
            width, height = widget.size
            lines = [widget.render_line(line).crop(0, width).text.rstrip() for line in range(height)]
            return [to_ascii(line) if glyphs is ASCII else line for line in lines]

    return asyncio.run(run())


def assert_bears(widget: Widget, *sizes: tuple[int, int], glyphs: Glyphs = UNICODE) -> None:
    """Require that the widget can be painted at each of these sizes."""

    async def act(pilot: Pilot[None]) -> None:
        for columns, rows in sizes:
            await pilot.resize_terminal(columns, rows)
            await pilot.pause()
            lines = [widget.render_line(line) for line in range(widget.size.height)]
            assert {line.cell_length for line in lines} <= {widget.size.width}

    shown(widget, act=act, glyphs=glyphs)


def messages_of(widget: Widget, act: Act, kind: type[Message], size: tuple[int, int] = (60, 12)) -> list[Message]:
    """The messages of one kind that the widget posted while ``act`` ran."""
    heard: list[Message] = []

    async def run() -> None:
        host = Host(widget)
        async with host.run_test(
            size=size, message_hook=lambda message: heard.append(message) if isinstance(message, kind) else None
        ) as pilot:
            await pilot.pause()
            await act(pilot)
            await pilot.pause()

    asyncio.run(run())
    # A message that bubbles passes the hook once for every widget on its way.
    return list({id(message): message for message in heard}.values())
