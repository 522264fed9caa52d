"""Makes a small write, and observes its effect on the members: content before and after, and counters."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from lab.arrays.names import array_device, kernel_name, md_path
from lab.errors import ArrayError
from lab.measure.samples import DiskCounters, parse_diskstats
from lab.microscope.array_map import BLOCK_BYTES, BLOCK_SECTORS
from lab.microscope.damage import empty_stripes
from lab.microscope.galois import differing
from lab.microscope.picture import StripePicture, look_at_stripe
from lab.microscope.reading import MappedArray, read_shape
from lab.microscope.small_write import SmallWrite, small_write
from lab.plans import Danger, Plan, Step, write_file_step
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES, human_bytes

_AWAKE_SECONDS = "60"
"""Delay before md marks the array clean meanwhile: longer than the whole observation."""
_DISKSTATS = "/proc/diskstats"


@dataclass(frozen=True, slots=True)
class ObservedIo:
    """I/O and changes on one member during the write of the block."""

    name: str
    slot: int
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    changed_sectors: tuple[int, ...]
    """Sectors of its chunk with changed content, from the beginning of its device."""


@dataclass(frozen=True, slots=True)
class ObservedWrite:
    """A small write as predicted and as observed."""

    predicted: SmallWrite
    members: tuple[ObservedIo, ...]
    before: StripePicture
    after: StripePicture

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences between md's I/O and the prediction; empty if there are none."""
        found = []
        wanted = {(io.slot, io.name): io for io in self.predicted.ios}
        for seen in self.members:
            io = wanted[seen.slot, seen.name]
            # Compare bytes: a cache flush counts as a write of no bytes.
            if (seen.read_bytes, seen.written_bytes) != (io.read_bytes, io.written_bytes):
                seen_words = [human_bytes(each) for each in (seen.read_bytes, seen.written_bytes)]
                wanted_words = [human_bytes(each) for each in (io.read_bytes, io.written_bytes)]
                found.append(
                    f"{seen.name}: read and wrote {' and '.join(seen_words)} instead of {' and '.join(wanted_words)}"
                )
            may_change = io.slot in self.predicted.written_slots
            if seen.changed_sectors and not may_change:
                found.append(f"{seen.name}: sectors changed that were not to be written")
        return tuple(found)


def picture_of_block(session: LabSession, name: str, sector: int) -> tuple[SmallWrite, StripePicture]:
    """The predicted write of a block, and the content of the stripe at that block.

    Raises ArrayError as ``small_write``.
    """
    write = small_write(read_shape(session, name), sector)
    picture = look_at_stripe(session, name, write.stripe, skip_bytes=write.skip_bytes, length_bytes=BLOCK_BYTES)
    return write, picture


def new_content(picture: StripePicture, write: SmallWrite) -> bytes:
    """The content to write: the block with all bits inverted, so that a second write restores it.

    Raises ArrayError if the content cannot be determined, because too many members are missing.
    """
    for seen in picture.cells:
        at = seen.cell.first_sector + picture.skip_bytes // SECTOR_BYTES
        data = seen.computed if seen.data is None else seen.data
        if not seen.cell.kind.is_parity and at == write.sector and data is not None:
            return bytes(byte ^ 0xFF for byte in data)
    raise ArrayError(f"the content of the block cannot be determined on {write.array}", hint="see the array's state")


