"""The cells of sweeps: their keys, their measurement by a worker, and the stores of cells and of sweeps.

::

    <state>/sweeps/cells/ab/abcd….cell      gzip: one line of JSON with the summary (CellDone), then the complete record
    <state>/sweeps/runs/<id>/sweep.json     the text of the sweep's file, and the keys of its cells
    <state>/sweeps/runs/<id>/failed.jsonl   one line per cell that could not be measured
    <state>/sweeps/runs/<id>/progress.json  progress, written every second while the sweep runs
    <state>/sweeps/runs/<id>/lock           locked by the client that runs the sweep
    <state>/sweeps/runs/<id>/*.log          logs of the cluster's processes

The key of a cell is a hash of everything that its figures depend on. A cell's file appears complete or not at all. In
virtual time the figures do not depend on the computer, so a stored cell is never measured again. In real time the key
includes the computer.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import secrets
import shlex
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lab.disks.kinds import DiskKind
from lab.errors import LabError, ResultError, RunCancelled, SpecError, ToolMissing, WaitTimedOut
from lab.experiments.run import RunRequest, run_experiment
from lab.experiments.schema import FORMAT_VERSION, ArrayPlan, DiskPlan, Experiment, JobPlan
from lab.experiments.sweeps import SweepProgress
from lab.gates.decoding import decode_json
from lab.gates.files import MOST_RECORD_BYTES, gunzip, make_own_folder, read_plain
from lab.host.clock import polls, utc_second_text
from lab.host.files import ALONE, locked, open_lock, take_byte, write_file
from lab.machine import Host, Target, TargetKind, parse_target
from lab.machine.embedded import LONGEST_INSTANCE, require_fitting_paths
from lab.machine.kernel_image import built_folders, find_kernel
from lab.machine.state_folder import FolderLock, Owner, start_ticks
from lab.measure.job import depends_on, differing
from lab.results.record import HEALTHY, ResultRecord, digest, encode_record
from lab.results.rows import grouped, rows
from lab.results.statistics import Estimate
from lab.results.store import ResultStore
from lab.store import Journal, RecordFile, RunFolders, id_word, stem
from lab.sweep.grid import CellRow, FailedCell, SweepResult
from lab.sweep.schema import Combination, Sweep, decode_sweep
from lab.tomlfile import as_meant
from lab.units import human_seconds

SUFFIX = ".cell"
_CELL_FORMAT = 1
CELL_KEY = r"^[0-9a-f]{64}\Z"


class CellTask(msgspec.Struct, frozen=True, kw_only=True):
    """The request to measure one cell, as it is sent to a worker."""

    key: str
    label: str
    experiment: Experiment
    kernel: str
    """The kernel as written in the sweep's file, or an empty string for the installed kernel."""
    is_virtual_time: bool
    depends_on: dict[str, str]
    """The values that were hashed into the key. A worker with different values refuses the task."""
    allowed_rules: tuple[str, ...] = ()
    most_seconds: float = 3600.0
    """Time limit by the worker's clock, well above the expected time. The cell fails when it is exceeded."""


