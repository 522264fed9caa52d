"""Start the embedded kernel (User Mode Linux) as an ordinary process, with the system's files as its read-only root."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import RUN_AGAIN, LabError, MachineLost, SpecError
from lab.gates.decoding import parse_bytes
from lab.gates.text import shortened, visible
from lab.host import signals
from lab.host.files import HostFiles, create_file, open_to_append
from lab.host.processes import Processes, RunningProcess
from lab.machine.channel import Channel
from lab.machine.confinement import LAYERS
from lab.machine.kernel_image import KernelImage, find_kernel, guest_python, wide_registers
from lab.machine.stand_still import Vigil
from lab.machine.state_folder import (
    CONSOLE_LOG,
    KERNEL_RECORD,
    FolderLock,
    StateFolder,
    kernel_group,
    kill_recorded_kernel,
    make_memory_folder,
    remove_instance,
)
from lab.machine.supervisor import NO_ROOM, NO_ROOM_STATUS, SPARE_VARIABLE
from lab.tomlfile import read_toml
from lab.units import MIB

MAX_UBD_DISKS = 16
DEFAULT_MEMORY_BYTES = 512 * MIB
START_TIMEOUT_SECONDS = 60.0
POWER_OFF_SECONDS = 5.0
SUPERVISOR_SECONDS = 10.0
LOSS_SECONDS = 3.0
CONSOLE_LINES = 40
GUEST_FOLDER = "uml"
"""The name of the folder, inside a running machine's folder, to which the guest may write."""
# tag_set.queue_depth in arch/um/drivers/ubd_kern.c.
UBD_REQUESTS = 64
# COMMAND_LINE_SIZE in arch/um/include/asm/setup.h.
COMMAND_LINE_BYTES = 4096
# make_uml_dir in arch/um/os-Linux/umid.c has 512 bytes for the path, a slash and a NUL. A longer path crashes UML.
UML_DIR_BYTES = 510
LONGEST_INSTANCE = "1234567-12345678"
"""The longest name of a running machine's folder, which is a process id (pid_max in proc(5)) and eight digits."""
ANSWER_PIPE_BYTES = 1024 * 1024
VIRTUAL_START_NANOSECONDS = 1_767_225_600 * 10**9
"""The fixed date at which every machine in virtual time starts: 1 January 2026, UTC."""
_HERE = Path(__file__).resolve().parent
CONFINEMENT = _HERE / "confinement.py"
VISIBLE_FILE = "visible.json"
"""The file in a running machine's folder that lists the paths that init makes visible if there is no namespace
(kernel_init.py)."""
_ENDINGS = {
    None: "no longer answers",
    256 - signal.SIGKILL: "was killed",
    256 - signal.SIGBUS: "ran out of space for its memory (SIGBUS)",
}
_WORDS_OF_TROUBLE = ("panic", "Oops", "int3:", "BUG:", "RIP:", "not syncing")
# userspace() in arch/um/os-Linux/skas/process.c ends a program that is stopped by a signal that userspace() does not
# handle, such as SIGCONT (18) and SIGSTOP (19). If that program is init, the kernel panics.
_STOPPED = re.compile(r"child stopped with signal (18|19)\b|failed to wait for SIGTRAP.*status = 0x1[23]7f")


class _Losses(msgspec.Struct, frozen=True):
    other_kernel: str
    otherwise: str
    stopped: str
    no_room: str
    consoles: dict[str, str]
    statuses: dict[str, str]


_LOSSES = read_toml(_HERE / "losses.toml", _Losses)


@dataclass(frozen=True, slots=True)
class UbdDisk:
    """A file that the embedded kernel sees as a block device. The first is ``/dev/ubda``, the next ``/dev/ubdb``."""

    path: Path
    serial: str


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """The boot options of an embedded kernel."""

    disks: tuple[UbdDisk, ...] = ()
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    virtual_time: bool = False
    seed: int = 0
    """The seed of all randomness on the machine in virtual time."""
    kernel_path: str = ""
    """The path of the kernel. For QEMU it may also be a release, or the beginning of one."""
    held_locks: tuple[int, ...] = ()
    """Descriptors of locks that the kernel holds as long as it runs."""
    layers: tuple[str, ...] | None = None
    """Layers that confine the kernel (lab/machine/confinement.py), or None for all that the host supports."""
    shown: tuple[Path, ...] = ()
    """Files and folders that the guest sees, in addition to the system's and the lab's. Each keeps its path."""
    mdadm: Path | None = None
    """The folder of an mdadm that replaces this computer's."""
    keeps_logs: bool = False
    """Whether the guest may write to GUEST_FOLDER, where a log survives a crash. User Mode Linux always may."""


