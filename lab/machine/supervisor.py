#!/usr/bin/python3 -IS
"""The supervisor: starts one embedded kernel and sees to it that the kernel ends when its client does.

A stand-alone file, run as a process of its own between client and kernel, since only a process that outlives a client
killed by SIGKILL can clean up after it. Standard input is the lifeline: when its other end closes, the kernel's whole
process group is killed (killing the main process alone leaves User Mode Linux's helpers and guest processes running).

    supervisor.py RECORD_FILE KEPT_FD[,KEPT_FD...] CONFINEMENT KERNEL ARG...

RECORD_FILE receives the kernel's process group, so that a later client can recognise what a killed supervisor left, and
the layers that confine it. CONFINEMENT is what confine() in confinement.py takes, as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from lab.machine.confinement import LAYERS, NAMESPACE, HalfConfined, confine
else:
    # Python's isolated mode leaves a script's own folder out.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from confinement import LAYERS, NAMESPACE, HalfConfined, confine

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# sys/personality.h
ADDR_NO_RANDOMIZE = 0x0040000
KICK_SECONDS = 0.2
MOST_KERNELS_A_PROCESSOR = 64
PROCESSOR_NAME = "raidlab-processor"
HALF_CONFINED = b"without namespace"


def start_kernel(
    argv: list[str], kept_fds: Sequence[int], confinement: Mapping[str, Sequence[str]], processor: int | None
) -> tuple[int, int, list[str]]:
    """Fork the kernel into a process group of its own, confined, on one processor; it dies with the supervisor.

    Returns the child to wait for, the kernel's process (the same without a namespace) and the layers that confine it.
    """
    (said, say), (told, tell) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(said)
        os.close(tell)
        become_kernel(argv, kept_fds, confinement, processor, told, say)
    os.close(say)
    os.close(told)
    with open(said, "rb", buffering=0) as words, open(tell, "wb", buffering=0) as go:
        answer = words.read(select.PIPE_BUF)
        if answer == HALF_CONFINED:
            os.waitpid(child, 0)
            rest = [layer for layer in confinement.get("layers", LAYERS) if layer != NAMESPACE]
            return start_kernel(argv, kept_fds, {**confinement, "layers": rest}, processor)
        awaited, layers = json.loads(answer or f"[{child}, []]")
        if awaited != child:
            # Its parent ends at once, and then it is this process's own child.
            os.waitpid(child, 0)
        with contextlib.suppress(BrokenPipeError):
            go.write(b"\n")
        # Until the kernel's program takes over.
        kernel = int(words.read() or awaited)
    return awaited, kernel, layers


def become_kernel(
    argv: list[str],
    kept_fds: Sequence[int],
    confinement: Mapping[str, Sequence[str]],
    processor: int | None,
    told: int,
    say: int,
) -> NoReturn:
    """Say which process is to be waited for and what confines it; after the word to go, which process the kernel is.

    Or, first of all, that a namespace is not to be had.
    """
    try:
        layers = confine(**confinement)
        if NAMESPACE in layers and os.fork():
            os._exit(0)
        os.write(say, json.dumps([own_id(), layers]).encode())
        if not os.read(told, 1):
            os._exit(1)
        # Only now: new capabilities of a process, and another parent, make the kernel forget this.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if NAMESPACE in layers:
            stay_as_init()
        os.setpgid(0, 0)
        # Fails if the supervisor has died before.
        os.write(say, str(own_id()).encode())
        for fd in kept_fds:
            os.set_inheritable(fd, True)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # What the kernel says before it has a console belongs into the log beside the rest.
        os.dup2(2, 1)
        os.chdir("/")
        # A panic ends in abort(), and a core file would be as large as the guest's memory.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if processor is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {processor})
        if is_virtual_time(argv):
            # User Mode Linux gives its guest as much memory more as lies between its program and its heap, by chance.
            ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
        os.execv(argv[0], argv)
    except HalfConfined:
        os.write(say, HALF_CONFINED)
    except OSError as error:
        os.write(2, f"{error.filename or argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def is_virtual_time(argv: Sequence[str]) -> bool:
    """Whether the kernel's clock is its own."""
    return any(word.startswith("time-travel") for word in argv)


