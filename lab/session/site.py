"""Where on an array a load works and where known data lie, so that neither gets in the other's way.

On a bare array the end belongs to the data mark and the rest to loads; on a file system both are files of their own.
"""

from __future__ import annotations

from dataclasses import replace

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import names_array
from lab.arrays.names import kernel_name
from lab.errors import ArrayError
from lab.measure.job import LoadTarget
from lab.session.session import LabSession
from lab.units import KIB, MIB

MARK_BYTES = 16 * MIB
_MARK_FRACTION = 8
"""On a small array the mark takes one part in so many."""


def mark_bytes(size_bytes: int) -> int:
    """How much of a bare array belongs to the mark: 16 MiB or an eighth, in whole MiB (below 16 MiB: in 4 KiB)."""
    wanted = min(MARK_BYTES, size_bytes // _MARK_FRACTION)
    unit = MIB if wanted >= 2 * MIB else 4 * KIB
    return wanted - wanted % unit + size_bytes % (4 * KIB)


def load_target(session: LabSession, word: str) -> LoadTarget:
    """Where loads work on the array, or on the free disk, of this name; a file system that is there is mounted.

    How much a file system has free is not asked yet: see ``with_free_bytes``.
    Raises ArrayError for an array that does not run or carries something unknown, DeviceRefused for a disk in use.
    """
    if not names_array(word):
        disk = session.lab.disk(word)
        session.check_free([disk.node])
        return LoadTarget(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)
    array = session.array(word)
    status = array.status()
    kind = file_system_on(session, status.device)
    if kind is not FileSystem.RAW and not array.mounted_on:
        session.run(filesystem.mount(kind, status.device))
    members = tuple(kernel_name(member.device) for member in status.members)
    kept = mark_bytes(status.size_bytes) if kind is FileSystem.RAW else 0
    uuid = status.uuid or (array.found.uuid.replace("-", "").replace(":", "") if array.found else word)
    return LoadTarget(word, status.device, members, kind, status.size_bytes - kept, uuid, kept)


def with_free_bytes(session: LabSession, target: LoadTarget) -> LoadTarget:
    """With what the file system, if there is one, has free. Raises ArrayError if it is not mounted by the lab."""
    if target.array is None or target.is_raw:
        return target
    return replace(target, available_bytes=filesystem.free_bytes(session.machine, mount_of(session, target)))


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


def mount_of(session: LabSession, target: LoadTarget) -> str:
    """The folder on which an array's file system is mounted. Raises ArrayError if it is none of the lab's."""
    name, wanted = target.array or "", filesystem.mount_point(target.device)
    folders = session.array(name).mounted_on
    if wanted in folders:
        return wanted
    raise ArrayError(
        f"{name} is mounted on {', '.join(folders) or 'nothing'}", hint=f"mount it on {wanted}, or unmount it"
    )
