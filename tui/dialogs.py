"""The base class of all modal screens, menus, and dialogs for typed input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Event, Key
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from lab.actions.action import Choice
from tui.base_app import StateScreen
from tui.widgets import entitle

R = TypeVar("R")


class Modal(ModalScreen[R], StateScreen[R]):
    """A modal screen that can be dismissed at any time, even more than once or while another screen is above it.

    Textual would end the app in the first case, and remove the other screen in the second.
    """

    SEEN_FIRST: ClassVar[bool] = False
    """Whether keys typed before the screen was visible (except Escape) are ignored, so that they confirm nothing."""

    _shown_seconds = math.inf
    has_left = False
    """Whether the screen has been dismissed."""
    _answers: tuple[R | None, ...] = ()
    """The result for dismissing the screen as soon as no other screen is above it."""

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        """Dismiss the screen once with a result, now or as soon as no screen is above it."""
        if self.has_left:
            return AwaitComplete()
        if self.app.screen_stack[-1:] != [self]:
            self._answers = (result,)
            return AwaitComplete()
        self.has_left = True
        return super().dismiss(result)

    def on_mount(self) -> None:
        self.call_after_refresh(self._note_shown)

    def _note_shown(self) -> None:
        self._shown_seconds = Event().time

    @property
    def is_shown(self) -> bool:
        return self._shown_seconds < math.inf

    def is_meant(self, key: Key) -> bool:
        """Whether the key may have been typed for this screen."""
        return not self.SEEN_FIRST or key.key == "escape" or key.time >= self._shown_seconds

    def on_screen_resume(self) -> None:
        for result in self._answers:
            self.dismiss(result)

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        """Run the action that the button is named after."""
        # A button's own action would act on the screen in front, which differs if this one has just been dismissed.
        event.stop()
        await self.run_action(str(event.button.name))


_MOST_OF_SCREEN = 0.92
"""The maximum share of the screen's width, which menu.tcss sets too."""
_AROUND_CELLS = 6
"""The width of the box's border and padding, and of the scroll bar of a long menu."""
_LEAST_CELLS = 20
_INTRO_CELLS = 100


class MenuScreen(Modal[str | None]):
    """A menu. Its result is the id of the chosen item, or None.

    Args:
        title: the title of the menu.
        choices: the items, at least one.
        intro: a sentence above the items.
    """

    CSS_PATH = "menu.tcss"
    AREA = "Menu"
    HELP = "Choose a line with the arrows and Enter, or press the key in front of it. Escape changes nothing."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Cancel", id="menu.cancel", tooltip="Close; nothing is changed"),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], *, intro: str = "") -> None:
        super().__init__()
        self._title = title
        self._choices = tuple(choices)
        self._intro = intro

    def compose(self) -> ComposeResult:
        with Vertical(id="menu-box") as box:
            entitle(box, self._title, "Enter chooses, Esc closes")
            if self._intro:
                yield Static(self._intro, id="menu-intro", markup=False)
            yield OptionList(*(Option(self._line(choice), id=choice.id) for choice in self._choices), id="menu-list")

    def _line(self, choice: Choice) -> Content:
        width = max(len(each.label) for each in self._choices)
        keys = max(len(each.key) for each in self._choices)
        parts = [(f" {choice.key:>{keys}}  ", "bold $footer-key-foreground")] if keys else [(" ", "")]
        parts.append((f"{choice.label:<{width}}", "bold"))
        before = sum(len(text) for text, _ in parts) + 2
        room = max(_LEAST_CELLS, int(self.app.size.width * _MOST_OF_SCREEN) - _AROUND_CELLS - before)
        # The further lines of a long detail are aligned with its first one.
        detail = f"\n{' ' * before}".join(wrap(choice.detail, room))
        parts.append((f"  {detail}" if detail else "", "$foreground-muted"))
        return Content.assemble(*parts)

    def on_resize(self) -> None:
        # A percentage would refer to the box, whose width follows its content.
        for intro in self.query("#menu-intro"):
            intro.styles.max_width = min(_INTRO_CELLS, int(self.app.size.width * _MOST_OF_SCREEN) - _AROUND_CELLS)
        options = self.query_one(OptionList)
        for index, choice in enumerate(self._choices):
            options.replace_option_prompt_at_index(index, self._line(choice))

    def on_key(self, event: Key) -> None:
        found = next((choice for choice in self._choices if choice.key and choice.key == event.key), None)
        if found:
            event.stop()
            self.dismiss(found.id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)


class TypedScreen(Modal[None]):
    """Passes typed input to ``give``. If ``give`` returns an error as a sentence, the dialog shows it and stays open.

    The style of the dialog is in app.tcss, because a ``CSS_PATH`` would be looked up in the folders of its subclasses.
    """

    TITLES: ClassVar[tuple[str, str]]
    PLACEHOLDER: ClassVar[str]
    MOST_LETTERS: ClassVar[int]

    def __init__(self, intro: str, given: str, give: Callable[[str], str | None]) -> None:
        super().__init__()
        self._intro, self._given, self._give = intro, given, give

    def compose(self) -> ComposeResult:
        with Vertical(id="typed-box") as box:
            entitle(box, *self.TITLES)
            yield Static(self._intro, id="typed-intro", markup=False)
            yield Input(self._given, placeholder=self.PLACEHOLDER, max_length=self.MOST_LETTERS, id="typed")
            yield Static("", id="typed-problem", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        problem = self._give(event.value.strip())
        if not problem:
            self.dismiss()
            return
        widget = self.query_one("#typed-problem", Static)
        widget.update(problem)
        widget.display = True


class NumberScreen(TypedScreen):
    """The dialog for a number. It has few rows, so that the screen with the number remains visible."""

    AREA = "Number"
    HELP = "Type the value that you read, with a decimal point or comma. It is compared with your own result or array."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="number.cancel", tooltip="Close; nothing is changed"),
    ]
    TITLES = ("Your number", "Enter confirms, Esc cancels")
    PLACEHOLDER = "a number"
    MOST_LETTERS = 24


class VariantScreen(TypedScreen):
    """The dialog for the word that selects a variant, which may be empty."""

    AREA = "Variant"
    HELP = "The same word always gives the same variant, on every computer. Without a word you get the default variant."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="variant.cancel", tooltip="Close; nothing is changed"),
    ]
    TITLES = ("Your variant", "Enter starts it, Esc cancels")
    PLACEHOLDER = "a word"
    MOST_LETTERS = 40

    def __init__(self, word: str, give: Callable[[str], str | None]) -> None:
        intro = (
            "Type your name, or the word that your teacher gave you. "
            "It determines the sizes, the levels and the disk that fails."
        )
        super().__init__(intro, word, give)
