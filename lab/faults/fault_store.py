"""Outcomes of fault scenarios, kept as they come: whatever ends a run, what was judged before is there.

::

    STATE/faults/scenarios/<id>/run.json         what was asked for, and where it was played
    STATE/faults/scenarios/<id>/outcomes.jsonl   one scenario a line, never changed afterwards
    STATE/faults/scenarios/<id>/documents.jsonl  with --keep: every word of the machine
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab import __version__
from lab.faults.place import FaultPlace
from lab.faults.verdict import FaultVerdict, ScenarioOutcome
from lab.gates.names import Name
from lab.gates.numbers import FormatVersion
from lab.host.clock import utc_second_text
from lab.machine import Host
from lab.store.journal import Journal
from lab.store.runs import LATEST, RunFolders

FORMAT_VERSION = 1


class ScenarioRun(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and where it was played."""

    format_version: FormatVersion = FORMAT_VERSION
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

    def __init__(self, runs: RunFolders, run: ScenarioRun) -> None:
        self.folder = runs.path(run.id)
        self.run = run
        self.outcomes: list[ScenarioOutcome] = []
        self._runs = runs
        self._outcomes = _outcomes_of(self.folder)
        # A document is no figure: it may be lost when power fails.
        self._documents = Journal[dict[str, Any]](self.folder / "documents.jsonl", dict[str, Any], is_durable=False)

    @property
    def stored(self) -> StoredScenarios:
        """The run as it is now."""
        return StoredScenarios(run=self.run, outcomes=tuple(self.outcomes))

    def note_place(self, place: FaultPlace) -> None:
        """Store on which machine the run is played. Raises ResultError."""
        machine = place.lab.machine
        version = machine.run(("mdadm", "--version"), check=False)
        text = (version.stdout or version.stderr).strip()
        self.run = msgspec.structs.replace(self.run, kernel=machine.facts.kernel_release, mdadm=text)
        self._runs.write_header(self.run, self.run.id)

    def forget_if_empty(self) -> None:
        """Remove a run that has neither an outcome nor a document."""
        if not self.outcomes and not self._documents.path.exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, outcome: ScenarioOutcome) -> None:
        """Store an outcome, durably. Raises ResultError."""
        self._outcomes.append(outcome)
        self.outcomes.append(outcome)

    def add_document(self, document: dict[str, Any]) -> None:
        """Store one message of the machine. Raises ResultError."""
        self._documents.append(document)


def scenario_runs(host: Host) -> RunFolders:
    """The runs of scenarios in a state folder."""
    return RunFolders(
        host.state.root / "faults" / "scenarios",
        "run of scenarios",
        ("run.json",),
        begin_hint="play a scenario: raidlab fault run 10",
        list_hint="'raidlab fault show' shows the latest",
        state_root=host.state.root,
    )


def begun_run(host: Host, target: str, seed: int, asked: Sequence[str]) -> ScenarioJournal:
    """A new run, with nothing in it yet. Raises LabError if the state folder cannot be used."""
    runs, created = scenario_runs(host), utc_second_text(host.clock)
    run_id = runs.create(host.clock).name
    run = ScenarioRun(id=run_id, created_utc=created, target=target, seed=seed, asked=tuple(asked))
    runs.write_header(run, run_id)
    return ScenarioJournal(runs, run)


def stored_runs(host: Host) -> tuple[ScenarioRun, ...]:
    """All that can be read, the newest first."""
    found = scenario_runs(host).headers(ScenarioRun, _is_good).values()
    return tuple(sorted(found, key=lambda run: (run.created_utc, run.id), reverse=True))


def load_run(host: Host, name: str = LATEST) -> StoredScenarios:
    """A run by its id, the beginning of one, or ``latest``. Raises ResultError."""
    runs = scenario_runs(host)
    run_id = runs.find(name, lambda _: stored_runs(host)[0].id)
    run = runs.good_header(run_id, ScenarioRun, _is_good)
    return StoredScenarios(run=run, outcomes=tuple(_outcomes_of(runs.path(run_id)).read()))


def _is_good(run_id: str, run: ScenarioRun) -> bool:
    return run.format_version == FORMAT_VERSION and run.id == run_id


def _outcomes_of(folder: Path) -> Journal[ScenarioOutcome]:
    return Journal(folder / "outcomes.jsonl", ScenarioOutcome, hint="play the scenarios again")
