"""What every sub-command uses, such as the target, options, output, this computer, and additions by plugins.

Data go to standard output. Notices, commands and the progress of long operations go to standard error.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from lab.errors import LabError, SpecError
from lab.gates.files import FileKind, foreign_note
from lab.gates.text import visible, visible_json
from lab.host import signals
from lab.plugins import extension, extensions
from lab.tables import Table
from lab.units import counted, human_seconds

if TYPE_CHECKING:
    from cyclopts import App
    from rich.progress import Progress, TaskID

    from lab.experiments.schedule import RunProgress
    from lab.host.pool import ClusterCalls
    from lab.machine import Host

    Loaded = App | Callable[..., Any]
    from lab.disks import Lab, Opener
    from lab.machine import Machine, Target
    from lab.machine.api import CommandResult
    from lab.plans import Plan
    from lab.results.store import ResultStore

FEWEST_COLUMNS, MOST_COLUMNS = 40, 1000


def out(text: str = "") -> None:
    """Print lines of data."""
    print(visible(text, lines=True), flush=True)


def err(text: str) -> None:
    """Print lines that are not data."""
    print(visible(text, lines=True), file=sys.stderr, flush=True)


def out_json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    out(visible_json(msgspec.json.format(_encoded(value), indent=2).decode()))


def out_json_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    out(visible_json(_encoded(value).decode()))


def _encoded(value: Any) -> bytes:
    import msgspec

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # JSON cannot represent bytes that are not UTF-8, as in file names, so they are escaped the way they are on a
        # terminal.
        return msgspec.json.encode(_written_out(msgspec.to_builtins(value)))


def _written_out(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else visible(value, lines=True)
    if isinstance(value, dict):
        return {_written_out(name): _written_out(each) for name, each in value.items()}
    return [_written_out(each) for each in value] if isinstance(value, list | tuple) else value


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> str:
    """Return a listing as text. ``right`` holds the headings of columns that are aligned to the right."""
    return fitted(Table.listing(headings, rows, right=right))


def fitted(shown: Table) -> str:
    """Return a table as text that fits the terminal."""
    return shown.as_text(output_columns())


def output_columns() -> int | None:
    """Return the width of the terminal, or None for a file or a pipe."""
    is_shown = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if is_shown else None


def pairs(values: Mapping[str, object]) -> str:
    """Return a line for each name and value, with the values aligned."""
    width = max((len(name) for name in values), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}".rstrip() for name, value in values.items())


def use_width() -> None:
    """Limit the width to values at which rich neither takes minutes nor uses gigabytes; 0 columns mean unknown."""
    for name in ("COLUMNS", "LINES"):
        typed = os.environ.pop(name, "")
        if re.fullmatch("[0-9]{1,4}", typed) and FEWEST_COLUMNS <= int(typed) <= MOST_COLUMNS:
            os.environ[name] = typed
    columns = shutil.get_terminal_size().columns
    if not FEWEST_COLUMNS <= columns <= MOST_COLUMNS:
        os.environ["COLUMNS"] = str(min(max(columns, FEWEST_COLUMNS), MOST_COLUMNS))


class ProgressBar:
    """A progress bar on standard error, used as ``with ProgressBar() as bar: bar.show("rebuild", 0.5)``."""

    def __init__(self, *, quiet: bool = False, is_terminal: bool | None = None) -> None:
        self._quiet = quiet
        self.is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._label = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show_run(self, progress: RunProgress) -> None:
        self.show(progress.label, progress.fraction, progress.left_seconds, progress.step_seconds)

    def show(self, label: str, fraction: float, left_seconds: float | None = None, step_seconds: float = 0.0) -> None:
        """Show the step and the fraction done. Without ``left_seconds``, estimate the time left from that fraction."""
        if self._quiet or not label:
            return
        if not self.is_terminal:
            if label != self._label:
                self._label = label
                times = [f"about {human_seconds(round(step_seconds))}"] if step_seconds >= 1 else []
                # An estimate for the whole run is useful only while it is clearly longer than the step itself.
                if left_seconds is not None and left_seconds >= max(60, 2 * step_seconds):
                    times.append(f"{human_seconds(left_seconds)} left")
                err(f"{label} ({', '.join(times)})" if times else label)
            return
        from rich.markup import escape

        if self._bar is None or self._task is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
            left = TextColumn("left {task.fields[left]}")
            self._bar = Progress(*columns, TimeElapsedColumn(), left, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=1.0, left="")
            self._bar.start()
        seconds = self._bar.tasks[0].time_remaining if left_seconds is None else left_seconds
        left_text = "–" if seconds is None else human_seconds(seconds)
        self._bar.update(self._task, description=escape(label), completed=fraction, left=left_text)


class Command(NamedTuple):
    """A command or a group of commands, imported when it is used."""

    words: str
    """The words after ``raidlab``. For example, ``array capacity`` is one of the commands of ``raidlab array``."""
    load: Callable[[], Loaded]
    help: str

    def add_to(self, app: App, words: Collection[str] | None = None) -> None:
        """Add the command to a group. If the typed ``words`` lack its name, add only its name and help."""
        from cyclopts import App

        name = self.words.rpartition(" ")[2]
        is_unused = words is not None and name not in words
        loaded = App(name=name, help_flags=(), version_flags=()) if is_unused else self.load()
        if isinstance(loaded, App):
            loaded.help = self.help
            app.command(loaded, name=name)
        else:
            app.command(loaded, name=name, help=self.help)


def added_commands(above: str = "") -> Iterator[Command]:
    """Yield the commands that plugins add to ``raidlab``, or to one of its commands."""
    return (each for each in extensions(Command) if each.words.rpartition(" ")[0] == above)


class Exporter(NamedTuple):
    """A way to export results."""

    option: str
    """The option of ``raidlab export`` that selects this way, or an empty string if it is the default."""
    write: Callable[[Sequence[str], Path, bool], None]
    """A function that takes the names, the file or folder to write, and whether to include practice."""


class CollectionReport(NamedTuple):
    """A report about something that is not a single result."""

    write: Callable[[Sequence[str], str, Path | None, str, Host, bool], str | None]
    """A function that takes names, format, output file, title, host, and whether nothing else was requested.

    It returns the text to print, or None if it does not recognise the names.
    """


class Cluster(NamedTuple):
    """Access to clusters."""

    calls_on: Callable[[str, Host, Callable[[str], None]], AbstractContextManager[ClusterCalls]]
    """A function that takes the value of ``--cluster``, the host, and a function that reports problems."""


ON_VARIABLE = "RAIDLAB_ON"
_FOLDED = 4
"""Sequences of at least this many commands that differ only in the last argument are reported in one line."""


@dataclass(frozen=True, slots=True)
class Options:
    """The global options, as the user typed them."""

    on: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    command: str = "raidlab"
    text: bool = False


class _Run:
    """Consecutive commands of a plan that differ only in the last argument, and are therefore reported in one line."""

    def __init__(self, commands: Sequence[tuple[str, ...]]) -> None:
        self._left, self._lasts, self._seconds = {*commands}, list[str](), 0.0

    def lines_after(self, result: CommandResult) -> list[str]:
        """Return the lines to print after a command, or none until the last command has run or one has failed."""
        if result.status:
            self._left.clear()
            return [*self._line(result.argv), f"$ {shlex.join(result.argv)}  {_how(result)}"]
        self._left.discard(result.argv)
        self._lasts.append(result.argv[-1])
        self._seconds += result.duration_seconds
        return [] if self._left else self._line(result.argv)

    def _line(self, argv: tuple[str, ...]) -> list[str]:
        if not self._lasts:
            return []
        ends = self._lasts if len(self._lasts) < _FOLDED else [self._lasts[0], "…", self._lasts[-1]]
        words = f"{shlex.join(argv[:-1])} {' '.join(ends)}"
        return [f"$ {words}  ({counted(len(self._lasts), 'command')}, {self._seconds:.2f} s)"]


def _how(result: CommandResult) -> str:
    failed = f"status {result.status}, " if result.status else ""
    return f"({failed}{result.duration_seconds:.2f} s)"


class Narrator:
    """Reports the commands of announced plans on standard error, or all commands if ``verbose`` is set."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._announced: set[tuple[str, ...]] = set()
        self._runs: dict[tuple[str, ...], _Run] = {}

    def notice(self, text: str) -> None:
        if not self._quiet:
            err(f"raidlab: {text}")

    def announce(self, plan: Plan) -> None:
        commands = [step.argv for step in plan.steps]
        self._announced.update(commands)
        for _, group in itertools.groupby(commands, key=lambda argv: argv[:-1]):
            alike = list(group)
            if len(alike) >= _FOLDED and not self._verbose:
                self._runs |= dict.fromkeys(alike, _Run(alike))

    def listen(self, machine: Machine) -> None:
        machine.on_command(self._on_command)

    def _on_command(self, result: CommandResult) -> None:
        if self._quiet or not (self._verbose or result.argv in self._announced):
            return
        run = self._runs.pop(result.argv, None)
        lines = run.lines_after(result) if run else [f"$ {shlex.join(result.argv)}  {_how(result)}"]
        for line in lines:
            err(line)


