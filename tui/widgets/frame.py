"""The frame of every screen: the modes at the top, the next step and the keys at the bottom, and machine problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Footer, Static
from textual.widgets._footer import FooterKey

from lab.errors import RUN_AGAIN
from lab.machine.target import target_words
from tui.glyphs import glyphs_of
from tui.quantities import clock_words
from tui.registry import SCREENS
from tui.state import LabState, MachinePhase

if TYPE_CHECKING:
    from textual.app import RenderResult

_NAMED_FROM_CELLS = 100
_LONGEST_TITLE = max(len(entry.narrow_title) for entry in SCREENS)
_FEWEST_LETTERS = 4
"""Minimum length of a shortened name; below it only the key is shown."""
_PHASE_WORDS = {
    MachinePhase.OPENING: "starting",
    MachinePhase.LOST: "lost",
    MachinePhase.FAILED: "did not start",
    MachinePhase.CLOSED: "closed",
}


def machine_clock(state: LabState) -> str:
    """The machine's virtual time and its pace, such as ``0:12:30 10x``; empty if its time is real."""
    return f"{clock_words(state.look.time_seconds)} {state.pace.words}" if state.pace and state.look else ""


def _besides(hint: str) -> str:
    """The part of a hint, written for the command line, beyond restarting the machine."""
    if hint.startswith(RUN_AGAIN):
        rest = hint.removeprefix(RUN_AGAIN).lstrip(":; ")
        return f" {rest[0].upper()}{rest[1:]}." if rest else ""
    return f" Or: {hint.replace(RUN_AGAIN, 'press Ctrl+R')}." if hint else ""


class TopBar(Static):
    """The modes, the current operation, and the machine."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[object, ...] = ()
        self._mode = ""
        self._machine_words = (Content(""),) * 3
        """The text about the machine: with its kernel, without it, and without the name of the operation either."""

    def show(self, state: LabState, mode: str) -> None:
        """Show the state; repaints only if something has changed."""
        kernel = state.facts.kernel_release if state.facts and state.is_open else ""
        clock = machine_clock(state)
        shown = (mode, state.phase, state.target, kernel, state.operation, state.load, state.background, clock)
        if shown != self._shown:
            self._shown = shown
            self._mode = mode
            names = f"{target_words(state.target, is_short=True)} {kernel} "
            long, plain, short = (
                self._machine(state, text, is_short=is_short)
                for text, is_short in ((names, False), ("", False), ("", True))
            )
            if clock:
                time = Content.from_markup("[bold $warning]$clock[/]  ", clock=clock)
                long, plain, short = time + long, time + plain, Content(" ") + time + short
            self._machine_words = (long, plain, short)
            self.refresh()

    def render(self) -> RenderResult:
        width = self.size.width
        left, right = self._fitting(width)
        if left.cell_length + right.cell_length > width:
            right = right.truncate(max(0, width - left.cell_length), ellipsis=True)
        return left + Content(" " * (width - left.cell_length - right.cell_length)) + right

    def _fitting(self, width: int) -> tuple[Content, Content]:
        """The modes and the machine; if they do not fit, the machine's text is shortened first, then the modes."""
        left = self._tabs()
        if self.app.size.width >= _NAMED_FROM_CELLS:
            named = Content.from_markup("[bold $accent] raidlab [/]") + left
            for tabs, words in ((named, 0), (left, 0), (left, 1)):
                if tabs.cell_length + self._machine_words[words].cell_length <= width:
                    return tabs, self._machine_words[words]
            return left, self._machine_words[1]
        short = self._machine_words[2].rstrip()
        for letters in (*range(_LONGEST_TITLE, _FEWEST_LETTERS - 1, -1), 0):
            if left.cell_length + short.cell_length <= width:
                break
            left = self._tabs(letters)
        return left, short

    def _tabs(self, letters: int | None = None) -> Content:
        """The modes, with ``letters`` letters of each name, or the key only; the current mode has its whole name."""
        parts = []
        for entry in SCREENS:
            is_shown = entry.mode == self._mode
            style = "bold $block-cursor-foreground on $block-cursor-background" if is_shown else "$secondary"
            whole = entry.title if letters is None else entry.narrow_title
            title, gap = (whole, " ") if is_shown or letters is None else (whole[:letters], "")
            words = f" {entry.key} {title}{gap}" if title else f" {entry.key}"
            text = f"[@click=app.mode('{entry.mode}')][{style}]{words}[/][/]"
            parts.append(Content.from_markup(text))
        return Content.assemble(*parts)

    def _machine(self, state: LabState, names: str, *, is_short: bool) -> Content:
        glyphs = glyphs_of(self)
        parts = []
        load = state.running_load
        doing = state.operation.title if state.operation else state.background
        if doing or load:
            style = "$accent" if doing else "$primary"
            text = doing or (f"{load.workload} on {load.array}" if load else "")
            words = "" if is_short else f" {text}"
            gap = "" if is_short else "  "
            parts.append(Content.from_markup(f"[{style}]$glyph$text[/]{gap}", glyph=glyphs.busy, text=words))
        if state.phase is MachinePhase.OPEN:
            parts.append(Content.from_markup("[$success]$glyph[/] $names", glyph=glyphs.good, names=names))
        else:
            style = "$warning" if state.phase is MachinePhase.OPENING else "$error"
            sign = glyphs.busy if state.phase is MachinePhase.OPENING else glyphs.bad
            text = f"machine {_PHASE_WORDS[state.phase]} "
            parts.append(Content.from_markup(f"[{style}]$glyph $text[/]", glyph=sign, text=text))
        return Content.assemble(*parts)


class HintLine(Static):
    """The next step, in one line."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, text: str) -> None:
        """Show ``text``, which may have markup; keys are written [b]k[/b]."""
        if text != self._text:
            self._text = text
            sign = glyphs_of(self).arrow
            self.update(Content.assemble((f" {sign} ", "bold $accent"), Content.from_markup(text)))


class KeyLine(Footer):
    """The keys that apply, as many as fit completely; F1 lists all of them."""

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


class ProblemBar(Static):
    """The problem and its remedy when the machine is lost or did not start; hidden otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self._shown: object = None

    def show(self, state: LabState) -> None:
        """Show the problem of the machine, or hide the bar."""
        is_wrong = state.is_down
        shown = (state.phase, state.problem)
        if shown == self._shown:
            return
        self._shown = shown
        self.display = is_wrong
        if is_wrong and state.problem:
            what = "The machine is lost" if state.phase is MachinePhase.LOST else "The machine did not start"
            self.update(
                Content.assemble(
                    Content.from_markup(
                        "[bold]$sign $what:[/] $message",
                        sign=glyphs_of(self).bad,
                        what=what,
                        message=state.problem.message,
                    ),
                    Content.from_markup(
                        "\n[@click=app.restart][bold u]Ctrl+R[/] starts it again[/]; nothing that was "
                        "measured or shown is lost.$hint",
                        hint=_besides(state.problem.hint),
                    ),
                )
            )
