"""An open machine of any kind, with methods to run commands, read files, take samples and open terminals."""

from __future__ import annotations

import base64
import contextlib
import math
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import msgspec

from lab.errors import RUN_AGAIN, CommandFailed, CommandTimedOut, LabError, MachineLost, ToolMissing
from lab.gates.decoding import SizeBytes
from lab.host.clock import Clock, HostClock
from lab.machine.channel import Channel, Message, Pending
from lab.machine.programs import Change, GuestProgram, program_files, unchanged
from lab.machine.terminal import Terminal, TypedCommand

if TYPE_CHECKING:
    from lab.machine.attached import AgentProcess
    from lab.machine.embedded import EmbeddedKernel

STDERR_TAIL_CHARACTERS = 2000
# Short requests are answered in milliseconds. A kernel that is under heavy load, or waits for one of md's locks, takes
# longer.
ANSWER_TIMEOUT_SECONDS = 120.0
SILENCE_SECONDS = 30.0
EXIT_TIMEOUT_SECONDS = 5.0
# Only programs whose package has a different name.
_PACKAGES = {
    "modprobe": "kmod",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "losetup": "mount",
    "blkdiscard": "util-linux",
    "linux.uml": "user-mode-linux",
    "ssh": "openssh-client",
}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of one command on a machine."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    duration_seconds: float
    started_seconds: float
    """The start time on the machine's monotonic clock, which also measures the duration."""
    waited_seconds: float | None = None
    """How long the client waited for the command, on the host's clock; None if equal to the duration."""

    @property
    def computer_seconds(self) -> float:
        return self.duration_seconds if self.waited_seconds is None else self.waited_seconds


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Facts about a machine, which every result records."""

    target: str
    kernel_release: str
    architecture: str
    host_name: str
    cpu_count: Annotated[int, msgspec.Meta(ge=1, le=2**20)]
    memory_bytes: SizeBytes
    is_embedded: bool
    is_virtual_time: bool = False


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The data that the agent reads at each tick.

    An interval of 0 takes one sample immediately, even while virtual time is stopped. The ``files`` are read
    completely, but only the lines of ``block_devices`` are kept from /proc/diskstats. ``thread_prefixes`` selects the
    kernel threads whose CPU times are reported, by the beginnings of their names (``md0_``).
    """

    interval_seconds: float
    files: tuple[str, ...] = ()
    block_devices: tuple[str, ...] = ()
    thread_prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawSample:
    """An unparsed sample, with the text of each file (None if it was unreadable at that time)."""

    time_seconds: float
    """The time on the machine's monotonic clock."""
    files: Mapping[str, str | None]
    thread_cpu_ticks: Mapping[str, int]
    """Maps ``NAME/PID`` of a thread to utime + stime in clock ticks (USER_HZ, 100 a second)."""


