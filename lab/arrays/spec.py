"""The specification of an array, the problems in it, the plan that creates the array, and its preview."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.geometry import StripeRow, stripe_rows
from lab.arrays.levels import (
    DEFAULT_CHUNK_BYTES,
    Level,
    LevelName,
    Raid10,
    array_device,
    data_offset_bytes,
    is_array_name,
    is_device_node,
    level_with_layout,
    parse_level,
    usable_bytes,
)
from lab.disks.kinds import LabDisk
from lab.errors import LabError, SpecError
from lab.plans import Danger, Plan, Step
from lab.units import KIB, human_bytes


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice of every disk of a tier, side by side. On the disks, slices are interleaved in smaller pieces."""

    tier: int
    lines: int
    """The height of the row, in lines of each slice."""
    windows: tuple[int | None, ...]
    """For each disk, the number of the inner array to which its slice belongs, or None if it has no slice here."""


@dataclass(frozen=True, slots=True)
class SystemPreview:
    """The volume that one system makes of the same disks. ``capacity_bytes`` is 0 if the system cannot use them.

    ``reads_share`` is the share of the data for which an aligned write of a full stripe must first read blocks.
    """

    system: str
    title: str
    capacity_bytes: int
    array_count: int
    reads_share: float

    @property
    def reads_words(self) -> str:
        """``reads_share`` as text: ``never``, ``always`` or a percentage."""
        return {0.0: "never", 1.0: "always"}.get(self.reads_share, f"{100 * self.reads_share:.0f} %")


@dataclass(frozen=True, slots=True)
class ArrayPreview:
    """The expected properties of an array that does not exist yet."""

    problems: tuple[str, ...]
    """The reasons why it cannot be built, one sentence each with a hint, or none if it can be built."""
    usable_bytes: int = 0
    raw_bytes: int = 0
    """The size of all members together, without spares."""
    unused_bytes: int = 0
    """How much of the members stays unused because their sizes differ."""
    failures_survived: int = 0
    """How many members may fail, no matter which."""
    most_failures_survived: int = 0
    """How many members may fail in the best case."""
    write_penalty: str = ""
    """The cost of one write smaller than a chunk, in words."""
    full_stripe_bytes: int = 0
    """The data in one full stripe, or 0 for a level without stripes."""
    chunk_bytes: int | None = None
    level: Level | None = None
    stripe: tuple[StripeRow, ...] = ()
    """The first rows of every member, with data, copies and parity; none if the array consists of several arrays."""
    rows: tuple[SliceRow, ...] = ()
    """The slices of disks of which the inner arrays consist, if the array consists of several arrays."""
    widths: tuple[tuple[int, int], ...] = ()
    """The number of data blocks and parity blocks in a stripe of each inner array, by number."""
    array_names: tuple[str, ...] = ()
    """The name of each inner array, by number."""
    systems: tuple[SystemPreview, ...] = ()
    """The volumes that other systems would make of the same disks, if there are systems to compare."""
    note: str = ""
    """A remark for the user that does not prevent building the array; empty if there is none."""
    plan: Plan | None = None

    @property
    def can_be_built(self) -> bool:
        return not self.problems

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(self.plan.lines()) if self.plan else ()

    @property
    def survives(self) -> str:
        return _failures_words(self.failures_survived, self.most_failures_survived)

    def disks_in(self, window: int) -> set[int]:
        return {disk for row in self.rows for disk, own in enumerate(row.windows) if own == window}

    def loss_without(self, slots: frozenset[int], members: int) -> str:
        """Describe what is lost without the members in ``slots``, as the end of a sentence; empty if nothing is."""
        if self.rows:
            lost = sum(len(slots & self.disks_in(window)) > 1 for window in range(len(self.widths)))
            return f"the data of {lost} of its {len(self.widths)} arrays are gone" if lost else ""
        is_lost = self.level is not None and not self.level.survives(slots, members)
        return "no complete copy of the data remains" if is_lost else ""