class CellDone(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a measured cell. ``digest`` and ``rows`` describe its figures, and ``stamps`` are its warnings."""

    key: str
    format: int = _CELL_FORMAT
    digest: str
    measured_utc: str
    computer: str
    seconds: float
    is_virtual_time: bool
    stamps: tuple[str, ...]
    rows: tuple[CellRow, ...]


def key_of(cell: Combination, depends_on: Mapping[str, str], *, is_virtual_time: bool) -> str:
    """Return the SHA-256, in hexadecimal digits, of everything that a cell's figures depend on.

    ``depends_on`` is the result of lab.measure.job.depends_on, to which the computer is added in real time.
    """
    experiment = msgspec.to_builtins(cell.experiment)
    identity = {"experiment": experiment, "depends_on": dict(depends_on), "is_virtual_time": is_virtual_time}
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()


def packed(task: CellTask, record: ResultRecord, *, measured_utc: str, computer: str, seconds: float) -> bytes:
    """Compress the summary and the record of a cell into the content of its file."""
    stamps = tuple(stamp for stamp in record.stamps if not stamp.startswith("simulated-origin"))
    planned_on = task.depends_on.get("computer", computer)
    if computer != planned_on:
        stamps = (*stamps, f"other-computer: measured by the clock of {computer}, planned on {planned_on}")
    common: dict[str, Any] = {"measured_utc": measured_utc, "computer": computer, "seconds": round(seconds, 3)}
    done = CellDone(
        key=task.key,
        digest=digest(record),
        is_virtual_time=task.is_virtual_time,
        stamps=stamps,
        rows=tuple(_rows(task, record, {**common, "stamps": "\n".join(stamps)})),
        **common,
    )
    return gzip.compress(msgspec.json.encode(done) + b"\n" + encode_record(record), compresslevel=6, mtime=0)


def unpacked_cell(data: bytes, source: str) -> CellDone:
    """Return the summary in a cell's file. Raises ResultError if the file is damaged or in another format version."""
    try:
        head = gunzip(data, MOST_RECORD_BYTES, source).partition(b"\n")[0]
        done = decode_json(head, CellDone)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ResultError(f"{source} is damaged: {error}", hint="delete it; the cell is then measured again") from None
    if done.format != _CELL_FORMAT:
        raise ResultError(f"{source} was written by a different raidlab version", hint="delete it")
    return done


def _rows(task: CellTask, record: ResultRecord, common: Mapping[str, Any]) -> Iterator[CellRow]:
    experiment, array = task.experiment, task.experiment.arrays[0]
    by_workload = grouped((row for row in rows(record) if row.phase == HEALTHY), lambda row: row.workload)
    for workload in (job.build() for job in experiment.jobs):
        for row in by_workload.get(workload.id, ()):
            iops = row.iops
            yield CellRow(
                cell=task.key,
                digest=digest(record),
                level=array.level,
                members=array.members,
                chunk_bytes=record.arrays[0].chunk_bytes if record.arrays else array.chunk_bytes,
                drive=experiment.disks.model if experiment.disks.kind is DiskKind.SPINDLE else "",
                kernel=task.kernel,
                workload=workload.id,
                direction=row.direction,
                block_bytes=workload.block_bytes,
                queue_depth=workload.queue_depth,
                jobs=workload.jobs,
                repeats=len(row.cells),
                iops=iops.median,
                iops_low=iops.low,
                iops_high=iops.high,
                bytes_per_second=row.bytes_per_second.median,
                mean_seconds=_median(row.latency_seconds("mean_seconds")),
                p99_seconds=_median(row.latency_seconds("p99_seconds")),
                predicted_iops=row.predicted_iops,
                is_virtual_time=task.is_virtual_time,
                **common,
            )


def _median(found: Estimate | None) -> float | None:
    return found.median if found else None


class CellStore:
    """The measured cells below ``root``, a folder that is created when the first cell is stored."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, key: str) -> Path:
        assert re.match(CELL_KEY, key), key
        return self.root / key[:2] / f"{key}{SUFFIX}"

    def keys(self, candidates: Iterable[str]) -> set[str]:
        """Return the keys in ``candidates`` that have a file. The files are not read."""
        return {key for key in candidates if os.path.lexists(self.path(key))}

    def read(self, key: str) -> tuple[bytes, CellDone] | None:
        """Return a cell's file and its summary, or None if the file is missing or damaged."""
        path = self.path(key)
        try:
            data = read_plain(path, MOST_RECORD_BYTES, is_own=True, error=ResultError)
            done = unpacked_cell(data, f"'{path}'")
        except (OSError, ResultError):
            return None
        return (data, done) if done.key == key else None

    def load(self, key: str) -> CellDone | None:
        found = self.read(key)
        return found[1] if found else None

    def add(self, key: str, data: bytes) -> None:
        """Store a cell's file. Raises ResultError if it cannot be written."""
        path = self.path(key)
        if not path.parent.is_dir():
            make_own_folder(path.parent, "the folder for cells", root=self.root)
        write_file(path, data)


def toml_of(experiment: Experiment) -> str:
    """Return an experiment file with which ``raidlab run`` measures a single cell again."""
    tree = msgspec.to_builtins(experiment)
    plain = msgspec.to_builtins(
        Experiment(format_version=FORMAT_VERSION, id="", title="", question="", arrays=(_NO_ARRAY,), jobs=(_NO_JOB,))
    )
    values = {name: value for name, value in tree.items() if name not in ("disks", "arrays", "jobs")}
    lines = _lines(values, plain | dict.fromkeys(("format_version", "id", "title", "question")))
    lines += ["", "[disks]", *_lines(tree["disks"], msgspec.to_builtins(DiskPlan()))]
    for table, defaults in (("arrays", _NO_ARRAY), ("jobs", _NO_JOB)):
        for each in tree[table]:
            lines += ["", f"[[{table}]]", *_lines(each, msgspec.to_builtins(defaults))]
    return "\n".join(lines) + "\n"


_NO_ARRAY = ArrayPlan(id="-", level="")
_NO_JOB = JobPlan(workload="")


def _lines(tree: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    """Return a line for each value that differs from the one in ``plain``."""
    changed = {name: value for name, value in tree.items() if value != plain[name] and value is not None}
    # Strings, numbers, booleans and lists of them are written in the same way in JSON and TOML.
    return [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in changed.items()]


def sweeps_folder(host: Host) -> Path:
    """Return the folder of all sweeps and their cells."""
    return host.state.root / "sweeps"


def cell_store(host: Host) -> CellStore:
    """Return this computer's store of measured cells."""
    return CellStore(sweeps_folder(host) / "cells")


_MOST_HEADER_BYTES = 4 * MOST_RECORD_BYTES
"""The header of a sweep lists its cells, which may be many thousands."""


class PlannedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell in the plan of a sweep."""

    key: Annotated[str, msgspec.Meta(pattern=CELL_KEY)]
    label: str


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a sweep, with its file and its planned cells."""

    id: str
    created_utc: str
    toml: str
    is_virtual_time: bool
    cells: tuple[PlannedCell, ...]


class SweepFolder:
    """The folder of one sweep."""

    def __init__(self, runs: RunFolders, sweep_id: str, cells: CellStore) -> None:
        self.id = sweep_id
        self.path = runs.path(sweep_id)
        self._runs = runs
        self._cells = cells
        self._progress = RecordFile(self.path / "progress.json", SweepProgress, is_durable=False)
        # A cell whose line is damaged is measured again, like other failed cells.
        self.failures = Journal[FailedCell](
            self.path / "failed.jsonl", FailedCell, skips_damaged=True, most_bytes=_MOST_HEADER_BYTES
        )

    @property
    def record(self) -> SweepRecord:
        """The header of the sweep. Raises ResultError if it is damaged."""
        return self._runs.read_header(self.id, SweepRecord)

    def in_its_time(self, target: Target) -> Target:
        """Return ``target`` with this sweep's kind of time, even if a new sweep would now use the other one.

        Raises SpecError if ``target`` specifies the other kind, because all cells would then be measured again. Raises
        ResultError if the header is damaged.
        """
        time, asked = _time_of(self.record), target.options.get("time")
        if target.kind is not TargetKind.UML or asked == time:
            return target
        if asked:
            raise SpecError(
                f"{self.id} was begun in {time} time, but {target} asks for {asked} time",
                hint=f"continue with --on 'uml:?time={time}'; 'raidlab sweep FILE' without --resume begins a new one",
            )
        return target.with_option("time", time)

    @property
    def progress(self) -> SweepProgress | None:
        """The content of the progress file, or None if it is missing or damaged."""
        return self._progress.read_or(None)

    @property
    def is_running(self) -> bool:
        """Whether a client holds the lock."""
        return self._runs.is_held(self.id)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the lock. Raises MachineBusy if another process holds it, or ResultError if it cannot be taken."""
        with self._runs.held(self.id):
            self.failures.repair()
            yield

    def report_progress(self, progress: SweepProgress) -> None:
        """Write the progress file. Errors are ignored."""
        with suppress(ResultError):
            self._progress.replace(progress)

    def failed(self) -> tuple[FailedCell, ...]:
        """Return the cells that could not be measured, each with its last failure."""
        return tuple({each.cell: each for each in self.failures.read()}.values())

    def current_progress(self) -> SweepProgress | None:
        """Return the progress, or None if it is unknown.

        While the sweep runs, or if all of its cells are measured, the progress file is used. Otherwise the stored cells
        are counted, because the progress file of a killed client is out of date, and another sweep may have measured
        missing cells since. Cell files are not read, so damaged cells count as measured.
        """
        progress = self.progress
        if self.is_running or (progress and progress.done >= progress.planned):
            return progress
        try:
            keys = {cell.key for cell in self.record.cells}
            there = self._cells.keys(keys)
            failed = sum(each.cell in keys - there for each in self.failed())
        except (ResultError, OSError):
            return progress
        return msgspec.structs.replace(
            progress or SweepProgress(done=0, planned=0),
            done=len(there),
            planned=len(keys),
            failed=failed,
            running=0,
            left_seconds=None,
        )

    def state_words(self) -> tuple[str, str]:
        """Return the progress and the state for display, such as ``12 of 40`` and ``running, 3 min left``."""
        is_running, progress = self.is_running, self.current_progress()
        if progress is None:
            return "", "running" if is_running else "interrupted"
        cells = f"{progress.done:,} of {progress.planned:,}"
        if is_running:
            left = f", {human_seconds(progress.left_seconds)} left" if progress.left_seconds else ""
            return cells, f"running{left}"
        if progress.failed:
            is_whole = progress.done + progress.failed >= progress.planned
            return cells, f"{progress.failed:,} failed{'' if is_whole else ', interrupted'}"
        return cells, "complete" if progress.done >= progress.planned else "interrupted"

    def result(self) -> SweepResult:
        """Return all results of the sweep. Raises ResultError if the header is damaged."""
        record = self.record
        sweep = decode_sweep(record.toml, f"{record.id}/sweep")
        keys = [cell.key for cell in record.cells]
        done = (found for key in keys if (found := self._cells.load(key)))
        rows = tuple(row for each in done for row in each.rows)
        there = {row.cell for row in rows}
        return SweepResult(
            id=record.id,
            title=sweep.title,
            question=sweep.question,
            created_utc=record.created_utc,
            toml=record.toml,
            axes=sweep.sweep.named,
            planned=len(keys),
            rows=rows,
            failed=tuple(each for each in self.failed() if each.cell not in there),
        )

    def digests(self) -> dict[str, str]:
        """Return the digest of the figures of each measured cell, by key."""
        found = {cell.key: self._cells.load(cell.key) for cell in self.record.cells}
        return {key: done.digest for key, done in found.items() if done}


class SweepStore:
    """All sweeps of a state folder."""

    def __init__(self, host: Host) -> None:
        self._runs = RunFolders(
            sweeps_folder(host) / "runs",
            "sweep",
            ("sweep.json",),
            begin_hint="begin a sweep: raidlab sweep FILE",
            list_hint="'raidlab sweep' lists them",
            state_root=host.state.root,
            most_header_bytes=_MOST_HEADER_BYTES,
        )
        self._host = host

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all sweeps, newest first. Raises ResultError if the folder cannot be read."""
        return self._runs.ids()

    def find(self, name: str) -> SweepFolder:
        """Find a sweep by its id, a unique prefix of the id, or ``latest``. Raises ResultError if none is found."""
        return self._folder(self._runs.find(name))

    def of_text(self, text: str, time: str | None = None) -> SweepFolder | None:
        """Return the newest sweep of this file, or None. ``time`` is ``real`` or ``virtual``, or None for both."""
        meant = as_meant(text)
        for each in self.ids():
            with suppress(ResultError):
                record = self._folder(each).record
                if time in (None, _time_of(record)) and as_meant(record.toml) == meant:
                    return self._folder(each)
        return None

    def of_id(self, sweep_id: str) -> SweepFolder | None:
        """Return the newest sweep whose file has this id, whatever else the file contains."""
        name = re.compile(rf"[0-9]{{8}}T[0-9]{{6}}Z-{re.escape(id_word(sweep_id))}(-[0-9]+)?")
        return next((self._folder(each) for each in self.ids() if name.fullmatch(each)), None)

    def begin(self, sweep: Sweep, text: str, cells: tuple[PlannedCell, ...], *, is_virtual_time: bool) -> SweepFolder:
        """Create the folder of a new sweep. Raises ResultError if it cannot be stored."""
        with self._runs.begin(stem(self._host.clock.utc_now(), sweep.id)) as folder:
            created = utc_second_text(self._host.clock)
            record = SweepRecord(
                id=folder.name, created_utc=created, toml=text, is_virtual_time=is_virtual_time, cells=cells
            )
            self._runs.write_header(record, folder.name)
        return self._folder(folder.name)

    def plan_anew(self, folder: SweepFolder, cells: tuple[PlannedCell, ...]) -> None:
        """Replace the cells in the header, after a change in the conditions on which their keys depend."""
        self._runs.write_header(msgspec.structs.replace(folder.record, cells=cells), folder.id)

    def _folder(self, name: str) -> SweepFolder:
        return SweepFolder(self._runs, name, cell_store(self._host))


def _time_of(record: SweepRecord) -> str:
    return "virtual" if record.is_virtual_time else "real"


COMMAND = "raidlab sweep"
ENDING = threading.Event()
"""This event is set when the process is to end. Running work then stops as soon as it can."""
_FLAVOUR = "virtual-time"
_CLAIMS, _MAKING = ".claims", ".making"
_POLL_SECONDS = 0.1


class MeasuredCell(msgspec.Struct, frozen=True):
    """A worker's result for one cell."""

    data: bytes
    was_there: bool
    """Whether the worker's store already had the cell. Another process may have added it after planning."""


@cache
def computer() -> str:
    """Return the host name of this computer, with the model and number of its processors."""
    lines = (Host.real().files.read("/proc/cpuinfo") or "").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.uname().nodename} ({models[0]}, {len(models)} processors)" if models else os.uname().nodename


def kernel_path(word: str) -> str:
    """Return the path of the kernel for a value of the ``kernel`` axis, or "" for the installed kernel.

    ``word`` is a version, a path, or empty. Raises ToolMissing, with the build command in its hint, unless exactly one
    built kernel has the version.
    """
    if not word or "/" in word:
        return word
    # The user's own kernels take precedence.
    folders = (each for folder in reversed(built_folders()) for each in sorted(folder.glob(f"{_FLAVOUR}-*")))
    built = {each.name.removeprefix(f"{_FLAVOUR}-"): each for each in folders}
    found = {version: folder for version, folder in built.items() if f"{version}.".startswith(f"{word}.")}
    if len(found) != 1:
        there = ", ".join(found or built)
        raise ToolMissing(
            f"several built kernels with virtual time match '{word}': {there}"
            if found
            else f"no built kernel with virtual time matches '{word}' (built: {there or 'none'})",
            hint=f"provision/kernel/build-uml.sh {_FLAVOUR} --source {shlex.quote(f'linux-source-{word}.tar.xz')}",
        )
    (folder,) = found.values()
    return str(folder / "linux")


def facts(kernel: str, *, is_virtual_time: bool, file_disks: int = 0) -> dict[str, str]:
    """Return the conditions on which this computer's figures depend, by name (lab.measure.job.depends_on).

    ``file_disks`` is the maximum number of disks of kind file in a cell. Raises ToolMissing if a program or a kernel is
    missing, and SpecError if the path of the state folder prevents a machine from starting.
    """
    host, path = Host.real(COMMAND), kernel_path(kernel)
    image = find_kernel(host.processes, host.files, virtual_time=is_virtual_time, chosen=path)
    work = sweeps_folder(host) / "work" / LONGEST_INSTANCE
    require_fitting_paths(host.state.root, work.relative_to(host.state.root), image, file_disks)
    found = depends_on(host, path, virtual_time=is_virtual_time)
    return found if is_virtual_time else {**found, "computer": computer()}


def measured(payload: bytes) -> MeasuredCell:
    """Measure a cell, or take it from this computer's store.

    ``payload`` is a CellTask as JSON. A newly measured cell is stored before it is returned. Raises ToolMissing if this
    computer does not match ``CellTask.depends_on``, and LabError if the run fails.
    """
    task = decode_json(payload, CellTask)
    host = Host.real(COMMAND)
    store = cell_store(host)
    with claimed(task.key, host, task.most_seconds):
        if found := store.read(task.key):
            data = found[0]
        else:
            here = facts(task.kernel, is_virtual_time=task.is_virtual_time)
            if different := differing(task.depends_on, here):
                raise ToolMissing(f"{computer()} has a different {different}", hint="install the same version there")
            data = _measured_now(task, host)
            store.add(task.key, data)
    return MeasuredCell(data, was_there=found is not None)


def _measured_now(task: CellTask, host: Host) -> bytes:
    clock = host.clock
    begin = clock.monotonic_seconds()

    def is_too_late() -> bool:
        return clock.monotonic_seconds() > begin + task.most_seconds

    with work_folder(host) as work:
        try:
            there = replace(host, state=host.state.elsewhere(work))
            record = _record(task, there, lambda: ENDING.is_set() or is_too_late())
        except RunCancelled:
            if not is_too_late():
                raise
            raise LabError(
                f"the cell was not finished within {task.most_seconds:.0f} s, which is far longer than expected",
                hint="check what else is running on that computer",
            ) from None
    moment = utc_second_text(clock)
    return packed(task, record, measured_utc=moment, computer=computer(), seconds=clock.monotonic_seconds() - begin)


@contextmanager
def claimed(key: str, host: Host, most_seconds: float) -> Iterator[None]:
    """Hold the lock of a cell on this computer.

    Another worker that needs the same cell waits for at most ``most_seconds``, and then finds the cell in the store.
    Raises WaitTimedOut after that time, and RunCancelled if the process is to end while it waits. Each cell locks one
    byte of one common file, so that no lock files accumulate. The locks also work between threads.
    """
    folder = host.state.make(cell_store(host).root, what="the folder for cells")
    descriptor = open_lock(folder / _CLAIMS)
    try:
        for is_last in polls(host.clock, most_seconds, _POLL_SECONDS):
            if take_byte(descriptor, int(key[:15], 16), folder / _CLAIMS):
                break
            if ENDING.is_set():
                raise RunCancelled("the work was cancelled")
            if is_last:
                raise WaitTimedOut(
                    f"{computer()}: waited {most_seconds:.0f} s for another process that is measuring the same cell",
                    hint="check what else is running on that computer; --resume continues the work",
                )
        yield
    finally:
        os.close(descriptor)


def _record(task: CellTask, host: Host, is_cancelled: Callable[[], bool]) -> ResultRecord:
    """Measure a cell. Raw documents and local paths are removed, so that the record is the same everywhere."""
    target = parse_target("uml:").with_option("time", "virtual" if task.is_virtual_time else "real")
    if path := kernel_path(task.kernel):
        target = target.with_option("kernel", path)
    request = RunRequest(target, host, is_cancelled=is_cancelled, allowed_rules=frozenset(task.allowed_rules))
    record = run_experiment(task.experiment, toml_of(task.experiment), request)
    with suppress(LabError):
        ResultStore(host.state.results).delete(record.id)
    # The path of the kernel is specific to this computer.
    target_text = str(target) if not task.kernel else str(target).partition("&kernel=")[0] + f"&kernel={task.kernel}"
    cells = tuple(msgspec.structs.replace(cell, raw_file="") for cell in record.cells)
    conditions = msgspec.structs.replace(record.conditions, target=target_text)
    return msgspec.structs.replace(record, cells=cells, conditions=conditions)


@contextmanager
def work_folder(host: Host) -> Iterator[Path]:
    """Make a state folder for one cell's machine, and remove it on exit. First remove the folders of killed workers."""
    parent = host.state.make(sweeps_folder(host) / "work", what="the folder for work on cells")
    sweep_work(host)
    folder = parent / f"{os.getpid()}-{secrets.token_hex(4)}"
    with _one_at_a_time(host):
        folder.mkdir(mode=0o700)
        lock = FolderLock(folder, Owner(os.getpid(), COMMAND, start_ticks(host.files, os.getpid())))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _one_at_a_time(host: Host) -> AbstractContextManager[None]:
    """Serialise the creation and removal of work folders, so that a new folder is not removed before it is locked."""
    return locked(sweeps_folder(host) / _MAKING, ALONE, waits=True)


def sweep_work(host: Host) -> None:
    """Remove the work folders of killed workers, and end their kernels."""
    for folder in sorted((sweeps_folder(host) / "work").glob("*-*")):
        try:
            with _one_at_a_time(host):
                lock = FolderLock(folder, Owner(os.getpid(), COMMAND))
        except (OSError, LabError):
            # The folder is in use, or another process is removing it.
            continue
        try:
            host.state.elsewhere(folder).sweep()
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.close()
