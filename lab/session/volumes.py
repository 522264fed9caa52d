"""Operations on volumes of unequal disks as plans: what ``lab.session.plans`` hands over for names like adapt0.

These functions read, refuse what cannot be with a hint, and touch nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.adapt import operations
from lab.adapt.bring_up import clear_away_plan
from lab.adapt.discovery import FoundVolume, windows_named
from lab.adapt.spec import VolumeSpec, capacity_bytes, new_label
from lab.adapt.state import VolumeDisk, VolumeStatus, read_stack
from lab.arrays import operations as array_operations
from lab.arrays.filesystem import FileSystem, make
from lab.arrays.status import ArrayState
from lab.errors import ArrayError
from lab.plans import Plan, Step
from lab.session.checks import array_names, check_free, check_name
from lab.session.session import LabSession
from lab.units import human_bytes


def creation(spec: VolumeSpec, file_system: FileSystem = FileSystem.RAW, taken: Iterable[str] = ()) -> Plan:
    """Create the volume, then the file system on it. Raises SpecError for whatever cannot be, on whatever machine.

    ``taken`` are md names that are in use.
    """
    label = new_label(spec)
    plan = operations.create(spec, windows_named(label, tuple(taken)), label)
    if file_system is FileSystem.RAW:
        return plan
    return plan + make(
        file_system,
        spec.device,
        size_bytes=capacity_bytes(spec),
        chunk_bytes=spec.chunk_bytes,
        full_stripe_bytes=label.reference * label.chunk_bytes,
    )


def create(session: LabSession, spec: VolumeSpec, file_system: FileSystem = FileSystem.RAW) -> Plan:
    """As ``creation``, on disks of this lab that are free."""
    plan = creation(spec, file_system, _block_names(session))
    check_name(spec.name, array_names(session))
    check_free(session, spec.nodes)
    return plan


def stop(session: LabSession, name: str) -> Plan:
    """Unmount what the lab has mounted, then stop the mapping, its arrays and the slices."""
    found = _running(session, name)
    return _unmount(session, name) + clear_away_plan(found, read_stack(session.machine))


def destroy(session: LabSession, name: str) -> Plan:
    """Stop what runs of it, and erase it from every disk, also from those that have failed."""
    found = _found(session, name)
    stack = read_stack(session.machine)
    plan = Plan(f"Remove {name}")
    if stack.has_any(name):
        plan += _unmount(session, name) + clear_away_plan(found, stack)
    return plan + operations.erase(found.description, (*found.devices, *found.former_devices))


def assemble(session: LabSession, name: str, *, force: bool = False) -> Plan:
    """Start a stopped volume from its disks."""
    found = _found(session, name)
    if found in session.found.started:
        raise ArrayError(f"array {name} runs already", hint=f"'raidlab array show {name}' shows it")
    if force:
        raise ArrayError(
            f"array {name} is never started by force: disks out of date would give data of different times",
            hint="attach the disks that are missing",
        )
    if found.refusal:
        raise ArrayError(
            f"array {name} cannot be started: {found.refusal}",
            hint=f"attach what is missing, or remove it with 'raidlab array destroy {name}'",
        )
    return found.start_plan(_block_names(session))


def fail(session: LabSession, name: str, disk_word: str, *, breaks_array: bool = False) -> Plan:
    """Fail a disk in every array that it is in; one that they cannot do without only when told so."""
    status, found = session.volume(name), _running(session, name)
    disk = status.disk(session.node(disk_word))
    if not disk.present:
        raise ArrayError(
            f"{disk_word} is faulty already", hint=f"'raidlab array remove {name} {disk_word}' takes it out"
        )
    broken = status.broken_by(disk)
    if broken and not breaks_array:
        raise ArrayError(
            f"array {name} cannot do without {disk_word}: "
            f"the data of {len(broken)} of its {len(status.windows)} arrays would be lost",
            hint="--break-array fails it all the same",
        )
    arrays = _arrays(status, disk.present)
    without_it = (*broken, *(each.window.number for each in status.lost))
    plan = operations.fail(found.description, found.nodes_by_disk, disk.number, arrays, without_it)
    return _awake_first(status, disk.present, f"Fail {disk_word} in {name}", plan)


def remove(session: LabSession, name: str, disk_word: str) -> Plan:
    """Take out a faulty disk; no steps, and a title that says so, for one that has left already."""
    status, found = session.volume(name), _running(session, name)
    disk = status.disk(session.node(disk_word))
    if disk.present:
        raise ArrayError(
            f"{disk_word} is in use in {name}", hint=f"fail it first: raidlab array fail {name} {disk_word}"
        )
    if disk.number not in read_stack(session.machine).disks_cut(name):
        return Plan(f"{disk_word} has left {name} already: a failed disk stays out")
    plan = operations.remove(found.description, disk.number, _arrays(status, disk.faulty))
    return Plan(f"Remove {disk_word} from {name}", plan.steps)


def add(session: LabSession, name: str, disk_word: str) -> Plan:
    """Put a disk in the place of a failed or missing one and rebuild all its arrays; or go on with such a rebuild."""
    status, found = session.volume(name), _running(session, name)
    if status.lost:
        raise ArrayError(
            f"array {name}: {status.state_words}, so nothing can be rebuilt",
            hint=f"restore its data from elsewhere onto a new array; 'raidlab array destroy {name}' frees the disks",
        )
    node = session.node(disk_word)
    own = next((disk for disk in status.disks if disk.node == node and not disk.is_failed), None)
    if own:
        return _go_on(status, found, own, disk_word)
    place = _place_for(session, status, disk_word)
    check_free(session, [] if place.node == node else [node], besides=name)
    label = found.description
    steps: tuple[Step, ...] = ()
    if place.number in read_stack(session.machine).disks_cut(name):
        steps = operations.remove(label, place.number, _arrays(status, place.faulty)).steps
    plan = operations.add(label, found.nodes_by_disk, place.number, node, _arrays(status, place.windows))
    title = f"Add {disk_word} to {name}"
    return _awake_first(status, place.windows, title, Plan(title, (*steps, *plan.steps)))


def _go_on(status: VolumeStatus, found: FoundVolume, disk: VolumeDisk, disk_word: str) -> Plan:
    missing = tuple(window for window in disk.windows if window not in disk.present)
    if not missing:
        raise ArrayError(f"{disk_word} is a disk of {status.name} already", hint="choose a disk that is free")
    if disk.faulty:
        raise ArrayError(
            f"{disk_word} has failed in {len(disk.faulty)} arrays of {status.name}",
            hint=f"fail it in all of them first: raidlab array fail {status.name} {disk_word}",
        )
    plan = operations.rebuild(found.description, disk.number, _arrays(status, missing))
    return _awake_first(status, missing, f"Go on with the rebuild of {status.name} on {disk_word}", plan)


def _place_for(session: LabSession, status: VolumeStatus, disk_word: str) -> VolumeDisk:
    places = [disk for disk in status.disks if not disk.present]
    if not places:
        raise ArrayError(
            f"no disk of {status.name} has failed, and a further one would change its whole layout",
            hint="make a new array with all disks, and copy the data",
        )
    size = session.lab.disk(session.node(disk_word)).size_bytes
    fitting = [disk for disk in places if disk.size_bytes <= size]
    if not fitting:
        needed = human_bytes(min(disk.size_bytes for disk in places))
        raise ArrayError(
            f"{disk_word} has {human_bytes(size)}, and the place of the failed disk in {status.name} needs {needed}",
            hint="use a larger disk: 'raidlab disks' shows sizes",
        )
    # The largest place that it fits in: a smaller disk may come for the others.
    return max(fitting, key=lambda disk: disk.size_bytes)


def scrub(session: LabSession, name: str, action: str) -> Plan:
    """Check or repair all arrays one after another, or stop that."""
    status, found = session.volume(name), _running(session, name)
    windows = [each.window.number for each in status.windows if each.array]
    plan = operations.scrub(found.description, _arrays(status, windows), action)
    return _awake_first(status, windows, f"Scrub {name}: {action}", plan)


def speed(
    session: LabSession, name: str, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None
) -> Plan:
    """Limit the syncs of every array inside."""
    status = session.volume(name)
    plan = Plan(f"Set the sync speed of {name}")
    for each in status.windows:
        if each.array:
            plan += array_operations.set_sync_speed(
                each.array.name,
                minimum_kib_per_second=minimum_kib_per_second,
                maximum_kib_per_second=maximum_kib_per_second,
            )
    return plan


def refuse(name: str, what: str) -> ArrayError:
    """For operations that only arrays of equal members have."""
    return ArrayError(
        f"{what} is not possible on {name}: it is made of several arrays in a fixed layout",
        hint=f"fail and add disks instead, or make a new array; 'raidlab array show {name}' shows what it consists of",
    )


def _found(session: LabSession, name: str) -> FoundVolume:
    found = session.found.array(name)
    if not isinstance(found, FoundVolume):
        raise ArrayError(f"there is no array {name} on the lab's disks", hint="'raidlab array show' lists the arrays")
    return found


def _running(session: LabSession, name: str) -> FoundVolume:
    session.volume(name)
    return _found(session, name)


def _block_names(session: LabSession) -> tuple[str, ...]:
    return session.machine.list_dirs(["/sys/block"])["/sys/block"]


def _arrays(status: VolumeStatus, windows: Iterable[int]) -> dict[int, str]:
    wanted = frozenset(windows)
    return {
        each.window.number: each.array.name for each in status.windows if each.array and each.window.number in wanted
    }


def _awake_first(status: VolumeStatus, windows: Iterable[int], title: str, plan: Plan) -> Plan:
    """Take freshly assembled arrays out of read-auto: until then md writes no superblock, so it forgets a failure."""
    names = _arrays(status, windows).values()
    why = "An assembled array waits for its first write; from now on md records changes."
    first = (
        Step(("mdadm", "--readwrite", each.array.device), why, writes_devices=(each.array.device,))
        for each in status.windows
        if each.array and each.array.name in names and each.array.state is ArrayState.READ_AUTO
    )
    return Plan(title, (*first, *plan.steps))


def _unmount(session: LabSession, name: str) -> Plan:
    why = "Everything cached is written to the array, and the array can be stopped."
    places = session.mounted_on(name)
    return Plan.of(f"Stop {name}", (Step(("umount", place), why) for place in places))
