"""The common parts of all modes' screens: the bars at the top, the lesson, the next step, and the keys."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult, RenderResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.reactive import reactive
from textual.widgets import Footer, Static
from textual.widgets._footer import FooterKey

from lab.errors import RUN_AGAIN
from lab.lessons.verbs import LessonHint
from lab.machine.target import target_words
from tui.actions import next_step
from tui.base_app import StateScreen
from tui.keys import SCREENS, command_key, hidden_key, key_for
from tui.lessons import LessonPanel, LessonView
from tui.look import glyphs_of
from tui.quantities import clock_words
from tui.state import LabState, MachinePhase
from tui.widgets import ChangingText

_NAMED_FROM_CELLS = 100
_LONGEST_TITLE = max(len(entry.narrow_title) for entry in SCREENS)
_FEWEST_LETTERS = 4
"""Minimum length of a shortened name. With less room, only the key is shown."""
_PHASE_WORDS = {
    MachinePhase.OPENING: "starting",
    MachinePhase.LOST: "lost",
    MachinePhase.FAILED: "did not start",
    MachinePhase.CLOSED: "closed",
}


def _besides(hint: str) -> str:
    """Return, as a sentence, the part of a command-line hint that does not say how to restart the machine."""
    if hint.startswith(RUN_AGAIN):
        rest = hint.removeprefix(RUN_AGAIN).lstrip(":; ")
        return f" {rest[0].upper()}{rest[1:]}." if rest else ""
    return f" Or: {hint.replace(RUN_AGAIN, 'press Ctrl+R')}." if hint else ""


class TopBar(Static):
    """The modes, the current operation, and the machine."""

    _state = LabState()
    _mode = ""
    _shown: reactive[tuple[object, ...]] = reactive(())

    def show(self, state: LabState, mode: str) -> None:
        self._state, self._mode = state, mode
        doing = (state.operation, state.load, state.background)
        self._shown = (mode, state.phase, state.target, state.facts, doing, self._clock)

    @property
    def _clock(self) -> str:
        """Return the time and the pace of a machine in virtual time, such as ``0:12:30 10x``."""
        pace, snapshot = self._state.pace, self._state.snapshot
        return f"{clock_words(snapshot.time_seconds)} {pace.words}" if pace and snapshot else ""

    def render(self) -> RenderResult:
        width = self.size.width
        left, right = self._fitting(width)
        if left.cell_length + right.cell_length > width:
            right = right.truncate(max(0, width - left.cell_length), ellipsis=True)
        return left + Content(" " * (width - left.cell_length - right.cell_length)) + right

    def _fitting(self, width: int) -> tuple[Content, Content]:
        """Return the modes and the machine. If they do not fit, first shorten the machine's text, then the modes."""
        left = self._tabs()
        if self.app.size.width >= _NAMED_FROM_CELLS:
            named = Content.from_markup("[bold $accent] raidlab [/]") + left
            words = self._machine(has_names=True)
            for tabs in (named, left):
                if tabs.cell_length + words.cell_length <= width:
                    return tabs, words
            return left, self._machine()
        short = self._machine(is_short=True).rstrip()
        for letters in (*range(_LONGEST_TITLE, _FEWEST_LETTERS - 1, -1), 0):
            if left.cell_length + short.cell_length <= width:
                break
            left = self._tabs(letters)
        return left, short

    def _tabs(self, letters: int | None = None) -> Content:
        """Return the modes, with whole names or ``letters`` letters of each. The current name is always whole."""
        parts = []
        for entry in SCREENS:
            is_shown = entry.mode == self._mode
            style = "bold $block-cursor-foreground on $block-cursor-background" if is_shown else "$secondary"
            whole = entry.title if letters is None else entry.narrow_title
            title, gap = (whole, " ") if is_shown or letters is None else (whole[:letters], "")
            words = f" {entry.key} {title}{gap}" if title else f" {entry.key}"
            text = f"[@click=app.switch_mode('{entry.mode}')][{style}]{words}[/][/]"
            parts.append(Content.from_markup(text))
        return Content.assemble(*parts)

    def _machine(self, *, has_names: bool = False, is_short: bool = False) -> Content:
        """Return the operation and the machine.

        ``has_names`` adds the target and the kernel, and ``is_short`` omits the name of the operation.
        """
        state, glyphs = self._state, glyphs_of(self)
        parts: list[Content | str] = []
        if clock := self._clock:
            gap = " " if is_short else ""
            parts += [gap, Content.from_markup("[bold $warning]$clock[/]  ", clock=clock)]
        load = state.running_load
        doing = state.operation.title if state.operation else state.background
        if doing or load:
            style = "$accent" if doing else "$primary"
            text = doing or (f"{load.workload} on {load.array}" if load else "")
            words = "" if is_short else f" {text}"
            gap = "" if is_short else "  "
            parts.append(Content.from_markup(f"[{style}]$glyph$text[/]{gap}", glyph=glyphs.busy, text=words))
        if state.phase is MachinePhase.OPEN:
            kernel = state.facts.kernel_release if state.facts else ""
            names = f"{target_words(state.target, is_short=True)} {kernel} " if has_names else ""
            parts.append(Content.from_markup("[$success]$glyph[/] $names", glyph=glyphs.good, names=names))
        else:
            style = "$warning" if state.phase is MachinePhase.OPENING else "$error"
            sign = glyphs.busy if state.phase is MachinePhase.OPENING else glyphs.bad
            text = f"machine {_PHASE_WORDS[state.phase]} "
            parts.append(Content.from_markup(f"[{style}]$glyph $text[/]", glyph=sign, text=text))
        return Content.assemble(*parts)


