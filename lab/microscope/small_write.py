"""A small write of one block as reads and writes of members, as md should perform them.

For parity levels, handle_stripe_dirtying() in drivers/md/raid5.c chooses between the two methods, and need_this_block()
determines additional reads with members missing. md submits several writes from the last slot down (ops_run_io()), and
for mirrors from the first copy up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.arrays.geometry import RESYNC_BLOCK_SECTORS, ChunkKind, MemberPlace, ParityGeometry
from lab.errors import ArrayError
from lab.microscope.array_map import BLOCK_BYTES, BLOCK_SECTORS
from lab.microscope.reading import MappedArray
from lab.units import SECTOR_BYTES

_DISABLED, _PREFERRED = 0, 2
"""rmw_level (Documentation/admin-guide/md.rst; PARITY_DISABLE_RMW, PARITY_PREFER_RMW in drivers/md/raid5.h)."""

_LOG_BYTES = 2 * BLOCK_BYTES
"""Header and partial parity, in one write before all others (ppl_submit_iounit in drivers/md/raid5-ppl.c)."""


class WriteWay(StrEnum):
    """The method by which md writes less than a stripe."""

    READ_MODIFY = "read-modify-write"
    """Read the old block and the old parity, and apply the difference to the parity."""
    RECONSTRUCT = "reconstruct-write"
    """Read the other data of the stripe, and compute the parity from all data."""
    COMPUTE_FIRST = "reconstruct-write, after computing what lacks"
    """Neither is possible: read everything that exists, and compute the missing data first."""
    COPIES = "write to every copy"
    PLAIN = "one write"


@dataclass(frozen=True, slots=True)
class MemberIo:
    """I/O of a small write on one member."""

    name: str
    device: str
    slot: int
    kind: ChunkKind | None
    """The kind of chunk; None for a member that is only read."""
    reads: int
    writes: int
    """Number of 4 KiB blocks, as ``reads``."""
    log_bytes: int = 0
    """Bytes written to its partial parity log."""

    @property
    def read_bytes(self) -> int:
        """Total bytes read."""
        return self.reads * BLOCK_BYTES

    @property
    def written_bytes(self) -> int:
        """Total bytes written, including the log."""
        return self.writes * BLOCK_BYTES + self.log_bytes


@dataclass(frozen=True, slots=True)
class SmallWrite:
    """One write of one block, as md should perform it."""

    array: str
    sector: int
    stripe: int
    skip_bytes: int
    """Offset of the block in its chunk."""
    way: WriteWay
    target_slots: tuple[int, ...]
    """Slots with the block or its copies."""
    written_slots: tuple[int, ...]
    """In the order in which md submits the writes."""
    ios: tuple[MemberIo, ...]
    modify_reads: int | None
    """Blocks that read-modify-write would read, for parity levels; None if it is not possible."""
    reconstruct_reads: int | None
    reason: str
    further: tuple[str, ...]
    """Additional I/O."""
    is_predicted: bool = True
    """False if md defers the writes to members: with a journal in write-back mode."""


def small_write(shape: MappedArray, sector: int) -> SmallWrite:
    """The I/O of a write of the block that begins at this sector of the array.

    Raises ArrayError during a reshape, and for a block that does not exist.
    """
    if shape.reshaping:
        raise ArrayError(f"{shape.name} is being reshaped", hint="step through a write when that is over")
    if sector % BLOCK_SECTORS or not 0 <= sector <= shape.size_sectors - BLOCK_SECTORS:
        raise ArrayError(
            f"{shape.name} has no whole block at sector {sector}",
            hint=f"blocks of 4 KiB go up to {shape.size_sectors // BLOCK_SECTORS - 1}",
        )
    if isinstance(shape.geometry, ParityGeometry):
        return _parity_write(shape, shape.geometry, sector)
    places = shape.geometry.places(sector)
    written = tuple(place.slot for place in places if shape.members_in(place.slot))
    way = WriteWay.COPIES if len(places) > 1 else WriteWay.PLAIN
    ios = _ios(shape, {place.slot: place.kind for place in places}, {}, written, places[0].sector)
    reason = "every copy is written, nothing is read" if len(places) > 1 else "the block lies on one member alone"
    slots = tuple(place.slot for place in places)
    return SmallWrite(
        array=shape.name,
        sector=sector,
        stripe=shape.geometry.stripe_of(sector),
        skip_bytes=_skip(shape, places[0]),
        way=way,
        target_slots=slots,
        written_slots=written,
        ios=ios,
        modify_reads=None,
        reconstruct_reads=None,
        reason=reason,
        further=_further(shape),
    )


def _skip(shape: MappedArray, place: MemberPlace) -> int:
    return place.sector % (shape.chunk_sectors or RESYNC_BLOCK_SECTORS) * SECTOR_BYTES


def _parity_write(shape: MappedArray, geometry: ParityGeometry, sector: int) -> SmallWrite:
    (target,) = geometry.places(sector)
    stripe = geometry.stripe_of(sector)
    row = geometry.row(stripe)
    parity = tuple(slot for slot in (row.p_slot, row.q_slot) if slot is not None)
    others = tuple(slot for slot in row.data_slots if slot != target.slot)
    in_sync = {slot for slot in range(geometry.slots) if shape.member_in(slot, target.sector)}
    way, reads, counts, reason = _chosen(shape, target, parity, others, in_sync)
    kinds = {target.slot: ChunkKind.DATA, row.p_slot: ChunkKind.P}
    if row.q_slot is not None:
        kinds[row.q_slot] = ChunkKind.Q
    written = tuple(slot for slot in sorted(kinds, reverse=True) if shape.members_in(slot))
    ios = _ios(shape, kinds, dict.fromkeys(reads, 1), written, target.sector)
    if shape.files["consistency_policy"] == "ppl" and row.p_slot in in_sync:
        ios = tuple(replace(io, log_bytes=_LOG_BYTES) if io.slot == row.p_slot else io for io in ios)
    return SmallWrite(
        array=shape.name,
        sector=sector,
        stripe=stripe,
        skip_bytes=target.sector % geometry.chunk_sectors * SECTOR_BYTES,
        way=way,
        target_slots=(target.slot,),
        written_slots=written,
        ios=ios,
        modify_reads=counts[0],
        reconstruct_reads=counts[1],
        reason=reason,
        further=_further(shape),
        is_predicted="[write-back]" not in shape.files["journal_mode"],
    )


_Counts = tuple[int | None, int | None]


def _chosen(
    shape: MappedArray, target: MemberPlace, parity: tuple[int, ...], others: tuple[int, ...], in_sync: set[int]
) -> tuple[WriteWay, tuple[int, ...], _Counts, str]:
    """The method that md chooses, the slots that it reads, the reads of each method, and the reason."""
    involved = (target.slot, *parity)
    modify = len(involved) if set(involved) <= in_sync else None
    rebuild = len(others) if set(others) <= in_sync else None
    counts = (modify, rebuild)
    slots = (target.slot, *parity, *others)
    failed = [slot for slot in slots if slot not in in_sync]
    start = shape.files["resync_start"]
    is_suspect = start.isdecimal() and target.sector >= int(start)
    level = int(shape.files["rmw_level"]) if shape.files["rmw_level"].isdecimal() else 1
    is_forced = level == _DISABLED or (len(failed) > 1 and bool(set(failed) & set(involved)))
    if (is_forced or is_suspect) and set(failed) & set(others):
        reason = "data that the parity needs are missing, so everything else is read and they are computed"
        return WriteWay.COMPUTE_FIRST, tuple(slot for slot in slots if slot in in_sync), counts, reason
    if level == _DISABLED or (is_suspect and not failed):
        why = "rmw_level is 0" if level == _DISABLED else "a resync is due, so old parity is not to be trusted"
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
        return f"the other way would have to read a member that is missing; this one reads {chosen}"
    if chosen == other:
        return f"both ways read {chosen}: md then reconstructs" if not is_modify else f"both ways read {chosen}"
    return f"it reads {chosen} blocks, the other way {other}"


def _ios(
    shape: MappedArray,
    kinds: Mapping[int, ChunkKind],
    reads: Mapping[int, int],
    written: tuple[int, ...],
    sector: int,
) -> tuple[MemberIo, ...]:
    """I/O by slot.

    A member that is being rebuilt, and a replacement, are written too, and read where their data are current.
    """
    found = []
    for slot in range(shape.geometry.slots):
        reader = shape.member_in(slot, sector)
        for member in shape.members_in(slot):
            count = reads.get(slot, 0) if member == reader else 0
            found.append(MemberIo(member.name, member.device, slot, kinds.get(slot), count, int(slot in written)))
    return tuple(found)


def _further(shape: MappedArray) -> tuple[str, ...]:
    words = []
    if shape.geometry.has_stripes and shape.level != "raid0":
        words.append("before the first write after a pause md notes in every superblock that the array is in use")
    if shape.bitmap:
        words.append("and sets the bit of the region in every member's bitmap, before the data are written")
    policy = shape.files["consistency_policy"]
    if policy == "ppl":
        words.append(
            "the partial parity log is written first, 8 KiB on the member with P, and caches are flushed at the end"
        )
    if policy == "journal":
        words.append("data and parity are written to the journal first; that is not counted here")
    return tuple(words)
