"""The app: modes on number keys, one lab behind them; the frontend with screens and menus."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ScreenStackError, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, InputEvent, Paste, Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import OptionList

from lab.actions.action import Choice
from lab.host import signals
from tui.base_app import BaseApp
from tui.frontend import ClientMaker, named
from tui.glyphs import Glyphs
from tui.input_gate import FEWEST_COLUMNS, FEWEST_ROWS, MOST_COLUMNS, MOST_ROWS
from tui.keys import known_ids
from tui.modes import MAKERS
from tui.registry import SCREENS
from tui.settings import Settings, keymap_file, load_keymap, load_settings, save_settings, state_file
from tui.themes import TERMINAL_DARK, TERMINAL_LIGHT, THEMES
from tui.typed_ahead import TypedAhead
from tui.widgets.terminal import TerminalView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.actions import ActionParseResult
    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.message import Message

    from lab.errors import LabError
    from lab.plans import Plan
    from lab.session.session import LabSession

SHOW_SECONDS = 0.1
"""The screen is brought up to date no more often than this."""
_EVERYWHERE = ("help", "next_theme", "restart", "quit")
"""Actions of the keys with priority."""


class RaidlabApp(BaseApp, inherit_bindings=False):
    """Build, run, break and watch RAID.

    Args:
        target: the machine, or None for the one that suits this computer.
        make_client: another client, for tests.
        settings_file, keys_file: where the app keeps its state and finds the user's keys.
        glyphs: the signs to draw with; None: what the terminal can show.
    """

    TITLE = "raidlab"
    CSS_PATH = "app.tcss"
    DEFAULT_MODE = "lab"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {**MAKERS}
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(
                entry.key,
                f"mode('{entry.mode}')",
                entry.title,
                show=False,
                id=f"app.{entry.mode}",
                tooltip=f"Go to the screen {entry.title}",
            )
            for entry in SCREENS
        ),
        # With priority those that also hold over dialogs.
        Binding("f1", "help", "Help", id="app.help", priority=True, tooltip="What this screen is for, and its keys"),
        Binding("question_mark", "help", "Help", id="app.explain", tooltip="The same as F1", show=False),
        Binding(
            "ctrl+p", "command_palette", "Palette", id="app.palette", show=False, tooltip="Find any command by its name"
        ),
        Binding(
            "ctrl+t", "next_theme", "Theme", id="app.theme", show=False, priority=True,
            tooltip="Dark, light or high contrast",
        ),
        Binding(
            "ctrl+r", "restart", "Restart", id="app.restart", show=False, priority=True,
            tooltip="Start a machine that was lost again",
        ),
        Binding(
            "ctrl+q", "quit", "Quit", id="app.quit", show=False, priority=True, tooltip="Close the lab and leave"
        ),
        Binding("q", "quit", "Quit", id="app.leave", show=False, tooltip="Close the lab and leave"),
    ]  # fmt: skip

    def __init__(
        self,
        target: str | None = None,
        *,
        make_client: ClientMaker | None = None,
        settings_file: Path | None = None,
        keys_file: Path | None = None,
        glyphs: Glyphs | None = None,
    ) -> None:
        super().__init__(target, make_client, glyphs)
        self._typed_ahead = TypedAhead(self, super().on_event)
        self.drills.on_making = self._cover
        self._settings_file = settings_file or state_file()
        self._keys_file = keys_file or keymap_file()
        self.settings: Settings = load_settings(self._settings_file)
        self._is_show_due = False
        self.ended_by = 0
        """The signal that ended it, if one did."""
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self.lab.selected_array = self.settings.array or None
        self.lab.selected_disk = self.settings.disk or None

    async def on_event(self, event: Event) -> None:
        """Input one at a time; all else as it comes."""
        if isinstance(event, InputEvent | Paste) and not event.is_forwarded:
            await self._typed_ahead.take(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        """Themes and keys first, the machine beside the first frame."""
        for theme in THEMES:
            self.register_theme(theme)
        self.ansi_theme_dark, self.ansi_theme_light = TERMINAL_DARK, TERMINAL_LIGHT
        known = {theme.name for theme in THEMES}
        self.theme = self.settings.theme if self.settings.theme in known else Settings().theme
        if self.settings.mode in self.MODES:
            self.switch_mode(self.settings.mode)
        self._own_loop = asyncio.get_running_loop()
        if self.owns_process:
            for number in signals.ENDING:
                # A driver of Textual's may have set its own.
                self._own_loop.remove_signal_handler(number)
            signals.take_back()
        if self.ended_by:
            self.exit()
            return
        self.client.start()
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        keys, problems = load_keymap(self._keys_file, known_ids)
        if keys:
            self.set_keymap(keys)
        for problem in problems:
            self.notify(problem, title="Keymap", severity="warning", markup=False)
        if not self.settings.was_welcomed:
            from tui.screens.welcome import WelcomeScreen

            self.push_screen(WelcomeScreen())

    def end_by(self, number: int) -> None:
        """A signal has come, or the terminal is gone. On any thread, whatever the app is doing.

        No exception: an event loop swallows some, and others would leave the terminal as the app uses it.
        """
        self.ended_by = number
        if self._own_loop:
            with suppress(RuntimeError):
                # It has ended already.
                self._own_loop.call_soon_threadsafe(self.exit)

    @property
    def size(self) -> Size:
        return _bearable(super().size)

    def post_message(self, message: Message) -> bool:
        """Every new size comes by here, whichever driver it is of."""
        if isinstance(message, Resize):
            message.size = message.virtual_size = message.container_size = _bearable(message.size)
        return super().post_message(message)

    def get_driver_class(self) -> type[Driver]:
        """Textual's, but on a terminal the one that bears whatever a terminal does."""
        usual = super().get_driver_class()
        if usual.__name__ != "LinuxDriver":
            return usual
        from tui.terminal_driver import TerminalDriver

        return TerminalDriver

    @property
    def is_typing_on_machine(self) -> bool:
        """Whether the keys are a program's on the machine. On any thread."""
        try:
            return self.terminal.takes_keys and isinstance(self.focused, TerminalView)
        except ScreenStackError:
            return False

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: Any) -> None:
        names = ", ".join(sorted(binding.id or binding.key for binding in clashed_bindings))
        self.notify(f"The keymap gives one key to several: {names}", title="Keymap", severity="warning", markup=False)

    def show_soon(self) -> None:
        """Bring the screens up to date within a tenth of a second, however much happens meanwhile."""
        if not self._is_show_due:
            self._is_show_due = True
            self.set_timer(SHOW_SECONDS, self.show_now)

    def show_now(self) -> None:
        """Bring the screens that can be seen up to date."""
        self._is_show_due = False
        if not self.is_running:
            return
        for screen in self.screen_stack:
            show = getattr(screen, "update_from", None)
            if show and screen.is_mounted:
                show(self.lab)

    def ask(
        self, make: Callable[[LabSession], Plan | None], *, note: str = "", on_done: Callable[[], None] | None = None
    ) -> None:
        """As every frontend does; until the plan is there a dialog without one takes the keys."""
        from tui.screens.plan import AwaitedPlan

        awaited = AwaitedPlan()
        self.push_screen(awaited)

        def show(plan: Plan | None) -> None:
            # Both at once: no key may reach the screen beneath in between.
            awaited.dismiss()
            if not awaited.is_wanted:
                return
            if plan is not None:
                self.show_plan(plan, note=note, on_done=on_done)
            elif on_done:
                on_done()

        def refuse(error: LabError) -> None:
            awaited.dismiss()
            self.show_error(error)

        self.look_up(partial(named, make), on_done=show, on_error=refuse)

    def show_plan(self, plan: Plan, *, note: str = "", on_done: Callable[[], None] | None = None) -> None:
        """On a screen that runs, copies or leaves it."""
        from tui.screens.plan import PlanScreen

        self.push_screen(PlanScreen(plan, note=note, on_done=on_done))

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        """On a menu."""
        from tui.screens.menu import MenuScreen

        self.push_screen(MenuScreen(title, choices, intro=intro), lambda chosen: then(chosen) if chosen else None)

    def _cover(self, is_covered: bool) -> None:
        from tui.screens.drills import MakingScreen

        covers = [screen for screen in self.screen_stack if isinstance(screen, MakingScreen)]
        if is_covered and not covers:
            self.push_screen(MakingScreen())
        for screen in () if is_covered else covers:
            screen.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the terminal has the focus, its programs get the keys that otherwise hold everywhere."""
        if action in _EVERYWHERE and self.terminal.is_open and isinstance(self.focused, TerminalView):
            return False
        return super().check_action(action, parameters)

    def action_command_palette(self) -> None:
        from tui.screens.palette import Palette

        if not Palette.is_open(self):
            self.push_screen(Palette(id="--command-palette"))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """A key's action. A bug in one is told, and kept for a report: the lab behind the screen goes on."""
        if "page_" in str(action) and self._has_list_without_lines():
            return False
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            if not self.owns_process:
                raise
            from lab.host.bugs import bug_words, keep_traceback

            self.say(f"{bug_words(error)}\nnext: {keep_traceback(error)}", is_bad=True)
            return True

    def _has_list_without_lines(self) -> bool:
        """Textual looks for the line after the last one then (OptionList, which the palette is made of as well)."""
        lists = self.screen.query(OptionList)
        return any(each.scrollable_content_region.height <= 0 for each in lists)

    def action_mode(self, mode: str) -> None:
        self.switch_mode(mode)

    def action_help(self) -> None:
        from tui.screens.help import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.screen.dismiss()
        else:
            self.push_screen(HelpScreen(self.screen))

    def action_next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]

    def action_restart(self) -> None:
        self.client.restart()

    async def action_quit(self) -> None:
        self.exit(0)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The palette: what applies now, ``Area: Verb``."""
        from tui.commands import palette_commands

        yield from palette_commands(self, screen)

    def keep_settings(self) -> None:
        """Remember theme, screen and selection for the next start."""
        mode = self.current_mode if self.current_mode in self.MODES else Settings().mode
        kept = Settings(
            self.theme, mode, self.lab.selected_array or "", self.lab.selected_disk or "", was_welcomed=True
        )
        save_settings(self._settings_file, kept)


def _bearable(size: Size) -> Size:
    return Size(min(max(size.width, FEWEST_COLUMNS), MOST_COLUMNS), min(max(size.height, FEWEST_ROWS), MOST_ROWS))


def main(on: str | None = None) -> int:
    """Open the app; returns the exit status. The lab is closed and the terminal restored on every way out."""
    target = on or os.environ.get("RAIDLAB_ON")
    app = RaidlabApp(target)
    app.owns_process = True
    with signals.heard_by(app.end_by):
        signals.watch_terminal((0, 1, 2))
        try:
            with signals.kept():
                status = app.run()
            app.keep_settings()
        finally:
            app.background.end()
            app.client.close()
    if app.ended_by:
        return 128 + app.ended_by
    return status if isinstance(status, int) else app.return_code or 0