class EmbeddedKernel:
    """A started kernel and its supervisor. ``release`` leaves nothing behind."""

    def __init__(
        self, supervisor: RunningProcess, instance: FolderLock, processes: Processes, files: HostFiles
    ) -> None:
        self._supervisor = supervisor
        self._instance = instance
        self._processes = processes
        self._files = files
        self.ask_to_leave: Callable[[], object] = lambda: None
        """A function that asks the agent to power off."""
        self._forget = signals.at_worst(self.end_now)

    def open_channel(self, read_fd: int, write_fd: int, **terms: Any) -> Channel:
        """Return the channel to the agent, which then owns the descriptors. ``terms`` are arguments of Channel."""
        assert self._supervisor.stdout is not None
        life_fd = os.dup(self._supervisor.stdout.fileno())
        with ExitStack() as undo:
            undo.callback(os.close, life_fd)
            channel = Channel(read_fd, write_fd, self.explain_loss, life_fd=life_fd, **terms)
            undo.pop_all()
        self.ask_to_leave = lambda: channel.request("exit")
        return channel

    def release(self, has_left: bool) -> None:
        """Kill the remaining processes and remove the instance's folder.

        If the agent ``has_left``, the kernel is powering off. It is given time for this, because it stops the arrays
        cleanly.
        """
        try:
            if has_left:
                self._wait_for_supervisor(POWER_OFF_SECONDS)
            for pipe in (self._supervisor.stdin, self._supervisor.stdout):
                if pipe is not None:
                    # When its standard input is closed, the supervisor ends the kernel.
                    pipe.close()
            status = self._wait_for_supervisor(SUPERVISOR_SECONDS)
            if status is None:
                self._supervisor.kill()
                status = self._wait_for_supervisor(SUPERVISOR_SECONDS)
            if status is None or status < 0:
                # A supervisor that was killed has not cleaned up.
                kill_recorded_kernel(self._instance.folder, self._processes, self._files)
        finally:
            self._forget()
            self._instance.discard()

    def end_now(self, seconds: float) -> None:
        """Clean up within about ``seconds``, regardless of other threads.

        The kernel gets half of the time to power off by itself, which marks its arrays as clean.
        """
        # The request is sent on a thread, because it blocks if the line is full.
        threading.Thread(target=self.ask_to_leave, daemon=True).start()
        if self._wait_for_supervisor(seconds / 2) is None:
            if self._supervisor.stdin is not None:
                # Closing the supervisor's standard input kills the kernel with all its descendants.
                self._supervisor.stdin.close()
            if self._wait_for_supervisor(seconds) is None:
                group = kernel_group(self._instance.folder)
                self._supervisor.kill()
                if group:
                    self._processes.kill_group(group)
        remove_instance(self._instance.folder)

    def waited_seconds(self) -> float | None:
        """Return how long the kernel's process was runnable but had no processor (sched-stats.rst), or None."""
        group = kernel_group(self._instance.folder)
        fields = (self._files.read(f"/proc/{group}/schedstat") or "").split() if group else []
        return int(fields[1]) / 1e9 if len(fields) > 1 else None

    def console(self) -> str:
        """Return the text of the kernel's console, or nothing if the log cannot be read."""
        with suppress(OSError):
            return (self._instance.folder / CONSOLE_LOG).read_text("utf-8", "replace")
        return ""

    def console_tail(self) -> str:
        return "\n".join(self.console().splitlines()[-CONSOLE_LINES:])

    def explain_loss(self) -> LabError:
        """Explain why the kernel is gone, from its exit status and the last lines of its console."""
        status = self._wait_for_supervisor(LOSS_SECONDS)
        kill_recorded_kernel(self._instance.folder, self._processes, self._files)
        message, hint = cause_of_loss(status, self.console())
        return MachineLost(message, hint=hint)

    def _wait_for_supervisor(self, seconds: float) -> int | None:
        try:
            return self._supervisor.wait(timeout=seconds)
        except Exception:  # on any error the supervisor counts as still running
            return None


