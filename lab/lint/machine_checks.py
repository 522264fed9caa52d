"""Checks of a machine right before measuring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.lint.facts import MachineFacts
from lab.lint.findings import Check, Finding, Seen, run_checks

IDLE_ACTIONS = frozenset({"", "idle", "frozen"})


def lint_machine(machine: MachineFacts) -> Iterator[Finding]:
    """Everything that the machine shows."""
    yield from run_checks(CHECKS, machine)


def _member_reused(machine: MachineFacts) -> Iterator[Seen]:
    for device in machine.devices:
        wanted = machine.expected_holders.get(device.name)
        strangers = [holder for holder in device.holders if holder != wanted]
        if device.name in machine.expected_holders and strangers:
            yield Seen(device.name, f"is used by {', '.join(strangers)}", f"no user beside {wanted or 'none'}")


def _loop_buffered(machine: MachineFacts) -> Iterator[Seen]:
    for device in machine.devices:
        if device.loop_direct is False:
            yield Seen(device.name, "loop/dio is 0", "1")


def _device_missing(machine: MachineFacts) -> Iterator[Seen]:
    for device in machine.devices:
        if device.size_bytes <= 0:
            yield Seen(device.name, "is not there, or has no size", "a block device with a size")


def _resync_running(machine: MachineFacts) -> Iterator[Seen]:
    for device in machine.devices:
        if device.sync_action not in IDLE_ACTIONS:
            yield Seen(device.name, f"sync_action is {device.sync_action}", "idle")


def _stats_off(machine: MachineFacts) -> Iterator[Seen]:
    for device in machine.devices:
        if not device.is_counted:
            yield Seen(device.name, "queue/iostats is 0", "1")


def _debug_kernel(machine: MachineFacts) -> Iterator[Seen]:
    if machine.debug_options:
        yield Seen("kernel", f"has {', '.join(machine.debug_options)}", "a kernel without them")


CHECKS: Mapping[str, Check[MachineFacts]] = {
    "device-missing": _device_missing,
    "member-reused": _member_reused,
    "loop-buffered": _loop_buffered,
    "resync-running": _resync_running,
    "stats-off": _stats_off,
    "debug-kernel": _debug_kernel,
}
