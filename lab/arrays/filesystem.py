"""Plans that make, mount and unmount file systems on an array device, and the free space of a file system."""

from __future__ import annotations

from enum import StrEnum

from lab.arrays.levels import kernel_name
from lab.disks.guard import MOUNT_FOLDER
from lab.errors import LabError, SpecError
from lab.machine.api import Machine
from lab.plans import Danger, Plan, Step
from lab.units import KIB, MIB, human_bytes

EXT4_BLOCK_BYTES = 4 * KIB
MKFS_TIMEOUT_SECONDS = 600.0


class FileSystem(StrEnum):
    """The file system on the array; ``raw`` means that workloads use the block device itself."""

    EXT4 = "ext4"
    XFS = "xfs"
    RAW = "raw"


_MINIMUM_BYTES = {
    FileSystem.EXT4: 4 * MIB,  # room for the smallest journal with 4 KiB blocks (mke2fs(8): 1024 blocks)
    FileSystem.XFS: 300 * MIB,  # mkfs.xfs(8) since xfsprogs 5.19
    FileSystem.RAW: 0,
}


def mount_point(device: str) -> str:
    """Return where the lab mounts the file system of ``device``, such as /run/raidlab/mnt/md0 for /dev/md0."""
    return f"{MOUNT_FOLDER}/{kernel_name(device)}"


def make(
    kind: FileSystem, device: str, *, size_bytes: int, chunk_bytes: int | None = None, full_stripe_bytes: int = 0
) -> Plan:
    """Return a plan that makes a file system on ``device``. For raw, the plan has no steps.

    ``size_bytes`` is the size of the device. ``chunk_bytes`` and ``full_stripe_bytes`` are those of the array, and
    determine ext4's stride and stripe width; mkfs.xfs reads them from md. Raises SpecError if the device is too small.
    """
    if size_bytes < _MINIMUM_BYTES[kind]:
        smallest = human_bytes(_MINIMUM_BYTES[kind])
        hint = "use larger disks or ext4" if kind is FileSystem.XFS else "use larger disks"
        size = human_bytes(size_bytes)
        raise SpecError(f"{device} of {size} is too small for {kind.value}, which needs {smallest}", hint=hint)
    if kind is FileSystem.RAW:
        return Plan(f"Use {device} without a file system")
    if kind is FileSystem.XFS:
        argv: tuple[str, ...] = ("mkfs.xfs", "-f", device)
        why = "mkfs.xfs reads chunk and stripe width from md, and overwrites whatever was on the device."
    else:
        options = "lazy_itable_init=0,lazy_journal_init=0"
        if chunk_bytes and full_stripe_bytes:
            # mke2fs would derive these values from the minimum and optimal I/O size, but here the user can read them.
            stride, width = chunk_bytes // EXT4_BLOCK_BYTES, full_stripe_bytes // EXT4_BLOCK_BYTES
            options += f",stride={stride},stripe_width={width}"
        argv = ("mkfs.ext4", "-F", "-q", "-b", str(EXT4_BLOCK_BYTES), "-E", options, device)
        why = "ext4 is laid out for the chunk and the stripe, and is fully initialised now, not during a measurement."
    step = Step(argv, why, (), Danger.DATA, (device,), MKFS_TIMEOUT_SECONDS)
    return Plan(f"Make {kind.value} on {device}", (step,))


def mount(kind: FileSystem, device: str, *, options: tuple[str, ...] = ()) -> Plan:
    """Return a plan that mounts the file system of ``device`` at its mount point. For raw, the plan has no steps."""
    if kind is FileSystem.RAW:
        return Plan(f"Use {device} without a file system")
    place = mount_point(device)
    folder = Step(("mkdir", "-p", place), "Creates the folder in which the files appear.", ("rmdir", place))
    flags = ("-o", ",".join(options)) if options else ()
    step = Step(
        argv=("mount", "-t", kind.value, *flags, device, place),
        why="From now on the files on the array appear under this folder.",
        undo=("umount", place),
        writes_devices=(device,),
    )
    return Plan(f"Mount {device}", (folder, step))


def unmount(kind: FileSystem, device: str) -> Plan:
    """Return a plan that unmounts what ``mount`` has mounted. For raw, the plan has no steps."""
    if kind is FileSystem.RAW:
        return Plan(f"Use {device} without a file system")
    place = mount_point(device)
    why = "All cached data are written to the array, which can then be stopped."
    step = Step(("umount", place), why, ("mount", "-t", kind.value, device, place), writes_devices=(device,))
    return Plan(f"Unmount {device}", (step, Step(("rmdir", place), "The mount point is no longer needed.")))


def free_bytes(machine: Machine, place: str) -> int:
    """Return how many bytes an ordinary user can still write below the folder ``place``."""
    # stat(1): %a is the number of blocks free for non-root users, %S the size of such a block.
    words = machine.run(("stat", "-f", "-c", "%a %S", place)).stdout.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise LabError(f"the free space under {place} could not be read", hint="check that the file system is mounted")
    return int(words[0]) * int(words[1])
