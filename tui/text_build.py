"""The Build screen in lines: every choice has a number, and a preview of the array follows each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.actions.action import Choice
from lab.arrays.preview import ArrayPreview
from lab.gates.numbers import digits
from lab.units import human_bytes
from tui.drafts import FIRST_MEMBERS, Draft, next_array_name
from tui.level_rows import survives_words, system_rows
from tui.more_disks import ask_for_larger

if TYPE_CHECKING:
    from tui.line_frontend import LineFrontend
    from tui.widgets.choices import ChoiceRow

_HOW = (
    "Type a number to change that, 'disks 1 2 3' to choose disks, 'larger' for two larger disks in the lab, "
    "b to build. Anything else leaves."
)


class TextBuild:
    """One array that is being put together."""

    def __init__(self, app: LineFrontend) -> None:
        self._app = app
        self._draft = Draft(disks=tuple(disk.name for disk in app.lab.blank_disks)[:FIRST_MEMBERS])

    def show(self) -> None:
        """All choices, what they come to, and what can be typed."""
        for number, row in enumerate(self._draft.rows(), start=1):
            note = f" ({row.note})" if row.note else ""
            self._app.say(f"{number}: {row.label}: {row.current or 'no choice'}{note}.")
        self._app.say(f"disks: {', '.join(self._draft.disks) or 'none'}.")
        for line in preview_lines(self._preview(), self._draft.level):
            self._app.say(line)
        self._app.say(_HOW)
        self._app.listen(self._typed, _HOW)

    def _preview(self) -> ArrayPreview:
        state = self._app.lab
        spec = self._draft.spec(next_array_name(state, self._draft), state.disks)
        return spec.preview(state.disks, self._draft.file_system)

    def _typed(self, line: str) -> None:
        rows = self._draft.rows()
        word, *rest = line.split() or [""]
        if word == "b":
            self._build()
        elif word == "disks":
            self._choose_disks(rest)
        elif word == "larger":
            ask_for_larger(self._app)
        elif 1 <= (number := digits(word) or 0) <= len(rows):
            self._choose(rows[number - 1])
        else:
            self._app.say("left; nothing was built.")

    def _choose(self, row: ChoiceRow) -> None:
        if not row.values:
            self._app.say(f"{row.label}: {row.note}.")
            self.show()
            return

        def chosen(value: str) -> None:
            self._draft = self._draft.changed(row.key, value)
            self.show()

        self._app.pick(row.label, [Choice(value, value) for value in row.values], chosen)

    def _choose_disks(self, words: list[str]) -> None:
        names = [f"disk{word.zfill(2)}" if word.isdecimal() else word for word in words]
        free = [disk.name for disk in self._app.lab.blank_disks]
        for name in names:
            if name not in free:
                self._app.say(f"{name} is not free. Free disks: {', '.join(free) or 'none'}.")
        self._draft = self._draft.with_disks([name for name in dict.fromkeys(names) if name in free])
        self.show()

    def _build(self) -> None:
        state, file_system = self._app.lab, self._draft.file_system
        spec = self._draft.spec(next_array_name(state, self._draft), state.disks)
        self._app.ask(lambda session: session.creation(spec, file_system))


def preview_lines(shown: ArrayPreview, level: str) -> Iterator[str]:
    """Capacity, what it survives, what a small write costs, the commands; or why it cannot be built."""
    for problem in shown.problems:
        yield f"It cannot be built yet: {problem}."
    if not shown.usable_bytes:
        return
    lost = f", {human_bytes(shown.unused_bytes)} unused" if shown.unused_bytes else ""
    yield f"It would hold {human_bytes(shown.usable_bytes)} of {human_bytes(shown.raw_bytes)}{lost}."
    yield f"It survives the loss of: {survives_words(shown)}."
    yield f"A small write costs {shown.write_penalty}."
    yield from _volume_lines(shown, level)
    for command in shown.commands:
        yield f"  {command}"


def _volume_lines(shown: ArrayPreview, level: str) -> Iterator[str]:
    if shown.note:
        yield f"{shown.note}."
    for row in system_rows(shown, level):
        reads = f"; full writes read: {row.small_write}" if row.small_write else ""
        yield f"{row.level}: {row.usable}, {row.survives}{reads}."
    for name, (data, parity) in zip(shown.array_names, shown.widths, strict=True):
        yield f"{name} inside: stripes of {data} data and {parity} parity."
