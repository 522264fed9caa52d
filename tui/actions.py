"""What can be done to the selected disk and array: one table for keys, menu, palette, help, text mode and parity.

``carry_out`` does any of them: after a choice where there is one, and past a plan that is shown where it matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from lab.arrays.kinds import free_name, kind_of_level
from lab.arrays.spec import ArraySpec, Bitmap
from lab.units import KIB, MIB
from tui.drafts import FIRST_MEMBERS
from tui.frontend import Choice, Frontend
from tui.state import LabState

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus, MemberStatus
    from lab.disks import LabDisk
    from lab.plans import Plan
    from lab.session.session import LabSession

USUAL_LOADS = ("rand-mix-4k", "rand-read-4k", "rand-write-4k", "seq-read-1m", "seq-write-1m")
FIRST_ARRAY_NOTE = (
    "Four disks: three hold data, one disk's worth holds parity, spread over all four. Any one disk may die "
    "and nothing is lost. The other disks stay free, to replace the one that you will break."
)


class DoneTo(StrEnum):
    """What an action is done to."""

    DISK = "disk"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Selection:
    """Names of what an action is about; empty for what there is not."""

    array: str
    disk: str
    new: str
    """The disk that would join the array."""


@dataclass(frozen=True, slots=True)
class LabAction:
    """One thing that a user can do on the Lab screen: ``plan``, which is shown before it runs, or ``do``."""

    name: str
    key: str
    label: str
    tooltip: str
    cli: str
    """The words after ``raidlab`` that do the same."""
    done_to: DoneTo
    applies: Callable[[LabState], bool]
    in_footer: bool = False
    plan: Callable[[Selection, LabSession], Plan] | None = None
    note: str | Callable[[LabState], str] = ""
    """What a user should know before the plan runs. Here and below names of the selection stand in braces."""
    title: str = ""
    intro: str = ""
    choices: Callable[[], list[Choice]] | None = None
    """Asked first, below title and intro, for ``do``."""
    do: Callable[[Frontend, Selection, str], None] | None = None
    """Gets what was chosen, or nothing; a plan that it makes runs without another question."""

    @property
    def id(self) -> str:
        """Stable, for keymaps."""
        return f"lab.{self.name.replace('_', '-')}"


def selected_disk(state: LabState) -> LabDisk | None:
    """The disk under the rack's cursor."""
    return state.disk(state.selected_disk or "")


def selected_member(state: LabState) -> tuple[ArrayStatus, MemberStatus] | None:
    """The selected disk as a member of a running array."""
    return state.member_of(state.selected_disk or "")


def target_array(state: LabState) -> ArrayStatus | None:
    """The array that the selected disk is in, else the selected array."""
    found = selected_member(state)
    return found[0] if found else state.selected


def joining_disk(state: LabState) -> LabDisk | None:
    """The disk to add: the selected one if it is free, else one that suits the array; None where none can join."""
    free, status = state.free_disks, target_array(state)
    chosen = next((disk for disk in free if disk.name == state.selected_disk), None)
    return status.disk_to_add(free, chosen, state.disks) if status else chosen or next(iter(free), None)


def _is_redundant(state: LabState) -> bool:
    status = target_array(state)
    return bool(state.is_open and status and status.is_redundant)


def _has_array(state: LabState) -> bool:
    return state.is_open and target_array(state) is not None


def _working_member(state: LabState) -> bool:
    found = selected_member(state)
    return bool(state.is_open and found and not found[1].is_faulty)


def _present(state: LabState) -> bool:
    disk = selected_disk(state)
    return bool(state.is_open and disk and not _pulled(state))


def _pulled(state: LabState) -> bool:
    disk = selected_disk(state)
    return bool(state.is_open and disk and state.look and disk.kernel_name in state.look.vanished)


def _removable(state: LabState) -> bool:
    found = selected_member(state)
    return bool(state.is_open and found and (found[1].is_faulty or found[1].is_spare))


