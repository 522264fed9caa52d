"""Machines with block devices, as /sys and /proc show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.disks import Lab, Opener
from lab.disks.kinds import DiskKind, LabDisk
from lab.host.clock import Clock
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine import Host, Machine, Target
from lab.machine.state_folder import StateFolder
from lab.units import MIB, SECTOR_BYTES
from tests.unit.fakes import FakeClock, FakeMachine, as_machine

SIZE = 500 * MIB

# Three lines as the kernel writes them (Linux 6.1, Debian 12). Mounts of disks are appended in the same format.
MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
23 27 0:22 / /sys rw,relatime - sysfs sysfs rw
24 27 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw,size=12334556k,nr_inodes=3083639,mode=755
"""
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


@dataclass(frozen=True)
class Device:
    """One entry of /sys/block. ``entries`` lists further names in its folder, such as partitions."""

    name: str
    size_bytes: int = SIZE
    number: str = "98:0"
    holders: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    read_only: bool = False
    serial: str = ""
    loop_file: str = ""
    mapped_name: str = ""


def add(fake: FakeMachine, *devices: Device) -> FakeMachine:
    for device in devices:
        base = f"/sys/block/{device.name}"
        fake.files[f"{base}/size"] = f"{device.size_bytes // SECTOR_BYTES}\n"
        fake.files[f"{base}/dev"] = f"{device.number}\n"
        fake.files[f"{base}/ro"] = f"{int(device.read_only)}\n"
        if device.serial:
            fake.files[f"{base}/serial"] = f"{device.serial}\n"
        if device.loop_file:
            fake.files[f"{base}/loop/backing_file"] = f"{device.loop_file}\n"
        if device.mapped_name:
            fake.files[f"{base}/dm/name"] = f"{device.mapped_name}\n"
        fake.dirs[f"{base}/holders"] = device.holders
        fake.dirs[f"{base}/slaves"] = device.members
        fake.dirs[base] = tuple(sorted(("dev", "holders", "queue", "ro", "size", "slaves", *device.entries)))
    return fake


def machine_of(*devices: Device, mounts: str = "", swaps: str = "") -> FakeMachine:
    fake = FakeMachine(files={"/proc/self/mountinfo": MOUNTINFO + mounts, "/proc/swaps": SWAPS + swaps})
    return add(fake, *devices)


def lab_disk(name: str = "disk01", node: str = "/dev/ubda", kind: DiskKind = DiskKind.FILE, **more: str) -> LabDisk:
    return LabDisk(name=name, kind=kind, node=node, size_bytes=SIZE, **more)


def lab_disks(
    letters: str, *, size_bytes: int = SIZE, kind: DiskKind = DiskKind.FILE, prefix: str = "/dev/ubd"
) -> tuple[LabDisk, ...]:
    """Equal disks named disk01, disk02 and so on, one for each letter."""
    return tuple(
        LabDisk(name=f"disk{number:02d}", kind=kind, node=f"{prefix}{letter}", size_bytes=size_bytes)
        for number, letter in enumerate(letters, start=1)
    )


def opener_of(machine: FakeMachine, disks: Sequence[LabDisk]) -> Opener:
    """Return an opener that opens a lab with these disks on the machine, for any target."""

    @contextmanager
    def open_fake(
        _target: Target, host: Host, /, *, on_notice: Callable[[str], None], on_machine: Callable[[Machine], None]
    ) -> Iterator[Lab]:
        on_machine(as_machine(machine))
        yield Lab(as_machine(machine), host, disks)

    return open_fake


def host_in(folder: Path, clock: Clock | None = None) -> Host:
    processes, clock = Processes(), clock or FakeClock()
    return Host(processes, HostFiles(), clock, StateFolder(folder, processes, clock, command="raidlab test"))
