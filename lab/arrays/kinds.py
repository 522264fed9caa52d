"""The kinds of array: md's own (on whole disks, managed with mdadm and sysfs), and those that plugins add.

When a lab opens, the arrays on its disks are started, except those that the user has stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from lab.arrays import operations
from lab.arrays.array import Array, ArrayKind, OpenArrays, kind_among
from lab.arrays.discovery import MD_HEAD_BYTES, BroughtUp, FoundArray, arrays_in, superblocks_in
from lab.arrays.levels import DEFAULT_CHUNK_BYTES, AddedKind, Level, LevelName, array_device, is_array_name, parse_level
from lab.arrays.spec import ArraySpec, Bitmap, failures_words_now, penalty_words
from lab.arrays.status import ArrayState, ArrayStatus, read_array, read_arrays
from lab.disks import Lab, LabDisk
from lab.disks.inventory import FIRST_BYTES, DiskEnds, read_ends, signatures_in
from lab.errors import ArrayError, LabError, SpecError
from lab.machine.api import Machine
from lab.plans import Plan, Step
from lab.plugins import extensions
from lab.store import RecordFile
from lab.tables import Table
from lab.units import KIB, SECTOR_BYTES, counted, human_bytes

_WHOLE_ONLY = "; this holds for the complete array, not while a member is missing or rebuilding"


class MdArray(Array):
    """One of md's own arrays."""

    @property
    def device(self) -> str:
        return array_device(self.name)

    @property
    def refused_hint(self) -> str:
        found = self.found
        if found and not found.obstacle:
            return f"start it with 'raidlab array assemble {self.name}'"
        return f"try 'raidlab array assemble {self.name} --force'"

    def read(self) -> ArrayStatus:
        return read_array(self.arrays.machine, self.name)

    def awake(self, status: ArrayStatus) -> Plan:
        return self.awake_first(status, Plan(f"Wake {self.name}"))

    def awake_first(self, status: ArrayStatus, plan: Plan) -> Plan:
        if status.state is not ArrayState.READ_AUTO:
            return plan
        why = (
            "An assembled array waits for its first write. From now on md records changes and continues a pending sync."
        )
        # All devices that the plan writes to, because the guard must refuse any of them before the array leaves
        # read-auto.
        devices = tuple(dict.fromkeys((self.device, *(node for step in plan.steps for node in step.writes_devices))))
        step = Step(("mdadm", "--readwrite", self.device), why, (), writes_devices=devices)
        return Plan(plan.title, (step, *plan.steps))

    def start(self, found: FoundArray, *, force: bool, nodes: tuple[str, ...]) -> Plan:
        if found.obstacle and not force:
            raise ArrayError(
                f"array {self.name} cannot be started: {found.obstacle}",
                hint="use --force to also accept out-of-date members, whose data may be old",
            )
        devices = nodes or ((*found.devices, *found.former_devices) if force else found.devices)
        name = found.named_for([status.name for status in read_arrays(self.arrays.machine)]).name
        return operations.assemble(name, devices, force=force)

    def stop(self) -> Plan:
        members = [member.device for member in self.status().members if not member.is_faulty]
        return self.unmounted(f"Stop {self.name}") + operations.stop(self.name, members)

    def destroy(self) -> Plan:
        found = self.found
        former, plan = found.former_devices if found else (), Plan(f"Destroy {self.name}")
        if found and found not in self.arrays.found.started:
            return plan + operations.zero_superblocks((*found.devices, *former))
        devices = dict.fromkeys([*(member.device for member in self.status().members), *former])
        plan += self.unmounted(plan.title) + operations.stop(self.name)
        return plan + operations.zero_superblocks(tuple(devices))

    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        status = self.status()
        member = status.member(self.arrays.node(disk))
        if member.is_faulty:
            raise ArrayError(f"{disk} is already faulty", hint=f"remove it: raidlab array remove {self.name} {disk}")
        if status.breaks_without(member) and not breaks_array:
            raise cannot_do_without((status,), disk, forced="fail")
        plan = operations.fail(self.name, member.device, breaks_array=not status.works_without(member))
        return self.awake_first(status, plan)

    def remove(self, disk: str) -> Plan:
        status, node = self.status(), self.arrays.node(disk)
        if self._was_member(node) and all(member.device != node for member in status.members):
            return Plan(f"{disk} has already left {self.name}; md starts an array without its failed members")
        member = status.member(node)
        if not (member.is_faulty or member.is_spare):
            raise ArrayError(
                f"{disk} is in use in {self.name}", hint=f"fail it first: raidlab array fail {self.name} {disk}"
            )
        return self.awake_first(status, operations.remove(self.name, node))

    def add(self, disk: str) -> Plan:
        # mdadm would write a superblock even for a RAID 0, but md does not assemble a RAID 0 with one more device.
        status, node = self._redundant_status(), self.arrays.node(disk)
        self._check_joins(status, node)
        self.arrays.check_free([node], besides=self.name)
        self._check_fits(status, disk)
        plan = operations.add(self.name, node, erase_first=self._was_member(node))
        return self.awake_first(status, plan.on_blank_disks())

    def re_add(self, disk: str) -> Plan:
        status, node = self.status(), self.arrays.node(disk)
        member = next((each for each in status.members if each.device == node), None)
        if member and not member.is_faulty:
            raise ArrayError(
                f"{disk} is already in {self.name} ({member.role}), and has missed no writes",
                hint="re-add a member that has failed; 'raidlab array show' lists the state of each member",
            )
        if not status.has_bitmap:
            raise ArrayError(
                f"array {self.name} has no bitmap, so nothing records what {disk} missed",
                hint=f"rebuild the disk completely: raidlab array add {self.name} {disk}",
            )
        if not member and not self._was_member(node):
            raise ArrayError(
                f"{disk} has never been in {self.name}", hint=f"add it: raidlab array add {self.name} {disk}"
            )
        before = operations.remove(self.name, node).steps if member else ()
        plan = operations.re_add(self.name, node)
        return self.awake_first(status, Plan(plan.title, (*before, *plan.steps)))

    def replace(self, old: str, new: str) -> Plan:
        status, old_node, new_node = self._redundant_status(), self.arrays.node(old), self.arrays.node(new)
        if not status.member(old_node).is_in_sync:
            raise ArrayError(f"{old} is not in sync in {self.name}, so it cannot be copied", hint="add a disk instead")
        self._require_complete(status, "no member can be replaced")
        is_spare = any(spare.device == new_node for spare in status.spares)
        if not is_spare:
            self._check_joins(status, new_node)
            self.arrays.check_free([new_node], besides=self.name)
            self._check_fits(status, new)
        plan = operations.replace(self.name, old_node, new_node, is_spare=is_spare)
        return self.awake_first(status, plan.on_blank_disks())

    def scrub(self, action: str = "check") -> Plan:
        return self.awake_first(self._redundant_status(), operations.scrub(self.name, action))

    def speed(self, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
        self._redundant_status()
        return operations.set_sync_speed(
            self.name,
            minimum_kib_per_second=minimum_kib_per_second,
            maximum_kib_per_second=maximum_kib_per_second,
        )

    def bitmap(self, kind: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
        status = self._redundant_status()
        if status.has_bitmap == (kind is not Bitmap.NONE):
            raise ArrayError(
                f"{self.name} already has a bitmap" if status.has_bitmap else f"{self.name} has no bitmap",
                hint="remove it before you add another one" if status.has_bitmap else "add one before you remove it",
            )
        # md returns EBUSY (location_store in drivers/md/md-bitmap.c), and leaving read-auto would start the pending
        # sync.
        if status.sync_action.is_busy or status.awaits_rebuild:
            raise ArrayError(
                f"the bitmap of {self.name} cannot be changed during a sync",
                hint=f"wait until the sync ends: raidlab array wait {self.name}",
            )
        return self.awake_first(status, operations.set_bitmap(self.name, kind, chunk_bytes=chunk_bytes))

    def grow(self, *, disks: Sequence[str] = (), count: int | None = None, level: str | None = None) -> Plan:
        status = self.status()
        joining = self._joining(status, disks, count)
        if joining:
            self._require_complete(status, "it cannot grow")
        waiting = [spare.device for spare in status.spares]
        spares = [node for node in joining if node in waiting]
        added = [node for node in joining if node not in waiting]
        for node in added:
            self._check_joins(status, node)
        self.arrays.check_free(added)
        for node in added:
            self._check_fits(status, node)
        if added and (left := [self.arrays.disk_name(node) for node in waiting if node not in spares]):
            # md takes spares from the front of its list (raid5_start_reshape in drivers/md/raid5.c).
            raise ArrayError(
                f"{self.name} has the spare {left[0]}, which md would use before an added disk",
                hint=f"grow onto {left[0]} as well, or remove it first: raidlab array remove {self.name} {left[0]}",
            )
        if level:
            plan = operations.grow_level(self.name, status.level, level, status.raid_disks, added, spares)
        elif disks or count is not None:
            plan = operations.grow_members(self.name, status.level, status.raid_disks, added, spares)
        else:
            plan = operations.grow_size(self.name)
        return self.awake_first(status, plan.on_blank_disks())

    def _joining(self, status: ArrayStatus, disks: Sequence[str], count: int | None) -> list[str]:
        if count is None:
            return list(dict.fromkeys(self.arrays.node(word) for word in disks))
        more = count - status.raid_disks
        free = [*(spare.device for spare in status.spares), *(disk.node for disk in self.arrays.free_disks())]
        if more < 1:
            raise SpecError(
                f"{self.name} has {status.raid_disks} members", hint="request more members, or name disks to add"
            )
        if len(free) < more:
            raise ArrayError(
                f"{self.name} needs {counted(more, 'more disk')}, but only {len(free)} can be added",
                hint="request fewer members, or add disks with 'raidlab disks add'",
            )
        return free[:more]

    def _require_complete(self, status: ArrayStatus, otherwise: str) -> None:
        """Raise ArrayError if the array is degraded: md would rebuild onto a new disk, but not grow or replace."""
        if not status.is_degraded:
            return
        wait = f"raidlab array wait {self.name}"
        add = f"raidlab array add {self.name} DISK, then {wait}"
        raise ArrayError(
            f"{self.name} is degraded, and {otherwise} before the array is complete",
            hint=f"complete the array first: {wait if status.awaits_rebuild else add}",
        )

    def _check_joins(self, status: ArrayStatus, node: str) -> None:
        member, disk = next((each for each in status.members if each.device == node), None), self.arrays.disk_name(node)
        if member and member.is_faulty:
            raise ArrayError(
                f"{disk} is in {self.name} as a faulty member",
                hint=f"remove it first: raidlab array remove {self.name} {disk}",
            )
        if member:
            raise ArrayError(
                f"{disk} is already in {self.name} ({member.role})",
                hint="name a free disk: 'raidlab disks' shows what uses each disk",
            )

    def _check_fits(self, status: ArrayStatus, disk: str) -> None:
        offsets = [member.data_offset_sectors or 0 for member in status.members]
        if status.component_bytes is None or not offsets:
            return
        needed = status.component_bytes + min(offsets) * SECTOR_BYTES
        size = self.arrays.lab.disk(disk).size_bytes
        if size < needed:
            raise ArrayError(
                f"{disk} has {human_bytes(size)}, but {self.name} needs {human_bytes(needed)} on each member",
                hint="use a larger disk; 'raidlab disks' shows the size of each disk",
            )

    def _redundant_status(self) -> ArrayStatus:
        """Return the status. Raises ArrayError if the level has no redundancy, and therefore never syncs."""
        status = self.status()
        if not status.raid.is_redundant:
            raise ArrayError(
                f"{self.name} is {status.level}, which has no copies or parity to compare or to rebuild from",
                hint="use an array with redundancy",
            )
        return status

    def _was_member(self, node: str) -> bool:
        # A running array's superblocks name a failed disk as a member until they are written: mdadm makes an array
        # read-auto when a disk disappears (Incremental.c). Callers have checked that md does not hold the disk.
        found = self.found
        return bool(found and node in (*found.former_devices, *found.devices))

    def text(self, status: ArrayStatus) -> tuple[Mapping[str, object], Sequence[Table]]:
        found = self.found
        export = self.arrays.machine.run(("mdadm", "--detail", "--export", self.device)).stdout
        uuid = re.search(r"^MD_UUID=(\S+)", export, re.MULTILINE)
        facts: dict[str, object] = {"array": self.name}
        if found and found.needs_asking and found.own_name:
            facts["name"] = found.own_name
        facts |= {"level": status.level, "state": status.state_words}
        facts["capacity"] = f"{human_bytes(status.size_bytes)} ({status.size_bytes} bytes)"
        if status.component_bytes:
            facts["of each member"] = human_bytes(status.component_bytes)
        facts |= {
            "members": f"{status.in_sync_count} of {status.raid_disks} in sync, {len(status.spares)} spare",
            "chunk": human_bytes(status.chunk_bytes) if status.chunk_bytes else "none",
            "layout": status.layout or "none",
            "consistency policy": status.consistency_policy,
            "uuid": uuid[1] if uuid else "unknown",
        }
        if status.mismatch_sectors:
            facts["mismatches"] = f"{status.mismatch_sectors} sectors in the last scrub"
        if level := status.known_raid:
            count, chunk = status.raid_disks, status.chunk_bytes
            stripe = level.full_stripe_bytes(count, chunk) if chunk else 0
            facts |= {
                "survives": failures_words_now(level, status.missing_slots, count),
                "small write costs": penalty_words(level, count) + (_WHOLE_ONLY if status.missing_slots else ""),
                "full stripe": human_bytes(stripe) if stripe else "none",
            }
        if status.sync_words:
            facts["sync"] = status.sync_words
        rows = [
            (
                self.arrays.disk_name(each.device),
                each.device,
                each.slot if each.slot is not None else "-",
                each.state_words,
            )
            for each in status.members
        ]
        return facts, [Table.listing(("disk", "device", "slot", "state"), rows, right=("slot",))]

    def value(self, status: ArrayStatus) -> dict[str, Any]:
        return status_value(self.arrays, status)

    def details(self) -> dict[str, str]:
        status = self.read()
        # There is no common size in a RAID 0, whose members may differ.
        used_kib = None if status.level == LevelName.RAID0 else status.component_size_kib
        return {
            "metadata": status.metadata_version,
            "array_size_kib": str(status.size_bytes // KIB),
            "used_device_size_kib": str(used_kib or "N/A"),
            "raid_devices": str(status.raid_disks),
            "total_devices": str(len(status.members)),
            "chunk_kib": str(status.chunk_bytes // KIB if status.chunk_bytes else "N/A"),
            "layout": status.layout or "N/A",
            "consistency_policy": status.consistency_policy,
            "state": status.state_words,
        }


def status_value(arrays: OpenArrays, status: ArrayStatus) -> dict[str, Any]:
    """Return the status of an array for JSON: its values, what follows from its level, and the names of its disks."""
    value: dict[str, Any] = msgspec.to_builtins(status)
    for member, entry in zip(status.members, value["members"], strict=True):
        entry |= {"disk": arrays.disk_name(member.device), "role": member.role, "flags": sorted(member.flags)}
    value["state_words"] = status.state_words
    value["sync_fraction"] = status.sync_progress.fraction if status.sync_progress else None
    value["is_degraded"] = status.is_degraded
    if level := status.known_raid:
        count, chunk = status.raid_disks, status.chunk_bytes or 64 * KIB
        now = level.failures_survived_without(status.missing_slots, count)
        value["theory"] = {
            "minimum_failures_survived": level.minimum_failures_survived(count),
            "maximum_failures_survived": level.maximum_failures_survived(count),
            "failures_survived_now": now[0],
            "most_failures_survived_now": now[1],
            "write_penalty": level.write_penalty,
            "small_write_reads": level.small_write(count).reads,
            "small_write_writes": level.small_write(count).writes,
            "full_stripe_bytes": level.full_stripe_bytes(count, chunk),
        }
    return value


def cannot_do_without(statuses: Sequence[ArrayStatus], disk: str, *, forced: str) -> ArrayError:
    """Return the error for an attempt to take away a disk without which the arrays would lose data.

    ``forced`` is the verb for what --break-array does to the disk. During a sync, the hint says to wait first.
    """
    names = ", ".join(status.name for status in statuses)
    syncing = [status.name for status in statuses if status.sync_action.is_busy]
    wait = f"wait until its copies or parity are complete: raidlab array wait {syncing[0]}; " if syncing else ""
    return ArrayError(
        f"array {names} cannot run without {disk}{' yet' if syncing else ''}: its data would be lost",
        hint=f"{wait}use --break-array to {forced} it anyway",
    )


class MdKind(ArrayKind):
    """Arrays that mdadm creates on whole disks."""

    levels: ClassVar[tuple[str, ...]] = tuple(LevelName)
    listed_as = "arrays"
    default_chunk_bytes = DEFAULT_CHUNK_BYTES
    head_bytes = MD_HEAD_BYTES

    def is_name(self, word: str) -> bool:
        return is_array_name(word)

    def name(self, number: int) -> str:
        return f"md{number}"

    def raid(self, level: str) -> Level:
        return parse_level(level)

    def options(self, level: str) -> frozenset[str]:
        return frozenset({"spares", "journal_device", "layout", "bitmap_chunk_bytes", "consistency_policy"})

    def member_count(self, level: str, free: int) -> int:
        return parse_level(level).minimum_members

    def spec(self, asked: ArraySpec, disks: Sequence[LabDisk]) -> ArraySpec:
        parse_level(asked.level)
        if asked.reference is not None or asked.utilisation is not None:
            raise SpecError(f"{asked.level} does not support --reference or --utilisation", hint="omit them")
        return asked

    def discover(self, ends: Mapping[str, DiskEnds], host_name: str) -> tuple[FoundArray, ...]:
        return arrays_in(superblocks_in(ends), host_name=host_name)

    def running(self, machine: Machine, found: Sequence[FoundArray]) -> dict[str, str]:
        """Match arrays by their members, because the name in md may differ from that in the superblocks."""
        names = {member.device: status.name for status in read_arrays(machine) for member in status.members}
        return {
            array.uuid: name
            for array in found
            if (name := next((names[node] for node in array.devices if node in names), None))
        }

    def array(self, arrays: OpenArrays, name: str) -> MdArray:
        return MdArray(arrays, name)


MD = MdKind()


@cache
def kinds() -> tuple[ArrayKind, ...]:
    """Return all kinds. md's own comes first, as the default; arrays of the other kinds consist of its arrays."""
    return (MD, *map(_loaded, extensions(AddedKind)))


def _loaded(added: AddedKind) -> ArrayKind:
    kind = added.load()
    if not isinstance(kind, ArrayKind):
        raise LabError(
            f"the levels {', '.join(added.levels)} cannot be used, because their plugin provides no ArrayKind",
            hint="update the plugin, or uninstall it",
        )
    return kind


def kind_of_level(level: str) -> ArrayKind:
    """Return the kind that makes arrays of this level, or md's own if no kind does."""
    return next((kind for kind in kinds() if level.lower() in kind.levels), kinds()[0])


def kind_of_name(name: str) -> ArrayKind:
    """Return the kind whose arrays have names of this form. Raises SpecError if there is none."""
    return kind_among(kinds(), name)


def names_array(word: str) -> bool:
    """Whether ``word`` has the form of an array name of any kind."""
    return any(kind.is_name(word) for kind in kinds())


def free_name(kind: ArrayKind, taken: Collection[str]) -> str:
    """Return the first name of this kind, such as ``md0``, that is not taken."""
    return next(name for number in range(1000) if (name := kind.name(number)) not in taken)


class StoppedArrays:
    """The arrays of an embedded lab that the user has stopped, and those started on request, as UUIDs in two files."""

    def __init__(self, folder: Path) -> None:
        self._stopped = RecordFile(folder / "stopped.json", tuple[str, ...], indent=0)
        self._started = RecordFile(folder / "started.json", tuple[str, ...], indent=0)

    def read(self) -> frozenset[str]:
        """Read the UUIDs of the stopped arrays. A damaged file counts as empty, so at worst a stopped array starts."""
        return frozenset(self._stopped.read_or(()))

    def read_started(self) -> frozenset[str]:
        return frozenset(self._started.read_or(()))

    def write(self, found: BroughtUp) -> None:
        """Save the current lists. Raises LabError with the system's reason if that fails."""
        self._stopped.replace(tuple(sorted(array.uuid for array in found.stopped)))
        started = tuple(sorted(array.uuid for array in found.started if array.needs_asking))
        if started or self._started.path.exists():
            self._started.replace(started)


def bring_up(
    lab: Lab,
    stopped: StoppedArrays | None = None,
    *,
    before: BroughtUp | None = None,
    on_plan: Callable[[Plan], None] = lambda _: None,
) -> BroughtUp:
    """Find the arrays of every kind on the lab's disks; if ``stopped`` is given, start all except those it lists.

    ``on_plan`` is called with each plan before it runs. An array that could not be started according to the previous
    result, ``before``, stays among the refused arrays until it runs.
    """
    is_new = stopped is not None
    nodes = [disk.node for disk in lab.disks if not is_new or lab.guard.can_hold_data(disk.node)]
    could_not_start = {array.uuid: array.refusal for array in before.refused} if before else {}
    started: list[FoundArray] = []
    rests: list[FoundArray] = []
    refused: list[FoundArray] = []
    ends = read_ends(lab.machine, nodes, max(FIRST_BYTES, *(kind.head_bytes for kind in kinds())))
    for kind in kinds():
        found = kind.discover(ends, lab.machine.facts.host_name)
        running = kind.running(lab.machine, found) if found and not is_new else {}
        resting = stopped.read() if stopped and found else frozenset()
        asked_for = stopped.read_started() if stopped and any(each.needs_asking for each in found) else frozenset()
        for each in found:
            array = each
            if each.uuid in asked_for and not each.obstacle:
                array = replace(each.named_for([status.name for status in read_arrays(lab.machine)]), refusal="")
            refusal = array.refusal or could_not_start.get(array.uuid, "")
            is_asked_for = is_new and not refusal and array.uuid not in resting
            if array.uuid in running:
                started.append(replace(array, name=running[array.uuid], refusal=""))
            elif refusal := refusal or (start_array(lab, array, on_plan) if is_asked_for else ""):
                could_not = "" if refusal == each.refusal else refusal
                refused.append(replace(each, refusal=refusal, obstacle=each.obstacle or could_not))
            else:
                (started if is_asked_for else rests).append(array)
    carried = {node: types for node, each in ends.items() if (types := signatures_in(each))}
    return BroughtUp(tuple(started), tuple(rests), tuple(refused), carried)


def start_array(lab: Lab, array: FoundArray, on_plan: Callable[[Plan], None]) -> str:
    """Start an array that was found stopped. Returns the error message if that fails, otherwise an empty string."""
    try:
        plan = array.start_plan(lab.machine)
        on_plan(plan)
        lab.execute(plan)
    except LabError as error:
        # A partly started array would keep the disks busy.
        array.clear_away(lab.machine)
        return error.message
    return ""
