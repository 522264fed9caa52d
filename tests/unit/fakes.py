"""A fake machine and a fake clock for unit tests.

Fill ``FakeMachine`` with captured files and scripted results. ``runs`` lists what ran, ``writes`` what was written.
"""

from __future__ import annotations

import base64
import queue
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lab.disks.head_program import bytes_each
from lab.disks.inventory import READ_HEADS
from lab.errors import CommandFailed, MachineLost
from lab.host.processes import Processes, RunningProcess
from lab.machine import (
    CommandResult,
    GuestProgram,
    Machine,
    MachineFacts,
    RawSample,
    RunningCommand,
    SampleRequest,
    Terminal,
    TypedCommand,
)
from lab.machine.api import SampleStream
from lab.machine.programs import Change, unchanged

FACTS = MachineFacts(
    target="fake:",
    kernel_release="6.1.176",
    architecture="x86_64",
    host_name="fake",
    cpu_count=2,
    memory_bytes=512 << 20,
    is_embedded=True,
)


class Installed(Processes):
    """Only these programs are installed, and nothing can be started. An underscore in a name stands for a dot."""

    def __init__(self, **programs: str) -> None:
        self.programs = {name.replace("_", "."): path for name, path in programs.items()}

    def find(self, program: str) -> str | None:
        return self.programs.get(program)

    def start(self, argv: Sequence[str], **_: object) -> RunningProcess:
        raise OSError("no more processes")


class FakeClock:
    def __init__(self, *, on_sleep: Callable[[float], None] | None = None) -> None:
        self.now_seconds = 1000.0
        self.on_sleep = on_sleep

    def monotonic_seconds(self) -> float:
        return self.now_seconds

    def utc_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now_seconds)

    def sleep(self, seconds: float) -> None:
        self.now_seconds += seconds
        if self.on_sleep:
            self.on_sleep(self.now_seconds)


@dataclass
class Scripted:
    """The result of a command. ``act`` runs first and may change the machine's files."""

    stdout: str = ""
    status: int = 0
    stderr: str = ""
    act: Callable[[], None] | None = None


class FakeSampleStream(SampleStream):
    def __init__(self, samples: Sequence[RawSample]) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[RawSample]:
        yield from self._samples

    def stop(self) -> None:
        pass


class FakeRunningCommand(RunningCommand):
    """A streamed command: one chunk per line of the scripted output."""

    def __init__(self, result: CommandResult) -> None:
        self._scripted = result

    def chunks(self) -> Iterator[str]:
        yield from self._scripted.stdout.splitlines(keepends=True)

    def result(self) -> CommandResult:
        return self._scripted

    def stop(self, *, signal_number: int = 2) -> None:
        pass


class FakeTerminal(Terminal):
    """A terminal that prints what the test puts into it. ``typed`` contains what was typed."""

    def __init__(self, columns: int, rows: int, on_command: Callable[[TypedCommand], None]) -> None:
        self.sizes = [(columns, rows)]
        self.on_command = on_command
        self.typed = b""
        self.status: int | None = None
        self._printed: queue.SimpleQueue[bytes | TypedCommand | int | MachineLost] = queue.SimpleQueue()

    def put(self, printed: bytes | TypedCommand | int | MachineLost) -> None:
        """Print bytes; or make a command end, the shell exit with a status, or the machine be lost."""
        self._printed.put(printed)

    def chunks(self) -> Iterator[bytes]:
        while not isinstance(printed := self._printed.get(), int):
            if isinstance(printed, MachineLost):
                raise printed
            if isinstance(printed, TypedCommand):
                self.on_command(printed)
            else:
                yield printed
        self.status = printed

    def type(self, data: bytes) -> None:
        self.typed += data

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    def stop(self) -> None:
        self.put(129)


