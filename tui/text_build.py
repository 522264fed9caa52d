"""The Build screen in lines: every choice has a number, and what the array would be is told after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lab.session.preview import ArrayPreview
from lab.session.volume_preview import VolumePreview
from lab.units import human_bytes
from tui.choice import Choice
from tui.drafts import FIRST_MEMBERS, AnyLevel, Draft, maker_of, next_array_name, preview_of
from tui.level_rows import survives_words, system_rows
from tui.more_disks import MoreDisks

if TYPE_CHECKING:
    from tui.desk import Desk
    from tui.widgets.choices import ChoiceRow

_HOW = (
    "Type a number to change that, 'disks 1 2 3' to choose disks, 'larger' for two larger disks in the lab, "
    "b to build. Anything else leaves."
)


class TextBuild:
    """One array that is being put together.

    Args:
        desk: shows choices and plans.
        say: prints a line.
        listen: hands the next line that is typed to a function.
    """

    def __init__(self, desk: Desk, say: Callable[[str], None], listen: Callable[[Callable[[str], None]], None]) -> None:
        self._desk = desk
        self._say = say
        self._listen = listen
        self._draft = Draft(disks=tuple(disk.name for disk in desk.lab.free_disks)[:FIRST_MEMBERS])

    def tell(self) -> None:
        """All choices, what they come to, and what can be typed."""
        for number, row in enumerate(self._draft.rows(), start=1):
            note = f" ({row.note})" if row.note else ""
            self._say(f"{number}: {row.label}: {row.current or 'no choice'}{note}.")
        self._say(f"disks: {', '.join(self._draft.disks) or 'none'}.")
        for line in preview_lines(self._preview(), self._draft.level):
            self._say(line)
        self._say(_HOW)
        self._listen(self._typed)

    def _preview(self) -> ArrayPreview:
        state = self._desk.lab
        return preview_of(self._draft, next_array_name(state, self._draft), state.disks)

    def _typed(self, line: str) -> None:
        rows = self._draft.rows()
        word, *rest = line.split() or [""]
        if word == "b":
            self._build()
        elif word == "disks":
            self._choose_disks(rest)
        elif word == "larger":
            MoreDisks(self._desk).ask()
        elif word.isdecimal() and 1 <= int(word) <= len(rows):
            self._choose(rows[int(word) - 1])
        else:
            self._say("left; nothing was built.")

    def _choose(self, row: ChoiceRow) -> None:
        if not row.values:
            self._say(f"{row.label}: {row.note}.")
            self.tell()
            return

        def chosen(value: str) -> None:
            self._draft = self._draft.changed(row.key, value)
            self.tell()

        self._desk.pick(row.label, [Choice(value, value) for value in row.values], chosen)

    def _choose_disks(self, words: list[str]) -> None:
        names = [f"disk{word.zfill(2)}" if word.isdecimal() else word for word in words]
        free = [disk.name for disk in self._desk.lab.free_disks]
        for name in names:
            if name not in free:
                self._say(f"{name} is not free. Free disks: {', '.join(free) or 'none'}.")
        self._draft = self._draft.with_disks([name for name in dict.fromkeys(names) if name in free])
        self.tell()

    def _build(self) -> None:
        state = self._desk.lab
        self._desk.operations.ask(maker_of(self._draft, next_array_name(state, self._draft), state.disks))


def preview_lines(shown: ArrayPreview, level: AnyLevel) -> Iterator[str]:
    """Capacity, what it survives, what a small write costs, the commands; or why it cannot be built."""
    for problem in shown.problems:
        yield f"It cannot be built yet: {problem}."
    if not shown.usable_bytes:
        return
    lost = f", {human_bytes(shown.unused_bytes)} unused" if shown.unused_bytes else ""
    yield f"It would hold {human_bytes(shown.usable_bytes)} of {human_bytes(shown.raw_bytes)}{lost}."
    yield f"It survives the loss of: {survives_words(shown)}."
    yield f"A small write costs {shown.write_penalty}."
    if isinstance(shown, VolumePreview):
        yield from _volume_lines(shown, level)
    for command in shown.commands:
        yield f"  {command}"


def _volume_lines(shown: VolumePreview, level: AnyLevel) -> Iterator[str]:
    if shown.note:
        yield f"{shown.note}."
    for row in system_rows(shown, level):
        reads = f"; full writes read: {row.small_write}" if row.small_write else ""
        yield f"{row.level}: {row.usable}, {row.survives}{reads}."
    for name, (data, parity) in zip(shown.array_names, shown.widths, strict=True):
        yield f"{name} inside: stripes of {data} data and {parity} parity."
