"""Run sweeps. Plan the cells, reuse those that are stored, have workers measure the others, and store each result.

``LocalDesk`` offers the sweeps of this computer's state folder to the screens that use ``lab.experiments.sweeps``.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from lab.disks import with_fitting_time
from lab.disks.kinds import DiskKind
from lab.errors import ExperimentError, LabError, ResultError, SpecError
from lab.experiments.linting import lint_experiment, require_sound
from lab.experiments.run import RESULT_ROOM_BYTES, require_room
from lab.experiments.schedule import load_seconds
from lab.experiments.sweeps import (
    LatestCell,
    SweepDesk,
    SweepEntry,
    SweepListener,
    SweepProgress,
    SweepStatus,
    SweepWork,
)
from lab.gates.decoding import decode_json
from lab.host.pool import processors
from lab.machine import Host, Target, TargetKind, parse_target
from lab.measure.job import differing
from lab.sweep.cells import (
    CellDone,
    CellTask,
    MeasuredCell,
    PlannedCell,
    SweepFolder,
    SweepStore,
    cell_store,
    computer,
    facts,
    key_of,
    measured,
    sweep_work,
    unpacked_cell,
)
from lab.sweep.cluster import INSTALL, ClusterKind, ClusterSpec, parse_cluster, require_dask
from lab.sweep.grid import FailedCell, iops_text, summary_tables
from lab.sweep.schema import (
    Combination,
    Combinations,
    Sweep,
    built_in_names,
    combinations,
    decode_sweep,
    find_sweep,
    watched,
)
from lab.sweep.spread import Answer, SpreadTask, TaskSpread
from lab.units import counted, human_bytes, human_seconds

if TYPE_CHECKING:
    from lab.sweep.pool import Pool

CELL_BYTES = 8192
"""Estimated size of a cell in the store."""
MOST_LATEST = 12
_REPORT_SECONDS = 1.0
_LEAST_PATIENCE_SECONDS, _PATIENCE = 600.0, 20.0
"""The time limit of a cell is this minimum, plus the estimated time multiplied by this factor."""
_MACHINE_SECONDS = 2.0
_SECONDS_A_VIRTUAL_SECOND = 0.03
"""Estimated time to start a machine, and estimated real time per second of virtual time."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """The options of a sweep, and its callbacks."""

    target: Target
    host: Host
    cluster: ClusterSpec
    dashboard: str = ""
    on_progress: Callable[[SweepProgress], None] = lambda _: None
    on_planned: Callable[[float], None] = lambda _: None
    """Receives the share of the planning that is done, from 0 to 1. Planning 100,000 cells takes about ten seconds."""
    on_notice: Callable[[str], None] = lambda _: None
    is_cancelled: Callable[[], bool] = lambda: False
    """Polled twice a second while cells are measured. When it returns True, the sweep ends and can be resumed."""
    allowed_rules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The cells of a sweep, and an estimate of its cost."""

    sweep: Sweep
    text: str
    found: Combinations
    tasks: tuple[CellTask, ...]
    done: frozenset[str]
    """Keys of the cells that are stored and undamaged."""
    seconds: float
    """Estimated duration of the missing cells on one worker."""
    is_virtual_time: bool

    @property
    def missing(self) -> tuple[CellTask, ...]:
        return tuple(task for task in self.tasks if task.key not in self.done)

    @property
    def bytes(self) -> int:
        """Estimated size of the missing cells in the store."""
        return len(self.missing) * CELL_BYTES


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The numbers of measured and reused cells of a completed run, and its failed cells."""

    folder: SweepFolder
    measured: int
    reused: int
    failed: tuple[FailedCell, ...] = ()


def plan_sweep(sweep: Sweep, text: str, request: SweepRequest) -> SweepPlan:
    """Plan a sweep, without starting a cluster.

    Raises SpecError if the target cannot run sweeps, ExperimentError if the lint rejects cells, and ToolMissing if a
    kernel is missing.
    """
    if request.target.kind is not TargetKind.UML:
        raise SpecError(
            f"a sweep starts a machine for each cell, but {request.target} is a single machine", hint="use --on uml:"
        )
    if others := ", ".join(sorted(set(request.target.options) - {"time"})):
        raise SpecError(
            f"a sweep starts its own machines, so {request.target} cannot set {others}",
            hint="set only the 'time' option, and give kernels on the kernel axis",
        )
    found = combinations(sweep, _part(request, 0.0, 0.3))
    is_virtual = _is_virtual(sweep, found, request)
    _require_sound(found.cells, request)
    is_of_files = sweep.disks.kind is DiskKind.FILE
    most_files = max(cell.experiment.disk_count for cell in found.cells) if is_of_files else 0
    kernels = dict.fromkeys(cell.kernel for cell in found.cells)
    known = {kernel: facts(kernel, is_virtual_time=is_virtual, file_disks=most_files) for kernel in kernels}
    tasks: dict[str, CellTask] = {}
    seconds: dict[str, float] = {}
    for cell in watched(found.cells, len(found.cells), _part(request, 0.7, 0.8)):
        depends_on = known[cell.kernel]
        key = key_of(cell, depends_on, is_virtual_time=is_virtual)
        # Two names for the same kernel give the same cell.
        if key not in tasks:
            seconds[key] = _seconds(cell, is_virtual=is_virtual)
            tasks[key] = CellTask(
                key=key,
                label=cell.label,
                experiment=cell.experiment,
                kernel=cell.kernel,
                is_virtual_time=is_virtual,
                depends_on=depends_on,
                allowed_rules=tuple(sorted(request.allowed_rules)),
                most_seconds=_LEAST_PATIENCE_SECONDS + _PATIENCE * seconds[key],
            )
    store = cell_store(request.host)
    there = store.keys(tasks)
    done = frozenset(key for key in watched(there, len(there), _part(request, 0.8, 1.0)) if store.load(key))
    left_seconds = sum(each for key, each in seconds.items() if key not in done)
    return SweepPlan(sweep, text, found, tuple(tasks.values()), done, left_seconds, is_virtual)


def run_sweep(plan: SweepPlan, request: SweepRequest, folder: SweepFolder | None = None) -> SweepOutcome:
    """Measure the missing cells of the sweep in ``folder``, or of a new sweep if ``folder`` is None.

    Raises RequirementMissing if Dask is missing, ResultError if the disk is full, LabError if the cluster does not
    start, ClusterLost if it fails later, and RunCancelled if ``request.is_cancelled`` returns True. Cells measured
    before an error are stored.
    """
    host = request.host
    if plan.missing:
        require_dask()
    folder_of_cells = host.state.make(cell_store(host).root, what="the folder for cells")
    require_room(folder_of_cells, plan.bytes + RESULT_ROOM_BYTES, "cells")
    store = SweepStore(host)
    cells = tuple(PlannedCell(key=task.key, label=task.label) for task in plan.tasks)
    if folder and (
        earlier := cell_store(host).keys({each.key for each in folder.record.cells} - {each.key for each in cells})
    ):
        # These cells remain in the old sweep, because they were measured under different conditions.
        were = "was" if len(earlier) == 1 else "were"
        request.on_notice(
            f"{counted(len(earlier), 'cell')} of {folder.id} {were} measured with a different raidlab version, "
            "program, kernel or computer, so this is a new sweep"
        )
        folder = None
    if folder is None:
        folder = store.begin(plan.sweep, plan.text, cells, is_virtual_time=plan.is_virtual_time)
    with folder.open():
        if folder.record.cells != cells:
            store.plan_anew(folder, cells)
        folder.failures.path.unlink(missing_ok=True)
        sweep_work(host)
        run = _Run(plan, request, folder)
        try:
            run.run()
        except BaseException:
            stored = "finished cells are stored" if run.has_any else "nothing has been measured yet"
            request.on_notice(f"{stored}; 'raidlab sweep {folder.id} --resume' continues the sweep")
            raise
        finally:
            run.report_progress(is_over=True)
    return SweepOutcome(folder, run.measured, len(plan.tasks) - run.measured - len(run.failed), tuple(run.failed))


class _Run:
    def __init__(self, plan: SweepPlan, request: SweepRequest, folder: SweepFolder) -> None:
        self.measured = 0
        self._arrived = 0
        """Number of missing cells that have arrived, measured now or found in a worker's store."""
        self.failed: list[FailedCell] = []
        self._latest: deque[LatestCell] = deque(maxlen=MOST_LATEST)
        self._plan, self._request, self._folder = plan, request, folder
        self._store = cell_store(request.host)
        self._clock = request.host.clock
        self._began = self._reported_at = self._clock.monotonic_seconds()
        self._running = self._workers = 0
        self._pool: Pool | None = None
        self._to_do = len(plan.missing)

    def run(self) -> None:
        missing = list(self._plan.missing)
        if not missing:
            return
        from lab.sweep.pool import Pool

        request = self._request

        with Pool(
            request.cluster,
            self._plan.sweep.cluster,
            request.host,
            self._folder.path,
            request.on_notice,
            dashboard=request.dashboard,
            is_cancelled=request.is_cancelled,
        ) as pool:
            self._pool = pool
            spread = TaskSpread(
                pool, measured, on_state=self._on_state, on_notice=request.on_notice, is_cancelled=request.is_cancelled
            )
            self._check_workers(pool, spread, missing)
            self._to_do = len(missing)
            self._began = self._clock.monotonic_seconds()
            by_key = {task.key: task for task in missing}
            work = (SpreadTask(key=task.key, label=task.label, payload=msgspec.json.encode(task)) for task in missing)
            for task, answer in spread.run(work):
                self._take(by_key[task.key], answer)
        self._pool = None

    @property
    def has_any(self) -> bool:
        return bool(self._arrived or self._plan.done)

    def report_progress(self, *, is_over: bool = False) -> None:
        pool = self._pool
        progress = SweepProgress(
            done=len(self._plan.tasks) - self._left(),
            running=0 if is_over else self._running,
            failed=len(self.failed),
            planned=len(self._plan.tasks),
            workers=self._workers,
            left_seconds=None if is_over else self._left_seconds(),
            cluster=self._request.cluster.text,
            dashboard=pool.dashboard if pool else "",
            processes=pool.process_ids if pool else {},
            client=os.getpid(),
            is_over=is_over,
            latest=tuple(self._latest),
        )
        self._folder.report_progress(progress)
        self._request.on_progress(progress)

    def _check_workers(self, pool: Pool, spread: TaskSpread, missing: list[CellTask]) -> None:
        """Exclude workers that would give different figures, and copy missing cells that workers already have."""
        dependencies = {task.kernel: task.depends_on for task in missing}
        problems = pool.run(dependency_problem, msgspec.json.encode([dependencies, self._plan.is_virtual_time]))
        spread.shut_out(
            {
                address: f"raidlab does not run there: {problem!r}" if isinstance(problem, Exception) else str(problem)
                for address, problem in problems.items()
                if problem
            }
        )
        by_key = {task.key: task for task in missing}
        for address, there in pool.run(have, msgspec.json.encode(list(by_key))).items():
            names = decode_json(there, list[str]) if isinstance(there, bytes) else []
            for key in filter(by_key.__contains__, names):
                data = pool.run(given, key.encode(), workers=[address]).get(address, b"")
                if isinstance(data, bytes) and data:
                    self._store_cell(by_key[key], data)
        missing[:] = [task for task in missing if self._store.load(task.key) is None]

    def _take(self, task: CellTask, answer: Answer) -> None:
        if answer.failure:
            cell = FailedCell(cell=task.key, label=task.label, message=answer.failure, console=answer.console)
            self._folder.failures.append(cell)
            self.failed.append(cell)
            self._latest.append(LatestCell(label=task.label, told=answer.failure, is_failed=True))
            self._request.on_notice(f"{task.label} cannot be measured: {answer.failure}")
        else:
            found = answer.data
            assert isinstance(found, MeasuredCell)
            done = self._store_cell(task, found.data)
            self._latest.append(LatestCell(label=task.label, told=speeds(done)))
            self._arrived += 1
            self.measured += not found.was_there

    def _store_cell(self, task: CellTask, data: bytes) -> CellDone:
        """Store a cell that a worker returned, unless the worker is on this computer and has already stored it."""
        done = unpacked_cell(data, f"cell {task.key}")
        if done.key != task.key:
            raise ResultError(f"a worker returned a cell other than {task.key}", hint="stop that worker")
        if self._store.load(task.key) is None:
            self._store.add(task.key, data)
        return done

    def _left(self) -> int:
        return self._to_do - self._arrived

    def _left_seconds(self) -> float | None:
        passed = self._clock.monotonic_seconds() - self._began
        if self._arrived < 3 or not passed:
            return self._plan.seconds / self._workers if self._workers else None
        return passed / self._arrived * max(0, self._left() - len(self.failed))

    def _on_state(self, running: int, workers: int) -> None:
        self._running, self._workers = running, workers
        now = self._clock.monotonic_seconds()
        if now > self._reported_at + _REPORT_SECONDS:
            self._reported_at = now
            self.report_progress()


