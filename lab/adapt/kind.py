"""Volumes of unequal disks as a kind of array, which lab.arrays lists among its kinds (``ADAPT``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

import msgspec

from lab.adapt import operations
from lab.adapt.label import LABEL_AREA_BYTES, layout_of, names_volume, volume_device
from lab.adapt.layout import AdaptLevel
from lab.adapt.spec import DEFAULT_CHUNK_BYTES, VolumeSpec, are_equal
from lab.adapt.state import (
    FoundVolume,
    Stack,
    VolumeArray,
    VolumeDisk,
    VolumeStatus,
    as_array,
    labels_in,
    read_stack,
    read_volume,
    volumes_in,
)
from lab.arrays.array import Array, ArrayKind, ArrayText, OpenArrays
from lab.arrays.discovery import FoundArray
from lab.arrays.levels import Level, Raid5
from lab.arrays.operations import set_sync_speed
from lab.arrays.spec import ConsistencyPolicy, CreateOptions
from lab.arrays.status import ArrayState, ArrayStatus, read_arrays
from lab.disks import LabDisk
from lab.disks.inventory import DiskEnds
from lab.errors import ArrayError, SpecError
from lab.machine.api import Machine
from lab.plans import Plan, Step
from lab.tables import Table
from lab.units import human_bytes


class Volume(Array):
    """A volume of unequal disks. Its plans include waiting for syncs, because its arrays share disks."""

    waits_itself = True

    @property
    def device(self) -> str:
        return volume_device(self.name)

    @property
    def refused_hint(self) -> str:
        return f"'raidlab array destroy {self.name}' removes it for good"

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
        return as_array(read_volume(machine, self._known, self._stack, read_arrays(machine)))

    def volume(self) -> VolumeStatus:
        """The state of the volume and its arrays. Raises ArrayError, with the reason, if it is not running."""
        self.status()
        return self.read().whole

    def start(self, found: FoundArray, *, force: bool) -> Plan:
        if force:
            raise ArrayError(
                f"array {self.name} is never started by force: outdated disks would mix old and new data",
                hint="attach the disks that are missing",
            )
        if found.refusal:
            raise ArrayError(
                f"array {self.name} cannot be started: {found.refusal}",
                hint=f"attach what is missing, or remove it with 'raidlab array destroy {self.name}'",
            )
        return found.start_plan(self.arrays.machine)

    def stop(self) -> Plan:
        self.status()
        return self.unmounted(f"Stop {self.name}") + self._known.stop_plan(self._stack)

    def destroy(self) -> Plan:
        found, stack = self._known, self._stack
        plan = Plan(f"Destroy {self.name}")
        if stack.has_any(self.name):
            plan += self.unmounted(plan.title) + found.stop_plan(stack)
        return plan + operations.erase(found.description, (*found.devices, *found.former_devices))

    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        volume, found = self.volume(), self._known
        own = volume.disk(self.arrays.node(disk))
        if not own.present:
            raise ArrayError(
                f"{disk} is already faulty", hint=f"'raidlab array remove {self.name} {disk}' takes it out"
            )
        broken = volume.broken_by(own)
        if broken and not breaks_array:
            raise ArrayError(
                f"array {self.name} cannot do without {disk}: "
                f"the data of {len(broken)} of its {len(volume.windows)} arrays would be lost",
                hint="--break-array fails it all the same",
            )
        arrays = _arrays(volume, own.present)
        without_it = (*broken, *(each.window.number for each in volume.lost))
        plan = operations.fail(found.description, found.nodes_by_disk, own.number, arrays, without_it)
        return _awake_first(volume, arrays, f"Fail {disk} in {self.name}", plan)

    def remove(self, disk: str) -> Plan:
        volume = self.volume()
        own = volume.disk(self.arrays.node(disk))
        if own.present:
            raise ArrayError(
                f"{disk} is in use in {self.name}", hint=f"fail it first: raidlab array fail {self.name} {disk}"
            )
        if own.number not in self._stack.disks_cut(self.name):
            return Plan(f"{disk} has already left {self.name}: a failed disk stays out")
        plan = operations.remove(self._known.description, own.number, _arrays(volume, own.faulty))
        return Plan(f"Remove {disk} from {self.name}", plan.steps)

    def add(self, disk: str) -> Plan:
        """Replace a failed or missing disk and rebuild its arrays, or resume an interrupted rebuild."""
        volume, found, node = self.volume(), self._known, self.arrays.node(disk)
        if volume.lost:
            raise ArrayError(
                f"array {self.name}: {volume.state_words}, so nothing can be rebuilt",
                hint="restore its data from elsewhere onto a new array; "
                f"'raidlab array destroy {self.name}' frees the disks",
            )
        own = next((each for each in volume.disks if each.node == node and not each.is_failed), None)
        if own:
            return self._go_on(volume, own, disk)
        place = self._place_for(volume, disk)
        self.arrays.check_free([] if place.node == node else [node], besides=self.name)
        label = found.description
        steps: tuple[Step, ...] = ()
        if place.number in self._stack.disks_cut(self.name):
            steps = operations.remove(label, place.number, _arrays(volume, place.faulty)).steps
        arrays, title = _arrays(volume, place.windows), f"Add {disk} to {self.name}"
        plan = operations.add(label, found.nodes_by_disk, place.number, node, arrays)
        return _awake_first(volume, arrays, title, Plan(title, (*steps, *plan.steps)))

    def _go_on(self, volume: VolumeStatus, own: VolumeDisk, disk: str) -> Plan:
        missing = tuple(window for window in own.windows if window not in own.present)
        if not missing:
            raise ArrayError(f"{disk} is already a disk of {self.name}", hint="choose a free disk")
        if own.faulty:
            raise ArrayError(
                f"{disk} has failed in {len(own.faulty)} arrays of {self.name}",
                hint=f"fail it in all of them first: raidlab array fail {self.name} {disk}",
            )
        arrays = _arrays(volume, missing)
        plan = operations.rebuild(self._known.description, own.number, arrays)
        return _awake_first(volume, arrays, f"Go on with the rebuild of {self.name} on {disk}", plan)

    def _place_for(self, volume: VolumeStatus, disk: str) -> VolumeDisk:
        places = [each for each in volume.disks if not each.present]
        if not places:
            raise ArrayError(
                f"no disk of {self.name} has failed, and one more disk would change its whole layout",
                hint="create a new array with all disks, and copy the data",
            )
        size = self.arrays.lab.disk(self.arrays.node(disk)).size_bytes
        fitting = [each for each in places if each.size_bytes <= size]
        if not fitting:
            needed = human_bytes(min(each.size_bytes for each in places))
            raise ArrayError(
                f"{disk} has {human_bytes(size)}, and the place of the failed disk in {self.name} needs {needed}",
                hint="use a larger disk: 'raidlab disks' shows sizes",
            )
        # Take the largest place that the disk fits, and leave the others for smaller disks.
        return max(fitting, key=lambda each: each.size_bytes)

    def scrub(self, action: str = "check") -> Plan:
        """Check or repair all arrays, one after another, or stop a running scrub."""
        volume = self.volume()
        arrays = _arrays(volume, range(len(volume.windows)))
        plan = operations.scrub(self._known.description, arrays, action)
        return _awake_first(volume, arrays, f"Scrub {self.name}: {action}", plan)

    def speed(self, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
        plan = Plan(f"Set the sync speed of {self.name}")
        for each in self.volume().arrays:
            plan += set_sync_speed(
                each.name,
                minimum_kib_per_second=minimum_kib_per_second,
                maximum_kib_per_second=maximum_kib_per_second,
            )
        return plan

    def text(self, status: ArrayStatus) -> ArrayText:
        volume = cast(VolumeArray, status).whole
        facts: dict[str, object] = {"array": self.name, "level": volume.level, "state": volume.state_words}
        reference = human_bytes(volume.reference_blocks * volume.chunk_bytes)
        facts |= {
            "device": volume.device,
            "capacity": f"{human_bytes(volume.size_bytes)} ({volume.size_bytes} bytes)",
            "chunk": human_bytes(volume.chunk_bytes),
            "reference stripe": f"{volume.reference_blocks} chunks, {reference}",
            "optimal I/O": human_bytes(volume.optimal_io_bytes) if volume.optimal_io_bytes else "unknown",
            "uuid": volume.uuid,
        }
        facts["survives"] = volume.survives_words
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
        return ArrayText(facts, (disk_table, Table.listing(("array", "data+parity", "state", "disks"), inner)))

    def value(self, status: ArrayStatus) -> dict[str, Any]:
        volume = cast(VolumeArray, status).whole
        value: dict[str, Any] = msgspec.to_builtins(volume)
        value |= {
            "device": volume.device,
            "state_words": volume.state_words,
            "is_degraded": volume.is_degraded,
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
        label = self._known.description
        layout = layout_of(label)
        return {
            "reference_chunks": str(label.reference),
            "windows": str(len(layout.composition.windows)),
            "targets": str(len(layout.segments)),
            "reserve_kib": str(label.reserve_bytes // 1024),
        }

    def _disk_name(self, disk: VolumeDisk) -> str:
        return self.arrays.disk_name(disk.node) if disk.node else f"({disk.number})"


def _arrays(volume: VolumeStatus, windows: Iterable[int]) -> dict[int, str]:
    wanted = frozenset(windows)
    return {
        each.window.number: each.array.name for each in volume.windows if each.array and each.window.number in wanted
    }


def _awake_first(volume: VolumeStatus, arrays: Mapping[int, str], title: str, plan: Plan) -> Plan:
    """Take assembled arrays out of read-auto first: in that state md writes no superblock and would lose a failure."""
    why = "An assembled array waits for its first write; from now on md records changes."
    first = (
        Step(("mdadm", "--readwrite", each.device), why, writes_devices=(each.device,))
        for each in volume.arrays
        if each.name in arrays.values() and each.state is ArrayState.READ_AUTO
    )
    return Plan(title, (*first, *plan.steps))


class AdaptKind(ArrayKind):
    """AdaptRaid5, and the SHR-like layout of storage boxes with disks of several sizes."""

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

    def spec(self, options: CreateOptions) -> VolumeSpec:
        given = {
            "--spares": options.spares,
            "--journal": options.journal,
            "--layout": options.layout,
            "--bitmap-chunk": options.bitmap_chunk_bytes,
            "--policy": options.policy is not ConsistencyPolicy.RESYNC,
        }
        for option, is_given in given.items():
            if is_given:
                raise SpecError(
                    f"{option} is not possible with level {options.level}",
                    hint="leave it out; a disk that fails is replaced with 'raidlab array add'",
                )
        return VolumeSpec(
            options.members,
            name=options.name,
            rule=AdaptLevel(options.level.lower()),
            chunk_bytes=options.chunk_bytes or DEFAULT_CHUNK_BYTES,
            reference=options.reference,
            utilisation=options.utilisation,
            bitmap=options.bitmap,
            assume_clean=options.assume_clean,
        )

    def discover(self, ends: Mapping[str, DiskEnds], host_name: str) -> tuple[FoundArray, ...]:
        return volumes_in(labels_in({node: each.first for node, each in ends.items()}))

    def running(self, machine: Machine, found: Sequence[FoundArray]) -> dict[str, str]:
        mapped = read_stack(machine).volumes
        return {volume.uuid: volume.name for volume in found if volume.name in mapped}

    def gathered(self, arrays: OpenArrays, statuses: tuple[ArrayStatus, ...]) -> tuple[ArrayStatus, ...]:
        # Volumes use slices; without any slice, the device mapper need not be queried.
        if not any(member.device.startswith("/dev/dm-") for status in statuses for member in status.members):
            return statuses
        stack = read_stack(arrays.machine)
        known = [each for each in arrays.found.all if isinstance(each, FoundVolume) and each.name in stack.volumes]
        volumes = (as_array(read_volume(arrays.machine, found, stack, statuses)) for found in known)
        return (*(status for status in statuses if status.name not in stack.inner_arrays), *volumes)

    def array(self, arrays: OpenArrays, name: str) -> Volume:
        return Volume(arrays, name)


ADAPT = AdaptKind()
