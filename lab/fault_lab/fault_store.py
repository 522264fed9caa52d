"""Outcomes of fault scenarios, kept as they come: whatever ends a run, what was judged before is there.

::

    STATE/faults/scenarios/<id>/run.json         what was asked for, and where it was played
    STATE/faults/scenarios/<id>/outcomes.jsonl   one scenario a line, never changed afterwards
    STATE/faults/scenarios/<id>/documents.jsonl  with --keep: every word of the machine
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lab import __version__
from lab.errors import ResultError
from lab.fault_lab.place import FaultPlace
from lab.fault_lab.verdict import FaultVerdict, ScenarioOutcome
from lab.gates.decoding import decode_json
from lab.gates.files import read_plain
from lab.gates.names import Name
from lab.gates.own import read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import storage_error, write_all, write_file
from lab.machine import Host
from lab.units import MIB

FOLDER = "faults/scenarios"
FORMAT_VERSION = 1
LATEST = "latest"
_RUN, _OUTCOMES, _DOCUMENTS = "run.json", "outcomes.jsonl", "documents.jsonl"
_MOST_BYTES = 64 * MIB


class ScenarioRun(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and where it was played."""

    format_version: int = FORMAT_VERSION
    id: Name
    created_utc: str
    target: str
    seed: int
    asked: tuple[Name, ...]
    """Ids of scenarios."""
    kernel: str = ""
    """Not known before the first machine is open, as mdadm's version."""
    mdadm: str = ""
    raidlab: str = __version__


class StoredScenarios(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what became of it so far."""

    run: ScenarioRun
    outcomes: tuple[ScenarioOutcome, ...]

    @property
    def left(self) -> tuple[str, ...]:
        """Scenarios without an outcome: the run was ended before."""
        done = {outcome.id for outcome in self.outcomes}
        return tuple(name for name in self.run.asked if name not in done)

    @property
    def is_expected(self) -> bool:
        """Whether every scenario that was asked for ended as expected, with all its variants."""
        return not self.left and all(
            outcome.verdict is FaultVerdict.AS_EXPECTED and not outcome.left_out for outcome in self.outcomes
        )


class ScenarioJournal:
    """The writer of one run."""

    def __init__(self, folder: Path, run: ScenarioRun) -> None:
        self.folder = folder
        self.run = run
        self.outcomes: list[ScenarioOutcome] = []

    @property
    def stored(self) -> StoredScenarios:
        """The run as it is now."""
        return StoredScenarios(run=self.run, outcomes=tuple(self.outcomes))

    def note_place(self, place: FaultPlace) -> None:
        """Where it is played. Raises ResultError."""
        machine = place.lab.machine
        version = machine.run(("mdadm", "--version"), check=False)
        told = (version.stdout or version.stderr).strip()
        self.run = msgspec.structs.replace(self.run, kernel=machine.facts.kernel_release, mdadm=told)
        self.save()

    def save(self) -> None:
        """Write the header. Raises ResultError."""
        write_file(self.folder / _RUN, msgspec.json.format(msgspec.json.encode(self.run), indent=1))

    def forget_if_empty(self) -> None:
        """Nothing stays of a run that has told nothing."""
        if not self.outcomes and not (self.folder / _DOCUMENTS).exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, outcome: ScenarioOutcome) -> None:
        """Keep an outcome, durably. Raises ResultError."""
        self._append(_OUTCOMES, outcome, f"the outcome of scenario {outcome.number}", is_durable=True)
        self.outcomes.append(outcome)

    def add_document(self, document: dict[str, Any]) -> None:
        """Keep one word of the machine. Raises ResultError."""
        self._append(_DOCUMENTS, document, "what the machine told", is_durable=False)

    def _append(self, name: str, value: object, what: str, *, is_durable: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.folder / name, flags, 0o600)
            try:
                write_all(descriptor, msgspec.json.encode(value) + b"\n")
                if is_durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(f"{what} cannot be kept in '{self.folder}'", error) from None


def begun_run(host: Host, target: str, seed: int, asked: Sequence[str]) -> ScenarioJournal:
    """A new run, with nothing in it yet. Raises LabError if the state folder cannot be used."""
    root = host.state.make(host.state.root / FOLDER, what="the folder for outcomes of scenarios")
    created = utc_second_text(host.clock)
    first = created.replace("-", "").replace(":", "")
    folder, number = root / first, 1
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            break
        number += 1
        folder = root / f"{first}-{number}"
    run = ScenarioRun(id=folder.name, created_utc=created, target=target, seed=seed, asked=tuple(asked))
    journal = ScenarioJournal(folder, run)
    journal.save()
    return journal


def stored_runs(host: Host) -> tuple[ScenarioRun, ...]:
    """All that can be read, the newest first."""
    return tuple(sorted(_runs(host.state.root / FOLDER), key=lambda run: (run.created_utc, run.id), reverse=True))


def load_run(host: Host, name: str = LATEST) -> StoredScenarios:
    """A run by its id, the beginning of one, or ``latest``. Raises ResultError."""
    runs = stored_runs(host)
    if not runs:
        raise ResultError("no scenario has been played yet", hint="play one: raidlab fault run 10")
    found = runs[:1] if name == LATEST else [run for run in runs if run.id.startswith(name)]
    exact = [run for run in found if run.id == name]
    if len(found) != 1 and not exact:
        known = ", ".join(run.id for run in runs[:10])
        raise ResultError(f"'{name}' names {len(found)} runs of scenarios", hint=f"the newest: {known}")
    run = (exact or list(found))[0]
    return StoredScenarios(run=run, outcomes=_outcomes(host.state.root / FOLDER / run.id / _OUTCOMES))


def _runs(root: Path) -> Iterator[ScenarioRun]:
    for path in sorted(root.glob(f"*/{_RUN}")):
        with suppress(ResultError, OSError):
            run = read_own_json(path, ScenarioRun)
            if run.format_version == FORMAT_VERSION and run.id == path.parent.name:
                yield run


def _outcomes(path: Path) -> tuple[ScenarioOutcome, ...]:
    """All whole lines: the last may have been torn by a power failure."""
    try:
        data = read_plain(path, _MOST_BYTES, is_own=True)
    except FileNotFoundError:
        return ()
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    try:
        return tuple(decode_json(line, ScenarioOutcome) for line in lines)
    except msgspec.MsgspecError as error:
        raise ResultError(f"'{path}' is damaged: {error}", hint="play the scenarios again") from None
