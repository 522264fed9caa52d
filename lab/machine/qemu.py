"""Run a distribution's own kernel in QEMU, on the system's files or a root image, as an ordinary user's process.

Such a kernel is an embedded kernel like User Mode Linux, with the same supervisor, confinement, init and agent. It sees
either the files that the confined QEMU sees, read-only and over 9p, or the files of a root image (root_images.py). The
agent answers on a virtio port. The design follows drgn's vmtest and virtme-ng. Unlike virtme-ng's guest, this guest
cannot read everything that the user can read, and it stops when the client is killed.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lab.errors import RUN_AGAIN, LabError, MachineLost, SpecError, ToolMissing
from lab.host.files import HostFiles, open_to_append, replace_file
from lab.host.processes import Processes
from lab.machine.channel import Channel, counted_seconds
from lab.machine.confinement import LANDLOCK, NAMESPACE
from lab.machine.embedded import (
    GUEST_FOLDER,
    EmbeddedKernel,
    EmbeddedOptions,
    agent_files,
    check_path,
    confined_paths,
    install_agent,
    mdadm_parameter,
    shown_files,
    spare_space_environment,
    supervisor_argv,
)
from lab.machine.kernel_image import guest_python, kernel_cache
from lab.machine.root_images import (
    AGENT_FOLDER,
    RootImage,
    find_root_image,
    root_images,
    write_initramfs,
)
from lab.machine.stand_still import SILENT_SECONDS
from lab.machine.state_folder import CONSOLE_LOG, StateFolder, kernel_group
from lab.machine.stock_kernels import (
    INIT_VARIABLE,
    LOGS_TAG,
    fast_image,
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
WINDOW_BYTES = 8192
"""Less than the agent's socket holds even if it contains only pings (9,452 bytes), so that write(2) to a hung machine
does not block.
"""
EMULATED_STARTS = 3
"""Maximum number of attempts to start with TCG if a race in QEMU ends them (is_emulation_race)."""
_KVM = Path("/dev/kvm")
_PACKAGES = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}
# "max" is the best interrupt controller available. The default of virt supports only eight processors, and some hosts'
# KVM lacks it.
_BOARDS = {"x86_64": "pc", "aarch64": "virt,gic-version=max"}
# All features that QEMU emulates. On arm64, pointers are signed by a faster algorithm (cpu-features in QEMU's manual).
_EMULATED = {"x86_64": "max", "aarch64": "max,pauth-impdef=on"}
_CONSOLES = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}
_IMAGE_PYTHON = "/usr/bin/python3"


class QemuKernel(EmbeddedKernel):
    """A started QEMU and its supervisor. ``release`` leaves nothing behind."""

    def waited_seconds(self) -> float | None:
        """Return the time as in the base class, summed over QEMU's threads."""
        group = kernel_group(self._instance.folder)
        threads = self._files.path(f"/proc/{group}/task").glob("*") if group else ()
        fields = [(self._files.read(f"/proc/{group}/task/{each.name}/schedstat") or "").split() for each in threads]
        return sum(int(each[1]) for each in fields if len(each) > 1) / 1e9 if fields else None


class Silence:
    """Limits how long a machine may stay silent, not counting the time that it waits for a processor."""

    def __init__(self, waited_seconds: Callable[[], float | None]) -> None:
        self._waited_seconds = waited_seconds
        self._waited_before = 0.0

    def on_silence(self, seconds: int, _verbs: Collection[str]) -> LabError | None:
        """Return MachineLost once the silence is too long.

        This is called once a second with the length of the silence.
        """
        waited = self._waited_seconds() or 0.0
        if seconds == 1:
            self._waited_before = waited
        if counted_seconds(seconds, waited - self._waited_before) < SILENT_SECONDS:
            return None
        return MachineLost(
            f"the machine has not answered for {seconds} s",
            hint=f"{RUN_AGAIN}; arrays are in the same state as after a power failure",
        )


def accelerators(target: Target, files: HostFiles) -> list[str]:
    """Return the accelerators to try, with KVM only if it is allowed and not known to fail.

    Raises SpecError or ToolMissing.
    """
    root, chosen = target.options.get("root"), target.options.get("accel")
    is_own = not root or find_root_image(root).facts.architecture == platform.machine()
    if chosen == "kvm" and not is_own:
        raise SpecError("KVM supports only this computer's own architecture", hint="leave out accel=kvm")
    if chosen:
        return [chosen]
    has_kvm = (
        is_own and os.access(_KVM, os.R_OK | os.W_OK) and (files.read(str(_failure_note())) or "") != _boot_id(files)
    )
    return list(ACCELERATORS if has_kvm else ACCELERATORS[1:])


