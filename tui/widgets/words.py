"""Text that is told anew at each look."""

from __future__ import annotations

from textual.content import Content
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Static


class Words(Static):
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
        lengths = tuple(map(len, text.plain.split("\n")))
        is_other_shape = lengths != self._lengths
        self._told, self._lengths = told, lengths
        super().update(content, layout=layout and is_other_shape)


def entitle(widget: Widget, title: str | None = None, subtitle: str | None = None) -> None:
    """Set what stands in a border if it differs: Textual paints the whole widget even for the same words."""
    told = (title, subtitle)
    if getattr(widget, "_entitled", None) != told:
        widget._entitled = told  # type: ignore[attr-defined]
        if title is not None:
            widget.border_title = title
        if subtitle is not None:
            widget.border_subtitle = subtitle
