"""Cells of a sweep: their keys, the files that hold their results, and the store of those files.

::

    <root>/cells/ab/abcd….cell    gzip: one line of JSON with the summary (CellDone), then the complete record

The key of a cell is a hash of everything that its figures depend on. A cell's file appears complete or not at all. In
virtual time the figures do not depend on the computer, so a stored cell is never measured again. In real time the key
includes the computer.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lab.disks.kinds import DiskKind
from lab.errors import ResultError
from lab.experiments.schedule import HEALTHY
from lab.experiments.schema import FORMAT_VERSION, ArrayPlan, DiskPlan, Experiment, JobPlan
from lab.gates.decoding import decode_json
from lab.gates.files import MOST_RECORD_BYTES, gunzip, make_own_folder, read_plain
from lab.host.files import write_file
from lab.results.record import CellRecord, ResultRecord, encode_record
from lab.results.sameness import digest
from lab.results.statistics import estimate
from lab.sweep.combinations import Combination
from lab.sweep.grid import CellRow
from lab.workloads.fio_output import DirectionFigures

SUFFIX = ".cell"
_CELL_FORMAT = 1
CELL_KEY = r"^[0-9a-f]{64}\Z"


class CellTask(msgspec.Struct, frozen=True, kw_only=True):
    """The request to measure one cell, as it is sent to a worker."""

    key: str
    label: str
    experiment: Experiment
    kernel: str
    """As written in the sweep's file; empty for the installed kernel."""
    is_virtual_time: bool
    depends_on: dict[str, str]
    """The values that were hashed into the key; a worker with other values refuses the task."""
    allowed_rules: tuple[str, ...] = ()
    most_seconds: float = 3600.0
    """Time limit by the worker's clock, well above the expected time; the cell fails when it is exceeded."""