def note_failure(files: HostFiles) -> None:
    """Remember until the next boot that a machine did not start with KVM, because its device may exist but not work."""
    _failure_note().parent.mkdir(parents=True, exist_ok=True)
    replace_file(_failure_note(), _boot_id(files).encode(), is_durable=False)


def is_emulation_race(error: MachineLost) -> bool:
    """Whether QEMU caused a crash because an emulated processor executed a breakpoint that another had just removed.

    The kernel patches its code with such breakpoints, above all while it starts. Few starts crash in this way. QEMU 8.1
    fixed this (commit deba78709ae8, "accel/tcg: Always lock pages before translation").
    """
    return "int3: 0000" in error.message


def _failure_note() -> Path:
    return kernel_cache().parent / "kvm-failed"


def _boot_id(files: HostFiles) -> str:
    return files.read("/proc/sys/kernel/random/boot_id") or ""


def can_start(processes: Processes, files: HostFiles) -> bool:
    """Whether QEMU, busybox and a kernel are available."""
    with suppress(ToolMissing):
        return bool(find_qemu(processes) and static_busybox(processes) and stock_kernels(files))
    return False


def startable_images(processes: Processes) -> list[RootImage]:
    """Return the root images for whose architecture QEMU is installed, with this computer's architecture first."""
    found = [image for image in root_images() if processes.find(f"qemu-system-{image.facts.architecture}")]
    return sorted(found, key=lambda image: image.facts.architecture != platform.machine())


def find_qemu(processes: Processes, architecture: str = "") -> str:
    """Return the QEMU program for an architecture (uname(2)), by default this computer's. Raises ToolMissing."""
    architecture = architecture or platform.machine()
    if found := processes.find(f"qemu-system-{architecture}"):
        return found
    package = _PACKAGES.get(architecture, "qemu-system")
    raise ToolMissing(f"qemu-system-{architecture} is not installed", hint=f"apt install {package}")


@dataclass(frozen=True, slots=True)
class Boot:
    """A kernel and its root file system, which may be this computer's files or a root image."""

    architecture: str
    """The architecture as in uname(2)."""
    kernel: Path
    initramfs: Path
    parameters: str
    """The kernel's parameters, in addition to those of every machine."""
    devices: tuple[str, ...]
    """QEMU's arguments for the root file system."""
    readable: tuple[str, ...]
    """Files that QEMU reads in addition to the system's files."""
    listable: tuple[str, ...] = ()
    """Folders whose contents QEMU may list."""


def boot_on_image(image: RootImage, initramfs: Path) -> Boot:
    """Return a Boot for a root image's kernel. Init and the agent are in the initramfs."""
    drive = f"if=none,id=root,file={image.system},format=raw,readonly=on,file.locking=off"
    return Boot(
        image.facts.architecture,
        image.kernel,
        initramfs,
        f"{INIT_VARIABLE}={AGENT_FOLDER}/init RAIDLAB_MODULES=/usr/lib/modules/{image.facts.release}",
        ("-drive", drive, "-device", "virtio-blk-pci,drive=root,serial=ROOT"),
        (str(image.kernel), str(image.system), str(initramfs)),
    )


def qemu_arguments(
    qemu: str, options: EmbeddedOptions, cpus: int, accelerator: str, boot: Boot, agent_fd: int
) -> list[str]:
    """Return QEMU's command line. ``agent_fd`` is the agent's socket.

    Sources: qemu(1); Documentation/admin-guide/kernel-parameters.txt; qemu-project.org, 9psetup.
    """
    mdadm = "".join(f" {word}" for word in mdadm_parameter(options))
    # no_timer_check: on a busy computer, the kernel's test of the emulated timer may fail and stop the boot.
    # cryptomgr.notests: the kernel's self-tests of its ciphers take an emulated processor half a second.
    parameters = (
        f"console={_CONSOLES[boot.architecture]} quiet no_timer_check cryptomgr.notests oops=panic panic=-1 "
        "md_mod.start_ro=1"
    )
    return [
        qemu,
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-machine", _BOARDS[boot.architecture]),
        *("-cpu", "host" if accelerator == "kvm" else _EMULATED[boot.architecture]),
        # By default, TCG runs each processor on its own thread, unless the computer orders memory accesses less
        # strictly than the emulated processor does.
        *("-accel", accelerator, "-smp", str(cpus), "-m", f"{options.memory_bytes // MIB}M"),
        *("-kernel", str(boot.kernel), "-initrd", str(boot.initramfs)),
        *("-append", f"{parameters} {boot.parameters}{mdadm}"),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent_fd}"),
        *("-device", "virtserialport,chardev=agent,name=raidlab"),
        *(word for number, disk in enumerate(options.disks) for word in _disk(number, disk.path, disk.serial)),
        *boot.devices,
    ]


