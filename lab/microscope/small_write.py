"""Predict, perform and observe a small write of one block, and show what a crash during the write can leave.

For parity levels, handle_stripe_dirtying() in drivers/md/raid5.c chooses between read-modify-write and
reconstruct-write, and need_this_block() determines additional reads if members are missing. md submits the writes of a
stripe in descending order of slots (ops_run_io()), and those to mirrors starting with the first copy. When the power
fails, any subset of the writes to members may have completed. Subsets that are prefixes in md's order are marked.
Recovery with a partial parity log follows ppl_recover_entry() in drivers/md/raid5-ppl.c.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from lab.arrays.geometry import RESYNC_BLOCK_SECTORS, ChunkKind, MemberPlace, ParityGeometry, ParityRow
from lab.arrays.levels import array_device, kernel_name, md_path
from lab.arrays.parity_program import exclusive_or
from lab.errors import ArrayError
from lab.measure.samples import DiskCounters, parse_diskstats
from lab.microscope.array_map import BLOCK_BYTES, BLOCK_SECTORS, MappedArray, read_shape
from lab.microscope.picture import (
    SeenCell,
    StripePicture,
    StripeVerdict,
    differing,
    empty_stripes,
    filled_in,
    parities_of,
    read_stripe,
)
from lab.plans import Danger, Plan, Step, write_file_step
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES, human_bytes

_DISABLED, _PREFERRED = 0, 2
"""Values of rmw_level (Documentation/admin-guide/md.rst; PARITY_DISABLE_RMW, PARITY_PREFER_RMW in drivers/md/raid5.h).
"""

_LOG_BYTES = 2 * BLOCK_BYTES
"""The header and the partial parity, which md writes together and first (ppl_submit_iounit in drivers/md/raid5-ppl.c).
"""


class WriteWay(StrEnum):
    """The method that md uses to write less than a full stripe."""

    READ_MODIFY = "read-modify-write"
    """Read the old block and the old parity, and apply the difference to the parity."""
    RECONSTRUCT = "reconstruct-write"
    """Read the other data of the stripe, and compute the parity from all data."""
    COMPUTE_FIRST = "reconstruct-write, after computing missing data"
    """Neither method is possible, so read everything that exists, and compute the missing data first."""
    COPIES = "write to every copy"
    PLAIN = "one write"


@dataclass(frozen=True, slots=True)
class MemberIo:
    """The I/O of a small write on one member."""

    name: str
    device: str
    slot: int
    kind: ChunkKind | None
    """The kind of chunk, or None for a member that is only read."""
    reads: int
    writes: int
    """The number of 4 KiB blocks, as for ``reads``."""
    log_bytes: int = 0
    """The number of bytes written to the member's partial parity log."""

    @property
    def read_bytes(self) -> int:
        return self.reads * BLOCK_BYTES

    @property
    def written_bytes(self) -> int:
        return self.writes * BLOCK_BYTES + self.log_bytes


@dataclass(frozen=True, slots=True)
class SmallWrite:
    """One write of one block, as md should perform it."""

    array: str
    sector: int
    stripe: int
    skip_bytes: int
    """The offset of the block in its chunk."""
    way: WriteWay
    target_slots: tuple[int, ...]
    """The slots that hold the block or its copies."""
    written_slots: tuple[int, ...]
    """The slots that are written, in the order in which md submits the writes."""
    ios: tuple[MemberIo, ...]
    modify_reads: int | None
    """On parity levels, how many blocks a read-modify-write would read, or None if it is not possible."""
    reconstruct_reads: int | None
    reason: str
    further: tuple[str, ...]
    is_predicted: bool = True
    """Whether the I/O can be predicted, which is impossible if md defers writes, as with a journal in write-back mode.
    """


_Counts = tuple[int | None, int | None]
"""How many blocks read-modify-write and reconstruct-write would read."""


