"""The app. Its modes share one lab. It stores settings between runs, and handles input typed ahead.

A damaged settings file does not prevent the app from starting.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import platformdirs
from textual import events, work
from textual.app import ScreenStackError, SystemCommand
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.errors import NoWidget
from textual.events import Event, InputEvent, Paste, Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import OptionList

from lab.actions.action import Choice
from lab.errors import LabError, SpecError
from lab.gates.decoding import parse_toml
from lab.gates.files import make_own_folder
from lab.host import signals
from lab.host.files import bug_words, store_traceback
from lab.machine.state_folder import default_state_root
from lab.store import RecordFile
from lab.tomlfile import toml_text
from tui.base_app import BaseApp
from tui.dialogs import MenuScreen, Modal
from tui.driver import FEWEST_COLUMNS, FEWEST_ROWS, MOST_COLUMNS, MOST_ROWS, TerminalDriver
from tui.frontend import ClientMaker, MakePlan, PlanRun
from tui.keys import SCREENS, hidden_key, known_ids, mode_keys
from tui.look import DEFAULT, TERMINAL_DARK, TERMINAL_LIGHT, THEMES, Glyphs
from tui.mode import ModeScreen
from tui.terminal_screen import TerminalView
from tui.widgets import STYLE_SHEET

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.worker import WorkType


_LEAST_PASSES, _MOST_PASSES = 2, 20
_PASS_SECONDS = 0.5
"""A pass that takes longer is started again, because a callback is lost if its widget closes before the call."""
_MOST_TIMEOUTS = 10
"""After more timeouts, the next key is handled even if the screen has not appeared yet."""
_HARMLESS = (events.MouseMove, events.MouseScrollDown, events.MouseScrollUp)
"""Events that select nothing, so that the next event need not wait for them."""


class OneAtATime(BaseApp, inherit_bindings=False):
    """The app as it handles input typed ahead: one key, click or paste at a time.

    A message travels from the focused widget through its parents to the screen and the app. A pass schedules a callback
    on each of them in this order, and waits until it has been called. After the pass, all of them have therefore
    handled the message. Messages that a handler posts need another pass.
    """

    def __init__(self, target: str | None, make_client: ClientMaker | None, glyphs: Glyphs | None) -> None:
        super().__init__(target, make_client, glyphs)
        self._held: deque[Event] = deque()
        self._is_following = False
        self._seen: Screen[object] | None = None
        """The screen that was in front before the current event, or the newest screen that has appeared since."""

    @property
    def is_handling_input(self) -> bool:
        """Whether input, or a message caused by input, is still to be handled."""
        return self._is_following or bool(self._held)

    async def on_event(self, event: Event) -> None:
        """Handle input when all earlier input has been handled, and every other event immediately."""
        if isinstance(event, Resize):
            event.size = event.virtual_size = event.container_size = _bearable(event.size)
        if not isinstance(event, InputEvent | Paste) or event.is_forwarded:
            await super().on_event(event)
            return
        if self._is_following:
            self._held.append(event)
            return
        self._seen = screen = self.screen
        if isinstance(event, events.Key) and isinstance(screen, Modal) and not screen.is_meant(event):
            return
        await super().on_event(event)
        if not isinstance(event, _HARMLESS):
            self._is_following = True
            work: WorkType[None] = partial(self._follow, self._way(event))
            self.run_worker(work)

    def _way(self, event: Event | None = None) -> list[DOMNode]:
        """Return the path from the widget that receives the event to the app."""
        screen = self.screen
        target: DOMNode = screen.focused or screen
        if isinstance(event, events.MouseEvent):
            try:
                target, _ = screen.get_widget_at(event.x, event.y)
            except (NoWidget, NoMatches):
                target = screen
        return list(target.ancestors_with_self)

    async def _follow(self, way: list[DOMNode]) -> None:
        """Wait until the event and the messages that it caused have been handled, then let the next event follow."""
        passes = timeouts = 0
        while timeouts <= _MOST_TIMEOUTS:
            try:
                async with asyncio.timeout(_PASS_SECONDS):
                    for node in way:
                        reached = asyncio.Event()
                        # Nodes that have closed are skipped.
                        if node.call_later(reached.set):
                            await reached.wait()
                passes += 1
            except TimeoutError:
                passes, timeouts = 0, timeouts + 1
            if not (self.is_running and self.screen_stack):
                return
            before, way = way, self._way()
            is_quiet = way == before and not any(each.message_queue_size for each in way)
            if passes < _LEAST_PASSES or (passes < _MOST_PASSES and not is_quiet):
                continue
            if self.screen is self._seen:
                break
            self._seen, passes = self.screen, 0
            if self._held:
                # Update the new screen before the next key, which was typed for the contents that it shows.
                self.call_later(self.show_now)
        self._release()

    def _release(self) -> None:
        self._is_following = bool(self._held)
        if self._held:
            self.call_later(self._take_next)

    async def _take_next(self) -> None:
        event, self._is_following = self._held.popleft(), False
        await self.on_event(event)
        if not self._is_following:
            self._release()


def make_screen(mode: str) -> ModeScreen:
    """Return the screen of a mode, which is imported when the mode is first opened."""
    kind: type[ModeScreen]
    match mode:
        case "lab":
            from tui.lab_screen import LabScreen as kind
        case "build":
            from tui.build_screen import BuildScreen as kind
        case "run":
            from tui.run_screen import RunScreen as kind
        case "results":
            from tui.results_screen import ResultsScreen as kind
        case "commands":
            from tui.terminal_screen import CommandsScreen as kind
        case "lessons":
            from tui.lesson_screen import LessonsScreen as kind
        case "faults":
            from tui.faults_screen import FaultsScreen as kind
        case "stripe":
            from tui.stripe_screen import StripeScreen as kind
        case "drills":
            from tui.drill_screen import DrillsScreen as kind
        case "fleet":
            from tui.fleet_screen import FleetScreen as kind
        case _:
            raise AssertionError(f"there is no mode {mode}")
    return kind()


_EVERYWHERE = ("help", "next_theme", "restart", "quit")
"""The actions whose keys work everywhere, except in an open terminal that has the focus."""


class RaidlabApp(OneAtATime, inherit_bindings=False):
    """Build, run, break and watch RAID.

    Args:
        target: the machine, or None for this computer's default machine.
        make_client: creates another client, for tests.
        settings_file, keys_file: the files for the app's settings and the user's keymap; None stands for the defaults.
        glyphs: the characters to draw with; None stands for the set that the terminal can display.
    """

    TITLE = "raidlab"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["app.tcss", STYLE_SHEET]
    DEFAULT_MODE = "lab"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        entry.mode: partial(make_screen, entry.mode) for entry in SCREENS
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *mode_keys("app.", "switch_mode", "Go to the"),
        # Keys with priority also work while a dialog is open.
        Binding("f1", "help", "Help", id="app.help", priority=True, tooltip="The purpose and the keys of this screen"),
        hidden_key("app.explain", "question_mark", "help", "Help", "The same as F1"),
        hidden_key("app.palette", "ctrl+p", "command_palette", "Palette", "Find any command by its name"),
        hidden_key("app.theme", "ctrl+t", "next_theme", "Theme", "Dark, light or high contrast", priority=True),
        hidden_key("app.restart", "ctrl+r", "restart", "Restart", "Restart a lost machine", priority=True),
        hidden_key("app.quit", "ctrl+q", "quit", "Quit", "Close the lab and quit", priority=True),
        hidden_key("app.leave", "q", "quit", "Quit", "Close the lab and quit"),
    ]

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
        self.drills.on_making = self._cover
        self._settings_file = settings_file or state_file()
        self._keys_file = keys_file or keymap_file()
        self.settings = RecordFile(self._settings_file, Settings).read_or(Settings())
        self.ended_by = 0
        """The number of the signal that ended the app, or 0 if none did."""
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self.lab.selected_array = self.settings.array or None
        self.lab.selected_disk = self.settings.disk or None

    def on_mount(self) -> None:
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
                # A Textual driver may have installed its own handlers.
                self._own_loop.remove_signal_handler(number)
            signals.reinstall()
        if self.ended_by:
            self.exit()
            return
        self.client.start()
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        keys, problems = load_keymap(self._keys_file)
        if keys:
            self.set_keymap(keys)
        for problem in problems:
            self.notify(problem, title="Keymap", severity="warning", markup=False)
        if not self.settings.was_welcomed:
            from tui.help import WelcomeScreen

            self.push_screen(WelcomeScreen())

    def end_by(self, number: int) -> None:
        """End the app after a signal, or after the terminal was closed. Any thread may call this at any time.

        It raises no exception, because an event loop swallows some exceptions, and others would leave the terminal in
        the mode that the app uses.
        """
        self.ended_by = number
        if self._own_loop:
            with suppress(RuntimeError):
                # The event loop is already closed.
                self._own_loop.call_soon_threadsafe(self.exit)

    @property
    def size(self) -> Size:
        return _bearable(super().size)

    def get_driver_class(self) -> type[Driver]:
        """Return ``TerminalDriver``, which tolerates any input and a lost terminal, in place of Textual's driver."""
        usual = super().get_driver_class()
        return TerminalDriver if usual.__name__ == "LinuxDriver" else usual

    @property
    def is_typing_on_machine(self) -> bool:
        try:
            return self.terminal.takes_keys and isinstance(self.focused, TerminalView)
        except ScreenStackError:
            return False

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: Any) -> None:
        names = ", ".join(sorted(binding.id or binding.key for binding in clashed_bindings))
        self.notify(
            f"The keymap gives several actions the same key: {names}", title="Keymap", severity="warning", markup=False
        )

    @work
    async def ask(self, make: MakePlan, *, note: str = "", on_done: Callable[[], object] | None = None) -> None:
        """Make a plan, show it, and run exactly this plan if the user agrees.

        The dialog opens before the plan is made, so that keys typed for the plan never reach the screen below.
        """
        from tui.plan_screen import PlanScreen

        dialog = PlanScreen(note)
        await self.push_screen(dialog)
        try:
            plan = await asyncio.wrap_future(self.client.submit(make))
            if dialog.has_left:
                return
            if plan:
                dialog.plan_run = run = PlanRun(self, plan)
                if not await dialog.consent:
                    return
                self.plan_runs.add(run)
                await asyncio.wrap_future(self.client.submit(run.run))
        except LabError as error:
            if dialog.plan_run:
                dialog.plan_run.leave()
            dialog.show_failure(error)
            return
        dialog.dismiss()
        if on_done:
            self.call_later(on_done)

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        self.push_screen(MenuScreen(title, choices, intro=intro), lambda chosen: then(chosen) if chosen else None)

    def _cover(self, is_covered: bool) -> None:
        from tui.drill_screen import MakingScreen

        covers = [screen for screen in self.screen_stack if isinstance(screen, MakingScreen)]
        if is_covered and not covers:
            self.push_screen(MakingScreen())
        for screen in () if is_covered else covers:
            screen.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While an open terminal has the focus, disable the keys that work everywhere: its programs receive them."""
        if action in _EVERYWHERE and self.terminal.is_open and isinstance(self.focused, TerminalView):
            return False
        return super().check_action(action, parameters)

    def action_command_palette(self) -> None:
        from tui.help import Palette

        if not Palette.is_open(self):
            self.push_screen(Palette(id="--command-palette"))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key. If it fails unexpectedly, report that, store the traceback, and continue."""
        # Page keys make Textual's OptionList, which the palette contains too, look beyond its last visible line.
        lists = self.screen.query(OptionList) if "page_" in str(action) else ()
        if any(each.scrollable_content_region.height <= 0 for each in lists):
            return False
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            if not self.owns_process:
                raise
            self.show_message(f"{bug_words(error)}\nnext: {store_traceback(error)}", is_bad=True)
            return True

    def action_help(self) -> None:
        from tui.help import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.screen.dismiss()
        else:
            self.push_screen(HelpScreen(self.screen))

    def action_next_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]

    def action_restart(self) -> None:
        self.client.start()

    async def action_quit(self) -> None:
        # Without this value, an error while the screens are being closed would determine the exit status.
        self.exit(0)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        from tui.help import palette_commands

        yield from palette_commands(self, screen)

    def store_settings(self) -> None:
        mode = self.current_mode if self.current_mode in self.MODES else Settings().mode
        settings = Settings(
            self.theme, mode, self.lab.selected_array or "", self.lab.selected_disk or "", was_welcomed=True
        )
        save_settings(self._settings_file, settings)