@dataclass
class FakeMachine(Machine):
    """A machine without an agent.

    ``answers`` maps the start of an argv to what it answers (the longest match wins; a list is used up one by one, its
    last item stays); a command without answer ends with status 0 and says nothing. ``dirs`` holds explicit listings;
    other folders are listed from the paths in ``files``.
    """

    files: dict[str, str | None] = field(default_factory=dict)
    dirs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    answers: dict[tuple[str, ...], Scripted | list[Scripted]] = field(default_factory=dict)
    samples: Sequence[RawSample] = ()
    facts: MachineFacts = FACTS
    is_lost: bool = False
    is_closed: bool = False
    runs: list[tuple[str, ...]] = field(default_factory=list)
    stdin_texts: list[str] = field(default_factory=list)
    writes: list[tuple[str, str]] = field(default_factory=list)
    reads: list[tuple[str, ...]] = field(default_factory=list)
    listings: list[tuple[str, ...]] = field(default_factory=list)
    sample_requests: list[SampleRequest] = field(default_factory=list)
    terminals: list[FakeTerminal] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    """Seconds that the machine has waited for a processor, one value for each request; the last one repeats."""
    clock: FakeClock = field(default_factory=lambda: FakeClock())
    _listeners: list[Callable[[CommandResult], None]] = field(default_factory=list)

    def sleep(self, seconds: float, *, until: Sequence[str] = ()) -> float:
        self.clock.sleep(seconds)
        return self.clock.monotonic_seconds()

    def on_command(self, listener: Callable[[CommandResult], None]) -> None:
        self._listeners.append(listener)

    def run(
        self, argv: Sequence[str], *, stdin_text: str = "", timeout_seconds: float = 120.0, check: bool = True
    ) -> CommandResult:
        result = self._execute(tuple(argv), stdin_text)
        if check and result.status != 0:
            raise CommandFailed(result.argv, result.status, result.stderr)
        return result

    def stream(self, argv: Sequence[str], *, stdin_text: str = "", is_aside: bool = False) -> FakeRunningCommand:
        return FakeRunningCommand(self._execute(tuple(argv), stdin_text))

    def install(self, program: GuestProgram, change: Change = unchanged) -> str:
        return f"/run/raidlab/{program.name}"

    def call(self, program: GuestProgram, arguments: Sequence[str], *, timeout_seconds: float = 120.0) -> str:
        said = self.run(program.argv_of_call(arguments)).stdout
        if said or program is not READ_HEADS:
            return said
        # Disks are blank unless the test says what they carry.
        first, last, *devices = arguments
        blank = bytes(bytes_each(int(first), int(last)) * len(devices))
        return base64.b64encode(zlib.compress(blank)).decode()

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        self._require_alive()
        self.reads.append(tuple(paths))
        return {path: self.files.get(path) for path in paths}

    def write(self, path: str, text: str) -> None:
        self._require_alive()
        self.writes.append((path, text))
        self.files[path] = text

    def list_dirs(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        self._require_alive()
        self.listings.append(tuple(paths))
        return {path: self._names_in(path) for path in paths}

    def terminal(
        self, columns: int, rows: int, *, on_command: Callable[[TypedCommand], None] = lambda _: None
    ) -> FakeTerminal:
        self._require_alive()
        self.terminals.append(FakeTerminal(columns, rows, on_command))
        return self.terminals[-1]

    def is_answering(self, within_seconds: float) -> bool:
        return not self.is_closed

    def waited_seconds(self) -> float | None:
        return self.waited.pop(0) if len(self.waited) > 1 else (self.waited[0] if self.waited else None)

    def sample(self, request: SampleRequest) -> FakeSampleStream:
        self._require_alive()
        self.sample_requests.append(request)
        return FakeSampleStream(self.samples)

    def close(self) -> None:
        self.is_closed = True

    def _execute(self, argv: tuple[str, ...], stdin_text: str) -> CommandResult:
        self._require_alive()
        self.runs.append(argv)
        self.stdin_texts.append(stdin_text)
        answer = self._answer_to(argv)
        if answer.act:
            answer.act()
        result = CommandResult(argv, answer.status, answer.stdout, answer.stderr, 0.01, float(len(self.runs)))
        for listener in self._listeners:
            listener(result)
        return result

    def _answer_to(self, argv: tuple[str, ...]) -> Scripted:
        starts = [start for start in self.answers if argv[: len(start)] == start]
        if not starts:
            return Scripted()
        answer = self.answers[max(starts, key=len)]
        if isinstance(answer, Scripted):
            return answer
        return answer.pop(0) if len(answer) > 1 else answer[0]

    def _names_in(self, folder: str) -> tuple[str, ...]:
        if folder in self.dirs:
            return self.dirs[folder]
        prefix = folder.rstrip("/") + "/"
        return tuple(sorted({path[len(prefix) :].split("/")[0] for path in self.files if path.startswith(prefix)}))

    def _require_alive(self) -> None:
        if self.is_lost:
            raise MachineLost("the fake machine is lost")


def as_machine(fake: FakeMachine) -> Machine:
    """Return the fake as a ``Machine``, for types that are invariant."""
    return fake