def small_write(shape: MappedArray, sector: int) -> SmallWrite:
    """Predict the I/O of a write of the block that begins at this sector of the array.

    Raises ArrayError during a reshape, and if there is no such block.
    """
    if shape.reshaping:
        raise ArrayError(f"{shape.name} is being reshaped", hint="step through a write when the reshape is complete")
    if sector % BLOCK_SECTORS or not 0 <= sector <= shape.size_sectors - BLOCK_SECTORS:
        raise ArrayError(
            f"{shape.name} has no whole block at sector {sector}",
            hint=f"choose a block of 4 KiB from 0 to {shape.size_sectors // BLOCK_SECTORS - 1}",
        )
    places = shape.geometry.places(sector)
    target = places[0]
    kinds = {place.slot: place.kind for place in (*places, *shape.geometry.parities(sector))}
    order = [place.slot for place in places]
    reads: tuple[int, ...] = ()
    counts: _Counts = (None, None)
    if isinstance(shape.geometry, ParityGeometry):
        row = shape.geometry.row(shape.geometry.stripe_of(sector))
        way, reads, counts, reason = _chosen(shape, row, target)
        order = sorted(kinds, reverse=True)
    elif len(places) == 1:
        way, reason = WriteWay.PLAIN, "the block lies on a single member"
    else:
        way, reason = WriteWay.COPIES, "every copy is written, and nothing is read"
    written = tuple(slot for slot in order if shape.members_in(slot))
    return SmallWrite(
        array=shape.name,
        sector=sector,
        stripe=shape.geometry.stripe_of(sector),
        skip_bytes=target.sector % (shape.chunk_sectors or RESYNC_BLOCK_SECTORS) * SECTOR_BYTES,
        way=way,
        target_slots=tuple(place.slot for place in places),
        written_slots=written,
        ios=_ios(shape, kinds, reads, written, target.sector),
        modify_reads=counts[0],
        reconstruct_reads=counts[1],
        reason=reason,
        further=_further(shape),
        is_predicted="[write-back]" not in shape.files["journal_mode"],
    )


def _chosen(shape: MappedArray, row: ParityRow, target: MemberPlace) -> tuple[WriteWay, tuple[int, ...], _Counts, str]:
    """Return the method that md chooses, the slots that it reads, the reads of each method, and the reason."""
    others = tuple(slot for slot in row.data_slots if slot != target.slot)
    in_sync = {slot for slot in range(shape.geometry.raid_disks) if shape.member_in(slot, target.sector)}
    involved = (target.slot, *row.parity_slots)
    modify = len(involved) if set(involved) <= in_sync else None
    rebuild = len(others) if set(others) <= in_sync else None
    counts = (modify, rebuild)
    slots = (*involved, *others)
    failed = [slot for slot in slots if slot not in in_sync]
    start = shape.files["resync_start"]
    is_suspect = start.isdecimal() and target.sector >= int(start)
    level = int(shape.files["rmw_level"]) if shape.files["rmw_level"].isdecimal() else 1
    is_forced = level == _DISABLED or (len(failed) > 1 and bool(set(failed) & set(involved)))
    if (is_forced or is_suspect) and set(failed) & set(others):
        reason = "data that the parity needs are missing, so md reads everything else and computes them"
        return WriteWay.COMPUTE_FIRST, tuple(slot for slot in slots if slot in in_sync), counts, reason
    if level == _DISABLED or (is_suspect and not failed):
        why = "rmw_level is 0" if level == _DISABLED else "a resync is due, so the old parity is unreliable"
        return WriteWay.RECONSTRUCT, others, counts, why
    least = 2 * len(slots)
    modify_cost = sum(1 if slot in in_sync else least for slot in involved)
    rebuild_cost = sum(1 if slot in in_sync else least for slot in others)
    if modify_cost < rebuild_cost or (modify_cost == rebuild_cost and level == _PREFERRED):
        return WriteWay.READ_MODIFY, involved, counts, _cheaper(modify, rebuild, is_modify=True)
    return WriteWay.RECONSTRUCT, others, counts, _cheaper(modify, rebuild, is_modify=False)


