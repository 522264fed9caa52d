"""The selection in an open lab, and the other state that determines which actions are possible. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.status import ArrayStatus, MemberStatus
from lab.disks.kinds import LabDisk


@dataclass(frozen=True, slots=True)
class Selection:
    """One disk and one array, in the state of the newest sample."""

    is_open: bool
    """Whether the machine is running."""
    array: ArrayStatus | None = None
    """The running array that contains the disk, otherwise the selected one."""
    disk: LabDisk | None = None
    member: MemberStatus | None = None
    """The disk as a member of ``array``; None if it is not a member."""
    free_disk: LabDisk | None = None
    """The disk that would join the array; None if no free disk is suitable."""
    is_pulled: bool = False
    was_member: bool = False
    """The disk has left ``array`` and still contains its metadata."""
    has_known_data: bool = False
    """Whether the array has known data."""
    has_load: bool = False
    """Whether a load is running, on any array."""
    stopped_array: str = ""
    """Name of an array on the disks that is not running; empty if there is none."""

    @property
    def array_name(self) -> str:
        return self.array.name if self.array else ""

    @property
    def disk_name(self) -> str:
        return self.disk.name if self.disk else ""

    @property
    def working_member(self) -> MemberStatus | None:
        """The member, unless it is faulty."""
        return self.member if self.member and not self.member.is_faulty else None

    @property
    def lack_of_array(self) -> str:
        """Why no array is available; empty if one is."""
        if self.array:
            return ""
        return f"{self.stopped_array} is stopped" if self.stopped_array else "there is no array yet"

    @property
    def lack_of_disk(self) -> str:
        """Why no disk is available; empty if one is."""
        return "" if self.disk else "no disk is selected"

    def filled(self, text: str) -> str:
        """``text`` with names substituted for ``{array}``, ``{disk}`` and ``{new}``."""
        new = self.free_disk.name if self.free_disk else ""
        return text.format(array=self.array_name, disk=self.disk_name, new=new)
