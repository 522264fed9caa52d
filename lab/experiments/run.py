"""Runs an experiment and stores its result. Every cell is stored before the next one starts.

This is the only place where experiments are started and resumed; it opens the lab and the journal, and closes both.
``Run`` builds the experiment's arrays on the lab's disks, measures them, and stops them.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec

from lab import __version__
from lab.arrays import filesystem, operations
from lab.arrays.array import Array, OpenArrays
from lab.arrays.discovery import BroughtUp
from lab.arrays.filesystem import FileSystem, mount_point
from lab.arrays.kinds import kind_of_level, kinds
from lab.arrays.levels import md_path
from lab.arrays.spec import ArraySpec, Spec
from lab.arrays.status import read_array, wait_until_idle
from lab.disks import DiskKind, Lab, LabDisk, open_lab, with_fitting_time
from lab.disks.attaching import content_sums
from lab.disks.inventory import read_ends
from lab.errors import (
    ExperimentError,
    LabError,
    MachineLost,
    MeasurementDisturbed,
    ResultError,
    SpecError,
    WorkloadError,
)
from lab.experiments.linting import lint_experiment, lint_measured, require_sound, stamps_of
from lab.experiments.schedule import (
    Cell,
    ProgressMeter,
    RebuildCell,
    RunProgress,
    SpareMeasurements,
    Stopwatch,
    extra_cells,
    load_seconds,
    planned_keys,
    remaining,
    victim_slot,
    wide_cells,
    wide_notes,
)
from lab.experiments.schema import ArrayPlan, Cache, Experiment, Sharing, check, seeded
from lab.gates.decoding import digits
from lab.host.clock import Clock, utc_second_text
from lab.lint.experiment_checks import MACHINE_CHECKS, DeviceFacts, LintedMachine, summarised
from lab.lint.rules import LintFinding, run_checks
from lab.machine import Host, Machine, Target, parse_target
from lab.machine.state_folder import make_folder
from lab.measure.job import (
    BackgroundLoad,
    LoadTarget,
    Measured,
    MeasureOptions,
    differing,
    make_cold,
    prepare,
    probe_disk,
    read_conditions,
    run_workload,
)
from lab.measure.rebuild import (
    DataSum,
    DataVerdict,
    RebuildMeasured,
    Recording,
    fail_and_remove,
    measure_rebuild,
    predict_rebuild,
    sum_device,
    sum_files,
    timeline_of,
    verdict,
)
from lab.measure.samples import Recorder, busy_fraction
from lab.plans import Plan, write_file_step
from lab.results.record import (
    DEGRADED,
    HEALTHY,
    REBUILDING,
    RESTORED,
    ArrayRecord,
    CellRecord,
    Conditions,
    PhaseRecord,
    RebuildRecord,
    ResultRecord,
    RunStatus,
    Timeline,
)
from lab.results.store import ResultNotStored, ResultStore, RunJournal, new_id
from lab.theory.model import DiskRates, LoadPrediction, Prediction, predict_load
from lab.tomlfile import decode_toml
from lab.units import KIB, MIB, SECTOR_BYTES, human_bytes
from lab.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class BuiltArray:
    """An array that is built and clean, with its file system mounted and its files written."""

    plan: ArrayPlan
    spec: Spec
    disks: tuple[LabDisk, ...]
    target: LoadTarget
    array: Array | None = None
    """None for a single disk."""
    inner: tuple[str, ...] = ()
    """Names of the md arrays of a volume; empty for a single array."""

    @property
    def md(self) -> ArraySpec:
        """The spec of a single array; only single arrays have rebuilds and predictions."""
        assert isinstance(self.spec, ArraySpec)
        return self.spec

    @property
    def parity_arrays(self) -> tuple[str, ...]:
        """Names of the md arrays with parity; in a volume, these are all of its arrays."""
        if self.inner:
            return self.inner
        return (self.md.name,) if self.md.raid.parity_members else ()


_CONFIG = "zcat /proc/config.gz 2>/dev/null || cat /boot/config-$(uname -r) 2>/dev/null"
_DEBUG_OPTIONS = ("PROVE_LOCKING", "KASAN", "DEBUG_KMEMLEAK", "DEBUG_PAGEALLOC", "KCSAN", "UBSAN_SANITIZE_ALL")
STEP_SECONDS = 5.0
"""Estimated time to build an array, or to write its files."""
_MEMORY = "memory"
"""Backing store of an emulated drive without a backing device."""


def reads_as_zeros_after_reset(disk: LabDisk) -> bool:
    """Whether a reset disk reads as zeros. Disks that are neither image files nor in memory may keep discarded data."""
    return disk.kind is DiskKind.FILE or disk.backing == _MEMORY


def tuned(plan: ArrayPlan, arrays: Iterable[str]) -> Plan:
    """Return the plan that sets the arrays' tunables (kernel: Documentation/admin-guide/md.rst, stripe_cache_size)."""
    pages = plan.stripe_cache_pages
    why = "md caches this many stripes of one page per member, so that stripes are complete before md handles them."
    steps = (write_file_step(md_path(name, "stripe_cache_size"), str(pages), why) for name in arrays)
    return Plan.of("Tune the arrays", steps if pages is not None else ())