def _cheaper(modify: int | None, rebuild: int | None, *, is_modify: bool) -> str:
    chosen, other = (modify, rebuild) if is_modify else (rebuild, modify)
    if other is None:
        return f"the other method would have to read a missing member; this one reads {chosen} blocks"
    if chosen == other:
        return f"both methods read {chosen} blocks{'' if is_modify else ', so md does a reconstruct-write'}"
    return f"it reads {chosen} blocks, and the other method would read {other}"


def _ios(
    shape: MappedArray,
    kinds: Mapping[int, ChunkKind],
    reads: tuple[int, ...],
    written: tuple[int, ...],
    sector: int,
) -> tuple[MemberIo, ...]:
    """Return the I/O by slot. ``kinds`` maps each slot to be written to the kind of its chunk.

    md also writes to a member that is being rebuilt and to a replacement, and reads them where their data are current.
    """
    found = []
    for slot in range(shape.geometry.raid_disks):
        reader = shape.member_in(slot, sector)
        has_log = reader and kinds.get(slot) is ChunkKind.P and shape.files["consistency_policy"] == "ppl"
        log_bytes = _LOG_BYTES if has_log else 0
        for member in shape.members_in(slot):
            counts = (int(slot in reads and member == reader), int(slot in written))
            found.append(MemberIo(member.name, member.device, slot, kinds.get(slot), *counts, log_bytes))
    return tuple(found)


def _further(shape: MappedArray) -> tuple[str, ...]:
    words = []
    if shape.geometry.has_stripes and shape.level != "raid0":
        words.append("before the first write after a pause, md marks the array active in every superblock")
    if shape.bitmap:
        words.append("md sets the bit of the region in every member's bitmap before the data are written")
    policy = shape.files["consistency_policy"]
    if policy == "ppl":
        words.append(
            "the partial parity log is written first, 8 KiB on the member with P, and caches are flushed at the end"
        )
    if policy == "journal":
        words.append("md first writes data and parity to the journal, which is not counted here")
    return tuple(words)


_AWAKE_SECONDS = "60"
"""The delay before md marks the array clean, which is longer than the whole observation."""
_DISKSTATS = "/proc/diskstats"


@dataclass(frozen=True, slots=True)
class ObservedIo:
    """The I/O and the changes on one member during the write of the block."""

    name: str
    slot: int
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    changed_sectors: tuple[int, ...]
    """The sectors of the member's chunk whose content changed, counted from the beginning of the member's device."""


@dataclass(frozen=True, slots=True)
class ObservedWrite:
    """A small write as predicted and as observed."""

    predicted: SmallWrite
    members: tuple[ObservedIo, ...]
    """The members, in the order of ``predicted.ios``."""
    before: StripePicture
    after: StripePicture

    @property
    def differences(self) -> tuple[str, ...]:
        found = []
        for seen, io in zip(self.members, self.predicted.ios, strict=True):
            # Compare bytes, because a cache flush counts as a write of no bytes.
            if (seen.read_bytes, seen.written_bytes) != (io.read_bytes, io.written_bytes):
                did = f"read {human_bytes(seen.read_bytes)} and wrote {human_bytes(seen.written_bytes)}"
                should = f"{human_bytes(io.read_bytes)} and {human_bytes(io.written_bytes)}"
                found.append(f"{seen.name}: {did} instead of {should}")
            if seen.changed_sectors and io.slot not in self.predicted.written_slots:
                found.append(f"{seen.name}: sectors changed that should not have been written")
        return tuple(found)


def picture_of_block(session: LabSession, name: str, sector: int) -> tuple[SmallWrite, StripePicture]:
    """Return the predicted write of a block, and a picture of the stripe at that block.

    Raises ArrayError if ``small_write`` does.
    """
    write = small_write(read_shape(session, name), sector)
    picture = read_stripe(session, name, write.stripe, skip_bytes=write.skip_bytes, length_bytes=BLOCK_BYTES)
    return write, picture


def new_content(picture: StripePicture, write: SmallWrite) -> bytes:
    """Return the content to write: the block with all its bits inverted, so that a second write restores it.

    Raises ArrayError if too many members are missing to determine the content.
    """
    for seen in picture.cells:
        at = seen.cell.first_sector + picture.skip_bytes // SECTOR_BYTES
        data = seen.computed if seen.data is None else seen.data
        if not seen.cell.kind.is_parity and at == write.sector and data is not None:
            return bytes(byte ^ 0xFF for byte in data)
    raise ArrayError(f"the content of the block cannot be determined on {write.array}", hint="check the array's state")


