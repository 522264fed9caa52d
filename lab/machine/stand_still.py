"""Diagnose an embedded kernel that does not answer, from outside and through its own management console.

The management console (mconsole) is a datagram socket that User Mode Linux serves in its interrupt handler, so it works
even while no guest process makes progress (Documentation/virt/uml/user_mode_linux_howto_v2.rst). It provides the
functions of the magic SysRq keys (Documentation/admin-guide/sysrq.rst), whose output goes to the console's log as well.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import RUN_AGAIN, LabError, MachineLost
from lab.host.files import HostFiles, replace_file
from lab.machine.state_folder import CONSOLE_LOG, KERNEL_RECORD, kernel_group

# struct mconsole_request and mconsole_reply in arch/um/drivers/mconsole.h.
_MAGIC, _VERSION, _DATA_BYTES = 0xCAFEBABE, 2, 512
_REQUEST, _REPLY = struct.Struct(f"=III{_DATA_BYTES}s"), struct.Struct("=III")
_ANSWER_SECONDS = 1.0
_ALIVE = "version"
_WORDS = (_ALIVE, "proc mdstat", "proc diskstats", "proc interrupts", "sysrq 9", "sysrq w", "sysrq m", "sysrq t")
"""Commands whose output is stored as evidence. Blocked tasks come before all tasks, because printing all tasks has
killed a kernel (6.1) half-way."""
EVIDENCE_FOLDER = "stood-still"
"""Folder below the state folder for evidence on kernels that did not answer. The evidence outlives the machines."""
MOST_FILES = 10
STILL_SECONDS = 10
"""Limit for a kernel that neither answers nor runs. An idle kernel answers in milliseconds, and a busy one runs."""
SILENT_SECONDS = 120
"""Limit for a kernel that does not answer, whatever else it does during that time."""
_BUSY_SHARE = 0.5
_MAY_WAIT = frozenset({"write", "exit"})
"""Requests in which the agent itself may block, because md has locked an array or disks have yet to write all data."""
_PROCESS_FILES = ("status", "stat", "schedstat", "wchan", "syscall", "stack")


def console_of(folder: Path) -> Path:
    """Return the path of the socket, which ``uml_dir`` and ``umid`` on the kernel's command line determine."""
    return folder / "uml" / "kernel" / "mconsole"


def can_answer(files: HostFiles, folder: Path) -> bool:
    """Whether a kernel's management console can answer at all.

    It cannot if the state folder's path is too long for a socket (unix(7)), or if the kernel is confined by seccomp but
    not by a namespace, because the filter then prevents the kernel from sending (confinement.py).
    """
    record = files.read(str(folder / KERNEL_RECORD)) or ""
    is_mute = '"seccomp"' in record and '"namespace"' not in record
    return console_of(folder).exists() and not is_mute


def ask_management_console(folder: Path, command: str) -> str | None:
    """Return the answer of a machine's management console, or None. A long answer may be incomplete."""
    answer = b""
    own = folder / "mconsole-client"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.settimeout(_ANSWER_SECONDS)
        try:
            own.unlink(missing_ok=True)
            line.bind(str(own))
            data = command.encode("ascii")
            line.sendto(_REQUEST.pack(_MAGIC, _VERSION, len(data), data), str(console_of(folder)))
            while True:
                reply = line.recv(_REPLY.size + _DATA_BYTES)
                _, has_more, length = _REPLY.unpack_from(reply)
                answer += reply[_REPLY.size : _REPLY.size + length]
                if not has_more:
                    break
        except (OSError, struct.error):
            # No process reads there, or part of the answer did not fit. Keep the part that has arrived.
            if not answer:
                return None
        finally:
            with suppress(OSError):
                own.unlink(missing_ok=True)
    return answer.replace(b"\0", b"").decode("utf-8", "replace")


def group_members(files: HostFiles, group: int) -> list[int]:
    """Return a group's processes (proc(5), stat, field 5): those of the kernel, of its helpers and of the guest."""
    found = []
    for path in files.path("/proc").glob("[0-9]*"):
        fields = (files.read(f"/proc/{path.name}/stat") or "").rpartition(")")[2].split()
        if len(fields) > 2 and fields[2] == str(group):
            found.append(int(path.name))
    return sorted(found)


