"""The folder of sweeps: the planned cells of each, its progress, and its failures.

::

    <state>/sweeps/cells/…                  measured cells, shared by all sweeps (lab.sweep.cells)
    <state>/sweeps/runs/<id>/sweep.json     the text of the sweep's file, and the keys of its cells
    <state>/sweeps/runs/<id>/failed.jsonl   one line per cell that could not be measured
    <state>/sweeps/runs/<id>/progress.json  progress, written every second while the sweep runs
    <state>/sweeps/runs/<id>/lock           locked by the client that runs the sweep
    <state>/sweeps/runs/<id>/*.log          logs of the cluster's processes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import msgspec

from lab.errors import ResultError, SpecError
from lab.experiments.sweeps import SweepProgress as SweepProgress
from lab.gates.files import MOST_RECORD_BYTES, read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import replace_file
from lab.machine import Host, Target, TargetKind
from lab.store.runs import Journal, RunFolders, id_word
from lab.sweep.cells import CELL_KEY, CellStore
from lab.sweep.grid import FailedCell, SweepResult
from lab.sweep.measure import cell_store, sweeps_folder
from lab.sweep.schema import Sweep, decode_sweep
from lab.tomlfile import as_meant
from lab.units import human_seconds

_PROGRESS = "progress.json"
_MOST_HEADER_BYTES = 4 * MOST_RECORD_BYTES
"""The header of a sweep lists its cells, which may be many thousands."""


class PlannedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell in the plan of a sweep."""

    key: Annotated[str, msgspec.Meta(pattern=CELL_KEY)]
    label: str


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a sweep: its file and its planned cells."""

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
        # A cell whose line is damaged is measured again, like other failed cells.
        self._failed = Journal[FailedCell](
            self.path / "failed.jsonl", FailedCell, skips_damaged=True, most_bytes=_MOST_HEADER_BYTES
        )

    @property
    def record(self) -> SweepRecord:
        """The header of the sweep. Raises ResultError if it is damaged."""
        return self._runs.read_header(self.id, SweepRecord)

    def in_its_time(self, target: Target) -> Target:
        """``target`` with the kind of time of this sweep, even if a new sweep would now use the other kind.

        Raises SpecError if ``target`` specifies the other kind, with which all cells would be measured again;
        ResultError as ``record``.
        """
        time, asked = _time_of(self.record), target.options.get("time")
        if target.kind is not TargetKind.UML or asked == time:
            return target
        if asked:
            raise SpecError(
                f"{self.id} was begun in {time} time, and {target} asks for {asked} time",
                hint=f"go on with --on 'uml:?time={time}'; 'raidlab sweep FILE' without --resume begins a new one",
            )
        return target.with_option("time", time)

    @property
    def progress(self) -> SweepProgress | None:
        """The content of the progress file; None if it is missing or damaged."""
        with suppress(ResultError, FileNotFoundError):
            return read_own_json(self.path / _PROGRESS, SweepProgress)
        return None

    @property
    def is_running(self) -> bool:
        """Whether a client holds the lock."""
        return self._runs.is_held(self.id)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the lock of the sweep. Raises MachineBusy, ResultError."""
        with self._runs.held(self.id):
            self._failed.repair()
            yield

    def tell(self, progress: SweepProgress) -> None:
        """Write the progress file; errors are ignored."""
        with suppress(OSError):
            replace_file(self.path / _PROGRESS, msgspec.json.encode(progress), is_durable=False)

    def failed(self) -> tuple[FailedCell, ...]:
        """The cells that could not be measured, each with its last failure."""
        return tuple({each.cell: each for each in self._failed.read()}.values())

    def forget_failed(self) -> None:
        """Remove the failures, before the cells are measured again."""
        self._failed.remove()

    def add_failed(self, cell: FailedCell) -> None:
        """Add a failure. Raises ResultError if it cannot be written."""
        self._failed.append(cell)

    def stand(self) -> SweepProgress | None:
        """The progress: from the progress file while the sweep runs, else from the stored cells. None if unknown.

        The progress file of a killed client is out of date, and another sweep may have measured missing cells. Cell
        files are not read, so damaged ones count.
        """
        told = self.progress
        if self.is_running or (told and told.done >= told.planned):
            return told
        try:
            keys = {cell.key for cell in self.record.cells}
            there = self._cells.keys(keys)
            failed = sum(each.cell in keys - there for each in self.failed())
        except (ResultError, OSError):
            return told
        return msgspec.structs.replace(
            told or SweepProgress(done=0, planned=0),
            done=len(there),
            planned=len(keys),
            failed=failed,
            running=0,
            left_seconds=None,
        )

    def state_words(self) -> tuple[str, str]:
        """Progress and state for display: ``12 of 40`` and ``running, 3 min left``."""
        is_running, progress = self.is_running, self.stand()
        if progress is None:
            return "", "running" if is_running else "broke off"
        cells = f"{progress.done:,} of {progress.planned:,}"
        if is_running:
            return cells, "running" + (
                f", {human_seconds(progress.left_seconds)} left" if progress.left_seconds else ""
            )
        if progress.failed:
            is_whole = progress.done + progress.failed >= progress.planned
            return cells, f"{progress.failed:,} failed{'' if is_whole else ', broke off'}"
        return cells, "complete" if progress.done >= progress.planned else "broke off"

    def result(self) -> SweepResult:
        """All results of the sweep. Raises ResultError."""
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
        """Key -> digest of the figures, for all measured cells."""
        found = {cell.key: self._cells.load(cell.key) for cell in self.record.cells}
        return {key: done.digest for key, done in found.items() if done}


