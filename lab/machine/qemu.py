"""A distribution's own kernel as an ordinary process: QEMU, on the system's files, without root and without an image.

It is an embedded kernel like User Mode Linux, with the same supervisor, confinement, init and agent. The kernel sees
the files that the confined QEMU sees, read-only, over 9p; the agent answers on a virtio port. Models: virtme-ng and
drgn's vmtest. virtme-ng itself is not used: Debian packages it only since release 13, it gives the guest everything
that the user can read, and its guest has no agent and does not stop when the client is killed.
"""

from __future__ import annotations

import math
import os
import platform
import socket
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lab.errors import RUN_AGAIN, LabError, MachineLost, ToolMissing
from lab.host.files import HostFiles, open_to_append, replace_file
from lab.host.processes import Processes, RunningProcess
from lab.machine.channel import Channel
from lab.machine.confinement import LANDLOCK, NAMESPACE
from lab.machine.embedded import (
    CONSOLE_LOG,
    EmbeddedKernel,
    EmbeddedOptions,
    check_path,
    confined_paths,
    install_agent,
    kept_free,
    mdadm_parameter,
    shown_files,
    supervisor_argv,
)
from lab.machine.kernel_image import guest_python, kernel_cache
from lab.machine.stand_still import SILENT_SECONDS
from lab.machine.state_folder import StateFolder, kernel_group, remove_instance
from lab.machine.stock_kernels import (
    COMPUTER_TAG,
    INIT_VARIABLE,
    StockKernel,
    find_stock_kernel,
    make_initramfs,
    static_busybox,
    stock_kernels,
)
from lab.machine.supervisor import NO_OWN_ROOT
from lab.machine.target import ACCELERATORS, Target
from lab.units import MIB

DEFAULT_CPUS = 2
START_TIMEOUT_SECONDS = 120.0
_KVM = Path("/dev/kvm")
_PACKAGES = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}
_BOARDS = {"x86_64": "pc", "aarch64": "virt"}
_CONSOLES = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}


@dataclass(frozen=True, slots=True)
class QemuOptions:
    """Options of a ``qemu:`` target."""

    kernel: str = ""
    """The path of an image, or a release or its beginning; empty for find_stock_kernel's choice."""
    cpus: int = DEFAULT_CPUS
    accelerator: str = ""
    """One of ACCELERATORS; empty for the first that works."""


def qemu_options(target: Target) -> QemuOptions:
    """Return the options in the target's text."""
    asked = target.options
    return QemuOptions(asked.get("kernel", ""), int(asked.get("cpus", DEFAULT_CPUS)), asked.get("accel", ""))


class QemuKernel(EmbeddedKernel):
    """A started QEMU and its supervisor; ``release`` leaves nothing behind."""

    def waited_seconds(self) -> float | None:
        """The time as in the base class, summed over QEMU's threads."""
        group = kernel_group(self._instance.folder)
        threads = self._files.path(f"/proc/{group}/task").glob("*") if group else ()
        fields = [(self._files.read(f"/proc/{group}/task/{each.name}/schedstat") or "").split() for each in threads]
        return sum(int(each[1]) for each in fields if len(each) > 1) / 1e9 if fields else None


def _loss_by_silence(seconds: int, _verbs: Collection[str]) -> LabError | None:
    if seconds < SILENT_SECONDS:
        return None
    return MachineLost(
        f"the machine has not answered for {seconds} s", hint=f"{RUN_AGAIN}: arrays are as after a power failure"
    )


def accelerators(options: QemuOptions, files: HostFiles) -> list[str]:
    """Return the accelerators to try, in order: KVM where this user may use it and it has not failed since boot."""
    if options.accelerator:
        return [options.accelerator]
    has_kvm = os.access(_KVM, os.R_OK | os.W_OK) and (files.read(str(_failure_note())) or "") != _boot_id(files)
    return list(ACCELERATORS if has_kvm else ACCELERATORS[1:])


def note_failure(accelerator: str, files: HostFiles) -> None:
    """Remember until the next boot that a machine did not start with KVM: its device may exist but not work."""
    if accelerator == "kvm":
        _failure_note().parent.mkdir(parents=True, exist_ok=True)
        replace_file(_failure_note(), _boot_id(files).encode(), is_durable=False)


def _failure_note() -> Path:
    return kernel_cache().parent / "kvm-failed"


def _boot_id(files: HostFiles) -> str:
    return files.read("/proc/sys/kernel/random/boot_id") or ""


def can_start(processes: Processes, files: HostFiles) -> bool:
    """Whether QEMU, busybox and a kernel are there."""
    try:
        find_qemu(processes)
        static_busybox(processes)
    except ToolMissing:
        return False
    return bool(stock_kernels(files))


def find_qemu(processes: Processes, architecture: str = "") -> str:
    """Return the path of the QEMU program for an architecture as in uname(2), by default this computer's.

    Raises ToolMissing with the package.
    """
    architecture = architecture or platform.machine()
    if found := processes.find(f"qemu-system-{architecture}"):
        return found
    package = _PACKAGES.get(architecture, "qemu-system")
    raise ToolMissing(f"qemu-system-{architecture} is not installed", hint=f"apt install {package}")