@dataclass(frozen=True, slots=True)
class Context:
    """One invocation of the command."""

    target: Target
    json: bool
    quiet: bool
    verbose: bool
    host: Host
    narrator: Narrator
    opener: Opener | None = None
    """A function that tests pass in place of the one that opens a lab."""

    @property
    def is_embedded(self) -> bool:
        return self.target.is_embedded

    @property
    def results(self) -> ResultStore:
        from lab.results.store import ResultStore

        return ResultStore(self.host.state.results)

    def out(self, value: Any, text: str) -> None:
        if self.json:
            out_json(value)
        else:
            out(text)

    def announce_foreign(self, name: str | Path, kind: FileKind, lines: Sequence[str] = ()) -> None:
        """Before a file not shipped with raidlab runs, report what it may do, even if ``quiet`` is set."""
        note = foreign_note(Path(name), kind, lines) if str(name).endswith(".toml") else ""
        if note:
            err(f"raidlab: {note}")

    def open_lab(self) -> AbstractContextManager[Lab]:
        from lab.disks import open_lab

        opener = self.opener or open_lab
        return opener(self.target, self.host, on_notice=self.narrator.notice, on_machine=self.narrator.listen)


OPTIONS: ContextVar[Options] = ContextVar("options", default=Options())  # noqa: B039 - frozen
OPENER: ContextVar[Opener | None] = ContextVar("opener", default=None)
"""The function that opens labs in tests; None is the real one."""


