"""Drills in words, as Markdown: what the student is told at the start, and the debriefing. No terminal code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from lab.drills.case import DrillCase, DrillOutcome
from lab.drills.pictures import MemberPicture, freshest_events
from lab.drills.schema import ReadyDrill, find_drill, read_drill, ready
from lab.drills.verdict import DrillVerdict
from lab.errors import LabError
from lab.gates.text import markdown, visible
from lab.units import human_bytes

STRIP_CELLS = 32
_UNTOUCHED, _CHANGED = "·", "█"
_SAYS: dict[str, str] = {
    DrillVerdict.SAVED: "Everything that could be saved is saved, in an array as it was asked for, and nothing was "
    "written before you said commit.",
    DrillVerdict.RISKED: "The data are saved. But the disks themselves were written before you said commit: a mistake "
    "there could not have been taken back.",
    DrillVerdict.UNFINISHED: "The data are there, but the array is not yet as it was asked for.",
    DrillVerdict.PARTLY: "Part of the data is lost that could have been saved.",
    DrillVerdict.LOST: "The data are lost, or nobody can get at them.",
}
RULES = """
You are root on the machine, with mdadm, dmesg and everything else that is installed.

- Until you say **commit**, the disks themselves should stay as they are. `overlays up DEVICE…` lays overlays over them
  (`/dev/mapper/over-…`), on which anything may be tried; `overlays down` takes them away. An overlay that you make by
  hand with `losetup` and `dmsetup` is as good.
- **commit** says: from here on I write on the disks. **reset** makes them what they were, in seconds. **hint** costs
  nothing, but is noted. **debrief** ends the drill with the verdict. At the machine's shell these are `drill commit`,
  `drill reset`, `drill hint` and `drill debrief`.
"""
PUT_BACK = "the disks are as they were when the drill began"


def briefing(drill: ReadyDrill) -> str:
    """The title and the symptom."""
    return f"# {drill.drill.title}\n\n{drill.drill.symptom.strip()}\n"


def hint_words(drill: ReadyDrill, number: int) -> str:
    """A hint that was taken, by its number."""
    hints = drill.drill.hints
    return f"**Hint {number} of {len(hints)}.** {hints[number - 1]}"


def committed_words(touched_bytes: int) -> str:
    """What is said of a commit."""
    written = f"{human_bytes(touched_bytes)} had been written" if touched_bytes else "nothing had been written"
    return f"committed; {written} on the disks before"


def standing(case: DrillCase, minutes: float) -> dict[str, str]:
    """How a drill stands: label -> text."""
    record = case.record
    committed = f"after {record.committed_seconds / 60:.0f} min" if case.is_committed else "not yet"
    return {
        "time": f"{minutes:.0f} min (meant for {case.drill.drill.minutes})",
        "hints": f"{record.hints} of {len(case.drill.drill.hints)}",
        "committed": committed,
        "written before commit": human_bytes(record.touched_bytes) if record.touched_bytes else "nothing",
        "resets": str(record.resets),
        "commands": str(len(case.commands())),
    }


def debriefing(outcome: DrillOutcome, drill: ReadyDrill | None, sizes: Mapping[str, int]) -> str:
    """The whole page. ``sizes``: bytes of each disk, for the picture of what changed."""
    parts = [f"# {markdown(outcome.title)}: {outcome.verdict}", _SAYS.get(outcome.verdict, ""), _figures(outcome)]
    if outcome.missing:
        parts.append("What is missing:\n\n" + _list(outcome.missing))
    if outcome.mistakes:
        told = [f"**{mistake.id}**: {' '.join(mistake.explain.split())}" for mistake in outcome.mistakes]
        parts.append("## What went wrong\n\n" + "\n\n".join(told))
    parts.append("## Member by member\n\n" + members(outcome) + "\n\n" + changes(outcome, sizes))
    if outcome.commands:
        typed = [f"{command.seconds / 60:.1f} min: {_code(command.line)}" for command in outcome.commands[-60:]]
        parts.append("## What you typed\n\n" + _list(typed))
    if drill is not None:
        parts.append(f"## What an expert would have done\n\n{drill.drill.expert.strip()}")
    return "\n\n".join(parts) + "\n"


def ended_page(outcome: DrillOutcome, sizes: Mapping[str, int] | None = None) -> str:
    """The page of a drill whose file may be gone by now."""
    try:
        path = find_drill(outcome.drill)
        drill = ready(read_drill(path), path, outcome.seed)
    except LabError:
        drill = None
    return debriefing(outcome, drill, sizes or {})


def _figures(outcome: DrillOutcome) -> str:
    total = sum(outcome.blocks.values())
    told = ", ".join(f"{count} {word}" for word, count in outcome.blocks.items()) or "none could be read"
    return _list(
        [
            f"data saved: **{outcome.saved_percent:g} %** of {total} blocks of 4 KiB ({told})",
            f"written on the disks before commit: **{human_bytes(outcome.touched_bytes)}**"
            if outcome.touched_bytes
            else "written on the disks before commit: **nothing**",
            f"{outcome.minutes:.0f} minutes, {len(outcome.commands)} commands, {outcome.hints} hints, "
            f"{outcome.resets} resets",
        ]
    )


def members(outcome: DrillOutcome) -> str:
    """Each disk's superblock before and after, as a Markdown list: a table's columns are too narrow in 80 columns."""
    lines = []
    most = {True: freshest_events(outcome.before), False: freshest_events(outcome.after)}
    for name, before in outcome.before.items():
        after = outcome.after.get(name)
        if not before.has_superblock and (after is None or not after.has_superblock):
            continue
        end = member_words(after, most[False], before.uuid) if after else "gone"
        lines.append(f"**{name}**\n    - before: {member_words(before, most[True], before.uuid)}\n    - after: {end}")
    return _list(lines)


def member_words(picture: MemberPicture, freshest: int, uuid: str) -> str:
    """One superblock in a few words."""
    if not picture.has_superblock:
        return "no superblock"
    behind = freshest - picture.events
    parts = [picture.role or "member", f"{picture.events} events" + (f" ({behind} behind)" if behind else "")]
    if picture.data_offset_sectors:
        parts.append(f"data from sector {picture.data_offset_sectors}")
    if uuid and picture.uuid != uuid:
        parts.append("**of another array**")
    return markdown(", ".join(parts)).replace("\\*\\*", "**")


def changes(outcome: DrillOutcome, sizes: Mapping[str, int]) -> str:
    """Where each disk is not as it was: a strip from its beginning to its end."""
    lines = []
    for name, ranges in outcome.changed.items():
        size = max(sizes.get(name, 0), ranges[-1][1])
        total = sum(end - first for first, end in ranges)
        lines.append(f"{name}  {strip(ranges, size)}  {human_bytes(total)} changed")
    # Between fences: indented alone, it would be the last words of the list before it.
    return "\n".join(["```", *lines, "```"]) if lines else "No disk is other than it was."


def strip(ranges: Iterable[Sequence[int]], size: int, cells: int = STRIP_CELLS) -> str:
    """A disk as so many cells; those in which something changed are filled."""
    marks = [_UNTOUCHED] * cells
    for first, end in ranges:
        for cell in range(first * cells // size, min(cells, (end - 1) * cells // size + 1)):
            marks[cell] = _CHANGED
    return "".join(marks)


def _code(line: str) -> str:
    """A command as it was typed; within more backticks than stand together in it (CommonMark, code spans)."""
    shown = visible(line)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
