"""Snapshots of the lab for checks, as plain values, and the base class of checks.

Superblocks are stored as mdadm --examine shows them, because administrators look at that output first, and because it
reveals their mistakes.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from lab.arrays.discovery import Superblock
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.disks.kinds import LabDisk
from lab.faults.crash_points import StoredPoints
from lab.faults.scenario_run import ScenarioOutcome
from lab.gates.decoding import digits
from lab.gates.text import shortened, visible
from lab.machine import Machine
from lab.results.record import ResultRecord
from lab.session.data_mark import LastVerdict

_LINE = re.compile(r"\s*([A-Z][^:]*?) : (.*)")
_LONGEST = 200


class MemberPicture(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The superblock of one disk. If the disk has none, all fields except ``disk`` and ``note`` are empty."""

    disk: str
    uuid: str = ""
    created: str = ""
    name: str = ""
    """The array's name with the host name, for example ``server:data``."""
    device_uuid: str = ""
    level: str = ""
    devices: int = 0
    role: str = ""
    state: str = ""
    events: int = 0
    data_offset_sectors: int = 0
    chunk: str = ""
    layout: str = ""
    updated: str = ""
    bad_blocks: str = ""
    """``yes`` if the bad-block list has entries, ``no`` if it is empty or absent."""
    note: str = ""
    """mdadm's message if the disk has no superblock."""

    @property
    def has_superblock(self) -> bool:
        return bool(self.uuid)


def examine_members(machine: Machine, disks: Sequence[LabDisk]) -> dict[str, MemberPicture]:
    """Return the superblock of each disk, by disk name."""
    nodes = [disk.node for disk in disks]
    result = machine.run(("mdadm", "--examine", *nodes), check=False)
    parts: dict[str, list[str]] = {node: [] for node in nodes}
    lines: list[str] = []
    # Only a line feed ends a line here, because a name may contain other characters that ``str.splitlines`` splits at.
    for line in result.stdout.split("\n"):
        # The output for each disk begins with its device and a colon.
        lines = parts[line[:-1]] if line[:-1] in parts and line.endswith(":") else lines
        lines.append(line)
    for line in result.stderr.splitlines():
        for node in re.findall(r"/dev/[\w/.-]*\w", line):
            parts.get(node, []).append(line)
    return {disk.name: parse_examine(disk.name, "\n".join(parts[disk.node])) for disk in disks}


def parse_examine(disk: str, text: str) -> MemberPicture:
    """Parse the output of ``mdadm --examine`` for one disk.

    The fields of metadata 1.x are recognised, and those fields of metadata 0.90 that 1.x also has.
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if match := _LINE.fullmatch(line):
            found.setdefault(match[1].strip(), shortened(visible(match[2].strip()), _LONGEST))
    uuid = found.get("Array UUID") or found.get("UUID", "")
    if not uuid:
        lines = [line for line in text.split("\n") if line.strip()]
        note = shortened(visible(lines[0].strip()), _LONGEST) if lines else "nothing"
        return MemberPicture(disk=disk, note=note)
    return MemberPicture(
        disk=disk,
        uuid=uuid.split(" ")[0],
        created=found.get("Creation Time", ""),
        name=found.get("Name", "").split(" ")[0],
        device_uuid=found.get("Device UUID", ""),
        level=found.get("Raid Level", ""),
        devices=_number(found, "Raid Devices"),
        role=found.get("Device Role", ""),
        state=found.get("State", ""),
        events=_number(found, "Events"),
        data_offset_sectors=_number(found, "Data Offset"),
        chunk=found.get("Chunk Size", ""),
        layout=found.get("Layout", ""),
        updated=found.get("Update Time", ""),
        bad_blocks="yes" if "bad blocks present" in found.get("Bad Block Log", "") else "no",
    )


def freshest_events(pictures: Mapping[str, MemberPicture]) -> int:
    """Return the highest event count, or 0 if there is no superblock."""
    return max((picture.events for picture in pictures.values()), default=0)


def _number(found: Mapping[str, str], key: str) -> int:
    # Metadata 0.90 shows events as "0.42".
    return digits(found.get(key, "").split(" ")[0].rpartition(".")[2]) or 0


Facts = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class PlayedFault:
    """A run of a fault scenario, with its seed."""

    seed: int
    outcome: ScenarioOutcome


@dataclass(frozen=True, slots=True)
class DeepState:
    """Superblocks, counters and files. All fields are empty if no check or reading of the lesson needs them."""

    superblocks: Mapping[str, Superblock] = field(default_factory=dict)
    """The md superblock of each disk, by disk name."""
    resting: frozenset[str] = frozenset()
    """Arrays that exist on the disks and are not running."""
    marked_before: frozenset[str] = frozenset()
    """Names of all arrays on which known data have ever been written."""
    read_bytes: Mapping[str, int] = field(default_factory=dict)
    """Number of bytes read from each disk during this step while the lab was open, by disk name."""
    waited_seconds: Mapping[str, float] = field(default_factory=dict)
    """Total time of the requests to each array during this step while the lab was open, by array name."""
    file_system_bytes: Mapping[str, int] = field(default_factory=dict)
    """Size of the ext4 file system on each array, by array name."""
    minors: Mapping[str, int] = field(default_factory=dict)
    """Minor number of each disk's device, by disk name."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Contents of files on the machine that were written after the lab's newest array was created, by path."""


@dataclass(frozen=True, slots=True)
class DrillEnd:
    """The final state of a drill."""

    before: Mapping[str, MemberPicture]
    """The superblock of each disk when the drill began, by disk name."""
    after: dict[str, MemberPicture]
    changed: dict[str, list[list[int]]]
    """Byte ranges [first, end) of each disk that have changed since the drill began, by disk name."""
    saved_percent: float
    touched_bytes: int
    has_array: bool = False
    """Whether a running array has the data."""
    members: Sequence[str] = ()
    """Names of the lab disks that are in sync in that array."""
    is_on_overlays: bool = False
    """Whether any of the array's members would not survive a restart of the machine."""
    damaged_data: int = 0
    """Number of the members' data blocks that were correct when the drill began and are wrong now."""
    damaged_parity: int = 0
    """Number of the members' parity blocks that were correct when the drill began and are wrong now."""
    data_uuid: str = ""
    """UUID of the array that had the data when the files were complete, or an empty string if unknown."""

    @property
    def data_members(self) -> tuple[str, ...]:
        """The disks whose superblocks said, when the drill began, that they belonged to the array with the data."""
        return tuple(
            name
            for name, picture in self.before.items()
            if picture.has_superblock and picture.uuid == (self.data_uuid or picture.uuid)
        )


