"""What can be learnt of an embedded kernel that gives no answer: from outside, and by its own management console.

The management console (mconsole) is a datagram socket that User Mode Linux answers in its interrupt handler, hence
also while no process of the guest gets on (Documentation/virt/uml/user_mode_linux_howto_v2.rst). It does what the magic
SysRq keys do (Documentation/admin-guide/sysrq.rst); what they print goes to the console's log as well.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from pathlib import Path

from lab.host.files import HostFiles

# struct mconsole_request and mconsole_reply in arch/um/drivers/mconsole.h.
_MAGIC, _VERSION, _DATA_BYTES = 0xCAFEBABE, 2, 512
_REQUEST, _REPLY = struct.Struct(f"=III{_DATA_BYTES}s"), struct.Struct("=III")
_ANSWER_SECONDS = 1.0
_SYSRQ = ("sysrq 9", "sysrq w", "sysrq t", "sysrq m")
"""Print all there is: what is blocked, every task, memory."""
_PROCESS_FILES = ("status", "stat", "schedstat", "wchan", "syscall", "stack")


def ask_management_console(folder: Path, command: str) -> str | None:
    """What a kernel's management console answers; None if it does not. A long answer may lack parts (the log has all).

    ``folder`` is the machine's; the socket lies where ``uml_dir`` and ``umid`` of its command line say.
    """
    answer = b""
    own = folder / "mconsole-client"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.settimeout(_ANSWER_SECONDS)
        try:
            own.unlink(missing_ok=True)
            line.bind(str(own))
            data = command.encode("ascii")
            line.sendto(_REQUEST.pack(_MAGIC, _VERSION, len(data), data), str(folder / "uml" / "kernel" / "mconsole"))
            while True:
                reply = line.recv(_REPLY.size + _DATA_BYTES)
                _, has_more, length = _REPLY.unpack_from(reply)
                answer += reply[_REPLY.size : _REPLY.size + length]
                if not has_more:
                    break
        except (OSError, struct.error):
            # Nobody reads there, or some of the answer found no room: what has come is kept.
            if not answer:
                return None
        finally:
            with suppress(OSError):
                own.unlink(missing_ok=True)
    return answer.replace(b"\0", b"").decode("utf-8", "replace")


def group_members(files: HostFiles, group: int) -> list[int]:
    """The processes of a group: the kernel itself, its helpers and its guest's processes (proc(5), stat, field 5)."""
    found = []
    for path in files.path("/proc").glob("[0-9]*"):
        fields = (files.read(f"/proc/{path.name}/stat") or "").rpartition(")")[2].split()
        if len(fields) > 2 and fields[2] == str(group):
            found.append(int(path.name))
    return sorted(found)


def process_evidence(files: HostFiles, process: int) -> str:
    """What /proc tells of one process, its threads and its descriptors; "?" for what this user may not read."""
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
    """All of it: the kernel's processes as they are, then the management console's words."""
    parts = [process_evidence(files, process) for process in group_members(files, group)]
    for command in _SYSRQ:
        answer = ask_management_console(folder, command)
        parts.append(f"== management console, {command}: {'no answer' if answer is None else answer}")
    parts.append("== the main process once more")
    parts.append(process_evidence(files, group))
    return "\n".join(parts) + "\n"