class Spec(ABC):
    """One requested array. It is not checked until it is previewed or turned into a plan."""

    __slots__ = ()

    name: str

    @property
    @abstractmethod
    def device(self) -> str:
        """The block device to use."""

    @property
    @abstractmethod
    def devices(self) -> tuple[str, ...]:
        """Every device that the array uses."""

    @property
    def is_array(self) -> bool:
        """Whether it is an array, and not a single disk that is used as it is."""
        return True

    @property
    @abstractmethod
    def effective_chunk_bytes(self) -> int | None:
        """The chunk size in effect, or None for an array without chunks."""

    @property
    @abstractmethod
    def full_stripe_bytes(self) -> int:
        """The data in one full stripe, or 0 for an array without chunks."""

    @abstractmethod
    def expected_bytes(self, disks: Sequence[LabDisk]) -> int:
        """Return the array's expected capacity on these disks. Raises SpecError if they are not suitable."""

    @abstractmethod
    def ideal_bytes(self, disks: Sequence[LabDisk]) -> float:
        """Return ``expected_bytes`` without the deduction for metadata."""

    @abstractmethod
    def problems(self) -> tuple[str, ...]:
        """Return all problems, one sentence each, or none if the array can be built."""

    def validate(self) -> None:
        """Raise one SpecError that lists all problems, if there are any."""
        problems = self.problems()
        if len(problems) == 1:
            raise SpecError(f"array {self.name}: {problems[0]}", hint="fix this problem, then try again")
        if problems:
            lines = "".join(f"\n  - {problem}" for problem in problems)
            raise SpecError(
                f"array {self.name}: {len(problems)} problems:{lines}", hint="fix these problems, then try again"
            )

    @abstractmethod
    def creation(self, disks: Sequence[LabDisk], file_system: FileSystem, taken: Collection[str] = ()) -> Plan:
        """Return a plan that creates the array, then the file system on it.

        ``disks`` include those of the array. If it consists of several md arrays, these do not get the names in
        ``taken``. Raises SpecError if the request is impossible on every machine.
        """

    def preview(
        self,
        disks: Sequence[LabDisk],
        file_system: FileSystem = FileSystem.RAW,
        taken: Collection[str] = (),
        *,
        has_plan: bool = True,
    ) -> ArrayPreview:
        """Return the preview. Errors are listed as its problems, never raised. Without a plan, this is faster."""
        problems, plan = self.problems(), None
        if problems:
            return ArrayPreview(problems)
        try:
            plan = self.creation(disks, file_system, taken) if has_plan else None
        except LabError as error:
            problems = (_sentence_of(error),)
        try:
            return self.shown(disks, problems, plan)
        except LabError as error:
            return ArrayPreview((_sentence_of(error),))

    @abstractmethod
    def shown(self, disks: Sequence[LabDisk], problems: tuple[str, ...], plan: Plan | None) -> ArrayPreview:
        """Return the preview of a consistent spec; ``problems`` are other obstacles to building it. May raise."""

    @abstractmethod
    def note(self, disks: Sequence[LabDisk]) -> str:
        """Return a remark for a user who creates the array on the command line, or an empty string if there is none."""


