"""The embedded kernel: User Mode Linux as an ordinary process, with the computer's own files as its read-only root."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import signal
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import RUN_AGAIN, LabError, MachineLost, SpecError
from lab.gates.text import shortened
from lab.host.files import HostFiles
from lab.host.processes import Processes, RunningProcess
from lab.machine.channel import Channel
from lab.machine.kernel_image import KernelImage, find_kernel, guest_python, wide_registers
from lab.machine.stand_still import Vigil
from lab.machine.state_folder import (
    KERNEL_RECORD,
    FolderLock,
    StateFolder,
    kernel_group,
    kill_recorded_kernel,
    make_memory_folder,
    remove_instance,
)
from lab.units import MIB

MAX_UBD_DISKS = 16
DEFAULT_MEMORY_BYTES = 512 * MIB
START_TIMEOUT_SECONDS = 60.0
POWER_OFF_SECONDS = 5.0
SUPERVISOR_SECONDS = 10.0
CONSOLE_LOG = "console.log"
CONSOLE_LINES = 40
# tag_set.queue_depth in arch/um/drivers/ubd_kern.c.
UBD_REQUESTS = 64
# COMMAND_LINE_SIZE in arch/um/include/asm/setup.h.
COMMAND_LINE_BYTES = 4096
# make_uml_dir in arch/um/os-Linux/umid.c: its buffer of 512 takes a slash and a zero byte too. More of them crash it.
UML_DIR_BYTES = 510
LONGEST_INSTANCE = "1234567-12345678"
"""As long as the name of a running machine's folder can be: a process (pid_max in proc(5)), and eight digits."""
ANSWER_PIPE_BYTES = 1024 * 1024
VIRTUAL_START_NANOSECONDS = 1_767_225_600 * 10**9
"""The date at which a machine in virtual time starts, the same each time: 1 January 2026, UTC."""
_HERE = Path(__file__).resolve().parent
CONFINEMENT = _HERE / "confinement.py"
_WORDS_OF_TROUBLE = ("panic", "Oops", "BUG:", "RIP:", "not syncing")


@dataclass(frozen=True, slots=True)
class UbdDisk:
    """A file that the embedded kernel sees as a block device, ``/dev/ubda`` onwards in order."""

    path: Path
    serial: str


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """How to boot."""

    disks: tuple[UbdDisk, ...] = ()
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    virtual_time: bool = False
    seed: int = 0
    """In virtual time, of all that is random on the machine."""
    kernel_path: str = ""
    kept_locks: tuple[int, ...] = ()
    """Descriptors of locks that the kernel holds as long as it runs."""
    layers: tuple[str, ...] | None = None
    """Which layers are to confine it (lab/machine/confinement.py); None: all that the computer has."""


