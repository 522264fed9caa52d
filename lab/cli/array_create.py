"""``raidlab array create``, ``assemble`` and ``grow``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from cyclopts import Parameter

from lab.arrays.array import ArrayKind
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import free_name, kind_of_level
from lab.arrays.preview import Spec
from lab.arrays.spec import Bitmap, ConsistencyPolicy, CreateOptions
from lab.cli.array_run import BitmapChunk, PlanFlag, act, tell, wait_or_tell
from lab.cli.context import Context, current
from lab.cli.disk_words import bytes_or_none, chosen_disks, disk_count, explicit_disks, named_disks, split_words
from lab.cli.numbers import number
from lab.cli.output import out, out_json
from lab.cli.session import open_session, show_plan, wait_with_bar
from lab.disks import DiskKind, LabDisk
from lab.disks.lab_files import lab_folder
from lab.errors import SpecError
from lab.gates.numbers import DiskCount, Share, checked, real
from lab.plans import Plan
from lab.session.session import LabSession
from lab.tomlfile import known_word
from lab.units import GIB

_Reference = Annotated[
    int | None,
    number(DiskCount, help="adapt5: data chunks of the full stripe; one for each disk but one if left out."),
]


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
    reference: _Reference = None,
    utilisation: Annotated[
        str | None, Parameter(help="adapt5: how much of each disk to use, as 1,1,0.5; all of each if left out.")
    ] = None,
    wait: Annotated[bool, Parameter(negative="", show_default=False, help="Wait for the first resync.")] = False,
    plan: PlanFlag = False,
) -> None:
    """Create an array on blank lab disks."""
    kind = kind_of_level(level)
    wanted = CreateOptions(
        level=level,
        name=name or kind.name(0),
        chunk_bytes=bytes_or_none(chunk, "chunk"),
        layout=layout,
        bitmap=known_word(Bitmap, bitmap or ("internal" if bitmap_chunk else "none"), "bitmap"),
        bitmap_chunk_bytes=bytes_or_none(bitmap_chunk, "bitmap chunk"),
        policy=known_word(ConsistencyPolicy, policy or ("journal" if journal else "resync"), "policy"),
        assume_clean=assume_clean,
        reference=reference,
        utilisation=None if utilisation is None else _factors(utilisation),
    )
    words, file_system = _DiskWords(disks, spares, journal), known_word(FileSystem, fs, "file system")
    context = current()
    if plan and words.are_names and (known := _disks_without_booting(context)):
        spec = kind.spec(words.chosen(kind, wanted, known, known))
        show_plan(context, spec.creation(known, file_system))
        return
    # What can be told from the words alone is told before a machine starts.
    kind.spec(words.stand_ins(kind, wanted)).validate()
    with open_session(context) as session:
        if name is None:
            wanted = replace(wanted, name=free_name(kind, session.names()))
        wanted = words.chosen(kind, wanted, session.disks, session.free_disks())
        _make(context, session, kind.spec(wanted), file_system, waits=wait, plan_only=plan)


def _make(
    context: Context, session: LabSession, spec: Spec, file_system: FileSystem, *, waits: bool, plan_only: bool
) -> None:
    made = session.creation(spec, file_system, checks_disks=not plan_only)
    if plan_only:
        show_plan(context, made)
        return
    if note := spec.note(session.disks):
        context.narrator.notice(note)
    session.run(made)
    if not spec.is_array:
        out(spec.device)
        return
    array = session.array(spec.name)
    status = wait_with_bar(context, session, spec.name, "first resync") if waits else array.read()
    if status.owes_sync and not waits and context.is_embedded:
        context.narrator.notice("the first resync goes on whenever the lab is open: --wait, or raidlab watch")
    tell(context, array, status, made, is_long=True)


@dataclass(frozen=True, slots=True)
class _DiskWords:
    """What was typed for disks: names, or how many."""

    members: str | None
    spares: str | None
    journal: str | None

    @property
    def are_names(self) -> bool:
        """Whether it can be told without the machine which disks are meant."""
        return self.members is not None and disk_count(self.members) is None and disk_count(self.spares) is None

    def chosen(
        self, kind: ArrayKind, wanted: CreateOptions, disks: Sequence[LabDisk], unused: Sequence[LabDisk]
    ) -> CreateOptions:
        """With the disks that are meant. Raises SpecError or ArrayError if there are none such."""
        journal = named_disks(self.journal, disks) if self.journal else []
        taken = [*explicit_disks(self.members, disks), *explicit_disks(self.spares, disks), *journal]
        free = [disk for disk in unused if disk not in taken]
        members = chosen_disks(self.members or str(kind.member_count(wanted.level, len(free))), disks, free)
        spares = chosen_disks(self.spares, disks, [each for each in free if each not in members]) if self.spares else []
        return replace(wanted, members=tuple(members), spares=tuple(spares), journal=next(iter(journal), None))

    def stand_ins(self, kind: ArrayKind, wanted: CreateOptions) -> CreateOptions:
        """With disks of no matter what names: everything that is wrong with them is wrong with any."""

        def some(text: str | None, fallback: int, prefix: str) -> tuple[LabDisk, ...]:
            count = fallback if text is None else disk_count(text)
            count = len(split_words(text or "")) if count is None else count
            return tuple(_stand_in(f"{prefix}{number}") for number in range(count))

        fewest = kind.member_count(wanted.level, len(wanted.utilisation or ()) or (wanted.reference or 0) + 2)
        return replace(
            wanted,
            members=some(self.members, max(fewest, kind.raid(wanted.level).minimum_members), "disk"),
            spares=some(self.spares, 0, "spare"),
            journal=_stand_in("journal") if self.journal else None,
        )


def _stand_in(name: str) -> LabDisk:
    return LabDisk(name=name, kind=DiskKind.FILE, node=f"/dev/{name}", size_bytes=1024 * GIB)


def _disks_without_booting(context: Context) -> tuple[LabDisk, ...]:
    """The disks of the embedded lab that lasts, if all are files: their nodes follow from its list."""
    if not context.is_embedded:
        return ()
    with lab_folder(context.host.state, context.target.lab_name) as folder:
        if any(spec.kind is not DiskKind.FILE for spec in folder.specs):
            return ()
        return folder.lab_disks(folder.specs)


def _factors(text: str) -> tuple[float, ...]:
    return tuple(checked(real(word, "utilisation"), Share, "utilisation") for word in split_words(text))


def assemble(
    name: Annotated[str | None, Parameter(show_default=False, help="Such as md0; without it: all of them.")] = None,
    *,
    force: Annotated[bool, Parameter(negative="", show_default=False, help="Also take members out of date.")] = False,
    plan: PlanFlag = False,
) -> None:
    """Start a stopped array from its members, or every one on the lab's disks that can be started."""
    if name is not None:
        act(name, lambda session: session.array(name).assemble(force=force), plan=plan)
    elif force:
        raise SpecError("--force needs the name of an array", hint="'raidlab array show' lists the arrays")
    else:
        _assemble_all(plan=plan)


