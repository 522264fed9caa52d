"""``raidlab array`` turns each verb of ``lab.actions`` into a command, shows arrays, and contains the microscope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from lab.actions import ACTIONS
from lab.actions.arrays import Assemble, Create, VerifyMark, Wait, WriteMark
from lab.arrays.discovery import FoundArray
from lab.arrays.kinds import kind_of_name, kinds
from lab.cli.arguments import flag
from lab.cli.context import Context, added_commands, current, out, out_json, table
from lab.cli.session import (
    PlanFlag,
    add_verbs,
    array_text,
    client_of,
    plan_value,
    print_array,
    run_plan,
    show_plan,
    wait_with_bar,
)
from lab.disks import DiskKind, LabDisk
from lab.disks.lab import lab_folder
from lab.errors import ExitCode, SpecError
from lab.gates.decoding import whole
from lab.microscope.array_map import (
    BLOCK_SECTORS,
    LocatedBlock,
    LocatedFile,
    LocatedPlace,
    LocatedSector,
    MappedArray,
    locate,
    locate_file,
    read_shape,
    sector_of_member,
)
from lab.microscope.picture import SeenCell, StripePicture, flip_plan, parse_place, read_stripe
from lab.microscope.small_write import (
    CrashState,
    ObservedWrite,
    SmallWrite,
    check_bare,
    crash_head,
    crash_states,
    crash_words,
    judged_words,
    moment_words,
    observed_words,
    picture_of_block,
    repair_words,
    shape_words,
    write_head,
    write_plan,
    write_really,
    write_tail,
)
from lab.session.data_mark import require_mark, verify_mark
from lab.session.session import LabSession, open_session
from lab.units import SECTOR_BYTES, human_bytes

LINE_BYTES = 16


def _block_text(shape: MappedArray, found: LocatedBlock) -> str:
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


def _sector_text(shape: MappedArray, found: LocatedSector) -> str:
    slot = "no slot" if found.slot is None else f"slot {found.slot}"
    lines = [shape_words(shape), f"{found.member} ({found.device}, {slot}), sector {found.device_sector}: {found.area}"]
    end = found.area_start + found.area_sectors - 1
    lines.append(f"this area extends from sector {found.area_start} to {end}")
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


def _file_text(shape: MappedArray, found: LocatedFile) -> str:
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
    body = table(headings, rows, right=numbers) if rows else "none of it lies on the array"
    return "\n".join([shape_words(shape), size, "", body])


def _picture_text(picture: StripePicture, offset: int, count: int) -> str:
    """Show the bytes of each chunk of a stripe from ``offset`` on, as stored and as computed, and the verdict."""
    stripe, shape = picture.stripe, picture.shape
    last = (stripe.first_sector + stripe.sectors - 1) // BLOCK_SECTORS
    blocks = f"blocks {stripe.first_sector // BLOCK_SECTORS} to {last} of the array"
    lines = [shape_words(shape), f"stripe {stripe.number}: {blocks}"]
    lines += ["by the shape before the reshape"] if picture.is_before else []
    lines.append(moment_words(picture))
    if picture.length_bytes < stripe.cell_sectors * SECTOR_BYTES:
        lines.append(f"of each chunk, {picture.length_bytes} bytes from byte {picture.skip_bytes} on were compared")
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
    name = member.name if member else picture.shape.name_of(cell.slot)
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
    # The row of the computed parity has the verdict.
    if seen.differs and (label or not seen.cell.kind.is_parity):
        return f"DIFFERS in {len(seen.differs)}"
    return "agrees" if label else ""


def hex_text(part: bytes, start: int, wrong: frozenset[int]) -> str:
    """Return the bytes in hex, with ``>`` before each byte that differs."""
    return "".join(f"{'>' if start + at in wrong else ' '}{byte:02x}" for at, byte in enumerate(part))


def readable(part: bytes) -> str:
    """Return printable characters unchanged, and a dot for each other byte."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)


