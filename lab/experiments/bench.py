"""The bench: builds the arrays of an experiment on the lab's disks, ready to be measured, and takes them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.adapt.spec import VolumeSpec
from lab.arrays import filesystem, operations
from lab.arrays.detail import read_detail
from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import LevelName
from lab.arrays.spec import ArraySpec
from lab.arrays.state import read_array
from lab.arrays.waits import wait_until_idle
from lab.disks import DiskKind, Lab, LabDisk
from lab.errors import LabError, WorkloadError
from lab.experiments.array_plans import ArrayPlan, Sharing
from lab.experiments.schema import Experiment
from lab.experiments.stopwatch import Stopwatch
from lab.experiments.volumes import RunningVolume, build_volume, tuned
from lab.measure.job import Place, prepare
from lab.plans import Plan
from lab.results.record import ArrayRecord
from lab.workloads.workload import Workload

_MEMORY = "memory"
"""What an emulated drive without another device behind it lies on."""


@dataclass(frozen=True, slots=True)
class BuiltArray:
    """An array that is there: clean, with its file system mounted and its files written."""

    plan: ArrayPlan
    spec: ArraySpec | VolumeSpec
    disks: tuple[LabDisk, ...]
    place: Place
    record: ArrayRecord
    volume: RunningVolume | None = None

    @property
    def md(self) -> ArraySpec:
        """The spec of a single array; rebuilds and predictions are for these alone."""
        assert isinstance(self.spec, ArraySpec)
        return self.spec

    @property
    def parity_arrays(self) -> tuple[str, ...]:
        """Names of the md arrays that keep parity: those of a volume all do."""
        if self.volume:
            return tuple(self.volume.arrays.values())
        has_parity = self.md.raid.name in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6)
        return (self.md.name,) if has_parity else ()


class Bench:
    """Builds on demand; with shared disks, one array at a time.

    Args:
        lab: an open lab with the experiment's disks.
        narrate: told in a few words what is being done.
        on_built: told of every array once it is there.
    """

    def __init__(
        self,
        lab: Lab,
        experiment: Experiment,
        stopwatch: Stopwatch,
        narrate: Callable[[str], None],
        on_built: Callable[[BuiltArray], None],
    ) -> None:
        self._lab = lab
        self._experiment = experiment
        self._stopwatch = stopwatch
        self._narrate = narrate
        self._on_built = on_built
        self._built: dict[str, BuiltArray] = {}
        self._used: set[str] = set()

    def build_all(self) -> None:
        """Build every array now, where they do not share disks, so that measurements can alternate."""
        if self._experiment.disks.sharing is Sharing.SEPARATE:
            for plan in self._experiment.arrays:
                self.array(plan.id)

    def array(self, array_id: str) -> BuiltArray:
        """The array, built if need be."""
        if array_id not in self._built:
            if self._experiment.disks.sharing is Sharing.SHARED:
                self.take_apart()
            built = self._build(self._experiment.array(array_id))
            self._built[array_id] = built
            self._on_built(built)
        return self._built[array_id]

    def take_apart(self) -> None:
        """Unmount and stop everything that was built."""
        while self._built:
            _, built = self._built.popitem()
            self._stop(built)

    def abandon(self) -> None:
        """Take apart what can be, after an error; a machine that is gone took everything with it."""
        for built in self._built.values():
            try:
                self._stop(built)
            except LabError:
                continue
        self._built.clear()

    def _stop(self, built: BuiltArray) -> None:
        self._lab.execute(filesystem.unmount(built.place.file_system, built.spec.device))
        if built.volume:
            self._lab.execute(built.volume.stop_plan())
        elif built.md.is_array:
            self._lab.execute(operations.stop(built.md.name, built.md.members))

    def _disks_for(self, plan: ArrayPlan) -> tuple[tuple[LabDisk, ...], str]:
        """An array's disks and its name."""
        if plan.take:
            return tuple(self._lab.disk(name) for name in plan.disk_names()), "md0"
        if self._experiment.disks.sharing is Sharing.SHARED:
            return self._lab.disks[: plan.members], "md0"
        first = 0
        for number, other in enumerate(self._experiment.arrays):
            if other.id == plan.id:
                return self._lab.disks[first : first + plan.members], f"md{number}"
            first += other.members
        raise AssertionError(plan.id)

    def _build(self, plan: ArrayPlan) -> BuiltArray:
        self._narrate(f"build {plan.label}")
        disks, name = self._disks_for(plan)
        # Disks come blank from open_lab; after another array, or a probe, they are made blank again.
        stale = [disk for disk in disks if disk.name in self._used]
        self._lab.reset(stale)
        self._used.update(disk.name for disk in disks)
        # Emulated drives take their time for each look, and what was just discarded holds nothing.
        unknown = [disk for disk in disks if disk not in stale or not reads_as_zeros_after_reset(disk)]
        self._lab.check_blank([disk.node for disk in unknown])
        if plan.is_volume:
            return self._build_volume(plan, disks, name.replace("md", "adapt"))
        spec = plan.spec(tuple(disk.node for disk in disks), name)
        steps = operations.create(spec)
        self._lab.execute(steps)
        if spec.is_array:
            self._wait_for_first_resync(plan, [name])
            self._lab.execute(tuned(plan, [name]))
        size_bytes = read_array(self._lab.machine, name).size_bytes if spec.is_array else disks[0].size_bytes
        steps += self._make_file_system(spec.device, size_bytes, spec.effective_chunk_bytes, _full_stripe_bytes(spec))
        place = self._place(spec.device, spec.name if spec.is_array else None, disks, size_bytes)
        built = BuiltArray(plan, spec, disks, place, self._record(plan, spec, size_bytes, steps))
        self._prepare(built)
        return built

    def _build_volume(self, plan: ArrayPlan, disks: tuple[LabDisk, ...], name: str) -> BuiltArray:
        spec = plan.volume_spec(disks, name)
        volume = build_volume(self._lab, spec)
        self._wait_for_first_resync(plan, volume.arrays.values())
        self._lab.execute(tuned(plan, volume.arrays.values()))
        full_stripe = volume.label.reference * spec.chunk_bytes
        steps = volume.created
        steps += self._make_file_system(spec.device, volume.size_bytes, spec.chunk_bytes, full_stripe)
        # The account of CPU time follows the threads of one array by its name; a volume has several.
        place = self._place(spec.device, None, disks, volume.size_bytes)
        record = volume.record(plan.id, self._experiment.file_system.value, steps)
        built = BuiltArray(plan, spec, disks, place, record, volume)
        self._prepare(built)
        return built

    def _wait_for_first_resync(self, plan: ArrayPlan, names: Iterable[str]) -> None:
        if plan.assume_clean:
            return
        with self._stopwatch.resync():
            for name in names:
                wait_until_idle(self._lab.machine, name, clock=self._lab.host.clock)

    def _make_file_system(self, device: str, size_bytes: int, chunk_bytes: int | None, full_stripe_bytes: int) -> Plan:
        kind = self._experiment.file_system
        steps = filesystem.make(
            kind, device, size_bytes=size_bytes, chunk_bytes=chunk_bytes, full_stripe_bytes=full_stripe_bytes
        ) + filesystem.mount(kind, device)
        self._lab.execute(steps)
        return steps

    def mark_used(self, disk: LabDisk) -> None:
        """This disk is not blank any more."""
        self._used.add(disk.name)

    def _place(self, device: str, array: str | None, disks: tuple[LabDisk, ...], size_bytes: int) -> Place:
        kind = self._experiment.file_system
        free = (
            size_bytes
            if kind is FileSystem.RAW
            else filesystem.free_bytes(self._lab.machine, filesystem.mount_point(device))
        )
        members = tuple(disk.kernel_name for disk in disks)
        return Place(array, device, members, kind, free, self._lab.machine.facts.is_virtual_time)

    def _prepare(self, built: BuiltArray) -> None:
        """Write all files once; several workloads of the same layout share them."""
        if not self._experiment.writes_files_first:
            return
        layouts: dict[tuple[int, int | None], Workload] = {}
        rebuild = self._experiment.rebuild
        under = [rebuild.under.build()] if rebuild and rebuild.under and built.plan.id in rebuild.arrays else []
        for workload in (*self._experiment.workloads_on(built.plan.id), *under):
            if not workload.recipe:
                layouts.setdefault((workload.jobs, workload.file_bytes), workload)
        self._narrate(f"write the files of {built.plan.label}")
        for workload in layouts.values():
            try:
                prepare(self._lab, built.place, workload, workload.file_bytes)
            except WorkloadError:
                if not self._experiment.keeps_going:
                    raise
        # The first cold start then need not wait for it.
        self._lab.start_writing_out(built.disks)

    def _record(self, plan: ArrayPlan, spec: ArraySpec, size_bytes: int, steps: Plan) -> ArrayRecord:
        details: dict[str, str] = {}
        policy, used = "", None
        if spec.is_array:
            detail = read_detail(self._lab.machine, spec.name)
            policy = detail.consistency_policy
            used = detail.used_device_size_kib * 1024 if detail.used_device_size_kib else None
            details = {
                "metadata": detail.metadata_version,
                "array_size_kib": str(detail.array_size_kib),
                "used_device_size_kib": str(detail.used_device_size_kib or "N/A"),
                "raid_devices": str(detail.raid_devices),
                "total_devices": str(detail.total_devices),
                "chunk_kib": str(detail.chunk_kib or "N/A"),
                "layout": detail.layout or "N/A",
                "consistency_policy": detail.consistency_policy,
                "state": detail.state,
            }
        return ArrayRecord(
            name=plan.id,
            level=spec.raid.name.value,
            layout=details.get("layout", ""),
            members=spec.members,
            chunk_bytes=spec.effective_chunk_bytes,
            size_bytes=size_bytes,
            used_device_bytes=used,
            consistency_policy=policy,
            file_system=self._experiment.file_system.value,
            commands=tuple(steps.lines()),
            details=details,
        )


def _full_stripe_bytes(spec: ArraySpec) -> int:
    chunk = spec.effective_chunk_bytes
    return spec.raid.full_stripe_bytes(len(spec.members), chunk) if chunk else 0


def reads_as_zeros_after_reset(disk: LabDisk) -> bool:
    """Of images and memory this is certain; other drives may discard without erasing."""
    return disk.kind is DiskKind.FILE or disk.backing == _MEMORY