def _assemble_all(*, plan: bool) -> None:
    """What cannot be started is told, and is no failure: a machine's start must not hang on one broken array."""
    context = current()
    with open_session(context) as session:
        if plan:
            steps = tuple(step for array in session.found.stopped for step in array.start_plan(session.machine).steps)
            show_plan(context, Plan("Start all arrays", steps))
            return
        told = {array.uuid for array in session.found.refused}
        started = session.start_all()
        refused = session.found.refused
        if context.json:
            values = [session.array(status.name).value(status) for status in started]
            out_json(
                {
                    "started": values,
                    "refused": [{"name": each.name, "uuid": each.uuid, "reason": each.refusal} for each in refused],
                }
            )
            return
        for status in started:
            out(status.summary)
        for each in refused:
            if each.uuid not in told:
                context.narrator.notice(f"array {each.name} ({each.uuid}) was not started: {each.refusal}")
        if not started:
            context.narrator.notice("no stopped array could be started" if refused else "no array is stopped")


def grow(
    name: str,
    *,
    members: Annotated[
        str | None, Parameter(help="Disks that join, disk04,disk05, or how many members in all.")
    ] = None,
    size: Annotated[str | None, Parameter(help="max: use all of each member.")] = None,
    level: Annotated[str | None, Parameter(help="raid1 to raid5, or raid5 to raid6 with one disk more.")] = None,
    wait: Annotated[
        bool | None, Parameter(show_default=False, help="Wait for the end of the reshape; the default on uml:.")
    ] = None,
    plan: PlanFlag = False,
) -> None:
    """Reshape an array: more members, larger members, or another level."""
    if size is not None and (size != "max" or members or level):
        raise SpecError("--size takes only 'max', and stands alone", hint="grow members or level in a second command")
    if not (members or size or level):
        raise SpecError("grow what?", hint="give --members, --size max or --level")
    count = disk_count(members)
    context = current()
    with open_session(context) as session:
        disks = split_words(members) if members and count is None else []
        made = session.array(name).grow(disks=disks, count=count, level=level)
        if plan:
            show_plan(context, made)
            return
        session.run(made)
        wait_or_tell(context, session, name, "reshape", wait=wait)
        array = session.array(name)
        tell(context, array, array.status(), made, is_long=True)
