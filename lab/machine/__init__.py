"""Machines: where the md driver runs, opened by target and driven through the agent."""

from lab.machine.api import CommandResult, Machine, MachineFacts, RawSample, RunningCommand, SampleRequest
from lab.machine.embedded import EmbeddedOptions, UbdDisk
from lab.machine.opening import Host, open_machine
from lab.machine.target import Target, TargetKind, parse_target

__all__ = [
    "CommandResult",
    "EmbeddedOptions",
    "Host",
    "Machine",
    "MachineFacts",
    "RawSample",
    "RunningCommand",
    "SampleRequest",
    "Target",
    "TargetKind",
    "UbdDisk",
    "open_machine",
    "parse_target",
]