def speeds(cell: CellDone) -> str:
    """Return the speeds of a cell's first workload, such as ``reads 1,234 IOPS, writes 56 IOPS``."""
    first = [row for row in cell.rows if row.workload == cell.rows[0].workload]
    return ", ".join(f"{row.direction}s {iops_text(row.iops)} IOPS" for row in first)


def dependency_problem(payload: bytes) -> str:
    """Return the reason why this worker would give different figures, or an empty string."""
    planned, is_virtual_time = decode_json(payload, tuple[dict[str, dict[str, str]], bool])
    try:
        for kernel, depends_on in planned.items():
            if different := differing(depends_on, facts(kernel, is_virtual_time=is_virtual_time)):
                return f"{computer()} has a different {different}"
    except LabError as error:
        return f"{computer()}: {error.message}; {error.hint}"
    return ""


def have(payload: bytes) -> bytes:
    """Return those keys in ``payload`` whose cells are in this worker's store, both as JSON lists."""
    keys = decode_json(payload, list[str])
    return msgspec.json.encode(sorted(cell_store(Host.real()).keys(keys)))


def given(payload: bytes) -> bytes:
    """Return the content of a cell's file in this worker's store, or no bytes if it is missing or damaged."""
    found = cell_store(Host.real()).read(payload.decode())
    return found[0] if found else b""


