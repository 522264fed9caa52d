"""What an array would be, before anything is touched: for a screen that follows every choice. Pure, and never raises.

It judges the words of a choice and the sizes of disks; whether disks are free is for ``lab.session.plans.create``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import Level, LevelName
from lab.arrays.spec import ArraySpec
from lab.arrays.stripes import StripeRow, stripe_rows
from lab.disks import LabDisk
from lab.errors import LabError, SpecError
from lab.plans import Plan
from lab.session.checks import foretold_bytes, small_disks
from lab.session.plans import creation
from lab.session.words import failures_words
from lab.units import human_bytes

STRIPE_ROWS = 8


@dataclass(frozen=True, slots=True)
class ArrayPreview:
    """What can be told of an array that does not exist yet."""

    problems: tuple[str, ...]
    """Why it cannot be built, a sentence each with what to do; empty if it can be."""
    usable_bytes: int = 0
    raw_bytes: int = 0
    """All members together, spares not counted."""
    unused_bytes: int = 0
    """Of the members: what differing sizes leave over."""
    failures_survived: int = 0
    """Any so many members may fail."""
    most_failures_survived: int = 0
    """So many may fail if they are the right ones."""
    survives: str = ""
    """The same in words: ``1 failed member``."""
    write_ios: int = 0
    """Member I/Os, reads and writes, for one write smaller than a chunk."""
    write_penalty: str = ""
    """The same in words."""
    full_stripe_bytes: int = 0
    """Data in one whole stripe; 0 for a level without stripes."""
    stripe: tuple[StripeRow, ...] = ()
    """The first rows of every member: where data, copies and parity lie."""
    plan: Plan | None = None
    """What would build it."""

    @property
    def can_be_built(self) -> bool:
        return not self.problems

    @property
    def commands(self) -> tuple[str, ...]:
        """The plan's lines, ready to be typed."""
        return tuple(self.plan.lines()) if self.plan else ()


def preview(disks: Sequence[LabDisk], spec: ArraySpec, file_system: FileSystem = FileSystem.RAW) -> ArrayPreview:
    """What ``spec`` would be on these disks (the lab's; those that the spec names are used). Takes a millisecond."""
    problems = list(spec.problems())
    if problems:
        return ArrayPreview(tuple(problems))
    by_node = {disk.node: disk for disk in disks}
    strangers = [node for node in spec.devices if node not in by_node]
    if strangers:
        return ArrayPreview((f"{', '.join(strangers)}: no disk of this lab; choose lab disks",))
    members = [by_node[node] for node in spec.members]
    level, count = spec.raid, len(members)
    chunk = spec.effective_chunk_bytes
    try:
        stripe = stripe_rows(level, spec.layout, count, STRIPE_ROWS) if spec.is_array else ()
    except SpecError as error:
        return ArrayPreview((sentence_of(error),))
    smallest = min(disk.size_bytes for disk in members)
    is_unequal = level.name not in (LevelName.RAID0, LevelName.SINGLE)
    low, high = level.minimum_failures_survived(count), level.maximum_failures_survived(count)
    plan, problems = _plan(spec, [by_node[node] for node in spec.devices], file_system)
    return ArrayPreview(
        problems=tuple(problems),
        usable_bytes=0 if small_disks(spec, members) else foretold_bytes(spec, members),
        raw_bytes=sum(disk.size_bytes for disk in members),
        unused_bytes=sum(disk.size_bytes - smallest for disk in members) if is_unequal else 0,
        failures_survived=low,
        most_failures_survived=high,
        survives=failures_words(low, high),
        write_ios=level.small_write_ios(count),
        write_penalty=penalty_words(level, count),
        full_stripe_bytes=level.full_stripe_bytes(count, chunk) if chunk else 0,
        stripe=stripe,
        plan=plan,
    )


def _plan(spec: ArraySpec, disks: Sequence[LabDisk], file_system: FileSystem) -> tuple[Plan | None, list[str]]:
    try:
        return creation(spec, disks, file_system), []
    except LabError as error:
        return None, [sentence_of(error)]


def sentence_of(error: LabError) -> str:
    """What is wrong, and what to do next."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def penalty_words(level: Level, members: int) -> str:
    """What one small write costs, in a sentence that a newcomer can follow."""
    cost = level.small_write_ios(members)
    match level.name:
        case LevelName.SINGLE | LevelName.RAID0:
            return "1 I/O: the write goes to one disk, and nothing else has to be kept in step"
        case LevelName.RAID1:
            return f"{cost} I/Os: every one of the {cost} copies is written"
        case LevelName.RAID10:
            return f"{cost} I/Os: each of the {cost} copies is written"
        case _:
            parities = 2 if level.name is LevelName.RAID6 else 1
            both = "both parities" if parities == 2 else "the parity"
            if cost == 2 * (1 + parities):
                return f"{cost} I/Os: the old data and {both} are read, then the new data and {both} are written"
            rest = cost - 1 - parities
            others = "the other data chunk is" if rest == 1 else f"the other {rest} data chunks are"
            return f"{cost} I/Os: {others} read, then the new data and {both} are written"


def size_words(shown: ArrayPreview) -> str:
    """``1 GiB usable of 1.5 GiB``."""
    return f"{human_bytes(shown.usable_bytes)} usable of {human_bytes(shown.raw_bytes)}"