def _disk(number: int, path: Path, serial: str) -> tuple[str, ...]:
    """Return QEMU's arguments for a disk. Discards make its image sparse. The lab locks the image, so QEMU does not."""
    drive = f"if=none,id=drive{number},file={path.absolute()},format=raw,cache=writeback,discard=unmap,file.locking=off"
    return ("-drive", drive, "-device", f"virtio-blk-pci,drive=drive{number},id=disk{number},serial={serial}")


def _boot(options: EmbeddedOptions, root: str, processes: Processes, python: str, folder: Path) -> Boot:
    """Find everything that a machine needs to boot, and put init and the agent into its folder."""
    if root:
        image = find_root_image(root)
        if options.shown or options.mdadm:
            raise SpecError(
                "a machine with a root image cannot see this computer's files", hint="use qemu: without root="
            )
        check_path(image.folder)
        write_initramfs(image, agent_files(AGENT_FOLDER, _IMAGE_PYTHON, ()), folder / "initramfs")
        return boot_on_image(image, folder / "initramfs")
    kernel = find_stock_kernel(options.kernel_path)
    initramfs = make_initramfs(kernel, processes)
    read = [str(kernel.modules), *shown_files(options)]
    check_path(kernel.image, kernel.modules)
    install_agent(folder, python, read)
    # QEMU opens the root directory that it exports. Without a namespace, it can therefore list names, but not read
    # files.
    return Boot(
        platform.machine(),
        kernel.image,
        initramfs,
        f"{NO_OWN_ROOT} {INIT_VARIABLE}={folder}/init RAIDLAB_MODULES={kernel.modules}",
        (
            *("-fsdev", "local,id=computer,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", "virtio-9p-pci,fsdev=computer,mount_tag=computer"),
        ),
        (*read, str(kernel.image), str(initramfs)),
        ("/",),
    )


def start_qemu(
    options: EmbeddedOptions,
    target: Target,
    accelerator: str,
    state: StateFolder,
    processes: Processes,
    files: HostFiles,
) -> tuple[QemuKernel, Channel]:
    """Boot a kernel and return it with its channel. Raises SpecError, ToolMissing or LabError."""
    python = guest_python(processes)
    check_path(state.root, *(disk.path for disk in options.disks), *filter(None, [options.mdadm]))
    with ExitStack() as undo, ExitStack() as handed_over:
        instance = state.new_instance()
        undo.callback(instance.discard)
        folder = instance.folder
        boot = _boot(options, target.options.get("root", ""), processes, python, folder)
        fast = fast_image(boot.kernel, processes)
        boot = replace(boot, kernel=fast, readable=(*boot.readable, str(fast)))
        logs = (folder / GUEST_FOLDER,) if options.keeps_logs else ()
        qemu = find_qemu(processes, boot.architecture)
        console = open_to_append(folder / CONSOLE_LOG, error=LabError)
        handed_over.callback(os.close, console)
        agent, agent_far = socket.socketpair()
        undo.callback(agent.close)
        handed_over.callback(agent_far.close)
        fds = (agent_far.fileno(), console)
        confinement = {
            **confined_paths(options, folder, boot.readable, writable=logs, layers=(NAMESPACE, LANDLOCK)),
            "devices": [str(_KVM)] if accelerator == "kvm" else [],
            "listable": boot.listable,
        }
        cpus = int(target.options.get("cpus", DEFAULT_CPUS))
        arguments = qemu_arguments(qemu, options, cpus, accelerator, boot, fds[0])
        if logs:
            # Modes, owners and links of the guest's files are only recorded, in files beside them. Otherwise QEMU would
            # change modes through /proc, which it cannot see.
            arguments += ["-fsdev", f"local,id=logs,path={logs[0]},security_model=mapped-file,multidevs=remap"]
            arguments += ["-device", f"virtio-9p-pci,fsdev=logs,mount_tag={LOGS_TAG}"]
        supervisor = processes.start(
            supervisor_argv(python, folder, fds, confinement, arguments),
            pass_fds=[*fds, instance.fd, *options.held_locks],
            stderr_fd=console,
            extra_env=spare_space_environment(),
        )
        started = QemuKernel(supervisor, instance, processes, files)
        undo.callback(started.release, has_left=False)
        on_silence = Silence(started.waited_seconds).on_silence
        answers = os.dup(agent.fileno())
        undo.callback(os.close, answers)
        channel = started.open_channel(answers, agent.fileno(), window_bytes=WINDOW_BYTES, on_silence=on_silence)
        undo.pop_all()
        agent.detach()
    return started, channel
