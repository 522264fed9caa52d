"""An open lab whose arrays run: what every sub-command of ``raidlab array`` works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab.arrays.bring_up import BroughtUp, StoppedArrays, bring_up, stopped_arrays
from lab.arrays.names import require_array_name
from lab.arrays.state import read_array, read_arrays
from lab.arrays.status import ArrayStatus
from lab.arrays.waits import wait_until_idle
from lab.cli.context import Context
from lab.cli.output import err, out, out_json
from lab.cli.progress import ProgressReporter
from lab.disks import Lab
from lab.disks.inventory import read_devices
from lab.errors import ArrayError
from lab.plans import Plan

# How long a sync takes is not known before; the bar's own estimate comes from its progress.
_WAIT_UNITS = 0.999


@dataclass(frozen=True, slots=True)
class Session:
    """The lab, what was found on its disks, and how to run plans with narration."""

    context: Context
    lab: Lab
    found: BroughtUp
    stopped: StoppedArrays | None

    def node(self, word: str) -> str:
        """The device behind a disk's name, serial or node. Raises SpecError for one that is no lab disk."""
        return self.lab.disk(word.strip()).node

    def disk_name(self, node: str) -> str:
        """The lab's name of a device, or the node itself."""
        return next((disk.name for disk in self.lab.disks if disk.node == node), node)

    def status(self, name: str) -> ArrayStatus:
        """The state of a running array. Raises ArrayError that says why it does not run."""
        require_array_name(name)
        found = self.found.array(name)
        if found and found in self.found.stopped:
            raise ArrayError(f"array {name} is stopped", hint=f"start it with 'raidlab array assemble {name}'")
        if found and found in self.found.refused:
            raise ArrayError(
                f"array {name} does not run: {found.refusal}",
                hint=f"'raidlab array assemble {name} --force' tries all the same",
            )
        return read_array(self.lab.machine, name)

    def statuses(self) -> tuple[ArrayStatus, ...]:
        return read_arrays(self.lab.machine)

    def mounted_on(self, name: str) -> tuple[str, ...]:
        """Where the array is mounted."""
        device = read_devices(self.lab.machine).get(name)
        return device.mounted_on if device else ()

    def run(self, plan: Plan) -> None:
        """Run a plan past the guard; its commands are shown."""
        self.context.narrator.announce(plan)
        self.lab.execute(plan)

    def wait(self, name: str, what: str) -> ArrayStatus:
        """Wait for the sync that an array owes, with a progress bar."""
        with ProgressReporter(quiet=self.context.quiet) as progress:
            progress.start(_WAIT_UNITS, 1)
            progress.step(f"{name}: {what}", _WAIT_UNITS)
            clock = self.lab.host.clock
            return wait_until_idle(self.lab.machine, name, clock=clock, on_look=_follow(progress))


def _follow(progress: ProgressReporter) -> Callable[[ArrayStatus], None]:
    def look(status: ArrayStatus) -> None:
        if status.sync_progress:
            progress.advance(status.sync_progress.fraction)

    return look


@contextmanager
def open_session(context: Context, *, start_arrays: bool = True) -> Iterator[Session]:
    """Open the lab that lasts and, on the embedded kernel, start its arrays; close it whatever happens."""
    with context.open_lab() as lab:
        stopped = stopped_arrays(context.target, context.host.state)
        found = bring_up(lab, stopped, on_plan=context.narrator.announce) if start_arrays else BroughtUp()
        for array in found.refused:
            context.narrator.notice(f"array {array.name} ({array.uuid}) was not started: {array.refusal}")
        yield Session(context, lab, found, stopped)


def show_plan(context: Context, plan: Plan) -> None:
    """Print a plan and do nothing: commands on standard output, what they are for on standard error."""
    if context.json:
        out_json(plan_value(plan))
        return
    for step in plan.steps:
        if not context.quiet:
            err(f"# {step.why}")
        out(step.shell_line())
    if not plan.steps and not context.quiet:
        err(f"# {plan.title}: there is nothing to do")


def plan_value(plan: Plan) -> dict[str, Any]:
    """A plan for JSON."""
    return {
        "title": plan.title,
        "steps": [
            {
                "argv": step.argv,
                "line": step.shell_line(),
                "why": step.why,
                "undo": step.undo,
                "danger": str(step.danger),
                "writes_devices": step.writes_devices,
            }
            for step in plan.steps
        ],
    }
