"""``raidlab array create``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from cyclopts import Parameter

from lab.adapt.windows import Rule
from lab.arrays.filesystem import FileSystem
from lab.arrays.level_names import parse_level
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.cli import volume_create
from lab.cli.array_run import BitmapChunk, PlanFlag
from lab.cli.array_show import array_text, array_value
from lab.cli.array_wish import Wish, asks_for_free_ones, disks_without_booting
from lab.cli.context import Context, current
from lab.cli.disk_words import bytes_or_none, chosen_disks, explicit_disks, known_word, named_disks, split_words
from lab.cli.output import out, out_json
from lab.cli.session import open_session, plan_value, show_plan, wait_with_bar
from lab.disks import LabDisk
from lab.errors import SpecError
from lab.session import plans
from lab.session.checks import array_names, check_name, foretold_bytes, free_name, used_nodes
from lab.session.session import LabSession
from lab.units import human_bytes


def create(
    name: Annotated[str | None, Parameter(help="md0 and so on; the first free one if left out.")] = None,
    *,
    level: Annotated[
        str, Parameter(help="raid0, raid1, raid4, raid5, raid6, raid10; adapt5 or shr for disks of different sizes.")
    ],
    disks: Annotated[
        str | None,
        Parameter(help="disk01,disk02,… or how many free ones; the fewest that do if left out, for adapt5 all."),
    ] = None,
    spares: Annotated[str | None, Parameter(help="As --disks.")] = None,
    chunk: Annotated[str | None, Parameter(help="Such as 64K; mdadm takes 512K if left out, adapt5 128K.")] = None,
    layout: Annotated[str | None, Parameter(help="Such as left-symmetric, or f2 for raid10.")] = None,
    bitmap: Annotated[str | None, Parameter(help="none or internal.")] = None,
    bitmap_chunk: BitmapChunk = None,
    policy: Annotated[str | None, Parameter(help="resync, ppl or journal.")] = None,
    journal: Annotated[str | None, Parameter(help="The disk for policy journal.")] = None,
    assume_clean: Annotated[
        bool, Parameter(negative="", show_default=False, help="No first resync: right only for blank disks.")
    ] = False,
    fs: Annotated[str, Parameter(help="File system to make: ext4, xfs or raw.")] = "raw",
    reference: Annotated[
        int | None, Parameter(help="adapt5: data chunks of the full stripe; one for each disk but one if left out.")
    ] = None,
    utilisation: Annotated[
        str | None, Parameter(help="adapt5: how much of each disk to use, as 1,1,0.5; all of each if left out.")
    ] = None,
    wait: Annotated[bool, Parameter(negative="", show_default=False, help="Wait for the first resync.")] = False,
    plan: PlanFlag = False,
) -> None:
    """Create an array on blank lab disks."""
    wish = Wish(
        name=name,
        level=level,
        disks=disks,
        spares=spares,
        journal=journal,
        chunk_bytes=bytes_or_none(chunk, "chunk"),
        layout=layout,
        bitmap=known_word(Bitmap, bitmap or ("internal" if bitmap_chunk else "none"), "bitmap"),
        bitmap_chunk_bytes=bytes_or_none(bitmap_chunk, "bitmap chunk"),
        policy=known_word(ConsistencyPolicy, policy or ("journal" if journal else "resync"), "policy"),
        assume_clean=assume_clean,
        file_system=known_word(FileSystem, fs, "file system"),
    )
    context = current()
    if level.lower() in tuple(Rule):
        volume_create.create(context, wish, reference, utilisation, wait=wait, plan_only=plan)
        return
    if reference is not None or utilisation is not None:
        raise SpecError(f"{level} has no reference stripe and no utilisation", hint="these are for level adapt5")
    parse_level(level)
    if plan and (known := disks_without_booting(context)) and not asks_for_free_ones(wish):
        spec, chosen = spec_for(wish, known, busy=(), names=())
        show_plan(context, plans.creation(spec, chosen, wish.file_system))
        return
    # What can be told from the words alone is told before a machine starts.
    _check_words(wish)
    with open_session(context) as session:
        _create(session, wish, context, wait=wait, plan_only=plan)


def _create(session: LabSession, wish: Wish, context: Context, *, wait: bool, plan_only: bool) -> None:
    spec, chosen = spec_for(wish, session.disks, busy=used_nodes(session), names=array_names(session))
    made = plans.creation(spec, chosen, wish.file_system)
    if plan_only:
        show_plan(context, made)
        return
    made = plans.create(session, spec, wish.file_system)
    if len({disk.size_bytes for disk in chosen}) > 1:
        usable = human_bytes(foretold_bytes(spec, chosen))
        context.narrator.notice(f"the disks differ in size: the smallest decides, which gives about {usable}")
    session.run(made)
    if not spec.is_array:
        out(spec.device)
        return
    if wait:
        wait_with_bar(context, session, spec.name, "first resync")
    status = session.status(spec.name)
    if status.awaits_resync and not wait and context.is_embedded:
        context.narrator.notice("the first resync goes on whenever the lab is open: --wait, or raidlab watch")
    if context.json:
        out_json({"array": array_value(session, status), "plan": plan_value(made)})
    else:
        out(array_text(session, status))


def spec_for(
    wish: Wish, disks: Sequence[LabDisk], *, busy: Collection[str], names: Collection[str]
) -> tuple[ArraySpec, list[LabDisk]]:
    """The spec with real devices, checked, and its disks. Raises SpecError or ArrayError."""
    name = wish.name or free_name(names)
    check_name(name, names)
    journal = named_disks(wish.journal, disks) if wish.journal else []
    taken = {disk.node for disk in journal}
    explicit = [*explicit_disks(wish.disks, disks), *explicit_disks(wish.spares, disks)]
    free = [disk for disk in disks if disk.node not in busy and disk not in explicit and disk.node not in taken]
    members = chosen_disks(wish.disks or str(parse_level(wish.level).minimum_members), disks, free)
    spares = chosen_disks(wish.spares, disks, [disk for disk in free if disk not in members]) if wish.spares else []
    spec = ArraySpec(
        level=wish.level,
        members=tuple(disk.node for disk in members),
        name=name,
        spares=tuple(disk.node for disk in spares),
        chunk_bytes=wish.chunk_bytes,
        layout=wish.layout,
        bitmap=wish.bitmap,
        bitmap_chunk_bytes=wish.bitmap_chunk_bytes,
        consistency_policy=wish.policy,
        journal_device=journal[0].node if journal else None,
        assume_clean=wish.assume_clean,
    )
    spec.validate()
    return spec, [*members, *spares]


def _check_words(wish: Wish) -> None:
    """Everything that is wrong whatever the disks are called."""

    def stand_ins(text: str | None, fallback: int, prefix: str) -> tuple[str, ...]:
        count = fallback if text is None else int(text) if text.isdecimal() else len(split_words(text))
        return tuple(f"/dev/{prefix}{number}" for number in range(count))

    ArraySpec(
        level=wish.level,
        members=stand_ins(wish.disks, parse_level(wish.level).minimum_members, "disk"),
        name=wish.name or "md0",
        spares=stand_ins(wish.spares, 0, "spare"),
        chunk_bytes=wish.chunk_bytes,
        layout=wish.layout,
        bitmap=wish.bitmap,
        bitmap_chunk_bytes=wish.bitmap_chunk_bytes,
        consistency_policy=wish.policy,
        journal_device="/dev/journal" if wish.journal else None,
        assume_clean=wish.assume_clean,
    ).validate()
