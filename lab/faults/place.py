"""Where faults are made: a machine that can be thrown away, with blank drives that remember what was written on them.

The lab's own embedded kernel (``make uml-kernel``) is used in virtual and in real time: only its drives keep a
record. Another machine gets plain lab disks, on which all that needs no record
can be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.disks import DiskKind, DiskSpec, Lab, open_lab
from lab.disks.kernel_drives import is_kernel_drive
from lab.disks.kinds import specs
from lab.machine import Host, Target, TargetKind
from lab.machine.kernel_image import find_kernel
from lab.units import MIB

DRIVE_MODEL = "ssd"
DRIVE_BYTES = 8 * MIB
"""Small, since whole arrays are read again and again."""


@dataclass(frozen=True, slots=True)
class FaultPlace:
    """An open machine with its drives, all blank."""

    lab: Lab
    nodes: tuple[str, ...]
    has_record: bool
    """Whether its drives can be recorded, and made to hold what a power cut could have left."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The drives' numbers in lines to their driver, in the order of ``nodes``."""
        return tuple(range(len(self.nodes)))

    def blank(self) -> None:
        """No array and blank drives again, whatever was done."""
        machine = self.lab.machine
        machine.run(("sh", "-c", "umount -a -t ext4,xfs; dmsetup remove_all --force; mdadm --stop --scan"), check=False)
        self.lab.reset(self.lab.disks)


def with_own_kernel(target: Target, host: Host) -> Target:
    """The target on the kernel that the lab builds: in virtual time unless it says otherwise.

    Raises ToolMissing with the command that builds it.
    """
    if target.kind is not TargetKind.UML:
        return target
    if "time" not in target.options:
        target = target.with_option("time", "virtual")
    if target.is_virtual_time or "kernel" in target.options:
        return target
    return target.with_option("kernel", str(find_kernel(host.processes, host.files, virtual_time=True).path))


@contextmanager
def open_place(
    target: Target,
    host: Host,
    *,
    drives: int = 8,
    size_bytes: int = DRIVE_BYTES,
    seed: int = 1,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Iterator[FaultPlace]:
    """Open a machine of its own with so many blank drives; nothing of it is left when it closes."""
    target = with_own_kernel(target, host)
    kind = DiskKind.SPINDLE if target.kind is TargetKind.UML else DiskKind.FILE
    wanted: tuple[DiskSpec, ...] = specs(
        drives, kind, size_bytes=size_bytes, model=DRIVE_MODEL if kind is DiskKind.SPINDLE else ""
    )
    with open_lab(target, host, wanted=wanted, seed=seed, on_notice=on_notice) as lab:
        yield FaultPlace(lab, tuple(disk.node for disk in lab.disks), all(map(is_kernel_drive, lab.disks)))
