"""Where on an array a load works and where known data lie, so that neither gets in the other's way.

On a bare array the end belongs to the data mark and the rest to loads; on a file system both are files of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.adapt.names import is_volume_name
from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.names import is_array_name, kernel_name
from lab.errors import ArrayError
from lab.measure.job import Place
from lab.session.checks import check_free
from lab.session.session import LabSession
from lab.units import KIB, MIB

MARK_BYTES = 16 * MIB
_MARK_FRACTION = 8
"""On a small array the mark takes one part in so many."""


@dataclass(frozen=True, slots=True)
class Site:
    """An array, or a bare disk, as somewhere to work."""

    name: str
    """Of the array, or of the disk."""
    uuid: str
    """Of the array; empty for a disk."""
    device: str
    size_bytes: int
    members: tuple[str, ...]
    """Kernel names of the members, or of the disk."""
    file_system: FileSystem

    @property
    def is_raw(self) -> bool:
        return self.file_system is FileSystem.RAW

    @property
    def mark_start_bytes(self) -> int:
        """Where on a bare array the mark begins; loads end here."""
        return self.size_bytes - mark_bytes(self.size_bytes)


def mark_bytes(size_bytes: int) -> int:
    """How much of a bare array belongs to the mark: 16 MiB or an eighth, in whole MiB (below 16 MiB: in 4 KiB)."""
    wanted = min(MARK_BYTES, size_bytes // _MARK_FRACTION)
    unit = MIB if wanted >= 2 * MIB else 4 * KIB
    return wanted - wanted % unit + size_bytes % (4 * KIB)


def site_of(session: LabSession, word: str) -> Site:
    """The site meant by an array's name or by a free disk's; a file system that is there is mounted.

    Raises ArrayError for an array that does not run or carries something unknown, DeviceRefused for a disk in use.
    """
    if not (is_array_name(word) or is_volume_name(word)):
        disk = session.lab.disk(word)
        check_free(session, [disk.node])
        return Site(disk.name, "", disk.node, disk.size_bytes, (disk.kernel_name,), FileSystem.RAW)
    status = session.status_of(word)
    kind = file_system_on(session, status.device)
    if kind is not FileSystem.RAW and not session.mounted_on(word):
        session.run(filesystem.mount(kind, status.device))
    members = tuple(kernel_name(member.device) for member in status.members)
    uuid = status.uuid or _found_uuid(session, word)
    return Site(word, uuid, status.device, status.size_bytes, members, kind)


def file_system_on(session: LabSession, device: str) -> FileSystem:
    """What lies on an array. Raises ArrayError for something that the lab does not know: nothing is destroyed."""
    # blkid(8): status 2 where nothing is found.
    found = session.machine.run(("blkid", "-p", "-o", "value", "-s", "TYPE", device), check=False)
    word = found.stdout.strip()
    if not word:
        return FileSystem.RAW
    if word in tuple(FileSystem):
        return FileSystem(word)
    raise ArrayError(
        f"{device} carries {word}, which the lab does not know", hint="use an array with ext4, xfs or nothing on it"
    )


def place_of(session: LabSession, site: Site) -> Place:
    """Where loads work on a site."""
    if site.is_raw:
        available = site.mark_start_bytes if site.uuid else site.size_bytes
    else:
        available = filesystem.free_bytes(session.machine, mount_of(session, site))
    return Place(
        site.name if site.uuid else None,
        site.device,
        site.members,
        site.file_system,
        available,
        session.machine.facts.is_virtual_time,
    )


def mount_of(session: LabSession, site: Site) -> str:
    """The folder on which a site's file system is mounted. Raises ArrayError if it is none of the lab's."""
    wanted = filesystem.mount_point(site.device)
    places = session.mounted_on(site.name)
    if wanted in places:
        return wanted
    raise ArrayError(
        f"{site.name} is mounted on {', '.join(places) or 'nothing'}", hint=f"mount it on {wanted}, or unmount it"
    )


def _found_uuid(session: LabSession, name: str) -> str:
    found = session.found.array(name)
    return "".join(letter for letter in found.uuid if letter.isalnum()) if found else name
