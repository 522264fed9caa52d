"""Regions of an array for loads and for known data, so that they do not overlap.

On a bare array the end belongs to the data mark and the rest to loads; on a file system both use separate files.
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
"""On a small array the mark takes 1/8 of the size."""


def mark_bytes(size_bytes: int) -> int:
    """The part of a bare array reserved for the mark: 16 MiB or an eighth, in whole MiB (below 16 MiB: in 4 KiB)."""
    wanted = min(MARK_BYTES, size_bytes // _MARK_FRACTION)
    unit = MIB if wanted >= 2 * MIB else 4 * KIB
    return wanted - wanted % unit + size_bytes % (4 * KIB)


def load_target(session: LabSession, word: str) -> LoadTarget:
    """The target of loads on the array, or the free disk, of this name; mounts an existing file system.

    The free space of a file system is not determined here: see ``with_free_bytes``. Raises ArrayError for an array that
    is not running or has unknown content, DeviceRefused for a disk in use.
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
    """The target with the free space of its file system, if any. Raises ArrayError if the lab has not mounted it."""
    if target.array is None or target.is_raw:
        return target
    return replace(target, available_bytes=filesystem.free_bytes(session.machine, mount_of(session, target)))


def file_system_on(session: LabSession, device: str) -> FileSystem:
    """The file system on an array; RAW only if its beginning is readable and carries no signature.

    Raises ArrayError for any other content, such as partitions or several signatures, so that nothing is overwritten;
    DeviceRefused for an array in use.
    """
    types = session.lab.guard.carried([device]).get(device, ())
    if len(types) == 1 and types[0] in tuple(FileSystem):
        return FileSystem(types[0])
    if types:
        raise ArrayError(
            f"{device} carries {', '.join(types)}, which the lab does not overwrite",
            hint=f"use an array with ext4, xfs or nothing on it; 'raidlab exec -- wipefs --all {device}' erases it",
        )
    # An unreadable device is not blank: it may hold a file system whose first block is damaged.
    argv = ("dd", f"if={device}", "of=/dev/null", "bs=64K", "count=2", "iflag=direct", "status=none")
    if session.machine.run(argv, check=False).status != 0:
        raise ArrayError(
            f"the beginning of {device} cannot be read, so it is not known what is on it",
            hint="scrub the array or replace the member that cannot be read, then try again",
        )
    session.lab.guard.check_unused([device])
    return FileSystem.RAW


def mount_of(session: LabSession, target: LoadTarget) -> str:
    """The mount point of an array's file system. Raises ArrayError if it is not one of the lab's."""
    name, wanted = target.array or "", filesystem.mount_point(target.device)
    folders = session.array(name).mounted_on
    if wanted in folders:
        return wanted
    raise ArrayError(
        f"{name} is mounted on {', '.join(folders) or 'nothing'}", hint=f"mount it on {wanted}, or unmount it"
    )