def write_text(shape: MappedArray, write: SmallWrite) -> str:
    """Describe how md is expected to carry out a small write."""
    lines = [shape_words(shape), *write_head(shape, write)]
    rows = [
        (
            *(io.name, io.slot, io.kind.value if io.kind else "other data", io.reads or "-", io.writes or "-"),
            f"and {human_bytes(io.log_bytes)} of log" if io.log_bytes else "",
        )
        for io in write.ios
    ]
    headings = ("disk", "slot", "holds", "reads", "writes", "")
    lines += ["", table(headings, rows, right=("slot", "reads", "writes")), ""]
    return "\n".join([*lines, *write_tail(shape, write)])


def _observed_text(seen: ObservedWrite) -> str:
    rows = []
    for io, expected in zip(seen.members, seen.predicted.ios, strict=True):
        changed = f"{io.changed_sectors[0]} to {io.changed_sectors[-1]}" if io.changed_sectors else "-"
        amounts = [human_bytes(each) for each in (io.read_bytes, expected.read_bytes, io.written_bytes)]
        rows.append((io.name, *amounts, human_bytes(expected.written_bytes), changed))
    numbers = ("read", "predicted", "written", "predicted ")
    lines = ["actually written:", "", table(("disk", *numbers, "sectors changed"), rows, right=numbers), ""]
    return "\n".join([*lines, *observed_words(seen)])


def _crash_text(shape: MappedArray, write: SmallWrite, states: Sequence[CrashState]) -> str:
    """Tabulate what reads return after a crash, with a row for each set of completed writes."""
    singles = [read.lost for read in states[0].reads if len(read.lost) < 2]
    columns = ["all members" if not lost else f"without {shape.name_of(lost[0])}" for lost in singles]
    names = {io.slot: f"{io.kind.value if io.kind else 'data'} ({shape.name_of(io.slot)})" for io in write.ios}
    rows = []
    for state in states:
        done = " + ".join(names[slot] for slot in state.written) or "nothing"
        order = "in order" if state.is_beginning else ""
        fits = "agrees" if state.is_consistent else "DIFFERS"
        rows.append((done, order, fits, *(state.without(*lost).outcome.value for lost in singles)))
    what = "parity" if shape.is_parity else "copies"
    lines = [shape_words(shape), crash_head(write), "", table(("written before it", "", what, *columns), rows), ""]
    return "\n".join([*lines, *crash_words(shape, states)])


def map_(
    name: str,
    *,
    block: Annotated[str | None, Parameter(help="A block of 4 KiB of the array, counted from 0.")] = None,
    sector: Annotated[
        str | None, Parameter(help="A sector of 512 bytes, counted on the array or, with --member, on that disk.")
    ] = None,
    member: Annotated[str | None, Parameter(help="The disk of the array that --sector refers to.")] = None,
    file: Annotated[str | None, Parameter(help="A file on the array's file system, or a path on the machine.")] = None,
) -> None:
    """Show where a block or a file of an array lies on its members, or what a sector of a member holds."""
    ways = [block is not None, sector is not None and member is None, member is not None, file is not None]
    if sum(ways) != 1 or (member is not None and sector is None):
        raise SpecError(
            "specify exactly one block, sector or file",
            hint="use --block N, --sector S, --member disk03 --sector S or --file PATH",
        )
    context = current()
    kind_of_name(name)
    with open_session(client_of(context)) as session:
        if file is not None:
            located = locate_file(session, name, file)
            text, value = _file_text(read_shape(session, name), located), msgspec.to_builtins(located)
        elif member is not None:
            found = sector_of_member(session, name, member, whole(sector or "", "sector"))
            text = _sector_text(read_shape(session, name), found)
            value = {**msgspec.to_builtins(found), "blocks": found.blocks}
        else:
            shape = read_shape(session, name)
            place = locate(shape, whole(sector, "sector") if sector is not None else _sector(block or ""))
            text, value = _block_text(shape, place), msgspec.to_builtins(place)
    context.out({"array": name, **value}, text)


