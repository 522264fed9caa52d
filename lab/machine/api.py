"""What a machine is to the rest of the lab: somewhere to run commands, read files and take samples.

Everything above this module is the same code on every target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.host.clock import Clock


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One command that ran on a machine."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    duration_seconds: float
    started_seconds: float
    """On the machine's monotonic clock, which the duration is of too."""
    waited_seconds: float | None = None
    """How long the client waited for it, on this computer's clock; None: as long as it ran."""

    @property
    def computer_seconds(self) -> float:
        """What it took of this computer's time."""
        return self.duration_seconds if self.waited_seconds is None else self.waited_seconds


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A stand-alone file that runs inside a machine's agent: its ``main(arguments, is_stopped)`` returns text."""

    file: Path
    name: str

    def told(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """What stands for a call of it where commands are told; of an argument with many lines only the first."""
        return (f"agent:{self.name}", *(argument.partition("\n")[0] for argument in arguments))


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
    """What the agent reads at each tick.

    An interval of 0: one sample at once, also where time stands still.
    ``files`` are read whole; from /proc/diskstats only the lines of ``block_devices`` are kept;
    ``thread_prefixes`` selects kernel threads by the start of their name (``md0_``), whose CPU time is told for each.
    """

    interval_seconds: float
    files: tuple[str, ...] = ()
    block_devices: tuple[str, ...] = ()
    thread_prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawSample:
    """One tick, untouched: the text of each file (None: unreadable just now)."""

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
        """How it ended (waits for the end); ``stdout`` holds all chunks."""
        ...

    def stop(self, *, signal_number: int = 2) -> None:
        """Send a signal (SIGINT: fio then prints its result and ends)."""
        ...


@dataclass(frozen=True, slots=True)
class TypedCommand:
    """A line that was typed at the prompt of a terminal's shell, and has ended."""

    line: str
    status: int
    """As bash has it: 128 + N if signal N ended it."""
    seconds: float
    """On the machine's clock."""
    folder: str
    """Where the shell is now."""


class Terminal(Protocol):
    """A terminal on a machine, with a shell of root in it. Iterate ``chunks`` on one thread; the rest from any."""

    @property
    def status(self) -> int | None:
        """How the shell ended, 128 + N if signal N ended it; None while it runs."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """What is printed, in pieces, as xterm-256color understands it; ends when the shell ends.

        Whoever asks for the next piece has shown the one before: a program that prints faster waits.
        Raises LabError if there is no shell to open, MachineLost when the machine goes.
        """
        ...

    def type(self, data: bytes) -> None:
        """Hand over what was typed, of any length; returns at once."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """The window has another size, in characters; returns at once."""
        ...

    def stop(self) -> None:
        """End it as when a window is closed: SIGHUP to all in it, SIGKILL two seconds later to what is left."""
        ...


class Machine(Protocol):
    """An open machine. All methods raise MachineLost when it is gone."""

    @property
    def facts(self) -> MachineFacts: ...

    @property
    def clock(self) -> Clock:
        """The clock by which whoever waits for the machine waits: in virtual time its own, else this computer's."""
        ...

    def sleep(self, seconds: float, *, until: Sequence[str] = ()) -> float:
        """Let time pass on the machine; returns its monotonic clock, in seconds.

        Ends earlier when the kernel tells of a change of one of the files ``until`` (sysfs_notify: poll(2), POLLPRI).
        Raises LabError if one of them is not there.
        """
        ...

    def on_command(self, listener: Callable[[CommandResult], None]) -> None:
        """Call ``listener`` after every command, from whichever thread ran it."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin_text: str = "",
        timeout_seconds: float = 120.0,
        check: bool = True,
    ) -> CommandResult:
        """Run to the end.

        Raises CommandFailed for a status other than 0 when ``check``, ToolMissing if the program is not there,
        CommandTimedOut after ``timeout_seconds``.
        """
        ...

    def stream(
        self, argv: Sequence[str], *, stdin_text: str = "", keeps_output: bool = True, is_aside: bool = False
    ) -> RunningCommand:
        """Start a command. Without ``keeps_output`` its pieces are handed on and forgotten, ``stdout`` stays empty.

        In virtual time one that runs aside takes no time by itself, until it is told to stop: the clock goes on only
        while something else is waited for.
        """
        ...

    def call(self, program: AgentProgram, arguments: Sequence[str], *, timeout_seconds: float = 120.0) -> str:
        """What a program of the lab returns, run inside the agent: no process is started.

        Raises CommandFailed with the program's reason, CommandTimedOut after ``timeout_seconds``.
        """
        ...

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Text of many small files in one round trip; None for a file that is not there or may not be read."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write a small file (a job file, a value under /sys). Raises LabError with the system's reason."""
        ...

    def list_dirs(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Sorted names in each folder; an empty tuple for a folder that is not there."""
        ...

    def sample(self, request: SampleRequest) -> SampleStream: ...

    def terminal(
        self, columns: int, rows: int, *, on_command: Callable[[TypedCommand], None] = lambda _: None
    ) -> Terminal:
        """A terminal of that many characters, with bash as root in it.

        ``on_command`` is told of each line typed at its prompt that has ended, on the thread that iterates ``chunks``.
        In virtual time a command takes its time; while a key is waited for, at the prompt or in an editor, none passes.
        """
        ...

    def is_answering(self, within_seconds: float) -> bool:
        """Whether a question that costs nothing is answered in so much of this computer's time."""
        ...

    def waited_seconds(self) -> float | None:
        """Time so far in which the machine could have run and the computer under it gave the processor to others.

        None where that cannot be told: a machine that is no process of this computer counts it as steal (proc(5)).
        """
        ...

    def close(self) -> None: ...
