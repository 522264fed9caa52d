"""A distribution's own kernel as an ordinary process: QEMU, on the system's files, without root and without an image.

It is an embedded kernel like User Mode Linux, with the same supervisor, confinement, init and agent. The kernel sees
the files that the confined QEMU sees, read-only, over 9p; the agent answers on a virtio port. Models: virtme-ng and
drgn's vmtest. virtme-ng itself is not used: Debian packages it only since release 13, it gives the guest everything
that the user can read, and its guest has no agent and does not stop when the client is killed.
"""

from __future__ import annotations

import json
import math
import os
import platform
import select
import socket
import threading
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
MOST_DISKS = 16
START_TIMEOUT_SECONDS = 120.0
MONITOR_SECONDS = 20.0
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


class Monitor:
    """QEMU's monitor (QMP, QEMU's docs/interop/qmp-spec.rst), on a socket that this class owns."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._text = b""
        self._has_greeted = False

    def command(self, name: str, **arguments: object) -> Any:
        """Run one command and return its result. Raises LabError with QEMU's reason, or if QEMU does not answer."""
        with self._lock:
            if not self._has_greeted:
                self._message()
                self._has_greeted = True
                self._exchange("qmp_capabilities", {})
            return self._exchange(name, arguments)

    def close(self) -> None:
        self._line.close()

    def _exchange(self, name: str, arguments: Mapping[str, object]) -> Any:
        request = {"execute": name, "arguments": dict(arguments)}
        try:
            self._line.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise MachineLost(f"QEMU's monitor is gone: {error.strerror}") from None
        while True:
            answer = self._message()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise LabError(f"QEMU refuses '{name}': {answer['error'].get('desc', '')}")

    def _message(self) -> dict[str, Any]:
        """The next message of any kind, including events."""
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._line], [], [], MONITOR_SECONDS)
            data = self._line.recv(65536) if ready else b""
            if not data:
                raise MachineLost("QEMU's monitor does not answer")
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


class QemuKernel(EmbeddedKernel):
    """A started QEMU and its supervisor; ``release`` leaves nothing behind."""

    monitor: Monitor

    def waited_seconds(self) -> float | None:
        """The time as in the base class, summed over QEMU's threads."""
        group = kernel_group(self._instance.folder)
        threads = self._files.path(f"/proc/{group}/task").glob("*") if group else ()
        fields = [(self._files.read(f"/proc/{group}/task/{each.name}/schedstat") or "").split() for each in threads]
        return sum(int(each[1]) for each in fields if len(each) > 1) / 1e9 if fields else None

    def release(self, has_left: bool) -> None:
        try:
            super().release(has_left)
        finally:
            self.monitor.close()


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
    fds: tuple[int, int],
    *,
    architecture: str = "",
) -> list[str]:
    """Return QEMU's command line; ``fds`` are the sockets of the agent and of the monitor.

    Sources: qemu(1); Documentation/admin-guide/kernel-parameters.txt; qemu-project.org, 9psetup.
    """
    architecture = architecture or platform.machine()
    parameters = (
        f"console={_CONSOLES[architecture]} quiet oops=panic panic=-1 md_mod.start_ro=1 {NO_OWN_ROOT} "
        f"{INIT_VARIABLE}={folder}/init RAIDLAB_MODULES={kernel.modules}"
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
        *("-chardev", f"socket,id=monitor,fd={fds[1]}", "-mon", "chardev=monitor,mode=control"),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={fds[0]}"),
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
    check_path(state.root, kernel.image, kernel.modules, *(disk.path for disk in options.disks))
    with ExitStack() as undo, ExitStack() as handed_over:
        instance = state.new_instance()
        undo.callback(instance.close)
        undo.callback(remove_instance, instance.folder)
        folder = instance.folder
        install_agent(folder, python, read)
        console = open_to_append(folder / CONSOLE_LOG, error=LabError)
        handed_over.callback(os.close, console)
        agent, agent_far = socket.socketpair()
        monitor, monitor_far = socket.socketpair()
        for line in (agent, monitor):
            undo.callback(line.close)
        for line in (agent_far, monitor_far):
            handed_over.callback(line.close)
        fds = (agent_far.fileno(), monitor_far.fileno())
        arguments = qemu_arguments(qemu, options, asked, accelerator, kernel, initramfs, folder, fds)
        readable = [*read, str(kernel.image), str(initramfs)]
        # QEMU opens the root directory that it exports. Without a namespace this lets it list names, not read files.
        confinement = {
            **confined_paths(options, folder, readable, layers=(NAMESPACE, LANDLOCK)),
            "devices": [str(_KVM)] if accelerator == "kvm" else [],
            "listable": ["/"],
        }
        supervisor = processes.start(
            supervisor_argv(python, folder, (*fds, console), confinement, arguments),
            pass_fds=[*fds, console, instance.fd, *options.kept_locks],
            stderr_fd=console,
            extra_env=kept_free(),
        )
        started = QemuKernel(supervisor, instance, processes, files)
        started.monitor = Monitor(monitor)
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
