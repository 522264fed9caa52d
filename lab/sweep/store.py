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

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from lab.errors import MachineBusy, ResultError, SpecError
from lab.gates.decoding import decode_json
from lab.gates.files import MOST_RECORD_BYTES, read_plain
from lab.gates.names import checked_name, is_name
from lab.gates.own import make_own_folder
from lab.host.clock import HostClock, utc_second_text
from lab.host.files import replace_file, storage_error, write_file
from lab.machine import Host, Target, TargetKind
from lab.results.leftovers import locked
from lab.results.store import LATEST
from lab.sweep.cells import CELL_KEY, CellStore
from lab.sweep.measure import cell_store, sweeps_folder
from lab.sweep.rows import FailedCell, SweepResult
from lab.sweep.schema import Sweep, decode_sweep
from lab.tomlfile import as_meant
from lab.units import human_seconds

T = TypeVar("T")
_RECORD, _FAILED, _PROGRESS, _LOCK = "sweep.json", "failed.jsonl", "progress.json", "lock"
_MOST_FAILED_BYTES = 4 * MOST_RECORD_BYTES
_LOOKING_SECONDS = 1.0
"""Who only looks whether a sweep runs holds its lock for no longer, even on a busy computer."""


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


class LatestCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that has just been measured, or could not be."""

    label: str
    told: str
    """Its speeds, or why there are none."""
    is_failed: bool = False


class SweepProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a sweep is."""

    done: int
    """Cells that are there, those of earlier sweeps too."""
    running: int = 0
    failed: int = 0
    planned: int
    workers: int = 0
    left_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    cluster: str = ""
    dashboard: str = ""
    """HOST:PORT of Dask's own pages, on the computer that ran it."""
    processes: dict[str, int] = {}
    """Of the cluster, on that computer: ``scheduler`` and names of workers -> process."""
    client: int = 0
    """The process that runs it."""
    is_over: bool = False
    latest: tuple[LatestCell, ...] = ()
    """The last ones of this run, oldest first."""


