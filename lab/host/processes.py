"""The only module of the client that starts processes, including raidlab's Python processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.host.clock import HostClock, polls


def isolated_python(*arguments: str, python: str = "") -> tuple[str, ...]:
    """Return the argv of an interpreter in isolated mode (``-I``) with ``arguments``, such as ``"-m", "tui"``.

    ``python`` is the interpreter's path on the computer where it runs. If it is empty, the current interpreter is used.
    Processes that multiprocessing starts from such a process are isolated too
    (subprocess._args_from_interpreter_flags).
    """
    return (python or sys.executable, "-I", *arguments)


DYING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a short host command. ``status`` is 127 if the program does not exist."""

    status: int
    stdout: str
    stderr: str


RunningProcess = subprocess.Popen[bytes]


class Processes:
    """Finds programs on the host, and runs and kills processes."""

    # Administration tools are in sbin, which is not in an ordinary user's PATH on Debian. The current folder is never
    # searched for programs, even if PATH has an empty or relative entry.
    _SEARCH_PATH = os.pathsep.join(
        (
            *filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep)),
            *("/usr/local/sbin", "/usr/sbin", "/sbin"),
        )
    )

    def find(self, program: str) -> str | None:
        """Return the full path of a program in PATH or in the sbin folders, or None if it is not installed."""
        return shutil.which(program, path=self._SEARCH_PATH)

    def _env(self, extra_env: Mapping[str, str] | None) -> dict[str, str]:
        return {**os.environ, "LC_ALL": "C.UTF-8", "PATH": self._SEARCH_PATH, **(extra_env or {})}

    def run(
        self, argv: Sequence[str], *, timeout_seconds: float = 30.0, extra_env: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a program to its end with an empty stdin. After a time-out, the status is 124, as with timeout(1)."""
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_seconds,
                env=self._env(extra_env),
                check=False,
            )
        except (FileNotFoundError, PermissionError) as error:
            return Completed(127, "", str(error))
        except subprocess.TimeoutExpired:
            return Completed(124, "", f"no answer within {timeout_seconds:g} s")
        return Completed(done.returncode, done.stdout, done.stderr)

    def start(
        self,
        argv: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        stderr_fd: int,
        extra_env: Mapping[str, str] | None = None,
    ) -> RunningProcess:
        """Start a process with pipes for input and output, in its own session, which Ctrl-C does not reach."""
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr_fd,
            pass_fds=tuple(pass_fds),
            env=self._env(extra_env),
            start_new_session=True,
            bufsize=0,
        )

    def kill_group(self, group_id: int) -> None:
        """Send SIGKILL to a whole process group. It is not an error if the group is already gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group_id, signal.SIGKILL)

    def kill_writers(self, folder: Path, *, but: str, spared: Collection[int]) -> None:
        """Kill every process that has a file below ``folder`` open for writing, except this process and ``spared``.

        SIGKILL is repeated until no such process is left, because a process may start others before it dies, and
        because exiting takes a while on a busy host. After DYING_SECONDS, the processes that are still alive are left
        alone. The file named by ``but`` does not count, because other commands open it to test whether it is locked.
        """
        place = f"{folder.resolve()}/"
        before: set[int] = set()
        for _ in polls(HostClock(), DYING_SECONDS, 0.01):
            others = (entry for entry in Path("/proc").glob("[0-9]*") if int(entry.name) not in (os.getpid(), *spared))
            found = {int(entry.name) for entry in others if _writes_below(entry, place, but)}
            if not found:
                return
            for process_id in found & before:
                with suppress(OSError):
                    os.kill(process_id, signal.SIGKILL)
            before = found


def ended_how(status: int) -> str:
    """Describe a status from ``RunningProcess.poll`` with text such as ``status 1``, or with the signal's name."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _writes_below(process: Path, folder: str, but: str) -> bool:
    """Whether a process has a file below ``folder``, even a removed one, open for writing (proc(5), fd and fdinfo)."""
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError, IndexError, ValueError):
                name = str(descriptor.readlink()).removesuffix(" (deleted)")
                if name.startswith(folder) and name != f"{folder}{but}":
                    flags = (process / "fdinfo" / descriptor.name).read_text("ascii").split("flags:")[1].split()[0]
                    if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False
