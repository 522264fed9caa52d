#!/usr/bin/python3 -IS
"""The supervisor starts one embedded kernel, and ensures that the kernel ends when its client does.

This file stands alone and runs as a separate process between client and kernel, because only a process that outlives a
client killed by SIGKILL can clean up after it. When the other end of standard input closes, the supervisor kills the
kernel's whole process group. Killing only the main process would leave User Mode Linux's helpers and guest processes
running.

    supervisor.py RECORD_FILE KEPT_FD[,KEPT_FD...] CONFINEMENT KERNEL ARG...

RECORD_FILE receives the kernel's process group, so that a later client can recognise the leftovers of a killed
supervisor, and the layers that confine the kernel. CONFINEMENT contains the arguments of confine() in confinement.py,
as JSON. Without a namespace, the kernel gets the parameter OWN_ROOT, so that its init creates the root directory that
the namespace would have provided. KERNEL is User Mode Linux, or QEMU (lab/machine/qemu.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from lab.machine.confinement import LAYERS, NAMESPACE, HalfConfined, confine
else:
    # In isolated mode, Python does not search a script's own folder.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from confinement import LAYERS, NAMESPACE, HalfConfined, confine

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# sys/personality.h
ADDR_NO_RANDOMIZE = 0x0040000
KICK_SECONDS = 0.2
MOST_KERNELS_A_PROCESSOR = 64
# Free space on the host's disk. Below the first limit, the space is checked often. Below the second, a kernel that
# takes more space is paused.
LITTLE_BYTES, SPARE_BYTES = 1 << 30, 64 << 20
SPARE_VARIABLE = "RAIDLAB_KEEP_FREE"
"""Environment variable with the number of bytes to leave free instead of SPARE_BYTES."""
MOST_TAKEN_BYTES = 1 << 20
TIGHT_SECONDS = 0.01
MOST_PAUSED_SECONDS = 5.0
"""This is less than the client waits for a hung kernel (stand_still.py)."""
NO_ROOM = "no space for the lab's disks on this computer"
NO_ROOM_STATUS = 97
PROCESSOR_NAME = "raidlab-processor"
HALF_CONFINED = b"without namespace"
OWN_ROOT = "RAIDLAB_OWN_ROOT=1"
NO_OWN_ROOT = "RAIDLAB_OWN_ROOT=0"
"""Used in QEMU's arguments, one of which holds all of its kernel's parameters."""


def start_kernel(
    argv: list[str], held_fds: Sequence[int], confinement: Mapping[str, Sequence[str]], processor: int | None
) -> tuple[int, int, list[str]]:
    """Fork the kernel into a new process group, confined and on one processor. It dies with the supervisor.

    Returns the child to wait for, the kernel's process (without a namespace, the same process), and the layers that
    confine it.
    """
    (report_read, report_write), (go_read, go_write) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(report_read)
        os.close(go_write)
        become_kernel(argv, held_fds, confinement, processor, go_read, report_write)
    os.close(report_write)
    os.close(go_read)
    with open(report_read, "rb", buffering=0) as words, open(go_write, "wb", buffering=0) as go:
        answer = words.read(select.PIPE_BUF)
        if answer == HALF_CONFINED:
            os.waitpid(child, 0)
            rest = [layer for layer in confinement.get("layers", LAYERS) if layer != NAMESPACE]
            return start_kernel(argv, held_fds, {**confinement, "layers": rest}, processor)
        awaited, layers = json.loads(answer or f"[{child}, []]")
        if awaited != child:
            # Its parent ends immediately. This process, which is a subreaper, then becomes its parent.
            os.waitpid(child, 0)
        with contextlib.suppress(BrokenPipeError):
            go.write(b"\n")
        # This blocks until execve(2) closes the pipe.
        kernel = int(words.read() or awaited)
    return awaited, kernel, layers


def become_kernel(
    argv: list[str],
    held_fds: Sequence[int],
    confinement: Mapping[str, Sequence[str]],
    processor: int | None,
    go_read: int,
    report_write: int,
) -> NoReturn:
    """Report the process to wait for and the layers that confine it. After the go-ahead, report the kernel's process.

    If no namespace is available, report only that.
    """
    try:
        proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        layers = confine(**confinement)
        if NAMESPACE in layers and os.fork():
            os._exit(0)
        os.write(report_write, json.dumps([own_id(proc), layers]).encode())
        if not os.read(go_read, 1):
            os._exit(1)
        # This comes last, because a change of capabilities or of the parent clears the setting.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if NAMESPACE in layers:
            stay_as_init()
        else:
            argv = [*argv, OWN_ROOT] if is_user_mode(argv) else [each.replace(NO_OWN_ROOT, OWN_ROOT) for each in argv]
        os.setpgid(0, 0)
        # This fails if the supervisor has died.
        os.write(report_write, str(own_id(proc)).encode())
        for fd in held_fds:
            os.set_inheritable(fd, True)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Messages that the kernel prints before it has a console belong in the same log.
        os.dup2(2, 1)
        os.chdir("/")
        # A panic ends in abort(), and a core file would be as large as the guest's memory.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if processor is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {processor})
        if is_virtual_time(argv):
            # User Mode Linux adds the gap between its program and its heap, which is random, to the guest's memory.
            ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
        os.execv(argv[0], argv)
    except HalfConfined:
        os.write(report_write, HALF_CONFINED)
    except OSError as error:
        os.write(2, f"{error.filename or argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def is_virtual_time(argv: Sequence[str]) -> bool:
    """Whether the kernel runs in virtual time."""
    return any(word.startswith("time-travel") for word in argv)


def is_user_mode(argv: Sequence[str]) -> bool:
    """Whether the kernel is User Mode Linux rather than one that QEMU runs."""
    return "umid=kernel" in argv


def own_id(proc: int) -> int:
    """Return this process's id on the host, even within a PID namespace. ``proc`` is the host's open /proc."""
    return int(os.readlink("self", dir_fd=proc))


def stay_as_init() -> None:
    """Continue as a child, while this process remains as init and ends with the child.

    When the first process of a PID namespace ends, so do all others in it (pid_namespaces(7)). Otherwise guest programs
    that are no longer traced would continue as programs of the host. The kernel cannot be the first process, because
    that process receives no signals from within the namespace, whereas User Mode Linux ends after a panic by sending
    itself signals.
    """
    kernel = os.fork()
    if kernel == 0:
        return
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == kernel:
            os._exit(os.waitstatus_to_exitcode(status) % 256)


def own_processor() -> tuple[int | None, socket.socket | None]:
    """Return the processor for a kernel and its child processes, and the socket that reserves the processor.

    The kernel and its guest's processes take turns and never run simultaneously. Switching to another processor costs
    more than the turn itself, and linux.uml(1) also recommends one processor. On an idle host with two processors, the
    use of one processor reduced the time of the boot from 2 s to 1.4 s and that of mdadm --create from 0.5 s to 0.2 s,
    and increased random 4K reads from 9k to 16k a second. Two kernels that start at the same time would often choose
    the same processor and leave the other idle. Therefore each binds a name for its processor. The name is unique on
    the host, and is released when its holder ends (unix(7), the abstract namespace).
    """
    try:
        # This is the processor on which this process last ran.
        last = stat_number("self", 39)
        # Prefer the processor that the scheduler has just chosen.
        processors = sorted(os.sched_getaffinity(0), key=lambda each: each != last)
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except (OSError, IndexError, ValueError):
        return None, None
    for place in range(MOST_KERNELS_A_PROCESSOR):
        for processor in processors:
            with contextlib.suppress(OSError):
                name.bind(f"\0{PROCESSOR_NAME}-{processor}-{place}")
                return processor, name
    return last, name


def stat_number(pid: int | str, field: int) -> int:
    """Return a field of /proc/PID/stat by its number in proc(5). Raises OSError, IndexError or ValueError."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        return int(stat.read().rpartition(")")[2].split()[field - 3])


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot, or 0 if it has ended.

    An id alone does not identify a process, because ids are reused.
    """
    try:
        return stat_number(pid, 22)
    except (OSError, IndexError, ValueError):
        return 0


def write_record(path: str, kernel: int, layers: Sequence[str]) -> None:
    """Record these processes for a later client, which finds either the whole record or none."""
    record = {
        "supervisor": os.getpid(),
        "supervisor_start_ticks": start_ticks(os.getpid()),
        "kernel_group": kernel,
        "kernel_start_ticks": start_ticks(kernel),
        "confined_by": layers,
    }
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(record, file)
    os.replace(path + ".new", path)


def kick(kernel: int) -> None:
    """Send the kernel an extra timer signal. User Mode Linux 6.1 sometimes needs one, and it never does harm.

    The kernel can lose a timer signal on a busy host. Its idle loop then ignores everything else and waits for a signal
    that never comes (strace shows no timer armed, only sigprocmask and timer_gettime). One SIGALRM restarts it.
    """
    # The signal would kill a kernel that has no handler yet.
    if catches(kernel, signal.SIGALRM):
        with contextlib.suppress(ProcessLookupError):
            os.kill(kernel, signal.SIGALRM)


class RoomKeeper:
    """Pauses the kernel before the host's disk is full, and ends it if the user does not free any space.

    md treats a write that fails for lack of space as a disk failure, so it would fail every member of an array within a
    second. To md, a pause followed by a kill looks like a power failure, which loses no acknowledged write.
    """

    def __init__(self, kernel: int, writable: Sequence[str], spare_bytes: int) -> None:
        self.kernel = kernel
        self.spare_bytes = spare_bytes
        self.images = [path for path in writable if os.path.isfile(path)]
        self.taken_bytes = 0
        """The size of the images when the spare space was last free."""
        self.is_scarce = False
        self.paused_at: float | None = None

    @property
    def seconds(self) -> float:
        """The time until the next check.

        It is so short while space is scarce that even a fast disk writes only a few MiB in it.
        """
        return TIGHT_SECONDS if self.is_scarce or self.paused_at is not None else KICK_SECONDS

    def room_bytes(self) -> int:
        folders = {os.path.dirname(path) for path in self.images}
        return min((found.f_bavail * found.f_frsize for found in map(os.statvfs, folders)), default=1 << 62)

    def file_bytes(self) -> int:
        """Return the space of the images, plus that of the console (standard error) if it is on the same disk."""
        images = [os.stat(path) for path in self.images]
        disks = {found.st_dev for found in images}
        return sum(found.st_blocks * 512 for found in (*images, os.fstat(2)) if found.st_dev in disks)

    def check(self) -> bool:
        """Pause or resume the kernel, depending on the free space. Return False if the pause has lasted too long."""
        try:
            room = self.room_bytes()
            taken = self.file_bytes()
        except OSError:
            return True
        if self.paused_at is not None:
            if room > self.spare_bytes:
                self.signal(signal.SIGCONT)
                self.paused_at = None
            return self.paused_at is None or time.monotonic() - self.paused_at < MOST_PAUSED_SECONDS
        if room > self.spare_bytes + LITTLE_BYTES:
            self.is_scarce = False
            return True
        # What the kernel took while the spare space was free does not count, because another program may have caused
        # the shortage.
        if not self.is_scarce or room >= self.spare_bytes:
            self.is_scarce, self.taken_bytes = True, taken
        # A kernel that only reads, or overwrites existing blocks, continues.
        if room < self.spare_bytes and taken - self.taken_bytes > min(MOST_TAKEN_BYTES, room // 8):
            self.signal(signal.SIGSTOP)
            self.paused_at = time.monotonic()
            os.write(2, f"{NO_ROOM}: {room >> 20} MiB left in {os.path.dirname(self.images[0])}\n".encode())
        return True

    def signal(self, number: int) -> None:
        """Signal only the kernel and its helpers. A guest program stopped from outside would end the kernel."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, IndexError, ValueError):
                # Field 5 is the process group.
                if stat_number(pid, 5) != self.kernel:
                    continue
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
                    if "TracerPid:\t0\n" in status.read():
                        os.kill(int(pid), number)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal (proc(5), SigCgt, a hexadecimal mask with signal 1 at bit 0)."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            masks = [line.split()[1] for line in status if line.startswith("SigCgt:")]
        return bool(int(masks[0], 16) >> (number - 1) & 1)
    except (OSError, IndexError, ValueError):
        return False


