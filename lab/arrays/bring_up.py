"""Start the arrays that lie on a lab's disks when it opens, except those that the user has stopped.

Only the embedded kernel needs this: its arrays run while a lab is open. Elsewhere arrays run until they are stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lab.arrays.discovery import FoundArray
from lab.arrays.kinds import kinds
from lab.disks import Lab
from lab.disks.inventory import read_heads
from lab.errors import LabError
from lab.gates.own import read_own_json
from lab.host.files import write_file
from lab.machine import Target, TargetKind
from lab.machine.state_folder import StateFolder
from lab.plans import Plan


@dataclass(frozen=True, slots=True)
class BroughtUp:
    """What was found on the disks, by what became of it."""

    started: tuple[FoundArray, ...] = ()
    stopped: tuple[FoundArray, ...] = ()
    """Can be started, but are not to be."""
    refused: tuple[FoundArray, ...] = ()
    """Cannot be started; each says why."""

    @property
    def all(self) -> tuple[FoundArray, ...]:
        return (*self.started, *self.stopped, *self.refused)

    def array(self, name: str) -> FoundArray | None:
        """The array of this name, one that can be started first."""
        return next((array for array in self.all if array.name == name), None)

    def holder_of(self, node: str) -> FoundArray | None:
        """The array to which the device belongs now."""
        return next((array for array in self.all if node in array.devices), None)


class StoppedArrays:
    """Which arrays of an embedded lab the user has stopped: UUIDs in a file of the lab's folder."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> frozenset[str]:
        """The UUIDs; a damaged file counts as empty, since all it costs is an array that runs."""
        try:
            return read_own_json(self._file, frozenset[str])
        except (FileNotFoundError, LabError):
            return frozenset()

    def write(self, uuids: Iterable[str]) -> None:
        """Keep these. Raises LabError with the system's reason."""
        write_file(self._file, json.dumps(sorted(uuids)).encode())


def stopped_arrays(target: Target, state: StateFolder) -> StoppedArrays | None:
    """The list for an embedded lab; None for machines whose arrays run on their own."""
    if target.kind is not TargetKind.UML:
        return None
    return StoppedArrays(state.lab_folder(target.lab_name) / "stopped.json")


def bring_up(
    lab: Lab,
    stopped: StoppedArrays | None = None,
    *,
    before: BroughtUp | None = None,
    on_plan: Callable[[Plan], None] = lambda _: None,
) -> BroughtUp:
    """Find the arrays of every kind on the lab's disks and, where ``stopped`` is given, start all others.

    ``on_plan`` is told each plan before it runs. An array that cannot be started is among the refused, and stays there
    as long as it does not run: ``before`` is what was found the last time.
    """
    is_new = stopped is not None
    nodes = [disk.node for disk in lab.disks if not is_new or lab.guard.can_hold_data(disk.node)]
    could_not_start = {array.uuid: array.refusal for array in before.refused} if before else {}
    started: list[FoundArray] = []
    rests: list[FoundArray] = []
    refused: list[FoundArray] = []
    heads = read_heads(lab.machine, nodes, max(kind.head_bytes for kind in kinds()))
    for kind in kinds():
        found = kind.discover(heads, lab.machine.facts.host_name)
        running = kind.running(lab.machine, found) if found and not is_new else {}
        resting = stopped.read() if stopped and found else frozenset()
        for array in found:
            refusal = array.refusal or could_not_start.get(array.uuid, "")
            is_asked_for = is_new and not refusal and array.uuid not in resting
            if array.uuid in running:
                started.append(replace(array, name=running[array.uuid], refusal=""))
            elif refusal := refusal or (start_array(lab, array, on_plan) if is_asked_for else ""):
                refused.append(replace(array, refusal=refusal))
            else:
                (started if is_asked_for else rests).append(array)
    return BroughtUp(tuple(started), tuple(rests), tuple(refused))


def start_array(lab: Lab, array: FoundArray, on_plan: Callable[[Plan], None]) -> str:
    """Start one array that was found stopped; returns why it could not be started, or nothing."""
    try:
        plan = array.start_plan(lab.machine)
        on_plan(plan)
        lab.execute(plan)
    except LabError as error:
        # What was started in part would keep the disks busy.
        array.clear_away(lab.machine)
        return error.message
    return ""
