"""What a step does when the student lets the lab do it. Each action also knows the command that does it by hand.

Actions go through the same plans as every other client of ``lab.session``; most of them are one plan, which the app can
show before it runs.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from typing import ClassVar

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.errors import LabError
from lab.gates.names import Name, Names
from lab.gates.numbers import parse_bytes
from lab.plans import Plan
from lab.session import breaking, data_mark
from lab.session.session import LabSession, link_disks
from lab.session.shell import Shell

_SHOWN_CHARACTERS = 400
"""Of what a line printed that failed."""


class LessonAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="act"):
    """One thing to do. Subclasses carry a tag, the name in lesson files."""

    @property
    def name(self) -> str:
        """The name in lesson files."""
        return str(self.__struct_config__.tag)

    @abstractmethod
    def by_hand(self) -> str:
        """The same as a command of the shell."""

    @abstractmethod
    def perform(self, session: LabSession) -> None:
        """Do it in an open lab. Raises what the lab raises."""


class PlanAction(LessonAction, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action that is one plan."""

    @abstractmethod
    def plan(self, session: LabSession) -> Plan:
        """What would be done. Raises LabError for what cannot be."""

    def perform(self, session: LabSession) -> None:
        session.run(self.plan(session))


class ArrayAction(LessonAction, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action on an array that is there."""

    command: ClassVar[str] = ""
    """Of ``raidlab array``."""
    array: Name = "md0"

    def by_hand(self) -> str:
        return f"raidlab array {self.command} {self.array}"


class DiskAction(ArrayAction, PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One plan on a disk of an array."""

    disk: Names

    def by_hand(self) -> str:
        return f"{super().by_hand()} {self.disk}"


class Create(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.create"):
    """Build an array of these disks, ``disk01,disk02``."""

    array: Name = "md0"
    level: Name
    disks: Names
    spares: Names = ""
    chunk: str = ""
    """Written ``64K``; empty: mdadm's choice."""
    layout: Name | None = None
    bitmap: Bitmap = Bitmap.NONE
    bitmap_chunk: str = ""
    policy: ConsistencyPolicy = ConsistencyPolicy.RESYNC
    assume_clean: bool = False
    file_system: FileSystem = FileSystem.RAW
    """The file system that is made on it."""

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
        words += [f"--policy {self.policy.value}"] if self.policy is not ConsistencyPolicy.RESYNC else []
        words += [f"--fs {self.file_system.value}"] if self.file_system is not FileSystem.RAW else []
        return " ".join([*words, *(["--assume-clean"] if self.assume_clean else [])])

    def plan(self, session: LabSession) -> Plan:
        return session.creation(self.spec(session), self.file_system)

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
            consistency_policy=self.policy,
            assume_clean=self.assume_clean,
        )


class Destroy(ArrayAction, PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.destroy"):
    """Stop an array for good."""

    command = "destroy"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).destroy()


class Fail(LessonAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.fail"):
    """Let members fail, one after the other, ``disk01,disk02``; ``break_array`` also what the array cannot spare."""

    array: Name = "md0"
    disk: Names
    break_array: bool = False

    def by_hand(self) -> str:
        insists = " --break-array" if self.break_array else ""
        return "\n".join(f"raidlab array fail {self.array} {disk}{insists}" for disk in self.disk.split(","))

    def perform(self, session: LabSession) -> None:
        for disk in self.disk.split(","):
            session.run(session.array(self.array).fail(disk, breaks_array=self.break_array))


class Remove(DiskAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.remove"):
    """Take a failed member out."""

    command = "remove"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).remove(self.disk)


class Add(DiskAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.add"):
    """Put a disk in: it is rebuilt as a whole, or waits as a spare."""

    command = "add"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).add(self.disk)


class ReAdd(DiskAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.re-add"):
    """Put a former member back by its bitmap."""

    command = "re-add"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).re_add(self.disk)


class Scrub(PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.scrub"):
    """Read everything and compare copies or parity; with ``repair`` also make them agree. Waits for the end."""

    array: Name = "md0"
    repair: bool = False

    def by_hand(self) -> str:
        return f"raidlab array scrub {self.array}{' repair' if self.repair else ''}"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).scrub("repair" if self.repair else "check")

    def perform(self, session: LabSession) -> None:
        session.run(self.plan(session))
        session.array(self.array).wait()


class Wait(ArrayAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.wait"):
    """Wait until nothing is rebuilt or synchronised any more."""

    command = "wait"

    def perform(self, session: LabSession) -> None:
        session.array(self.array).wait()


class Corrupt(DiskAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.corrupt"):
    """Overwrite part of a member's data behind md's back."""

    command = "corrupt"

    def plan(self, session: LabSession) -> Plan:
        return breaking.corrupt(session, self.array, self.disk)


class WriteMark(ArrayAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.write"):
    """Write known data, and keep their checksum."""

    command = "mark"

    def perform(self, session: LabSession) -> None:
        data_mark.write_mark(session, self.array)


class VerifyMark(ArrayAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.verify"):
    """Read the known data past the caches and compare."""

    command = "verify"

    def perform(self, session: LabSession) -> None:
        data_mark.verify_mark(session, data_mark.require_mark(session, self.array))


class StopArray(ArrayAction, PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.stop"):
    """Stop an array; it stays on its disks."""

    command = "stop"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).stop()


class Replace(DiskAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.replace"):
    """Copy a working member to another disk, then retire it."""

    command = "replace"
    new: Name

    def by_hand(self) -> str:
        return f"{super().by_hand()} {self.new}"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).replace(self.disk, self.new)


class Grow(ArrayAction, PlanAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.grow"):
    """Reshape an array to so many members, this disk among them."""

    command = "grow"
    disk: Name
    members: int

    def by_hand(self) -> str:
        return f"{super().by_hand()} --members {self.disk}"

    def plan(self, session: LabSession) -> Plan:
        return session.array(self.array).grow(disks=[self.disk])


class ShellLine(LessonAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="shell"):
    """Run a line of the shell as root on the machine; the disks are /dev/lab/disk01 and so on."""

    line: str

    def by_hand(self) -> str:
        return f"raidlab exec {shlex.quote(self.line)}"

    def perform(self, session: LabSession) -> None:
        """Only in an embedded kernel, which writes nothing but its own disks: a lesson may come from anybody.

        Raises LabError elsewhere, and for a line that ends with a status other than 0.
        """
        if not session.is_embedded:
            raise LabError(
                f"a line of a lesson is not run by the lab on {session.target}, where it could write on any disk",
                hint=f"read it and type it yourself: {self.line}",
            )
        link_disks(session)
        shell = Shell(session)
        try:
            result = shell.run(self.line)
        finally:
            shell.close()
        session.rescan()
        if result.status:
            raise LabError(
                f"the line ended with status {result.status}: {self.line}",
                hint=f"it said: {result.output.strip()[-_SHOWN_CHARACTERS:] or 'nothing'}",
            )


class ApartAction(LessonAction, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action on a lab of its own, with disks of its own; on some machines the open lab must be closed first."""

    @property
    @abstractmethod
    def told(self) -> str:
        """What goes on meanwhile, in a few words."""

    def perform(self, session: LabSession) -> None:
        """Nothing here: it is done by ``LessonSession.do_apart``."""


class RunMeasurement(ApartAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="measure"):
    """Run a measurement of the lesson, on emulated drives of its own."""

    measure: Name

    @property
    def told(self) -> str:
        return self.measure

    def by_hand(self) -> str:
        return f"raidlab lesson measure {self.measure}"


def _size(text: str) -> int | None:
    """Bytes of a size as written; None for an empty one. Raises SpecError for what is no size."""
    return parse_bytes(text) if text else None
