"""Applies the actions of ``lab.actions`` to the selected disk and array, and adds larger disks to the lab.

``carry_out`` performs an action. It first opens a menu if the action has a choice, and shows the plan if it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.actions import ACTIONS
from lab.actions.action import Action, Choice, PlanAction, Selection
from lab.actions.arrays import Assemble, Create, Load, Scrub, ScrubAction, StopLoad, VerifyMark, Wait, WriteMark
from lab.arrays.spec import Bitmap
from lab.session.session import LARGER_COUNT, add_to_list, larger_bytes, larger_line, new_specs
from lab.units import human_bytes
from tui.arrays.drafts import FIRST_MEMBERS
from tui.frontend import Frontend
from tui.state import LabState

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus, MemberStatus
    from lab.disks import LabDisk
    from lab.plans import Plan
    from lab.session.session import LabSession
    from tui.client import LabClient

Done = Callable[[tuple[str, ...]], None]


def larger_command(state: LabState) -> str:
    """The command line that adds two larger disks to the lab."""
    return larger_line(state.disks, is_embedded=_is_embedded(state))


def ask_for_larger(frontend: Frontend, on_done: Done = lambda _: None) -> None:
    """Ask the user, then add two larger disks; ``on_done`` gets their names, possibly before the disks exist.

    An embedded kernel is restarted for this; its arrays are then assembled again.
    """
    state, size = frontend.lab, larger_bytes(frontend.lab.disks)
    how = (
        "The machine restarts for this; arrays and their data remain, a running load ends."
        if _is_embedded(state)
        else "They are loop devices and available at once."
    )
    choices = [
        Choice("add", "Add them", larger_command(state), "a"),
        Choice("leave", "Cancel", "nothing is changed", "l"),
    ]

    def added(names: tuple[str, ...]) -> None:
        frontend.say(f"{' and '.join(names)} of {human_bytes(size)} are added to the lab.")
        on_done(names)

    def then(chosen: str) -> None:
        if chosen != "add":
            return
        if _is_embedded(state):
            frontend.beside("Two larger disks", lambda: _add_to_list(frontend.client, size), on_done=added)
        else:
            frontend.job("Two larger disks", lambda session: _attach(session, size), on_done=added)

    title = f"Two disks of {human_bytes(size)}"
    frontend.pick(title, choices, then, intro=f"Two larger disks are added to the lab. {how}")


def _is_embedded(state: LabState) -> bool:
    return state.facts is not None and state.facts.is_embedded


def _attach(session: LabSession, size_bytes: int) -> tuple[str, ...]:
    from lab.disks import DiskKind

    taken = [disk.name for disk in session.disks]
    made = session.lab.attach(new_specs(taken, DiskKind.LOOP, LARGER_COUNT, size_bytes))
    session.rescan()
    return tuple(disk.name for disk in made)


def _add_to_list(client: LabClient, size_bytes: int) -> tuple[str, ...]:
    """Add the disks to the disk list of an embedded lab, which is closed meanwhile. Not for the lab's thread."""
    from lab.disks import DiskKind
    from lab.disks.lab import lab_folder
    from lab.machine import parse_target

    name = parse_target(client.target or "uml:").lab_name
    with client.released(), lab_folder(client.host.state, name) as folder:
        return add_to_list(folder, DiskKind.FILE, LARGER_COUNT, size_bytes)


KEY_ACTIONS = tuple(each for each in ACTIONS if each.key)
"""The actions that have a key on the Lab screen."""
FIRST_ARRAY_NOTE = (
    "Four disks: three disks' worth of data, one disk's worth of parity, spread over all four. Any one disk may fail "
    "and nothing is lost, as soon as the first sync is done. The other disks stay free, to replace the one that you "
    "will break."
)


def action_id(kind: type[Action]) -> str:
    """The id of an action's key in keymaps; it does not change between releases."""
    return f"lab.{kind.short_name()}"


def selected_disk(state: LabState) -> LabDisk | None:
    """The disk under the rack's cursor."""
    return state.disk(state.selected_disk or "")


def selected_member(state: LabState) -> tuple[ArrayStatus, MemberStatus] | None:
    """The selected disk as a member of a running array."""
    return state.member_of(state.selected_disk or "")


