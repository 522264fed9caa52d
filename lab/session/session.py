"""An open lab whose arrays run: the machine, its lab disks, what was found on them, and plans past the guard.

What may happen at the same time on one session: a monitor, a load, a shell, and **one** thread that makes and runs
plans, waits or rescans. Reading (``statuses``, ``status``, ``mounted_on``) is allowed on any thread. Every one of them
ends with MachineLost soon after the machine is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from lab.adapt.bring_up import bring_up_volumes, find_volumes_again, start_volume
from lab.adapt.discovery import FoundVolume
from lab.adapt.names import is_volume_name, require_volume_name, volume_device
from lab.adapt.state import VolumeStatus, read_stack, read_volume
from lab.adapt.summary import VolumeArray, as_array
from lab.arrays.bring_up import BroughtUp, StoppedArrays, bring_up, find_again, start_array, stopped_arrays
from lab.arrays.discovery import FoundArray
from lab.arrays.names import array_device, require_array_name
from lab.arrays.state import read_array, read_arrays
from lab.arrays.status import ArrayStatus
from lab.arrays.waits import wait_until_idle
from lab.disks import Lab, LabDisk, open_lab
from lab.disks.inventory import kernel_names, read_devices
from lab.disks.lab_files import lab_name_at
from lab.errors import ArrayError
from lab.machine import Host, Machine, Target, TargetKind
from lab.plans import Plan, Step


class LabSession:
    """The lab, what was found on its disks, and how to run plans."""

    def __init__(
        self,
        target: Target,
        host: Host,
        lab: Lab,
        found: BroughtUp | None = None,
        *,
        stopped: StoppedArrays | None = None,
        on_plan: Callable[[Plan], None] = lambda _: None,
    ) -> None:
        self.target = target
        self.host = host
        self.lab = lab
        self.found = found or BroughtUp()
        """Replaced as a whole by ``rescan``."""
        self.written: set[tuple[object, ...]] = set()
        """Which regions a load has written as a whole, so that no later read meets a hole."""
        self.going_on: set[str] = set()
        """Volumes with a plan that goes on by itself: from array to array, with moments in which md rests."""
        self._stopped = stopped
        self._on_plan = on_plan

    @property
    def folder(self) -> Path:
        """Where the lab keeps what must outlive a session, beside its disks."""
        is_named = self.target.kind is TargetKind.UML
        name = self.target.options.get("name", "default") if is_named else lab_name_at(str(self.target))
        return self.host.state.root / "labs" / name

    @property
    def machine(self) -> Machine:
        """Where everything happens."""
        return self.lab.machine

    @property
    def is_embedded(self) -> bool:
        """Whether arrays run only while this session is open."""
        return self.target.kind is TargetKind.UML

    @property
    def disks(self) -> tuple[LabDisk, ...]:
        """The lab's disks, by name."""
        return self.lab.disks

    def node(self, disk_word: str) -> str:
        """The device behind a disk's name, serial or node. Raises SpecError for one that is no lab disk."""
        return self.lab.disk(disk_word.strip()).node

    def disk_name(self, node: str) -> str:
        """The lab's name of a device, or the node itself."""
        return next((disk.name for disk in self.lab.disks if disk.node == node), node)

    def status(self, name: str) -> ArrayStatus:
        """The state of a running array. Raises ArrayError that says why it does not run."""
        require_array_name(name)
        self._check_running(name)
        return read_array(self.lab.machine, name)

    def volume(self, name: str) -> VolumeStatus:
        """The state of a running volume of unequal disks. Raises ArrayError that says why it does not run."""
        require_volume_name(name)
        self._check_running(name)
        found = self.found.array(name)
        if not isinstance(found, FoundVolume):
            raise ArrayError(f"there is no array {name}", hint="'raidlab array show' lists the arrays")
        return read_volume(self.lab.machine, found)

    def status_of(self, name: str) -> ArrayStatus:
        """The state of a running array or volume, the latter as an array of its disks. Raises as both do."""
        return as_array(self.volume(name)) if is_volume_name(name) else self.status(name)

    def _check_running(self, name: str) -> None:
        found = self.found.array(name)
        if found and found in self.found.stopped:
            raise ArrayError(f"array {name} is stopped", hint=f"start it with 'raidlab array assemble {name}'")
        if found and found in self.found.refused:
            raise ArrayError(
                f"array {name} does not run: {found.refusal}",
                hint=f"'raidlab array destroy {name}' removes it for good"
                if is_volume_name(name)
                else f"'raidlab array assemble {name} --force' tries all the same",
            )

    def statuses(self) -> tuple[ArrayStatus, ...]:
        """The state of every running array, by number; not of those that are parts of volumes."""
        inner = read_stack(self.lab.machine).inner_arrays
        return tuple(status for status in read_arrays(self.lab.machine) if status.name not in inner)

    def volumes(self) -> tuple[VolumeStatus, ...]:
        """The state of every running volume of unequal disks that ``found`` knows, by name."""
        stack = read_stack(self.lab.machine)
        known = (array for array in self.found.started if isinstance(array, FoundVolume))
        return tuple(read_volume(self.lab.machine, found, stack) for found in known if found.name in stack.volumes)

    def all_statuses(self) -> tuple[ArrayStatus | VolumeArray, ...]:
        """Every running array; a volume of unequal disks is one of them, and the arrays inside it are not."""
        arrays = read_arrays(self.lab.machine)
        # Volumes lie on slices: without any, the mapped devices need not be looked at.
        if not any(member.device.startswith("/dev/dm-") for status in arrays for member in status.members):
            return arrays
        stack = read_stack(self.lab.machine)
        known = (array for array in self.found.all if isinstance(array, FoundVolume) and array.name in stack.volumes)
        volumes = (as_array(read_volume(self.lab.machine, found, stack, arrays)) for found in known)
        return (*(status for status in arrays if status.name not in stack.inner_arrays), *volumes)

    def array_of(self, disk_word: str) -> str | None:
        """The array that a disk belongs to, running or not; None for a free disk."""
        node = self.node(disk_word)
        for status in self.statuses():
            if any(member.device == node for member in status.members):
                return status.name
        holder = self.found.holder_of(node)
        if holder is None or (holder in self.found.started and not isinstance(holder, FoundVolume)):
            return None
        return holder.name

    def mounted_on(self, name: str) -> tuple[str, ...]:
        """Where the array is mounted."""
        node = volume_device(name) if is_volume_name(name) else array_device(name)
        kernel = kernel_names(self.lab.machine, [node]).get(node, "")
        device = read_devices(self.lab.machine, [kernel]).get(kernel) if kernel else None
        return device.mounted_on if device else ()

    def run(self, plan: Plan, *, before_step: Callable[[Step], None] | None = None) -> None:
        """Run a plan past the guard. Raises what the first failing step raises. Call ``rescan`` when it may matter."""
        self._on_plan(plan)
        self.lab.execute(plan, before_step=before_step)

    def start_all(self) -> tuple[ArrayStatus, ...]:
        """Start every stopped array; returns those that run now, and the others are among ``found.refused``."""
        tried = [(array, self._start(array)) for array in self.found.stopped]
        started = tuple(array for array, reason in tried if not reason)
        failed = tuple(replace(array, refusal=reason) for array, reason in tried if reason)
        self.found = BroughtUp((*self.found.started, *started), (), (*self.found.refused, *failed))
        if self._stopped:
            self._stopped.write(())
        names = {array.name for array in started}
        return tuple(status for status in self.statuses() if status.name in names)

    def _start(self, array: FoundArray) -> str:
        if isinstance(array, FoundVolume):
            return start_volume(self.lab, array, self._on_plan)
        return start_array(self.lab, array, self._on_plan)

    def wait_for_volume(self, name: str, *, on_look: Callable[[ArrayStatus], None] | None = None) -> VolumeStatus:
        """Wait until none of its arrays is synchronised any more. Raises WaitTimedOut if one does not get on."""
        for window in self.volume(name).windows:
            if window.array:
                self.wait(window.array.name, on_look=on_look)
        return self.volume(name)

    def wait(self, name: str, *, on_look: Callable[[ArrayStatus], None] | None = None) -> ArrayStatus:
        """Wait until nothing is synchronised any more. Raises WaitTimedOut if it does not get on."""
        return wait_until_idle(self.lab.machine, name, clock=self.host.clock, on_look=on_look)

    def rescan(self) -> None:
        """Look at all disks anew: after a plan, and after commands that someone typed by hand.

        On the embedded kernel this also keeps in mind which arrays do not run, so the next start leaves them be.
        """
        self.lab.expect_data()
        self.found = find_again(self.lab, self.found) + find_volumes_again(self.lab, self.found)
        if self._stopped:
            self._stopped.write(array.uuid for array in self.found.stopped)


