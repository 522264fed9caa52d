"""Sweeps as screens show them: the list, what a sweep would measure, and the status of each, whichever process runs it.

A plugin implements the sweeps themselves (``Sweeping``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

if TYPE_CHECKING:
    from lab.machine import Host, Target


class LatestCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that has just been measured, or could not be measured."""

    label: str
    told: str
    """The cell's speeds, or why there are none."""
    is_failed: bool = False


class SweepProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a sweep."""

    done: int
    """Cells already measured, including those of earlier sweeps."""
    running: int = 0
    failed: int = 0
    planned: int
    workers: int = 0
    left_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    cluster: str = ""
    dashboard: str = ""
    """HOST:PORT of Dask's own pages, on the computer that ran the sweep."""
    processes: dict[str, int] = {}
    """Process ids on that computer of the workers, or of the ssh that carries a remote worker, by the worker's name."""
    client: int = 0
    """The id of the process that runs the sweep."""
    is_over: bool = False
    latest: tuple[LatestCell, ...] = ()
    """The last cells of this run, oldest first."""


@dataclass(frozen=True, slots=True)
class SweepEntry:
    """A sweep that comes with raidlab, or a sweep that was run."""

    name: str
    """The name with which to find the sweep: its own name or, if it was run, the id of the run."""
    title: str
    question: str
    axes: tuple[str, ...]
    """For example ``level: raid5, raid6``."""
    state: str = ""
    """State of a sweep that was run, for example ``12 of 40, interrupted``."""


@dataclass(frozen=True, slots=True)
class SweepWork:
    """What a sweep would do here, now."""

    lines: tuple[str, ...]
    """Sentences about the cells, the time, the disk space, and what is left out."""
    cells: int
    there: int
    """The number of these cells that were measured before."""
    run_id: str
    """The newest run of the same file; empty if there is none."""
    missing_dependency: str
    """The command that installs what the sweep needs before it can run; empty if nothing is missing."""


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """The status of a sweep that has begun."""

    progress: SweepProgress | None
    is_running: bool
    """Whether the sweep is running, in this process or in another."""
    tables: tuple[str, ...] = ()
    """The results so far; none while it runs."""


@dataclass(frozen=True, slots=True)
class SweepListener:
    """Receives the progress of a running sweep, and may cancel it."""

    on_progress: Callable[[SweepProgress], None]
    on_notice: Callable[[str], None]
    is_cancelled: Callable[[], bool]


class SweepDesk(ABC):
    """The sweeps of one state folder."""

    @abstractmethod
    def entries(self) -> tuple[SweepEntry, ...]:
        """Return raidlab's own sweeps, then those that were run, newest first. Damaged runs are left out."""

    @abstractmethod
    def work(self, name: str) -> SweepWork:
        """Return what ``run`` would do. Raises SpecError, ExperimentError or ToolMissing."""

    @abstractmethod
    def newest_run(self, name: str) -> str:
        """Return the id of the newest run of the same file; empty if there is none. Raises SpecError or ResultError."""

    @abstractmethod
    def going_run(self, name: str) -> str:
        """Return the id of the newest run of the same file if it is running now, otherwise empty."""

    @abstractmethod
    def status(self, run_id: str) -> SweepStatus:
        """Return a run's status, with its results if it has ended. Raises ResultError if the run does not exist."""

    @abstractmethod
    def run(self, name: str, listener: SweepListener) -> int:
        """Measure the cells that this file's newest run lacks, or all cells in a new run if there is none.

        Return the number of failed cells.

        Raises RunCancelled, and the errors of ``work``.
        """


class Sweeping(NamedTuple):
    """Sweeps, each of which runs one experiment with many combinations of settings."""

    desk: Callable[[Target, Host], SweepDesk]
    """Returns the desk. If the target is an embedded kernel, its kind of time is used; other targets are ignored."""
