"""The folder of sweeps: what each was to measure, how far it is, and what could not be measured.

::

    <state>/sweeps/cells/…              what was measured (lab.sweep.cells): shared by all sweeps
    <state>/sweeps/runs/<id>/sweep.json     the sweep's file, its cells by their keys
    <state>/sweeps/runs/<id>/failed.jsonl   a line for each cell that could not be measured
    <state>/sweeps/runs/<id>/progress.json  how far it is, written every second while it runs
    <state>/sweeps/runs/<id>/lock           locked by the client that runs it
    <state>/sweeps/runs/<id>/*.log          what the cluster's processes said
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import msgspec

from lab.errors import ResultError, SpecError
from lab.experiments.sweeps import SweepProgress as SweepProgress
from lab.gates.files import MOST_RECORD_BYTES
from lab.gates.own import read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import replace_file
from lab.machine import Host, Target, TargetKind
from lab.store.journal import Journal
from lab.store.runs import RunFolders, id_word
from lab.sweep.cells import CELL_KEY, CellStore
from lab.sweep.grid import FailedCell, SweepResult
from lab.sweep.measure import cell_store, sweeps_folder
from lab.sweep.schema import Sweep, decode_sweep
from lab.tomlfile import as_meant
from lab.units import human_seconds

_PROGRESS = "progress.json"
_MOST_HEADER_BYTES = 4 * MOST_RECORD_BYTES
"""A sweep of many thousand cells names each."""


class PlannedCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of a sweep."""

    key: Annotated[str, msgspec.Meta(pattern=CELL_KEY)]
    label: str


class SweepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep was to measure."""

    id: str
    created_utc: str
    toml: str
    is_virtual_time: bool
    cells: tuple[PlannedCell, ...]


class SweepFolder:
    """One sweep's own folder."""

    def __init__(self, runs: RunFolders, sweep_id: str, cells: CellStore) -> None:
        self.id = sweep_id
        self.path = runs.path(sweep_id)
        self._runs = runs
        self._cells = cells
        # A cell whose line is damaged is tried again like the others.
        self._failed = Journal[FailedCell](
            self.path / "failed.jsonl", FailedCell, skips_damaged=True, most_bytes=_MOST_HEADER_BYTES
        )

    @property
    def record(self) -> SweepRecord:
        """Raises ResultError if it is damaged."""
        return self._runs.read_header(self.id, SweepRecord)

    def in_its_time(self, target: Target) -> Target:
        """To go on in the time in which it was begun, also if a new sweep would have the other now.

        Raises SpecError if ``target`` asks for the other: all cells would be measured anew. ResultError as ``record``.
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
        """As it was last written; None if it never was."""
        with suppress(ResultError, FileNotFoundError):
            return read_own_json(self.path / _PROGRESS, SweepProgress)
        return None

    @property
    def is_running(self) -> bool:
        """Whether a client has it open."""
        return self._runs.is_held(self.id)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold it alone. Raises MachineBusy, ResultError."""
        with self._runs.held(self.id):
            self._failed.repair()
            yield

    def tell(self, progress: SweepProgress) -> None:
        """Write how far it is; what keeps that from being written stops nothing."""
        with suppress(OSError):
            replace_file(self.path / _PROGRESS, msgspec.json.encode(progress), is_durable=False)

    def failed(self) -> tuple[FailedCell, ...]:
        """The cells that could not be measured, each as it failed last."""
        return tuple({each.cell: each for each in self._failed.read()}.values())

    def forget_failed(self) -> None:
        """Before they are tried again."""
        self._failed.remove()

    def add_failed(self, cell: FailedCell) -> None:
        """Raises ResultError if it cannot be written."""
        self._failed.append(cell)

    def stand(self) -> SweepProgress | None:
        """How far it is: while it runs as its client tells, else by the cells that are there. None: nobody knows.

        A client that was killed has not told its last cells, and another sweep may have measured some since. Cells are
        looked for, not read: one that is damaged counts.
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
        """``12 of 40`` and ``running, 3 min left``, for people."""
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
        """All that is known. Raises ResultError."""
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
        """Key -> digest of what was measured, of every cell that is there."""
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
        """Newest first. Raises ResultError for a folder that cannot be read."""
        return self._runs.ids()

    def find(self, name: str) -> SweepFolder:
        """A sweep by id, the unique beginning of one, or ``latest``. Raises ResultError."""
        return self._folder(self._runs.find(name))

    def of_text(self, text: str, time: str | None = None) -> SweepFolder | None:
        """The newest sweep of this file; ``time``, ``real`` or ``virtual``: that was begun in it."""
        meant = as_meant(text)
        for each in self.ids():
            with suppress(ResultError):
                record = self._folder(each).record
                if time in (None, _time_of(record)) and as_meant(record.toml) == meant:
                    return self._folder(each)
        return None

    def of_id(self, sweep_id: str) -> SweepFolder | None:
        """The newest run of a sweep of this id, whatever else its file said."""
        name = re.compile(rf"[0-9]{{8}}T[0-9]{{6}}Z-{re.escape(id_word(sweep_id))}(-[0-9]+)?")
        return next((self._folder(each) for each in self.ids() if name.fullmatch(each)), None)

    def begin(self, sweep: Sweep, text: str, cells: tuple[PlannedCell, ...], *, is_virtual_time: bool) -> SweepFolder:
        """A new one. Raises ResultError if it cannot be stored."""
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
        """What it depends on has changed since: its cells have other keys."""
        record = msgspec.structs.replace(folder.record, cells=cells)
        self._runs.write_header(record, folder.id)

    def delete(self, folder: SweepFolder) -> None:
        """Its cells stay, for other sweeps. Raises MachineBusy while it runs."""
        self._runs.delete(folder.id)

    def _folder(self, name: str) -> SweepFolder:
        return SweepFolder(self._runs, name, cell_store(self._host))


def _time_of(record: SweepRecord) -> str:
    """As a target's option says it."""
    return "virtual" if record.is_virtual_time else "real"