_DEVICE_FILES = ("size", "queue/iostats", "loop/dio", "md/sync_action")


def lint_bench(lab: Lab, built: BuiltArray) -> tuple[LintFinding, ...]:
    """Return the findings on the machine and the array immediately before the measurement."""
    names = [disk.kernel_name for disk in built.disks]
    holders: dict[str, str] = {}
    if built.inner:
        # The disks of a volume are held by its slices; only the arrays on the slices can be checked.
        names = [*built.inner]
    elif built.md.is_array:
        holders = dict.fromkeys(names, built.md.name)
        names.append(built.md.name)
    texts = lab.machine.read([f"/sys/block/{name}/{file}" for name in names for file in _DEVICE_FILES])
    held = lab.machine.list_dirs([f"/sys/block/{name}/holders" for name in names])

    def text(name: str, file: str) -> str:
        return (texts.get(f"/sys/block/{name}/{file}") or "").strip()

    devices = tuple(
        DeviceFacts(
            name=name,
            size_bytes=int(text(name, "size") or 0) * SECTOR_BYTES,
            is_counted=text(name, "queue/iostats") != "0",
            loop_direct=text(name, "loop/dio") == "1" if text(name, "loop/dio") else None,
            holders=held.get(f"/sys/block/{name}/holders", ()),
            sync_action=text(name, "md/sync_action"),
        )
        for name in names
    )
    return tuple(run_checks(MACHINE_CHECKS, LintedMachine(devices, (), holders)))


def lint_kernel(lab: Lab) -> tuple[LintFinding, ...]:
    """Return the findings on the running kernel; none if its configuration is not available."""
    pattern = "|".join(_DEBUG_OPTIONS)
    argv = ("sh", "-c", f"({_CONFIG}) | grep -E '^CONFIG_({pattern})=y'")
    found = lab.machine.run(argv, check=False)
    options = tuple(line.partition("=")[0].removeprefix("CONFIG_") for line in found.stdout.split())
    return tuple(run_checks(MACHINE_CHECKS, LintedMachine((), options)))


