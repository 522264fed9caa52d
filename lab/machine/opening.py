"""Open the machine that a target specifies. Only this module knows which module starts which kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import LabError, MachineLost, SpecError
from lab.gates.decoding import convert, parse_bytes
from lab.host.clock import Clock, HostClock
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine.api import Machine, MachineFacts
from lab.machine.attached import AgentProcess, find_vagrant_host, ssh_arguments, start_local, start_ssh
from lab.machine.channel import Channel
from lab.machine.embedded import START_TIMEOUT_SECONDS, EmbeddedKernel, EmbeddedOptions, start_embedded
from lab.machine.kernel_image import find_kernel
from lab.machine.mdadm_versions import find_mdadm
from lab.machine.qemu import (
    EMULATED_STARTS,
    accelerators,
    can_start,
    is_emulation_race,
    note_failure,
    start_qemu,
    startable_images,
)
from lab.machine.qemu import START_TIMEOUT_SECONDS as QEMU_START_SECONDS
from lab.machine.state_folder import StateFolder, default_state_root
from lab.machine.target import Target, TargetKind
from lab.units import MIB, human_bytes

_MEMORY = {TargetKind.UML: ("mem", 96 * MIB, 0), TargetKind.QEMU: ("memory", 128 * MIB, 512 * MIB)}
"""The option for the memory size, the minimum with which a kernel starts, and the number of bytes that is added to the
lab's default. A distribution's kernel has more drivers and programs than User Mode Linux.
"""


@dataclass(frozen=True, slots=True)
class Host:
    """The functions of the host that this process uses, and the state folder, passed as one value."""

    processes: Processes
    files: HostFiles
    clock: Clock
    state: StateFolder

    @classmethod
    def real(cls, command: str = "raidlab") -> Host:
        processes, clock = Processes(), HostClock()
        return cls(processes, HostFiles(), clock, StateFolder(default_state_root(), processes, clock, command=command))


def default_target(host: Host) -> str:
    """Return ``local:`` on a computer with lab disks (the virtual machine), else the first target that can start.

    Targets are tried in this order: ``uml:``, which starts fastest, ``qemu:`` with a distribution's kernel, and
    ``qemu:`` with a root image. If none of them can start, ``uml:`` is returned.
    """
    blocks = host.files.path("/sys/block")
    serials = [*blocks.glob("*/serial"), *blocks.glob("*/device/serial"), *blocks.glob("*/device/vpd_pg80")]
    for path in serials:
        # A SCSI disk's page has four bytes before the serial.
        if "RAIDLAB-" in (host.files.read(f"/sys/block/{path.relative_to(blocks)}") or "")[:12]:
            return "local:"
    try:
        find_kernel(host.processes, host.files)
    except LabError:
        if can_start(host.processes, host.files):
            return "qemu:"
        images = startable_images(host.processes)
        return f"qemu:?root={images[0].name}" if images else "uml:"
    return "uml:"


def open_machine(
    target: Target,
    host: Host,
    *,
    embedded: EmbeddedOptions | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Machine:
    """Start the machine, and return it as a context manager that closes it.

    ``embedded`` contains the boot options of an embedded kernel; the target's own options take precedence.
    ``on_notice`` is called with each report about the leftovers of a client that was killed earlier.
    """
    for notice in host.state.sweep():
        on_notice(notice)
    options = embedded or EmbeddedOptions()
    started: tuple[EmbeddedKernel | AgentProcess, Channel]
    if target.kind is TargetKind.QEMU:
        return _open_qemu(target, host, embedded_options(target, options), on_notice)
    if target.kind is TargetKind.UML:
        started = start_embedded(embedded_options(target, options), host.state, host.processes, host.files)
    elif target.kind is TargetKind.LOCAL:
        started = start_local(host.processes)
    elif target.kind is TargetKind.VAGRANT:
        name, arguments = find_vagrant_host(target, host.processes)
        started = start_ssh(str(target), arguments, host.processes, by_hand=f"vagrant ssh {name}")
    else:
        started = start_ssh(target.host, ssh_arguments(target), host.processes)
    return _greet(target, *started)


def _open_qemu(target: Target, host: Host, options: EmbeddedOptions, on_notice: Callable[[str], None]) -> Machine:
    """Start QEMU with the first accelerator that works. Try again if a race in QEMU crashes the kernel."""
    starts = [
        accelerator
        for accelerator in accelerators(target, host.files)
        for _ in range(EMULATED_STARTS if accelerator == "tcg" else 1)
    ]
    for number, accelerator in enumerate(starts, 1):
        try:
            started, channel = start_qemu(options, target, accelerator, host.state, host.processes, host.files)
            return _greet(target, started, channel, QEMU_START_SECONDS)
        except MachineLost as error:
            if number == len(starts) or (accelerator == "tcg" and not is_emulation_race(error)):
                raise
            if accelerator == "kvm":
                note_failure(host.files)
                reason = "KVM does not work here, so the processor is emulated, which is slower"
            else:
                reason = "a race in QEMU before 8.1 crashed the kernel while it started, so raidlab starts it again"
            on_notice(f"{reason}: {error.message}")
    raise AssertionError("there is an accelerator")


def embedded_options(target: Target, options: EmbeddedOptions) -> EmbeddedOptions:
    """Apply the options in the target's text. Raises SpecError if the memory is less than the kernel needs to start."""
    asked = target.options
    option, least, more = _MEMORY[target.kind]
    memory = parse_bytes(asked[option], what=option) if option in asked else options.memory_bytes + more
    if memory < least:
        raise SpecError(
            f"'{target}': {human_bytes(memory)} of memory is too little for its kernel",
            hint=f"give it {human_bytes(least)} or more, for example {option}=512M",
        )
    return replace(
        options,
        memory_bytes=memory,
        virtual_time=target.is_virtual_time,
        kernel_path=asked.get("kernel", options.kernel_path),
        mdadm=find_mdadm(asked["mdadm"]) if "mdadm" in asked else options.mdadm,
        shown=(*options.shown, *([Path(asked["show"])] if "show" in asked else [])),
    )


def _greet(
    target: Target,
    started: EmbeddedKernel | AgentProcess,
    channel: Channel,
    timeout_seconds: float = START_TIMEOUT_SECONDS,
) -> Machine:
    try:
        hello = channel.wait_hello(timeout_seconds, waited_seconds=started.waited_seconds)
        facts = _facts(target, hello)
        return Machine(channel, facts, started)
    except BaseException as error:
        if isinstance(error, LabError):
            error.console = error.console or started.console_tail()
        channel.hang_up()
        started.release(has_left=False)
        channel.close()
        raise


def _facts(target: Target, hello: Mapping[str, Any]) -> MachineFacts:
    own = {
        "target": str(target),
        "is_embedded": target.is_embedded,
        "is_virtual_time": target.is_virtual_time,
    }
    try:
        return convert({**convert(hello.get("facts"), dict[str, Any]), **own}, MachineFacts)
    except msgspec.ValidationError as error:
        raise LabError(
            f"raidlab cannot interpret the agent's greeting: {error}",
            hint="make sure that raidlab's agent answers there",
        ) from None
