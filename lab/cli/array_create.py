"""``raidlab array create``."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeVar

from cyclopts import Parameter

from lab.arrays.filesystem import FileSystem
from lab.arrays.level_names import parse_level
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.cli.array_run import PlanFlag
from lab.cli.array_show import array_text, array_value
from lab.cli.context import Context, current
from lab.cli.output import out, out_json
from lab.cli.session import open_session, plan_value, show_plan, wait_with_bar
from lab.disks import DiskKind, LabDisk
from lab.errors import ArrayError
from lab.session import plans
from lab.session.checks import array_names, check_name, foretold_bytes, free_name, used_nodes
from lab.session.session import LabSession
from lab.tomlfile import unknown_word
from lab.units import human_bytes, parse_bytes

W = TypeVar("W", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Wish:
    """What was typed, read but not yet tied to disks."""

    name: str | None
    level: str
    disks: str | None
    spares: str | None
    journal: str | None
    chunk_bytes: int | None
    layout: str | None
    bitmap: Bitmap
    policy: ConsistencyPolicy
    assume_clean: bool
    file_system: FileSystem


def create(
    name: Annotated[str | None, Parameter(help="md0 and so on; the first free one if left out.")] = None,
    *,
    level: Annotated[str, Parameter(help="raid0, raid1, raid4, raid5, raid6, raid10.")],
    disks: Annotated[
        str | None, Parameter(help="disk01,disk02,… or how many free ones; the fewest that do if left out.")
    ] = None,
    spares: Annotated[str | None, Parameter(help="As --disks.")] = None,
    chunk: Annotated[str | None, Parameter(help="Such as 64K; mdadm takes 512K if left out.")] = None,
    layout: Annotated[str | None, Parameter(help="Such as left-symmetric, or f2 for raid10.")] = None,
    bitmap: Annotated[str, Parameter(help="none or internal.")] = "none",
    policy: Annotated[str | None, Parameter(help="resync, ppl or journal.")] = None,
    journal: Annotated[str | None, Parameter(help="The disk for policy journal.")] = None,
    assume_clean: Annotated[
        bool, Parameter(negative="", show_default=False, help="No first resync: right only for blank disks.")
    ] = False,
    fs: Annotated[str, Parameter(help="File system to make: ext4, xfs or raw.")] = "raw",
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
        chunk_bytes=None if chunk is None else parse_bytes(chunk, what="chunk"),
        layout=layout,
        bitmap=_word(Bitmap, bitmap, "bitmap"),
        policy=_word(ConsistencyPolicy, policy or ("journal" if journal else "resync"), "policy"),
        assume_clean=assume_clean,
        file_system=_word(FileSystem, fs, "file system"),
    )
    parse_level(level)
    context = current()
    if plan and (known := disks_without_booting(context)) and not _asks_for_free_ones(wish):
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


def disks_without_booting(context: Context) -> tuple[LabDisk, ...]:
    """The disks of the embedded lab that lasts, if all are files: their nodes follow from its list."""
    from lab.disks.lab_files import lab_folder

    if not context.is_embedded:
        return ()
    with lab_folder(context.host.state, context.target.options.get("name", "default")) as folder:
        if any(spec.kind is not DiskKind.FILE for spec in folder.specs):
            return ()
        return folder.lab_disks(folder.specs)


def spec_for(
    wish: Wish, disks: Sequence[LabDisk], *, busy: Collection[str], names: Collection[str]
) -> tuple[ArraySpec, list[LabDisk]]:
    """The spec with real devices, checked, and its disks. Raises SpecError or ArrayError."""
    name = wish.name or free_name(names)
    check_name(name, names)
    journal = _named(wish.journal, disks) if wish.journal else []
    taken = {disk.node for disk in journal}
    explicit = [*_explicit(wish.disks, disks), *_explicit(wish.spares, disks)]
    free = [disk for disk in disks if disk.node not in busy and disk not in explicit and disk.node not in taken]
    members = _chosen(wish.disks or str(parse_level(wish.level).minimum_members), disks, free)
    spares = _chosen(wish.spares, disks, [disk for disk in free if disk not in members]) if wish.spares else []
    spec = ArraySpec(
        level=wish.level,
        members=tuple(disk.node for disk in members),
        name=name,
        spares=tuple(disk.node for disk in spares),
        chunk_bytes=wish.chunk_bytes,
        layout=wish.layout,
        bitmap=wish.bitmap,
        consistency_policy=wish.policy,
        journal_device=journal[0].node if journal else None,
        assume_clean=wish.assume_clean,
    )
    spec.validate()
    return spec, [*members, *spares]


def _check_words(wish: Wish) -> None:
    """Everything that is wrong whatever the disks are called."""

    def stand_ins(text: str | None, fallback: int, prefix: str) -> tuple[str, ...]:
        count = fallback if text is None else int(text) if text.isdecimal() else len(_words(text))
        return tuple(f"/dev/{prefix}{number}" for number in range(count))

    ArraySpec(
        level=wish.level,
        members=stand_ins(wish.disks, parse_level(wish.level).minimum_members, "disk"),
        name=wish.name or "md0",
        spares=stand_ins(wish.spares, 0, "spare"),
        chunk_bytes=wish.chunk_bytes,
        layout=wish.layout,
        bitmap=wish.bitmap,
        consistency_policy=wish.policy,
        journal_device="/dev/journal" if wish.journal else None,
        assume_clean=wish.assume_clean,
    ).validate()


def _asks_for_free_ones(wish: Wish) -> bool:
    """Whether only the machine knows which disks are meant."""
    return any(text is not None and text.isdecimal() for text in (wish.disks, wish.spares)) or wish.disks is None


def _explicit(text: str | None, disks: Sequence[LabDisk]) -> list[LabDisk]:
    return [] if text is None or text.isdecimal() else _named(text, disks)


def _chosen(text: str, disks: Sequence[LabDisk], free: Sequence[LabDisk]) -> list[LabDisk]:
    if not text.isdecimal():
        return _named(text, disks)
    if int(text) > len(free):
        raise ArrayError(
            f"{text} disks are wanted, and {len(free)} of {len(disks)} are free",
            hint="'raidlab disks' shows what uses them, 'raidlab disks add' makes more",
        )
    return list(free[: int(text)])


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def _named(text: str, disks: Sequence[LabDisk]) -> list[LabDisk]:
    found = []
    for word in _words(text):
        disk = next((disk for disk in disks if word in (disk.name, disk.serial, disk.node, disk.kernel_name)), None)
        if disk is None:
            raise unknown_word("lab disk", word, [disk.name for disk in disks])
        found.append(disk)
    return found


def _word(words: type[W], text: str, what: str) -> W:
    try:
        return words(text)
    except ValueError:
        raise unknown_word(what, text, [word.value for word in words]) from None
