"""Start the arrays that lie on a lab's disks when it opens, except those that the user has stopped.

Only the embedded kernel needs this: its arrays run while a lab is open. Elsewhere arrays run until they are stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from lab.arrays.discovery import FoundArray, discover
from lab.arrays.names import array_device
from lab.arrays.state import read_arrays
from lab.disks import Lab
from lab.errors import LabError
from lab.machine import Target, TargetKind
from lab.machine.state_folder import StateFolder
from lab.plans import Plan

Found = TypeVar("Found", bound=FoundArray)


@dataclass(frozen=True, slots=True)
class BroughtUp:
    """What was found on the disks, by what became of it."""

    started: tuple[FoundArray, ...] = ()
    stopped: tuple[FoundArray, ...] = ()
    """Can be started, but are not to be."""
    refused: tuple[FoundArray, ...] = ()
    """Cannot be started; each says why."""

    def __add__(self, other: BroughtUp) -> BroughtUp:
        return BroughtUp(
            (*self.started, *other.started), (*self.stopped, *other.stopped), (*self.refused, *other.refused)
        )

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
            return frozenset(str(each) for each in json.loads(self._file.read_text(encoding="ascii")))
        except (OSError, ValueError, TypeError):
            return frozenset()

    def write(self, uuids: Iterable[str]) -> None:
        """Keep these. Raises LabError with the system's reason."""
        try:
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(sorted(uuids)), encoding="ascii")
            new.replace(self._file)
        except OSError as error:
            raise LabError(
                f"{self._file} cannot be written: {error.strerror}", hint="free room or mend its rights"
            ) from error

    def add(self, uuid: str) -> None:
        self.write(self.read() | {uuid})

    def discard(self, uuid: str) -> None:
        """Forget that this one was stopped."""
        stopped = self.read()
        if uuid in stopped:
            self.write(stopped - {uuid})


def stopped_arrays(target: Target, state: StateFolder) -> StoppedArrays | None:
    """The list for an embedded lab; None for machines whose arrays run on their own."""
    if target.kind is not TargetKind.UML:
        return None
    return StoppedArrays(state.root / "labs" / target.options.get("name", "default") / "stopped.json")


def bring_up(lab: Lab, stopped: StoppedArrays | None, *, on_plan: Callable[[Plan], None] = lambda _: None) -> BroughtUp:
    """Find the arrays on the lab's disks and, where ``stopped`` is given, start all others.

    ``on_plan`` is told each plan before it runs. An array that md does not start is among the refused.
    """
    if stopped is None:
        # Arrays run on here between sessions, and with them old copies of superblocks stay in the page cache.
        return find_again(lab, BroughtUp())
    found = discover(lab.machine, [disk.node for disk in lab.disks if lab.can_hold_data(disk.node)])
    return start_found(found, stopped, lambda array: start_array(lab, array, on_plan))


def start_found(found: Sequence[Found], stopped: StoppedArrays, start: Callable[[Found], str]) -> BroughtUp:
    """Start what can be and that the user has not stopped; ``start`` returns why it could not, or nothing."""
    refused: list[FoundArray] = [array for array in found if array.refusal]
    able = [array for array in found if not array.refusal]
    resting = stopped.read() if able else frozenset()
    started = []
    for array in able:
        if array.uuid in resting:
            continue
        reason = start(array)
        if reason:
            refused.append(replace(array, refusal=reason))
        else:
            started.append(array)
    return BroughtUp(tuple(started), tuple(array for array in able if array.uuid in resting), tuple(refused))


def find_again(lab: Lab, before: BroughtUp) -> BroughtUp:
    """What lies on the lab's disks now; nothing is started. An array counts as running if md has a member of it.

    One that could not be started ``before``, and still does not run, stays among the refused.
    """
    found = discover(lab.machine, [disk.node for disk in lab.disks], are_used=True)
    names = {member.device: status.name for status in read_arrays(lab.machine) for member in status.members}
    could_not_start = {array.uuid: array.refusal for array in before.refused}
    started, stopped, refused = [], [], []
    for array in found:
        name = next((names[node] for node in array.devices if node in names), None)
        refusal = array.refusal or could_not_start.get(array.uuid, "")
        if name:
            started.append(replace(array, name=name, refusal=""))
        elif refusal:
            refused.append(replace(array, refusal=refusal))
        else:
            stopped.append(array)
    return BroughtUp(tuple(started), tuple(stopped), tuple(refused))


def start_array(lab: Lab, array: FoundArray, on_plan: Callable[[Plan], None]) -> str:
    """Start one array that was found stopped; returns why it could not be started, or nothing."""
    plan = array.assemble_plan()
    on_plan(plan)
    try:
        lab.execute(plan)
    except LabError as error:
        # What mdadm assembled in part would keep its members busy.
        lab.machine.run(("mdadm", "--stop", array_device(array.name)), check=False)
        return error.message
    return ""
