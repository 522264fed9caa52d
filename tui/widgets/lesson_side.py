"""The open lesson beside any screen, so that its checks can be seen to tick while the student works there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Vertical

if TYPE_CHECKING:
    from tui.lessons.view import LessonView

WIDE_CELLS = 110
_KEYS = (
    "[b $footer-key-foreground]F6[/] large  [b $footer-key-foreground]F7[/] hint  [b $footer-key-foreground]F8[/] go on"
)


class LessonSide(Vertical):
    """Takes no room without a lesson, or where there is little: then the line at the bottom tells what is missing."""

    DEFAULT_CSS = """
    LessonSide { width: auto; height: 1fr; display: none; }
    LessonSide > LessonPanel { width: 44; height: 1fr; }
    LessonSide.-roomy > LessonPanel { width: 56; }
    """

    def show(self, view: LessonView | None) -> None:
        """Show the lesson, or nothing."""
        width = self.screen.size.width
        self.display = view is not None and width >= WIDE_CELLS
        if view is None or not self.display:
            return
        from tui.widgets.lesson_panel import LessonPanel

        self.set_class(width >= 150, "-roomy")
        panel = next(iter(self.query(LessonPanel)), None)
        if panel is None:
            panel = LessonPanel(reads_on="F8", keys=_KEYS)
            self.mount(panel)
        panel.show(view)