def write_plan(picture: StripePicture, write: SmallWrite) -> Plan:
    """Return a plan that writes one block of a bare array with direct I/O.

    The steps before the write do the I/O that would otherwise be counted with the write. Raises ArrayError if
    ``new_content`` does.
    """
    shape = picture.shape
    device, block = array_device(shape.name), write.sector // BLOCK_SECTORS
    delay = md_path(shape.name, "safe_mode_delay")
    size = ("bs=4096", f"seek={block}", "count=1", "oflag=direct", "conv=notrunc", "status=none")
    again = Step(
        ("dd", f"if={device}", f"of={device}", f"skip={block}", "iflag=direct", *size),
        "Writes the block unchanged, so that md updates superblocks and bitmap before the measurement.",
        writes_devices=(device,),
    )
    text = "\n".join(textwrap.wrap(base64.b64encode(new_content(picture, write)).decode(), 76)) + "\n"
    line = f"base64 -d | dd of={device} {' '.join(size[:-4])} iflag=fullblock {' '.join(size[-3:])}"
    put = Step(
        ("sh", "-c", line),
        "The small write itself, which inverts all bits of the block; a second run restores it.",
        danger=Danger.DATA,
        writes_devices=(device,),
        stdin_text=text,
    )
    before, after = [], []
    if awake := shape.files["safe_mode_delay"]:
        before = [write_file_step(delay, _AWAKE_SECONDS, "md must not mark the array clean during the measurement.")]
        after = [write_file_step(delay, awake, "Restores the previous value.")]
    return Plan.of(f"Write block {block} of {shape.name}", [*before, again, *empty_stripes(shape), put, *after])


def write_really(session: LabSession, name: str, sector: int) -> ObservedWrite:
    """Write the block, and return the effect on the members.

    Raises ArrayError if the array is mounted, in use by another device, or syncing.
    """
    write, before = picture_of_block(session, name, sector)
    check_bare(session, before.shape)
    plan = write_plan(before, write)
    counts: list[Mapping[str, DiskCounters]] = []

    def count(step: Step) -> None:
        if counts or step.stdin_text:
            counts.append(_counters(session))

    try:
        session.run(plan, before_step=count)
    except BaseException:
        if before.shape.files["safe_mode_delay"]:
            session.machine.write(md_path(name, "safe_mode_delay"), before.shape.files["safe_mode_delay"])
        raise
    first, last = counts[0], counts[1] if len(counts) > 1 else _counters(session)
    after = read_stripe(session, name, write.stripe, skip_bytes=write.skip_bytes, length_bytes=BLOCK_BYTES)
    observed = []
    for io in write.ios:
        moved = last[kernel_name(io.device)].since(first[kernel_name(io.device)])
        observed.append(
            ObservedIo(
                io.name,
                io.slot,
                reads=moved.reads,
                writes=moved.writes,
                read_bytes=moved.read_bytes,
                written_bytes=moved.written_bytes,
                changed_sectors=_changed(before, after, io.slot),
            )
        )
    return ObservedWrite(write, tuple(observed), before, after)


def check_bare(session: LabSession, shape: MappedArray) -> None:
    """Raise ArrayError if writing a block would damage data on the array, or if its I/O could not be counted."""
    mounted = session.array(shape.name).mounted_on
    holders = f"/sys/block/{shape.name}/holders"
    above = session.machine.list_dirs([holders])[holders]
    if mounted or above:
        raise ArrayError(
            f"{shape.name} is in use by {', '.join((*mounted, *above))}, so writing a block would damage its data",
            hint=f"unmount it first, for example with 'raidlab array stop {shape.name}'",
        )
    if shape.is_syncing:
        raise ArrayError(
            f"a {shape.sync_noun} is running on {shape.name}, and its I/O would be counted too",
            hint=f"wait until it ends: raidlab array wait {shape.name}",
        )


