"""What makes disks of an open lab blank, as plans. What is done to one array is a verb of ``session.array(name)``."""

from __future__ import annotations

from collections.abc import Sequence

from lab.disks.attaching import reset_plan
from lab.errors import DeviceRefused
from lab.plans import Plan
from lab.session.session import LabSession


def reset(session: LabSession, disks: Sequence[str]) -> Plan:
    """Make disks blank. Raises DeviceRefused for one that an array, running or stopped, or a mount uses."""
    chosen = [session.lab.disk(word) for word in disks]
    for disk in chosen:
        holder = session.found.holder_of(disk.node)
        if holder and holder in session.found.stopped:
            raise DeviceRefused(
                f"{disk.name} is a member of {holder.name}, which is stopped",
                hint=f"'raidlab array destroy {holder.name}' removes it for good",
            )
    session.lab.check_unused(chosen)
    return Plan.of(
        f"Make {', '.join(disk.name for disk in chosen)} blank",
        [step for disk in chosen for step in reset_plan(disk).steps],
    )


def reset_all(session: LabSession) -> Plan:
    """A new start: stop every array that consists of lab disks alone, and make all disks blank."""
    nodes = {disk.node for disk in session.disks}
    plan = Plan("Start anew with blank disks")
    for status in session.statuses():
        if {member.device for member in status.members} <= nodes:
            plan += session.array(status.name).stop()
    return plan + Plan.of("", [step for disk in session.disks for step in reset_plan(disk).steps])
