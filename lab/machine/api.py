"""The interface of a machine: run commands, read files and take samples.

All code above this module is the same for every target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.host.clock import Clock
from lab.machine.programs import Change, GuestProgram, unchanged


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of one command on a machine."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    duration_seconds: float
    started_seconds: float
    """Start on the machine's monotonic clock, as is the duration."""
    waited_seconds: float | None = None
    """How long the client waited for it, on the host's clock; None if equal to the duration."""

    @property
    def computer_seconds(self) -> float:
        """The command's duration on the host's clock."""
        return self.duration_seconds if self.waited_seconds is None else self.waited_seconds


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Conditions that every result records."""

    target: str
    kernel_release: str
    architecture: str
    host_name: str
    cpu_count: int
    memory_bytes: int
    is_embedded: bool
    is_virtual_time: bool = False


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The data that the agent reads at each tick.

    An interval of 0 takes one sample at once, even while virtual time is stopped.
    ``files`` are read whole; from /proc/diskstats only the lines of ``block_devices`` are kept;
    ``thread_prefixes`` selects kernel threads by the start of their name (``md0_``); each one's CPU time is reported.
    """

    interval_seconds: float
    files: tuple[str, ...] = ()
    block_devices: tuple[str, ...] = ()
    thread_prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawSample:
    """One tick, unparsed: the text of each file (None if unreadable at that time)."""

    time_seconds: float
    """On the machine's monotonic clock."""
    files: Mapping[str, str | None]
    thread_cpu_ticks: Mapping[str, int]
    """``NAME/PID`` of a thread -> utime + stime in clock ticks (USER_HZ, 100 a second)."""


class SampleStream(Protocol):
    """Samples as they arrive; iterating ends after ``stop``."""

    def __iter__(self) -> Iterator[RawSample]: ...
    def stop(self) -> None: ...


class RunningCommand(Protocol):
    """A command whose output arrives while it runs."""

    def chunks(self) -> Iterator[str]:
        """Pieces of standard output in order; ends when the command ends."""
        ...

    def result(self) -> CommandResult:
        """Wait for the end and return the result; ``stdout`` holds all chunks."""
        ...

    def stop(self, *, signal_number: int = 2) -> None:
        """Send a signal (SIGINT: fio then prints its result and ends)."""
        ...


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A finished command that was typed at the prompt of a terminal's shell."""

    line: str
    status: int
    """As in bash: 128 + N if signal N ended it."""
    seconds: float
    """On the machine's clock."""
    folder: str
    """The shell's working folder after the command."""


class Terminal(Protocol):
    """A terminal on a machine, with a root shell. Iterate ``chunks`` on one thread; call the rest from any."""

    @property
    def status(self) -> int | None:
        """The shell's exit status, 128 + N if signal N ended it; None while it runs."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """Yield output in pieces, for an xterm-256color terminal; ends when the shell ends.

        A request for the next piece acknowledges that the previous one is shown: a program that prints faster blocks.
        Raises LabError if no shell can be started, MachineLost if the machine is lost.
        """
        ...

    def type(self, data: bytes) -> None:
        """Send typed input of any length; returns at once."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """Set the window size, in characters; returns at once."""
        ...

    def stop(self) -> None:
        """Hang up, as when a window is closed: SIGHUP to the session, SIGKILL to the rest two seconds later."""
        ...


class Machine(Protocol):
    """An open machine. All methods raise MachineLost when it is gone."""

    @property
    def facts(self) -> MachineFacts: ...

    @property
    def clock(self) -> Clock:
        """The clock for waiting on the machine: its own in virtual time, else the host's."""
        ...

    def sleep(self, seconds: float, *, until: Sequence[str] = ()) -> float:
        """Let time pass on the machine; returns its monotonic clock, in seconds.

        Ends early when the kernel reports a change of one of the files in ``until`` (sysfs_notify: poll(2), POLLPRI).
        Raises LabError if one of them is missing.
        """
        ...

    def on_command(self, listener: Callable[[CommandResult], None]) -> None:
        """Call ``listener`` after every command, on the thread that ran it."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin_text: str = "",
        timeout_seconds: float = 120.0,
        check: bool = True,
    ) -> CommandResult:
        """Run a command to its end.

        Raises CommandFailed for a nonzero status if ``check``, ToolMissing if the program is missing,
        CommandTimedOut after ``timeout_seconds``.
        """
        ...

    def stream(
        self, argv: Sequence[str], *, stdin_text: str = "", keeps_output: bool = True, is_aside: bool = False
    ) -> RunningCommand:
        """Start a command. Without ``keeps_output`` its output is passed on but not stored: ``stdout`` stays empty.

        In virtual time a command that ``is_aside`` does not make the clock run until it is stopped: the clock runs
        only while the client waits for something else.
        """
        ...

    def install(self, program: GuestProgram, change: Change = unchanged) -> str:
        """Send a program unless the machine has it, and return the path of the file that ``python3 -IS`` starts.

        ``change`` is applied to the text of each of its modules.
        """
        ...

    def call(self, program: GuestProgram, arguments: Sequence[str], *, timeout_seconds: float = 120.0) -> str:
        """Run one of the lab's programs inside the agent and return its text; no process is started.

        Raises CommandFailed with the program's reason, CommandTimedOut after ``timeout_seconds``.
        """
        ...

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Return the text of many small files in one round trip; None for a missing or unreadable file."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a small file (a job file, a value under /sys). Raises LabError with the system's reason."""
        ...

    def list_dirs(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the sorted names in each folder; an empty tuple for a missing folder."""
        ...

    def sample(self, request: SampleRequest) -> SampleStream: ...

    def terminal(
        self, columns: int, rows: int, *, on_command: Callable[[TypedCommand], None] = lambda _: None
    ) -> Terminal:
        """Open a terminal of that size in characters, with bash running as root.

        ``on_command`` is called with each finished command typed at its prompt, on the thread that iterates ``chunks``.
        In virtual time the clock runs during a command and stops while the prompt or an editor waits for a key.
        """
        ...

    def is_answering(self, within_seconds: float) -> bool:
        """Whether the machine answers a trivial request within that time on the host's clock."""
        ...

    def waited_seconds(self) -> float | None:
        """Return the total time for which the machine was ready to run while its host's processor ran something else.

        None if unknown: a machine that is not a process on this computer counts it as steal (proc(5)).
        """
        ...

    def close(self) -> None: ...
