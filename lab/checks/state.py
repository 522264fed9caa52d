"""What checks look at, plain values of one moment gathered from the real lab; and what a check is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from lab.arrays.discovery import Superblock
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.checks.pictures import MemberPicture
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
class DrillEnd:
    """What is there at the end of a drill."""

    before: Mapping[str, MemberPicture]
    """Name of a disk -> its superblock when the drill began."""
    after: Mapping[str, MemberPicture]
    changed: Mapping[str, Sequence[Sequence[int]]]
    """Bytes [first, end) of each disk that are not as they were."""
    saved_percent: float
    touched_bytes: int
    has_array: bool = False
    """Whether an array that runs has the data."""
    members: Sequence[str] = ()
    """Names of the lab's disks that are in sync in it."""
    is_on_overlays: bool = False
    """Some of its members, or all, are not what is there when the machine starts the next time."""
    damaged_data: int = 0
    """Blocks of data on the members that were right when the drill began and are not now."""
    damaged_parity: int = 0
    """As ``damaged_data``, of parity."""
    data_uuid: str = ""
    """Of the array with the data when its files were complete; empty: not known."""

    @property
    def data_members(self) -> tuple[str, ...]:
        """Disks that belonged to the array with the data when the drill began, as their superblocks said."""
        return tuple(
            name
            for name, picture in self.before.items()
            if picture.has_superblock and picture.uuid == (self.data_uuid or picture.uuid)
        )


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
    drill: DrillEnd | None = None
    """What is there at the end of a drill; None: there is none."""

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


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="that"):
    """One thing that must hold: a name, typed arguments and one look at the lab. No file runs code.

    ``that`` in a file names the subclass by its tag.
    """

    lasts: ClassVar[bool] = False
    """It stays passed for its step once it held: it is about an event, which may be gone at the next look."""
    in_lessons: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name in lesson files, and the key of what it wants in the words of each language."""
        return str(self.__struct_config__.tag)

    @property
    def facts(self) -> Facts:
        """What fills the placeholders of the words."""
        return {
            key: value for key, value in msgspec.structs.asdict(self).items() if isinstance(value, str | int | float)
        }

    @property
    def wanted(self) -> str:
        """The key of the sentence that says what must hold."""
        return self.name

    @abstractmethod
    def look(self, lab: CheckedState) -> CheckOutcome:
        """Whether it holds in this state of the lab, and what was found instead."""


def all_hold(checks: Iterable[Check], lab: CheckedState) -> bool:
    """Whether all checks hold in this state, as those of a mistake must."""
    return all(check.look(lab).is_passed for check in checks)
