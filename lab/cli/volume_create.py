"""``raidlab array create --level adapt5``, and what disks of different sizes would hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from cyclopts import Parameter

from lab.adapt.names import free_volume_name
from lab.adapt.preview import Preview, disks_of_sizes, preview
from lab.adapt.spec import DEFAULT_CHUNK_BYTES, VolumeSpec
from lab.adapt.windows import Rule
from lab.arrays.spec import ConsistencyPolicy
from lab.cli import volume_show
from lab.cli.array_wish import Wish, asks_for_free_ones, disks_without_booting
from lab.cli.context import Context, current
from lab.cli.disk_words import chosen_disks, explicit_disks, split_words
from lab.cli.output import out, out_json, table
from lab.cli.session import open_session, plan_value, show_plan, wait_for_volume_with_bar
from lab.disks import LabDisk
from lab.errors import SpecError
from lab.session import volumes
from lab.session.checks import array_names, used_nodes
from lab.session.session import LabSession
from lab.session.volume_preview import better_reference
from lab.units import human_bytes, parse_bytes


def create(
    context: Context, wish: Wish, reference: int | None, utilisation: str | None, *, wait: bool, plan_only: bool
) -> None:
    """Create a volume, or print how."""
    _check_words(wish)
    factors = _factors(utilisation)
    if plan_only and (known := disks_without_booting(context)) and not asks_for_free_ones(wish):
        spec = _spec(wish, known, reference, factors, busy=(), names=())
        show_plan(context, volumes.creation(spec, wish.file_system))
        return
    with open_session(context) as session:
        names = array_names(session)
        spec = _spec(wish, session.disks, reference, factors, busy=used_nodes(session), names=names)
        if plan_only:
            show_plan(context, volumes.creation(spec, wish.file_system))
            return
        made = volumes.create(session, spec, wish.file_system)
        if hint := _better_reference(spec):
            context.narrator.notice(hint)
        session.run(made)
        session.rescan()
        if wait:
            wait_for_volume_with_bar(context, session, spec.name, "first resync")
        status = session.volume(spec.name)
        if status.busy and not wait and context.is_embedded:
            context.narrator.notice("the first resync goes on whenever the lab is open: --wait, or raidlab watch")
        if context.json:
            out_json({"array": volume_show.volume_value(session, status), "plan": plan_value(made)})
        else:
            out(volume_show.volume_text(session, status))


def capacity(
    sizes: Annotated[
        list[str] | None, Parameter(help="Sizes such as 1T 1T 2T 2T; the lab's free disks if left out.")
    ] = None,
    *,
    reference: Annotated[int | None, Parameter(help="As for 'array create --level adapt5'.")] = None,
    chunk: Annotated[str | None, Parameter(help="Such as 64K; 128K if left out.")] = None,
) -> None:
    """Show what disks of different sizes hold under each system; nothing is touched."""
    context = current()
    chunk_bytes = DEFAULT_CHUNK_BYTES if chunk is None else parse_bytes(chunk, what="chunk")
    if sizes:
        made = disks_of_sizes([word for given in sizes for word in split_words(given)])
    else:
        with open_session(context) as session:
            made = tuple(_free(session))
    rows = preview(made, chunk_bytes, reference)
    if context.json:
        out_json({"disks": [disk.size_bytes for disk in made], "systems": rows})
        return
    raw = sum(disk.size_bytes for disk in made)
    out(f"{len(made)} disks, {human_bytes(raw)} in all\n")
    headings = ("system", "capacity", "of all", "arrays", "aligned full writes read")
    out(table(headings, [_row(each, raw) for each in rows], right=("capacity", "of all", "arrays")))


def _row(each: Preview, raw: int) -> tuple[str, ...]:
    if not each.capacity_bytes:
        return (each.title, "-", "-", "-", "-")
    share = f"{100 * each.capacity_bytes / raw:.0f} %"
    return (each.title, human_bytes(each.capacity_bytes), share, str(each.array_count), each.reads_words)


def _free(session: LabSession) -> list[LabDisk]:
    busy = used_nodes(session)
    return [disk for disk in session.disks if disk.node not in busy]


def _spec(
    wish: Wish,
    disks: Sequence[LabDisk],
    reference: int | None,
    utilisation: tuple[float, ...] | None,
    *,
    busy: Collection[str],
    names: Collection[str],
) -> VolumeSpec:
    explicit = explicit_disks(wish.disks, disks)
    free = [disk for disk in disks if disk.node not in busy and disk not in explicit]
    members = chosen_disks(wish.disks or str(len(free)), disks, free)
    spec = VolumeSpec(
        tuple(members),
        name=wish.name or free_volume_name(names),
        rule=Rule(wish.level.lower()),
        chunk_bytes=wish.chunk_bytes or DEFAULT_CHUNK_BYTES,
        reference=reference,
        utilisation=utilisation,
        bitmap=wish.bitmap,
        assume_clean=wish.assume_clean,
    )
    spec.validate()
    return spec


def _check_words(wish: Wish) -> None:
    given = {
        "--spares": wish.spares,
        "--journal": wish.journal,
        "--layout": wish.layout,
        "--bitmap-chunk": wish.bitmap_chunk_bytes,
        "--policy": None if wish.policy is ConsistencyPolicy.RESYNC else wish.policy,
    }
    for option, value in given.items():
        if value:
            raise SpecError(
                f"{option} is not possible with level {wish.level}",
                hint="leave it out; a disk that fails is replaced with 'raidlab array add'",
            )


def _factors(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(word) for word in split_words(text))
    except ValueError:
        raise SpecError(
            f"utilisation '{text}' is no list of numbers", hint="write one for each disk, as 1,1,0.5"
        ) from None


def _better_reference(spec: VolumeSpec) -> str:
    """That another reference stripe would hold more, where it does."""
    better = better_reference(spec)
    return f"--reference {better[0]} would hold {human_bytes(better[1])} more on these disks" if better else ""
