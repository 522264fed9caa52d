"""A requested array of any kind, and its preview, for a screen that updates with every choice. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.arrays.filesystem import FileSystem
from lab.arrays.geometry import StripeRow
from lab.arrays.levels import Level, LevelName
from lab.disks.kinds import LabDisk
from lab.errors import LabError, SpecError
from lab.plans import Plan


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice of every disk of a tier, side by side. Where slices really lie on a disk, they are cut finer."""

    tier: int
    lines: int
    """Height of the row: lines of each slice."""
    windows: tuple[int | None, ...]
    """For each disk the number of the inner array that its slice belongs to; None if it has no slice here."""


@dataclass(frozen=True, slots=True)
class SystemPreview:
    """The same disks under one system. ``capacity_bytes`` is 0 if it cannot be built.

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
    """The expected properties of an array that does not exist yet."""

    problems: tuple[str, ...]
    """Reasons why it cannot be built, one sentence each with a hint; empty if it can be built."""
    usable_bytes: int = 0
    raw_bytes: int = 0
    """All members together, spares not counted."""
    unused_bytes: int = 0
    """Bytes of the members that stay unused because sizes differ."""
    failures_survived: int = 0
    """Any set of this many members may fail."""
    most_failures_survived: int = 0
    """This many members may fail in the best case."""
    write_ios: int = 0
    """Member I/Os, reads and writes, for one write smaller than a chunk."""
    write_penalty: str = ""
    """The same in words."""
    full_stripe_bytes: int = 0
    """Data in one full stripe; 0 for a level without stripes."""
    chunk_bytes: int | None = None
    level: Level | None = None
    stripe: tuple[StripeRow, ...] = ()
    """The first rows of every member: where data, copies and parity lie; empty for one made of several arrays."""
    rows: tuple[SliceRow, ...] = ()
    """For an array made of several: the slices of disks that these consist of."""
    widths: tuple[tuple[int, int], ...] = ()
    """For each inner array, by number: data blocks and parity blocks of a stripe."""
    array_names: tuple[str, ...] = ()
    """For each inner array, by number."""
    systems: tuple[SystemPreview, ...] = ()
    """The same disks under other systems, where there are any to compare."""
    note: str = ""
    """A remark for the user although it can be built; empty if there is none."""
    plan: Plan | None = None
    """The plan that would build it."""

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
        """The disks that have a slice in the inner array ``window``."""
        return {disk for row in self.rows for disk, own in enumerate(row.windows) if own == window}

    def loss_without(self, slots: frozenset[int], members: int) -> str:
        """The loss if the members in ``slots`` are gone, as the end of a sentence; empty if there is none."""
        if self.rows:
            lost = sum(len(slots & self.disks_in(window)) > 1 for window in range(len(self.widths)))
            return f"the data of {lost} of its {len(self.widths)} arrays are gone" if lost else ""
        is_lost = self.level is not None and not self.level.survives(slots, members)
        return "no complete copy of the data remains" if is_lost else ""


class Spec(ABC):
    """One requested array. Nothing is checked until it is previewed or turned into a plan."""

    __slots__ = ()

    name: str

    @property
    @abstractmethod
    def device(self) -> str:
        """The block device to use."""

    @property
    @abstractmethod
    def devices(self) -> tuple[str, ...]:
        """Every device that it uses."""

    @property
    def is_array(self) -> bool:
        """False for a single disk, which is used as it is."""
        return True

    @property
    @abstractmethod
    def effective_chunk_bytes(self) -> int | None:
        """The chunk in effect; None if it has none."""

    @property
    @abstractmethod
    def full_stripe_bytes(self) -> int:
        """Data in one full stripe; 0 if it has no chunk."""

    @abstractmethod
    def expected_bytes(self, disks: Sequence[LabDisk]) -> int:
        """Its expected capacity on these disks. Raises SpecError if they are not suitable."""

    @abstractmethod
    def ideal_bytes(self, disks: Sequence[LabDisk]) -> float:
        """The same without subtracting metadata."""

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """All problems, one sentence each; empty if it can be built."""

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
        """Create it on its disks among ``disks``, then the file system on it; ``taken`` are md names in use.

        Raises SpecError for a request that is impossible on any machine.
        """

    def preview(
        self,
        disks: Sequence[LabDisk],
        file_system: FileSystem = FileSystem.RAW,
        taken: Collection[str] = (),
        *,
        has_plan: bool = True,
    ) -> ArrayPreview:
        """The preview on its disks among ``disks``; faster without a plan (``has_plan``). Never raises."""
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
        """The preview of a consistent spec; ``problems`` are the other reasons against it. May raise."""

    @abstractmethod
    def note(self, disks: Sequence[LabDisk]) -> str:
        """A remark for a user who creates it on the command line; empty if there is none."""


def sentence_of(error: LabError) -> str:
    """The error's message, with its hint."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def failures_words(minimum: int, maximum: int) -> str:
    """``1 failed member``, ``1 to 3 failed members``, ``no failed members``."""
    if minimum != maximum:
        return f"{minimum} to {maximum} failed members"
    return "1 failed member" if minimum == 1 else f"{minimum or 'no'} failed members"


def failures_words_now(level: Level, missing: frozenset[int], members: int) -> str:
    """How many more members may fail while the slots in ``missing`` have no member in sync."""
    whole = failures_words(level.minimum_failures_survived(members), level.maximum_failures_survived(members))
    if not missing:
        return whole
    return f"{failures_words(*level.failures_survived_without(missing, members))} now; {whole} when whole"


def penalty_words(level: Level, members: int) -> str:
    """The cost of one small write, in a sentence for beginners."""
    cost = level.small_write_ios(members)
    match level.name:
        case LevelName.SINGLE | LevelName.RAID0:
            return "1 I/O: the write goes to one disk, and nothing else has to be kept in step"
        case LevelName.RAID1:
            return f"{cost} I/Os: every one of the {cost} copies is written"
        case LevelName.RAID10:
            return f"{cost} I/Os: each of the {cost} copies is written"
        case _:
            work = level.small_write(members)
            both = "both parities" if level.name is LevelName.RAID6 else "the parity"
            then = f"then the new data and {both} are written"
            if work.modifies:
                return f"{cost} I/Os: the old data and {both} are read, {then}"
            if not work.reads:
                return f"{cost} I/Os: nothing has to be read, the new data and {both} are written"
            others = "the other data chunk is" if work.reads == 1 else f"the other {work.reads} data chunks are"
            return f"{cost} I/Os: {others} read, {then}"