def qemu_arguments(
    qemu: str,
    options: EmbeddedOptions,
    asked: QemuOptions,
    accelerator: str,
    kernel: StockKernel,
    initramfs: Path,
    folder: Path,
    agent_fd: int,
    *,
    architecture: str = "",
) -> list[str]:
    """Return QEMU's command line; ``agent_fd`` is the agent's socket.

    Sources: qemu(1); Documentation/admin-guide/kernel-parameters.txt; qemu-project.org, 9psetup.
    """
    architecture = architecture or platform.machine()
    parameters = (
        f"console={_CONSOLES[architecture]} quiet oops=panic panic=-1 md_mod.start_ro=1 {NO_OWN_ROOT} "
        f"{INIT_VARIABLE}={folder}/init RAIDLAB_MODULES={kernel.modules}"
        f"{''.join(f' {word}' for word in mdadm_parameter(options))}"
    )
    return [
        qemu,
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-machine", _BOARDS[architecture], "-cpu", "host" if accelerator == "kvm" else "max"),
        *("-accel", "tcg,thread=multi" if accelerator == "tcg" else accelerator),
        *("-smp", str(asked.cpus), "-m", f"{options.memory_bytes // MIB}M"),
        *("-kernel", str(kernel.image), "-initrd", str(initramfs), "-append", parameters),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent_fd}"),
        *("-device", "virtserialport,chardev=agent,name=raidlab"),
        *("-fsdev", "local,id=computer,path=/,security_model=none,readonly=on,multidevs=remap"),
        *("-device", f"virtio-9p-pci,fsdev=computer,mount_tag={COMPUTER_TAG}"),
        *(word for number, disk in enumerate(options.disks) for word in _disk(number, disk.path, disk.serial)),
    ]


def _disk(number: int, path: Path, serial: str) -> tuple[str, ...]:
    """A discard makes the image sparse again; without locks, since the lab's own lock guards the image."""
    drive = f"if=none,id=drive{number},file={path.absolute()},format=raw,cache=writeback,discard=unmap,file.locking=off"
    return ("-drive", drive, "-device", f"virtio-blk-pci,drive=drive{number},id=disk{number},serial={serial}")


def start_qemu(
    options: EmbeddedOptions,
    asked: QemuOptions,
    accelerator: str,
    state: StateFolder,
    processes: Processes,
    files: HostFiles,
) -> tuple[QemuKernel, Channel]:
    """Boot a kernel and return it with its channel (the agent has not greeted yet).

    Raises ToolMissing without QEMU, a kernel or busybox, LabError for an unusable state folder.
    """
    qemu = find_qemu(processes)
    kernel = find_stock_kernel(asked.kernel)
    initramfs = make_initramfs(kernel, processes)
    python = guest_python(processes)
    read = [str(path) for path in (kernel.modules, *shown_files(options))]
    paths = [disk.path for disk in options.disks]
    check_path(state.root, kernel.image, kernel.modules, *paths, *filter(None, [options.mdadm]))
    with ExitStack() as undo, ExitStack() as handed_over:
        instance = state.new_instance()
        undo.callback(instance.close)
        undo.callback(remove_instance, instance.folder)
        folder = instance.folder
        install_agent(folder, python, read)
        console = open_to_append(folder / CONSOLE_LOG, error=LabError)
        handed_over.callback(os.close, console)
        agent, agent_far = socket.socketpair()
        undo.callback(agent.close)
        handed_over.callback(agent_far.close)
        fds = (agent_far.fileno(), console)
        arguments = qemu_arguments(qemu, options, asked, accelerator, kernel, initramfs, folder, fds[0])
        readable = [*read, str(kernel.image), str(initramfs)]
        # QEMU opens the root directory that it exports. Without a namespace this lets it list names, not read files.
        confinement = {
            **confined_paths(options, folder, readable, layers=(NAMESPACE, LANDLOCK)),
            "devices": [str(_KVM)] if accelerator == "kvm" else [],
            "listable": ["/"],
        }
        supervisor = processes.start(
            supervisor_argv(python, folder, fds, confinement, arguments),
            pass_fds=[*fds, instance.fd, *options.kept_locks],
            stderr_fd=console,
            extra_env=kept_free(),
        )
        started = QemuKernel(supervisor, instance, processes, files)
        undo.callback(started.release, has_left=False)
        channel = _channel_to(started, supervisor, agent)
        undo.pop_all()
    return started, channel


def _channel_to(started: QemuKernel, supervisor: RunningProcess, agent: socket.socket) -> Channel:
    """Return the channel over a socket, which it owns from here on. A virtio port has flow control of its own."""
    assert supervisor.stdout is not None
    read_fd, write_fd, life_fd = os.dup(agent.fileno()), agent.detach(), os.dup(supervisor.stdout.fileno())
    channel = Channel(
        read_fd, write_fd, started.explain_loss, life_fd=life_fd, window_bytes=math.inf, on_silence=_loss_by_silence
    )
    started.ask_to_leave = lambda: channel.request("exit")
    return channel