class SweepStore:
    """All sweeps of a state folder."""

    def __init__(self, host: Host) -> None:
        self._runs = RunFolders(
            sweeps_folder(host) / "runs",
            "sweep",
            ("sweep.json",),
            begin_hint="sweep something: raidlab sweep FILE",
            list_hint="'raidlab sweep' lists them",
            state_root=host.state.root,
            most_header_bytes=_MOST_HEADER_BYTES,
        )
        self.root = self._runs.root
        self._host = host

    def ids(self) -> tuple[str, ...]:
        """The ids of all sweeps, newest first. Raises ResultError if the folder cannot be read."""
        return self._runs.ids()

    def find(self, name: str) -> SweepFolder:
        """A sweep by id, unique prefix of an id, or ``latest``. Raises ResultError if there is none."""
        return self._folder(self._runs.find(name))

    def of_text(self, text: str, time: str | None = None) -> SweepFolder | None:
        """The newest sweep with this file, or None; ``time`` (``real`` or ``virtual``) restricts the kind of time."""
        meant = as_meant(text)
        for each in self.ids():
            with suppress(ResultError):
                record = self._folder(each).record
                if time in (None, _time_of(record)) and as_meant(record.toml) == meant:
                    return self._folder(each)
        return None

    def of_id(self, sweep_id: str) -> SweepFolder | None:
        """The newest sweep whose file has this id, with any other content."""
        name = re.compile(rf"[0-9]{{8}}T[0-9]{{6}}Z-{re.escape(id_word(sweep_id))}(-[0-9]+)?")
        return next((self._folder(each) for each in self.ids() if name.fullmatch(each)), None)

    def begin(self, sweep: Sweep, text: str, cells: tuple[PlannedCell, ...], *, is_virtual_time: bool) -> SweepFolder:
        """Create the folder of a new sweep. Raises ResultError if it cannot be stored."""
        sweep_id = self._runs.create(self._host.clock, sweep.id).name
        record = SweepRecord(
            id=sweep_id,
            created_utc=utc_second_text(self._host.clock),
            toml=text,
            is_virtual_time=is_virtual_time,
            cells=cells,
        )
        self._runs.write_header(record, sweep_id)
        return self._folder(sweep_id)

    def plan_anew(self, folder: SweepFolder, cells: tuple[PlannedCell, ...]) -> None:
        """Replace the cells in the header, because what they depend on has changed and with it their keys."""
        record = msgspec.structs.replace(folder.record, cells=cells)
        self._runs.write_header(record, folder.id)

    def delete(self, folder: SweepFolder) -> None:
        """Delete a sweep; its cells remain for other sweeps. Raises MachineBusy while it runs."""
        self._runs.delete(folder.id)

    def _folder(self, name: str) -> SweepFolder:
        return SweepFolder(self._runs, name, cell_store(self._host))


def _time_of(record: SweepRecord) -> str:
    """The value of a target's option ``time``."""
    return "virtual" if record.is_virtual_time else "real"
