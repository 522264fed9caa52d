"""Outcomes of scenarios, kept each in a file that is written once.

::

    STATE/faults/outcomes/<id>.json    one run of one or more scenarios, with all its evidence
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from lab.errors import ResultError, SpecError
from lab.fault_lab.verdict import ScenarioOutcome
from lab.gates.names import checked_name
from lab.gates.own import read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import write_file
from lab.machine import Host

FORMAT_VERSION = 1
LATEST = "latest"


class FaultRun(msgspec.Struct, frozen=True, kw_only=True):
    """One file."""

    format_version: int = FORMAT_VERSION
    id: str
    created_utc: str
    target: str
    kernel: str
    seed: int
    outcomes: tuple[ScenarioOutcome, ...] = ()


class OutcomeStore:
    """All of them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.root = host.state.root / "faults" / "outcomes"

    def begin(self, *, target: str, kernel: str, seed: int) -> FaultRun:
        """A new run, not yet kept, with an id that no other has."""
        self._host.state.make(self.root, what="the folder for outcomes of faults")
        created = utc_second_text(self._host.clock)
        name = created.replace("-", "").replace(":", "")
        number = 1
        while self._path(found := name if number == 1 else f"{name}-{number}").exists():
            number += 1
        return FaultRun(id=found, created_utc=created, target=target, kernel=kernel, seed=seed)

    def keep(self, run: FaultRun) -> None:
        """Keep a run as far as it has come. Raises ResultError."""
        write_file(self._path(run.id), msgspec.json.format(msgspec.json.encode(run), indent=1))

    def ids(self) -> list[str]:
        """Those that are kept, the oldest first."""
        return sorted(path.stem for path in self.root.glob("[!.]*.json"))

    def find(self, word: str) -> FaultRun:
        """One by its id, or ``latest``. Raises SpecError for one that is not there, ResultError for a damaged one."""
        known = self.ids()
        chosen = known[-1] if word == LATEST and known else word
        if chosen in known:
            with suppress(FileNotFoundError):
                return _known_version(read_own_json(self._path(chosen), FaultRun))
        hint = "'raidlab fault run 2' plays a scenario" if not known else f"kept are: {', '.join(known[-8:])}"
        raise SpecError(f"there is no outcome '{word[:60]}'", hint=hint)

    def _path(self, name: str) -> Path:
        return self.root / f"{checked_name(name, 'outcome')}.json"


def _known_version(run: FaultRun) -> FaultRun:
    if run.format_version > FORMAT_VERSION:
        raise ResultError(f"{run.id} was written by a newer raidlab", hint="read it with that one")
    return run
