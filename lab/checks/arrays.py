"""Checks on running arrays, their disks and known data."""

from __future__ import annotations

from abc import abstractmethod

from lab.arrays.level_names import layout_name
from lab.arrays.levels import LevelName
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.checks.state import Check, CheckedState, CheckOutcome, Facts
from lab.gates.numbers import parse_bytes
from lab.host.clock import moment
from lab.session.monitor import EventKind
from lab.units import human_bytes


class ArrayCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on one running array."""

    array: str = "md0"

    def look(self, lab: CheckedState) -> CheckOutcome:
        status = lab.arrays.get(self.array)
        if status is None:
            return CheckOutcome(False, "array-missing", {"array": self.array})
        return self.judge(status, lab)

    @abstractmethod
    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        """Return the outcome for an array that exists."""


class ArrayExists(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.exists"):
    """The array is running."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        return CheckOutcome(
            status.state.is_running, "array-is-state", {"array": self.array, "state": status.state.value}
        )


class ArrayLevel(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.level"):
    """The array has this level, such as ``raid5``."""

    level: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        return CheckOutcome(status.level == self.level, "array-is-level", {"array": self.array, "level": status.level})


class ArrayStateIs(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.state"):
    """The state of the array (md/array_state) is one of these."""

    is_one_of: tuple[str, ...]

    @property
    def facts(self) -> Facts:
        return {"array": self.array, "states": ", ".join(self.is_one_of)}

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.state.value
        return CheckOutcome(found in self.is_one_of, "array-is-state", {"array": self.array, "state": found})


class ArrayHealthy(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.healthy"):
    """All members are present and in sync, and no resync, rebuild, scrub or reshape is running or pending."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.is_degraded:
            return _degraded(status)
        if _owes_sync(status):
            return CheckOutcome(False, "array-syncs", {"array": self.array, "action": status.sync_action.value})
        return CheckOutcome(
            not status.state.is_broken, "array-is-state", {"array": self.array, "state": status.state.value}
        )


class ArrayDegraded(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.degraded"):
    """The array has this number of missing members (md/degraded)."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = _degraded(status)
        return CheckOutcome(status.degraded_count == self.equals, found.said, found.facts)


class ArrayMembers(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.members"):
    """The array has this number of slots (md/raid_disks)."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.raid_disks
        return CheckOutcome(found == self.equals, "array-has-members", {"array": self.array, "members": found})


class ArrayDisks(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.disks"):
    """The members of the array are these disks, written ``disk01,disk02``, in any order; faulty members count."""

    disks: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        names = {node: name for name, node in lab.nodes.items()}
        found = {names.get(member.device, member.device) for member in status.members}
        facts = {"array": self.array, "disks": ", ".join(sorted(found))}
        return CheckOutcome(found == set(self.disks.split(",")), "array-has-disks", facts)


class ArrayChunk(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.chunk"):
    """The array has this chunk size, written ``64K``."""

    equals: str

    def __post_init__(self) -> None:
        parse_bytes(self.equals, what="equals")

    @property
    def facts(self) -> Facts:
        return {"array": self.array, "chunk": human_bytes(parse_bytes(self.equals))}

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = human_bytes(status.chunk_bytes) if status.chunk_bytes else "–"
        facts = {"array": self.array, "chunk": found}
        return CheckOutcome(status.chunk_bytes == parse_bytes(self.equals), "array-has-chunk", facts)


class ArrayLayout(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.layout"):
    """The array has this layout, such as ``left-symmetric`` or ``n2``."""

    layout: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = None
        if status.layout_number is not None and status.level in tuple(LevelName):
            found = layout_name(LevelName(status.level), status.layout_number)
        return CheckOutcome(found == self.layout, "array-has-layout", {"array": self.array, "layout": found or "–"})


class ArrayBitmap(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.bitmap"):
    """The array has a write-intent bitmap, or none with ``present = false``."""

    present: bool = True

    @property
    def wanted(self) -> str:
        return self.name if self.present else "array.no-bitmap"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        said = "array-has-bitmap" if status.has_bitmap else "array-has-no-bitmap"
        return CheckOutcome(status.has_bitmap is self.present, said, {"array": self.array})


class ArraySpares(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.spares"):
    """The array has this number of spares."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = len(status.spares)
        return CheckOutcome(found == self.equals, "array-has-spares", {"array": self.array, "spares": found})


class ArrayLost(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.lost"):
    """The array lost more members than its level tolerates: its state is ``broken``, or md/degraded is too high."""

    parity_members: int = 0
    """Members that a parity level can lose: such a level never has the state ``broken`` (md.rst). 0: only the state
    counts.
    """

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.state.is_broken:
            return CheckOutcome(True, "array-is-state", {"array": self.array, "state": status.state.value})
        found = _degraded(status)
        return CheckOutcome(0 < self.parity_members < status.degraded_count, found.said, found.facts)


class DiskInArray(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.in_array"):
    """The disk is an active member of the array: it has a slot and is in sync."""

    disk: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        state = _state(lab.member(self.array, self.disk))
        return CheckOutcome(state == "in sync", "disk-is", {"array": self.array, "disk": self.disk, "state": state})


class DiskOut(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.out_of_array"):
    """The array runs without this disk: the disk is faulty, or not a member.

    On the embedded kernel a faulty disk is no longer a member at the next command, because md omits it when the array
    is assembled again.
    """

    disk: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        state = _state(lab.member(self.array, self.disk))
        facts = {"array": self.array, "disk": self.disk, "state": state}
        return CheckOutcome(state in ("faulty", "not a member"), "disk-is", facts)


class DiskRebuilt(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.rebuilt"):
    """The disk was rebuilt during this step, and the writes to it are in this range, in percent of component_size.

    The write counter of the disk distinguishes a full rebuild from a recovery with a bitmap.
    """

    lasts = True
    disk: str
    at_least_percent: float = 0.0
    at_most_percent: float = 1000.0

    @property
    def wanted(self) -> str:
        return f"{self.name}.at-least" if self.at_least_percent else f"{self.name}.at-most"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        came = {(kind.value, self.array, self.disk) for kind in (EventKind.MEMBER_ADDED, EventKind.MEMBER_IN_SYNC)}
        member = lab.member(self.array, self.disk)
        if not came & lab.events or not member or not member.is_in_sync or not status.component_bytes:
            return CheckOutcome(False, "disk-not-rebuilt", self.facts)
        percent = 100 * lab.written_bytes.get(self.disk, 0) / status.component_bytes
        is_passed = self.at_least_percent <= percent <= self.at_most_percent
        return CheckOutcome(is_passed, "disk-was-written", {**self.facts, "percent": f"{percent:.0f}"})


class SyncFinished(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sync.finished"):
    """No resync, rebuild, scrub or reshape is running or pending."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if _owes_sync(status):
            return CheckOutcome(False, "array-syncs", {"array": self.array, "action": status.sync_action.value})
        return CheckOutcome(True, "array-idle", {"array": self.array})


class ScrubFound(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scrub.found"):
    """The last scrub of the array counted mismatches (md/mismatch_cnt)."""

    lasts = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.sync_action.is_busy:
            return CheckOutcome(False, "array-syncs", {"array": self.array, "action": status.sync_action.value})
        found = status.mismatch_sectors or 0
        return CheckOutcome(found > 0, "scrub-counted", {"array": self.array, "sectors": found})


class MarkWritten(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.written"):
    """The array holds known data."""

    array: str = "md0"

    def look(self, lab: CheckedState) -> CheckOutcome:
        is_there = self.array in lab.marks
        return CheckOutcome(is_there, "mark-there" if is_there else "mark-missing", {"array": self.array})


class MarkVerdictIs(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.verdict"):
    """The known data were verified during this step, with this verdict: intact, changed or unreadable."""

    lasts = True
    array: str = "md0"
    verdict: str

    @property
    def wanted(self) -> str:
        return f"{self.name}.{self.verdict}"

    def look(self, lab: CheckedState) -> CheckOutcome:
        mark = lab.marks.get(self.array)
        if mark is None:
            return CheckOutcome(False, "mark-missing", {"array": self.array})
        if mark.verdict is None or moment(mark.checked_utc) < moment(lab.step_began_utc):
            return CheckOutcome(False, "mark-unchecked", {"array": self.array})
        return CheckOutcome(mark.verdict == self.verdict, f"mark-{mark.verdict}", {"array": self.array})


class EventSeen(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="event.seen"):
    """This event occurred on the array, and on ``disk`` if it is given, during this step (lab/session/monitor.py)."""

    lasts = True
    event: EventKind
    array: str = "md0"
    disk: str = ""

    def look(self, lab: CheckedState) -> CheckOutcome:
        seen = any(
            kind == self.event and array == self.array and self.disk in ("", disk) for kind, array, disk in lab.events
        )
        return CheckOutcome(seen, "event-seen" if seen else "event-missing", self.facts)


def _state(member: MemberStatus | None) -> str:
    if member is None:
        return "not a member"
    if member.is_faulty:
        return "faulty"
    if member.is_rebuilding:
        return "rebuilding"
    return "spare" if member.is_spare else "in sync" if member.is_in_sync else ", ".join(sorted(member.flags))


def _owes_sync(status: ArrayStatus) -> bool:
    is_busy = status.sync_action.is_busy or status.sync_progress is not None
    # A frozen reshape is idle but incomplete.
    is_busy = is_busy or status.reshape_position_sectors is not None
    return is_busy or status.awaits_rebuild or status.awaits_resync


def _degraded(status: ArrayStatus) -> CheckOutcome:
    facts: Facts = {"array": status.name, "degraded": status.degraded_count, "members": status.raid_disks}
    return CheckOutcome(False, "array-is-degraded" if status.is_degraded else "array-is-complete", facts)
