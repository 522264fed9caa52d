"""The embedded kernel: User Mode Linux as an ordinary process, with the computer's own files as its read-only root."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from lab.errors import LabError, MachineLost, SpecError, ToolMissing
from lab.machine.channel import Channel
from lab.machine.state_folder import KERNEL_RECORD, FolderLock, StateFolder
from lab.seams.files import HostFiles
from lab.seams.processes import Processes, RunningProcess
from lab.units import MIB, human_bytes

MAX_UBD_DISKS = 16
DEFAULT_MEMORY_BYTES = 512 * MIB
START_TIMEOUT_SECONDS = 60.0
CONSOLE_LOG = "console.log"
ANSWER_PIPE_BYTES = 1024 * 1024
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class UbdDisk:
    """A file that the embedded kernel sees as a block device, ``/dev/ubda`` onwards in order."""

    path: Path
    serial: str


@dataclass(frozen=True, slots=True)
class KernelImage:
    """A kernel that can be started. ``modules`` is its folder of drivers, None where all are built in."""

    path: Path
    modules: Path | None


def kernel_cache() -> Path:
    """Where provision/kernel/build-uml.sh leaves the kernels that it builds."""
    return platformdirs.user_cache_path("raidlab") / "kernels"


def find_kernel(processes: Processes, files: HostFiles, *, virtual_time: bool = False, chosen: str = "") -> KernelImage:
    """The kernel for a target. Raises ToolMissing with the command that brings it."""
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise ToolMissing(f"the embedded kernel {chosen} cannot be executed", hint="give the path of a linux.uml")
        return KernelImage(Path(chosen), None)
    flavour = "virtual-time" if virtual_time else "standard"
    packaged = None if virtual_time else processes.find("linux.uml")
    if packaged:
        return KernelImage(Path(packaged), None)
    built = kernel_cache() / flavour
    if os.access(built / "linux", os.X_OK):
        modules = built / "modules"
        return KernelImage(built / "linux", modules if modules.is_dir() else None)
    is_packaged = not virtual_time and "ID=debian" in (files.read("/etc/os-release") or "")
    mend = "apt install user-mode-linux" if is_packaged else f"provision/kernel/build-uml.sh {flavour}"
    kind = "with virtual time " if virtual_time else ""
    raise ToolMissing(f"the embedded kernel {kind}is not installed", hint=f"{mend}, or choose another machine with --on")


def guest_python(processes: Processes) -> str:
    """The interpreter for the agent: the system's own, since a version manager's may lie in a private folder."""
    for candidate in ("/usr/bin/python3", processes.find("python3")):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise ToolMissing("python3 is not installed", hint="apt install python3")


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """How to boot."""

    disks: tuple[UbdDisk, ...] = ()
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    virtual_time: bool = False
    kernel_path: str = ""
    kept_locks: tuple[int, ...] = ()
    """Descriptors of locks that the kernel holds as long as it runs."""


class EmbeddedKernel:
    """A kernel that was started, with its warden; ``release`` leaves nothing behind."""

    def __init__(self, warden: RunningProcess, instance: FolderLock) -> None:
        self._warden = warden
        self._instance = instance

    @property
    def console_log(self) -> Path:
        """What the kernel printed."""
        return self._instance.folder / CONSOLE_LOG

    def release(self) -> None:
        """Kill what still runs and remove the instance's folder."""
        for pipe in (self._warden.stdin, self._warden.stdout):
            if pipe is not None:
                # Its standard input is the warden's lifeline: closing it tells the warden to end the kernel.
                pipe.close()
        self._warden.wait(timeout=10)
        shutil.rmtree(self._instance.folder, ignore_errors=True)
        self._instance.release()

    def explain_loss(self) -> LabError:
        """Why the kernel is gone, from its exit status and the last lines of its console."""
        try:
            status = self._warden.wait(timeout=3)
        except Exception:  # noqa: BLE001 - whatever went wrong with the warden, the loss itself is the news
            status = None
        return MachineLost(_loss_message(status, self.console_log), hint="run the command again: it cleans up and starts afresh")