def write_plan(shape: MappedArray, sector: int, content: bytes) -> Plan:
    """Write one block of a bare array, bypassing the page cache.

    Steps before the write perform the I/O that would otherwise be counted with it.
    """
    device, block = array_device(shape.name), sector // BLOCK_SECTORS
    delay = md_path(shape.name, "safe_mode_delay")
    size = ("bs=4096", f"seek={block}", "count=1", "oflag=direct", "conv=notrunc", "status=none")
    again = Step(
        ("dd", f"if={device}", f"of={device}", f"skip={block}", "iflag=direct", *size),
        "The block is written as it is: md notes in superblocks and bitmap that the array is in use, once and now.",
        writes_devices=(device,),
    )
    text = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 76)) + "\n"
    line = f"base64 -d | dd of={device} {' '.join(size[:-4])} iflag=fullblock {' '.join(size[-3:])}"
    write = Step(
        ("sh", "-c", line),
        "The small write itself: the block with all bits turned over; the same once more brings it back.",
        danger=Danger.DATA,
        writes_devices=(device,),
        stdin_text=text,
    )
    awake = shape.files["safe_mode_delay"]
    before = [write_file_step(delay, _AWAKE_SECONDS, "md shall not note meanwhile that the array is at rest again.")]
    after = [write_file_step(delay, awake, "As it was.")]
    if not awake:
        before = after = []
    return Plan.of(f"Write block {block} of {shape.name}", [*before, again, *empty_stripes(shape), write, *after])


def write_really(session: LabSession, name: str, sector: int) -> ObservedWrite:
    """Write the block, and return the effect on the members.

    Raises ArrayError for an array that is mounted, in use by another device, or syncing.
    """
    write, before = picture_of_block(session, name, sector)
    check_bare(session, before.shape)
    plan = write_plan(before.shape, sector, new_content(before, write))
    counters: list[Mapping[str, DiskCounters]] = []

    def count(step: Step) -> None:
        if counters or step.stdin_text:
            counters.append(_counters(session))

    try:
        session.run(plan, before_step=count)
    except BaseException:
        if before.shape.files["safe_mode_delay"]:
            session.machine.write(md_path(name, "safe_mode_delay"), before.shape.files["safe_mode_delay"])
        raise
    first, last = counters[0], counters[1] if len(counters) > 1 else _counters(session)
    after = look_at_stripe(session, name, write.stripe, skip_bytes=write.skip_bytes, length_bytes=BLOCK_BYTES)
    seen = tuple(
        _observed(io.name, io.slot, kernel_name(io.device), first, last, _changed(before, after, io.slot))
        for io in write.ios
    )
    return ObservedWrite(write, seen, before, after)


def check_bare(session: LabSession, shape: MappedArray) -> None:
    """Raises ArrayError for an array on which writing a block would do harm, or could not be counted."""
    mounted = session.array(shape.name).mounted_on
    holders = f"/sys/block/{shape.name}/holders"
    above = session.machine.list_dirs([holders])[holders]
    if mounted or above:
        raise ArrayError(
            f"{shape.name} is in use by {', '.join((*mounted, *above))}, and a block written past it would harm it",
            hint=f"unmount it first: raidlab array stop {shape.name} does",
        )
    if shape.is_syncing:
        raise ArrayError(
            f"a {shape.files['sync_action']} runs on {shape.name}, whose reads and writes would be counted too",
            hint=f"wait for its end: raidlab array wait {shape.name}",
        )


def _counters(session: LabSession) -> Mapping[str, DiskCounters]:
    return parse_diskstats(session.machine.read([_DISKSTATS])[_DISKSTATS] or "")


def _observed(
    name: str,
    slot: int,
    block: str,
    first: Mapping[str, DiskCounters],
    last: Mapping[str, DiskCounters],
    changed: tuple[int, ...],
) -> ObservedIo:
    before, after = first[block], last[block]
    return ObservedIo(
        name=name,
        slot=slot,
        reads=after.reads - before.reads,
        writes=after.writes - before.writes,
        read_bytes=after.read_bytes - before.read_bytes,
        written_bytes=after.written_bytes - before.written_bytes,
        changed_sectors=changed,
    )


def _changed(before: StripePicture, after: StripePicture, slot: int) -> tuple[int, ...]:
    """Changed sectors of a slot's chunk, on its device."""
    found: list[int] = []
    for old, new in zip(before.cells, after.cells, strict=True):
        start = before.device_sector(old.cell)
        if old.cell.slot != slot or old.data is None or new.data is None or start is None:
            continue
        first = start + before.skip_bytes // SECTOR_BYTES
        found += [first + byte // SECTOR_BYTES for byte in differing(old.data, new.data)]
    return tuple(dict.fromkeys(found))