class SweepFolder:
    """One sweep's own folder."""

    def __init__(self, path: Path, cells: CellStore) -> None:
        self.path = path
        self._cells = cells

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def record(self) -> SweepRecord:
        """Raises ResultError if it is damaged."""
        return _decoded(self.path / _RECORD, SweepRecord)

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
        with suppress(ResultError):
            return _decoded(self.path / _PROGRESS, SweepProgress)
        return None

    @property
    def is_running(self) -> bool:
        """Whether a client has it open."""
        # Only looked at, and shared: so it also works where nothing can be written, and beside others who look.
        try:
            descriptor = os.open(self.path / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold it alone. Raises MachineBusy, ResultError."""
        clock = HostClock()
        until = clock.monotonic_seconds() + _LOOKING_SECONDS
        with ExitStack() as held:
            try:
                while not self._taken(held):
                    if clock.monotonic_seconds() > until:
                        raise MachineBusy(f"sweep {self.id} runs in another raidlab", hint="wait for it, or end it")
                    clock.sleep(0.02)
            except OSError as error:
                raise storage_error(f"'{self.path}' cannot be locked", error) from error
            yield

    def _taken(self, held: ExitStack) -> bool:
        with suppress(BlockingIOError):
            held.enter_context(locked(self.path / _LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB))
            return True
        return False

    def tell(self, progress: SweepProgress) -> None:
        """Write how far it is; what keeps that from being written stops nothing."""
        with suppress(OSError):
            replace_file(self.path / _PROGRESS, msgspec.json.encode(progress), is_durable=False)

    def failed(self) -> tuple[FailedCell, ...]:
        """The cells that could not be measured, each as it failed last."""
        with suppress(FileNotFoundError):
            text = read_plain(self.path / _FAILED, _MOST_FAILED_BYTES, is_own=True)
            return tuple({each.cell: each for each in _failed_in(text)}.values())
        return ()

    def forget_failed(self) -> None:
        """Before they are tried again."""
        (self.path / _FAILED).unlink(missing_ok=True)

    def add_failed(self, cell: FailedCell) -> None:
        """Raises ResultError if it cannot be written."""
        try:
            with (self.path / _FAILED).open("ab") as file:
                file.write(msgspec.json.encode(cell) + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(f"'{self.path / _FAILED}' cannot be written", error) from error

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
        self.root = sweeps_folder(host) / "runs"
        self._host = host

    def ids(self) -> tuple[str, ...]:
        """Newest first. Raises ResultError for a folder that cannot be read."""
        try:
            # Others may have put something there: what is no name is no sweep.
            names = [path.name for path in self.root.iterdir() if is_name(path.name) and (path / _RECORD).is_file()]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise storage_error(f"'{self.root}' cannot be read", error) from error
        return tuple(sorted(names, reverse=True))

    def find(self, name: str) -> SweepFolder:
        """A sweep by id, the unique beginning of one, or ``latest``. Raises ResultError."""
        ids = self.ids()
        found = ids[:1] if name == LATEST else [each for each in ids if name and each.startswith(name)]
        found = [name] if name in ids else list(found)
        if len(found) == 1:
            return self._folder(found[0])
        if found:
            raise ResultError(f"'{name}' may be {len(found)} sweeps: {', '.join(found)}", hint="write more of the id")
        raise ResultError(f"there is no sweep '{name}'", hint="'raidlab sweep' lists them")

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
        name = re.compile(rf"[0-9]{{8}}T[0-9]{{6}}Z-{re.escape(_word(sweep_id))}(-[0-9]+)?")
        return next((self._folder(each) for each in self.ids() if name.fullmatch(each)), None)

    def begin(self, sweep: Sweep, text: str, cells: tuple[PlannedCell, ...], *, is_virtual_time: bool) -> SweepFolder:
        """A new one. Raises ResultError if it cannot be stored."""
        clock = self._host.clock
        first = name = checked_name(f"{clock.utc_now():%Y%m%dT%H%M%SZ}-{_word(sweep.id)}", "sweep")
        number = 1
        try:
            make_own_folder(self.root, "the folder for sweeps", root=self._host.state.root)
            while not _made(folder := self.root / name):
                number += 1
                name = f"{first}-{number}"
            record = SweepRecord(
                id=name, created_utc=utc_second_text(clock), toml=text, is_virtual_time=is_virtual_time, cells=cells
            )
            write_file(folder / _RECORD, msgspec.json.encode(record))
        except OSError as error:
            raise storage_error(f"no sweep can be stored in '{self.root}'", error) from error
        return self._folder(name)

    def plan_anew(self, folder: SweepFolder, cells: tuple[PlannedCell, ...]) -> None:
        """What it depends on has changed since: its cells have other keys."""
        record = msgspec.structs.replace(folder.record, cells=cells)
        write_file(folder.path / _RECORD, msgspec.json.encode(record))

    def delete(self, folder: SweepFolder) -> None:
        """Its cells stay, for other sweeps. Raises MachineBusy while it runs."""
        with folder.open():
            shutil.rmtree(folder.path)

    def _folder(self, name: str) -> SweepFolder:
        return SweepFolder(self.root / checked_name(name, "sweep"), cell_store(self._host))


def _time_of(record: SweepRecord) -> str:
    """As a target's option says it."""
    return "virtual" if record.is_virtual_time else "real"


def _word(sweep_id: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", sweep_id.lower()).strip("-")


def _made(folder: Path) -> bool:
    """Whether it was made now: of two that begin in the same second each has its own."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _failed_in(text: bytes) -> Iterator[FailedCell]:
    """A line that a computer's failure tore is left out: that cell is tried again like the others."""
    for line in text.splitlines():
        with suppress(msgspec.MsgspecError, UnicodeError):
            yield decode_json(line, FailedCell)


def _decoded(path: Path, kind: type[T]) -> T:
    try:
        return decode_json(read_plain(path, _MOST_FAILED_BYTES, is_own=True), kind)
    except OSError as error:
        raise ResultError(f"'{path}' cannot be read: {error.strerror}", hint="restore it, or sweep anew") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ResultError(f"'{path}' is damaged: {error}", hint="restore it, or sweep anew") from None
