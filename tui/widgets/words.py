"""Text that is told anew at each look."""

from __future__ import annotations

from textwrap import wrap
from typing import TypeVar

from textual.content import Content
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Static

LIST_CELLS = 40
"""What a list of lessons or drills has for a line, beside its scroll bar (lessons.tcss, drills.tcss)."""
_NUMBER_CELLS = 4

WidgetType = TypeVar("WidgetType", bound=Widget)


class ChangingText(Static):
    """Paints only what differs, and asks for a new layout only when a line has become longer or shorter.

    A new layout paints the whole screen.
    """

    _told: tuple[object, ...] = ()
    _lengths: tuple[int, ...] = ()

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """As ``Static.update``; the same text a second time costs nothing."""
        text = content if isinstance(content, Content) else Content(str(content))
        told = (text.plain, tuple(text.spans))
        if told == self._told:
            return
        before, self._lengths = self._lengths, tuple(map(len, text.plain.split("\n")))
        self._told = told
        super().update(content, layout=layout and self._needs_room(before, self._lengths))

    def _needs_room(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        """Whether it may become higher or wider. Where lines fill a given width, only their number matters."""
        width = self.styles.width
        if len(before) != len(after) or (width is not None and width.is_auto):
            return before != after
        return before != after and max(*before, *after, 0, 0) > self.size.width


def numbered(sign: tuple[str, str], number: str, title: str, progress: str = "") -> Content:
    """An entry of a list beside an open page; a long title goes on below its own beginning.

    ``sign`` comes with its style; ``progress``, such as ``1/4``, stands behind the title.
    """
    rest = " " * (len(sign[0]) + _NUMBER_CELLS)
    wrapped = f"\n{rest}".join(wrap(title, LIST_CELLS - len(rest) - (len(progress) + 1 if progress else 0)))
    behind = (f" {progress}", "$text-primary") if progress else ("", "")
    return Content.assemble((f"{sign[0]} ", sign[1]), (f"{number:>2} ", "$foreground-muted"), wrapped, behind)


def titled(widget: WidgetType, title: str) -> WidgetType:
    """The widget with words in its border. Words are no markup here and below: they may be a stranger's."""
    entitle(widget, title)
    return widget


def entitle(widget: Widget, title: str | None = None, subtitle: str | None = None) -> None:
    """Set what stands in a border if it differs: Textual paints the whole widget even for the same words."""
    told = (title, subtitle)
    if getattr(widget, "_entitled", None) != told:
        widget._entitled = told  # type: ignore[attr-defined]
        if title is not None:
            widget.border_title = Content(title)
        if subtitle is not None:
            widget.border_subtitle = Content(subtitle)
