"""An array that is wanted, of whatever kind, and what it would be: for a screen that follows every choice. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import Level, LevelName
from lab.arrays.stripes import StripeRow
from lab.disks.kinds import LabDisk
from lab.errors import LabError, SpecError
from lab.plans import Plan


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice of every disk of a tier, side by side. Where slices really lie on a disk, they are cut finer."""

    tier: int
    lines: int
    """How high the row is: lines of each slice."""
    windows: tuple[int | None, ...]
    """For each disk the array inside that its slice is in, by number; None where it has none here."""


@dataclass(frozen=True, slots=True)
class SystemPreview:
    """The same disks under one system. ``capacity_bytes`` is 0 where it cannot be built.

    ``reads_share`` is the share of the data on which an aligned write of a full stripe has to read first.
    """

    system: str
    title: str
    capacity_bytes: int
    array_count: int
    reads_share: float

    @property
    def reads_words(self) -> str:
        """``never``, ``always`` or a percentage."""
        return {0.0: "never", 1.0: "always"}.get(self.reads_share, f"{100 * self.reads_share:.0f} %")


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
    write_ios: int = 0
    """Member I/Os, reads and writes, for one write smaller than a chunk."""
    write_penalty: str = ""
    """The same in words."""
    full_stripe_bytes: int = 0
    """Data in one whole stripe; 0 for a level without stripes."""
    chunk_bytes: int | None = None
    level: Level | None = None
    stripe: tuple[StripeRow, ...] = ()
    """The first rows of every member: where data, copies and parity lie; empty for one made of several arrays."""
    rows: tuple[SliceRow, ...] = ()
    """Of an array made of several: which slices of which disks they are made of."""
    widths: tuple[tuple[int, int], ...] = ()
    """Of each array inside, by number: data blocks and parity blocks of a stripe."""
    array_names: tuple[str, ...] = ()
    """Of each array inside, by number."""
    systems: tuple[SystemPreview, ...] = ()
    """The same disks under other systems, where there are any to compare."""
    note: str = ""
    """What the user should know though it can be built; empty: nothing."""
    plan: Plan | None = None
    """What would build it."""

    @property
    def can_be_built(self) -> bool:
        return not self.problems

    @property
    def commands(self) -> tuple[str, ...]:
        """The plan's lines, ready to be typed."""
        return tuple(self.plan.lines()) if self.plan else ()

    @property
    def survives(self) -> str:
        """``1 failed member``."""
        return failures_words(self.failures_survived, self.most_failures_survived)

    def disks_in(self, window: int) -> set[int]:
        """Which disks have a slice in an array inside."""
        return {disk for row in self.rows for disk, own in enumerate(row.windows) if own == window}

    def loss_without(self, slots: frozenset[int], members: int) -> str:
        """What is lost without these of its members, as the end of a sentence; empty: nothing."""
        if self.rows:
            lost = sum(len(slots & self.disks_in(window)) > 1 for window in range(len(self.widths)))
            return f"the data of {lost} of its {len(self.widths)} arrays are gone" if lost else ""
        is_lost = self.level is not None and not self.level.survives(slots, members)
        return "nobody has all of the data any more" if is_lost else ""


class Spec(ABC):
    """One array as somebody wants it. Nothing is checked until it is previewed or made a plan."""

    __slots__ = ()

    name: str

    @property
    @abstractmethod
    def device(self) -> str:
        """The block device to use."""

    @property
    @abstractmethod
    def devices(self) -> tuple[str, ...]:
        """Every device that it takes."""

    @property
    def is_array(self) -> bool:
        """False for a single disk, which is used as it is."""
        return True

    @property
    @abstractmethod
    def effective_chunk_bytes(self) -> int | None:
        """The chunk that it gets; None where it has none."""

    @property
    @abstractmethod
    def full_stripe_bytes(self) -> int:
        """Data in one whole stripe; 0 where it has no chunk."""

    @abstractmethod
    def expected_bytes(self, disks: Sequence[LabDisk]) -> int:
        """What it should offer on these disks. Raises SpecError where they do not do."""

    @abstractmethod
    def ideal_bytes(self, disks: Sequence[LabDisk]) -> float:
        """The same with nothing taken off for metadata."""

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong, one sentence each; empty for one that can be built."""

    def validate(self) -> None:
        """Raises one SpecError that lists all problems."""
        problems = self.problems()
        if len(problems) == 1:
            raise SpecError(f"array {self.name}: {problems[0]}", hint="change this, then try again")
        if problems:
            lines = "".join(f"\n  - {problem}" for problem in problems)
            raise SpecError(f"array {self.name}: {len(problems)} problems:{lines}", hint="change these, then try again")

    @abstractmethod
    def creation(self, disks: Sequence[LabDisk], file_system: FileSystem, taken: Collection[str] = ()) -> Plan:
        """Create it on its disks among these, then the file system on it; ``taken`` are md names in use.

        Raises SpecError for whatever cannot be, on whatever machine.
        """

    def preview(
        self,
        disks: Sequence[LabDisk],
        file_system: FileSystem = FileSystem.RAW,
        taken: Collection[str] = (),
        *,
        has_plan: bool = True,
    ) -> ArrayPreview:
        """What it would be on its disks among these; a plan can be left out, to be quicker. Never raises."""
        problems, plan = self.problems(), None
        if problems:
            return ArrayPreview(problems)
        try:
            plan = self.creation(disks, file_system, taken) if has_plan else None
        except LabError as error:
            problems = (sentence_of(error),)
        try:
            return self.shown(disks, problems, plan)
        except LabError as error:
            return ArrayPreview((sentence_of(error),))

    @abstractmethod
    def shown(self, disks: Sequence[LabDisk], problems: tuple[str, ...], plan: Plan | None) -> ArrayPreview:
        """The preview of one without contradictions; ``problems`` are what else stands against it. May raise."""

    @abstractmethod
    def note(self, disks: Sequence[LabDisk]) -> str:
        """What somebody who makes it on the command line should know; empty: nothing."""


def sentence_of(error: LabError) -> str:
    """What is wrong, and what to do next."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def failures_words(minimum: int, maximum: int) -> str:
    """``1 failed member``, ``1 to 3 failed members``, ``no failed members``."""
    if minimum != maximum:
        return f"{minimum} to {maximum} failed members"
    return "1 failed member" if minimum == 1 else f"{minimum or 'no'} failed members"


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