def _counters(session: LabSession) -> Mapping[str, DiskCounters]:
    return parse_diskstats(session.machine.read([_DISKSTATS])[_DISKSTATS] or "")


def _changed(before: StripePicture, after: StripePicture, slot: int) -> tuple[int, ...]:
    found: list[int] = []
    for old, new in zip(before.cells, after.cells, strict=True):
        start = before.device_sector(old.cell)
        if old.cell.slot != slot or old.data is None or new.data is None or start is None:
            continue
        first = start + before.skip_bytes // SECTOR_BYTES
        found += [first + byte // SECTOR_BYTES for byte in differing(old.data, new.data)]
    return tuple(dict.fromkeys(found))


_MOST_SUBSETS = 4
"""The largest number of writes for which all subsets are shown. For more writes, only the prefixes are shown."""


class CrashOutcome(StrEnum):
    """The result of reads from one stripe after a crash."""

    OLD = "old"
    NEW = "new"
    EITHER = "old or new"
    """The copies differ, so the result depends on which copy is read, and may change from read to read."""
    MIXED = "neither"
    """The block that was being written has content that was never written."""
    HOLE = "WRITE HOLE"
    """A block that was not being written has content that was never written."""
    LOST = "lost"
    """Too many members are missing, and md returns an error."""

    @property
    def is_right(self) -> bool:
        """Whether a disk may behave like this, given that a write in flight may or may not have completed."""
        return self in (CrashOutcome.OLD, CrashOutcome.NEW, CrashOutcome.EITHER)


@dataclass(frozen=True, slots=True)
class ReadAfter:
    """The result of reads with some members lost. ``target`` is the result for the block that was being written."""

    lost: tuple[int, ...]
    target: CrashOutcome
    holes: tuple[int, ...] = ()
    """The slots of data that were not being written, but now read wrong."""

    @property
    def outcome(self) -> CrashOutcome:
        return CrashOutcome.HOLE if self.holes else self.target


@dataclass(frozen=True, slots=True)
class CrashState:
    """The state after a crash, with some of the writes completed."""

    written: tuple[int, ...]
    """The slots that were written, in md's order."""
    is_beginning: bool
    """Whether these writes are the first ones that md submits."""
    is_consistent: bool
    """Whether parity or copies are consistent, before a log is replayed."""
    reads: tuple[ReadAfter, ...]
    """The results with all members, then without each member and, for RAID 6, without each pair of members."""

    def without(self, *slots: int) -> ReadAfter:
        return next(read for read in self.reads if read.lost == tuple(sorted(slots)))


def crash_states(picture: StripePicture, write: SmallWrite) -> tuple[CrashState, ...]:
    """Return all states that a crash can leave.

    ``picture`` contains only the part of each chunk that is at the block's offset. Raises ArrayError if the content of
    the members is unknown.
    """
    new = new_content(picture, write)
    expected = dict.fromkeys(write.target_slots, new)
    reader: _Parity | _Copies
    if isinstance(picture.geometry, ParityGeometry):
        row = picture.geometry.row(write.stripe)
        held = _data_of(picture.cells)
        before = filled_in(row, held, len(new))
        if before is None:
            raise ArrayError(
                f"too many members are missing to determine the content of stripe {write.stripe}",
                hint="check the array's state",
            )
        most_lost = 1 if row.q_slot is None else 2
        expected |= _new_parity(row, held, before, write, new)
        policy = picture.shape.files["consistency_policy"]
        reader = _Parity(row, before, write.target_slots[0], new, held | expected, policy)
    else:
        length = picture.stripe.cell_sectors
        held = _data_of(
            seen for seen in picture.cells if seen.cell.first_sector <= write.sector < seen.cell.first_sector + length
        )
        old = next((held[slot] for slot in write.target_slots if slot in held), None)
        if old is None:
            raise ArrayError(
                f"no copy of the block can be read from {picture.shape.name}", hint="check the array's state"
            )
        most_lost = 1
        reader = _Copies(old, new)
    losses = [lost for count in range(most_lost + 1) for lost in combinations(sorted(held), count)]
    states = []
    for written in _subsets(write.written_slots):
        after = {slot: expected[slot] if slot in written else part for slot, part in held.items()}
        states.append(
            CrashState(
                written=written,
                is_beginning=written == write.written_slots[: len(written)],
                is_consistent=reader.is_consistent(after),
                reads=tuple(reader.read(after, lost) for lost in losses),
            )
        )
    return tuple(states)


def _data_of(cells: Iterable[SeenCell]) -> dict[int, bytes]:
    """Return the content of each chunk by slot, without chunks whose content is unknown."""
    return {seen.cell.slot: seen.data for seen in cells if seen.data is not None}


def _subsets(slots: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all subsets by size, with each prefix in md's order first. With many writes, yield only the prefixes."""
    for count in range(len(slots) + 1):
        beginning = slots[:count]
        yield beginning
        if len(slots) <= _MOST_SUBSETS:
            yield from (each for each in combinations(slots, count) if each != beginning)


def _new_parity(
    row: ParityRow, held: Mapping[int, bytes], before: Mapping[int, bytes], write: SmallWrite, new: bytes
) -> dict[int, bytes]:
    """Return the parity that md writes. ``before`` contains all data before the write."""
    parity = parities_of(row, {**before, write.target_slots[0]: new}, len(new))
    if write.way is not WriteWay.READ_MODIFY:
        return parity
    # A read-modify-write applies the difference to the stored parity, whether or not that is correct. A
    # reconstruct-write computes the parity from scratch.
    old = parities_of(row, before, len(new))
    return {slot: exclusive_or((parity[slot], old[slot], held[slot]), len(new)) for slot in parity if slot in held}


@dataclass(frozen=True, slots=True)
class _Copies:
    """Reads the copies of a block in the state after a crash."""

    old: bytes
    new: bytes

    def is_consistent(self, after: Mapping[int, bytes]) -> bool:
        return len(set(after.values())) == 1

    def read(self, after: Mapping[int, bytes], lost: tuple[int, ...]) -> ReadAfter:
        left = {data for slot, data in after.items() if slot not in lost}
        if not left:
            return ReadAfter(lost, CrashOutcome.LOST)
        if len(left) > 1:
            return ReadAfter(lost, CrashOutcome.EITHER if left == {self.old, self.new} else CrashOutcome.MIXED)
        return ReadAfter(lost, _judged(left.pop(), self.old, self.new))


def _judged(found: bytes, old: bytes, new: bytes) -> CrashOutcome:
    return {old: CrashOutcome.OLD, new: CrashOutcome.NEW}.get(found, CrashOutcome.MIXED)


@dataclass(frozen=True, slots=True)
class _Parity:
    """Reads a stripe of a parity array in the state after a crash, after md's recovery at the next start."""

    row: ParityRow
    before: Mapping[int, bytes]
    target: int
    new: bytes
    complete: Mapping[int, bytes]
    """The content after all writes."""
    policy: str
    """The array's consistency policy."""

    def is_consistent(self, after: Mapping[int, bytes]) -> bool:
        """Whether the parity matches the data or, if data are missing, whether what is computed for them is correct."""
        if not set(self.row.data_slots) <= set(after):
            return self.read(after, ()).outcome.is_right
        fitting = parities_of(self.row, {slot: after[slot] for slot in self.row.data_slots}, len(self.new))
        return all(after[slot] == part for slot, part in fitting.items() if slot in after)

    def read(self, after: Mapping[int, bytes], lost: tuple[int, ...]) -> ReadAfter:
        left = self._replayed({slot: part for slot, part in after.items() if slot not in lost})
        data = filled_in(self.row, left, len(self.new))
        old = self.before[self.target]
        if data is None:
            there = left.get(self.target)
            return ReadAfter(lost, CrashOutcome.LOST if there is None else _judged(there, old, self.new))
        holes = tuple(slot for slot in data if slot != self.target and data[slot] != self.before[slot])
        return ReadAfter(lost, _judged(data[self.target], old, self.new), holes)

    def _replayed(self, left: dict[int, bytes]) -> dict[int, bytes]:
        if self.policy == "journal":
            return {slot: self.complete[slot] for slot in left}
        p = self.row.p_slot
        if self.policy != "ppl" or p not in left or self.target not in left:
            return left
        # The partial parity (P without the new data) is the parity of the data that were not being written. Together
        # with the current data it gives P.
        return left | {p: exclusive_or((self.complete[p], self.new, left[self.target]), len(self.new))}


_COPIED = ("raid1", "raid10")


def shape_words(shape: MappedArray) -> str:
    """Return the geometry on one line, such as ``md0: raid5 left-symmetric, 4 members, chunk 64 KiB``."""
    words = [f"{shape.name}: {shape.level} {shape.layout_word}".rstrip(), f"{shape.geometry.raid_disks} members"]
    words += [f"chunk {human_bytes(shape.chunk_sectors * SECTOR_BYTES)}"] if shape.chunk_sectors else []
    if shape.reshaping:
        words.append(f"being reshaped, at sector {shape.reshaping.position}")
    return ", ".join(words)


def moment_words(picture: StripePicture) -> str:
    """Say whether the picture is a consistent snapshot."""
    if picture.is_one_moment:
        return "one moment: writes to this stripe waited while the members were read"
    return f"not one moment: {picture.why_not}"


def judged_words(picture: StripePicture) -> list[str]:
    """Say whether the stripe is consistent and, if this is known, which member is wrong."""
    comparison, level = picture.comparison, picture.shape.level
    if comparison.verdict is StripeVerdict.UNKNOWN:
        if level in ("raid0", "linear"):
            return [f"{level} has no redundancy, so there is nothing to compare."]
        return ["Too many blocks are missing, so the remaining ones cannot be verified."]
    what = "Copies" if level in _COPIED else "Data and parity"
    if comparison.verdict is StripeVerdict.AGREES:
        return [f"{what} agree."]
    words = []
    if picture.awaits_resync:
        words.append("The resync that is due has not reached this stripe yet; it will make the stripe consistent.")
    for seen in comparison.cells:
        if seen.differs and seen.data is not None:
            held, count = picture.shape.name_of(seen.cell.slot), len(seen.differs)
            other = "the first copy" if level in _COPIED else "the result computed from the data"
            words.append(
                f"{seen.cell.words} on {held} differs from {other} in {count} byte{'' if count == 1 else 's'}, "
                f"the first at byte {picture.skip_bytes + seen.differs[0]} of the chunk."
            )
    blamed = comparison.blamed
    if blamed:
        place = blamed.bytes_wrong[0]
        words.append(
            f"{picture.shape.name_of(blamed.slot)} is wrong: {blamed.reason}. Its byte {picture.skip_bytes + place} "
            f"should be {blamed.right[place]:02x}."
        )
    else:
        words.append(f"It is not possible to tell which member is wrong: {comparison.why_unknown}.")
    return words


def repair_words(picture: StripePicture) -> list[str]:
    """Describe what reads, a check and a repair do with the stripe, and why a repair may be wrong."""
    comparison, shape = picture.comparison, picture.shape
    if comparison.verdict is not StripeVerdict.DIFFERS:
        return []
    read = "the contents of the data chunk" if shape.is_parity else "the copy that md chooses"
    words = [
        f"A read returns {read}: md compares nothing when it reads. A check adds {comparison.mismatch_sectors} sectors "
        "to mismatch_cnt and changes nothing."
    ]
    targets = ", ".join(dict.fromkeys(shape.name_of(slot) for slot, _ in comparison.repaired))
    blamed = comparison.blamed
    if shape.is_parity:
        words.append(f"A repair recomputes parity from the data as they are, and writes it to {targets}.")
        if blamed is None:
            words.append("If the data are wrong, not the parity, that makes the wrong bytes permanent.")
        elif blamed.kind.is_parity:
            words.append("Here that is right, because the data are good.")
        else:
            words.append(
                f"Here that is wrong: the data of {shape.name_of(blamed.slot)} are bad, and after the repair nothing "
                "shows this. md does not use P and Q to find out; only a rebuild of that member would correct the data."
            )
    else:
        words.append(f"A repair writes the first copy over the others, here on {targets}, whichever copy is right.")
        if blamed is None:
            words.append("If the first copy is the wrong one, that makes the wrong bytes permanent.")
        elif (blamed.slot, blamed.sector) not in comparison.repaired:
            words.append(f"Here that is wrong: the first copy is the one on {shape.name_of(blamed.slot)}.")
        else:
            words.append("Here that is right, but only by luck: md takes no majority vote.")
    return words


def write_head(shape: MappedArray, write: SmallWrite) -> list[str]:
    """Describe the method that md uses for a small write, and give the reason."""
    block = write.sector // BLOCK_SECTORS
    first = f"A write of block {block}, in stripe {write.stripe}: {write.way}."
    if not shape.is_parity:
        return [first, f"Here {write.reason}."]
    counts = (("read-modify-write", write.modify_reads), ("reconstruct-write", write.reconstruct_reads))
    reads = [f"{way} {'needs a missing block' if count is None else f'reads {count} blocks'}" for way, count in counts]
    return [first, f"{reads[0].capitalize()}; {reads[1]}. Reason for the choice: {write.reason}."]


def write_tail(shape: MappedArray, write: SmallWrite) -> list[str]:
    """Describe the order of the writes to members, and any additional I/O."""
    order = [shape.name_of(slot) for slot in write.written_slots]
    words = [f"md submits the writes in this order: {', '.join(order)}; drives may complete them in any order."]
    return [*(words if len(order) > 1 else []), *(f"In addition, {more}." for more in write.further)]


def observed_words(seen: ObservedWrite) -> list[str]:
    """Say whether md's I/O was as predicted."""
    if not seen.predicted.is_predicted:
        return ["The journal is in write-back mode, so md chooses when it writes to the members."]
    if not seen.differences:
        return ["md did exactly what was predicted."]
    return ["md's I/O differs from the prediction:", *(f"  {words}" for words in seen.differences)]


def crash_head(write: SmallWrite) -> str:
    """Return the title of the table of crash states."""
    return f"A crash during the write of block {write.sector // BLOCK_SECTORS}, whose bits are all inverted."


def crash_words(shape: MappedArray, states: Sequence[CrashState]) -> list[str]:
    """Describe the table of crash states in sentences."""
    words = []
    if any(not read.outcome.is_right for read in states[0].reads if len(read.lost) < 2):
        words.append("The stripe is already wrong before anything is written, as the first line shows.")
    reads = [read for state in states for read in state.reads]
    holes = sum(bool(read.holes) for read in reads)
    if holes:
        words.append(
            f"{holes} of {len(reads)} cases are the WRITE HOLE: a block that was not being written reads as bytes that "
            "were never written, and md reports no error."
        )
    elif shape.is_parity:
        words.append("No case is the write hole: blocks that were not being written are correct in all of them.")
    if pairs := [read for read in reads if len(read.lost) == 2]:
        bad = {read.lost for read in pairs if not read.outcome.is_right}
        names = [" and ".join(shape.name_of(slot) for slot in lost) for lost in sorted(bad)]
        pair_words = ", ".join(names) or "none"
        words.append(f"If two members are lost at the same time, reads can be wrong for these pairs: {pair_words}.")
    if shape.level in _COPIED:
        return [*words, _BY_COPYING]
    afterwards = _AFTERWARDS.get(shape.files["consistency_policy"], "") if shape.is_parity else ""
    return [*words, afterwards] if afterwards else words


_BY_COPYING = "After such a crash md writes one copy over the others, so all reads return the same data, old or new."
_BY_RESYNC = (
    "After such a crash md makes the parity consistent, and then nothing is wrong if all members are present. A "
    "degraded array starts only with --force."
)
_AFTERWARDS = {
    "resync": _BY_RESYNC,
    "bitmap": _BY_RESYNC,
    "ppl": "These reads come after md has replayed the partial parity log, which protects data not being written.",
    "journal": "These reads come after md has replayed a journal with the whole write. Without it, all data are old.",
}