def target_array(state: LabState) -> ArrayStatus | None:
    """The array of which the selected disk is a member, else the selected array."""
    found = selected_member(state)
    return found[0] if found else state.selected


def joining_disk(state: LabState) -> LabDisk | None:
    """The disk to add: the selected disk if it is free, else one that suits the array; None if no disk can be added."""
    free, status = state.free_disks, target_array(state)
    chosen = next((disk for disk in free if disk.name == state.selected_disk), None)
    return status.disk_to_add(free, chosen, state.disks) if status else chosen or next(iter(free), None)


def selection_of(state: LabState) -> Selection:
    """The selection to which actions apply, and which decides whether they are possible."""
    found, disk, array = selected_member(state), selected_disk(state), target_array(state)
    known = state.found.array(array.name) if state.found and array else None
    resting = next(iter(state.resting_arrays), None)
    return Selection(
        is_open=state.is_open,
        array=array,
        disk=disk,
        member=found[1] if found else None,
        free_disk=joining_disk(state),
        is_pulled=bool(disk and state.look and disk.kernel_name in state.look.vanished),
        was_member=bool(disk and known and disk.node in known.former_devices),
        has_known_data=bool(array and array.name in state.marks),
        has_load=state.running_load is not None,
        stopped_array=resting.name if resting else "",
    )


def applying(state: LabState) -> tuple[type[Action], ...]:
    """The actions that are possible for the current selection."""
    selection = selection_of(state)
    return tuple(each for each in KEY_ACTIONS if not each.obstacle(selection))


def carry_out(frontend: Frontend, kind: type[Action]) -> None:
    """Apply an action to the selection if it is possible; if the action has a choice, show a menu first."""
    it = selection_of(frontend.lab)
    if kind.obstacle(it):
        return
    if kind.picks:
        frontend.pick(
            it.filled(kind.title),
            kind.choices(),
            lambda value: do(frontend, kind.on_selection(it, **kind.chosen(value))),
            intro=it.filled(kind.intro),
        )
    elif issubclass(kind, PlanAction):
        frontend.ask(kind.on_selection(it).plan, note=kind.note(it))
    else:
        do(frontend, kind.on_selection(it))


def do(frontend: Frontend, action: Action) -> None:
    """Perform an action that needs no confirmation."""
    match action:
        case Load():
            frontend.loads.start(action.array, action.workload)
        case StopLoad():
            frontend.loads.stop()
        case WriteMark():
            frontend.marks.write(action.array)
        case VerifyMark():
            frontend.marks.verify(action.array)
        case Wait():
            frontend.say(waiting_words(frontend.lab, action.array))
        case PlanAction():
            if isinstance(action, Scrub) and action.action is ScrubAction.STOP:
                frontend.leave_volume(action.array)
            frontend.make_and_run(action.plan)
        case _:
            raise AssertionError(f"the app does not know how to do {action}")


def waiting_words(state: LabState, name: str) -> str:
    """What ``array wait`` would wait for. The app does not wait: it reports the end of each sync."""
    status = state.array(name)
    if status is None:
        return f"{name} is not running."
    busy = status.sync_action.noun if status.sync_action.is_busy else ""
    return f"{name}: the end of its {busy} will be reported." if busy else f"{name} is idle."


def build(frontend: Frontend) -> None:
    """Offer a plan for the first array; if there are arrays, or too few blank disks, open the Build screen."""
    if not frontend.lab.arrays and len(frontend.lab.blank_disks) >= FIRST_MEMBERS:
        frontend.ask(first_array, note=FIRST_ARRAY_NOTE)
    else:
        frontend.choose_freely()


def start_array(frontend: Frontend, name: str) -> None:
    """Show the plan that assembles a stopped array."""
    frontend.ask(Assemble(array=name).plan)


def first_array(session: LabSession) -> Plan:
    """A RAID 5 on the first ``FIRST_MEMBERS`` free disks, with a bitmap chunk that suits small disks."""
    return Create(
        array="",
        level="raid5",
        disks=",".join(disk.name for disk in session.free_disks()[:FIRST_MEMBERS]),
        chunk="64K",
        bitmap=Bitmap.INTERNAL,
        bitmap_chunk="256K",
    ).plan(session)
