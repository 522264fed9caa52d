"""Markdown pages as plain text, for pipes, files and screen readers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult
    from rich.markdown import MarkdownElement


def page_lines(markdown: str, columns: int) -> Iterator[str]:
    """Yield the lines of a Markdown page as plain text, without markup or table borders. Inline code is quoted."""
    from rich.console import Console
    from rich.markdown import Heading, Markdown

    class WordsHeading(Heading):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield self.text

    class WordsPage(Markdown):
        elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": WordsHeading}

    page = WordsPage(markdown)
    for token in (each for block in page.parsed for each in block.children or ()):
        if token.type == "code_inline":
            token.content = f"'{token.content}'"
    console = Console(file=io.StringIO(), width=columns, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(page)
    yield from (line.rstrip() for line in captured.get().strip("\n").splitlines())