def own_id() -> int:
    """This process's id as the computer knows it: /proc is the computer's also where processes have other ids."""
    return int(os.readlink("/proc/self"))


def stay_as_init() -> None:
    """Go on as a child, whose end is this process's too.

    With the first process of a namespace end all others in it (pid_namespaces(7)). Else the guest's programs, which
    nobody traces any more, would go on as programs of this computer. The kernel cannot be the first: that gets no
    signal from within, and User Mode Linux ends a panic by signals to itself.
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
    """The processor on which a kernel, and what it starts, is to stay, and what keeps others from choosing it too.

    The kernel and its guest's processes take turns and never run at once; handing the turn to another processor costs
    more than the turn itself (linux.uml(1) advises it too; measured on an idle computer of two processors: boot 1.4 s
    instead of 2, mdadm --create 0.2 s instead of 0.5, random 4K reads 16k a second instead of 9k). Two kernels that
    start at once would often choose the same one, and the other stood idle. So each takes a name for its processor, of
    which there is one in a computer, and which ends with its holder (unix(7), the abstract namespace).
    """
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as stat:
            # proc(5), field 39: the processor that it last ran on.
            last = int(stat.read().rpartition(")")[2].split()[36])
        # That one first, which the scheduler has just chosen.
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


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot (proc(5), field 22): with the id, the name of one process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def write_record(path: str, kernel: int, layers: Sequence[str]) -> None:
    """Tell a later client which processes these are; it finds the whole record or none."""
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


class TimerRescue:
    """Gives the kernel a spare timer signal now and then.

    User Mode Linux 6.1 can lose a timer signal on a busy computer. Its idle loop then waits, deaf to all else, for one
    that never comes (strace shows no timer armed, only sigprocmask and timer_gettime); one SIGALRM set it going again.
    A timer interrupt too many does no harm. In virtual time nothing may come from outside.
    """

    def __init__(self, kernel: int, argv: Sequence[str]) -> None:
        self.kernel = kernel
        self.is_wanted = not is_virtual_time(argv)
        self.is_caught = False

    def kick(self) -> None:
        if not self.is_wanted:
            return
        # Before the kernel has a handler the signal would end it.
        self.is_caught = self.is_caught or catches(self.kernel, signal.SIGALRM)
        if self.is_caught:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.kernel, signal.SIGALRM)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal (proc(5), SigCgt: a mask in hexadecimal, signal 1 at bit 0)."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            masks = [line.split()[1] for line in status if line.startswith("SigCgt:")]
        return bool(int(masks[0], 16) >> (number - 1) & 1)
    except (OSError, IndexError, ValueError):
        return False


def wait_for_end(child: int, wake_read: int, told_to_end: Sequence[int], rescue: TimerRescue) -> int | None:
    """Return the kernel's exit status, or None when the client went first."""
    while not told_to_end:
        ready, _, _ = select.select([0, wake_read], [], [], KICK_SECONDS)
        if not ready:
            rescue.kick()
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
    """Kill the kernel's whole group, and whatever else was left to this process, until nothing is."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            # A program of the guest that outlived its kernel, without a namespace, may have left the group.
            for child in children():
                os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def children() -> list[int]:
    """The processes whose parent this one is, or has become (proc(5), /proc/PID/task/TID/children)."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def main() -> None:
    """Start, record, wait, clean."""
    record, kept, argv = sys.argv[1], [int(fd) for fd in sys.argv[2].split(",")], sys.argv[4:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    told_to_end: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: told_to_end.append(received))
    processor, _name = own_processor()
    child, kernel, layers = start_kernel(argv, kept, json.loads(sys.argv[3]), processor)
    status = None
    try:
        write_record(record, kernel, layers)
        for fd in kept:
            os.close(fd)
        status = wait_for_end(child, wake_read, told_to_end, TimerRescue(kernel, argv))
    finally:
        reap(kernel)
        with contextlib.suppress(OSError):
            # Where the file of its memory was, which has no name.
            os.rmdir(os.environ.get("TMPDIR", ""))
    sys.exit(0 if status is None else status % 256)


if __name__ == "__main__":
    main()
