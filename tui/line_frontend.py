"""What the parts of the text mode know of it: a frontend that says lines and hears lines."""

from __future__ import annotations

from collections.abc import Callable

from tui.frontend import Frontend


class LineFrontend(Frontend):
    """A frontend in lines."""

    is_first_look = False
    """The machine runs and has not been sampled yet: the first sample is reported in full."""

    def next_line(self) -> str:
        """What can be done next, in words."""
        raise NotImplementedError

    def show_page(self, markdown: str) -> None:
        """Show a page, in the width of the terminal."""
        raise NotImplementedError

    def listen(self, answer: Callable[[str], None], explanation: str) -> None:
        """Hand the next line that is typed to ``answer``; ``?`` tells the explanation."""
        raise NotImplementedError