def _can_add(state: LabState) -> bool:
    return _is_redundant(state) and joining_disk(state) is not None


def _can_replace(state: LabState) -> bool:
    found = selected_member(state)
    return bool(found and found[1].is_in_sync and "replace" not in found[0].cannot and _can_add(state))


def _can_re_add(state: LabState) -> bool:
    """A faulty member, or a disk that has left an array with a bitmap."""
    found = selected_member(state)
    if found:
        return state.is_open and found[1].is_faulty and found[0].has_bitmap
    disk, status = selected_disk(state), target_array(state)
    known = state.found.array(status.name) if state.found and status else None
    return bool(state.is_open and disk and known and disk.node in known.former_devices and status and status.has_bitmap)


def _is_spindle(state: LabState) -> bool:
    disk = selected_disk(state)
    return bool(state.is_open and disk and disk.model)


def _corruptible(state: LabState) -> bool:
    found = selected_member(state)
    return bool(found and _working_member(state) and "corrupt" not in found[0].cannot)


def _has_load(state: LabState) -> bool:
    return state.running_load is not None


def _can_load(state: LabState) -> bool:
    return _has_array(state) and not _has_load(state)


def _has_mark(state: LabState) -> bool:
    status = target_array(state)
    return bool(state.is_open and status and status.name in state.marks)


def _failing(state: LabState) -> str:
    """What becomes of the array that has the selected disk when that fails or vanishes."""
    found, disk = selected_member(state), selected_disk(state)
    if found is None or disk is None:
        return "No array has it: it only vanishes."
    return found[0].failing_note(found[1], disk.name)


def _adding(state: LabState) -> str:
    status = target_array(state)
    return status.adding_note if status else ""


def workload_choices() -> list[Choice]:
    """The catalogue, the usual ones first."""
    from lab.workloads.workload import all_workloads

    found = all_workloads()
    first = [name for name in USUAL_LOADS if name in found]
    names = [*first, *(name for name in sorted(found) if name not in first)]
    return [
        Choice(name, name, found[name].title, str(number) if number <= len(first) else "")
        for number, name in enumerate(names, start=1)
    ]


def _paces() -> list[Choice]:
    from lab.disks.drive_models import all_drive_models

    return [Choice(name, name, model.title) for name, model in all_drive_models().items()]


def _speeds() -> list[Choice]:
    limits = [
        Choice(str(speed), f"{speed} MiB/s", "at most, for each member", str(number))
        for number, speed in enumerate((1, 4, 16, 64), start=1)
    ]
    return [*limits, Choice("0", "No limit of its own", "md's defaults: the load comes first, but 1 MB/s is kept", "0")]


def _scrubs() -> list[Choice]:
    return [
        Choice("check", "Check", "Read everything and count where copies or parity differ", "c"),
        Choice("repair", "Repair", "Make parity or copies agree again; which side was right md cannot know", "r"),
        Choice("stop", "Stop", "End a check or repair that runs", "s"),
    ]


def _load(frontend: Frontend, it: Selection, workload: str) -> None:
    frontend.loads.start(it.array, workload)


def _scrub(frontend: Frontend, it: Selection, choice: str) -> None:
    if choice == "stop":
        frontend.leave_volume(it.array)
    frontend.make_and_run(lambda session: session.array(it.array).scrub(choice))


def _throttle(frontend: Frontend, it: Selection, speed_mib: str) -> None:
    kib = int(speed_mib) * MIB // KIB or None
    frontend.make_and_run(
        lambda session: session.array(it.array).speed(minimum_kib_per_second=kib, maximum_kib_per_second=kib)
    )


def _slow(frontend: Frontend, it: Selection, model: str) -> None:
    from lab.session import breaking

    frontend.make_and_run(lambda session: breaking.slow(session, it.disk, model))


