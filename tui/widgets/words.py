"""Text that is updated at each sample, lines of lists, and the titles of borders."""

from __future__ import annotations

from textwrap import wrap
from typing import TypeVar

from textual.content import Content
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Static

LIST_CELLS = 40
"""Width of a line in the list of lessons or drills, without the scroll bar (lessons.tcss, drills.tcss)."""
_NUMBER_CELLS = 4

WidgetType = TypeVar("WidgetType", bound=Widget)


class ChangingText(Static):
    """A text that is repainted only if it differs, with a new layout only if it may need more or less room.

    A new layout paints the whole screen.
    """

    _shown: tuple[object, ...] = ()
    _lengths: tuple[int, ...] = ()

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """As ``Static.update``; does nothing for an unchanged text."""
        text = content if isinstance(content, Content) else Content(str(content))
        shown = (text.plain, tuple(text.spans))
        if shown == self._shown:
            return
        before, self._lengths = self._lengths, tuple(map(len, text.plain.split("\n")))
        self._shown = shown
        super().update(content, layout=layout and self._needs_room(before, self._lengths))

    def _needs_room(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        """Whether the size may change. With a fixed width, only the number of lines after wrapping matters."""
        width = self.styles.width
        if len(before) != len(after) or (width is not None and width.is_auto):
            return before != after
        return before != after and max(*before, *after, 0, 0) > self.size.width


def numbered(sign: tuple[str, str], number: str, title: str, progress: str = "") -> Content:
    """An entry of the list of lessons or drills; the further lines of a long title are aligned with its first one.

    ``sign`` is (character, style); ``progress``, such as ``1/4``, follows the title.
    """
    rest = " " * (len(sign[0]) + _NUMBER_CELLS)
    wrapped = f"\n{rest}".join(wrap(title, LIST_CELLS - len(rest) - (len(progress) + 1 if progress else 0)))
    behind = (f" {progress}", "$text-primary") if progress else ("", "")
    return Content.assemble((f"{sign[0]} ", sign[1]), (f"{number:>2} ", "$foreground-muted"), wrapped, behind)


def titled(widget: WidgetType, title: str) -> WidgetType:
    """Set the title of a widget's border; returns the widget. The text is not markup: it may be from a foreign file."""
    entitle(widget, title)
    return widget


def entitle(widget: Widget, title: str | None = None, subtitle: str | None = None) -> None:
    """Set the title and subtitle of a border if they differ: Textual repaints the widget even for the same text."""
    shown = (title, subtitle)
    if getattr(widget, "_entitled", None) != shown:
        widget._entitled = shown  # type: ignore[attr-defined]
        if title is not None:
            widget.border_title = Content(title)
        if subtitle is not None:
            widget.border_subtitle = Content(subtitle)
