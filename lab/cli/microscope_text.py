"""The parity microscope as text: the location of a block, a stripe in hex, a small write and a crash step by step."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cli.output import table
from lab.microscope.array_map import BLOCK_SECTORS, LocatedBlock, LocatedPlace, LocatedSector
from lab.microscope.comparison import SeenCell
from lab.microscope.crash import CrashState
from lab.microscope.finding import LocatedFile
from lab.microscope.observed import ObservedWrite
from lab.microscope.picture import StripePicture
from lab.microscope.reading import MappedArray
from lab.microscope.small_write import MemberIo, SmallWrite
from lab.microscope.words import (
    crash_head,
    crash_words,
    judged_words,
    moment_words,
    observed_words,
    repair_words,
    shape_words,
    slot_name,
    write_head,
    write_tail,
)
from lab.units import SECTOR_BYTES, human_bytes

LINE_BYTES = 16


def block_text(shape: MappedArray, found: LocatedBlock) -> str:
    """The location of a block."""
    end = found.sector + BLOCK_SECTORS - 1
    words = [f"block {found.block} of 4 KiB, sectors {found.sector} to {end} of the array"]
    if found.chunk is not None:
        words.append(f"chunk {found.chunk}, byte {found.chunk_offset_bytes} of it")
    words += [] if found.stripe is None else [f"stripe {found.stripe}"]
    words += [f"by the {'shape before the reshape' if found.shape == 'before' else 'new shape'}"] if found.shape else []
    rows = [_place_row(place) for place in (*found.places, *found.parities)]
    headings = ("what", "disk", "device", "slot", "sector of the device", "")
    lines = [shape_words(shape), "; ".join(words), "", table(headings, rows, right=("slot", "sector of the device"))]
    return "\n".join([*lines, *([f"\nnot certain: {found.doubt}"] if found.doubt else [])])


def _place_row(place: LocatedPlace) -> tuple[object, ...]:
    what = f"copy {place.copy}" if place.copy else place.kind.value
    sector = "-" if place.device_sector is None else place.device_sector
    return (what, place.member or "-", place.device or "-", place.slot, sector, place.note)


def sector_text(shape: MappedArray, found: LocatedSector) -> str:
    """The content of a sector of a member."""
    slot = "no slot" if found.slot is None else f"slot {found.slot}"
    lines = [shape_words(shape), f"{found.member} ({found.device}, {slot}), sector {found.device_sector}: {found.area}"]
    end = found.area_start + found.area_sectors - 1
    lines.append(f"this area goes from sector {found.area_start} to {end}")
    if found.kind is not None:
        blocks = ", ".join(str(block) for block in found.blocks)
        if found.kind.is_parity:
            lines.append(f"{found.kind.value} of stripe {found.stripe}: over blocks {blocks} of the array")
        else:
            what = f"copy {found.copy} of sector" if found.copy else "sector"
            lines.append(f"{what} {found.sectors[0]} of the array, in block {blocks}, stripe {found.stripe}")
    lines += [found.note] if found.note else []
    lines += [f"not certain: {found.doubt}"] if found.doubt else []
    return "\n".join(lines)


def file_text(shape: MappedArray, found: LocatedFile) -> str:
    """The location of a file, extent by extent."""
    rows = []
    for each in found.extents:
        start = each.start
        first = start.places[0] if start else None
        rows.append(
            (
                each.extent.file_byte,
                human_bytes(each.extent.length),
                start.block if start else "-",
                start.stripe if start and start.stripe is not None else "-",
                first.member if first else "-",
                first.device_sector if first and first.device_sector is not None else "-",
                ", ".join(place.member or f"slot {place.slot}" for place in start.parities) if start else "",
                each.extent.note,
            )
        )
    numbers = ("file byte", "length", "array block", "stripe", "sector")
    headings = (*numbers[:4], "begins on", "sector", "parity on", "")
    size = f"{found.path}: {human_bytes(found.size_bytes)} ({found.size_bytes} bytes)"
    body = table(headings, rows, right=numbers) if rows else "nothing of it has a place on the array"
    return "\n".join([shape_words(shape), size, "", body])


def picture_text(picture: StripePicture, offset: int, count: int) -> str:
    """A stripe: the bytes of each chunk from ``offset`` on, computed and stored values, and the verdict."""
    stripe, shape = picture.stripe, picture.shape
    last = (stripe.first_sector + stripe.sectors - 1) // BLOCK_SECTORS
    blocks = f"blocks {stripe.first_sector // BLOCK_SECTORS} to {last} of the array"
    lines = [shape_words(shape), f"stripe {stripe.number}: {blocks}"]
    lines += ["by the shape before the reshape"] if picture.is_before else []
    lines.append(moment_words(picture))
    if picture.length_bytes < stripe.cell_sectors * SECTOR_BYTES:
        lines.append(f"of each chunk {picture.length_bytes} bytes from {picture.skip_bytes} on were looked at")
    end = min(offset + count, picture.skip_bytes + picture.length_bytes)
    rows: list[tuple[object, ...]] = []
    for seen in picture.cells:
        rows += _cell_rows(picture, seen, offset, end)
    headings = ("disk", "slot", "holds", "sector", "byte", "hex", "text", "")
    lines += ["", table(headings, rows, right=("slot", "sector", "byte")), ""]
    return "\n".join([*lines, *judged_words(picture), *repair_words(picture)])


def _cell_rows(picture: StripePicture, seen: SeenCell, offset: int, end: int) -> list[tuple[object, ...]]:
    cell, skip = seen.cell, picture.skip_bytes
    member, sector = picture.member_of(cell), picture.device_sector(cell)
    name = member.name if member else picture.name_of(cell.slot)
    rows: list[tuple[object, ...]] = []
    wrong = frozenset(skip + byte for byte in seen.differs)
    sides = [("", seen.data, frozenset[int]())]
    if seen.computed is not None and (cell.kind.is_parity or seen.data is None):
        sides.append(("computed", seen.computed, wrong))
    elif wrong:
        sides = [("", seen.data, wrong)]
    for label, data, marked in sides:
        if data is None:
            why = picture.missing.get((cell.slot, cell.sector), "not read")
            rows.append((name, cell.slot, cell.words, "-" if sector is None else sector, "-", "-", "", why))
            continue
        for start in range(offset, end, LINE_BYTES):
            part = data[start - skip : min(end, start + LINE_BYTES) - skip]
            first = start == offset
            head = (name, cell.slot, cell.words, sector if sector is not None else "-") if first else ("",) * 4
            if label:
                head = ("", "", f"{cell.words} {label}" if first else "", "")
            verdict = _agrees(seen, label) if first else ""
            rows.append((*head, start, hex_text(part, start, marked), readable(part), verdict))
    return rows


def _agrees(seen: SeenCell, label: str) -> str:
    if seen.computed is None or seen.data is None:
        return "not stored" if label else ""
    if not seen.cell.kind.is_parity:
        return f"DIFFERS in {len(seen.differs)}" if seen.differs else ""
    if not label:
        return ""
    return f"DIFFERS in {len(seen.differs)}" if seen.differs else "agrees"


def hex_text(part: bytes, start: int, wrong: frozenset[int]) -> str:
    """Bytes in hex, differing ones prefixed with ``>``."""
    return "".join(f"{'>' if start + at in wrong else ' '}{byte:02x}" for at, byte in enumerate(part))


def readable(part: bytes) -> str:
    """Printable characters as they are, dots for all others."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)