def _loss_message(status: int | None, console: Path) -> str:
    try:
        lines = [line for line in console.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    trouble = [line for line in lines if any(word in line for word in ("panic", "Oops", "BUG:", "RIP:", "not syncing"))]
    if trouble:
        return "the embedded kernel crashed: " + " / ".join(line.strip() for line in trouble[:3])
    killed = status is not None and status == 256 - signal.SIGKILL
    how = "was killed" if killed else "ended" if status is None else f"ended with status {status}"
    tail = f"; its last words: {lines[-1].strip()}" if lines else ""
    return f"the embedded kernel {how}{tail}"


def kernel_arguments(
    options: EmbeddedOptions, image: KernelImage, folder: Path, channel_fds: tuple[int, int], console_fd: int
) -> list[str]:
    """The kernel's command line.

    ``ro`` keeps the guest, whose root user has the starter's rights on the host's files, from changing any of them.
    Sources: linux.uml(1); Documentation/virt/uml/user_mode_linux_howto_v2.rst.
    """
    arguments = [
        str(image.path),
        f"mem={options.memory_bytes // MIB}M",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={folder}/agent",
        f"uml_dir={folder}/uml",
        "umid=kernel",
        "con=null",
        f"con0=null,fd:{console_fd}",
        f"ssl0=fd:{channel_fds[0]},fd:{channel_fds[1]}",
        "ssl=null",
        "quiet",
        "oops=panic",
        "noreboot",
    ]
    if options.virtual_time:
        arguments.append("time-travel=inf-cpu")
    if image.modules:
        arguments.append(f"RAIDLAB_MODULES={image.modules}")
    arguments += [f"ubd{number}={disk.path},,{disk.serial}" for number, disk in enumerate(options.disks)]
    return arguments


def start_embedded(
    options: EmbeddedOptions, state: StateFolder, processes: Processes, files: HostFiles
) -> tuple[EmbeddedKernel, Channel]:
    """Boot a kernel and return it with its channel (the agent has not greeted yet).

    Raises ToolMissing without a kernel, SpecError for more disks than it takes, LabError for an unusable state folder.
    """
    if len(options.disks) > MAX_UBD_DISKS:
        raise SpecError(
            f"{len(options.disks)} file disks; the embedded kernel takes {MAX_UBD_DISKS}",
            hint="make further disks of another kind: spindle, loop or ram",
        )
    image = find_kernel(processes, files, virtual_time=options.virtual_time, chosen=options.kernel_path)
    python = guest_python(processes)
    with ExitStack() as undo:
        instance = state.new_instance()
        undo.callback(instance.release)
        undo.callback(shutil.rmtree, instance.folder, ignore_errors=True)
        folder = instance.folder
        _check_path(folder, *(disk.path for disk in options.disks))
        _install_agent(folder, python)
        console = os.open(folder / CONSOLE_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        undo_console = ExitStack()
        undo_console.callback(os.close, console)
        with undo_console:
            down_read, down_write = os.pipe2(os.O_CLOEXEC)
            up_read, up_write = os.pipe2(os.O_CLOEXEC)
            fcntl.fcntl(up_write, fcntl.F_SETPIPE_SZ, ANSWER_PIPE_BYTES)
            undo_console.callback(os.close, down_read)
            undo_console.callback(os.close, up_write)
            kernel_fds = (down_read, up_write, console)
            arguments = kernel_arguments(options, image, folder, (down_read, up_write), console)
            warden = _start_warden(
                processes, python, folder, kernel_fds, arguments, (instance.fd, *options.kept_locks), options.memory_bytes
            )
        kernel = EmbeddedKernel(warden, instance)
        channel = Channel(up_read, down_write, kernel.explain_loss)
        undo.pop_all()
    return kernel, channel


def _check_path(*paths: Path) -> None:
    for path in paths:
        if any(character in str(path) for character in " \t\n,:"):
            raise SpecError(
                f"the embedded kernel cannot use the path '{path}'",
                hint="choose a state folder without spaces, commas and colons: RAIDLAB_STATE=FOLDER",
            )


def _install_agent(folder: Path, python: str) -> None:
    source = (_HERE / "agent.py").read_text(encoding="utf-8")
    agent = folder / "agent"
    agent.write_text(f"#!{python} -IS\n" + source.partition("\n")[2], encoding="utf-8")
    agent.chmod(0o700)
    (folder / "uml").mkdir()


def _start_warden(
    processes: Processes,
    python: str,
    folder: Path,
    kernel_fds: Sequence[int],
    arguments: Sequence[str],
    locks: Sequence[int],
    memory_bytes: int,
) -> RunningProcess:
    listed = ",".join(map(str, kernel_fds))
    return processes.start(
        [python, "-IS", str(_HERE / "warden.py"), str(folder / KERNEL_RECORD), listed, *arguments],
        pass_fds=[*kernel_fds, *locks],
        stderr_fd=kernel_fds[2],
        extra_env={"TMPDIR": str(_memory_folder(folder, memory_bytes))},
    )


def _memory_folder(folder: Path, memory_bytes: int) -> Path:
    """Guest memory is a mapped file: on the shared-memory file system if that is large enough, else in the state folder."""
    for candidate in (Path("/dev/shm"), folder):
        try:
            room = os.statvfs(candidate)
        except OSError:
            continue
        if room.f_bavail * room.f_frsize >= memory_bytes:
            return candidate
    raise LabError(
        f"no room for {human_bytes(memory_bytes)} of guest memory in /dev/shm or {folder}",
        hint="free some, or give the kernel less with --on 'uml:?mem=256M'",
    )