def process_evidence(files: HostFiles, process: int) -> str:
    """Return what /proc shows about a process, its threads and its descriptors, with "?" for unreadable files."""
    lines = [f"== process {process}"]
    for task in sorted(files.path(f"/proc/{process}/task").glob("[0-9]*")):
        for name in _PROCESS_FILES:
            text = files.read(f"/proc/{process}/task/{task.name}/{name}")
            lines.append(f"-- thread {task.name} {name}: {'?' if text is None else text.rstrip()}")
    with suppress(OSError):
        for link in sorted(files.path(f"/proc/{process}/fd").iterdir()):
            about = files.read(f"/proc/{process}/fdinfo/{link.name}") or ""
            with suppress(OSError):
                lines.append(f"-- descriptor {link.name}: {link.readlink()}; {' '.join(about.split())}")
    return "\n".join(lines)


def stand_still_evidence(files: HostFiles, folder: Path, group: int) -> str:
    """Return all evidence: the state of the kernel's processes and the management console's answers."""
    parts = [process_evidence(files, process) for process in group_members(files, group)]
    for command in _WORDS:
        answer = ask_management_console(folder, command)
        parts.append(f"== management console, {command}: {'no answer' if answer is None else answer}")
        if answer is None:
            break
    parts += ["== the main process once more", process_evidence(files, group)]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Pulse:
    """The processor time and the waiting time of the kernel's processes, and the state of the main process."""

    running_seconds: float
    waiting_seconds: float
    state: str


class Vigil:
    """Decides whether a silent kernel is hung, or merely busy, starved or waiting for a disk."""

    def __init__(self, files: HostFiles, folder: Path) -> None:
        self._files, self._folder = files, folder
        self._before: _Pulse | None = None
        self._still = self._silent = 0

    def on_silence(self, seconds: int, awaited: Collection[str]) -> LabError | None:
        """Return MachineLost once the kernel is found to be hung. ``Channel`` calls this every second."""
        group = kernel_group(self._folder)
        if group is None:
            return None
        if seconds == 1:
            self._before, self._still, self._silent = None, 0, 0
        pulse, before = self._pulse(group), self._before
        self._before = pulse
        if before is None:
            return None
        if pulse.waiting_seconds - before.waiting_seconds > _BUSY_SHARE:
            # Other processes have the processor, so the kernel cannot answer, but it is not hung.
            return None
        self._silent += 1
        is_busy = pulse.running_seconds - before.running_seconds > _BUSY_SHARE
        # State D means that the process is waiting for one of the host's disks.
        self._still = 0 if is_busy or pulse.state == "D" else self._still + 1
        if self._silent >= SILENT_SECONDS:
            return self._lost(group, f"no answer for {SILENT_SECONDS} s")
        if self._still < STILL_SECONDS:
            return None
        self._still = 0
        if pulse.state == "T":
            return self._lost(group, "its process is stopped (SIGSTOP)")
        if not can_answer(self._files, self._folder):
            # The kernel's state is unknown.
            return self._lost(group, f"no answer for {seconds} s") if _MAY_WAIT.isdisjoint(awaited) else None
        # Ask twice, because the whole host may have been paused during the first request.
        if all(ask_management_console(self._folder, _ALIVE) is None for _ in range(2)):
            return self._lost(group, f"no answer for {seconds} s, and its management console does not answer either")
        if _MAY_WAIT.isdisjoint(awaited):
            return self._lost(group, f"it runs, but its agent has not answered for {seconds} s")
        return None

    def _pulse(self, group: int) -> _Pulse:
        """Read the figures (Documentation/scheduler/sched-stats.rst) and the state (proc(5))."""
        running = waiting = 0
        for process in group_members(self._files, group):
            fields = (self._files.read(f"/proc/{process}/schedstat") or "").split()
            running, waiting = running + int(fields[0] if fields else 0), waiting + int(fields[1] if fields else 0)
        stat = (self._files.read(f"/proc/{group}/stat") or "").rpartition(")")[2].split()
        return _Pulse(running / 1e9, waiting / 1e9, stat[0] if stat else "")

    def _lost(self, group: int, what: str) -> LabError:
        """Write all evidence to a file that outlives the machine, and remove the oldest files beyond MOST_FILES."""
        folder = self._folder.parents[1] / EVIDENCE_FOLDER
        file = folder / f"{self._folder.name}.txt"
        text = stand_still_evidence(self._files, self._folder, group)
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            console = (self._folder / CONSOLE_LOG).read_text("utf-8", "replace")
            replace_file(file, f"{text}== console\n{console}".encode())
            for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-MOST_FILES]:
                old.unlink()
        return MachineLost(
            f"the embedded kernel is hung: {what}",
            hint=f"{RUN_AGAIN} (the arrays remain on their disks); report the hang, and attach {file}",
        )