class Opener(Protocol):
    """How a lab is opened; tests give another."""

    def __call__(
        self, target: Target, host: Host, /, *, on_notice: Callable[[str], None], on_machine: Callable[[Machine], None]
    ) -> AbstractContextManager[Lab]: ...


@contextmanager
def open_session(
    target: Target,
    host: Host,
    *,
    start_arrays: bool = True,
    on_notice: Callable[[str], None] = lambda _: None,
    on_machine: Callable[[Machine], None] = lambda _: None,
    on_plan: Callable[[Plan], None] = lambda _: None,
    opener: Opener = open_lab,
) -> Iterator[LabSession]:
    """Open the lab that lasts and, on the embedded kernel, start its arrays; close it whatever happens.

    ``on_notice`` is told what a user should know, ``on_machine`` the machine before its first command, ``on_plan``
    every plan before it runs.
    """
    with opener(target, host, on_notice=on_notice, on_machine=on_machine) as lab:
        stopped = stopped_arrays(target, host.state)
        found = BroughtUp()
        if start_arrays:
            found = bring_up(lab, stopped, on_plan=on_plan) + bring_up_volumes(lab, stopped, on_plan=on_plan)
        for array in found.refused:
            on_notice(f"array {array.name} ({array.uuid}) was not started: {array.refusal}")
        yield LabSession(target, host, lab, found, stopped=stopped, on_plan=on_plan)
