"""``raidlab array map`` and ``raidlab array inspect``: the parity microscope."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from lab.arrays.kinds import kind_of_name
from lab.cli import microscope_text as text
from lab.cli.array_run import PlanFlag
from lab.cli.context import Context, current
from lab.cli.output import out, out_json
from lab.cli.session import open_session, plan_value, show_plan
from lab.errors import SpecError
from lab.gates.numbers import whole
from lab.microscope.array_map import BLOCK_SECTORS, locate
from lab.microscope.crash import crash_states
from lab.microscope.damage import flip_plan, parse_place
from lab.microscope.finding import locate_file, sector_of_member
from lab.microscope.observed import check_bare, new_content, picture_of_block, write_plan, write_really
from lab.microscope.picture import StripePicture, look_at_stripe
from lab.microscope.reading import read_shape
from lab.microscope.words import judged_words, repair_words
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES


def add_to(app: App) -> None:
    """Add these sub-commands to ``raidlab array``."""
    app.command(map_, name="map")
    app.command(inspect)


def map_(
    name: str,
    *,
    block: Annotated[str | None, Parameter(help="A block of 4 KiB of the array, counted from 0.")] = None,
    sector: Annotated[
        str | None, Parameter(help="A sector of 512 bytes: of the array, or with --member of that disk.")
    ] = None,
    member: Annotated[str | None, Parameter(help="A disk of the array: what does its --sector hold?")] = None,
    file: Annotated[str | None, Parameter(help="A file on the array's file system, or a path on the machine.")] = None,
) -> None:
    """Tell where a block of an array lies on its members, or what a sector of a member holds; or where a file lies."""
    ways = [block is not None, sector is not None and member is None, member is not None, file is not None]
    if sum(ways) != 1 or (member is not None and sector is None):
        raise SpecError(
            "say what to look for, once",
            hint="--block N, --sector S, --member disk03 --sector S or --file PATH",
        )
    context = current()
    kind_of_name(name)
    with open_session(context) as session:
        if file is not None:
            located = locate_file(session, name, file)
            told, value = text.file_text(read_shape(session, name), located), msgspec.to_builtins(located)
        elif member is not None:
            found = sector_of_member(session, name, member, whole(sector or "", "sector"))
            told = text.sector_text(read_shape(session, name), found)
            value = {**msgspec.to_builtins(found), "blocks": found.blocks}
        else:
            shape = read_shape(session, name)
            wanted = whole(sector, "sector") if sector is not None else whole(block or "", "block") * BLOCK_SECTORS
            place = locate(shape, wanted)
            told, value = text.block_text(shape, place), msgspec.to_builtins(place)
    if context.json:
        out_json({"array": name, **value})
    else:
        out(told)


def inspect(
    name: str,
    *,
    stripe: Annotated[str | None, Parameter(help="Which stripe: a row of chunks, counted from 0.")] = None,
    block: Annotated[str | None, Parameter(help="The stripe of this block of 4 KiB of the array.")] = None,
    offset: Annotated[str | None, Parameter(help="First byte of each chunk to show; the first that differs.")] = None,
    count: Annotated[str, Parameter(name="--bytes", help="How many bytes of each chunk to show.")] = "32",
    flip: Annotated[
        str | None, Parameter(help="Flip a byte of the stripe behind md's back: disk03:17 is byte 17 of its chunk.")
    ] = None,
    step_write: Annotated[str | None, Parameter(help="Step through a small write of this block of the array.")] = None,
    really: Annotated[
        bool, Parameter(negative="", show_default=False, help="Really write it, and see what md did.")
    ] = False,
    step_crash: Annotated[
        str | None, Parameter(help="Step through a crash during a small write of this block.")
    ] = None,
    plan: PlanFlag = False,
) -> None:
    """Show a stripe as its members hold it: parity computed beside parity stored, who is wrong, what md would do."""
    steps = [word for word in (step_write, step_crash) if word is not None]
    places = [word for word in (stripe, block) if word is not None]
    if len(steps) > 1 or (steps and (flip or places)) or (not steps and len(places) != 1):
        raise SpecError(
            "say which stripe to look at, once",
            hint="--stripe N or --block N, perhaps with --flip; or --step-write N or --step-crash N alone",
        )
    if really and step_write is None:
        raise SpecError("nothing to do really", hint="--really belongs to --step-write")
    if plan and flip is None and not really:
        raise SpecError("nothing would be changed, so there is no plan", hint="--plan belongs to --flip and --really")
    context = current()
    kind_of_name(name)
    with open_session(context) as session:
        if step_write is not None:
            _step_write(context, session, name, _sector(step_write), really=really, plan=plan)
        elif step_crash is not None:
            _step_crash(context, session, name, _sector(step_crash))
        elif flip is not None:
            _flip(context, session, name, _stripe(session, name, stripe, block), flip, plan=plan)
        else:
            number = _stripe(session, name, stripe, block)
            first = None if offset is None else whole(offset, "offset")
            _show(context, look_at_stripe(session, name, number), first, whole(count, "bytes"))


def _sector(block: str) -> int:
    return whole(block, "block") * BLOCK_SECTORS


def _stripe(session: LabSession, name: str, stripe: str | None, block: str | None) -> int:
    if stripe is not None:
        return whole(stripe, "stripe")
    return locate(read_shape(session, name), _sector(block or "")).stripe or 0


def _show(context: Context, picture: StripePicture, offset: int | None, count: int) -> None:
    if count < 1:
        raise SpecError(f"{count} bytes cannot be shown", hint="ask for one or more")
    whole_bytes = picture.stripe.cell_sectors * SECTOR_BYTES
    if offset is not None and not 0 <= offset < whole_bytes:
        raise SpecError(f"no chunk has a byte {offset}", hint=f"chunks have bytes 0 to {whole_bytes - 1}")
    if offset is None:
        differing = [byte for seen in picture.cells for byte in seen.differs]
        offset = min(differing, default=0) // text.LINE_BYTES * text.LINE_BYTES
    if context.json:
        out_json(_picture_value(picture, offset, count))
    else:
        out(text.picture_text(picture, offset, count))


def _picture_value(picture: StripePicture, offset: int, count: int) -> dict[str, Any]:
    """A stripe for JSON; only the requested bytes are included, in hex."""
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
        "blamed": picture.name_of(blamed.slot) if blamed else None,
        "blamed_reason": blamed.reason if blamed else comparison.why_unknown,
        "mismatch_sectors": comparison.mismatch_sectors,
        "repair_writes": [picture.name_of(slot) for slot, _ in comparison.repaired],
        "sentences": [*judged_words(picture), *repair_words(picture)],
    }


def _flip(context: Context, session: LabSession, name: str, number: int, word: str, *, plan: bool) -> None:
    disk, byte = parse_place(word)
    picture = look_at_stripe(session, name, number)
    made = flip_plan(picture, session.node(disk), byte)
    if plan:
        show_plan(context, made)
        return
    session.run(made)
    chunk = picture.stripe.cell_sectors * SECTOR_BYTES
    first = byte % chunk // text.LINE_BYTES * text.LINE_BYTES
    _show(context, look_at_stripe(session, name, number), first, text.LINE_BYTES)


def _step_write(context: Context, session: LabSession, name: str, sector: int, *, really: bool, plan: bool) -> None:
    write, picture = picture_of_block(session, name, sector)
    if not really:
        if context.json:
            out_json(write)
        else:
            out(text.write_text(picture.shape, write))
        return
    if plan:
        check_bare(session, picture.shape)
        show_plan(context, write_plan(picture.shape, sector, new_content(picture, write)))
        return
    seen = write_really(session, name, sector)
    if context.json:
        value = {"predicted": seen.predicted, "members": seen.members, "differences": seen.differences}
        made = write_plan(picture.shape, sector, new_content(picture, write))
        out_json({**value, "plan": plan_value(made)})
    else:
        out(f"{text.write_text(picture.shape, write)}\n\n{text.observed_text(seen)}")


def _step_crash(context: Context, session: LabSession, name: str, sector: int) -> None:
    write, picture = picture_of_block(session, name, sector)
    states = crash_states(picture, write, new_content(picture, write))
    if context.json:
        out_json({"array": name, "write": write, "states": states})
    else:
        out(text.crash_text(picture.shape, write, states))
