"""The common part of all modes: the bar at the top, the next step and the keys at the bottom, and the updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.screen import Screen

from lab.lessons.verbs import LessonHint
from tui.keys import CommandKey, key_for
from tui.widgets.frame import HintLine, KeyLine, ProblemBar, TopBar

if TYPE_CHECKING:
    from textual import getters

    from tui.base_app import BaseApp
    from tui.lessons.panel import LessonPanel
    from tui.lessons.view import LessonView
    from tui.state import LabState


WIDE_CELLS = 110
_KEYS = (
    "[b $footer-key-foreground]F6[/] large  [b $footer-key-foreground]F7[/] hint  [b $footer-key-foreground]F8[/] go on"
)


def pause_key(key: str) -> Binding:
    """A binding that pauses a machine in virtual time."""
    tooltip = "In virtual time: let the machine's clock stand still, or go on"
    return Binding(key, "pause", "Pause", id="clock.pause", show=False, tooltip=tooltip)


class LessonSide(Vertical):
    """The lesson at the right. It is hidden without a lesson and on a narrow terminal, which has only the hint line."""

    DEFAULT_CSS = """
    LessonSide { width: auto; height: 1fr; display: none; }
    LessonSide > LessonPanel { width: 44; height: 1fr; }
    LessonSide.-roomy > LessonPanel { width: 56; }
    """

    def show(self, view: LessonView | None) -> None:
        """Show the lesson, or hide the widget."""
        width = self.screen.size.width
        self.display = view is not None and width >= WIDE_CELLS
        if view is None or not self.display:
            return
        from tui.lessons.panel import LessonPanel

        self.set_class(width >= 150, "-roomy")
        panel = next(iter(self.query(LessonPanel)), None)
        if panel is None:
            panel = LessonPanel(continue_key="F8", keys=_KEYS)
            self.mount(panel)
        panel.show(view)


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """A command of the palette without a key."""

    text: str
    help: str
    run: Callable[[], object]


class ModeScreen(Screen[None]):
    """Base class of the screens of all modes. Subclasses implement ``body`` and ``show_state``."""

    AREA: ClassVar[str] = ""
    """The prefix of its commands in the palette: ``AREA: …``."""
    HELP: ClassVar[str] = ""
    """The purpose of the screen, as Markdown. The help screen adds the keys."""

    SHOWS_LESSON: ClassVar[bool] = True
    """Whether the open lesson may be shown at the right."""
    LESSON_FROM_CELLS: ClassVar[int] = 0
    """Minimum width of a terminal, in cells, that shows the lesson; in a narrower one the screen needs the room."""
    USES_LAB: ClassVar[bool] = True
    """Whether the screen needs the lab's machine: if it is lost, the next step is to restart it."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f6", "lesson", "Lesson", id="lesson.large", show=False, tooltip="To the open lesson, and back"),
        key_for(
            LessonHint,
            "lesson_hint",
            id="lesson.hint",
            key="f7",
            tooltip="One more hint of the open lesson",
            show=False,
        ),
        Binding("f8", "lesson_next", "Go on", id="lesson.next", show=False, tooltip="The explanation is read: go on"),
        pause_key("comma"),
        CommandKey(
            "full_stop",
            "step",
            "Step",
            id="clock.step",
            show=False,
            tooltip="In virtual time: to the next event (a member fails, a rebuild ends), then pause",
            command="array wait",
        ),
        Binding(
            "greater_than_sign",
            "pace(1)",
            "Faster",
            id="clock.faster",
            show=False,
            tooltip="In virtual time: 1, 10, 100 machine seconds a second, as many as it can",
        ),
        Binding(
            "less_than_sign",
            "pace(-1)",
            "Slower",
            id="clock.slower",
            show=False,
            tooltip="In virtual time: slower; below 1x it stands still",
        ),
    ]

    if TYPE_CHECKING:
        app = getters.app(BaseApp)

    _is_settled = False
    _shown_keys: tuple[tuple[str, str, bool], ...] = ()

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield ProblemBar()
        with Horizontal(id="main"):
            with Vertical(id="body"):
                yield from self.body()
            yield LessonSide(id="side")
        yield HintLine()
        yield KeyLine()

    def body(self) -> ComposeResult:
        """The widgets of the mode."""
        yield from ()

    def show_state(self, state: LabState) -> None:
        """Show the state. It is called at most ten times a second, while the screen is visible."""

    def hint(self, state: LabState) -> str | None:
        """The next step on this screen, as markup; None: the general next step of ``tui.story``."""
        return None

    def palette(self) -> Iterable[PaletteEntry]:
        """Further commands of the palette, without keys."""
        return ()

    @property
    def lesson_beside(self) -> LessonView | None:
        """The lesson at the right; None while a drill is open, or if the screen needs the width."""
        is_away = self.app.drills.view is not None or self.size.width < self.LESSON_FROM_CELLS
        return None if is_away else self.app.guide.view

    def update_from(self, state: LabState) -> None:
        """Update the frame and the body."""
        from tui.story import next_step

        self.query_one(TopBar).show(state, self.app.current_mode)
        self.query_one(ProblemBar).show(state)
        if self.SHOWS_LESSON and not self.has_class("-full"):
            self.query_one(LessonSide).show(self.lesson_beside)
        self.show_state(state)
        # After the body, because the next step depends on what it shows.
        if self.USES_LAB and state.is_down:
            hint = next_step(state)
        else:
            followed = self.app.drills.hint_line() or self.app.guide.hint_line()
            wanted = None if self.app.drills.view else self.app.guide.reading_line(self.app.current_mode)
            hint = wanted or self.hint(state) or followed or next_step(state)
        self.query_one(HintLine).show(hint)
        self._show_keys()

    def _show_keys(self) -> None:
        """Rebuild the footer only if other keys apply: that costs more than painting all charts."""
        keys = tuple((key, each.binding.description, each.enabled) for key, each in self.active_bindings.items())
        if keys != self._shown_keys:
            self._shown_keys = keys
            self.refresh_bindings()

    def action_lesson(self) -> None:
        now = self.app.current_mode
        self.app.switch_mode(self.app.drills.other_mode(now) or self.app.guide.other_mode(now))

    def action_lesson_hint(self) -> None:
        if self.app.drills.view is None:
            self.app.guide.hint()
            return
        self.app.drills.hint()
        # A lesson is shown on every screen, a drill only on its own.
        self.app.switch_mode("drills")

    def action_lesson_next(self) -> None:
        self.app.guide.read_on()

    def action_pause(self) -> None:
        self.app.pacing.toggle()

    def action_step(self) -> None:
        self.app.pacing.step()

    def action_pace(self, by: int) -> None:
        self.app.pacing.change(by)

    def on_lesson_panel_answered(self, event: LessonPanel.Answered) -> None:
        self.app.guide.answer(event.key)

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width >= WIDE_CELLS, "-wide")
        # Fit the contents to the new width even if no sample follows.
        self.call_after_refresh(self.app.show_soon)

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._resumed)

    def _resumed(self) -> None:
        self.app.show_now()
        if not self._is_settled:
            self._is_settled = True
            self.app.settle()
