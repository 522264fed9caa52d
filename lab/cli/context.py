"""The context of every sub-command: the target, output options, and this computer's ``lab.host``."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cli.extension import Cluster, ClusterCalls
from lab.cli.output import err
from lab.errors import LabError, SpecError
from lab.gates.files import FileKind, foreign_note
from lab.host import signals
from lab.plugins import extension
from lab.units import counted

if TYPE_CHECKING:
    from lab.disks import Lab, Opener
    from lab.machine import Host, Machine, Target
    from lab.machine.api import CommandResult
    from lab.plans import Plan

ON_VARIABLE = "RAIDLAB_ON"
_FOLDED = 4
"""Minimum length of a sequence of commands, equal except for the last word, that is reported in one line."""


@dataclass(frozen=True, slots=True)
class Options:
    """The global options as typed."""

    on: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    command: str = "raidlab"
    text: bool = False


class _Run:
    """Consecutive commands of a plan that differ only in the last word: one line reports them."""

    def __init__(self, commands: Sequence[tuple[str, ...]]) -> None:
        self._left, self._lasts, self._seconds = {*commands}, list[str](), 0.0

    def told(self, result: CommandResult) -> list[str]:
        """The line, after the last command has run or one has failed; empty before."""
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


def _runs(commands: Sequence[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], _Run]]:
    """Each command of a group with a common report -> the group."""
    for _, group in itertools.groupby(commands, key=lambda argv: argv[:-1]):
        alike = list(group)
        if len(alike) >= _FOLDED:
            run = _Run(alike)
            yield from ((argv, run) for argv in alike)


class Narrator:
    """Reports progress on standard error: the commands of announced plans, or all commands if ``verbose``."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._announced: set[tuple[str, ...]] = set()
        self._runs: dict[tuple[str, ...], _Run] = {}

    def notice(self, text: str) -> None:
        if not self._quiet:
            err(f"raidlab: {text}")

    def announce(self, plan: Plan) -> None:
        self._announced.update(step.argv for step in plan.steps)
        if not self._verbose:
            self._runs.update(_runs([step.argv for step in plan.steps]))

    def listen(self, machine: Machine) -> None:
        machine.on_command(self._on_command)

    def _on_command(self, result: CommandResult) -> None:
        if self._quiet or not (self._verbose or result.argv in self._announced):
            return
        run = self._runs.pop(result.argv, None)
        lines = run.told(result) if run else [f"$ {shlex.join(result.argv)}  {_how(result)}"]
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
    """Replaces the function that opens a lab, for tests."""

    @property
    def is_embedded(self) -> bool:
        return self.target.is_embedded

    def announce_foreign(self, name: str | Path, kind: FileKind, lines: Sequence[str] = ()) -> None:
        """Report the possible effects of a file not shipped with raidlab, before anything in it runs.

        The report is printed even if ``quiet``.
        """
        note = foreign_note(Path(name), kind, lines) if str(name).endswith(".toml") else ""
        if note:
            err(f"raidlab: {note}")

    def open_lab(self) -> AbstractContextManager[Lab]:
        from lab.disks import open_lab

        opener = self.opener or open_lab
        return opener(self.target, self.host, on_notice=self.narrator.notice, on_machine=self.narrator.listen)


_options: ContextVar[Options] = ContextVar("options", default=Options())  # noqa: B039 - frozen
_opener: ContextVar[Opener | None] = ContextVar("opener", default=None)


def use_options(options: Options) -> None:
    """Store the typed options for ``current``."""
    _options.set(options)


def use_opener(opener: Opener | None) -> None:
    """Replace the function that opens labs, for tests. None restores the default."""
    _opener.set(opener)


def options() -> Options:
    """The global options."""
    return _options.get()


def current() -> Context:
    """The context of this invocation. Raises SpecError for an invalid target."""
    from lab.machine import Host, default_target, parse_target
    from lab.results.store import ResultStore

    signals.close_in_order()
    signals.watch_terminal()
    typed = options()
    host = Host.real(typed.command)
    text = typed.on or os.environ.get(ON_VARIABLE) or default_target(host)
    narrator = Narrator(quiet=typed.quiet, verbose=typed.verbose)
    # Every command removes the leftovers of a killed one, even if it opens no machine. An unusable state folder is
    # reported by the code that uses it; 'doctor' lists it too.
    with suppress(LabError):
        for notice in (*ResultStore(host.state.results).runs.remove_leftovers(), *host.state.sweep()):
            narrator.notice(notice)
    return Context(parse_target(text), typed.json, typed.quiet, typed.verbose, host, narrator, _opener.get())


CLUSTER_HELP = "Spread it: local[:N], ssh:HOST,HOST, or a scheduler's address; default: in this process."


def require_shared(files: Iterable[Path], known: Iterable[Path], *, is_proof: bool) -> None:
    """Raises SpecError for files that a cluster cannot prove: it has only the files shipped with raidlab."""
    if not is_proof:
        raise SpecError("--cluster requires --prove", hint="add --prove, or omit --cluster")
    own = {path.resolve() for path in known}
    if strange := next((path for path in files if path.resolve() not in own), None):
        raise SpecError(f"the workers of a cluster do not have '{strange}'", hint="omit --cluster to prove it here")


@contextmanager
def calls_on(cluster: str, context: Context) -> Iterator[ClusterCalls | None]:
    """The object that calls functions on a cluster; None without a cluster. Raises SpecError."""
    if not cluster:
        yield None
        return
    found = extension(Cluster)
    if found is None:
        raise SpecError("this raidlab has no cluster support", hint="install raidlab[cluster], or omit --cluster")
    with found.calls_on(cluster, context.host, context.narrator.notice) as calls:
        yield calls


def is_terminal() -> bool:
    """Whether the user can be prompted: standard input and error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()