def _pull(it: Selection, session: LabSession) -> Plan:
    from lab.session import breaking

    return breaking.pull(session, it.disk, breaks_array=True)


def _plug_in(it: Selection, session: LabSession) -> Plan:
    from lab.session import breaking

    return breaking.plug_in(session, it.disk)


def _corrupt(it: Selection, session: LabSession) -> Plan:
    from lab.session import breaking

    return breaking.corrupt(session, it.array, it.disk)


def _bad_block(it: Selection, session: LabSession) -> Plan:
    from lab.microscope.bad_block import bad_block

    return bad_block(session, it.array, it.disk)


def _can_have_bad_block(state: LabState) -> bool:
    found = selected_member(state)
    return bool(found and found[0].is_redundant and found[1].is_in_sync and _corruptible(state) and _has_mark(state))


ACTIONS = (
    LabAction("load", "w", "Load", "Put a workload on the array: reads and writes until you stop it", "load",
              DoneTo.ARRAY, _can_load, in_footer=True, title="Load on {array}", choices=workload_choices,
              intro="It runs until you stop it. Data on a bare array are overwritten.", do=_load),
    LabAction("stop_load", "w", "Stop load", "End the workload that runs; its figures are shown", "load",
              DoneTo.ARRAY, _has_load, in_footer=True, do=lambda frontend, it, _: frontend.loads.stop()),
    LabAction("pull", "p", "Pull", "The selected disk vanishes while in use, as if its cable were pulled", "array pull",
              DoneTo.DISK, _present, plan=_pull, note=_failing),
    LabAction("plug_in", "p", "Plug in", "Bring a pulled disk back; then add or re-add it", "array plug-in",
              DoneTo.DISK, _pulled, plan=_plug_in,
              note="{disk} comes back as it was; md does not take it in by itself."),
    LabAction("corrupt", "c", "Corrupt", "Overwrite some of the member's data behind md's back: no error, wrong data",
              "array corrupt", DoneTo.DISK, _corruptible, plan=_corrupt,
              note="md will not notice. A scrub (s) finds it where there is redundancy; verify (v) tells you."),
    LabAction("bad_block", "k", "Bad block", "Put a block of the known data on md's list of unreadable blocks",
              "array bad-block", DoneTo.DISK, _can_have_bad_block, plan=_bad_block,
              note="md takes 4 KiB of {disk} as unreadable, until it can write them anew (a scrub does)."),
    LabAction("slow", "d", "Slow down", "Let an emulated drive answer more slowly from now on", "disks slow",
              DoneTo.DISK, _is_spindle, title="Pace of {disk}", choices=_paces, do=_slow,
              intro="How fast shall it answer from now on? Never faster than it is."),
    LabAction("mark", "m", "Mark", "Write known data on the array, to prove later that nothing was lost", "array mark",
              DoneTo.ARRAY, _has_array, do=lambda frontend, it, _: frontend.marks.write(it.array)),
    LabAction("verify", "v", "Verify", "Read the known data past all caches: intact, changed or unreadable",
              "array verify", DoneTo.ARRAY, _has_mark, do=lambda frontend, it, _: frontend.marks.verify(it.array)),
    LabAction("fail", "f", "Fail", "Mark the selected disk as faulty, as md does when it stops answering", "array fail",
              DoneTo.DISK, _working_member, in_footer=True, note=_failing,
              plan=lambda it, session: session.array(it.array).fail(it.disk, breaks_array=True)),
    LabAction("remove", "x", "Remove", "Take a faulty disk or a spare out of its array", "array remove",
              DoneTo.DISK, _removable, in_footer=True, note="The disk leaves the array and is free for other things.",
              plan=lambda it, session: session.array(it.array).remove(it.disk)),
    LabAction("add", "a", "Add", "Add a disk: a degraded array rebuilds on it, a whole one keeps it as a spare",
              "array add", DoneTo.ARRAY, _can_add, in_footer=True, note=_adding,
              plan=lambda it, session: session.array(it.array).add(it.new)),
    LabAction("replace", "e", "Replace", "Copy the selected member to a free disk, then retire it", "array replace",
              DoneTo.DISK, _can_replace, note="{disk} is copied to {new}; {array} keeps its redundancy throughout.",
              plan=lambda it, session: session.array(it.array).replace(it.disk, it.new)),
    LabAction("re_add", "r", "Re-add", "Put a former member back; the bitmap tells what it missed", "array re-add",
              DoneTo.DISK, _can_re_add, plan=lambda it, session: session.array(it.array).re_add(it.disk),
              note="Only what changed while it was away is copied: the bitmap tells which regions."),
    LabAction("throttle", "t", "Throttle", "Limit how fast rebuilds and checks run, and see what it does to the load",
              "array speed", DoneTo.ARRAY, _is_redundant, in_footer=True, title="Throttle {array}", choices=_speeds,
              intro="How fast may {array} be rebuilt or checked? The load gets what the sync leaves.", do=_throttle),
    LabAction("scrub", "s", "Scrub", "Compare copies or parity everywhere (check), or make them agree (repair)",
              "array scrub", DoneTo.ARRAY, _is_redundant, title="Scrub {array}", choices=_scrubs, do=_scrub),
    LabAction("stop", "z", "Stop array", "Stop the array; its data stay on the disks", "array stop",
              DoneTo.ARRAY, _has_array, plan=lambda it, session: session.array(it.array).stop(),
              note="The data stay on the disks; Enter on the array starts it again."),
    LabAction("destroy", "delete", "Destroy", "Stop the array and erase its superblocks: its data are lost",
              "array destroy", DoneTo.ARRAY, _has_array, plan=lambda it, session: session.array(it.array).destroy(),
              note="The array's data cannot be brought back after this. Its disks become free."),
)  # fmt: skip


