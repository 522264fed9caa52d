"""``raidlab array``: what breaks data or tells what became of them, and waiting."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.arrays.kinds import kind_of_name
from lab.arrays.spec import Bitmap
from lab.cli.array_run import BitmapChunk, BreakArrayFlag, PlanFlag, act
from lab.cli.context import current
from lab.cli.disk_words import bytes_or_none
from lab.cli.output import out, out_json
from lab.cli.session import open_session, wait_with_bar
from lab.errors import ArrayError, ExitCode
from lab.gates.numbers import parse_bytes, whole
from lab.microscope import bad_block as microscope_bad_block
from lab.plans import Plan
from lab.session import breaking
from lab.session.data_mark import require_mark, verify_mark, write_mark
from lab.session.session import LabSession
from lab.tomlfile import known_word
from lab.units import human_bytes


def add_to(app: App) -> None:
    """Make these sub-commands of ``raidlab array``."""
    for command in (pull, plug_in, corrupt, bad_block, mark, verify, wait, bitmap):
        app.command(command)


def pull(
    name: str,
    disk: str,
    *,
    break_array: BreakArrayFlag = False,
    plan: PlanFlag = False,
) -> None:
    """Let a member vanish, as if its cable were pulled; 'plug-in' brings it back."""

    def make(session: LabSession) -> Plan:
        session.array(name).status().member(session.node(disk))
        return breaking.pull(session, disk, breaks_array=break_array)

    act(name, make, plan=plan)


def plug_in(name: str, disk: str, *, plan: PlanFlag = False) -> None:
    """Bring a pulled member back; 're-add' or 'add' then lets it join the array again."""
    act(name, lambda session: breaking.plug_in(session, disk), plan=plan)


def corrupt(
    name: str,
    disk: str,
    *,
    length: Annotated[str, Parameter(help="How much, such as 64K.")] = "64K",
    plan: PlanFlag = False,
) -> None:
    """Overwrite some of a member's data behind md's back: in the data mark if there is one."""
    size = parse_bytes(length, what="length")
    act(name, lambda session: breaking.corrupt(session, name, disk, length_bytes=size), plan=plan)


def bad_block(
    name: str,
    disk: str,
    *,
    sector: Annotated[str | None, Parameter(help="Of the disk; without: in the middle of the known data.")] = None,
    plan: PlanFlag = False,
) -> None:
    """Put 4 KiB of a member on md's bad-block list, as after a read error that could not be mended."""
    first = None if sector is None else whole(sector, "sector")
    act(name, lambda session: microscope_bad_block.bad_block(session, name, disk, first), plan=plan)


def mark(name: str) -> None:
    """Write known data to the array, for 'verify': to its end, or to a file on its file system."""
    context = current()
    kind_of_name(name)
    with open_session(context) as session:
        written = write_mark(session, name)
    if context.json:
        out_json(written)
    else:
        out(
            f"{name}: {human_bytes(written.length_bytes)} of known data at byte {written.start_bytes} of {written.path}"
        )


def verify(name: str) -> int:
    """Read the known data past all caches and say what became of them; status 1 unless they are intact."""
    context = current()
    kind_of_name(name)
    with open_session(context) as session:
        found = require_mark(session, name)
        verdict = verify_mark(session, found)
    if context.json:
        out_json({"mark": msgspec.to_builtins(found), **msgspec.to_builtins(verdict)})
    else:
        out(f"{name}: {verdict.verdict.upper()}: {verdict.sentence}")
    return ExitCode.DONE if verdict.is_intact else ExitCode.FAILED


def wait(name: str) -> None:
    """Wait until no resync, rebuild, check or reshape of the array goes on."""
    context = current()
    kind_of_name(name)
    with open_session(context) as session:
        array = session.array(name)
        session.run(array.awake(array.status()))
        status = wait_with_bar(context, session, name, "wait")
        if context.json:
            out_json(array.value(status))
        else:
            out(status.summary)


def bitmap(
    name: str,
    kind: Annotated[str, Parameter(help="internal or none.")],
    *,
    chunk: BitmapChunk = None,
    plan: PlanFlag = False,
) -> None:
    """Add or remove the write-intent bitmap of a running array."""
    wanted = known_word(Bitmap, kind, "bitmap")
    if chunk is not None and wanted is Bitmap.NONE:
        raise ArrayError("no bitmap, and a chunk for it", hint="leave --chunk out, or write internal")
    size = bytes_or_none(chunk, "chunk")
    act(name, lambda session: session.array(name).bitmap(wanted, chunk_bytes=size), plan=plan)