def _sentence_of(error: LabError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _failures_words(minimum: int, maximum: int) -> str:
    if minimum != maximum:
        return f"{minimum} to {maximum} failed members"
    return "1 failed member" if minimum == 1 else f"{minimum or 'no'} failed members"


def failures_words_now(level: Level, missing: frozenset[int], members: int) -> str:
    """Say how many more members may fail while the slots in ``missing`` have no member in sync."""
    whole = _failures_words(level.minimum_failures_survived(members), level.maximum_failures_survived(members))
    if not missing:
        return whole
    return f"{_failures_words(*level.failures_survived_without(missing, members))} now; {whole} when complete"


def penalty_words(level: Level, members: int) -> str:
    """Describe, for beginners, the cost of one small write."""
    work = level.small_write(members)
    cost = work.ios
    match level.name:
        case LevelName.SINGLE | LevelName.RAID0:
            return "1 I/O: the write goes to one disk, and nothing else has to be updated"
        case LevelName.RAID1:
            return f"{cost} I/Os: every one of the {cost} copies is written"
        case LevelName.RAID10:
            return f"{cost} I/Os: each of the {cost} copies is written"
        case _:
            both = "both parities" if level.name is LevelName.RAID6 else "the parity"
            then = f"then the new data and {both} are written"
            if work.modifies:
                return f"{cost} I/Os: the old data and {both} are read, {then}"
            if not work.reads:
                return f"{cost} I/Os: nothing has to be read, the new data and {both} are written"
            others = "the other data chunk is" if work.reads == 1 else f"the other {work.reads} data chunks are"
            return f"{cost} I/Os: {others} read, {then}"


MINIMUM_CHUNK_BYTES = 4 * KIB
MAXIMUM_MEMBERS = 384
"""The number of slots of a 1.2 superblock that fits in 4 KiB (md(4))."""

METADATA_VERSION = "1.2"
PPL_MAXIMUM_MEMBERS = 64
"""The limit for a PPL (driver-api/md/raid5-ppl in the kernel's documentation)."""

STRIPE_ROWS = 8
_SMALLEST_DATA_BYTES = 64 * KIB


class Bitmap(StrEnum):
    """The write-intent bitmap: none, or stored in the superblock area of every member."""

    NONE = "none"
    INTERNAL = "internal"


class ConsistencyPolicy(StrEnum):
    """How an array becomes consistent again after an unclean stop (mdadm(8), --consistency-policy)."""

    RESYNC = "resync"
    PPL = "ppl"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class ArraySpec(Spec):
    """A requested array of md or, as the argument of ``ArrayKind.spec``, of any kind. It is checked by ``validate``.

    ``members``, ``spares`` and ``journal_device`` are device nodes in slot order. If ``chunk_bytes`` is None and the
    level has chunks, mdadm's default applies. ``assume_clean`` skips the first resync, which is safe only if the
    members are blank.
    """

    level: str
    members: tuple[str, ...]
    name: str = "md0"
    spares: tuple[str, ...] = ()
    chunk_bytes: int | None = None
    layout: str | None = None
    bitmap: Bitmap = Bitmap.NONE
    bitmap_chunk_bytes: int | None = None
    """The bytes that one bit covers; None means mdadm's choice of at least 64 MiB, so a small array gets few bits."""
    consistency_policy: ConsistencyPolicy = ConsistencyPolicy.RESYNC
    journal_device: str | None = None
    assume_clean: bool = False
    size_bytes: int | None = None
    """The size of the data on each member; None means all that fits."""
    data_offset_bytes: int | None = None
    """The offset of the data on each member; None means mdadm's choice."""
    uuid: str = ""
    forces_resync: bool = False
    """Whether a RAID 5 starts with a resync and not with a rebuild of its last member (mdadm(8), --create --force)."""
    options: tuple[str, ...] = ()
    reference: int | None = None
    """The number of data chunks in a full stripe, for a kind of array that lets the user choose it."""
    utilisation: tuple[float, ...] | None = None
    """How much of each member is used, relative to those used most, for a kind of array that can use a part of it."""

    @property
    def raid(self) -> Level:
        """The arithmetic of this level and layout. Raises SpecError if one of them is unknown."""
        return level_with_layout(self.level, self.layout)

    @property
    def create_argv(self) -> tuple[str, ...]:
        """The mdadm command line. Raises SpecError if the level or layout is unknown; nothing else is checked."""
        # With "any" in place of the host name, every machine treats the array as local (mdadm(8), AUTO-ASSEMBLY).
        argv = ["mdadm", "--create", self.device, "--run", f"--metadata={METADATA_VERSION}", "--homehost=any"]
        argv += [f"--uuid={self.uuid}"] if self.uuid else []
        argv += [f"--level={self.raid.name.value}", f"--raid-devices={len(self.members)}"]
        if self.effective_chunk_bytes is not None:
            argv.append(f"--chunk={self.effective_chunk_bytes // KIB}")
        if layout := self.layout or _DEFAULT_LAYOUTS.get(self.raid.name):
            argv.append(f"--layout={layout}")
        if self.data_offset_bytes is not None:
            argv.append(f"--data-offset={self.data_offset_bytes // KIB}")
        if self.size_bytes is not None:
            argv.append(f"--size={self.size_bytes // KIB}")
        if self.raid.is_redundant:
            # mdadm 4.4 prompts for a bitmap unless the option is given (mdadm issue #133).
            argv.append(f"--bitmap={self.bitmap.value}")
            if self.bitmap_chunk_bytes is not None:
                argv.append(f"--bitmap-chunk={self.bitmap_chunk_bytes // KIB}")
            # mdadm derives the policies "bitmap" and "journal" from --bitmap and --write-journal.
            argv += ["--consistency-policy=ppl"] if self.consistency_policy is ConsistencyPolicy.PPL else []
        argv += ["--assume-clean"] if self.assume_clean else []
        argv += ["--force"] if self.forces_resync else []
        argv += [f"--spare-devices={len(self.spares)}"] if self.spares else []
        argv += [f"--write-journal={self.journal_device}"] if self.journal_device else []
        return (*argv, *self.options, *self.members, *self.spares)

    @property
    def is_array(self) -> bool:
        return parse_level(self.level).name is not LevelName.SINGLE

    @property
    def device(self) -> str:
        return array_device(self.name) if self.is_array else self.members[0]

    @property
    def effective_chunk_bytes(self) -> int | None:
        if not self.raid.has_chunk:
            return None
        return DEFAULT_CHUNK_BYTES if self.chunk_bytes is None else self.chunk_bytes

    @property
    def full_stripe_bytes(self) -> int:
        chunk = self.effective_chunk_bytes
        return self.raid.full_stripe_bytes(len(self.members), chunk) if chunk else 0

    @property
    def devices(self) -> tuple[str, ...]:
        return self.members + self.spares + ((self.journal_device,) if self.journal_device else ())

    def problems(self) -> tuple[str, ...]:
        found: list[str] = []
        if not is_array_name(self.name):
            found.append(f"the name '{self.name}' is not 'md' and a number below 1000, such as md0")
        found += _device_problems(self)
        try:
            level = parse_level(self.level)
        except SpecError as error:
            return (*found, _sentence_of(error))
        try:
            level = self.raid
        except SpecError as error:
            found.append(_sentence_of(error))
        found += _member_problems(self, level)
        found += _chunk_problems(self, level)
        found += _consistency_problems(self, level)
        return tuple(found)

    def small_disks(self, disks: Sequence[LabDisk]) -> tuple[str, ...]:
        """Return a phrase about each disk that is too small for the metadata and one chunk."""
        chunk = self.effective_chunk_bytes
        has_ppl = self.consistency_policy is ConsistencyPolicy.PPL
        small = []
        for disk in disks if self.is_array else ():
            needed = data_offset_bytes(disk.size_bytes, chunk, has_ppl=has_ppl) + (chunk or _SMALLEST_DATA_BYTES)
            if disk.size_bytes < needed:
                small.append(f"{disk.name} has {human_bytes(disk.size_bytes)} but needs {human_bytes(needed)}")
        return tuple(small)

    def expected_bytes(self, disks: Sequence[LabDisk]) -> int:
        has_ppl = self.consistency_policy is ConsistencyPolicy.PPL
        return usable_bytes(self.raid, self._member_sizes(disks), self.effective_chunk_bytes, has_ppl=has_ppl)

    def ideal_bytes(self, disks: Sequence[LabDisk]) -> float:
        return float(self.raid.capacity_of(self._member_sizes(disks), chunk_bytes=1))

    def _member_sizes(self, disks: Sequence[LabDisk]) -> list[int]:
        """Return each member's own size if the level has zones, otherwise that of the smallest disk or spare."""
        if not self.raid.has_zones:
            return [min(disk.size_bytes for disk in disks)] * len(self.members)
        sizes = {disk.node: disk.size_bytes for disk in disks}
        return [sizes[node] for node in self.members]

    def _on(self, nodes: Sequence[str], disks: Sequence[LabDisk]) -> list[LabDisk]:
        by_node = {disk.node: disk for disk in disks}
        if strangers := [node for node in nodes if node not in by_node]:
            raise SpecError(f"not disks of this lab: {', '.join(strangers)}", hint="choose lab disks")
        return [by_node[node] for node in nodes]

    def creation(
        self,
        disks: Sequence[LabDisk] | None = None,
        file_system: FileSystem = FileSystem.RAW,
        taken: Collection[str] = (),
    ) -> Plan:
        """Like ``Spec.creation``, but a single disk is used as it is, and without ``disks``, no size is checked."""
        self.validate()
        own, chunk = [] if disks is None else self._on(self.devices, disks), self.effective_chunk_bytes
        if small := self.small_disks(own):
            hint = "use larger disks" + (", or a smaller chunk" if chunk else "")
            raise SpecError(f"array {self.name}: some disks are too small: {'; '.join(small)}", hint=hint)
        undo, plan = ("mdadm", "--stop", self.device), Plan("Use the bare disk")
        if self.is_array:
            step = Step(self.create_argv, _create_why(self), undo, Danger.DATA, writes_devices=self.devices)
            plan = Plan(f"Create {self.name} as {self.raid.name.value}", (step,))
        if file_system is FileSystem.RAW:
            return plan
        size, stripe = self.expected_bytes(own), self.full_stripe_bytes
        return plan + filesystem.make(
            file_system, self.device, size_bytes=size, chunk_bytes=chunk, full_stripe_bytes=stripe
        )

    def shown(self, disks: Sequence[LabDisk], problems: tuple[str, ...], plan: Plan | None) -> ArrayPreview:
        members, level, chunk = self._on(self.members, disks), self.raid, self.effective_chunk_bytes
        count, smallest = len(members), min(disk.size_bytes for disk in members)
        is_unequal = level.name not in (LevelName.RAID0, LevelName.SINGLE)
        return ArrayPreview(
            problems=problems,
            usable_bytes=0 if self.small_disks(members) else self.expected_bytes(members),
            raw_bytes=sum(disk.size_bytes for disk in members),
            unused_bytes=sum(disk.size_bytes - smallest for disk in members) if is_unequal else 0,
            failures_survived=level.minimum_failures_survived(count),
            most_failures_survived=level.maximum_failures_survived(count),
            write_penalty=penalty_words(level, count),
            full_stripe_bytes=self.full_stripe_bytes,
            chunk_bytes=chunk,
            level=level,
            stripe=stripe_rows(level, self.layout, count, STRIPE_ROWS) if self.is_array else (),
            plan=plan,
        )

    def note(self, disks: Sequence[LabDisk]) -> str:
        own = self._on(self.members + self.spares, disks)
        if len({disk.size_bytes for disk in own}) < 2:
            return ""
        usable = human_bytes(self.expected_bytes(own))
        if self.raid.has_zones:
            return (
                f"the disks differ in size, so the array has zones and a capacity of about {usable}; beyond the size "
                "of the smallest disk only the larger disks are used, which makes the end slower"
            )
        return f"the disks differ in size, and the smallest determines the capacity, which is about {usable}"


def _device_problems(spec: ArraySpec) -> Iterator[str]:
    seen: set[str] = set()
    for device in spec.members:
        if device in seen:
            yield f"member {device} is named twice"
        seen.add(device)
    for role, devices in (("spare", spec.spares), ("journal", tuple(filter(None, (spec.journal_device,))))):
        for device in devices:
            if device in spec.members:
                yield f"{role} {device} is also a member"
            elif device in seen:
                yield f"{role} {device} is named twice"
            seen.add(device)
    for device in sorted(seen):
        if not is_device_node(device):
            yield f"'{device}' is not a device node under /dev"


def _member_problems(spec: ArraySpec, level: Level) -> Iterator[str]:
    count, name = len(spec.members), level.name.value
    if level.name is LevelName.SINGLE and count != 1:
        yield f"single takes exactly 1 disk, not {count}"
    elif count < level.minimum_members:
        yield f"{name} needs at least {level.minimum_members} members, not {count}"
    elif count > MAXIMUM_MEMBERS:
        yield f"{name} takes at most {MAXIMUM_MEMBERS} members, not {count}"
    if isinstance(level, Raid10) and level.copies > count:
        yield f"layout {level.layout_word} keeps {level.copies} copies, more than the {count} members"
    if spec.spares and not level.is_redundant:
        yield f"{name} cannot use spares, because nothing is left to rebuild from"


def _chunk_problems(spec: ArraySpec, level: Level) -> Iterator[str]:
    chunk = spec.chunk_bytes
    if chunk is None:
        return
    if not level.has_chunk:
        yield f"{level.name.value} has no chunks; omit the chunk size"
    elif chunk < MINIMUM_CHUNK_BYTES:
        yield f"chunk {human_bytes(chunk)} is below {human_bytes(MINIMUM_CHUNK_BYTES)}"
    elif chunk & (chunk - 1):
        # md would accept any multiple of a page for RAID 0, but one rule for all levels keeps them comparable.
        exception = " (md would allow it for raid0, but raidlab does not)" if level.name is LevelName.RAID0 else ""
        yield f"chunk {human_bytes(chunk)} is not a power of two{exception}"


def bitmap_chunk_problem(chunk_bytes: int) -> str:
    """Say why one bit of a bitmap cannot cover this many bytes, or return an empty string if it can."""
    if chunk_bytes >= MINIMUM_CHUNK_BYTES and not chunk_bytes & (chunk_bytes - 1):
        return ""
    least = human_bytes(MINIMUM_CHUNK_BYTES)
    return f"bitmap chunk {human_bytes(chunk_bytes)} is not a power of two of at least {least}"


def _consistency_problems(spec: ArraySpec, level: Level) -> Iterator[str]:
    policy, name = spec.consistency_policy, level.name
    if spec.bitmap_chunk_bytes is not None and spec.bitmap is Bitmap.NONE:
        yield "a bitmap chunk size needs an internal bitmap"
    if spec.bitmap_chunk_bytes is not None and (problem := bitmap_chunk_problem(spec.bitmap_chunk_bytes)):
        yield problem
    if spec.bitmap is not Bitmap.NONE:
        if not level.is_redundant:
            yield f"{name.value} has no redundancy that a bitmap could track"
        elif policy is not ConsistencyPolicy.RESYNC:
            yield f"a bitmap cannot be combined with policy {policy.value}"
    if policy is ConsistencyPolicy.PPL:
        if name is not LevelName.RAID5:
            yield f"policy ppl works on raid5 only, not {name.value}"
        elif len(spec.members) > PPL_MAXIMUM_MEMBERS:
            yield f"policy ppl takes at most {PPL_MAXIMUM_MEMBERS} members, not {len(spec.members)}"
    if policy is ConsistencyPolicy.JOURNAL:
        if name not in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6):
            yield f"policy journal works on raid4, raid5 and raid6, not {name.value}"
        if not spec.journal_device:
            yield "policy journal needs a journal device"
    elif spec.journal_device:
        yield f"journal device {spec.journal_device} needs policy journal, not {policy.value}"
    if spec.assume_clean and not level.is_redundant:
        yield f"{name.value} has no first resync to skip (assume_clean)"


_DEFAULT_LAYOUTS = {LevelName.RAID5: "left-symmetric", LevelName.RAID6: "left-symmetric", LevelName.RAID10: "n2"}

_FIRST_SYNC = {
    LevelName.RAID0: "chunks go to the members in turn; there is nothing to synchronise",
    LevelName.RAID1: "every member gets a copy of all data; md first copies one member over the others",
    LevelName.RAID4: "the last member holds the parity; md first computes it for the whole array",
    LevelName.RAID5: "one chunk of every stripe is parity; md builds it first by rebuilding one member from the others",
    LevelName.RAID6: "two chunks of every stripe are parity; md first computes them for the whole array",
    LevelName.RAID10: "chunks are mirrored and striped; md first reads all copies and writes those that differ",
}


def _create_why(spec: ArraySpec) -> str:
    sentence = _FIRST_SYNC[parse_level(spec.level).name]
    if spec.assume_clean:
        sentence = sentence.split(";")[0] + "; the first synchronisation is skipped because the members are blank"
    return f"mdadm writes a superblock on every member and starts the array: {sentence}."
