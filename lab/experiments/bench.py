"""The bench: builds the arrays of an experiment on the lab's disks, ready for measurement, and stops them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from lab.arrays import filesystem
from lab.arrays.array import Array, OpenArrays
from lab.arrays.discovery import BroughtUp
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import kind_of_level, kinds
from lab.arrays.levels import LevelName
from lab.arrays.names import md_path
from lab.arrays.spec import ArraySpec, Spec
from lab.arrays.status import wait_until_idle
from lab.disks import DiskKind, Lab, LabDisk, kernel_drives
from lab.disks.inventory import read_ends
from lab.errors import LabError, WorkloadError
from lab.experiments.linting import require_sound
from lab.experiments.progress import ProgressMeter, Stopwatch
from lab.experiments.schema import ArrayPlan, Experiment, Sharing
from lab.lint.experiment_checks import DeviceFacts, LintedMachine, lint_machine
from lab.lint.rules import LintFinding
from lab.measure.job import LoadTarget, prepare
from lab.plans import Plan, Step, write_file_step
from lab.results.record import ArrayRecord
from lab.results.store import RunJournal
from lab.units import SECTOR_BYTES
from lab.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class BuiltArray:
    """An existing array: clean, with its file system mounted and its files written."""

    plan: ArrayPlan
    spec: Spec
    disks: tuple[LabDisk, ...]
    target: LoadTarget
    record: ArrayRecord
    array: Array | None = None
    """None for a single disk."""
    inner: tuple[str, ...] = ()
    """Names of the md arrays of a volume; empty for a single array."""

    @property
    def md(self) -> ArraySpec:
        """The spec of a single array; only these have rebuilds and predictions."""
        assert isinstance(self.spec, ArraySpec)
        return self.spec

    @property
    def parity_arrays(self) -> tuple[str, ...]:
        """Names of the md arrays with parity, which are all arrays of a volume."""
        if self.inner:
            return self.inner
        has_parity = self.md.raid.name in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6)
        return (self.md.name,) if has_parity else ()


_CONFIG = "zcat /proc/config.gz 2>/dev/null || cat /boot/config-$(uname -r) 2>/dev/null"


_DEBUG_OPTIONS = ("PROVE_LOCKING", "KASAN", "DEBUG_KMEMLEAK", "DEBUG_PAGEALLOC", "KCSAN", "UBSAN_SANITIZE_ALL")
STEP_SECONDS = 5.0
"""Estimated time to build an array, or to write its files."""
_MEMORY = "memory"
"""Backing store of an emulated drive without a backing device."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an experiment: what its bench, its cells and its rebuilds share."""

    lab: Lab
    experiment: Experiment
    journal: RunJournal
    stopwatch: Stopwatch
    progress: ProgressMeter
    allowed_rules: frozenset[str] = frozenset()
    """Lint rules that may be violated."""


