"""Shared parts of the tests on real arrays: build, fill, break and repair arrays with the lab's own plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lab.arrays import operations
from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import md_path
from lab.arrays.spec import ArraySpec
from lab.arrays.status import ArrayStatus, read_array, read_arrays, wait_until_idle
from lab.disks import DiskKind, DiskSpec, Lab, LabDisk, specs
from lab.errors import WaitTimedOut
from lab.host.clock import HostClock, wait_for
from lab.machine import Machine
from lab.measure.job import LoadTarget
from lab.measure.rebuild import DataSum, sum_device
from lab.measure.samples import Sample
from lab.units import MIB

NAME = "md0"
DEVICE = "/dev/md0"


def file_disks(count: int, mebibytes: int) -> tuple[DiskSpec, ...]:
    return specs(count, DiskKind.FILE, size_bytes=mebibytes * MIB)


def written_bytes(machine: Machine, nodes: Iterable[str]) -> dict[str, int]:
    """Bytes written to each device since it exists (field 7 of its stat file, in sectors)."""
    paths = {node: f"/sys/block/{node.removeprefix('/dev/')}/stat" for node in nodes}
    texts = machine.read([*paths.values()])
    return {node: int((texts[path] or "").split()[6]) * 512 for node, path in paths.items()}


@dataclass(frozen=True, slots=True)
class Rig:
    """A lab with at most one array at a time, md0, on the first disks."""

    lab: Lab
    _written_when_blank: dict[str, int] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(disk.node for disk in self.lab.disks)

    @property
    def status(self) -> ArrayStatus:
        return read_array(self.lab.machine, NAME)

    def spec(self, level: str, members: int, **more: object) -> ArraySpec:
        """An array on the first disks. They are blank, so parity and copies match without an initial resync."""
        clean = level not in ("single", "raid0")
        return ArraySpec(level, self.nodes[:members], assume_clean=clean, **more)  # type: ignore[arg-type]

    def create(self, level: str, members: int, **more: object) -> ArraySpec:
        spec = self.spec(level, members, **more)
        self.lab.execute(spec.creation())
        return spec

    def blank(self) -> None:
        """Remove the array and blank every file disk in use. Superblocks left by a test would confuse the next test."""
        for array in read_arrays(self.lab.machine):
            self.lab.machine.run(("umount", array.device), check=False)
            self.lab.machine.run(("mdadm", "--stop", array.device), check=False)
        written = written_bytes(self.lab.machine, self.nodes)
        used = {node for node in self.nodes if written[node] != self._written_when_blank.get(node, 0)}
        self.lab.reset([disk for disk in self.lab.disks if disk.kind is DiskKind.FILE and disk.node in used])
        self._written_when_blank.update(written)

    def fill(self, device: str = DEVICE) -> DataSum:
        size = self.size_bytes(device)
        options = (f"count={size}", "iflag=count_bytes,fullblock", "oflag=direct", "conv=fsync", "status=none")
        self.lab.machine.run(("dd", "if=/dev/urandom", f"of={device}", "bs=1M", *options))
        return self.sum(device)

    def sum(self, device: str = DEVICE) -> DataSum:
        return sum_device(self.lab.machine, device)

    def size_bytes(self, device: str = DEVICE) -> int:
        return int(self.lab.machine.run(("blockdev", "--getsize64", device)).stdout)

    def place(self, spec: ArraySpec, file_system: FileSystem = FileSystem.RAW, room: int | None = None) -> LoadTarget:
        names = tuple(member.removeprefix("/dev/") for member in spec.members)
        available = room if room is not None else self.size_bytes(spec.device)
        return LoadTarget(spec.name if spec.is_array else None, spec.device, names, file_system, available)

    def idle(self) -> ArrayStatus:
        try:
            return wait_until_idle(self.lab.machine, NAME)
        except WaitTimedOut as error:
            # For an array that makes no progress: where each kernel task waits (sysrq "w").
            asked = "echo w > /proc/sysrq-trigger; dmesg | tail -n 300; grep -H . /sys/block/*/inflight"
            error.add_note(self.lab.machine.run(("sh", "-c", asked), check=False).stdout)
            raise

    def wait(self, is_reached: Callable[[ArrayStatus], bool], what: str) -> ArrayStatus:
        return wait_for(lambda: self.status, is_reached, what=what, timeout_seconds=120, clock=HostClock())

    def limit_sync(self, kib_per_second: int | None) -> None:
        plan = operations.set_sync_speed(
            NAME, minimum_kib_per_second=kib_per_second, maximum_kib_per_second=kib_per_second
        )
        self.lab.execute(plan)

    def hold_sync(self, at_bytes: int) -> None:
        """Make the next sync stop at this offset of each member. md refuses the setting while a sync is running."""
        self.lab.machine.write(md_path(NAME, "sync_max"), str(at_bytes // 512))

    def wait_for_held_sync(self, at_bytes: int) -> ArrayStatus:
        return self.wait(
            lambda status: status.sync_progress is not None and status.sync_progress.done_sectors == at_bytes // 512,
            f"a sync that has stopped at {at_bytes} bytes",
        )

    def written_bytes(self, node: str) -> int:
        return written_bytes(self.lab.machine, [node])[node]


def bare(disk: LabDisk) -> LoadTarget:
    return LoadTarget(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)


def run_lengths(samples: tuple[Sample, ...]) -> list[int]:
    """The degraded counts in the samples, without consecutive duplicates."""
    counts = [sample.degraded_count for sample in samples if sample.degraded_count is not None]
    return [count for index, count in enumerate(counts) if index == 0 or counts[index - 1] != count]
