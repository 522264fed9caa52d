"""``raidlab array capacity`` shows the capacity of disks of different sizes under each system."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from lab.actions.arrays import split_words
from lab.arrays.spec import SystemPreview
from lab.cli.arguments import number
from lab.cli.context import current, out, out_json, table
from lab.cli.session import client_of
from lab.gates.decoding import DiskCount, parse_bytes
from lab.session.session import open_session
from lab.units import human_bytes


def capacity(
    sizes: Annotated[
        list[str] | None, Parameter(help="Sizes such as 1T 1T 2T 2T. By default, the sizes of the free disks are used.")
    ] = None,
    *,
    reference: Annotated[int | None, number(DiskCount, help="The same as for 'array create --level adapt5'.")] = None,
    chunk: Annotated[str | None, Parameter(help="A size such as 64K. The default is 128K.")] = None,
) -> None:
    """Show the capacity of disks of different sizes under each system, without changing anything."""
    from lab.adapt.spec import DEFAULT_CHUNK_BYTES, VolumeSpec, compare_systems, disks_of_sizes

    context, chunk_bytes = current(), None if chunk is None else parse_bytes(chunk, what="chunk")
    if sizes:
        disks = disks_of_sizes([word for given in sizes for word in split_words(given)])
    else:
        with open_session(client_of(context)) as session:
            disks = session.free_disks()
    rows = compare_systems(VolumeSpec(disks, chunk_bytes=chunk_bytes or DEFAULT_CHUNK_BYTES, reference=reference))
    if context.json:
        out_json({"disks": [disk.size_bytes for disk in disks], "systems": rows})
        return
    raw = sum(disk.size_bytes for disk in disks)
    out(f"{len(disks)} disks, {human_bytes(raw)} in all\n")
    headings = ("system", "capacity", "of all", "arrays", "aligned full writes read")
    out(table(headings, [_row(each, raw) for each in rows], right=("capacity", "of all", "arrays")))


def _row(each: SystemPreview, raw: int) -> tuple[str, ...]:
    if not each.capacity_bytes:
        return (each.title, "-", "-", "-", "-")
    share = f"{100 * each.capacity_bytes / raw:.0f} %"
    return (each.title, human_bytes(each.capacity_bytes), share, str(each.array_count), each.reads_words)