def _is_virtual(sweep: Sweep, found: Combinations, request: SweepRequest) -> bool:
    if sweep.disks.kind is not DiskKind.SPINDLE:
        return request.target.is_virtual_time
    specs = found.cells[0].experiment.disk_specs
    return with_fitting_time(request.target, request.host, specs, request.on_notice).is_virtual_time


def _part(request: SweepRequest, begin: float, end: float) -> Callable[[float], None]:
    """Return a callback that converts the progress of one step to the progress of the whole planning."""
    return lambda part: request.on_planned(begin + (end - begin) * part)


def _require_sound(cells: Collection[Combination], request: SweepRequest) -> None:
    """Raise ExperimentError if the lint rejects cells. Its message gives their number, and the details of the first."""
    refused: list[tuple[str, ExperimentError]] = []
    for cell in watched(cells, len(cells), _part(request, 0.3, 0.7)):
        try:
            require_sound(lint_experiment(cell.experiment), cell.experiment, request.allowed_rules)
        except ExperimentError as error:
            refused.append((cell.label, error))
    if refused:
        label, first = refused[0]
        raise ExperimentError(
            f"{counted(len(refused), 'cell')} would not measure what the sweep claims; the first is {label}:\n"
            f"{first.message.partition(chr(10))[2]}",
            hint=first.hint,
        )


