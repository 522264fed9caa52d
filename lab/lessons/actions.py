"""What a step does when the student lets the lab do it. Each action also knows the command that does it by hand.

Actions go through the same plans as every other client of ``lab.session``; most of them are one plan, which the app can
show before it runs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import ArraySpec, Bitmap
from lab.plans import Plan
from lab.session import breaking, data_mark, plans
from lab.session.session import LabSession
from lab.units import parse_bytes


class Hands(Protocol):
    """What carries actions out: an open lab, and a way to run the lesson's measurements."""

    @property
    def session(self) -> LabSession:
        """The lab in which the student works."""
        ...

    def run(self, plan: Plan) -> None:
        """Run a plan in it, and look at the disks anew."""
        ...

    def measure(self, name: str) -> None:
        """Run a measurement of the lesson to its end; it takes disks of its own."""
        ...


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="act"):
    """One thing to do. Subclasses carry a tag, the name in lesson files."""

    @property
    def name(self) -> str:
        """The name in lesson files."""
        return str(self.__struct_config__.tag)

    @abstractmethod
    def by_hand(self) -> str:
        """The same as a command of the shell."""

    @abstractmethod
    def perform(self, hands: Hands) -> None:
        """Do it. Raises what the lab raises."""


class PlanAction(Action, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action that is one plan."""

    @abstractmethod
    def plan(self, session: LabSession) -> Plan:
        """What would be done. Raises LabError for what cannot be."""

    def perform(self, hands: Hands) -> None:
        hands.run(self.plan(hands.session))


class Create(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.create"):
    """Build an array of these disks, ``disk01,disk02``."""

    array: str = "md0"
    level: str
    disks: str
    spares: str = ""
    chunk: str = ""
    """Written ``64K``; empty: mdadm's choice."""
    layout: str | None = None
    bitmap: Bitmap = Bitmap.NONE
    bitmap_chunk: str = ""
    assume_clean: bool = False

    def __post_init__(self) -> None:
        _size(self.chunk)
        _size(self.bitmap_chunk)

    def by_hand(self) -> str:
        words = [f"raidlab array create {self.array} --level {self.level} --disks {self.disks}"]
        words += [f"--spares {self.spares}"] if self.spares else []
        words += [f"--chunk {self.chunk}"] if self.chunk else []
        words += [f"--layout {self.layout}"] if self.layout else []
        words += [f"--bitmap {self.bitmap.value}"] if self.bitmap is not Bitmap.NONE else []
        words += [f"--bitmap-chunk {self.bitmap_chunk}"] if self.bitmap_chunk else []
        return " ".join([*words, *(["--assume-clean"] if self.assume_clean else [])])

    def plan(self, session: LabSession) -> Plan:
        return plans.create(session, self.spec(session), FileSystem.RAW)

    def spec(self, session: LabSession) -> ArraySpec:
        """The array on the devices behind the disks."""

        def nodes(words: str) -> tuple[str, ...]:
            return tuple(session.node(word) for word in words.split(",") if word)

        return ArraySpec(
            level=self.level,
            members=nodes(self.disks),
            name=self.array,
            spares=nodes(self.spares),
            chunk_bytes=_size(self.chunk),
            layout=self.layout,
            bitmap=self.bitmap,
            bitmap_chunk_bytes=_size(self.bitmap_chunk),
            assume_clean=self.assume_clean,
        )


class Destroy(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.destroy"):
    """Stop an array for good."""

    array: str = "md0"

    def by_hand(self) -> str:
        return f"raidlab array destroy {self.array}"

    def plan(self, session: LabSession) -> Plan:
        return plans.destroy(session, self.array)


class Fail(Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.fail"):
    """Let members fail, one after the other, ``disk01,disk02``; ``break_array`` also what the array cannot spare."""

    array: str = "md0"
    disk: str
    break_array: bool = False

    def by_hand(self) -> str:
        insists = " --break-array" if self.break_array else ""
        return "\n".join(f"raidlab array fail {self.array} {disk}{insists}" for disk in self.disk.split(","))

    def perform(self, hands: Hands) -> None:
        for disk in self.disk.split(","):
            hands.run(plans.fail(hands.session, self.array, disk, breaks_array=self.break_array))


class Remove(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.remove"):
    """Take a failed member out."""

    array: str = "md0"
    disk: str

    def by_hand(self) -> str:
        return f"raidlab array remove {self.array} {self.disk}"

    def plan(self, session: LabSession) -> Plan:
        return plans.remove(session, self.array, self.disk)


class Add(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.add"):
    """Put a disk in: it is rebuilt as a whole, or waits as a spare."""

    array: str = "md0"
    disk: str

    def by_hand(self) -> str:
        return f"raidlab array add {self.array} {self.disk}"

    def plan(self, session: LabSession) -> Plan:
        return plans.add(session, self.array, self.disk)


class ReAdd(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.re-add"):
    """Put a former member back by its bitmap."""

    array: str = "md0"
    disk: str

    def by_hand(self) -> str:
        return f"raidlab array re-add {self.array} {self.disk}"

    def plan(self, session: LabSession) -> Plan:
        return plans.re_add(session, self.array, self.disk)


class Scrub(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.scrub"):
    """Read everything and compare copies or parity; with ``repair`` also make them agree. Waits for the end."""

    array: str = "md0"
    repair: bool = False

    def by_hand(self) -> str:
        return f"raidlab array scrub {self.array}{' repair' if self.repair else ''}"

    def plan(self, session: LabSession) -> Plan:
        return plans.scrub(session, self.array, "repair" if self.repair else "check")

    def perform(self, hands: Hands) -> None:
        hands.run(self.plan(hands.session))
        hands.session.wait(self.array)


class Wait(Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.wait"):
    """Wait until nothing is rebuilt or synchronised any more."""

    array: str = "md0"

    def by_hand(self) -> str:
        return f"raidlab array wait {self.array}"

    def perform(self, hands: Hands) -> None:
        hands.session.wait(self.array)


class Corrupt(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.corrupt"):
    """Overwrite part of a member's data behind md's back."""

    array: str = "md0"
    disk: str

    def by_hand(self) -> str:
        return f"raidlab array corrupt {self.array} {self.disk}"

    def plan(self, session: LabSession) -> Plan:
        return breaking.corrupt(session, self.array, self.disk)


class WriteMark(Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.write"):
    """Write known data, and keep their checksum."""

    array: str = "md0"

    def by_hand(self) -> str:
        return f"raidlab array mark {self.array}"

    def perform(self, hands: Hands) -> None:
        data_mark.write_mark(hands.session, self.array)


class VerifyMark(Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.verify"):
    """Read the known data past the caches and compare."""

    array: str = "md0"

    def by_hand(self) -> str:
        return f"raidlab array verify {self.array}"

    def perform(self, hands: Hands) -> None:
        session = hands.session
        data_mark.verify_mark(session, data_mark.require_mark(session, self.array))


class Measure(Action, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="measure"):
    """Run a measurement of the lesson, on emulated drives of its own."""

    measure: str

    def by_hand(self) -> str:
        return f"raidlab lesson measure {self.measure}"

    def perform(self, hands: Hands) -> None:
        hands.measure(self.measure)


def _size(text: str) -> int | None:
    """Bytes of a size as written; None for an empty one. Raises SpecError for what is no size."""
    return parse_bytes(text) if text else None