class Bench:
    """Builds on demand; with shared disks, one array at a time."""

    def __init__(self, run: Run) -> None:
        self.records = {array.name: array for array in run.journal.record.arrays}
        """Records of all arrays built so far, including those built before an interruption."""
        self.findings: list[LintFinding] = []
        """Lint findings on all arrays built so far."""
        self._run = run
        self._lab = run.lab
        self._experiment = run.experiment
        self._built: dict[str, BuiltArray] = {}
        self._used: set[str] = set()

    def array(self, array_id: str) -> BuiltArray:
        """Return the array; build it if necessary. Raises ExperimentError if the lint rejects it."""
        if array_id in self._built:
            return self._built[array_id]
        if self._experiment.disks.sharing is Sharing.SHARED:
            self.take_apart()
        plan = self._experiment.array(array_id)
        self._run.progress.doing(f"build {plan.label}", STEP_SECONDS)
        disks, number = self._disks_for(plan)
        self._make_blank(disks)
        spec = plan.spec(disks, number)
        arrays = OpenArrays(self._lab, kinds())
        steps = arrays.creation(spec, checks_disks=False)
        self._lab.execute(steps)
        array, status = None, None
        inner: tuple[str, ...] = ()
        if spec.is_array:
            kind = kind_of_level(plan.level)
            if plan.is_volume:
                # md reports only its own arrays by name; volumes are found by the metadata on their disks.
                machine = self._lab.machine
                ends = read_ends(machine, spec.devices, kind.head_bytes)
                arrays.found = BroughtUp(kind.discover(ends, machine.facts.host_name))
            array = kind.array(arrays, spec.name)
            status = array.read()
            inner = tuple(each.name for each in status.inner)
            self._wait_and_tune(plan, inner or (spec.name,))
        size_bytes = status.size_bytes if status else disks[0].size_bytes
        steps += self._make_file_system(spec, size_bytes)
        # CPU time is accounted to the threads of one array by its name; a volume has several arrays.
        target = self._target(spec.device, spec.name if array and not inner else None, disks, size_bytes)
        details = array.details() if array else {}
        used = details.get("used_device_size_kib", "")
        record = ArrayRecord(
            name=plan.id,
            level=status.level if status else plan.level,
            layout=details.get("layout", ""),
            members=spec.devices,
            chunk_bytes=spec.effective_chunk_bytes,
            size_bytes=size_bytes,
            used_device_bytes=int(used) * 1024 if used.isdecimal() else None,
            consistency_policy=details.get("consistency_policy", status.consistency_policy if status else ""),
            file_system=self._experiment.file_system.value,
            commands=tuple(steps.lines()),
            details=details,
        )
        built = BuiltArray(plan, spec, disks, target, record, array, inner)
        self._write_files(built)
        self._built[array_id], self.records[array_id] = built, record
        found = lint_bench(self._lab, [built])
        self.findings += found
        require_sound(found, self._experiment, self._run.allowed_rules)
        return built

    def take_apart(self) -> None:
        while self._built:
            _, built = self._built.popitem()
            self._stop(built)

    def abandon(self) -> None:
        """Stop the arrays after an error, and ignore further errors: on a lost machine there is nothing to stop."""
        for built in self._built.values():
            try:
                self._stop(built)
            except LabError:
                continue
        self._built.clear()

    def _stop(self, built: BuiltArray) -> None:
        self._lab.execute(filesystem.unmount(built.target.file_system, built.spec.device))
        if built.array:
            self._lab.execute(built.array.stop())
        sums = kernel_drives.content_sums(self._lab.machine, built.disks)
        self.records[built.plan.id] = msgspec.structs.replace(self.records[built.plan.id], content_sums=sums)

    def _disks_for(self, plan: ArrayPlan) -> tuple[tuple[LabDisk, ...], int]:
        """An array's disks and the number in its name."""
        if plan.take:
            return tuple(self._lab.disk(name) for name in plan.disk_names()), 0
        if self._experiment.disks.sharing is Sharing.SHARED:
            return self._lab.disks[: plan.members], 0
        first = 0
        for number, other in enumerate(self._experiment.arrays):
            if other.id == plan.id:
                return self._lab.disks[first : first + plan.members], number
            first += other.members
        raise AssertionError(plan.id)

    def _make_blank(self, disks: tuple[LabDisk, ...]) -> None:
        """Disks are blank after open_lab; after another array or a probe they are reset."""
        stale = [disk for disk in disks if disk.name in self._used]
        self._lab.reset(stale)
        self._used.update(disk.name for disk in disks)
        # Each read of an emulated drive takes time, and discarded images are known to be blank.
        unknown = [disk for disk in disks if disk not in stale or not reads_as_zeros_after_reset(disk)]
        self._lab.guard.check_blank([disk.node for disk in unknown])

    def _wait_and_tune(self, plan: ArrayPlan, names: Iterable[str]) -> None:
        """Wait for the first resync of these md arrays, if there is one, and set their tunables."""
        if not plan.assume_clean:
            with self._run.stopwatch.resync():
                for name in names:
                    wait_until_idle(self._lab.machine, name)
        self._lab.execute(tuned(plan, names))

    def _make_file_system(self, spec: Spec, size_bytes: int) -> Plan:
        kind, chunk, stripe = self._experiment.file_system, spec.effective_chunk_bytes, spec.full_stripe_bytes
        steps = filesystem.make(
            kind, spec.device, size_bytes=size_bytes, chunk_bytes=chunk, full_stripe_bytes=stripe
        ) + filesystem.mount(kind, spec.device)
        self._lab.execute(steps)
        return steps

    def mark_used(self, disk: LabDisk) -> None:
        self._used.add(disk.name)

    def _target(self, device: str, array: str | None, disks: tuple[LabDisk, ...], size_bytes: int) -> LoadTarget:
        kind, machine = self._experiment.file_system, self._lab.machine
        is_raw = kind is FileSystem.RAW
        free = size_bytes if is_raw else filesystem.free_bytes(machine, filesystem.mount_point(device))
        members = tuple(disk.kernel_name for disk in disks)
        return LoadTarget(array, device, members, kind, free)

    def _write_files(self, built: BuiltArray) -> None:
        """Write all files once; workloads with the same layout share them."""
        if not self._experiment.writes_files_first:
            return
        layouts: dict[tuple[int, int | None], Workload] = {}
        rebuild = self._experiment.rebuild
        under = [rebuild.under.build()] if rebuild and rebuild.under and built.plan.id in rebuild.arrays else []
        for workload in (*self._experiment.workloads_on(built.plan.id), *under):
            if not workload.recipe:
                layouts.setdefault((workload.jobs, workload.file_bytes), workload)
        self._run.progress.doing(f"write the files of {built.plan.label}", STEP_SECONDS)
        for workload in layouts.values():
            try:
                with self._run.stopwatch.aside():
                    prepare(self._lab, built.target, workload, workload.file_bytes)
            except WorkloadError:
                if not self._experiment.keeps_going:
                    raise
        # The first cold start then does not wait for the writeback.
        self._lab.start_writing_out(built.disks)