def write_text(shape: MappedArray, write: SmallWrite) -> str:
    """A small write as expected from md."""
    lines = [shape_words(shape), *write_head(shape, write)]
    rows = [
        (io.name, io.slot, io.kind.value if io.kind else "other data", io.reads or "-", io.writes or "-", _log(io))
        for io in write.ios
    ]
    headings = ("disk", "slot", "holds", "reads", "writes", "")
    lines += ["", table(headings, rows, right=("slot", "reads", "writes")), ""]
    return "\n".join([*lines, *write_tail(shape, write)])


def _log(io: MemberIo) -> str:
    return f"and {human_bytes(io.log_bytes)} of log" if io.log_bytes else ""


def observed_text(seen: ObservedWrite) -> str:
    """The observed effect of the write, with the prediction."""
    wanted = {(io.slot, io.name): io for io in seen.predicted.ios}
    rows = []
    for io in seen.members:
        expected = wanted[io.slot, io.name]
        changed = f"{io.changed_sectors[0]} to {io.changed_sectors[-1]}" if io.changed_sectors else "-"
        told = [human_bytes(each) for each in (io.read_bytes, expected.read_bytes, io.written_bytes)]
        rows.append((io.name, *told, human_bytes(expected.written_bytes), changed))
    numbers = ("read", "predicted", "written", "predicted ")
    lines = ["really written:", "", table(("disk", *numbers, "sectors changed"), rows, right=numbers), ""]
    return "\n".join([*lines, *observed_words(seen)])


def crash_text(shape: MappedArray, write: SmallWrite, states: Sequence[CrashState]) -> str:
    """Results of reads after a crash: a row for each set of completed writes, a column for each loss."""
    singles = [read.lost for read in states[0].reads if len(read.lost) < 2]
    columns = ["all members" if not lost else f"without {slot_name(shape, lost[0])}" for lost in singles]
    rows = []
    for state in states:
        done = " + ".join(_write_name(shape, write, slot) for slot in state.written) or "nothing"
        order = "in order" if state.is_beginning else ""
        fits = "agrees" if state.is_consistent else "DIFFERS"
        rows.append((done, order, fits, *(state.without(*lost).outcome.value for lost in singles)))
    what = "parity" if shape.is_parity else "copies"
    lines = [shape_words(shape), crash_head(write), "", table(("written before it", "", what, *columns), rows), ""]
    return "\n".join([*lines, *crash_words(shape, states)])


def _write_name(shape: MappedArray, write: SmallWrite, slot: int) -> str:
    io = next(io for io in write.ios if io.slot == slot)
    return f"{io.kind.value if io.kind else 'data'} ({slot_name(shape, slot)})"
