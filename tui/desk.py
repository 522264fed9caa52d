"""What actions need of whoever shows the lab: the app with its screens, or the text mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from textual.message import Message

    from lab.errors import LabError
    from lab.plans import Plan
    from tui.choice import Choice
    from tui.client.client import LabClient
    from tui.loads import Loads
    from tui.marks import Marks
    from tui.operations import Operations
    from tui.state import LabState


class Desk(Protocol):
    """Shows things, asks for choices, and gets work done; nothing blocks."""

    lab: LabState
    client: LabClient
    operations: Operations
    marks: Marks
    loads: Loads

    def show_plan(self, plan: Plan, *, note: str, on_done: Callable[[], None] | None) -> None:
        """Show a plan; run it if the user wants it."""

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        """Let the user choose one of several, or none."""

    def tell(self, error: LabError) -> None:
        """Show an error with what to do next."""

    def say(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        """Show a sentence."""

    def show_soon(self) -> None:
        """What is shown may have changed."""

    def choose_freely(self) -> None:
        """Where arrays are put together choice by choice."""

    def post_message(self, message: Message) -> Any:
        """From any thread."""
