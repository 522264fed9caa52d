"""An open lab whose arrays run: the machine, its lab disks, what was found on them, and plans past the guard.

What may happen at the same time on one session: a monitor, a load, a shell, and **one** thread that makes and runs
plans, waits or rescans. Reading (``statuses``, ``array(name).status()``) is allowed on any thread. Every one of them
ends with MachineLost soon after the machine is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lab.arrays.bring_up import BroughtUp, StoppedArrays, bring_up, start_array, stopped_arrays
from lab.arrays.open_arrays import OpenArrays
from lab.arrays.status import ArrayStatus
from lab.disks import Lab, Opener, open_lab
from lab.disks.attaching import reset_plan
from lab.disks.inventory import mapped_devices
from lab.errors import DeviceRefused, DrillError, LabError, MachineLost
from lab.machine import Host, Machine, Target, TargetKind
from lab.plans import Plan, Step
from lab.session.arrival import arrive, read_arrival

DISK_LINKS = "/dev/lab"
"""Folder with a link to each lab disk: the same names on every machine, for lines typed by hand."""


class LabSession(OpenArrays):
    """The lab and its arrays, and how to run plans."""

    def __init__(
        self,
        target: Target,
        host: Host,
        lab: Lab,
        found: BroughtUp | None = None,
        *,
        stopped: StoppedArrays | None = None,
        on_plan: Callable[[Plan], None] = lambda _: None,
        on_found: Callable[[LabSession], None] = lambda _: None,
    ) -> None:
        """``on_plan`` is told each plan before it runs, ``on_found`` the session when ``found`` is another."""
        super().__init__(lab, found)
        self.target = target
        self.host = host
        self.written: set[tuple[object, ...]] = set()
        """Which regions a load has written as a whole, so that no later read meets a hole."""
        self.on_typed: Callable[[str], None] = lambda _: None
        """Told each command line that the user has given: steps of plans, and what is typed."""
        self.going_on: set[str] = set()
        """Arrays with a plan that goes on by itself, with moments in between in which md rests."""
        self._rescanning = threading.Lock()
        self._stopped = stopped
        self._on_plan = on_plan
        self._on_found = on_found

    @property
    def folder(self) -> Path:
        """Where the lab keeps what must outlive a session, beside its disks."""
        return self.host.state.lab_folder(self.target.lab_name)

    @property
    def is_embedded(self) -> bool:
        """Whether arrays run only while this session is open."""
        return self.target.kind is TargetKind.UML

    def run(self, plan: Plan, *, before_step: Callable[[Step], None] | None = None) -> None:
        """Run a plan past the guard, and look at the disks anew. Raises what the first failing step raises."""
        self._on_plan(plan)
        for step in plan.steps:
            self.on_typed(step.shell_line())
        failure: LabError | None = None
        try:
            self.lab.execute(plan, before_step=before_step)
        except LabError as error:
            failure = error
        if plan.steps and not isinstance(failure, MachineLost):
            self.rescan()
        if failure:
            raise failure

    def start_all(self) -> tuple[ArrayStatus, ...]:
        """Start every stopped array; returns those that run now, and the others are among ``found.refused``."""
        tried = [(array, start_array(self.lab, array, self._on_plan)) for array in self.found.stopped]
        started = tuple(array for array, reason in tried if not reason)
        failed = tuple(replace(array, refusal=reason) for array, reason in tried if reason)
        self.found = BroughtUp((*self.found.started, *started), (), (*self.found.refused, *failed))
        if self._stopped:
            self._stopped.write(())
        self._on_found(self)
        names = {array.name for array in started}
        return tuple(status for status in self.statuses() if status.name in names)

    def rescan(self) -> None:
        """Look at all disks anew: after commands that someone typed by hand; ``run`` does it by itself.

        On the embedded kernel this also keeps in mind which arrays do not run, so the next start leaves them be.
        """
        # A load mounts its array on a thread of its own, by a plan like any other.
        with self._rescanning:
            self.lab.guard.expect_data()
            self.found = bring_up(self.lab, before=self.found)
            if self._stopped:
                self._stopped.write(array.uuid for array in self.found.stopped)
        self._on_found(self)

    def reset(self, disks: Sequence[str]) -> Plan:
        """Make disks blank. Raises DeviceRefused for one that an array, running or stopped, or a mount uses."""
        chosen = [self.lab.disk(word) for word in disks]
        for disk in chosen:
            holder = self.found.holder_of(disk.node)
            if holder and holder in self.found.stopped:
                raise DeviceRefused(
                    f"{disk.name} is a member of {holder.name}, which is stopped",
                    hint=f"'raidlab array destroy {holder.name}' removes it for good",
                )
        self.lab.check_unused(chosen)
        steps = [step for disk in chosen for step in reset_plan(disk).steps]
        return Plan.of(f"Make {', '.join(disk.name for disk in chosen)} blank", steps)

    def reset_all(self, *, ends_drill: bool = False) -> Plan:
        """A new start: stop every array that consists of lab disks alone, and make all disks blank.

        On the embedded kernel there is nothing but the lab, so arrays on mapped devices and these devices go too.
        Raises DrillError if somebody works at a drill on the disks, unless that ends with it.
        """
        if not ends_drill and (drill := read_arrival(self.folder)):
            raise DrillError(
                f"the drill '{drill.title}' is open on these disks",
                hint="'raidlab drill debrief' ends it with a verdict, 'raidlab drill leave' without",
            )
        nodes = {disk.node for disk in self.disks}
        plan = Plan("Start anew with blank disks")
        for status in self.statuses():
            if {member.device for member in status.members} <= nodes:
                plan += self.array(status.name).stop()
            elif self.is_embedded:
                why = "It runs on mapped devices that were made by hand over the disks."
                plan += Plan.of("", [Step(("mdadm", "--stop", status.device), why)])
        if self.is_embedded and mapped_devices(self.machine):
            why = "Mapped devices that were made by hand over the disks go, so that nothing holds the disks."
            plan += Plan.of("", [Step(("dmsetup", "remove_all"), why)])
        return plan + Plan.of("", [step for disk in self.disks for step in reset_plan(disk).steps])


def link_disks(session: OpenArrays) -> None:
    """Make ``/dev/lab/disk01`` and so on lead to the lab's disks, as udev's links lead to disks by their names."""
    pairs = [word for disk in session.disks for word in (disk.node, f"{DISK_LINKS}/{disk.name}")]
    # A process takes an embedded kernel some time: where the links are, none is needed.
    link = '[ "$1" -ef "$2" ] || ln -sfn "$1" "$2"; shift 2'
    script = f'[ -d {DISK_LINKS} ] || mkdir -p {DISK_LINKS}; while [ "$1" ]; do {link}; done'
    session.machine.run(("sh", "-c", script, "sh", *pairs), check=False)


@contextmanager
def open_session(
    target: Target,
    host: Host,
    *,
    start_arrays: bool = True,
    on_notice: Callable[[str], None] = lambda _: None,
    on_machine: Callable[[Machine], None] = lambda _: None,
    on_plan: Callable[[Plan], None] = lambda _: None,
    on_found: Callable[[LabSession], None] = lambda _: None,
    opener: Opener | None = None,
) -> Iterator[LabSession]:
    """Open the lab that lasts and, on the embedded kernel, start its arrays; close it whatever happens.

    ``on_notice`` is told what a user should know, ``on_machine`` the machine before its first command, ``on_plan``
    every plan before it runs, and ``on_found`` the session when the disks have been looked at anew, on that thread.
    """
    with (opener or open_lab)(target, host, on_notice=on_notice, on_machine=on_machine) as lab:
        arrival = read_arrival(host.state.lab_folder(target.lab_name))
        stopped = stopped_arrays(target, host.state)
        if arrival:
            # Which of its arrays run is for the drill to say, and for whoever works at it.
            stopped, start_arrays = None, False
            if target.kind is TargetKind.UML:
                arrive(lab.machine, arrival)
        found = bring_up(lab, stopped, on_plan=on_plan) if start_arrays else bring_up(lab) if arrival else BroughtUp()
        for array in () if arrival else found.refused:
            on_notice(f"array {array.name} ({array.uuid}) was not started: {array.refusal}")
        session = LabSession(target, host, lab, found, stopped=stopped, on_plan=on_plan, on_found=on_found)
        link_disks(session)
        yield session