class HintLine(ChangingText):
    """The next step, in one line."""

    def show(self, text: str) -> None:
        """Show ``text``, which may contain markup. Keys are written [b]k[/b]."""
        sign = glyphs_of(self).arrow
        self.update(Content.assemble((f" {sign} ", "bold $accent"), Content.from_markup(text)))


class KeyLine(Footer):
    """The keys that apply, without those that do not fit completely. F1 lists all of them."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    async def recompose(self) -> None:
        await super().recompose()
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        for key in self.query(FooterKey):
            key.visible = key.virtual_region.right <= self.size.width


class ProblemBar(ChangingText):
    """The problem and its remedy if the machine is lost or did not start. Otherwise it is hidden."""

    def show(self, state: LabState) -> None:
        self.display = state.is_down
        if state.is_down and state.problem:
            text = (
                "[bold]$sign $what:[/] $message\n"
                "[@click=app.restart][bold u]Ctrl+R[/] starts it again[/]; "
                "nothing that was measured or shown is lost.$hint"
            )
            what = "The machine is lost" if state.phase is MachinePhase.LOST else "The machine did not start"
            sign, message, hint = glyphs_of(self).bad, state.problem.message, _besides(state.problem.hint)
            self.update(Content.from_markup(text, sign=sign, what=what, message=message, hint=hint))


WIDE_CELLS = 110
_KEYS = (
    "[b $footer-key-foreground]F6[/] large  [b $footer-key-foreground]F7[/] hint  [b $footer-key-foreground]F8[/] go on"
)


def pause_key(key: str) -> Binding:
    """Return a binding that pauses a machine in virtual time."""
    tooltip = "In virtual time: pause the machine's clock, or continue"
    return hidden_key("clock.pause", key, "pause", "Pause", tooltip)


class LessonSide(Vertical):
    """The lesson on the right.

    It is hidden if no lesson is open, and on a narrow terminal, which shows only the hint line.
    """

    def show(self, view: LessonView | None) -> None:
        width = self.screen.size.width
        self.display = view is not None and width >= WIDE_CELLS
        if view is None or not self.display:
            return
        self.set_class(width >= 150, "-roomy")
        panel = next(iter(self.query(LessonPanel)), None)
        if panel is None:
            panel = LessonPanel(continue_key="F8", keys=_KEYS)
            self.mount(panel)
        panel.view = view


class ModeScreen(StateScreen[None]):
    """Base class of the screens of all modes. Subclasses implement ``body`` and ``show_state``."""

    AREA: ClassVar[str] = ""
    """The prefix of its commands in the palette: ``AREA: …``."""
    HELP: ClassVar[str] = ""
    """The purpose of the screen, as Markdown. The help screen adds the keys."""

    SHOWS_LESSON: ClassVar[bool] = True
    """Whether the open lesson may be shown on the right."""
    LESSON_FROM_CELLS: ClassVar[int] = 0
    """The lesson is shown only on a terminal with at least this many columns, because the screen needs the room."""
    USES_LAB: ClassVar[bool] = True
    """Whether the screen needs the lab's machine, so that the next step is to restart a lost one."""
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("lesson.large", "f6", "lesson", "Lesson", "To the open lesson, and back"),
        key_for(
            LessonHint,
            "lesson_hint",
            id="lesson.hint",
            key="f7",
            tooltip="One more hint of the open lesson",
            show=False,
        ),
        hidden_key("lesson.next", "f8", "lesson_next", "Go on", "Continue after an explanation"),
        pause_key("comma"),
        command_key(
            "clock.step",
            "full_stop",
            "Step",
            "array wait",
            "In virtual time: to the next event (a member fails, a rebuild ends), then pause",
            show=False,
        ),
        hidden_key(
            "clock.faster",
            "greater_than_sign",
            "pace(1)",
            "Faster",
            "In virtual time: 1, 10, 100 machine seconds per second, then as fast as it can",
        ),
        hidden_key(
            "clock.slower", "less_than_sign", "pace(-1)", "Slower", "In virtual time: slower; below 1x it pauses"
        ),
    ]

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
        yield from ()

    def show_state(self, state: LabState) -> None:
        """Show the state. This is called at most ten times a second, while the screen is visible."""

    def hint(self, state: LabState) -> str | None:
        """Return the next step on this screen as markup, or None for the general one from ``tui.actions``."""
        return None

    def palette(self) -> Iterable[SystemCommand]:
        return ()

    @property
    def lesson_beside(self) -> LessonView | None:
        """Return the lesson on the right, or None while a drill is open or if the screen needs the width."""
        is_away = self.app.drills.view is not None or self.size.width < self.LESSON_FROM_CELLS
        return None if is_away else self.app.guide.view

    def on_mount(self) -> None:
        self.watch(self, "changes", partial(self._update, self.app.lab), init=False)

    def _update(self, state: LabState) -> None:
        """Update the body and the frame. Another mode's screen is updated when it is resumed."""
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
            reading = None if self.app.drills.view else self.app.guide.reading_line(self.app.current_mode)
            hint = reading or self.hint(state) or followed or next_step(state)
        self.query_one(HintLine).show(hint)
        self._show_keys()

    def _show_keys(self) -> None:
        """Rebuild the footer only if its keys have changed, since a rebuild costs more than painting all charts."""
        keys = tuple((key, each.binding.description, each.enabled) for key, each in self.active_bindings.items())
        if keys != self._shown_keys:
            self._shown_keys = keys
            self.refresh_bindings()

    def action_lesson(self) -> None:
        now, there = self.app.current_mode, "drills" if self.app.drills.view else "lessons"
        if now in ("drills", there):
            self.app.switch_mode(self.app.came_from.get(now, "lab"))
        else:
            self.app.came_from[there] = now
            self.app.switch_mode(there)

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