class CellDone(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a measured cell; ``digest`` and ``rows`` describe its figures, ``stamps`` are its warnings."""

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
    """SHA-256, in hexadecimal digits, of everything that a cell's figures depend on.

    ``depends_on`` is the result of lab.measure.conditions.depends_on, plus the computer in real time.
    """
    experiment = msgspec.to_builtins(cell.experiment)
    told = {"experiment": experiment, "depends_on": dict(depends_on), "is_virtual_time": is_virtual_time}
    return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()


def packed(task: CellTask, record: ResultRecord, *, measured_utc: str, computer: str, seconds: float) -> bytes:
    """The content of a cell's file: the summary and the record, compressed."""
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
    """The summary in a cell's file. Raises ResultError if the file is damaged or has another format version."""
    try:
        head = gunzip(data, MOST_RECORD_BYTES, source).partition(b"\n")[0]
        done = decode_json(head, CellDone)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ResultError(f"{source} is damaged: {error}", hint="delete it; it is measured again") from None
    if done.format != _CELL_FORMAT:
        raise ResultError(f"{source} was written by another version of raidlab", hint="delete it")
    return done


def _rows(task: CellTask, record: ResultRecord, common: Mapping[str, Any]) -> Iterable[CellRow]:
    experiment = task.experiment
    array = experiment.arrays[0]
    for job in experiment.jobs:
        workload = job.build()
        cells = [cell for cell in record.cells if cell.workload == workload.id and cell.phase == HEALTHY]
        for direction in ("read", "write"):
            figures = [found for cell in cells if (found := _section(cell, direction)) is not None]
            if not figures:
                continue
            middle = estimate([each.iops for each in figures])
            predicted = [cell.predicted_iops for cell in cells if cell.predicted_iops is not None]
            yield CellRow(
                cell=task.key,
                digest=digest(record),
                level=array.level,
                members=array.members,
                chunk_bytes=record.arrays[0].chunk_bytes if record.arrays else array.chunk_bytes,
                drive=experiment.disks.model if experiment.disks.kind is DiskKind.SPINDLE else "",
                kernel=task.kernel,
                workload=workload.id,
                direction=direction,
                block_bytes=workload.block_bytes,
                queue_depth=workload.queue_depth,
                jobs=workload.jobs,
                repeats=len(figures),
                iops=middle.median,
                iops_low=middle.low,
                iops_high=middle.high,
                bytes_per_second=_median([each.bandwidth_bytes_per_second for each in figures]),
                mean_seconds=_median([each.mean_seconds for each in figures]),
                p99_seconds=_median([each.p99_seconds for each in figures if each.p99_seconds is not None]),
                predicted_iops=_median(predicted),
                is_virtual_time=task.is_virtual_time,
                **common,
            )


def _section(cell: CellRecord, direction: str) -> DirectionFigures | None:
    return cell.figures.reads if direction == "read" else cell.figures.writes


def _median(values: list[float]) -> Any:
    return estimate(values).median if values else None


class CellStore:
    """The measured cells below ``root``, which is created with the first cell."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, key: str) -> Path:
        """The path of a cell's file, which need not exist."""
        assert re.match(CELL_KEY, key), key
        return self.root / key[:2] / f"{key}{SUFFIX}"

    def keys(self, wanted: Iterable[str]) -> set[str]:
        """The keys in ``wanted`` that have a file; the files are not read."""
        there: dict[str, set[str]] = {}
        found = set()
        for key in wanted:
            folder = key[:2]
            if folder not in there:
                there[folder] = set()
                with suppress(OSError):
                    there[folder] = {path.name for path in (self.root / folder).iterdir()}
            if f"{key}{SUFFIX}" in there[folder]:
                found.add(key)
        return found

    def read(self, key: str) -> bytes | None:
        """The content of a cell's file, or None if it cannot be read. Raises ResultError for a file of another user."""
        path = self.path(key)
        try:
            return read_plain(path, MOST_RECORD_BYTES, is_own=True, error=ResultError)
        except OSError:
            return None

    def load(self, key: str) -> CellDone | None:
        """The summary of a cell, or None if its file is missing or damaged, so that the cell is measured again."""
        try:
            data = self.read(key)
            done = unpacked_cell(data, f"'{self.path(key)}'") if data is not None else None
        except ResultError:
            return None
        return done if done and done.key == key else None

    def add(self, key: str, data: bytes) -> None:
        """Store a cell's file. Raises ResultError if it cannot be written."""
        path = self.path(key)
        if not path.parent.is_dir():
            make_own_folder(path.parent, "the folder for cells", root=self.root)
        write_file(path, data)


def record_of(data: bytes) -> bytes:
    """The complete record in a cell's file, as JSON. Raises ResultError if the file is damaged."""
    return gunzip(data, MOST_RECORD_BYTES, "the cell").partition(b"\n")[2]


def toml_of(experiment: Experiment) -> str:
    """A cell as an experiment file for ``raidlab run``, with which it can be measured again on its own."""
    tree = msgspec.to_builtins(experiment)
    plain = msgspec.to_builtins(
        Experiment(format_version=FORMAT_VERSION, id="", title="", question="", arrays=(_NO_ARRAY,), jobs=(_NO_JOB,))
    )
    lines = [f"{name} = {_value(value)}" for name, value in tree.items() if _is_told(name, value, plain)]
    for table in ("disks",):
        lines += ["", f"[{table}]", *_lines(tree[table], msgspec.to_builtins(DiskPlan()))]
    for table, defaults in (("arrays", _NO_ARRAY), ("jobs", _NO_JOB)):
        for each in tree[table]:
            lines += ["", f"[[{table}]]", *_lines(each, msgspec.to_builtins(defaults))]
    return "\n".join(lines) + "\n"


_NO_ARRAY = ArrayPlan(id="-", level="")
_NO_JOB = JobPlan(workload="")
_FIRST = ("format_version", "id", "title", "question")


def _is_told(name: str, value: Any, plain: Mapping[str, Any]) -> bool:
    is_table = isinstance(value, dict) or (
        isinstance(value, list | tuple) and any(isinstance(each, dict) for each in value)
    )
    return not is_table and value is not None and (name in _FIRST or value != plain[name])


def _lines(tree: Mapping[str, Any], plain: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in tree.items() if value != plain[name] and value is not None]


def _value(value: Any) -> str:
    # Strings, numbers, booleans and lists of these have the same notation in JSON and TOML.
    return msgspec.json.encode(value).decode()
