"""The array kind of volumes of unequal disks (``ADAPT``).

A volume is found by the labels on its disks. A running volume consists of slices and md arrays, and is shown as one
array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import msgspec

from lab.adapt import operations
from lab.adapt.label import (
    LABEL_AREA_BYTES,
    Label,
    VolumeStage,
    copies_in,
    layout_of,
    names_volume,
    needed_bytes,
    newest,
    parse_slice_name,
    volume_device,
    windows_named,
)
from lab.adapt.layout import AdaptLevel, Composition, TierWindow
from lab.adapt.spec import DEFAULT_CHUNK_BYTES, VolumeSpec, are_equal, slice_rows
from lab.arrays.array import Array, ArrayKind, OpenArrays
from lab.arrays.discovery import FoundArray
from lab.arrays.levels import Level, Raid5, is_array_name, node_of
from lab.arrays.operations import set_sync_speed
from lab.arrays.spec import METADATA_VERSION, ArraySpec, ConsistencyPolicy
from lab.arrays.status import (
    ArrayState,
    ArrayStatus,
    InnerArray,
    Inside,
    MemberStatus,
    SliceState,
    SyncAction,
    SyncProgress,
    read_arrays,
)
from lab.disks import LabDisk
from lab.disks.inventory import DiskEnds, mapped_devices
from lab.errors import ArrayError, SpecError
from lab.gates.decoding import read_count
from lab.machine.api import Machine
from lab.plans import Plan, Step
from lab.tables import Table
from lab.units import SECTOR_BYTES, counted, human_bytes


@dataclass(frozen=True, slots=True)
class Stack:
    """The running parts of volumes on a machine, which are slices, md arrays on them, and mapped volumes."""

    slices: Mapping[tuple[str, int, int], str]
    """Kernel names of the slices, by (volume, disk, window)."""
    arrays: Mapping[str, Mapping[int, str]]
    """md names, by volume and window."""
    volumes: Mapping[str, str]
    """Kernel names of the mapped volumes, by volume."""
    nodes: Mapping[tuple[str, int], str]
    """Nodes of the disks with slices, by (volume, disk)."""

    def disks_cut(self, volume: str) -> tuple[int, ...]:
        return tuple(sorted({disk for name, disk, _ in self.slices if name == volume}))


def read_stack(machine: Machine) -> Stack:
    """Read the device-mapper devices of a machine. This takes one round trip if there are none."""
    mapped = mapped_devices(machine)
    slices = {parsed: kernel for name, kernel in mapped.items() if (parsed := parse_slice_name(name))}
    folders = {key: f"/sys/block/{kernel}" for key, kernel in slices.items()}
    paths = [f"{folder}/{part}" for folder in folders.values() for part in ("holders", "slaves")]
    listed = machine.list_dirs(paths) if paths else {}
    arrays: dict[str, dict[int, str]] = {}
    nodes = {}
    for (volume, disk, window), folder in sorted(folders.items()):
        for below in listed[f"{folder}/slaves"]:
            nodes[volume, disk] = node_of(below)
        for holder in listed[f"{folder}/holders"]:
            if is_array_name(holder):
                arrays.setdefault(volume, {})[window] = holder
    ordered = {volume: dict(sorted(own.items())) for volume, own in arrays.items()}
    volumes = {name: kernel for name, kernel in mapped.items() if names_volume(name)}
    return Stack(slices, ordered, volumes, nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVolume(FoundArray):
    """A volume found on the disks, with its newest label and the nodes of its disks by number."""

    label: Label
    nodes: Mapping[int, str] = field(hash=False)
    former_nodes: Mapping[int, str] = field(hash=False)
    """The nodes of failed disks that have not been replaced. These disks are attached but not used."""

    def start_plan(self, machine: Machine) -> Plan:
        taken = machine.list_dirs(["/sys/block"])["/sys/block"]
        return operations.assemble(self.label, self.nodes, windows_named(self.label, taken))

    def clear_away(self, machine: Machine) -> None:
        for step in self.stop_plan(read_stack(machine)).steps:
            machine.run(step.argv, check=False)

    def stop_plan(self, stack: Stack) -> Plan:
        cut = stack.disks_cut(self.name)
        whole = operations.stop(self.label, cut, stack.arrays.get(self.name, {}))
        steps = whole.steps if self.name in stack.volumes else whole.steps[1:]
        return Plan(whole.title, steps if cut else steps[:-1])


def volumes_in(labels: Mapping[str, Label]) -> tuple[FoundVolume, ...]:
    """Return the volumes that the labels describe.

    If several volumes that could be started have the same name, only the one with the lowest UUID can be started.
    """
    found: list[FoundVolume] = []
    for uuid in sorted({label.uuid for label in labels.values()}):
        volume = _volume({node: label for node, label in labels.items() if label.uuid == uuid})
        if not volume.refusal and any(other.name == volume.name and not other.refusal for other in found):
            volume = replace(volume, refusal=f"another volume has the name {volume.name}")
        found.append(volume)
    return tuple(sorted(found, key=lambda volume: (len(volume.name), volume.name, volume.refusal)))


def _volume(labels: Mapping[str, Label]) -> FoundVolume:
    label = max(labels.values(), key=lambda each: each.sequence)
    present: dict[int, str] = {}
    former = []
    failed: dict[int, str] = {}
    for node, own in sorted(labels.items()):
        disk = next((number for number, each in enumerate(label.disks) if each.uuid == own.own_uuid), None)
        if disk is None or label.disks[disk].is_failed or disk in present:
            former.append(node)
            if disk is not None and label.disks[disk].is_failed:
                failed[disk] = node
        else:
            present[disk] = node
    nodes = dict(sorted(present.items()))
    return FoundVolume(
        name=label.name,
        uuid=label.uuid,
        level=label.rule.value,
        slot_count=len(label.disks),
        working_slots=tuple(nodes),
        devices=tuple(nodes.values()),
        former_devices=tuple(former),
        updated_seconds=0,
        refusal=_refusal(label, present),
        label=label,
        nodes=nodes,
        former_nodes=failed,
    )


def _refusal(label: Label, present: Mapping[int, str]) -> str:
    if label.stage is not VolumeStage.READY:
        return "its creation was interrupted; there are no data on it yet"
    try:
        composition = layout_of(label).composition
    except ArrayError as error:
        return error.message
    missing = frozenset(range(len(label.disks))) - present.keys()
    if lost := composition.lost_windows(missing):
        gone = ", ".join(map(str, sorted(missing)))
        arrays = f"{len(lost)} of its {len(composition.windows)} arrays"
        return f"disks {gone} are missing or failed, which is more than {arrays} can survive"
    return ""


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """One array of a volume. ``array`` is None if the array is not running."""

    window: TierWindow
    array: ArrayStatus | None

    @property
    def is_lost(self) -> bool:
        """Whether more than one member is missing, so that the data of the window cannot be read."""
        return self.array is None or self.array.degraded_count > 1

    @property
    def is_degraded(self) -> bool:
        return self.array is None or self.array.is_degraded


@dataclass(frozen=True, slots=True)
class VolumeDisk:
    """One disk of a volume. ``windows`` are the windows with a slice on the disk.

    The disk is in sync in the windows in ``working``, in sync or being rebuilt in those in ``present``, and faulty in
    those in ``faulty``.
    """

    number: int
    node: str | None
    size_bytes: int
    """Bytes that the volume uses on the disk, including metadata."""
    windows: tuple[int, ...]
    working: tuple[int, ...]
    present: tuple[int, ...]
    faulty: tuple[int, ...]
    is_failed: bool

    @property
    def is_incomplete(self) -> bool:
        """Whether the disk is part of the volume, but some of its windows have not been rebuilt."""
        return bool(self.present) and self.working != self.windows and not self.faulty

    @property
    def state(self) -> str:
        if self.node is None and not self.working:
            return "missing"
        if len(self.working) == len(self.windows):
            return "in sync"
        if self.is_failed or (self.faulty and not self.working):
            return "faulty"
        if self.faulty:
            return f"faulty in {len(self.faulty)} of {len(self.windows)} arrays"
        return f"in sync in {len(self.working)} of {len(self.windows)} arrays"


def _disks(
    found: FoundVolume, composition: Composition, windows: tuple[WindowStatus, ...], stack: Stack
) -> Iterable[VolumeDisk]:
    label = found.label
    for number in range(len(label.disks)):
        own = tuple(window.number for window in composition.windows_on(number))
        members = {}
        for window in own:
            device = f"/dev/{stack.slices.get((found.name, number, window), '')}"
            array = windows[window].array
            members[window] = next((each for each in array.members if each.device == device), None) if array else None
        yield VolumeDisk(
            number=number,
            # Unlike the labels, the slices are correct even while a disk is being replaced.
            node=stack.nodes.get((found.name, number)) or found.nodes.get(number) or found.former_nodes.get(number),
            size_bytes=needed_bytes(label, number),
            windows=own,
            working=tuple(window for window, member in members.items() if member and member.is_in_sync),
            present=tuple(window for window, member in members.items() if member and not member.is_faulty),
            faulty=tuple(window for window, member in members.items() if member and member.is_faulty),
            is_failed=label.disks[number].is_failed,
        )


@dataclass(frozen=True, slots=True)
class VolumeSync:
    """The sync of a volume, over all arrays that take part in it."""

    action: SyncAction
    number: int
    """The number of the array that is being synchronised, counted from 1."""
    count: int
    """The number of arrays that take part. In a rebuild, these are the arrays with a slice on the disk."""
    at_once: int
    """The number of arrays that are synchronised at the moment. Only initial resyncs run in parallel."""
    progress: SyncProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeArray(ArrayStatus):
    """The state of a running volume. ``degraded_count`` is the number of disks that are not fully in sync.

    A member is *faulty* if it is not present in any of its arrays, and in sync if it is in sync in all of them.
    """

    unit: ClassVar[str] = "disk"
    waits_words: ClassVar[str] = "rebuild is paused"
    cannot: ClassVar[frozenset[str]] = frozenset({"corrupt", "re_add", "replace", "bitmap", "grow"})
    """Operations that ``Volume`` does not implement. ``Array`` refuses these. ``_unless_allowed`` in lab.actions.arrays
    disables the keys of the verbs that need such an operation.
    """

    label: Label
    disks: tuple[VolumeDisk, ...]
    windows: tuple[WindowStatus, ...]
    optimal_io_bytes: int
    mapped_name: str
    """The kernel name of the mapped device, such as dm-12."""
    sync: VolumeSync | None

    @property
    def device(self) -> str:
        return volume_device(self.name)

    @property
    def kernel_name(self) -> str:
        return self.mapped_name

    @property
    def inner(self) -> tuple[ArrayStatus, ...]:
        return tuple(window.array for window in self.windows if window.array)

    @property
    def busy(self) -> tuple[ArrayStatus, ...]:
        """The arrays with a running or pending sync."""
        return tuple(each for each in self.inner if each.owes_sync)

    @property
    def lost(self) -> tuple[WindowStatus, ...]:
        return tuple(window for window in self.windows if window.is_lost)

    @property
    def windows_words(self) -> str:
        """The state of the windows, which is ``clean``, ``degraded``, or the extent of the data loss.

        ``state_words`` counts disks that are not fully in sync, and says which sync is running.
        """
        return self.loss_words or ("degraded" if self.has_degraded_window else "clean")

    @property
    def failures_survived(self) -> int:
        """The number of disk failures that the volume is certain to survive now: 0 while degraded, otherwise 1."""
        return int(not self.has_degraded_window and not self.lost)

    @property
    def has_degraded_window(self) -> bool:
        return any(window.is_degraded for window in self.windows)

    def disk(self, node: str) -> VolumeDisk:
        """Return the disk with this node. Raises ArrayError if the volume has none."""
        for disk in self.disks:
            if disk.node == node:
                return disk
        nodes = ", ".join(disk.node for disk in self.disks if disk.node)
        raise ArrayError(f"{node} is not a disk of {self.name}", hint=f"its disks are {nodes}")

    def broken_by(self, disk: VolumeDisk) -> tuple[int, ...]:
        """Return the windows that would lose data if this disk failed now."""
        return tuple(
            each.window.number
            for each in self.windows
            if each.window.number in disk.working and each.array and each.array.is_degraded
        )

    def _disk(self, member: MemberStatus) -> VolumeDisk:
        return next(disk for disk in self.disks if disk.number == member.slot)

    @property
    def inside(self) -> Inside:
        rows = slice_rows([each.window for each in self.windows], len(self.disks))
        return Inside(
            tuple(map(_member, self.disks)),
            tuple(InnerArray(f"{w.window.width}+1", w.array, w.is_lost, w.is_degraded) for w in self.windows),
            rows,
            tuple(
                tuple(
                    None if number is None else _slice_state(self.disks[disk], self.windows[number])
                    for disk, number in enumerate(row.windows)
                )
                for row in rows
            ),
        )

    @property
    def raid(self) -> Level:
        return Raid5()

    @property
    def has_lost_data(self) -> bool:
        return bool(self.lost)

    @property
    def loss_words(self) -> str:
        return f"data lost in {len(self.lost)} of {len(self.windows)} arrays" if self.lost else ""

    def works_without(self, member: MemberStatus) -> bool:
        return not self.broken_by(self._disk(member))

    def breaks_without(self, member: MemberStatus) -> bool:
        return not self.works_without(member)

    def with_progress(self, progress: Mapping[str, SyncProgress]) -> VolumeArray:
        windows = tuple(
            replace(window, array=window.array.with_progress(progress)) if window.array else window
            for window in self.windows
        )
        if windows == self.windows:
            return self
        sync = sync_of(windows, self.disks, self.label)
        return replace(self, windows=windows, sync=sync, sync_progress=sync.progress if sync else None)

    def bridged(self, before: ArrayStatus) -> ArrayStatus:
        """Continue to show the sync of ``before`` while md is briefly idle between two arrays of a rebuild or scrub."""
        sync = before.sync if isinstance(before, type(self)) else None
        if sync is None or sync.number >= sync.count or not (sync.action in _SCRUBS or self.is_interrupted):
            return self
        return replace(self, sync_action=before.sync_action, sync_progress=before.sync_progress, sync=sync)

    @property
    def is_interrupted(self) -> bool:
        """Whether a disk is part of the volume but not in sync in at least one array, and no rebuild is running."""
        return any(disk.is_incomplete for disk in self.disks) and not self.sync_action.is_busy

    @property
    def sync_place(self) -> str:
        """Which array is being synced, such as ``2 of 5``. Empty if several are, or if only one takes part."""
        sync = self.sync
        return f"{sync.number} of {sync.count}" if sync and sync.at_once == 1 and sync.count > 1 else ""

    def disk_to_add(self, free: Sequence[LabDisk], chosen: LabDisk | None, disks: Sequence[LabDisk]) -> LabDisk | None:
        """Return the disk with an interrupted rebuild, or else ``chosen``, or else the smallest free disk that fits."""
        # Add one disk at a time, because a rebuild goes through the arrays one after another.
        if self.sync_action.is_busy or not self.is_degraded or self.lost:
            return None
        if self.is_interrupted:
            waiting = {member.device for member in self.members if member.is_rebuilding}
            return next((disk for disk in disks if disk.node in waiting), None)
        places = [disk.size_bytes for disk in self.disks if not disk.present]
        if not places or chosen:
            return chosen if places else None
        fitting = [disk for disk in free if disk.size_bytes >= min(places)]
        return min(fitting, key=lambda disk: disk.size_bytes, default=None)

    @property
    def summary(self) -> str:
        working = sum(len(disk.working) == len(disk.windows) for disk in self.disks)
        parts = [self.level, human_bytes(self.size_bytes), self.windows_words]
        parts += [f"{working} of {len(self.disks)} disks in sync", self.kind_words]
        parts += [f"{each.name} {each.sync_words}" for each in self.busy]
        parts += [f"{self.mismatch_sectors} sectors mismatch"] if self.mismatch_sectors else []
        return f"{self.name}: " + ", ".join(parts)

    @property
    def kind_words(self) -> str:
        return f"{counted(len(self.windows), 'array')} inside"

    @property
    def inspecting_command(self) -> str:
        return "dmsetup ls --tree"

    @property
    def unpredicted(self) -> str:
        widths = sorted({window.window.width for window in self.windows})
        cost = " or ".join(str(cost) for cost in sorted({Raid5().small_write(width + 1).ios for width in widths}))
        return (
            f"{self.name} uses {len(self.windows)} arrays in turn, with stripes of {' and '.join(map(str, widths))} "
            f"data chunks. A small write costs {cost} I/Os, depending on where it lands"
        )

    def faulty_sentence(self, member: MemberStatus, disk: str) -> str:
        faulty = len(self._disk(member).faulty)
        return f"{self.name} lost {disk} in {faulty} of {len(self.windows)} arrays"

    def in_sync_sentence(self, member: MemberStatus, disk: str) -> str:
        return f"{disk} is in sync with {self.name}, in all of its {len(self._disk(member).windows)} arrays"

    def member_note(self, member: MemberStatus) -> str:
        disk = self._disk(member)
        if disk.faulty and disk.present:
            return f"{self.name} faulty in {len(disk.faulty)} of {len(disk.windows)}"
        return f"{self.name} rebuild waits" if member.is_rebuilding and self.is_interrupted else ""

    def use_words(self, member: MemberStatus) -> str:
        own = self._disk(member)
        arrays = counted(len(own.windows), "array")
        words = own.state if own.working != own.windows else f"in {arrays} of {self.name}"
        return f"{human_bytes(own.size_bytes)}, {words}"

    def failing_note(self, member: MemberStatus, disk: str) -> str:
        own = self._disk(member)
        if lost := self.broken_by(own):
            arrays = f"{len(lost)} of its {len(self.windows)} arrays"
            return f"{self.name} cannot run without {disk}: after this the data of {arrays} are lost."
        return (
            f"{disk} fails in its {len(own.windows)} arrays of {self.name}. {self.name} survives this: "
            "it continues, degraded, and the other disks record which one failed."
        )

    @property
    def adding_note(self) -> str:
        if self.is_interrupted:
            return "Resumes the rebuild where it stopped, one array after another."
        return (
            "The disk takes the place of the missing one in all of its arrays. md rebuilds them one after another; "
            "if that is interrupted, the same key resumes it."
        )


_SCRUBS = (SyncAction.CHECK, SyncAction.REPAIR)


def read_volume(machine: Machine, found: FoundVolume, stack: Stack, arrays: Sequence[ArrayStatus]) -> VolumeArray:
    """Read the state of a volume; ``arrays`` are all running md arrays. Raises ArrayError if it is not running."""
    if found.name not in stack.volumes:
        raise ArrayError(
            f"array {found.name} is not running", hint=f"start it with 'raidlab array assemble {found.name}'"
        )
    block = stack.volumes[found.name]
    paths = [f"/sys/block/{block}/size", f"/sys/block/{block}/queue/optimal_io_size"]
    texts = machine.read(paths)
    size, optimal = (read_count(texts[path], path) for path in paths)
    names = stack.arrays.get(found.name, {})
    inner = {status.name: status for status in arrays if status.name in names.values()}
    composition = layout_of(found.label).composition
    windows = tuple(WindowStatus(window, inner.get(names.get(window.number, ""))) for window in composition.windows)
    disks = tuple(_disks(found, composition, windows, stack))
    return volume_of(
        found.label, disks, windows, size_bytes=size * SECTOR_BYTES, optimal_io_bytes=optimal, mapped_name=block
    )


def volume_of(
    label: Label,
    disks: tuple[VolumeDisk, ...],
    windows: tuple[WindowStatus, ...],
    *,
    size_bytes: int,
    optimal_io_bytes: int,
    mapped_name: str,
) -> VolumeArray:
    """Derive the state of a running volume from the states of its disks and arrays."""
    sync = sync_of(windows, disks, label)
    arrays = [window.array for window in windows if window.array]
    return VolumeArray(
        name=label.name,
        level=label.rule.value,
        state=_state(windows),
        raid_disks=len(disks),
        degraded_count=sum(disk.working != disk.windows for disk in disks),
        size_bytes=size_bytes,
        chunk_bytes=label.chunk_bytes,
        layout_number=None,
        component_size_kib=None,
        metadata_version=METADATA_VERSION,
        consistency_policy="resync",
        sync_action=sync.action if sync else SyncAction.IDLE,
        sync_progress=sync.progress if sync else None,
        sync_speed_kib_per_second=None,
        mismatch_sectors=sum(each.mismatch_sectors or 0 for each in arrays),
        bitmap_location=None,
        reshape_position_sectors=None,
        resync_start_sectors=next((each.resync_start_sectors for each in arrays if each.awaits_resync), None),
        # A failed disk without a slice in any array is not a member, and its slot is empty.
        members=tuple(_member(disk) for disk in disks if disk.node and (disk.present or disk.faulty)),
        holders=(),
        uuid="".join(letter for letter in label.uuid if letter.isalnum()),
        label=label,
        disks=disks,
        windows=windows,
        optimal_io_bytes=optimal_io_bytes,
        mapped_name=mapped_name,
        sync=sync,
    )


def _state(windows: Sequence[WindowStatus]) -> ArrayState:
    if any(window.is_lost for window in windows):
        return ArrayState.BROKEN
    states = {window.array.state for window in windows if window.array}
    order = (ArrayState.READ_AUTO, ArrayState.ACTIVE, ArrayState.WRITE_PENDING, ArrayState.ACTIVE_IDLE)
    return next(filter(states.__contains__, order), ArrayState.CLEAN)


def _member(disk: VolumeDisk) -> MemberStatus:
    return MemberStatus(disk.node or "", disk.number, _flags(disk), None, None, disk.size_bytes // 1024)


def _slice_state(disk: VolumeDisk, window: WindowStatus) -> SliceState:
    number = window.window.number
    if number in disk.working:
        return SliceState.WORKING
    if number in disk.present:
        return SliceState.REBUILDING
    return SliceState.LOST if window.is_lost else SliceState.MISSING


def _flags(disk: VolumeDisk) -> frozenset[str]:
    if disk.working == disk.windows:
        return frozenset({"in_sync"})
    if not disk.present:
        return frozenset({"faulty"})
    return frozenset() if disk.faulty else frozenset({"spare"})


def sync_of(windows: Sequence[WindowStatus], disks: Sequence[VolumeDisk], label: Label) -> VolumeSync | None:
    """Return the running sync of a volume, or None."""
    at_work = [window for window in windows if window.array and window.array.sync_action.is_busy]
    if not at_work:
        return None
    first = at_work[0].array
    assert first is not None
    action = first.sync_action
    if action in _SCRUBS:
        taking_part = [window for window in windows if window.array]
        done = [window for window in taking_part if window.window.number < at_work[0].window.number]
    else:
        incomplete = [disk for disk in disks if disk.is_incomplete] if len(at_work) == 1 else []
        numbers = {number for disk in incomplete for number in disk.windows}
        taking_part = [window for window in windows if not numbers or window.window.number in numbers]
        done = [window for window in taking_part if window.array and not (window.is_degraded or window.array.owes_sync)]
    total = sum(window.window.lines for window in taking_part)
    moved = sum(window.window.lines for window in done)
    moved_part = sum(window.window.lines * _fraction(window) for window in at_work if window not in done)
    sectors = label.chunk_bytes // SECTOR_BYTES
    return VolumeSync(
        action,
        min(len(done) + 1, len(taking_part)),
        len(taking_part),
        len(at_work),
        SyncProgress(int((moved + moved_part) * sectors), total * sectors),
    )


def _fraction(window: WindowStatus) -> float:
    return window.array.sync_progress.fraction if window.array and window.array.sync_progress else 0.0


class Volume(Array):
    """A volume of unequal disks. Its plans include waits for syncs, because its arrays share disks."""

    waits_itself = True

    @property
    def device(self) -> str:
        return volume_device(self.name)

    @property
    def refused_hint(self) -> str:
        return f"'raidlab array destroy {self.name}' removes it permanently"

    @property
    def _known(self) -> FoundVolume:
        found = self.found
        if isinstance(found, FoundVolume):
            return found
        raise ArrayError(
            f"there is no array {self.name} on the lab's disks", hint="'raidlab array show' lists the arrays"
        )

    @property
    def _stack(self) -> Stack:
        return read_stack(self.arrays.machine)

    def read(self) -> VolumeArray:
        machine = self.arrays.machine
        return read_volume(machine, self._known, self._stack, read_arrays(machine))

    def volume(self) -> VolumeArray:
        return cast(VolumeArray, self.status())

    def start(self, found: FoundArray, *, force: bool, nodes: tuple[str, ...]) -> Plan:
        if nodes:
            raise self.refusal("starting it from some of its disks")
        if force:
            raise ArrayError(
                f"array {self.name} cannot be started with --force, because out-of-date disks would mix old and new "
                "data",
                hint="attach the missing disks",
            )
        if found.refusal:
            raise ArrayError(
                f"array {self.name} cannot be started: {found.refusal}",
                hint=f"attach the missing disks, or remove the array with 'raidlab array destroy {self.name}'",
            )
        return found.start_plan(self.arrays.machine)

    def stop(self) -> Plan:
        self.status()
        return self.unmounted(f"Stop {self.name}") + self._known.stop_plan(self._stack)

    def destroy(self) -> Plan:
        found, stack = self._known, self._stack
        plan = Plan(f"Destroy {self.name}")
        if self.name in stack.volumes or stack.disks_cut(self.name):
            plan += self.unmounted(plan.title) + found.stop_plan(stack)
        return plan + Plan.of(plan.title, operations.erase(found.label, (*found.devices, *found.former_devices)))

    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        volume, found = self.volume(), self._known
        own = volume.disk(self.arrays.node(disk))
        if not own.present:
            raise ArrayError(f"{disk} is already faulty", hint=f"'raidlab array remove {self.name} {disk}' removes it")
        broken = volume.broken_by(own)
        if broken and not breaks_array:
            raise ArrayError(
                f"array {self.name} cannot run without {disk}: "
                f"the data of {len(broken)} of its {len(volume.windows)} arrays would be lost",
                hint="use --break-array to fail it anyway",
            )
        arrays = _arrays(volume, own.present)
        without_it = (*broken, *(each.window.number for each in volume.lost))
        steps = operations.fail(found.label, found.nodes, own.number, arrays, without_it)
        return _awake_first(volume, arrays, f"Fail {disk} in {self.name}", steps)

    def remove(self, disk: str) -> Plan:
        volume = self.volume()
        own = volume.disk(self.arrays.node(disk))
        if own.present:
            raise ArrayError(
                f"{disk} is in use in {self.name}", hint=f"fail it first: raidlab array fail {self.name} {disk}"
            )
        if own.number not in self._stack.disks_cut(self.name):
            return Plan(f"{disk} has already been removed from {self.name}, and is not used again unless it is added")
        steps = operations.remove(self._known.label, own.number, _arrays(volume, own.faulty))
        return Plan.of(f"Remove {disk} from {self.name}", steps)

    def add(self, disk: str) -> Plan:
        """Replace a failed or missing disk and rebuild its arrays, or resume an interrupted rebuild."""
        volume, found, node = self.volume(), self._known, self.arrays.node(disk)
        if volume.lost:
            raise ArrayError(
                f"array {self.name}: {volume.windows_words}, so nothing can be rebuilt",
                hint="restore its data from a backup to a new array; "
                f"'raidlab array destroy {self.name}' frees the disks",
            )
        own = next((each for each in volume.disks if each.node == node and not each.is_failed), None)
        if own:
            return self._go_on(volume, own, disk)
        place = self._place_for(volume, disk)
        self.arrays.check_free([] if place.node == node else [node], besides=self.name)
        label = found.label
        steps: list[Step] = []
        if place.number in self._stack.disks_cut(self.name):
            steps += operations.remove(label, place.number, _arrays(volume, place.faulty))
        arrays = _arrays(volume, place.windows)
        steps += operations.add(label, found.nodes, place.number, node, arrays)
        return _awake_first(volume, arrays, f"Add {disk} to {self.name}", steps)

    def _go_on(self, volume: VolumeArray, own: VolumeDisk, disk: str) -> Plan:
        unfinished = tuple(window for window in own.windows if window not in own.working)
        arrays = _arrays(volume, unfinished)
        at_work = {each.name for each in volume.inner if each.sync_action.is_busy}
        if all(number in own.present and name in at_work for number, name in arrays.items()):
            raise ArrayError(f"{disk} is already a disk of {self.name}", hint="choose a free disk")
        if own.faulty:
            raise ArrayError(
                f"{disk} has failed in {len(own.faulty)} arrays of {self.name}",
                hint=f"fail it in all arrays of {self.name} first: raidlab array fail {self.name} {disk}",
            )
        steps = operations.rebuild(self._known.label, own.number, arrays, own.present)
        return _awake_first(volume, arrays, f"Continue the rebuild of {self.name} on {disk}", steps)

    def _place_for(self, volume: VolumeArray, disk: str) -> VolumeDisk:
        places = [each for each in volume.disks if not each.present]
        if not places:
            raise ArrayError(
                f"no disk of {self.name} has failed, and one more disk would change its whole layout",
                hint="copy the data elsewhere, then create a new array with all the disks and copy the data back",
            )
        size = self.arrays.lab.disk(self.arrays.node(disk)).size_bytes
        fitting = [each for each in places if each.size_bytes <= size]
        if not fitting:
            needed = human_bytes(min(each.size_bytes for each in places))
            raise ArrayError(
                f"{disk} has {human_bytes(size)}, but replacing the failed disk of {self.name} needs {needed}",
                hint="use a larger disk; 'raidlab disks' shows the sizes",
            )
        # Use the largest place that the disk fits, and leave the others for smaller disks.
        return max(fitting, key=lambda each: each.size_bytes)

    def scrub(self, action: str = "check") -> Plan:
        """Check or repair all arrays, one after another, or stop a running scrub."""
        volume = self.volume()
        arrays = _arrays(volume, range(len(volume.windows)))
        return _awake_first(volume, arrays, f"Scrub {self.name}: {action}", operations.scrub(arrays, action))

    def speed(self, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
        plan = Plan(f"Set the sync speed of {self.name}")
        for each in self.volume().inner:
            plan += set_sync_speed(
                each.name, minimum_kib_per_second=minimum_kib_per_second, maximum_kib_per_second=maximum_kib_per_second
            )
        return plan

    def text(self, status: ArrayStatus) -> tuple[Mapping[str, object], Sequence[Table]]:
        volume = cast(VolumeArray, status)
        label = volume.label
        reference = human_bytes(label.reference * label.chunk_bytes)
        survives = "1 failed disk" if volume.failures_survived else "no failed disks now; 1 failed disk when complete"
        facts: dict[str, object] = {
            "array": self.name,
            "level": volume.level,
            "state": volume.windows_words,
            "device": volume.device,
            "capacity": f"{human_bytes(volume.size_bytes)} ({volume.size_bytes} bytes)",
            "chunk": human_bytes(label.chunk_bytes),
            "reference stripe": f"{label.reference} chunks, {reference}",
            "optimal I/O": human_bytes(volume.optimal_io_bytes) if volume.optimal_io_bytes else "unknown",
            "uuid": label.uuid,
            "survives": survives,
        }
        if volume.mismatch_sectors:
            facts["mismatches"] = f"{volume.mismatch_sectors} sectors in the last scrub"
        disks = [
            (self._disk_name(disk), human_bytes(disk.size_bytes), len(disk.windows), disk.state)
            for disk in volume.disks
        ]
        inner = []
        for each in volume.windows:
            names = " ".join(self._disk_name(volume.disks[disk]) for disk in each.window.disks)
            state = "lost" if each.is_lost else "degraded" if each.is_degraded else "clean"
            if each.array and each.array in volume.busy:
                state += f", {each.array.sync_words}"
            inner.append((each.array.name if each.array else "-", f"{each.window.width}+1", state, names))
        disk_table = Table.listing(("disk", "used", "arrays", "state"), disks, right=("used", "arrays"))
        return facts, [disk_table, Table.listing(("array", "data+parity", "state", "disks"), inner)]

    def value(self, status: ArrayStatus) -> dict[str, Any]:
        volume = cast(VolumeArray, status)
        value: dict[str, Any] = {
            "name": volume.name,
            "uuid": volume.label.uuid,
            "level": volume.level,
            "size_bytes": volume.size_bytes,
            "optimal_io_bytes": volume.optimal_io_bytes,
            "chunk_bytes": volume.chunk_bytes,
            "reference_blocks": volume.label.reference,
            "disks": msgspec.to_builtins(volume.disks),
            "windows": msgspec.to_builtins(volume.windows),
            "kernel_name": volume.kernel_name,
            "device": volume.device,
            "state_words": volume.windows_words,
            "is_degraded": volume.has_degraded_window,
            "mismatch_sectors": volume.mismatch_sectors,
            "lost_windows": [each.window.number for each in volume.lost],
            "failures_survived_now": volume.failures_survived,
        }
        for disk, entry in zip(volume.disks, value["disks"], strict=True):
            entry |= {"disk": self._disk_name(disk), "state": disk.state}
        for each, entry in zip(volume.windows, value["windows"], strict=True):
            for member in (entry["array"] or {}).get("members", ()):
                member["flags"] = sorted(member["flags"])
            entry |= {"is_lost": each.is_lost, "is_degraded": each.is_degraded}
        return value

    def details(self) -> dict[str, str]:
        label = self._known.label
        layout = layout_of(label)
        return {
            "reference_chunks": str(label.reference),
            "windows": str(len(layout.composition.windows)),
            "targets": str(len(layout.segments)),
            "reserve_kib": str(label.reserve_bytes // 1024),
        }

    def _disk_name(self, disk: VolumeDisk) -> str:
        return self.arrays.disk_name(disk.node) if disk.node else f"({disk.number})"


def _arrays(volume: VolumeArray, windows: Iterable[int]) -> dict[int, str]:
    wanted = frozenset(windows)
    return {
        each.window.number: each.array.name for each in volume.windows if each.array and each.window.number in wanted
    }


def _awake_first(volume: VolumeArray, arrays: Mapping[int, str], title: str, steps: Iterable[Step]) -> Plan:
    """Return a plan that first takes assembled arrays out of read-auto, in which md does not record failures."""
    why = "An assembled array waits for its first write. After this step, md records changes."
    first = (
        Step(("mdadm", "--readwrite", each.device), why, writes_devices=(each.device,))
        for each in volume.inner
        if each.name in arrays.values() and each.state is ArrayState.READ_AUTO
    )
    return Plan(title, (*first, *steps))


class AdaptKind(ArrayKind):
    """The kind for AdaptRaid5, and for the SHR-like layout of storage appliances with disks of several sizes."""

    levels: ClassVar[tuple[str, ...]] = tuple(AdaptLevel)
    listed_as = "volumes"
    default_chunk_bytes = DEFAULT_CHUNK_BYTES
    head_bytes = LABEL_AREA_BYTES

    def is_name(self, word: str) -> bool:
        return names_volume(word)

    def name(self, number: int) -> str:
        return f"adapt{number}"

    def raid(self, level: str) -> Level:
        return Raid5()

    def options(self, level: str) -> frozenset[str]:
        # The widths of an SHR-like layout follow from the tiers alone.
        return frozenset({"reference", "utilisation"} if level == AdaptLevel.ADAPT5 else {"utilisation"})

    def member_count(self, level: str, free: int) -> int:
        return free

    def suits(self, disks: Sequence[LabDisk]) -> bool:
        return not are_equal(disks)

    def spec(self, asked: ArraySpec, disks: Sequence[LabDisk]) -> VolumeSpec:
        given = {
            "--spares": asked.spares,
            "--journal": asked.journal_device,
            "--layout": asked.layout,
            "--bitmap-chunk": asked.bitmap_chunk_bytes,
            "--policy": asked.consistency_policy is not ConsistencyPolicy.RESYNC,
        }
        if option := next((option for option, is_given in given.items() if is_given), ""):
            hint = "omit it; 'raidlab array add' replaces a failed disk" if option == "--spares" else "omit it"
            raise SpecError(f"{option} is not possible with level {asked.level}", hint=hint)
        by_node = {disk.node: disk for disk in disks}
        return VolumeSpec(
            tuple(by_node[node] for node in asked.members),
            name=asked.name,
            rule=AdaptLevel(asked.level.lower()),
            chunk_bytes=asked.chunk_bytes or DEFAULT_CHUNK_BYTES,
            reference=asked.reference,
            utilisation=asked.utilisation,
            bitmap=asked.bitmap,
            assume_clean=asked.assume_clean,
        )

    def discover(self, ends: Mapping[str, DiskEnds], host_name: str) -> tuple[FoundArray, ...]:
        labels = {node: newest(copies_in(each.first)) for node, each in ends.items()}
        return volumes_in({node: label for node, label in labels.items() if label})

    def running(self, machine: Machine, found: Sequence[FoundArray]) -> dict[str, str]:
        mapped = read_stack(machine).volumes
        return {volume.uuid: volume.name for volume in found if volume.name in mapped}

    def gathered(self, arrays: OpenArrays, statuses: tuple[ArrayStatus, ...]) -> tuple[ArrayStatus, ...]:
        # Volumes use slices, so without any slice there is no need to query the device mapper.
        if not any(member.device.startswith("/dev/dm-") for status in statuses for member in status.members):
            return statuses
        stack = read_stack(arrays.machine)
        known = [each for each in arrays.found.all if isinstance(each, FoundVolume) and each.name in stack.volumes]
        volumes = (read_volume(arrays.machine, found, stack, statuses) for found in known)
        inner = {name for own in stack.arrays.values() for name in own.values()}
        return (*(status for status in statuses if status.name not in inner), *volumes)

    def array(self, arrays: OpenArrays, name: str) -> Volume:
        return Volume(arrays, name)


ADAPT = AdaptKind()
