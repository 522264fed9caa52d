"""``raidlab array``: each sub-command makes a plan, then prints it (``--plan``) or runs it."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from lab.arrays.discovery import FoundArray
from lab.arrays.kinds import kind_of_name, kinds
from lab.cli import array_create, array_faults, array_microscope
from lab.cli.array_run import BreakArrayFlag, PlanFlag, WaitFlag, act, array_text
from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.cli.session import open_session
from lab.gates.numbers import SpeedKibPerSecond, checked, parse_bytes, whole
from lab.parts import commands
from lab.plans import Plan
from lab.session.session import LabSession
from lab.units import KIB

app = App(name="array", help="Create, show, change, break and repair arrays.", help_format="plaintext")
app.command(array_create.create)
app.command(array_create.assemble)
app.command(array_create.grow)
for _name, _place, _help in commands("array"):
    app.command(_place, name=_name, help=_help)
array_faults.add_to(app)
array_microscope.add_to(app)


@app.command
def stop(name: str, *, plan: PlanFlag = False) -> None:
    """Stop an array; its data stays on the disks."""
    act(name, lambda session: session.array(name).stop(), plan=plan)


@app.command
def fail(
    name: str,
    disk: str,
    *,
    break_array: BreakArrayFlag = False,
    plan: PlanFlag = False,
) -> None:
    """Mark a member as faulty, as md does when a disk stops answering."""
    act(name, lambda session: session.array(name).fail(disk, breaks_array=break_array), plan=plan)


@app.command
def remove(name: str, disk: str, *, plan: PlanFlag = False) -> None:
    """Take a faulty or spare member out of an array."""
    act(name, lambda session: session.array(name).remove(disk), plan=plan)


@app.command
def add(name: str, disk: str, *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Add a disk: it becomes a spare, and a degraded array rebuilds on it."""
    act(name, lambda session: session.array(name).add(disk), plan=plan, waits_for="rebuild", wait=wait)


@app.command
def re_add(name: str, disk: str, *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Put a former member back; with a bitmap only what changed meanwhile is copied."""
    act(name, lambda session: session.array(name).re_add(disk), plan=plan, waits_for="rebuild", wait=wait)


@app.command
def replace(name: str, old: str, new: str, *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Copy a working member to another disk, then retire it; redundancy is kept throughout."""
    act(name, lambda session: session.array(name).replace(old, new), plan=plan, waits_for="copy", wait=wait)


@app.command
def scrub(name: str, action: str = "check", *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Read a whole array and compare copies or parity: check, repair or stop."""
    waits_for = "" if action == "stop" else action
    act(name, lambda session: session.array(name).scrub(action), plan=plan, waits_for=waits_for, wait=wait)


@app.command
def speed(
    name: str,
    *,
    minimum: Annotated[
        str | None, Parameter(name="--min", help="Per second and member, such as 10M; a bare number is KiB, as in md.")
    ] = None,
    maximum: Annotated[str | None, Parameter(name="--max", help="Per second and member, such as 200M.")] = None,
    plan: PlanFlag = False,
) -> None:
    """Limit the speed of syncs of one array; without a limit the system's value holds."""
    context, low, high = current(), _kib_per_second(minimum), _kib_per_second(maximum)

    def make(session: LabSession) -> Plan:
        made = session.array(name).speed(minimum_kib_per_second=low, maximum_kib_per_second=high)
        if context.is_embedded and not plan:
            context.narrator.notice("the limits last as long as the lab is open: here, this command")
        return made

    act(name, make, plan=plan)


@app.command
def destroy(name: str, *, plan: PlanFlag = False) -> None:
    """Stop an array and erase its superblocks: its data is gone."""
    act(name, lambda session: session.array(name).destroy(), plan=plan)


def _kib_per_second(text: str | None) -> int | None:
    if text is None:
        return None
    # A bare number is what md itself writes and reads: KiB a second.
    is_bare = re.fullmatch(r"\d+", text)
    kib = whole(text, "speed") if is_bare else parse_bytes(text, what="speed") // KIB
    return checked(kib, SpeedKibPerSecond, "speed in KiB a second")


@app.command
def show(name: str | None = None) -> None:
    """Show one array, or all, with members and the progress of a sync."""
    context = current()
    with open_session(context) as session:
        shown = [session.array(name).status()] if name else list(session.statuses())
        arrays = [(session.array(status.name), status) for status in shown]
        resting = () if name else (*session.found.stopped, *session.found.refused)
        if context.json:
            listed: dict[str, list[dict[str, Any]]] = {kind.listed_as: [] for kind in kinds()}
            for array, status in arrays:
                listed[kind_of_name(array.name).listed_as].append(array.value(status))
            more = {**listed, "not_running": [_found_value(session, found) for found in resting]}
            out_json(arrays[0][0].value(shown[0]) if name else more)
            return
        if not shown and not resting:
            context.narrator.notice("no arrays; 'raidlab array create --level raid5 --disks 3' makes one")
        texts = [array_text(array, status) for array, status in arrays]
        texts += [f"{found.name}: not running, {found.refusal or 'stopped'}" for found in resting]
        if texts:
            out("\n\n".join(texts))


def _found_value(session: LabSession, found: FoundArray) -> dict[str, Any]:
    """An array that does not run: what is known of those of every kind."""
    value = {field: msgspec.to_builtins(getattr(found, field)) for field in FoundArray.__dataclass_fields__}
    return {**value, "disks": [session.disk_name(node) for node in found.devices]}
