"""Start the arrays that lie on a lab's disks when it opens, except those that the user has stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lab.arrays.discovery import BroughtUp, FoundArray
from lab.arrays.kinds import kinds
from lab.arrays.status import read_arrays
from lab.disks import Lab
from lab.disks.inventory import FIRST_BYTES, read_ends, signatures_in
from lab.errors import LabError
from lab.gates.decoding import read_own_json
from lab.host.files import write_file
from lab.machine import Target
from lab.machine.state_folder import StateFolder
from lab.plans import Plan


class StoppedArrays:
    """The arrays of an embedded lab that the user stopped, and those started on request: UUIDs in two files."""

    def __init__(self, folder: Path) -> None:
        self._stopped, self._started = folder / "stopped.json", folder / "started.json"

    def read(self) -> frozenset[str]:
        """UUIDs of the stopped arrays; a damaged file counts as empty: at worst a stopped array then runs."""
        return _uuids(self._stopped)

    def read_started(self) -> frozenset[str]:
        """UUIDs of arrays that start only on request and were requested."""
        return _uuids(self._started)

    def write(self, found: BroughtUp) -> None:
        """Save the current lists. Raises LabError with the system's reason."""
        write_file(self._stopped, json.dumps(sorted(array.uuid for array in found.stopped)).encode())
        started = sorted(array.uuid for array in found.started if array.needs_asking)
        if started or self._started.exists():
            write_file(self._started, json.dumps(started).encode())


def _uuids(file: Path) -> frozenset[str]:
    try:
        return read_own_json(file, frozenset[str])
    except (FileNotFoundError, LabError):
        return frozenset()


def stopped_arrays(target: Target, state: StateFolder) -> StoppedArrays | None:
    """The list for an embedded lab; None for machines whose arrays start on their own."""
    if not target.is_embedded:
        return None
    return StoppedArrays(state.lab_folder(target.lab_name))


def bring_up(
    lab: Lab,
    stopped: StoppedArrays | None = None,
    *,
    before: BroughtUp | None = None,
    on_plan: Callable[[Plan], None] = lambda _: None,
) -> BroughtUp:
    """Find the arrays of every kind on the lab's disks and, if ``stopped`` is given, start all others.

    ``on_plan`` is called with each plan before it runs. An array that cannot be started is among the refused, and
    remains there until it runs: ``before`` is the previous result.
    """
    is_new = stopped is not None
    nodes = [disk.node for disk in lab.disks if not is_new or lab.guard.can_hold_data(disk.node)]
    could_not_start = {array.uuid: array.refusal for array in before.refused} if before else {}
    started: list[FoundArray] = []
    rests: list[FoundArray] = []
    refused: list[FoundArray] = []
    ends = read_ends(lab.machine, nodes, max(FIRST_BYTES, *(kind.head_bytes for kind in kinds())))
    for kind in kinds():
        found = kind.discover(ends, lab.machine.facts.host_name)
        running = kind.running(lab.machine, found) if found and not is_new else {}
        resting = stopped.read() if stopped and found else frozenset()
        asked_for = stopped.read_started() if stopped and any(each.needs_asking for each in found) else frozenset()
        for each in found:
            array = each
            if each.uuid in asked_for and not each.obstacle:
                array = replace(each.named_for([status.name for status in read_arrays(lab.machine)]), refusal="")
            refusal = array.refusal or could_not_start.get(array.uuid, "")
            is_asked_for = is_new and not refusal and array.uuid not in resting
            if array.uuid in running:
                started.append(replace(array, name=running[array.uuid], refusal=""))
            elif refusal := refusal or (start_array(lab, array, on_plan) if is_asked_for else ""):
                could_not = "" if refusal == each.refusal else refusal
                refused.append(replace(each, refusal=refusal, obstacle=each.obstacle or could_not))
            else:
                (started if is_asked_for else rests).append(array)
    carried = {node: types for node, each in ends.items() if (types := signatures_in(each))}
    return BroughtUp(tuple(started), tuple(rests), tuple(refused), carried)


def start_array(lab: Lab, array: FoundArray, on_plan: Callable[[Plan], None]) -> str:
    """Start one array that was found stopped. Returns the reason if that fails, otherwise an empty string."""
    try:
        plan = array.start_plan(lab.machine)
        on_plan(plan)
        lab.execute(plan)
    except LabError as error:
        # A partly started array would keep the disks busy.
        array.clear_away(lab.machine)
        return error.message
    return ""