def inspect(
    name: str,
    *,
    stripe: Annotated[str | None, Parameter(help="The stripe, a row of chunks, counted from 0.")] = None,
    block: Annotated[str | None, Parameter(help="The stripe of this block of 4 KiB of the array.")] = None,
    offset: Annotated[
        str | None, Parameter(help="First byte of each chunk to show; by default the first that differs.")
    ] = None,
    count: Annotated[str, Parameter(name="--bytes", help="How many bytes of each chunk to show.")] = "32",
    flip: Annotated[
        str | None, Parameter(help="Flip a byte of the stripe behind md's back: disk03:17 is byte 17 of its chunk.")
    ] = None,
    step_write: Annotated[str | None, Parameter(help="Step through a small write of this block of the array.")] = None,
    really: Annotated[bool, flag("Carry out the write of --step-write, and show what md did.")] = False,
    step_crash: Annotated[
        str | None, Parameter(help="Step through a crash during a small write of this block.")
    ] = None,
    plan: PlanFlag = False,
) -> None:
    """Show a stripe as stored on its members, with computed and stored parity, and what md would do."""
    steps = [word for word in (step_write, step_crash) if word is not None]
    places = [word for word in (stripe, block) if word is not None]
    if len(steps) > 1 or (steps and (flip or places)) or (not steps and len(places) != 1):
        raise SpecError(
            "specify exactly one stripe to inspect",
            hint="use --stripe N or --block N, optionally with --flip, or use --step-write N or --step-crash N alone",
        )
    if really and step_write is None:
        raise SpecError("--really needs a write to carry out", hint="use --really with --step-write")
    if plan and flip is None and not really:
        raise SpecError("this command changes nothing, so there is no plan", hint="use --plan with --flip or --really")
    context = current()
    kind_of_name(name)
    with open_session(client_of(context)) as session:
        if step_write is not None:
            _step_write(context, session, name, _sector(step_write), really=really, plan=plan)
        elif step_crash is not None:
            write, picture = picture_of_block(session, name, _sector(step_crash))
            states = crash_states(picture, write)
            text = _crash_text(picture.shape, write, states)
            context.out({"array": name, "write": write, "states": states}, text)
        elif flip is not None:
            _flip(context, session, name, _stripe(session, name, stripe, block), flip, plan=plan)
        else:
            number = _stripe(session, name, stripe, block)
            first = None if offset is None else whole(offset, "offset")
            _show(context, read_stripe(session, name, number), first, whole(count, "bytes"))


def _sector(block: str) -> int:
    return whole(block, "block") * BLOCK_SECTORS


def _stripe(session: LabSession, name: str, stripe: str | None, block: str | None) -> int:
    if stripe is not None:
        return whole(stripe, "stripe")
    return locate(read_shape(session, name), _sector(block or "")).stripe or 0


def _show(context: Context, picture: StripePicture, offset: int | None, count: int) -> None:
    if count < 1:
        raise SpecError(f"{count} bytes cannot be shown", hint="request one or more")
    whole_bytes = picture.stripe.cell_sectors * SECTOR_BYTES
    if offset is not None and not 0 <= offset < whole_bytes:
        raise SpecError(f"byte {offset} is beyond the end of a chunk", hint=f"use a byte from 0 to {whole_bytes - 1}")
    if offset is None:
        differing = [byte for seen in picture.cells for byte in seen.differs]
        offset = min(differing, default=0) // LINE_BYTES * LINE_BYTES
    context.out(_picture_value(picture, offset, count), _picture_text(picture, offset, count))


