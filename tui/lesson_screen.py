"""The Lessons screen, with the course, the student's progress, and the open lesson."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lab.actions.action import Choice
from lab.lessons.verbs import Answer, DoStep, LeaveLesson, LessonHint, Measure, ResetLesson, StartLesson
from tui.dialogs import NumberScreen, VariantScreen
from tui.drill_screen import drill_line
from tui.keys import key_for
from tui.lessons import LETTERS, PLACES, LessonPanel, in_app, read_at
from tui.look import glyphs_of
from tui.mode import ModeScreen
from tui.state import LabState
from tui.widgets import numbered, titled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.drills.case import DrillLine
    from lab.lessons.student import CourseLine

_DRILL = "drill:"
"""The prefix of drills' ids in the list."""
_LANGUAGES = {"en": "English", "es": "español", "sv": "svenska"}


class LessonsScreen(ModeScreen):
    """The Lessons screen, key 6."""

    CSS_PATH = "lesson_screen.tcss"
    AREA = "Lessons"
    SHOWS_LESSON = False
    HELP = (
        "A course on real arrays. Each step gives a task, asks what you expect, and checks the lab itself. Whether you "
        "use the keys of screens 1 and 2 or commands on screen 5 is up to you; the lesson remains visible there.\n\n"
        "A wrong prediction costs nothing; you learn from it. There are three hints for each step, and the third is "
        "the solution. Your progress is saved, so you can leave at any time.\n\n"
        "Below the lessons are the drills, with your best result; Enter opens the drill on screen 9."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,enter", "read_on", "Continue", id="lessons.next",
                tooltip="To the next step; after the last step, to the next lesson"),
        *(
            key_for(Answer, f"answer({number})", id=f"lessons.answer-{letter}", key=letter, label=f"Answer {letter}",
                    tooltip=f"Predict answer {letter}", show=False)
            for number, letter in enumerate(LETTERS)
        ),
        key_for(Answer, "type_number", id="lessons.number"),
        key_for(LessonHint, "hint", id="lessons.hint"),
        key_for(Measure, "measure", id="lessons.measure"),
        key_for(Measure, "stop_measuring", id="lessons.stop-measuring", key="s", label="Stop",
                tooltip="Stop the measurement"),
        key_for(DoStep, "do_step", id="lessons.do"),
        key_for(ResetLesson, "again", id="lessons.again"),
        key_for(StartLesson, "language", id="lessons.language", key="l", label="Language",
                tooltip="Continue in another language"),
        key_for(StartLesson, "variant", id="lessons.variant"),
        key_for(LeaveLesson, "leave", id="lessons.leave"),
        Binding("space,pagedown,down", "page(1)", "More", id="lessons.down",
                tooltip="Scroll the lesson down"),
        Binding("pageup,up", "page(-1)", "Up", show=False, id="lessons.up", tooltip="Scroll the lesson up"),
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._items: tuple[CourseLine, ...] = ()
        self._shown: tuple[tuple[CourseLine, ...], tuple[DrillLine, ...], str] = ((), (), "")
        self._current = ""

    def body(self) -> ComposeResult:
        with Horizontal(id="lessons"):
            with Vertical(id="lessons-left"):
                yield titled(OptionList(id="course"), "Course")
            with titled(Vertical(id="lessons-about"), "Lesson"):
                yield Static("", id="about")
            yield LessonPanel(id="lesson")

    def on_mount(self) -> None:
        self.query_one("#course").focus()
        self.app.guide.open()
        self.app.drills.open()

    def show_state(self, state: LabState) -> None:
        view = self.app.guide.view
        is_open = view is not None
        self.set_class(is_open, "-open")
        self.query_one("#lesson").display = is_open
        self.query_one("#lessons-about").display = not is_open
        self._show_course()
        if view is None:
            self._show_about()
            return
        panel = self.query_one(LessonPanel)
        panel.view = view
        options = panel.query_one("#lesson-options", OptionList)
        if self.focused in (None, self.query_one("#course")):
            self.set_focus(options if view.step and not view.explanation and view.step.must_answer else None)

    def hint(self, state: LabState) -> str | None:
        view = self.app.guide.view
        if view is None:
            if self._current.startswith(_DRILL):
                return "[b]Enter[/b] opens the drill on screen 9, Drills."
            return "[b]Enter[/b] starts the lesson. Do the lessons from top to bottom, then the drills."
        step = view.step
        if view.explanation or view.elsewhere:
            return "[b]n[/b] continues." if view.explanation else None
        if step is None:
            then = "[b]n[/b] opens the next one; " if self._following() else ""
            return f"The lesson is done. {then}[b]Esc[/b] shows the course."
        if step.must_answer and step.ready.ask:
            letters = ", ".join(f"[b]{letter}[/b]" for letter, _ in zip(LETTERS, step.ready.ask.options, strict=False))
            return f"What do you expect? Answer with {letters}. A wrong guess costs nothing."
        if view.activity:
            return "Measuring the drives. [b]s[/b] stops it."
        if step.must_measure:
            return "[b]r[/b] measures on separate, emulated drives."
        if step.must_read_off:
            place = PLACES.get(read_at(step.ready), "")
            where = f"{place}; " if place else ""
            return f"{where}press [b]t[/b] to type the number."
        return "[b]1[/b] shows the lab, [b]2[/b] builds; the lesson checks meanwhile. [b]F6[/b] returns here."

    def _show_course(self) -> None:
        shown = (self.app.guide.course, self.app.drills.items, self._open_id)
        if shown == self._shown:
            return
        self._shown = shown
        self._items, drills, _ = shown
        course = self.query_one("#course", OptionList)
        current = self._current
        course.clear_options()
        course.add_options(Option(self._line(item), id=item.lesson.id) for item in self._items)
        if self._items and drills:
            course.add_option(
                Option(Content.styled("\nDrills: disasters to practise on", "bold $primary"), disabled=True)
            )
            course.add_options(Option(drill_line(self, item), id=_DRILL + item.id) for item in drills)
        self._highlight(current or self._next_id())
        done = f"{sum(item.is_done for item in self._items)} of {len(self._items)} done"
        saved = f", {sum(item.is_saved for item in drills)} of {len(drills)} drills saved" if drills else ""
        course.border_subtitle = done + saved

    @property
    def _open_id(self) -> str:
        return self.app.guide.view.lesson.id if self.app.guide.view else ""

    def _next_id(self) -> str:
        """Return the id of the first lesson that is not completed, or an empty string if there is none."""
        return next((item.lesson.id for item in self._items if not item.is_done), "")

    def _highlight(self, option_id: str) -> None:
        course = self.query_one("#course", OptionList)
        known = option_id and any(option.id == option_id for option in course.options)
        course.highlighted = course.get_option_index(option_id) if known else 0 if course.options else None

    def _line(self, item: CourseLine) -> Content:
        glyphs = glyphs_of(self)
        if item.is_done:
            sign = (glyphs.good, "$text-success")
        elif item.done_steps or item.lesson.id == self._open_id:
            sign = (glyphs.busy, "$text-primary")
        else:
            sign = (glyphs.pending, "$foreground-muted")
        progress = f"{item.done_steps}/{item.step_count}" if item.done_steps and not item.is_done else ""
        return numbered(sign, item.number, item.lesson.title, progress)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_list.id == "course":
            self._current = event.option_id or ""
            self._show_about()

    def _show_about(self) -> None:
        item = next((item for item in self._items if item.lesson.id == self._current), None)
        about = self.query_one("#about", Static)
        drill = next((drill for drill in self.app.drills.items if _DRILL + drill.id == self._current), None)
        if item is None:
            about.update(self._about_drill(drill) if drill else "" if self._items else "Reading the course …")
            return
        self.query_one("#lessons-about").border_title = f"Lesson {item.number}"
        glyphs = glyphs_of(self)
        languages = ", ".join(_LANGUAGES.get(each, each) for each in item.files.languages)
        parts: list[tuple[str, str]] = [
            (f"{item.lesson.title}\n\n", "bold $primary"),
            (f"{item.lesson.goal}\n\n", ""),
            (
                f"about {item.lesson.minutes} min, {item.step_count} steps, {item.done_steps} done\n",
                "$foreground-muted",
            ),
        ]
        if len(item.files.languages) > 1:
            parts.append((f"in {languages}\n", "$foreground-muted"))
        if missing := ", ".join(other.lesson.title for other in self._missing(item)):
            parts.append((f"\n{glyphs.notice} builds on: {missing}\n", "$text-warning"))
        verb = "opens it again" if item.is_done else "continues it" if item.done_steps else "starts it"
        parts += [("\nEnter", "bold $footer-key-foreground"), (f" {verb}. A new lesson erases the lab's disks.", "")]
        about.update(Content.assemble(*parts))

    def _about_drill(self, drill: DrillLine) -> Content:
        self.query_one("#lessons-about").border_title = f"Drill {drill.number}"
        return Content.assemble(
            (f"{drill.drill.title}\n\n", "bold $primary"),
            f"about {drill.drill.minutes} min\n{drill.status}\n\n",
            ("Enter", "bold $footer-key-foreground"),
            " opens it. Nothing is changed before you start it there.",
        )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        chosen = event.option_id if event.option_list.id == "course" else None
        if chosen and chosen.startswith(_DRILL):
            self.app.drills.to_select = chosen.removeprefix(_DRILL)
            self.app.switch_mode("drills")
        elif chosen:
            self._start(chosen)

    def _start(self, lesson_id: str) -> None:
        item = next(item for item in self._items if item.lesson.id == lesson_id)
        missing = self._missing(item)
        if not missing or item.done_steps:
            self.app.guide.start(lesson_id)
            return
        first = missing[0]
        choices = [
            Choice(first.lesson.id, f"Start with {first.number}", first.lesson.title),
            Choice(lesson_id, f"Start {item.number} anyway", item.lesson.title),
        ]
        numbers = [f"lesson {other.number}" for other in missing]
        *some, last = numbers
        listed = f"{', '.join(some)} and {last}" if some else last
        intro = f"Lesson {item.number} builds on {listed}, which you have not completed."
        self.app.pick(f"Do lesson {first.number} first?", choices, self.app.guide.start, intro=intro)

    def _missing(self, item: CourseLine) -> list[CourseLine]:
        """Return the uncompleted lessons that this one builds on."""
        return [other for other in self._items if other.lesson.id in item.missing_needs]

    def on_lesson_panel_answered(self, event: LessonPanel.Answered) -> None:
        self.app.guide.answer(event.key)
        self.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        view = self.app.guide.view
        step = view.step if view and view.explanation is None else None
        match action:
            case "read_on":
                return view is not None and (view.explanation is not None or bool(self._following()))
            case "answer":
                ask = step.ready.ask if step else None
                return ask is not None and isinstance(parameters[0], int) and parameters[0] < len(ask.options)
            case "type_number":
                return step is not None and step.reading is not None
            case "hint":
                return step is not None and step.progress.hints < len(step.ready.hints)
            case "measure":
                return bool(view and step and step.ready.apart and not view.activity)
            case "stop_measuring":
                return bool(view and view.activity)
            case "do_step":
                return bool(step and step.ready.do and not step.ready.apart and self.app.lab.is_open)
            case "again" | "variant":
                return view is not None and self.app.lab.is_open
            case "language":
                return view is not None and len(view.languages) > 1
            case "leave" | "page":
                return view is not None
            case _:
                return super().check_action(action, parameters)

    def _following(self) -> str:
        """Return the id of the next uncompleted lesson if the open one is completed, else an empty string."""
        view = self.app.guide.view
        if view is None or view.step or view.explanation:
            return ""
        ids, own = [item.lesson.id for item in self._items], view.lesson.id
        at = ids.index(own) if own in ids else -1
        left = [item.lesson.id for item in (*self._items[at + 1 :], *self._items[: at + 1]) if not item.is_done]
        return next((each for each in left if each != own), "")

    def action_read_on(self) -> None:
        if following := self._following():
            self._start(following)
        else:
            self.app.guide.read_on()

    def action_answer(self, number: int) -> None:
        view = self.app.guide.view
        if view and view.step and (ask := view.step.ready.ask):
            self.app.guide.answer([*ask.options][number])

    def action_type_number(self) -> None:
        view = self.app.guide.view
        if view and view.step and (reading := view.step.reading):
            question, given = in_app(reading.question_words), view.step.progress.reading
            self.app.push_screen(NumberScreen(question, given, self.app.guide.answer))

    def action_hint(self) -> None:
        self.app.guide.hint()

    def action_measure(self) -> None:
        view = self.app.guide.view
        if view and view.step:
            if view.step.must_answer:
                self.notify("Predict first: what do you expect?", severity="warning")
            elif not self.app.guide.measure():
                self.notify("Another measurement is running; wait until it ends.", severity="warning")

    def action_stop_measuring(self) -> None:
        self.app.background.cancel()

    def action_do_step(self) -> None:
        self.app.guide.do_step()

    def action_again(self) -> None:
        self.app.guide.again()

    def action_leave(self) -> None:
        view = self.app.guide.view
        if view and view.step is None and not view.explanation:
            self._current = self._next_id()
            self._highlight(self._current)
        self.app.guide.leave()
        self.query_one("#course").focus()

    def action_page(self, pages: int) -> None:
        panel = self.query_one(LessonPanel)
        panel.scroll_relative(y=pages * max(1, panel.size.height // 2), animate=False)

    def action_language(self) -> None:
        if view := self.app.guide.view:
            choices = [Choice(each, _LANGUAGES.get(each, each)) for each in view.languages]
            self.app.pick("Language", choices, self.app.guide.change_language)

    def action_variant(self) -> None:
        if view := self.app.guide.view:
            self.app.push_screen(VariantScreen(view.lesson.seed, partial(self.app.guide.begin, view.lesson.id)))

    def palette(self) -> Iterable[SystemCommand]:
        for item in self._items:
            text = f"Start {item.number}, {item.lesson.title}"
            yield SystemCommand(text, item.lesson.goal, partial(self._start, item.lesson.id))
