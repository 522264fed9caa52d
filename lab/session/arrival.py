"""Commands that a lab runs when it opens, instead of starting its arrays. They prepare a drill's machine.

::

    STATE/labs/<name>/arrival.json
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lab.errors import LabError
from lab.gates.own import read_own_json
from lab.host.files import write_file
from lab.machine import Machine

_FILE = "arrival.json"
_SECONDS = 60.0


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A bash script that runs as root each time the lab opens."""

    title: str
    script: str
    environment: dict[str, str] = {}


def read_arrival(folder: Path) -> Arrival | None:
    """The arrival of the lab in this folder; None if the lab starts its arrays as usual.

    Raises LabError for a damaged file.
    """
    try:
        return read_own_json(folder / _FILE, Arrival, error=LabError)
    except FileNotFoundError:
        return None


def keep_arrival(folder: Path, arrival: Arrival | None) -> None:
    """Store the arrival for later sessions; None restores the usual start. Raises ResultError."""
    if arrival is None:
        (folder / _FILE).unlink(missing_ok=True)
    else:
        write_file(folder / _FILE, msgspec.json.encode(arrival))


def arrive(machine: Machine, arrival: Arrival) -> None:
    """Run the script. Failing commands are part of the scenario and are ignored; the machine may be lost."""
    if arrival.script.strip():
        words = [f"{name}={value}" for name, value in arrival.environment.items()]
        machine.run(("env", *words, "bash", "-c", arrival.script), check=False, timeout_seconds=_SECONDS)