def _seconds(cell: Combination, *, is_virtual: bool) -> float:
    seconds = sum(load_seconds(job.build()) for job in cell.experiment.jobs) * cell.experiment.repeats
    return _MACHINE_SECONDS + seconds * (_SECONDS_A_VIRTUAL_SECOND if is_virtual else 1.0)


def worker_count(spec: ClusterSpec, sweep: Sweep) -> int:
    """Return the expected number of workers, or 0 if it is unknown before the start."""
    match spec.kind:
        case ClusterKind.LOCAL:
            return spec.workers or processors()
        case ClusterKind.SSH:
            return sweep.cluster.ssh.workers * len(spec.hosts)
        case ClusterKind.SLURM:
            return sweep.cluster.slurm.workers
    return 0


MOST_RUNS = 30
"""Maximum number of earlier sweeps in the list. Older ones are still available by their id."""
MOST_REASONS = 12
"""Maximum number of reasons that are given for leaving out combinations."""


def plan_lines(plan: SweepPlan, request: SweepRequest) -> Iterator[str]:
    """Yield the lines to show before a sweep starts, with its number of cells and the time and space that it needs."""
    found, missing = plan.found, len(plan.missing)
    workers = worker_count(request.cluster, plan.sweep)
    there = f", {len(plan.tasks) - missing:,} of them measured before" if missing < len(plan.tasks) else ""
    time = "in virtual time" if plan.is_virtual_time else "in real time"
    yield f"{plan.sweep.title}: {counted(len(plan.tasks), 'cell')} {time}{there}"
    if missing:
        on = counted(workers, "worker") if workers else "one worker"
        duration = human_seconds(plan.seconds / max(1, workers))
        yield f"about {duration} on {on}, and {human_bytes(plan.bytes)} of disk space"
    for why, count in tuple(found.impossible.items())[:MOST_REASONS]:
        yield f"left out as impossible: {why} (combinations: {count:,})"
    if more := tuple(found.impossible.values())[MOST_REASONS:]:
        yield f"left out for {len(more):,} other reasons (combinations: {sum(more):,}); --json --plan lists them all"
    if found.skipped or found.same:
        yield f"skipped combinations: {found.skipped:,}; duplicates: {found.same:,}"
    if not plan.is_virtual_time and workers > 1:
        yield "cells measured in real time on one computer disturb each other; --cluster local:1 avoids that"