class Machine:
    """An open machine. Its methods send requests to the agent, and raise MachineLost when the machine is gone.

    As a context manager, a machine closes itself, and adds the end of the console's output to an error that leaves the
    block.

    ``started`` is the target's process (kernel, ssh), which is released at the end.
    """

    def __init__(self, channel: Channel, facts: MachineFacts, started: EmbeddedKernel | AgentProcess) -> None:
        self._channel = channel
        self.facts = facts
        self._started = started
        self.waited_seconds: Callable[[], float | None] = started.waited_seconds
        """Returns how long the machine was ready to run but had no processor (see steal, proc(5)); None if unknown."""
        self._listeners: list[Callable[[CommandResult], None]] = []
        self._close_lock = threading.Lock()
        self._load_lock = threading.Lock()
        self._loaded: set[str] = set()
        self._is_closed = False
        self.clock: Clock = MachineClock(self) if facts.is_virtual_time else HostClock()
        """The clock by which to wait on the machine. In virtual time it is the machine's own clock, else the host's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        # Closing the machine removes the output with its folder.
        if isinstance(error, LabError):
            error.console = error.console or self._started.console_tail()
        self.close()

    def sleep(self, seconds: float, *, until: Sequence[str] = ()) -> float:
        """Let time pass on the machine, and return the time on its monotonic clock, in seconds.

        The sleep ends early if the kernel reports a change of one of the files in ``until`` (sysfs_notify, poll(2),
        POLLPRI). Raises LabError if one of these files is missing.
        """
        self._load("sample")
        pending = self._channel.request("sleep", seconds=seconds, until=list(until))
        end = self.next_message(pending)
        if "error" in end:
            raise LabError(f"the machine could not wait for {', '.join(until)}: {end['text']}")
        return float(end["now"])

    def on_command(self, listener: Callable[[CommandResult], None]) -> None:
        """Call ``listener`` after each command, on the thread that waited for the command."""
        self._listeners.append(listener)

    def run(
        self, argv: Sequence[str], *, stdin_text: str = "", timeout_seconds: float = 120.0, check: bool = True
    ) -> CommandResult:
        """Run a command to its end. Raises ToolMissing, CommandTimedOut and, with ``check``, CommandFailed."""
        pending = self._channel.request("run", argv=list(argv), stdin=stdin_text, timeout=timeout_seconds)
        command = RunningCommand(self, tuple(argv), pending)
        try:
            result = command.result()
        except KeyboardInterrupt:
            with contextlib.suppress(LabError):
                self._channel.request("stop", target=pending.request_id, signal=int(signal.SIGTERM))
            raise
        if command.timed_out:
            raise _timed_out(argv, timeout_seconds)
        if check and result.status != 0:
            raise CommandFailed(argv, result.status, (result.stderr or result.stdout)[-STDERR_TAIL_CHARACTERS:])
        return result

    def stream(self, argv: Sequence[str], *, stdin_text: str = "", is_aside: bool = False) -> RunningCommand:
        """Start a command. Its output is passed on but not stored, so ``stdout`` stays empty.

        In virtual time, a command with ``is_aside`` does not advance the clock until it is asked to stop. Before that,
        the clock runs only while the client waits for something else.
        """
        pending = self._channel.request("run", argv=list(argv), stdin=stdin_text, aside=is_aside)
        return RunningCommand(self, tuple(argv), pending, keeps_output=False)

    def install(self, program: GuestProgram, change: Change = unchanged) -> str:
        """Send a program, with ``change`` applied to each module. Return the path to run with ``python3 -IS``."""
        self._load("programs")
        files = program_files(program, change)
        with self._load_lock:
            if files.folder not in self._loaded:
                self._ask("install", files.folder, folder=files.folder, files=files.texts)
                self._loaded.add(files.folder)
        return files.start

    def call(self, program: GuestProgram, arguments: Sequence[str], *, timeout_seconds: float = 120.0) -> str:
        """Run one of the lab's programs in the agent and return its text. Raises CommandFailed or CommandTimedOut."""
        folder = self.install(program).rpartition("/")[0]
        argv = program.argv_of_call(arguments)
        pending = self._channel.request("call", folder=folder, module=program.module, arguments=list(arguments))
        try:
            end = self.next_message(pending, timeout_seconds)
        except (KeyboardInterrupt, queue.Empty) as reason:
            with contextlib.suppress(LabError):
                self._channel.request("stop", target=pending.request_id)
            raise _timed_out(argv, timeout_seconds) if isinstance(reason, queue.Empty) else reason from None
        failure = end.get("failed", end.get("text"))
        status, text = (0, end.get("out", "")) if failure is None else (1, "")
        self.record(CommandResult(argv, status, text, failure or "", end.get("seconds", 0.0), end.get("started", 0.0)))
        if failure is not None:
            raise CommandFailed(argv, status, failure[-STDERR_TAIL_CHARACTERS:])
        return text

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        """Return the text of many small files in one round trip; None for a missing or unreadable file."""
        files = self._ask("read", _first_of(paths), paths=list(paths))["files"]
        return {path: files.get(path) for path in paths}

    def list_dirs(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the sorted names in each folder; an empty tuple for a missing folder."""
        names = self._ask("list", _first_of(paths), paths=list(paths))["names"]
        return {path: tuple(names.get(path, ())) for path in paths}

    def write(self, path: str, text: str) -> None:
        """Write a small file, such as a job file or a value under /sys. Raises LabError with the system's reason."""
        self._ask("write", path, path=path, base64=base64.b64encode(text.encode()).decode("ascii"))

    def sample(self, request: SampleRequest) -> SampleStream:
        self._load("sample")
        pending = self._channel.request(
            "sample",
            interval=request.interval_seconds,
            files=list(request.files),
            block_devices=list(request.block_devices),
            thread_prefixes=list(request.thread_prefixes),
        )
        return SampleStream(self, pending)

    def terminal(
        self, columns: int, rows: int, *, on_command: Callable[[TypedCommand], None] = lambda _: None
    ) -> Terminal:
        """Open a terminal of this size in characters, with bash running as root.

        ``on_command`` is called with each finished command that was typed at the prompt, on the thread that iterates
        over ``chunks``. In virtual time, the clock runs during a command, and stops while the prompt or an editor waits
        for a key.
        """
        self._load("terminal")
        return Terminal(self, self._channel, columns, rows, on_command)

    def is_answering(self, within_seconds: float) -> bool:
        """Whether the machine answers a trivial request within that time on the host's clock."""
        with contextlib.suppress(LabError, queue.Empty):
            self._channel.request("read", paths=[]).next(within_seconds)
            return True
        return False

    def close(self) -> None:
        """Ask the agent to exit, then release the target's processes. A second call does nothing."""
        with self._close_lock:
            if self._is_closed:
                return
            self._is_closed = True
        has_left = False
        try:
            with contextlib.suppress(LabError, queue.Empty):
                self._channel.request("exit").next(timeout_seconds=EXIT_TIMEOUT_SECONDS)
                has_left = True
        finally:
            try:
                self._channel.hang_up()
                self._started.release(has_left)
            finally:
                self._channel.close()

    def stop_request(self, pending: Pending, signal_number: int) -> None:
        """Ask the agent to end a long request. It is not an error if the request has already ended."""
        self._ask("stop", f"request {pending.request_id}", target=pending.request_id, signal=signal_number)

    def next_message(self, pending: Pending, timeout_seconds: float = math.inf) -> Message:
        """Return the next answer to a long request, and check the machine while none arrives. Raises queue.Empty."""
        if self.facts.is_virtual_time:
            # A ping would be an event that does not occur in other runs. The supervisor reports the machine's end.
            return pending.next(None if math.isinf(timeout_seconds) else timeout_seconds)
        while True:
            try:
                return pending.next(min(SILENCE_SECONDS, timeout_seconds))
            except queue.Empty:
                timeout_seconds -= SILENCE_SECONDS
                if timeout_seconds <= 0:
                    raise
                self.read(["/proc/uptime"])

    def record(self, result: CommandResult) -> None:
        """Notify the listeners that a command has ended."""
        for listener in self._listeners:
            listener(result)

    def _load(self, name: str) -> None:
        """Send the agent the file ``agent_{name}.py`` with further verbs, unless the agent already has it."""
        file = Path(__file__).with_name(f"agent_{name}.py")
        with self._load_lock:
            if name not in self._loaded:
                self._ask("load", file.name, name=name, source=file.read_text(encoding="utf-8"))
                self._loaded.add(name)

    def _ask(self, verb: str, what: str, **fields: object) -> Message:
        try:
            answer = self._channel.request(verb, **fields).next(ANSWER_TIMEOUT_SECONDS)
        except queue.Empty:
            raise MachineLost(
                f"{self.facts.target} did not answer within {ANSWER_TIMEOUT_SECONDS:g} s",
                hint=f"its kernel hangs, or the connection is broken; close the machine and {RUN_AGAIN}",
            ) from None
        if "error" in answer:
            raise LabError(f"the machine could not {verb} {what}: {answer['text']}")
        return answer


def _first_of(paths: Sequence[str]) -> str:
    """Return the paths as text for a message, for example ``/proc/mdstat`` or ``/proc/mdstat and 3 more``."""
    return f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else "".join(paths)


class MachineClock(HostClock):
    """The clock of a machine in virtual time, which runs while the machine works or sleeps. Its date is the host's."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def monotonic_seconds(self) -> float:
        return self._machine.sleep(0)

    def sleep(self, seconds: float) -> None:
        self._machine.sleep(seconds)


class RunningCommand:
    """A running command on a machine."""

    def __init__(self, machine: Machine, argv: tuple[str, ...], pending: Pending, *, keeps_output: bool = True) -> None:
        self._machine = machine
        self._keeps_output = keeps_output
        self._argv = argv
        self._pending = pending
        self._out: list[str] = []
        self._err: list[str] = []
        self._end: Message | None = None
        self._result: CommandResult | None = None
        self._asked = time.monotonic()

    @property
    def timed_out(self) -> bool:
        return bool(self._end and self._end.get("timed_out"))

    def chunks(self) -> Iterator[str]:
        """Yield pieces of standard output as they arrive."""
        while self._end is None:
            message = self._machine.next_message(self._pending)
            if "err" in message:
                self._err.append(message["err"])
            if "out" in message:
                if self._keeps_output:
                    self._out.append(message["out"])
                yield message["out"]
            if message.get("done"):
                self._end = message

    def result(self) -> CommandResult:
        """Wait for the end and return the result. Raises ToolMissing if the machine lacks the program."""
        if self._result is None:
            for _ in self.chunks():
                pass
            end = self._end or {}
            if end.get("error") == "not-found":
                program = self._argv[0]
                package = package_of(program)
                raise ToolMissing(
                    f"{program} is not installed on {self._machine.facts.target}",
                    hint=f"install the package '{package}' there; 'raidlab doctor' lists everything that is missing",
                )
            if "error" in end:
                raise LabError(f"'{' '.join(self._argv)}' could not be started: {end['text']}")
            self._result = CommandResult(
                argv=self._argv,
                status=end["status"],
                stdout="".join(self._out),
                stderr="".join(self._err),
                duration_seconds=end["seconds"],
                started_seconds=end["started"],
                waited_seconds=time.monotonic() - self._asked if self._machine.facts.is_virtual_time else None,
            )
            self._machine.record(self._result)
        return self._result

    def stop(self, *, signal_number: int = 2) -> None:
        """Send a signal to the command's process group. After SIGINT, fio prints its result and ends."""
        self._machine.stop_request(self._pending, signal_number)


class SampleStream:
    """The samples of one request. Iterate over them on one thread; ``stop`` may be called on any thread."""

    def __init__(self, machine: Machine, pending: Pending) -> None:
        self._machine = machine
        self._pending = pending

    def __iter__(self) -> Iterator[RawSample]:
        while not (message := self._machine.next_message(self._pending)).get("done"):
            if "sample" in message:
                data = message["sample"]
                yield RawSample(time_seconds=data["t"], files=data["files"], thread_cpu_ticks=data["threads"])
        if "error" in message:
            raise LabError(f"the machine could not take samples: {message['text']}")

    def stop(self) -> None:
        """End the stream. The iteration ends after the samples that were already sent."""
        self._machine.stop_request(self._pending, 0)


def _timed_out(argv: Sequence[str], timeout_seconds: float) -> CommandTimedOut:
    return CommandTimedOut(
        f"'{' '.join(argv)}' did not finish within {timeout_seconds:g} s and was stopped",
        hint="find out what delays it: look at 'raidlab array show', and at dmesg on the machine",
    )


def package_of(program: str) -> str:
    """Return the Debian or Ubuntu package that contains a program."""
    return _PACKAGES.get(program.rsplit("/", 1)[-1], program)