IDLE_SECONDS = 1.0
LONGEST_REBUILD_SECONDS = 6 * 3600.0
_WITNESS_BYTES = 32 * 1024 * 1024
RESULT_ROOM_BYTES = 16 * MIB


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Where and how to run an experiment, and the callbacks."""

    target: Target
    host: Host
    on_progress: Callable[[RunProgress], None] = lambda _: None
    on_notice: Callable[[str], None] = lambda _: None
    on_machine: Callable[[Machine], None] = lambda _: None
    is_cancelled: Callable[[], bool] = lambda: False
    """Called at every step and every sample; when it returns True, the run ends and can be resumed."""
    allowed_rules: frozenset[str] = frozenset()
    """Lint rules that may be violated although they would refuse the run."""
    started_seconds: float | None = None
    """Start of the user's command on the host's clock; None for the current time."""


def resume_experiment(earlier: ResultRecord, request: RunRequest) -> ResultRecord:
    """Resume an incomplete result under equal conditions. Raises ExperimentError if the machine has changed."""
    experiment = decode_toml(earlier.experiment_toml, Experiment, source=f"{earlier.id}/experiment")
    check(experiment)
    return run_experiment(experiment, earlier.experiment_toml, request, seed=earlier.seed, earlier=earlier)


def resumed_target(record: ResultRecord, usual: Target) -> Target:
    """Return the target on which an incomplete result was begun; ``usual`` is the one that a new run would have.

    A result may come from a machine that is not trusted (provision/vagrant/results.rb), so a recorded target must not
    make raidlab log in to a computer or run a file. Raises ExperimentError for such a target, and SpecError for an
    invalid one.
    """
    begun = parse_target(record.conditions.target)
    if begun == usual or (begun.is_embedded and not any("/" in value for value in begun.options.values())):
        return begun
    raise ExperimentError(
        f"result '{record.id}' was begun on {begun}", hint=f"to resume it there, add --on {shlex.quote(str(begun))}"
    )


def run_experiment(
    experiment: Experiment,
    text: str,
    request: RunRequest,
    *,
    seed: int | None = None,
    earlier: ResultRecord | None = None,
) -> ResultRecord:
    """Run an experiment from the start, or the missing cells of ``earlier``, an incomplete result of it.

    ``text`` is the experiment's file, which is stored in the result. ``seed`` overrides the seed in the file.
    Raises the error that stops the run. The cells measured before it are stored as an incomplete result.
    """
    experiment = seeded(experiment, seed)
    store = ResultStore(request.host.state.results)
    clock = request.host.clock
    stopwatch = Stopwatch(clock, request.started_seconds)
    _require_ready(store, experiment, request, is_new=earlier is None)
    target = with_fitting_time(request.target, request.host, experiment.disk_specs, request.on_notice)
    done = earlier.done_keys if earlier else ()
    progress = ProgressMeter(experiment, clock, request.on_progress, request.is_cancelled, done)
    progress.doing("start the machine", 3.0)

    def listen(machine: Machine) -> None:
        stopwatch.watch(machine)
        progress.watch(machine)
        request.on_machine(machine)

    with open_lab(
        target,
        request.host,
        wanted=experiment.disk_specs,
        seed=experiment.seed,
        on_notice=request.on_notice,
        on_machine=listen,
    ) as lab:
        conditions = read_conditions(lab)
        if earlier:
            _require_same(earlier.conditions, conditions, earlier.id)
            journal = store.resume(earlier.id)
        else:
            journal = store.begin(_draft(clock, experiment, text, seed, conditions))
        try:
            with journal:
                run = Run(lab, experiment, journal, stopwatch, progress, request.allowed_rules)
                with run.finishing():
                    run.prepare()
                    for cell in run.due_cells():
                        run.measure(cell)
                    rebuilds = RebuildRunner(run)
                    for rebuild in run.due_rebuilds:
                        rebuilds.measure(rebuild)
            return journal.record
        except BaseException as error:
            _report_stored(error, journal, request.on_notice)
            if not earlier and not journal.record.done_keys:
                # There is nothing to resume, and ``latest`` would refer to it.
                with suppress(LabError):
                    store.delete(journal.record.id)
            raise


def _require_ready(store: ResultStore, experiment: Experiment, request: RunRequest, *, is_new: bool) -> None:
    """Report incomplete results of a new run's experiment, and the lint findings.

    Raises ExperimentError if a rule refuses the run, and ResultError if there is no room.
    """
    for summary in store.resumable() if is_new else ():
        if summary.experiment == experiment.id:
            request.on_notice(f"result {summary.id} is incomplete; 'raidlab run --resume {summary.id}' continues it")
    findings = lint_experiment(experiment)
    require_sound(findings, experiment, request.allowed_rules)
    for stamp in summarised(findings):
        request.on_notice(f"lint: {stamp}")
    if experiment.why:
        request.on_notice(experiment.why)
    require_room(make_folder(store.root, what="the folder for results"), RESULT_ROOM_BYTES, "results")


def _draft(clock: Clock, experiment: Experiment, text: str, seed: int | None, conditions: Conditions) -> ResultRecord:
    return ResultRecord(
        id=new_id(experiment.id, clock.utc_now()),
        created_utc=utc_second_text(clock),
        raidlab_version=__version__,
        experiment=experiment.id,
        experiment_toml=text,
        seed=seed,
        conditions=conditions,
        planned_cells=planned_keys(experiment),
    )


def _require_same(before: Conditions, now: Conditions, result_id: str) -> None:
    names = ("target", "host_name", "kernel_release", "cpu_count", "mdadm_version", "fio_version")
    changed = [
        f"{name} was {getattr(before, name)} and is now {getattr(now, name)}"
        for name in names
        if getattr(before, name) != getattr(now, name)
    ]
    if changed:
        raise ExperimentError(
            f"result {result_id} cannot be resumed here: {'; '.join(changed)}",
            hint="resume it on the machine where it was started, or start a new run",
        )
    if other := differing(before.depends_on, now.depends_on):
        raise ExperimentError(
            f"result {result_id} was begun with a different version: {other}",
            hint="install that version again, or start a new run: in virtual time, the figures depend on it",
        )


def require_room(folder: Path, needed_bytes: int, what: str) -> None:
    """Raises ResultError if the folder's file system has less free space than ``needed_bytes``."""
    if shutil.disk_usage(folder).free < needed_bytes:
        raise ResultError(
            f"{folder} has less than {human_bytes(needed_bytes)} of free space for {what}",
            hint="free some space, or put the state folder elsewhere with RAIDLAB_STATE=FOLDER",
        )