class EmbeddedKernel:
    """A kernel that was started, with its supervisor; ``release`` leaves nothing behind."""

    def __init__(
        self, supervisor: RunningProcess, instance: FolderLock, processes: Processes, files: HostFiles
    ) -> None:
        self._supervisor = supervisor
        self._instance = instance
        self._processes = processes
        self._files = files

    @property
    def console_log(self) -> Path:
        """What the kernel printed."""
        return self._instance.folder / CONSOLE_LOG

    def release(self, has_left: bool) -> None:
        """Kill what still runs and remove the instance's folder.

        A kernel whose agent ``has_left`` is powering off, which stops its arrays in good order; it gets time for that.
        """
        try:
            if has_left:
                self._wait_for_supervisor(POWER_OFF_SECONDS)
            for pipe in (self._supervisor.stdin, self._supervisor.stdout):
                if pipe is not None:
                    # Its standard input is the supervisor's lifeline: closing it tells it to end the kernel.
                    pipe.close()
            status = self._wait_for_supervisor(SUPERVISOR_SECONDS)
            if status is None:
                self._supervisor.kill()
                status = self._wait_for_supervisor(SUPERVISOR_SECONDS)
            if status is None or status < 0:
                # A supervisor that was killed has not cleaned up.
                kill_recorded_kernel(self._instance.folder, self._processes, self._files)
        finally:
            remove_instance(self._instance.folder)
            self._instance.close()

    def waited_seconds(self) -> float | None:
        """How long its process has been ready to run without a processor: the second number of its schedstat.

        Source: Documentation/scheduler/sched-stats.rst. None where this computer's kernel does not count it.
        """
        group = kernel_group(self._instance.folder)
        fields = (self._files.read(f"/proc/{group}/schedstat") or "").split() if group else []
        return int(fields[1]) / 1e9 if len(fields) > 1 else None

    def console_tail(self) -> str:
        """The last lines of its console, as far as they can be read."""
        try:
            lines = self.console_log.read_text("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-CONSOLE_LINES:])

    def explain_loss(self) -> LabError:
        """Why the kernel is gone, from its exit status and the last lines of its console."""
        status = self._wait_for_supervisor(3.0)
        kill_recorded_kernel(self._instance.folder, self._processes, self._files)
        return MachineLost(loss_message(status, self.console_log), hint=f"{RUN_AGAIN}: it cleans up and starts afresh")

    def _wait_for_supervisor(self, seconds: float) -> int | None:
        try:
            return self._supervisor.wait(timeout=seconds)
        except Exception:  # whatever is wrong with the supervisor, it has not ended
            return None


def loss_message(status: int | None, console: Path) -> str:
    """What is known of a kernel's end: its own words if it crashed, else how its process ended (None: it did not)."""
    try:
        lines = [line.strip() for line in console.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    trouble = [line for line in lines if any(word in line for word in _WORDS_OF_TROUBLE)]
    # The panic says most; an oops before it says where it came from.
    trouble.sort(key=lambda line: "Kernel panic" not in line)
    if trouble:
        return "the embedded kernel crashed: " + " / ".join(trouble[:3])
    # One that was killed had no time to say why.
    tail = f"; its last words: {lines[-1]}" if lines and (status is None or 0 <= status < 128) else ""
    return f"the embedded kernel {_how_it_ended(status)}{tail}"


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "no longer answers"
    if status < 0:
        return "was killed, its supervisor having been killed"
    if status == 256 - signal.SIGKILL:
        return "was killed"
    if status == 256 - signal.SIGBUS:
        return "found no room for its memory (SIGBUS): free some in /dev/shm, or give it less: 'uml:?mem=256M'"
    return f"ended with status {status}"


def most_requests(disks: int) -> int:
    """How many requests each of so many file disks may have under way, so that the driver turns none away.

    It hands those of all disks to its thread through one socket. When that is full, it promises to ask again as soon as
    a request of the same disk is done (BLK_STS_DEV_RESOURCE in ubd_queue_rq, arch/um/drivers/ubd_kern.c), also where
    none is under way: that disk then stands still for good. Six disks with 64 requests each bring a seventh to that
    within seconds (Linux 6.1). How many fit is for the computer to say (socket(7), wmem_default); a fifth is left free.
    """
    sender, receiver = socket.socketpair()
    room = 0
    with sender, receiver, suppress(BlockingIOError):
        sender.setblocking(False)
        # What the driver sends: a pointer.
        while sender.send(bytes(8)):
            room += 1
    return max(room * 4 // 5 // max(1, disks), 4)


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
        # No device, but a word for /proc/mounts: without it UML says root=98:0, and lsblk shows the first disk on "/".
        "root=/run/computer",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={folder}/init",
        f"uml_dir={folder}/uml",
        "umid=kernel",
        "con=null",
        f"con0=null,fd:{console_fd}",
        "ssl=null",
        "quiet",
        "oops=panic",
        "noreboot",
        # As mdadm's package has it (modprobe.d/mdadm.conf) where md is a module: an array that is started is left as it
        # is on its disks until somebody writes to it.
        "md_mod.start_ro=1",
    ]
    if options.virtual_time:
        arguments += [
            "time-travel=inf-cpu",
            f"time-travel-start={VIRTUAL_START_NANOSECONDS}",
            f"lab_seed={options.seed}",
        ]
        arguments.append(f"lab_client={channel_fds[0]},{channel_fds[1]}")
        arguments.append(f"RAIDLAB_QUICK_CLOCK={image.path.parent / 'quick_clock.so'}")
    else:
        arguments.append(f"ssl0=fd:{channel_fds[0]},fd:{channel_fds[1]}")
    if Path("/dev") in folder.resolve().parents:
        # The kernel's own /dev would hide its init (Documentation/admin-guide/kernel-parameters.txt); init mounts it.
        arguments.append("devtmpfs.mount=0")
    if image.modules:
        arguments.append(f"RAIDLAB_MODULES={image.modules}")
    if (most := most_requests(len(options.disks))) < UBD_REQUESTS:
        arguments.append(f"RAIDLAB_UBD_REQUESTS={most}")
    arguments += [f"ubd{number}={disk.path.absolute()},,{disk.serial}" for number, disk in enumerate(options.disks)]
    longest = UML_DIR_BYTES - len("/uml")
    if len(os.fsencode(folder)) > longest:
        raise SpecError(
            f"the embedded kernel cannot use a folder of more than {longest} bytes, such as '{shortened(str(folder))}'",
            hint="choose a shorter state folder: RAIDLAB_STATE=FOLDER",
        )
    if sum(len(os.fsencode(argument)) + 1 for argument in arguments) >= COMMAND_LINE_BYTES:
        raise SpecError(
            f"the command line of the embedded kernel is longer than {COMMAND_LINE_BYTES} bytes",
            hint="the paths of the disks are too long; choose a shorter state folder: RAIDLAB_STATE=FOLDER",
        )
    return arguments


def require_fitting_paths(root: Path, inner: Path, image: KernelImage, file_disks: int = 0) -> None:
    """Raises SpecError where no kernel could be started, for its paths alone, with the state folder ``root / inner``.

    ``root`` is what somebody chose.
    """
    _check_path(root, image.path)
    folder = root / inner / "machines" / LONGEST_INSTANCE
    disks = tuple(UbdDisk(folder / f"disk{number + 1:02d}.img", "RAIDLAB-00") for number in range(file_disks))
    kernel_arguments(EmbeddedOptions(disks=disks, virtual_time=True), image, folder, (100, 100), 100)


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
    preloaded = wide_registers(files)
    _check_path(state.root, image.path, *(disk.path for disk in options.disks))
    with ExitStack() as undo, ExitStack() as handed_over:
        instance = state.new_instance()
        undo.callback(instance.close)
        undo.callback(remove_instance, instance.folder)
        folder = instance.folder
        _install_agent(folder, python)
        console = os.open(folder / CONSOLE_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        handed_over.callback(os.close, console)
        (down_read, down_write), (up_read, up_write) = _pipe(handed_over, undo), _pipe(undo, handed_over)
        with suppress(OSError):
            fcntl.fcntl(up_write, fcntl.F_SETPIPE_SZ, ANSWER_PIPE_BYTES)
        arguments = kernel_arguments(options, image, folder, (down_read, up_write), console)
        kernel_fds = (down_read, up_write, console)
        memory = make_memory_folder(folder, options.memory_bytes)
        extra_env = {"TMPDIR": str(memory)}
        if preloaded:
            extra_env["LD_PRELOAD"] = str(preloaded)
        confinement = _confinement(options, folder, memory)
        supervisor = processes.start(
            [
                *(python, "-IS", str(_HERE / "supervisor.py"), str(folder / KERNEL_RECORD)),
                *(",".join(map(str, kernel_fds)), json.dumps(confinement), *arguments),
            ],
            pass_fds=[*kernel_fds, instance.fd, *options.kept_locks],
            stderr_fd=console,
            extra_env=extra_env,
        )
        kernel = EmbeddedKernel(supervisor, instance, processes, files)
        undo.callback(kernel.release, has_left=False)
        assert supervisor.stdout is not None
        life = os.dup(supervisor.stdout.fileno())
        undo.callback(os.close, life)
        vigil = Vigil(files, folder, kernel.console_log)
        # In virtual time silence means nothing, a question would be an event that another run does not have, and the
        # line is a pipe, of which the kernel takes a message as a whole.
        terms: dict[str, Any] = {"window_bytes": math.inf} if options.virtual_time else {"on_silence": vigil.on_silence}
        channel = Channel(up_read, down_write, kernel.explain_loss, life_fd=life, **terms)
        undo.pop_all()
    return kernel, channel


def _confinement(options: EmbeddedOptions, folder: Path, memory: Path) -> dict[str, object]:
    """All that the kernel may write: not its own record, by which processes are killed."""
    writable = [str(path) for path in (*(disk.path.absolute() for disk in options.disks), folder / "uml", memory)]
    return {"writable": writable} | ({} if options.layers is None else {"layers": options.layers})


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe whose two ends are closed by these stacks."""
    ends = os.pipe2(os.O_CLOEXEC)
    reading.callback(os.close, ends[0])
    writing.callback(os.close, ends[1])
    return ends


def _check_path(*paths: Path) -> None:
    for path in paths:
        if any(character in str(path) for character in " \t\n,:\"'"):
            raise SpecError(
                f"the embedded kernel cannot use the path '{path}'",
                hint="choose a folder without spaces, commas, colons and quotes; for all that the lab keeps: "
                "RAIDLAB_STATE=FOLDER",
            )


def _install_agent(folder: Path, python: str) -> None:
    for name in ("agent.py", "agent_virtual.py", "disk_rescue.py"):
        shutil.copy(_HERE / name, folder)
    source = (_HERE / "kernel_init.py").read_text(encoding="utf-8")
    init = folder / "init"
    init.write_text(f"#!{python} -IS\n" + source.partition("\n")[2], encoding="utf-8")
    init.chmod(0o700)
    (folder / "uml").mkdir()