def _picture_value(picture: StripePicture, offset: int, count: int) -> dict[str, Any]:
    comparison = picture.comparison

    def part(data: bytes | None) -> str | None:
        return None if data is None else data[offset : offset + count].hex()

    cells = []
    for seen in picture.cells:
        member = picture.member_of(seen.cell)
        cells.append(
            {
                **msgspec.to_builtins(seen.cell),
                "disk": member.name if member else None,
                "device": member.device if member else None,
                "device_sector": picture.device_sector(seen.cell),
                "hex": part(seen.data),
                "computed_hex": part(seen.computed),
                "bytes_differing": len(seen.differs),
                "first_differing": seen.differs[0] if seen.differs else None,
                "missing": picture.missing.get((seen.cell.slot, seen.cell.sector), ""),
            }
        )
    blamed = comparison.blamed
    return {
        "array": picture.shape.name,
        "level": picture.shape.level,
        "stripe": picture.stripe.number,
        "first_sector": picture.stripe.first_sector,
        "sectors": picture.stripe.sectors,
        "chunk_bytes": picture.stripe.cell_sectors * SECTOR_BYTES,
        "offset": offset,
        "is_one_moment": picture.is_one_moment,
        "why_not": picture.why_not,
        "verdict": comparison.verdict,
        "cells": cells,
        "blamed": picture.shape.name_of(blamed.slot) if blamed else None,
        "blamed_reason": blamed.reason if blamed else comparison.why_unknown,
        "mismatch_sectors": comparison.mismatch_sectors,
        "repair_writes": [picture.shape.name_of(slot) for slot, _ in comparison.repaired],
        "sentences": [*judged_words(picture), *repair_words(picture)],
    }


def _flip(context: Context, session: LabSession, name: str, number: int, word: str, *, plan: bool) -> None:
    disk, byte = parse_place(word)
    picture = read_stripe(session, name, number)
    made = flip_plan(picture, session.node(disk), byte)
    if plan:
        show_plan(context, made)
        return
    session.run(made)
    chunk = picture.stripe.cell_sectors * SECTOR_BYTES
    first = byte % chunk // LINE_BYTES * LINE_BYTES
    _show(context, read_stripe(session, name, number), first, LINE_BYTES)


def _step_write(context: Context, session: LabSession, name: str, sector: int, *, really: bool, plan: bool) -> None:
    write, picture = picture_of_block(session, name, sector)
    if not really:
        context.out(write, write_text(picture.shape, write))
        return
    if plan:
        check_bare(session, picture.shape)
        show_plan(context, write_plan(picture, write))
        return
    seen = write_really(session, name, sector)
    if context.json:
        value = {"predicted": seen.predicted, "members": seen.members, "differences": seen.differences}
        made = write_plan(picture, write)
        out_json({**value, "plan": plan_value(made)})
    else:
        out(f"{write_text(picture.shape, write)}\n\n{_observed_text(seen)}")


app = App(name="array", help_format="plaintext")


def _create(context: Context, action: Create, *, plan: bool = False, wait: bool | None = None) -> None:
    if plan and action.names_its_disks and (known := _disks_without_booting(context)):
        show_plan(context, action.spec(known, known).creation(known, action.file_system))
        return
    with open_session(client_of(context)) as session:
        spec = action.spec(session.disks, session.free_disks(), session.names())
        made = spec.creation(session.disks, action.file_system, session.block_names())
        if plan:
            show_plan(context, made)
            return
        session.check_free(spec.devices)
        made = made.on_blank_disks()
        if note := spec.note(session.disks):
            context.narrator.notice(note)
        session.run(made)
        if not spec.is_array:
            context.out({"array": None, "device": spec.device, "plan": plan_value(made)}, spec.device)
            return
        array = session.array(spec.name)
        status = wait_with_bar(context, session, spec.name, action.waits_for) if wait else array.read()
        if status.owes_sync and not wait and context.is_embedded:
            context.narrator.notice("the first resync continues only in an open lab; use --wait or 'raidlab watch'")
        print_array(context, array, status, made, is_long=True)


def _disks_without_booting(context: Context) -> tuple[LabDisk, ...]:
    """Return the disks of the persistent embedded lab if all are files, since the list then determines their nodes."""
    if not context.is_embedded:
        return ()
    with lab_folder(context.host.state, context.target.lab_name) as folder:
        if any(spec.kind is not DiskKind.FILE for spec in folder.specs):
            return ()
        return folder.lab_disks(folder.specs)