def cause_of_loss(status: int | None, console: str) -> tuple[str, str]:
    """Return why a kernel ended, or that it does not answer if ``status`` is None, and a hint."""
    lines = [visible(line.strip()) for line in console.splitlines() if line.strip()]
    text = "\n".join(lines)
    hints = [hint for pattern, hint in _LOSSES.consoles.items() if re.search(pattern, text)]
    hint = [*hints, _LOSSES.statuses.get(str(status), _LOSSES.otherwise)][0]
    trouble = [line for line in lines if any(word in line for word in _WORDS_OF_TROUBLE)]
    # The panic is the most informative message, and an oops before it shows the origin.
    trouble.sort(key=lambda line: "Kernel panic" not in line)
    # A killed kernel had no time to print the reason.
    tail = f"; its last message was: {lines[-1]}" if lines and (status is None or 0 <= status < 128) else ""
    message = f"the embedded kernel {_ENDINGS.get(status, f'exited with status {status}')}{tail}"
    if status is not None and status < 0:
        message = "the embedded kernel was killed because its supervisor was killed"
    if trouble:
        message = "the embedded kernel crashed: " + " / ".join(trouble[:3])
    if _STOPPED.search(text):
        words = "was stopped together with its programs by something else (SIGSTOP), and could not continue"
        message, hint = f"the embedded kernel {words}", _LOSSES.stopped
    elif status == NO_ROOM_STATUS:
        room = next((line for line in reversed(lines) if line.startswith(NO_ROOM)), NO_ROOM)
        message, hint = f"{room}: the embedded kernel was stopped before a write to them could fail", _LOSSES.no_room
    return message, hint.format(again=RUN_AGAIN, other_kernel=_LOSSES.other_kernel)


