from __future__ import annotations

import asyncio

from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip

from tests.tui.widgets.host import Host
from tui.widgets import ChangingText, differing_cells


def refreshes_of(*texts: str | Content) -> list[bool]:
    """Show the texts one after the other; for each refresh, whether it asked for a new layout. No refresh: no entry."""

    async def run() -> list[bool]:
        words = ChangingText("")
        asked: list[bool] = []
        async with Host(words).run_test() as pilot:
            await pilot.pause()
            refresh = words.refresh

            def counted(*args: object, **options: object) -> ChangingText:
                asked.append(bool(options.get("layout")))
                return refresh(*args, **options)  # type: ignore[arg-type]

            words.refresh = counted  # type: ignore[method-assign]
            for text in texts:
                words.update(text)
            return asked

    return asyncio.run(run())


def test_only_a_text_that_needs_other_room_needs_a_layout() -> None:
    wide = f"{'130 IOPS' * 20}"
    texts = ("12 IOPS", "12 IOPS", "13 IOPS", "130 IOPS", "130 IOPS\nand more", "130 IOPS", wide)
    assert refreshes_of(*texts) == [True, False, False, True, True, True]


def test_another_colour_is_painted() -> None:
    assert refreshes_of(Content.styled("broken", "$text-error"), Content.styled("broken", "$text-success")) == [
        True,
        False,
    ]


def test_only_the_cells_that_differ_are_found() -> None:
    old = Strip([Segment("name "), Segment("12"), Segment(" free")])
    new = Strip([Segment("name "), Segment("13"), Segment(" free")])
    assert differing_cells(old, old) == (0, 0)
    assert differing_cells(old, new) == (5, 7)
    assert differing_cells(Strip([Segment("ab")]), Strip([Segment("a"), Segment("b")])) == (0, 2)
