"""Machines, on which the md driver runs. Each machine is opened from a target, and controlled through the agent."""

from lab.machine.agent import RUN_FOLDER
from lab.machine.api import CommandResult, Machine, MachineFacts, RawSample, RunningCommand, SampleRequest
from lab.machine.embedded import EmbeddedOptions, UbdDisk
from lab.machine.opening import Host, default_target, open_machine
from lab.machine.programs import GuestProgram
from lab.machine.target import Target, TargetKind, parse_target
from lab.machine.terminal import Terminal, TypedCommand

__all__ = [
    "RUN_FOLDER",
    "CommandResult",
    "EmbeddedOptions",
    "GuestProgram",
    "Host",
    "Machine",
    "MachineFacts",
    "RawSample",
    "RunningCommand",
    "SampleRequest",
    "Target",
    "TargetKind",
    "Terminal",
    "TypedCommand",
    "UbdDisk",
    "default_target",
    "open_machine",
    "parse_target",
]