def _report_stored(error: BaseException, journal: RunJournal, on_notice: Callable[[str], None]) -> None:
    """Report the stored result in the hint of a LabError, or as a notice for any other error."""
    resume = f"'raidlab run --resume {journal.record.id}' continues it"
    if not isinstance(error, LabError):
        if journal.record.done_keys:
            on_notice(f"the result is stored as incomplete; {resume}")
        return
    hints = [error.hint] if error.hint else []
    if isinstance(error, ResultNotStored):
        # A record that cannot be written to its folder is saved in the folder for temporary files.
        with suppress(OSError):
            with tempfile.NamedTemporaryFile("wb", prefix="raidlab-result-", suffix=".json", delete=False) as file:
                file.write(error.payload)
            hints.append(f"the result is saved as {file.name}")
    if journal.record.done_keys:
        hints.append(f"{resume} where it stopped")
    error.hint = "; ".join(hints)


@dataclass(eq=False, slots=True)
class Run:
    """One run of an experiment on an open lab: builds its arrays on demand, and measures its cells.

    With shared disks, only one array exists at a time. Cells in the journal are not measured again.
    """

    lab: Lab
    experiment: Experiment
    journal: RunJournal
    stopwatch: Stopwatch
    progress: ProgressMeter
    allowed_rules: frozenset[str]
    due_rebuilds: tuple[RebuildCell, ...] = field(init=False)
    rates: DiskRates | None = None
    """Rates of one disk, measured if predictions need them."""
    _due: tuple[Cell, ...] = field(init=False)
    _spare: SpareMeasurements = field(init=False)
    _records: dict[str, ArrayRecord] = field(init=False)
    """Records of all arrays built so far, including those built before an interruption."""
    _built: dict[str, BuiltArray] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    """Names of the disks that an array or a probe has used."""
    _findings: list[LintFinding] = field(default_factory=list)
    """Lint findings on the kernel and on all arrays built so far."""
    _notes: list[str] = field(default_factory=list)
    _idle_baseline: float = 0.0

    def __post_init__(self) -> None:
        record = self.journal.record
        self._records = {array.name: array for array in record.arrays}
        self._due, self.due_rebuilds = remaining(self.experiment, record.done_keys)
        used = sum(cell.disturbed_before for cell in record.cells)
        self._spare = SpareMeasurements(len(planned_keys(self.experiment)), used=used)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Stop the arrays at the end of the context, and finish the record, which is incomplete after an error."""
        status = RunStatus.INCOMPLETE
        try:
            yield
            self._take_apart()
            status = RunStatus.COMPLETE
        except MachineLost:
            raise
        except BaseException:
            # On a lost machine nothing can be stopped.
            while self._built:
                with suppress(LabError):
                    self._take_apart()
            raise
        finally:
            record, arrays = self.journal.record, self._records
            built = [arrays[plan.id] for plan in self.experiment.arrays if plan.id in arrays]
            found = stamps_of(self.experiment, record.conditions, self._findings, record.cells)
            wide = wide_notes(self.experiment, record) if status is RunStatus.COMPLETE else ()
            timings = self.stopwatch.timings(record.timings)
            stamps = tuple(dict.fromkeys((*record.stamps, *found, *wide, *self._notes)))
            changed = msgspec.structs.replace(record, arrays=tuple(built), timings=timings, stamps=stamps)
            self.journal.finish(changed, status=status)

    def due_cells(self) -> Iterator[Cell]:
        """Yield the missing cells, then rounds of those with a wide interval, up to ``most_repeats`` repeats."""
        yield from self._due
        for repeat in range(self.experiment.repeats, self.experiment.most_repeats):
            record = self.journal.record
            wide = wide_cells(self.experiment, record)
            if not wide:
                return
            for cell in extra_cells(self.experiment, repeat, wide, len(record.cells)):
                if cell.key not in record.done_keys:
                    yield cell

    def prepare(self) -> None:
        """Probe a disk, build arrays with disks of their own, and measure the idle machine. Raises ExperimentError."""
        experiment, machine = self.experiment, self.lab.machine
        if not (self._due or self.due_rebuilds or wide_cells(experiment, self.journal.record)):
            return
        self._findings += lint_kernel(self.lab)
        if experiment.rebuild or experiment.disks.model:
            self.progress.doing("probe one disk", 9.0)
            workloads = [job.build() for job in experiment.jobs]
            with self.stopwatch.aside():
                self.rates = probe_disk(self.lab, self.lab.disks[0], workloads, rebuilds=bool(experiment.rebuild))
            self._used.add(self.lab.disks[0].name)
        if experiment.disks.sharing is Sharing.SEPARATE:
            # All arrays exist at the same time, so measurements can alternate.
            for plan in experiment.arrays:
                self.array(plan.id)
        self.progress.doing("measure the idle machine", IDLE_SECONDS)
        with Recorder(machine, None, (), hertz=experiment.sampling_hertz) as recorder:
            machine.clock.sleep(IDLE_SECONDS)
        if idle := recorder.samples:
            self._idle_baseline = busy_fraction(idle[0], idle[-1]) or 0.0

    def array(self, array_id: str) -> BuiltArray:
        """Return the array; build it if necessary. Raises ExperimentError if the lint rejects it."""
        if array_id in self._built:
            return self._built[array_id]
        if self.experiment.disks.sharing is Sharing.SHARED:
            self._take_apart()
        plan = self.experiment.array(array_id)
        self.progress.doing(f"build {plan.label}", STEP_SECONDS)
        disks, number = self._disks_for(plan)
        self._make_blank(disks)
        spec = plan.spec(disks, number)
        arrays = OpenArrays(self.lab, kinds())
        if spec.name in arrays.names():
            raise ExperimentError(
                f"an array named {spec.name} is already running on this machine",
                hint="stop it first, or run the experiment on another machine",
            )
        taken = self.lab.machine.list_dirs(["/sys/block"])["/sys/block"]
        steps = spec.creation(self.lab.disks, FileSystem.RAW, taken)
        self.lab.execute(steps)
        array, status = None, None
        inner: tuple[str, ...] = ()
        if spec.is_array:
            kind = kind_of_level(plan.level)
            if plan.is_volume:
                # md reports only its own arrays by name; volumes are found by the metadata on their disks.
                machine = self.lab.machine
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
        used_kib = digits(details.get("used_device_size_kib", ""))
        record = ArrayRecord(
            name=plan.id,
            level=status.level if status else plan.level,
            layout=details.get("layout", ""),
            members=spec.devices,
            chunk_bytes=spec.effective_chunk_bytes,
            size_bytes=size_bytes,
            used_device_bytes=used_kib * KIB if used_kib is not None else None,
            consistency_policy=details.get("consistency_policy", status.consistency_policy if status else ""),
            file_system=self.experiment.file_system.value,
            commands=tuple(steps.lines()),
            details=details,
        )
        built = BuiltArray(plan, spec, disks, target, array, inner)
        self._write_files(built)
        self._built[array_id], self._records[array_id] = built, record
        found = lint_bench(self.lab, built)
        self._findings += found
        require_sound(found, self.experiment, self.allowed_rules)
        return built

    def _take_apart(self) -> None:
        while self._built:
            _, built = self._built.popitem()
            self.lab.execute(filesystem.unmount(built.target.file_system, built.spec.device))
            if built.array:
                self.lab.execute(built.array.stop())
            sums = content_sums(self.lab.machine, built.disks)
            self._records[built.plan.id] = msgspec.structs.replace(self._records[built.plan.id], content_sums=sums)

    def _disks_for(self, plan: ArrayPlan) -> tuple[tuple[LabDisk, ...], int]:
        if plan.take:
            return tuple(self.lab.disk(name) for name in plan.disk_names()), 0
        if self.experiment.disks.sharing is Sharing.SHARED:
            return self.lab.disks[: plan.members], 0
        number = self.experiment.arrays.index(plan)
        first = sum(other.members for other in self.experiment.arrays[:number])
        return self.lab.disks[first : first + plan.members], number

    def _make_blank(self, disks: tuple[LabDisk, ...]) -> None:
        """Make sure that disks are blank, and reset those that another array or a probe has used."""
        stale = [disk for disk in disks if disk.name in self._used]
        self.lab.reset(stale)
        self._used.update(disk.name for disk in disks)
        # Each read of an emulated drive takes time, and discarded images are known to be blank.
        unknown = [disk for disk in disks if disk not in stale or not reads_as_zeros_after_reset(disk)]
        self.lab.guard.check_blank([disk.node for disk in unknown])

    def _wait_and_tune(self, plan: ArrayPlan, names: Iterable[str]) -> None:
        """Wait for the first resync of these md arrays, if there is one, and set their tunables."""
        if not plan.assume_clean:
            with self.stopwatch.resync():
                for name in names:
                    wait_until_idle(self.lab.machine, name)
        self.lab.execute(tuned(plan, names))

    def _make_file_system(self, spec: Spec, size_bytes: int) -> Plan:
        kind, chunk, stripe = self.experiment.file_system, spec.effective_chunk_bytes, spec.full_stripe_bytes
        steps = filesystem.make(
            kind, spec.device, size_bytes=size_bytes, chunk_bytes=chunk, full_stripe_bytes=stripe
        ) + filesystem.mount(kind, spec.device)
        self.lab.execute(steps)
        return steps

    def _target(self, device: str, array: str | None, disks: tuple[LabDisk, ...], size_bytes: int) -> LoadTarget:
        kind, machine = self.experiment.file_system, self.lab.machine
        is_raw = kind is FileSystem.RAW
        free = size_bytes if is_raw else filesystem.free_bytes(machine, filesystem.mount_point(device))
        members = tuple(disk.kernel_name for disk in disks)
        return LoadTarget(array, device, members, kind, free)

    def _write_files(self, built: BuiltArray) -> None:
        """Write the files of all workloads. Workloads with the same layout share files."""
        if not self.experiment.writes_files_first:
            return
        layouts: dict[tuple[int, int | None], Workload] = {}
        rebuild = self.experiment.rebuild
        under = [rebuild.under.build()] if rebuild and rebuild.under and built.plan.id in rebuild.arrays else []
        for workload in (*self.experiment.workloads_on(built.plan.id), *under):
            if not workload.recipe:
                layouts.setdefault((workload.jobs, workload.file_bytes), workload)
        self.progress.doing(f"write the files of {built.plan.label}", STEP_SECONDS)
        for workload in layouts.values():
            try:
                with self.stopwatch.aside():
                    prepare(self.lab, built.target, workload, workload.file_bytes)
            except WorkloadError:
                if not self.experiment.keeps_going:
                    raise
        # The first measurement with cold caches then does not wait for the writeback.
        self.lab.start_writing_out(built.disks)

    def options(self, workload: Workload) -> MeasureOptions:
        return MeasureOptions(
            file_bytes=workload.file_bytes,
            seed=self.experiment.seed,
            hertz=self.experiment.sampling_hertz,
            idle_baseline=self._idle_baseline,
            on_sample=self.progress.on_sample,
            is_cancelled=self.progress.is_cancelled,
        )

    def drop_caches(self, built: BuiltArray) -> tuple[str, ...]:
        target = built.target
        return make_cold(self.lab, target.file_system, target.device, built.disks, built.parity_arrays)

    def measure(self, cell: Cell) -> None:
        """Measure one cell, again if it was disturbed, and store it with its lint findings."""
        built, workload = self.array(cell.array), cell.workload
        is_cold = self.experiment.cache is Cache.COLD
        events: tuple[str, ...] = ()
        started, measured, disturbed_before = "", None, -1
        try:
            while measured is None:
                disturbed_before += 1
                if is_cold:
                    events = self.drop_caches(built)
                self.progress.doing(self._label(cell, disturbed_before), load_seconds(workload) + 1.5)
                started = utc_second_text(self.lab.host.clock)
                try:
                    measured = run_workload(
                        self.lab, built.target, workload, self.options(workload), repeat=cell.repeat
                    )
                except MeasurementDisturbed:
                    if not self._spare.take(None, 0.0, disturbed_before):
                        raise
                else:
                    if self._spare.take(measured.waited_fraction, measured.share_measured, disturbed_before):
                        measured = None
        except (WorkloadError, SpecError) as error:
            if not self.experiment.keeps_going:
                raise
            self._notes.append(f"failed: {cell.key}: {error.message.splitlines()[0]}")
        else:
            record = msgspec.structs.replace(
                self.cell_record(built, workload, measured, HEALTHY, cell.repeat, cell.order_index, started),
                cache_events=events,
                disturbed_before=disturbed_before,
            )
            stamps = tuple(finding.stamp for finding in lint_measured(record, workload, measured))
            self.journal.add(msgspec.structs.replace(record, stamps=stamps))
        # A later measurement with cold caches then does not wait for the writeback.
        self.lab.start_writing_out(built.disks)
        self.progress.done(cell.key)

    def _label(self, cell: Cell, disturbed_before: int) -> str:
        fewest, most = self.experiment.repeats, self.experiment.most_repeats
        of = f"{fewest} to {most}" if most > fewest else str(fewest)
        label = f"{self.experiment.array(cell.array).label}: {cell.workload.title}, repeat {cell.repeat + 1} of {of}"
        return f"{label}{', again: disturbed' if disturbed_before else ''}"

    def cell_record(
        self,
        built: BuiltArray,
        workload: Workload,
        measured: Measured,
        phase: str,
        repeat: int,
        order_index: int,
        started_utc: str,
    ) -> CellRecord:
        prediction = self._predict(built, workload, phase, repeat, measured.file_bytes)
        return CellRecord(
            array=built.plan.id,
            workload=workload.id,
            phase=phase,
            repeat=repeat,
            order_index=order_index,
            started_utc=started_utc,
            figures=measured.figures,
            cpu=measured.cpu if self.journal.record.conditions.has_cpu_time else None,
            steady=measured.steady,
            job_text=measured.job_text,
            file_bytes=measured.file_bytes,
            addresses=measured.addresses,
            waited_fraction=measured.waited_fraction,
            predicted_iops=prediction.iops if prediction else None,
            prediction_reason=prediction.reason if prediction else "",
        )

    def _predict(
        self, built: BuiltArray, workload: Workload, phase: str, repeat: int, file_bytes: int | None
    ) -> LoadPrediction | None:
        """Predict the load if the disks have a known service time; others are as fast as the processor allows."""
        if not self.experiment.disks.model or self.rates is None or phase == REBUILDING or built.inner:
            return None
        members = len(built.md.members)
        failed = frozenset({victim_slot(repeat, members)} if phase == DEGRADED else ())
        try:
            return predict_load(
                built.md.raid,
                [self.rates] * members,
                workload,
                failed=failed,
                working_bytes=file_bytes * workload.jobs if file_bytes else None,
                chunk_bytes=built.spec.effective_chunk_bytes,
            )
        except SpecError:
            return None


class RebuildRunner:
    """Measures the rebuilds of a run, one after the other."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lab = run.lab
        self._last_sums: dict[str, DataSum] = {}

    def measure(self, cell: RebuildCell) -> None:
        """Measure one rebuild, with checksums before the fault, of the degraded array, and after the rebuild."""
        built = self._run.array(cell.array)
        victim = built.md.members[victim_slot(cell.repeat, len(built.md.members))]
        if cell.under is None:
            self._alone(cell, built, victim)
        else:
            self._under_load(cell, built, victim, cell.under)

    def _alone(self, cell: RebuildCell, built: BuiltArray, victim: str) -> None:
        label = f"{built.plan.label}: rebuild {victim}, repeat {cell.repeat + 1}"
        self._run.progress.doing(label, 10.0)
        name = built.md.name
        before = self._last_sums.get(built.plan.id) or self._sum(built)
        predicted = predict_rebuild(self._lab, name, self._run.rates)
        fail_and_remove(self._lab, name, victim)
        degraded = self._sum(built)
        with self._run.stopwatch.resync():
            measured = measure_rebuild(self._lab, name, victim, built.target.members)
        after = self._last_sums[built.plan.id] = self._sum(built)
        timeline = timeline_of([Recording(REBUILDING, measured.samples)], name, built.target.members)
        self._store(cell, measured, (before, degraded, after), predicted, timeline)

    def _store(
        self,
        cell: RebuildCell,
        measured: RebuildMeasured,
        sums: tuple[DataSum, DataSum, DataSum],
        predicted: Prediction | None,
        timeline: Timeline | None,
        phases: tuple[PhaseRecord, ...] = (),
    ) -> None:
        """Store a rebuild. ``sums`` are checksums before the fault, of the degraded array, and after the rebuild."""
        before, degraded, after = sums
        is_unchanged = all(verdict(before, each) is DataVerdict.INTACT for each in (degraded, after))
        reason = f"{predicted.reason}{', without load' if cell.under else ''}" if predicted else ""
        self._run.journal.add(
            RebuildRecord(
                array=cell.array,
                repeat=cell.repeat,
                rebuild_seconds=measured.rebuild_seconds,
                predicted_seconds=predicted.value if predicted else None,
                prediction_reason=reason,
                rebuilt_bytes=measured.rebuilt_bytes,
                request_bytes=measured.request_bytes,
                under_workload=cell.under.id if cell.under else "",
                checksum_before=before.digest,
                checksum_after=after.digest,
                data_unchanged=is_unchanged if before.digest else None,
                phases=phases,
                stamps=tuple(f"unreadable: {each.error}" for each in sums if each.error),
            ),
            timeline=timeline,
        )
        self._run.progress.done(cell.key)

    def _sum(self, built: BuiltArray) -> DataSum:
        if built.target.file_system is FileSystem.RAW:
            return sum_device(self._lab.machine, built.spec.device)
        return sum_files(self._lab.machine, mount_point(built.spec.device))

    def _under_load(self, cell: RebuildCell, built: BuiltArray, victim: str, load: Workload) -> None:
        """Run a load in all phases, from healthy to restored, and check data that the load does not write."""
        name = built.md.name
        if built.target.file_system is FileSystem.RAW:
            # On a bare device the load uses the start, and the witness data the end.
            built = replace(built, target=replace(built.target, available_bytes=self._witness_place(built)[0]))
        before = self._witness(built, write=True)
        recordings: list[Recording] = []
        phases = [self._phase(cell, built, load, HEALTHY, recordings)]
        predicted = predict_rebuild(self._lab, name, self._run.rates)
        fail_and_remove(self._lab, name, victim)
        degraded = self._witness(built)
        phases.append(self._phase(cell, built, load, DEGRADED, recordings))
        minimum = self._run.experiment.rebuild.minimum_speed_kib_per_second if self._run.experiment.rebuild else None
        if minimum:
            self._lab.execute(
                operations.set_sync_speed(name, minimum_kib_per_second=minimum, maximum_kib_per_second=None)
            )
        self._run.progress.doing(f"{built.plan.label}: rebuild under {load.title}", 20.0)
        start_load = partial(
            BackgroundLoad,
            self._lab,
            built.target,
            load,
            self._run.options(load),
            longest_run_seconds=LONGEST_REBUILD_SECONDS,
            repeat=cell.repeat,
        )
        started = utc_second_text(self._lab.host.clock)
        measured = measure_rebuild(self._lab, name, victim, built.target.members, start_load=start_load)
        if minimum:
            self._lab.execute(operations.set_sync_speed(name, minimum_kib_per_second=None, maximum_kib_per_second=None))
        phases.append(PhaseRecord(name=REBUILDING, seconds=measured.rebuild_seconds))
        recordings.append(Recording(REBUILDING, measured.samples))
        if measured.load:
            self._add_cell(cell, built, load, measured.load, REBUILDING, started)
        phases.append(self._phase(cell, built, load, RESTORED, recordings))
        after = self._witness(built)
        timeline = timeline_of(recordings, name, built.target.members)
        self._store(cell, measured, (before, degraded, after), predicted, timeline, tuple(phases))

    def _phase(
        self, cell: RebuildCell, built: BuiltArray, load: Workload, phase: str, recordings: list[Recording]
    ) -> PhaseRecord:
        self._run.drop_caches(built)
        label = f"{built.plan.label}, {phase}: {load.title}, repeat {cell.repeat + 1}"
        self._run.progress.doing(label, load_seconds(load) + 1.5)
        started = utc_second_text(self._lab.host.clock)
        measured = run_workload(self._lab, built.target, load, self._run.options(load), repeat=cell.repeat)
        self._add_cell(cell, built, load, measured, phase, started)
        recordings.append(Recording(phase, measured.samples))
        return PhaseRecord(name=phase, seconds=load.runtime_seconds)

    def _add_cell(
        self, cell: RebuildCell, built: BuiltArray, load: Workload, measured: Measured, phase: str, started_utc: str
    ) -> None:
        order_index = len(self._run.journal.record.cells)
        record = self._run.cell_record(built, load, measured, phase, cell.repeat, order_index, started_utc)
        self._run.journal.add(record)
        self._run.progress.done(record.key)

    def _witness(self, built: BuiltArray, *, write: bool = False) -> DataSum:
        """Compute the checksum of data that the load does not write, in a separate file or at the device's end."""
        if built.target.file_system is FileSystem.RAW:
            begin, length = self._witness_place(built)
            if write:
                place = (f"of={built.spec.device}", f"seek={begin >> 20}", f"count={length >> 20}")
                argv = ("dd", "if=/dev/urandom", *place, "bs=1M")
                self._lab.machine.run((*argv, "oflag=direct", "status=none"), timeout_seconds=600)
            return sum_device(self._lab.machine, built.spec.device, length, skip_bytes=begin)
        folder = f"{mount_point(built.spec.device)}/witness"
        if write:
            copy = f"dd if=/dev/urandom of={folder}/data bs=1M count={_WITNESS_BYTES >> 20} oflag=direct status=none"
            script = f"mkdir -p {folder} && {copy}"
            self._lab.machine.run(("sh", "-c", script), timeout_seconds=600)
        return sum_files(self._lab.machine, folder)

    def _witness_place(self, built: BuiltArray) -> tuple[int, int]:
        """Return the offset and length of the witness data on a bare device, in bytes."""
        size = read_array(self._lab.machine, built.md.name).size_bytes
        length = min(_WITNESS_BYTES, size // 4 >> 20 << 20)
        return (size - length) >> 20 << 20, length
