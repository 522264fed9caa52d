"""The panel of the open lesson: the explanation of the last step, or the current step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Markdown, OptionList, Static
from textual.widgets.option_list import Option

from tui.lessons.view import Explanation, LessonView, StepCard
from tui.look import Glyphs, glyphs_of
from tui.widgets.lines import entitle

LETTERS = "abcdef"
_BAR_CELLS = 20


class LessonPanel(VerticalScroll):
    """Shows a ``LessonView``; only changed parts are repainted.

    Args:
        continue_key: the name of the key that continues after an explanation.
        keys: the other keys, as markup.
    """

    DEFAULT_CSS = """
    LessonPanel {
        border: round $border-blurred;
        border-title-color: $primary;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        &:focus-within { border: round $primary; }
        Markdown { padding: 0; margin: 0; background: transparent; height: auto; }
        MarkdownParagraph { margin: 0 0 1 0; }
        MarkdownFence { margin: 0 0 1 0; padding: 0 1; max-height: 100; }
        MarkdownBulletList, MarkdownOrderedList { margin: 0 0 1 0; padding: 0; }
        MarkdownBulletList MarkdownParagraph, MarkdownOrderedList MarkdownParagraph { margin: 0; }
        MarkdownBlockQuote { margin: 0 0 1 0; padding: 0 1; }
        .heading { height: auto; color: $primary; text-style: bold; }
        #lesson-why {
            height: auto;
            border-left: thick $success;
            padding: 0 0 0 1;
            &.-wrong { border-left: thick $warning; }
        }
        #lesson-step { height: auto; }
        #lesson-outcome { height: auto; margin: 0 0 1 0; }
        #lesson-next { height: auto; }
        #lesson-ask { height: auto; margin: 0 0 1 0; }
        #lesson-options {
            height: auto;
            border: none;
            padding: 0;
            background: $surface;
            max-height: 100;
        }
        #lesson-checks, #lesson-reading { height: auto; margin: 0 0 1 0; }
        #lesson-mistake { height: auto; border-left: thick $warning; padding: 0 0 0 1; margin: 0 0 1 0; }
        #lesson-hints { height: auto; border-left: thick $accent; padding: 0 0 0 1; margin: 0 0 1 0; }
        #lesson-activity { height: auto; margin: 0 0 1 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page_up", "Up", show=False, id="lesson.up", tooltip="Scroll the lesson up"),
        Binding("pagedown", "page_down", "Down", show=False, id="lesson.down", tooltip="Scroll the lesson down"),
    ]

    @dataclass
    class Answered(Message):
        """The user chose an option."""

        key: str

    def __init__(
        self,
        *,
        continue_key: str = "n",
        keys: str = "",
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        super().__init__(id=id, can_focus=False)
        self._continue_key = continue_key
        self._keys = keys
        self._shown: LessonView | None = None
        self._early: LessonView | None = None
        """The view to show once the panel is mounted."""
        self._is_ready = False
        self._options: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="lesson-why"):
            yield Static(id="lesson-outcome", classes="heading")
            yield Markdown(id="lesson-explain", open_links=False)
            yield Static(id="lesson-next")
        with Vertical(id="lesson-step"):
            yield Markdown(id="lesson-say", open_links=False)
            with Vertical(id="lesson-ask"):
                yield Static(id="lesson-question", classes="heading")
                yield OptionList(id="lesson-options", markup=False)
            yield Static(id="lesson-activity")
            yield Static(id="lesson-reading", classes="heading")
            yield Static(id="lesson-checks")
            yield Markdown(id="lesson-mistake", open_links=False)
            yield Markdown(id="lesson-hints", open_links=False)
            yield Static(id="lesson-keys")

    def on_mount(self) -> None:
        self._is_ready = True
        if self._early:
            self.show(self._early)

    def show(self, view: LessonView) -> None:
        if not self._is_ready:
            self._early = view
            return
        before, self._shown = self._shown, view
        if view == before:
            return
        glyphs = glyphs_of(self)
        entitle(self, f"{view.number}. {view.title}", _dots(view, glyphs))
        self.query_one("#lesson-why").display = view.explanation is not None or view.step is None
        self.query_one("#lesson-step").display = view.explanation is None and view.step is not None
        if view.explanation:
            if before is None or before.explanation != view.explanation:
                self._explain(view, view.explanation, glyphs)
        elif view.step is None:
            self._end(view, glyphs)
        else:
            old = before.step if before and before.explanation is None else None
            self._show_step(view, view.step, old, glyphs)
        if before is None or (before.id, before.done_count, before.explanation) != (
            view.id,
            view.done_count,
            view.explanation,
        ):
            self.scroll_home(animate=False)
        elif bool(view.activity) != bool(before.activity):
            # On a small terminal the progress bar and the checks are below the visible part.
            shown = "#lesson-activity" if view.activity else "#lesson-checks"
            self.call_after_refresh(self.query_one(shown).scroll_visible, animate=False)

    def _explain(self, view: LessonView, why: Explanation, glyphs: Glyphs) -> None:
        done = view.labels["step-of"].format(number=why.number + 1, count=view.step_count)
        parts = [(f"{glyphs.good} {done}. ", "$text-success")]
        if why.outcome:
            sign = "" if why.is_right is None else f"{glyphs.good if why.is_right else glyphs.notice} "
            parts.append((f"\n{sign}{why.outcome}", "$text-success" if why.is_right else "$text-warning"))
        parts += [(f"\n{glyphs.arrow} {figures}", "not bold $foreground") for figures in why.figures]
        self.query_one("#lesson-outcome", Static).update(Content.assemble(*parts))
        self.query_one("#lesson-explain", Markdown).update(f"**{view.labels['why']}**\n\n{why.text}")
        self.query_one("#lesson-next", Static).update(
            Content.from_markup(f"[$accent]{glyphs.arrow}[/] [b]{self._continue_key}[/b] continues")
        )
        self.query_one("#lesson-why").set_class(why.is_right is False, "-wrong")

    def _end(self, view: LessonView, glyphs: Glyphs) -> None:
        done = Content.styled(f"{glyphs.good} {view.labels['lesson-done']}", "$text-success")
        self.query_one("#lesson-outcome", Static).update(done)
        self.query_one("#lesson-explain", Markdown).update(view.goal)
        self.query_one("#lesson-next", Static).update(
            Content.from_markup(f"[$accent]{glyphs.arrow}[/] [b]6[/b], [b]Esc[/b]: back to the course")
        )
        self.query_one("#lesson-why").remove_class("-wrong")

    def _show_step(self, view: LessonView, step: StepCard, old: StepCard | None, glyphs: Glyphs) -> None:
        if old is None or old.text != step.text or old.number != step.number:
            head = view.labels["step-of"].format(number=step.number + 1, count=view.step_count)
            goal = f"*{view.labels['goal']}: {view.goal}*\n\n" if step.number == 0 else ""
            self.query_one("#lesson-say", Markdown).update(f"{goal}**{head}**\n\n{step.text}")
        self._show_question(view, step, glyphs)
        self._show_activity(view, glyphs)
        self._show_reading(view, step, glyphs)
        self.query_one("#lesson-checks", Static).update(self._checks(view, step, glyphs))
        self._show_markdown("#lesson-mistake", f"**{view.labels['mistake']}:** {step.mistake}" if step.mistake else "")
        total = step.hint_count
        numbered = enumerate(step.hints, start=1)
        hints = [f"**{view.labels['hint-of'].format(number=number, count=total)}** {hint}" for number, hint in numbered]
        self._show_markdown("#lesson-hints", "\n\n".join(hints))
        self.query_one("#lesson-keys", Static).update(Content.from_markup(self._keys))

    def _show_markdown(self, where: str, text: str) -> None:
        widget = self.query_one(where, Markdown)
        widget.display = bool(text)
        if text and widget.source != text:
            is_more = bool(widget.source)
            self.run_worker(self._replace(widget, text, shows=is_more or where == "#lesson-hints"), group=where)

    async def _replace(self, widget: Markdown, text: str, *, shows: bool) -> None:
        """Replace the text, and scroll to a new hint after its layout."""
        await widget.update(text)
        if shows:
            # The hints are last, and the newest hint is at their end.
            is_last = widget.id == "lesson-hints"
            self.call_after_refresh(self.scroll_end if is_last else widget.scroll_visible, animate=False)

    def _show_question(self, view: LessonView, step: StepCard, glyphs: Glyphs) -> None:
        self.query_one("#lesson-ask").display = bool(step.question)
        options_shown = (step.number, step.question, step.options, step.answer)
        if not step.question or options_shown == self._options:
            return
        self._options = options_shown
        self.query_one("#lesson-question", Static).update(
            Content(f"{glyphs.cursor} {view.labels['predict']}: {step.question}")
        )
        options = self.query_one("#lesson-options", OptionList)
        options.clear_options()
        for letter, (key, text) in zip(LETTERS, step.options, strict=False):
            is_chosen = key == step.answer
            sign = glyphs.chosen if is_chosen else glyphs.not_chosen
            style = "bold $text-primary" if is_chosen else ""
            prompt = Content.assemble((f"{letter} ", "bold $footer-key-foreground"), (f"{sign} {text}", style))
            options.add_option(Option(prompt, id=key))
        options.highlighted = next((i for i, (key, _) in enumerate(step.options) if key == step.answer), None)

    def _show_activity(self, view: LessonView, glyphs: Glyphs) -> None:
        widget = self.query_one("#lesson-activity", Static)
        widget.display = bool(view.activity)
        full = round(view.progress * _BAR_CELLS)
        bar = glyphs.bar_full * full + glyphs.bar_empty * (_BAR_CELLS - full)
        text = f"{glyphs.busy} {view.activity} {bar} {view.progress:.0%}"
        widget.update(Content.styled(text, "$text-primary"))

    def _show_reading(self, view: LessonView, step: StepCard, glyphs: Glyphs) -> None:
        widget = self.query_one("#lesson-reading", Static)
        reading = step.reading
        widget.display = reading is not None
        if reading is None:
            return
        unit = f" ({reading.unit})" if reading.unit else ""
        given = reading.given or "…"
        widget.update(
            Content.assemble(
                f"{glyphs.cursor} {view.labels['read-off']}: {reading.question}{unit}",
                ("\nt ", "bold $footer-key-foreground"),
                (given, "bold $text-primary" if reading.given else "not bold $foreground-muted"),
            )
        )

    def _checks(self, view: LessonView, step: StepCard, glyphs: Glyphs) -> Content:
        parts: list[tuple[str, str]] = [(view.labels["checks"], "bold $primary")]
        if view.elsewhere:
            parts.append((f"\n{glyphs.notice} not checked here: started on {view.elsewhere}", "$text-warning"))
        shown = ""
        for check in step.checks:
            sign = glyphs.good if check.is_passed else glyphs.pending
            parts.append((f"\n{sign} {check.wanted}", "$text-success" if check.is_passed else ""))
            # Show a text such as "no array runs" once, even if several checks have it.
            if check.found and check.found != shown:
                shown = check.found
                found = check.found if check.is_passed else view.labels["missing"].format(found=check.found)
                parts.append((f"\n    {found}", "$foreground-muted"))
        return Content.assemble(*parts)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        # The screens with this panel have lists of their own, which handle this message.
        event.stop()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id:
            self.post_message(self.Answered(event.option_id))


def _dots(view: LessonView, glyphs: Glyphs) -> str:
    done = glyphs.light_on * view.done_count + glyphs.light_off * (view.step_count - view.done_count)
    return f"{done} {view.done_count}/{view.step_count}"