def reads_as_zeros_after_reset(disk: LabDisk) -> bool:
    """True for images and memory; other drives may discard without erasing."""
    return disk.kind is DiskKind.FILE or disk.backing == _MEMORY


def tuned(plan: ArrayPlan, arrays: Iterable[str]) -> Plan:
    """Plan that sets the requested tunables of each md array; empty if there are none.

    Kernel: Documentation/admin-guide/md.rst, stripe_cache_size.
    """
    pages = plan.stripe_cache_pages
    why = "md keeps that many stripes of one page a member, so that whole stripes are complete before it looks at them."
    steps: list[Step] = []
    if pages is not None:
        steps = [write_file_step(md_path(name, "stripe_cache_size"), str(pages), why) for name in arrays]
    return Plan("Tune the arrays", tuple(steps))


def lint_bench(lab: Lab, arrays: Sequence[BuiltArray]) -> tuple[LintFinding, ...]:
    """Findings on the machine and the arrays immediately before the measurement."""
    single = [built for built in arrays if not built.inner]
    holders = {disk.kernel_name: built.md.name for built in single if built.md.is_array for disk in built.disks}
    names = [*holders, *(built.md.name for built in single if built.md.is_array)]
    names += [disk.kernel_name for built in single if not built.md.is_array for disk in built.disks]
    # The disks of a volume are held by its slices; only the arrays on the slices can be checked.
    names += [name for built in arrays for name in built.inner]
    paths = {name: _paths(name) for name in names}
    texts = lab.machine.read([path for each in paths.values() for path in each.values()])
    held = lab.machine.list_dirs([f"/sys/block/{name}/holders" for name in names])

    def text(name: str, what: str) -> str:
        return (texts.get(paths[name][what]) or "").strip()

    devices = tuple(
        DeviceFacts(
            name=name,
            size_bytes=int(text(name, "size") or 0) * SECTOR_BYTES,
            is_counted=text(name, "iostats") != "0",
            loop_direct=text(name, "dio") == "1" if text(name, "dio") else None,
            holders=held.get(f"/sys/block/{name}/holders", ()),
            sync_action=text(name, "sync_action"),
        )
        for name in names
    )
    return tuple(lint_machine(LintedMachine(devices, (), holders)))


def _paths(name: str) -> dict[str, str]:
    block = f"/sys/block/{name}"
    paths = {"size": f"{block}/size", "iostats": f"{block}/queue/iostats", "dio": f"{block}/loop/dio"}
    return {**paths, "sync_action": f"{block}/md/sync_action"}


def lint_kernel(lab: Lab) -> tuple[LintFinding, ...]:
    """Findings on the running kernel; none if its configuration is not available."""
    pattern = "|".join(_DEBUG_OPTIONS)
    argv = ("sh", "-c", f"({_CONFIG}) | grep -E '^CONFIG_({pattern})=y'")
    found = lab.machine.run(argv, check=False)
    options = tuple(line.partition("=")[0].removeprefix("CONFIG_") for line in found.stdout.split())
    return tuple(lint_machine(LintedMachine((), options)))