def _bearable(size: Size) -> Size:
    return Size(min(max(size.width, FEWEST_COLUMNS), MOST_COLUMNS), min(max(size.height, FEWEST_ROWS), MOST_ROWS))


def main(on: str | None = None) -> int:
    """Run the app and return its exit status. However it ends, close the lab and restore the terminal."""
    target = on or os.environ.get("RAIDLAB_ON")
    app = RaidlabApp(target)
    app.owns_process = True
    with signals.handled_by(app.end_by):
        signals.watch_terminal((0, 1, 2))
        try:
            with signals.restored():
                status = app.run()
            app.store_settings()
        finally:
            app.background.end()
            app.client.close()
    if app.ended_by:
        return 128 + app.ended_by
    return status if isinstance(status, int) else app.return_code or 0


CONFIG_VARIABLE = "RAIDLAB_CONFIG"


class Settings(msgspec.Struct, frozen=True):
    """The settings that are restored at the next start. If their file is damaged or missing, the defaults apply."""

    theme: str = DEFAULT
    mode: str = "lab"
    array: str = ""
    disk: str = ""
    was_welcomed: bool = False


def state_file() -> Path:
    """Return the path of the settings file."""
    return default_state_root() / "app.json"


def keymap_file() -> Path:
    """Return ``keymap.toml`` in ``$RAIDLAB_CONFIG`` or in the user's configuration folder (``~/.config/raidlab``)."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    return (Path(chosen) if chosen else platformdirs.user_config_path("raidlab")) / "keymap.toml"


def save_settings(file: Path, settings: Settings) -> None:
    """Store the settings if possible."""
    with suppress(LabError, OSError):
        make_own_folder(file.parent, "the state folder")
        RecordFile(file, Settings).replace(settings)


def load_keymap(file: Path) -> tuple[dict[str, str], list[str]]:
    """Return the user's keymap (binding id -> keys), and one line for each problem in the file."""
    try:
        if not file.exists():
            return {}, []
        keys = parse_toml(toml_text(file), source=str(file)).get("keys", {})
    except (OSError, SpecError) as error:
        return {}, [error.message if isinstance(error, SpecError) else f"{file} cannot be read: {error.strerror}"]
    if not isinstance(keys, dict):
        return {}, [f'{file}: keys must be a table, such as [keys] with "lab.fail" = "f"']
    known = known_ids()
    good = {name: value for name, value in keys.items() if name in known and isinstance(value, str) and value}
    return good, [f"{file}: no binding '{name}', or its keys are not text" for name in keys if name not in good]