def _assemble(context: Context, action: Assemble, *, plan: bool = False) -> None:
    if action.array:
        run_plan(context, action, plan=plan)
        return
    with open_session(client_of(context)) as session:
        if plan:
            show_plan(context, action.plan(session))
            return
        # A failure to start an array is reported but is not an error: the boot of a machine must not depend on it.
        known = {array.uuid for array in session.found.refused}
        started, refused = session.start_all(), session.found.refused
        if context.json:
            values = [session.array(status.name).value(status) for status in started]
            failed = [{"name": each.name, "uuid": each.uuid, "reason": each.refusal} for each in refused]
            out_json({"started": values, "refused": failed})
            return
        for status in started:
            out(status.summary)
        for each in refused:
            if each.uuid not in known:
                context.narrator.notice(f"array {each.name} ({each.uuid}) was not started: {each.refusal}")
        if not started:
            context.narrator.notice("no stopped array could be started" if refused else "no array is stopped")


def _mark(context: Context, action: WriteMark) -> None:
    kind_of_name(action.array)
    with open_session(client_of(context)) as session:
        written = action.perform(session)
    size = human_bytes(written.length_bytes)
    context.out(written, f"{action.array}: {size} of known data at byte {written.start_bytes} of {written.path}")


def _verify(context: Context, action: VerifyMark) -> int:
    kind_of_name(action.array)
    with open_session(client_of(context)) as session:
        found = require_mark(session, action.array)
        verdict = verify_mark(session, found)
    context.out(
        {"mark": msgspec.to_builtins(found), **msgspec.to_builtins(verdict)},
        f"{action.array}: {verdict.verdict.upper()}: {verdict.sentence}",
    )
    return ExitCode.DONE if verdict.is_intact else ExitCode.FAILED


def _wait(context: Context, action: Wait) -> None:
    kind_of_name(action.array)
    with open_session(client_of(context)) as session:
        array = session.array(action.array)
        session.run(array.awake(array.status()))
        status = wait_with_bar(context, session, action.array, "wait")
        context.out(array.value(status), status.summary)


add_verbs(app, ACTIONS, _create, _assemble, _mark, _verify, _wait, run_plan)
for _command in added_commands("array"):
    _command.add_to(app)
app.command(map_, name="map")
app.command(inspect)


@app.command
def show(name: str | None = None) -> None:
    """Show one array or all arrays, with their members and the progress of a sync."""
    context = current()
    with open_session(client_of(context)) as session:
        shown = [session.array(name).status()] if name else list(session.statuses())
        arrays = [(session.array(status.name), status) for status in shown]
        resting = () if name else (*session.found.stopped, *session.found.refused)
        if context.json:
            listed: dict[str, list[dict[str, Any]]] = {kind.listed_as: [] for kind in kinds()}
            for array, status in arrays:
                listed[kind_of_name(array.name).listed_as].append(array.value(status))
            more = {**listed, "not_running": [_found_value(session, found) for found in resting]}
            out_json(arrays[0][0].value(shown[0]) if name else more)
            return
        if not shown and not resting:
            context.narrator.notice("no arrays; use 'raidlab array create --level raid5 --disks 3' to create one")
        texts = [array_text(array, status) for array, status in arrays]
        texts += [_resting_line(session, found) for found in resting]
        if texts:
            out("\n\n".join(texts))


def _resting_line(session: LabSession, found: FoundArray) -> str:
    word = session.found.word(found)
    label = found.name if word == found.name else f"{found.name} ({word})"
    starts = "" if found.obstacle else f"; 'raidlab array assemble {word}' starts it"
    return f"{label}: not running, {found.refusal or 'stopped'}{starts}"


def _found_value(session: LabSession, found: FoundArray) -> dict[str, Any]:
    value = {field: msgspec.to_builtins(getattr(found, field)) for field in FoundArray.__dataclass_fields__}
    return {**value, "disks": [session.disk_name(node) for node in found.devices]}