class LocalDesk(SweepDesk):
    """Sweeps that run on this computer's processors."""

    def __init__(self, target: Target, host: Host) -> None:
        """Take the option ``time`` from ``target`` if it is an embedded kernel. Ignore the rest of ``target``."""
        time = target.options.get("time") if target.kind is TargetKind.UML else None
        self._target = parse_target(f"uml:?time={time}" if time else "uml:")
        self._host = host
        self._store = SweepStore(host)

    def entries(self) -> tuple[SweepEntry, ...]:
        known = [_entry(name, find_sweep(name)[0]) for name in built_in_names()]
        for run_id in self._store.ids()[:MOST_RUNS]:
            folder = self._store.find(run_id)
            with suppress(LabError):
                sweep = decode_sweep(folder.record.toml, f"{run_id}/sweep")
                known.append(replace(_entry(run_id, sweep), state=", ".join(filter(None, folder.state_words()))))
        return tuple(known)

    def work(self, name: str) -> SweepWork:
        folder, plan, request = self._planned(name)
        return SweepWork(
            lines=tuple(plan_lines(plan, request))[1:],
            cells=len(plan.tasks),
            there=len(plan.tasks) - len(plan.missing),
            run_id=folder.id if folder else "",
            missing_dependency=INSTALL if find_spec("distributed") is None else "",
        )

    def newest_run(self, name: str) -> str:
        folder = self._find(name)[2]
        return folder.id if folder else ""

    def going_run(self, name: str) -> str:
        # Try the lock only if the progress file does not say that the sweep has ended.
        folder = self._find(name)[2]
        progress = folder.progress if folder else None
        return folder.id if folder and not (progress and progress.is_over) and folder.is_running else ""

    def status(self, run_id: str) -> SweepStatus:
        folder = self._store.find(run_id)
        if folder.is_running:
            return SweepStatus(folder.progress, is_running=True)
        tables = tuple(each.as_text() for each in summary_tables(folder.result()))
        return SweepStatus(folder.current_progress(), is_running=False, tables=tables)

    def run(self, name: str, listener: SweepListener) -> int:
        folder, plan, request = self._planned(
            name, on_progress=listener.on_progress, on_notice=listener.on_notice, is_cancelled=listener.is_cancelled
        )
        return len(run_sweep(plan, request, folder).failed)

    def _planned(self, name: str, **callbacks: Any) -> tuple[SweepFolder | None, SweepPlan, SweepRequest]:
        """Plan a sweep. In real time, it gets one worker, because cells that run in parallel disturb each other."""
        sweep, text, folder = self._find(name)
        target = folder.in_its_time(self._target) if folder else self._target
        request = SweepRequest(target, self._host, parse_cluster("local"), **callbacks)
        plan = plan_sweep(sweep, text, request)
        if not plan.is_virtual_time:
            request = replace(request, cluster=parse_cluster("local:1"))
        return folder, plan, request

    def _find(self, name: str) -> tuple[Sweep, str, SweepFolder | None]:
        if name in built_in_names():
            sweep, text = find_sweep(name)
            return sweep, text, self._store.of_text(text, self._target.options.get("time"))
        folder = self._store.find(name)
        text = folder.record.toml
        return decode_sweep(text, f"{name}/sweep"), text, folder


def _entry(name: str, sweep: Sweep) -> SweepEntry:
    axes = tuple(f"{axis}: {', '.join(map(str, values))}" for axis, values in sweep.sweep.named.items())
    return SweepEntry(name, sweep.title, sweep.question, axes)