def named_target() -> str:
    """Return the target that the user named with --on or in the environment, or an empty string."""
    return OPTIONS.get().on or os.environ.get(ON_VARIABLE, "")


def current() -> Context:
    """Return the context of this invocation. Raises SpecError if the target is invalid."""
    from lab.machine import Host, default_target, parse_target
    from lab.results.store import ResultStore

    signals.close_in_order()
    signals.watch_terminal()
    typed = OPTIONS.get()
    host = Host.real(typed.command)
    text = named_target() or default_target(host)
    narrator = Narrator(quiet=typed.quiet, verbose=typed.verbose)
    # Every command removes the leftovers of killed commands, even if it opens no machine. An unusable state folder is
    # reported by the code that uses it and by 'doctor'.
    with suppress(LabError):
        for notice in (*ResultStore(host.state.results).runs.remove_leftovers(), *host.state.sweep()):
            narrator.notice(notice)
    return Context(parse_target(text), typed.json, typed.quiet, typed.verbose, host, narrator, OPENER.get())


CLUSTER_HELP = (
    "Where the work is done: local[:N], ssh:HOST,HOST, or a scheduler's address. The default is this process."
)


def require_shared(files: Iterable[Path], known: Iterable[Path], *, is_proof: bool) -> None:
    """Raise SpecError if a file is not shipped with raidlab, because the workers of a cluster would lack the file."""
    if not is_proof:
        raise SpecError("--cluster requires --prove", hint="add --prove, or omit --cluster")
    own = {path.resolve() for path in known}
    if strange := next((path for path in files if path.resolve() not in own), None):
        raise SpecError(
            f"the workers of a cluster do not have '{strange}'", hint="omit --cluster to run the proof on this computer"
        )


@contextmanager
def calls_on(cluster: str, context: Context) -> Iterator[ClusterCalls | None]:
    """Return the object that calls functions on a cluster, or None without a cluster. Raises SpecError."""
    if not cluster:
        yield None
        return
    found = extension(Cluster)
    if found is None:
        raise SpecError("this raidlab has no cluster support", hint="install raidlab[cluster], or omit --cluster")
    with found.calls_on(cluster, context.host, context.narrator.notice) as calls:
        yield calls


def is_terminal() -> bool:
    """Whether standard input and standard error are terminals, so that the user can be prompted."""
    return sys.stdin.isatty() and sys.stderr.isatty()
