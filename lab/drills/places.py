"""Location of the copies of a drill's disks and of the records about them: with the lab's files, or on the machine."""

from __future__ import annotations

from collections.abc import Sequence

from lab.disks.kinds import DiskKind, LabDisk
from lab.machine import TargetKind
from lab.session.session import LabSession

MACHINE_FOLDER = "/var/lib/raidlab/drill"


def are_own_files(session: LabSession, disks: Sequence[LabDisk]) -> bool:
    """Whether all of these disks are files on this computer, which can be read and written here."""
    return session.target.kind is TargetKind.UML and all(disk.kind is DiskKind.FILE for disk in disks)