def most_requests(disks: int) -> int:
    """Return the number of requests that each file disk may have in flight, so that the driver rejects none.

    The driver passes the requests of all disks to its thread through one socket. When the socket is full, the driver
    promises to retry once a request of the same disk completes (BLK_STS_DEV_RESOURCE in ubd_queue_rq,
    arch/um/drivers/ubd_kern.c). If no request of that disk is in flight, the disk hangs for good. Six disks with 64
    requests each make a seventh disk hang within seconds (Linux 6.1). The socket's capacity depends on the host
    (socket(7), wmem_default). A fifth of the capacity is left free.
    """
    sender, receiver = socket.socketpair()
    room = 0
    with sender, receiver, suppress(BlockingIOError):
        sender.setblocking(False)
        # The driver sends one pointer for each request.
        while sender.send(bytes(8)):
            room += 1
    return max(room * 4 // 5 // max(1, disks), 4)


def kernel_arguments(
    options: EmbeddedOptions, image: KernelImage, folder: Path, channel_fds: tuple[int, int], console_fd: int
) -> list[str]:
    """Return the kernel's command line.

    ``ro`` keeps the guest, whose root user has the rights of the calling user, from changing the host's files.
    Sources: linux.uml(1); Documentation/virt/uml/user_mode_linux_howto_v2.rst.
    """
    arguments = [
        str(image.path),
        f"mem={options.memory_bytes // MIB}M",
        # This is only a name for /proc/mounts. Otherwise UML reports root=98:0, and lsblk shows the first disk on "/".
        "root=/run/computer",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={folder}/init",
        f"uml_dir={folder}/{GUEST_FOLDER}",
        "umid=kernel",
        "con=null",
        f"con0=null,fd:{console_fd}",
        "ssl=null",
        "quiet",
        "oops=panic",
        "noreboot",
        # mdadm's package sets this where md is a module (modprobe.d/mdadm.conf). A started array then stays unchanged
        # on its disks until the first write.
        "md_mod.start_ro=1",
    ]
    if options.virtual_time:
        arguments += [
            "time-travel=inf-cpu",
            f"time-travel-start={VIRTUAL_START_NANOSECONDS}",
            f"lab_seed={options.seed}",
            f"lab_client={channel_fds[0]},{channel_fds[1]}",
            f"RAIDLAB_QUICK_CLOCK={image.path.parent / 'quick_clock.so'}",
        ]
    else:
        arguments.append(f"ssl0=fd:{channel_fds[0]},fd:{channel_fds[1]}")
    if Path("/dev") in folder.resolve().parents:
        # The kernel's own /dev would hide init (Documentation/admin-guide/kernel-parameters.txt), so init mounts /dev.
        arguments.append("devtmpfs.mount=0")
    if image.modules:
        arguments.append(f"RAIDLAB_MODULES={image.modules}")
    arguments += mdadm_parameter(options)
    if (most := most_requests(len(options.disks))) < UBD_REQUESTS:
        arguments.append(f"RAIDLAB_UBD_REQUESTS={most}")
    arguments += [f"ubd{number}={disk.path.absolute()},,{disk.serial}" for number, disk in enumerate(options.disks)]
    longest = UML_DIR_BYTES - len(f"/{GUEST_FOLDER}")
    if len(os.fsencode(folder)) > longest:
        raise SpecError(
            f"the embedded kernel cannot use a path of more than {longest} bytes, such as '{shortened(str(folder))}'",
            hint="choose a shorter state folder: RAIDLAB_STATE=FOLDER",
        )
    if sum(len(os.fsencode(argument)) + 1 for argument in arguments) >= COMMAND_LINE_BYTES:
        raise SpecError(
            f"the command line of the embedded kernel is longer than {COMMAND_LINE_BYTES} bytes",
            hint="the paths of the disks are too long; choose a shorter state folder: RAIDLAB_STATE=FOLDER",
        )
    return arguments


def mdadm_parameter(options: EmbeddedOptions) -> list[str]:
    """Return the kernel parameter that makes init replace this computer's mdadm with another one."""
    return [f"RAIDLAB_MDADM={options.mdadm}"] if options.mdadm else []


def require_fitting_paths(root: Path, inner: Path, image: KernelImage, file_disks: int = 0) -> None:
    """Raise SpecError if paths are too long for a kernel whose state folder is ``inner`` below ``root``."""
    check_path(root, image.path)
    folder = root / inner / "machines" / LONGEST_INSTANCE
    disks = tuple(UbdDisk(folder / f"disk{number + 1:02d}.img", "RAIDLAB-00") for number in range(file_disks))
    kernel_arguments(EmbeddedOptions(disks=disks, virtual_time=True), image, folder, (100, 100), 100)


def start_embedded(
    options: EmbeddedOptions, state: StateFolder, processes: Processes, files: HostFiles
) -> tuple[EmbeddedKernel, Channel]:
    """Boot a kernel and return it with its channel. Raises SpecError if there are too many disks, or LabError."""
    if len(options.disks) > MAX_UBD_DISKS:
        raise SpecError(
            f"{len(options.disks)} file disks are too many; the embedded kernel supports at most {MAX_UBD_DISKS}",
            hint="create additional disks of another kind: spindle, loop or ram",
        )
    image = find_kernel(processes, files, virtual_time=options.virtual_time, chosen=options.kernel_path)
    python = guest_python(processes)
    preloaded = wide_registers(files)
    # In virtual time, libraries for fio are beside the kernel.
    own = [image.path.parent if options.virtual_time else image.path, image.modules]
    used = [*(str(path.absolute()) for path in own if path), *shown_files(options)]
    check_path(state.root, image.path, *(disk.path for disk in options.disks), *filter(None, [options.mdadm]))
    with ExitStack() as undo, ExitStack() as handed_over:
        instance = state.new_instance()
        undo.callback(instance.discard)
        folder = instance.folder
        install_agent(folder, python, used)
        console = open_to_append(folder / CONSOLE_LOG, error=LabError)
        handed_over.callback(os.close, console)
        (down_read, down_write), (up_read, up_write) = _pipe(handed_over, undo), _pipe(undo, handed_over)
        with suppress(OSError):
            fcntl.fcntl(up_write, fcntl.F_SETPIPE_SZ, ANSWER_PIPE_BYTES)
        arguments = kernel_arguments(options, image, folder, (down_read, up_write), console)
        kernel_fds = (down_read, up_write, console)
        memory = make_memory_folder(folder, options.memory_bytes)
        extra_env = {"TMPDIR": str(memory), **spare_space_environment()}
        if preloaded:
            extra_env["LD_PRELOAD"] = str(preloaded)
            used.append(str(preloaded))
        confinement = confined_paths(options, folder, used, writable=(folder / GUEST_FOLDER, memory))
        supervisor = processes.start(
            supervisor_argv(python, folder, kernel_fds, confinement, arguments),
            pass_fds=[*kernel_fds, instance.fd, *options.held_locks],
            stderr_fd=console,
            extra_env=extra_env,
        )
        kernel = EmbeddedKernel(supervisor, instance, processes, files)
        undo.callback(kernel.release, has_left=False)
        vigil = Vigil(files, folder)
        # In virtual time, silence means nothing, and a ping would be an event that does not occur in other runs. The
        # line is a pipe, from which the kernel reads whole messages.
        terms: dict[str, Any] = {"window_bytes": math.inf} if options.virtual_time else {"on_silence": vigil.on_silence}
        channel = kernel.open_channel(up_read, down_write, **terms)
        undo.pop_all()
    return kernel, channel


def spare_space_environment() -> dict[str, str]:
    """Return the environment variable that sets how much of the host's disk to leave free, if the user has set it."""
    setting = os.environ.get(SPARE_VARIABLE)
    return {SPARE_VARIABLE: str(parse_bytes(setting, what=SPARE_VARIABLE))} if setting else {}


def shown_files(options: EmbeddedOptions) -> list[str]:
    """Return the paths of ``options.shown``. Raises SpecError if a path cannot be shown."""
    shown = [*options.shown, *filter(None, [options.mdadm])]
    for path in shown:
        if not os.access(path, os.F_OK):
            raise SpecError(f"'{path}' does not exist", hint="give an existing path")
        if path.resolve() == Path("/"):
            raise SpecError("'/' cannot be shown to the machine", hint="give the path of one file or folder")
        if not os.access(path, os.R_OK):
            raise SpecError(f"'{path}' cannot be read", hint="give the path of a file or folder that you may read")
    return [str(path.absolute()) for path in shown]


def confined_paths(
    options: EmbeddedOptions,
    folder: Path,
    readable: Sequence[str],
    *,
    writable: Sequence[Path] = (),
    layers: Sequence[str] = LAYERS,
) -> dict[str, Sequence[str]]:
    """Return the arguments of confine(): the paths that the kernel may write, and those that it may only read."""
    paths = [str(path) for path in (*(disk.path.absolute() for disk in options.disks), *writable)]
    applied = layers if options.layers is None else [layer for layer in layers if layer in options.layers]
    return {"writable": paths, "readable": [*readable, str(folder)], "layers": list(applied)}


def supervisor_argv(
    python: str, folder: Path, held_fds: Sequence[int], confinement: Mapping[str, Sequence[str]], kernel: Sequence[str]
) -> list[str]:
    """Return the command line of supervisor.py for a kernel's command line."""
    start = [python, "-IS", str(_HERE / "supervisor.py"), str(folder / KERNEL_RECORD)]
    return [*start, ",".join(map(str, held_fds)), json.dumps(confinement), *kernel]


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Create a pipe. Each exit stack closes one of its ends."""
    ends = os.pipe2(os.O_CLOEXEC)
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends


def check_path(*paths: Path) -> None:
    """Raise SpecError if a path contains a character that ends a word on a machine's command line."""
    for path in paths:
        if any(character in str(path) for character in " \t\n,:\"'"):
            raise SpecError(
                f"the embedded kernel cannot use the path '{path}'",
                hint="choose a folder without spaces, commas, colons or quotes; RAIDLAB_STATE=FOLDER moves everything "
                "that the lab stores",
            )


def install_agent(folder: Path, python: str, used: Sequence[str]) -> None:
    """Put init, the agent and the list of visible files (``used``) into the running machine's folder."""
    for name, (content, mode) in agent_files(folder, python, used).items():
        create_file(folder / name, content, is_durable=False, mode=mode)
    (folder / GUEST_FOLDER).mkdir()


def agent_files(folder: str | Path, python: str, used: Sequence[str]) -> dict[str, tuple[bytes, int]]:
    """Map the files to put into ``folder`` (init, the agent, the list of visible files) to their content and mode."""
    files = {
        name: ((_HERE / name).read_bytes(), 0o600)
        for name in ("agent.py", "agent_virtual.py", "confinement.py", "disk_rescue.py")
    }
    source = (_HERE / "kernel_init.py").read_text(encoding="utf-8")
    files["init"] = f"#!{python} -IS\n{source.partition(chr(10))[2]}".encode(), 0o700
    files[VISIBLE_FILE] = json.dumps({"readable": [*used, str(folder)], "kept": [*used]}).encode(), 0o600
    return files