def wait_for_end(
    child: int, wake_read: int, received: Sequence[int], room: RoomKeeper, *, is_kicked: bool
) -> int | None:
    """Return the kernel's exit status, or None if the client ended or a signal was ``received`` first."""
    next_kick = 0.0 if is_kicked else math.inf
    while not received:
        ready, _, _ = select.select([0, wake_read], [], [], room.seconds)
        if not room.check():
            return NO_ROOM_STATUS
        if not ready and time.monotonic() >= next_kick:
            kick(room.kernel)
            next_kick = time.monotonic() + KICK_SECONDS / 2
        if 0 in ready and not os.read(0, 512):
            return None
        if wake_read in ready:
            os.read(wake_read, 512)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == 0:
                break
            if pid == child:
                return os.waitstatus_to_exitcode(status)
    return None


def reap(group: int) -> None:
    """Kill the kernel's process group and all other children of this process, until none remains."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            # Without a namespace, a guest program that outlived its kernel may have left the group.
            for child in children():
                os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def children() -> list[int]:
    """Return the children of this process, including adopted ones (proc(5), /proc/PID/task/TID/children)."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def main() -> None:
    """Start the kernel, record its processes, wait for its end, and clean up."""
    record, held_fds, argv = sys.argv[1], [int(fd) for fd in sys.argv[2].split(",")], sys.argv[4:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    received: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda each, _: received.append(each))
    processor, _name = own_processor() if is_user_mode(argv) else (None, None)
    child, kernel, layers = start_kernel(argv, held_fds, json.loads(sys.argv[3]), processor)
    status = None
    try:
        write_record(record, kernel, layers)
        for fd in held_fds:
            os.close(fd)
        spare = int(os.environ.get(SPARE_VARIABLE) or SPARE_BYTES)
        room = RoomKeeper(kernel, json.loads(sys.argv[3])["writable"], spare)
        # In virtual time no event may come from outside.
        is_kicked = is_user_mode(argv) and not is_virtual_time(argv)
        status = wait_for_end(child, wake_read, received, room, is_kicked=is_kicked)
    finally:
        reap(kernel)
        if is_user_mode(argv):
            with contextlib.suppress(OSError):
                # Remove the folder of the kernel's memory file, because the file no longer has a name. QEMU's TMPDIR is
                # the user's own.
                os.rmdir(os.environ.get("TMPDIR", ""))
    sys.exit(0 if status is None else status % 256)


if __name__ == "__main__":
    main()
