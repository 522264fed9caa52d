"""What every sub-command is given: the target, how to talk, and this computer's ``lab.host``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.cli.output import err
from lab.errors import LabError, SpecError
from lab.host import signals
from lab.parts import added

if TYPE_CHECKING:
    from pathlib import Path

    from lab.disks import Lab, Opener
    from lab.machine import Host, Machine, Target
    from lab.machine.api import CommandResult
    from lab.plans import Plan

ON_VARIABLE = "RAIDLAB_ON"


@dataclass(frozen=True, slots=True)
class Options:
    """The global options as they were typed."""

    on: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    command: str = "raidlab"


class Narrator:
    """Tells on standard error what happens: of all commands those of announced plans, or all if ``verbose``."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._announced: set[tuple[str, ...]] = set()

    def notice(self, text: str) -> None:
        """One line for people."""
        if not self._quiet:
            err(f"raidlab: {text}")

    def announce(self, plan: Plan) -> None:
        """The steps of this plan are shown when they have run."""
        self._announced.update(step.argv for step in plan.steps)

    def listen(self, machine: Machine) -> None:
        """Hear of every command that the machine runs."""
        machine.on_command(self._on_command)

    def _on_command(self, result: CommandResult) -> None:
        if self._quiet or not (self._verbose or result.argv in self._announced):
            return
        failed = f"status {result.status}, " if result.status else ""
        err(f"$ {shlex.join(result.argv)}  ({failed}{result.duration_seconds:.2f} s)")


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
    """Another way to open a lab, for tests."""

    @property
    def is_embedded(self) -> bool:
        return self.target.kind == "uml"

    def open_lab(self) -> AbstractContextManager[Lab]:
        """The lab that lasts; what it does is narrated."""
        from lab.disks import open_lab

        opener = self.opener or open_lab
        return opener(self.target, self.host, on_notice=self.narrator.notice, on_machine=self.narrator.listen)


_options: ContextVar[Options] = ContextVar("options", default=Options())  # noqa: B039 - frozen
_opener: ContextVar[Opener | None] = ContextVar("opener", default=None)


def use_options(options: Options) -> None:
    """Remember what was typed, for ``current``."""
    _options.set(options)


def use_opener(opener: Opener | None) -> None:
    """Open labs in another way; tests do. None: as they are."""
    _opener.set(opener)


def options() -> Options:
    """The global options."""
    return _options.get()


def current() -> Context:
    """The context of this invocation. Raises SpecError for what is no target."""
    from lab.machine import Host, default_target, parse_target
    from lab.results.leftovers import sweep

    signals.close_in_order()
    typed = options()
    host = Host.real(typed.command)
    text = typed.on or os.environ.get(ON_VARIABLE) or default_target(host)
    narrator = Narrator(quiet=typed.quiet, verbose=typed.verbose)
    # Every command clears away what a killed one left, also one that opens no machine.
    # A state folder that cannot be used is told by what uses it; 'doctor' lists it among the rest.
    with suppress(LabError):
        for notice in (*sweep(host.state.results), *host.state.sweep()):
            narrator.notice(notice)
    return Context(parse_target(text), typed.json, typed.quiet, typed.verbose, host, narrator, _opener.get())


CLUSTER_HELP = "Spread it: local[:N], ssh:HOST,HOST, or a scheduler's address. Nothing: as a part of this command."


def require_shared(files: Iterable[Path], known: Iterable[Path], *, is_proof: bool) -> None:
    """Raises SpecError for what a cluster cannot prove: it has what comes with raidlab, not a file of this computer."""
    if not is_proof:
        raise SpecError("--cluster spreads proofs, and none is asked for", hint="add --prove, or leave --cluster out")
    own = {path.resolve() for path in known}
    if strange := next((path for path in files if path.resolve() not in own), None):
        raise SpecError(
            f"the workers of a cluster do not have '{strange}'", hint="leave --cluster out to prove it here"
        )


@contextmanager
def calls_on(cluster: str, context: Context) -> Iterator[Any]:
    """What calls functions on a cluster (lab.sweep.calls); None for no cluster. Raises SpecError."""
    if not cluster:
        yield None
        return
    opened = added("calls on a cluster")
    if opened is None:
        raise SpecError("this raidlab has no clusters", hint="leave --cluster out, or install it whole")
    with opened(cluster, context.host, context.narrator.notice) as calls:
        yield calls


def is_terminal() -> bool:
    """Whether someone can be asked: standard input and error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()