@dataclass(frozen=True, slots=True)
class CheckedState:
    """A snapshot of the lab and of the student's progress."""

    arrays: Mapping[str, ArrayStatus] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    """The device of each disk, by disk name."""
    marks: Mapping[str, LastVerdict | None] = field(default_factory=dict)
    """The outcome of the last verify for each array with known data, by array name, or None before the first verify."""
    events: frozenset[tuple[str, str, str]] = frozenset()
    """Kind, array and disk of each event during this step. The disk is empty if the event does not concern a disk."""
    written_bytes: Mapping[str, int] = field(default_factory=dict)
    """Number of bytes written to each disk during this step while the lab was open, by disk name."""
    results: Mapping[str, ResultRecord] = field(default_factory=dict)
    """The complete results of this lesson's measurements, by the measurement's name."""
    played: Mapping[str, PlayedFault] = field(default_factory=dict)
    """The last run of each scenario since the lesson began, by the scenario's number."""
    points: Mapping[str, StoredPoints] = field(default_factory=dict)
    """The last crash points of each configuration since the lesson began."""
    step_began_utc: str = ""
    """When the step began, in ISO 8601. Earlier verifies do not count."""
    deep: DeepState = DeepState()
    drill: DrillEnd | None = None
    """The final state of a drill, or None outside a drill."""

    def member(self, array: str, disk: str) -> MemberStatus | None:
        """Return the member on a disk, or None if the array is not running or the disk is not a member."""
        status, node = self.arrays.get(array), self.nodes.get(disk)
        return next((member for member in status.members if member.device == node), None) if status else None


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The outcome of a check. ``key`` selects a message in each language, and ``facts`` fill its placeholders."""

    is_passed: bool
    key: str
    facts: Facts = field(default_factory=dict)


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="that"):
    """A requirement on the lab, with typed arguments. In a file, a check consists only of these and contains no code.

    The key ``that`` in the file selects the subclass by its tag, in which underscores join words (``disk.in_array``).
    """

    lasts: ClassVar[bool] = False
    """Whether a check that has passed once counts as passed for the rest of its step."""
    in_lessons: ClassVar[bool] = True
    needs_lab: ClassVar[bool] = True
    """Whether the check is about arrays, disks or data, so that the lab must be open."""
    needs_disks: ClassVar[bool] = False
    """Whether the check reads ``CheckedState.deep``, which is gathered only for lessons that need it."""

    @property
    def name(self) -> str:
        """The check's name in lesson files, and the key of its sentence in the messages of each language."""
        return str(self.__struct_config__.tag)

    @property
    def facts(self) -> Facts:
        """The values of the placeholders in the messages."""
        fields = msgspec.structs.asdict(self)
        return {key: value for key, value in fields.items() if isinstance(value, str | int | float)}

    @property
    def requirement_key(self) -> str:
        """The key of the sentence that states the requirement."""
        return self.name

    @abstractmethod
    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        """Evaluate the check on this snapshot, and return an outcome that says what was found."""


def all_hold(checks: Iterable[Check], lab: CheckedState) -> bool:
    """Whether all checks hold in this snapshot. A mistake is recognised only if all of its checks hold."""
    return all(check.evaluate(lab).is_passed for check in checks)
