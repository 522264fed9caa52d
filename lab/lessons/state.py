"""What checks look at: plain values of one moment, gathered from the real lab. No check reads anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.arrays.discovery import Superblock
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.faults.crash_points import StoredPoints
from lab.faults.scenario_run import ScenarioOutcome
from lab.results.record import ResultRecord

Facts = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class MarkSeen:
    """Known data on an array, and what became of it when it was last looked at."""

    verdict: str | None = None
    """``intact``, ``changed`` or ``unreadable``; None: not looked at yet."""
    checked_utc: str = ""
    """When it was looked at, ISO 8601; empty: never."""
    unreadable: tuple[tuple[int, int], ...] = ()
    """Stretches that md answers with an error: first byte and length, of the array or of the file on it."""


@dataclass(frozen=True, slots=True)
class PlayedFault:
    """A fault scenario that was played, and with which seed."""

    seed: int
    outcome: ScenarioOutcome


@dataclass(frozen=True, slots=True)
class DeepState:
    """What lies on the disks themselves; empty for lessons that have no check or reading about it."""

    superblocks: Mapping[str, Superblock] = field(default_factory=dict)
    """Name of a disk -> what its md superblock says."""
    resting: frozenset[str] = frozenset()
    """Arrays that lie on the disks and do not run."""
    marked_before: frozenset[str] = frozenset()
    """Names of arrays on which known data were written at some time."""
    read_bytes: Mapping[str, int] = field(default_factory=dict)
    """Name of a disk -> bytes read from it during this step, as far as the lab was open."""
    waited_seconds: Mapping[str, float] = field(default_factory=dict)
    """Array -> time of all its requests during this step, as far as the lab was open."""
    file_system_bytes: Mapping[str, int] = field(default_factory=dict)
    """Array -> size of the ext4 file system on it."""
    minors: Mapping[str, int] = field(default_factory=dict)
    """Name of a disk -> minor number of its device."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Path on the machine -> what is in the file, if it was written since the lab's newest array was created."""


@dataclass(frozen=True, slots=True)
class CheckedState:
    """One moment of the lab, and what the student has done so far."""

    arrays: Mapping[str, ArrayStatus] = field(default_factory=dict)
    """Running arrays by name."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Name of a disk -> its device."""
    marks: Mapping[str, MarkSeen] = field(default_factory=dict)
    """Array -> its data mark."""
    events: frozenset[tuple[str, str, str]] = frozenset()
    """What happened during this step: kind, array, disk (empty: none)."""
    written_bytes: Mapping[str, int] = field(default_factory=dict)
    """Name of a disk -> bytes written to it during this step, as far as the lab was open."""
    results: Mapping[str, ResultRecord] = field(default_factory=dict)
    """Name of a measurement of this lesson -> its complete result."""
    played: Mapping[str, PlayedFault] = field(default_factory=dict)
    """Number of a fault scenario -> what became of it when it was last played, since the lesson was begun."""
    points: Mapping[str, StoredPoints] = field(default_factory=dict)
    """Configuration -> its crash points when they were last tried, since the lesson was begun."""
    answered: frozenset[str] = frozenset()
    """Steps whose question has an answer."""
    step_began_utc: str = ""
    """ISO 8601: what was looked at before does not count."""
    deep: DeepState = DeepState()
    """What lies on the disks themselves."""

    def member(self, array: str, disk: str) -> MemberStatus | None:
        """The member on a disk, if the array runs and has it."""
        status, node = self.arrays.get(array), self.nodes.get(disk)
        return next((member for member in status.members if member.device == node), None) if status else None


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What a check found. ``said`` is a key of the words of each language, ``facts`` fill its placeholders."""

    is_passed: bool
    said: str
    facts: Facts = field(default_factory=dict)