def applying(state: LabState) -> tuple[LabAction, ...]:
    """What can be done now."""
    return tuple(each for each in ACTIONS if each.applies(state))


def carry_out(frontend: Frontend, name: str) -> None:
    """Do it to what is selected, if it applies."""
    state = frontend.lab
    action = next(each for each in ACTIONS if each.name == name)
    if not action.applies(state):
        return
    things = (target_array(state), selected_disk(state), joining_disk(state))
    it = Selection(*(thing.name if thing else "" for thing in things))

    def told(text: str) -> str:
        return text.format(array=it.array, disk=it.disk, new=it.new)

    if action.plan:
        note = action.note if isinstance(action.note, str) else action.note(state)
        frontend.ask(partial(action.plan, it), note=told(note))
    elif action.do and action.choices:
        chosen = partial(action.do, frontend, it)
        frontend.pick(told(action.title), action.choices(), chosen, intro=told(action.intro))
    elif action.do:
        action.do(frontend, it, "")


def build(frontend: Frontend) -> None:
    """The first array in one key; later the whole choice."""
    if not frontend.lab.arrays and len(frontend.lab.free_disks) >= FIRST_MEMBERS:
        frontend.ask(first_array, note=FIRST_ARRAY_NOTE)
    else:
        frontend.choose_freely()


def start_array(frontend: Frontend, name: str) -> None:
    """Start one that does not run."""
    frontend.ask(lambda session: session.array(name).assemble())


def first_array(session: LabSession) -> Plan:
    """A RAID 5 on the first free disks of one size, with a bitmap that suits small disks."""
    spec = ArraySpec(
        level="raid5",
        members=tuple(disk.node for disk in session.free_disks()[:FIRST_MEMBERS]),
        name=free_name(kind_of_level("raid5"), session.names()),
        chunk_bytes=64 * KIB,
        bitmap=Bitmap.INTERNAL,
        bitmap_chunk_bytes=256 * KIB,
    )
    return session.creation(spec)
