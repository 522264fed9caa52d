"""A lab for tests of the app: captured sysfs of real arrays on a machine that is sampled only by the test."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.message import Message

from lab.arrays.discovery import BroughtUp
from lab.disks import DiskKind, Lab, LabDisk
from lab.disks.kinds import serial_of
from lab.errors import MachineLost
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine import Host, Machine, RawSample, SampleRequest, Target
from lab.machine.state_folder import StateFolder
from lab.units import MIB
from tests.unit.arrays import captures
from tests.unit.cli.superblocks import READS, as_read
from tests.unit.fakes import FACTS, FakeClock, FakeMachine, Scripted
from tui.client import LabClient
from tui.state import SessionOpened

TICK_SECONDS = 0.25
FIRST_SECONDS = 100.0
_LETTERS = "abcdefghi"


def file_disks(*sizes_mib: int) -> tuple[LabDisk, ...]:
    """disk01, disk02 and so on, on /dev/ubda, /dev/ubdb and so on."""
    return tuple(
        LabDisk(
            name=f"disk{number:02d}",
            kind=DiskKind.FILE,
            node=f"/dev/ubd{_LETTERS[number - 1]}",
            size_bytes=size * MIB,
            serial=serial_of(number),
        )
        for number, size in enumerate(sizes_mib, start=1)
    )


DISKS = file_disks(*[500] * 9)


class TickStream:
    """Samples that the test provides."""

    def __init__(self) -> None:
        self._samples: queue.SimpleQueue[RawSample | MachineLost | None] = queue.SimpleQueue()

    def put(self, sample: RawSample | MachineLost | None) -> None:
        self._samples.put(sample)

    def __iter__(self) -> Iterator[RawSample]:
        while (sample := self._samples.get()) is not None:
            if isinstance(sample, MachineLost):
                raise sample
            yield sample

    def stop(self) -> None:
        self.put(None)


class TickingMachine(FakeMachine):
    """A FakeMachine whose samples come from ``FakeLab.tick``."""

    stream_of_samples: TickStream | None = None

    def sample(self, request: SampleRequest) -> TickStream:  # type: ignore[override] # another kind of stream
        self._require_alive()
        self.sample_requests.append(request)
        self.stream_of_samples = TickStream()
        return self.stream_of_samples


class FakeLab:
    """Nine file disks, and the captured array that the test shows on them."""

    def __init__(self, state_folder: Path) -> None:
        self.clock = FakeClock()
        processes = Processes()
        state = StateFolder(state_folder, processes, self.clock, command="tests")
        self.host = Host(processes, HostFiles(state_folder / "root"), self.clock, state)
        (state_folder / "labs" / "default").mkdir(parents=True, exist_ok=True)
        self.machine = TickingMachine()
        self.opened = 0
        self.failure: Exception | None = None
        """Raised instead of opening, if set."""
        self.seconds = FIRST_SECONDS
        self.busy = 0
        """Bytes that every member moves in a tick."""
        self.md_works = True
        """Whether md's thread takes CPU time."""
        self._moved = dict.fromkeys((f"ubd{letter}" for letter in _LETTERS), 0)
        self.show(None)

    @contextmanager
    def open(
        self, target: Target, host: Host, /, *, on_notice: Callable[[str], None], on_machine: Callable[[Machine], None]
    ) -> Iterator[Lab]:
        """Replaces ``open_lab`` in ``open_session``."""
        if self.failure:
            raise self.failure
        self.opened += 1
        self.machine.is_lost = False
        # The samples of the previous session do not belong to this one.
        self.machine.stream_of_samples = None
        on_machine(self.machine)
        yield Lab(self.machine, self.host, DISKS)

    def show(self, label: str | None) -> None:
        """Give the machine the captured array md0, or none."""
        machine = self.machine
        machine.answers = {
            READS: Scripted(stdout=as_read([None] * len(DISKS))),
            ("wipefs", "--json"): Scripted(stdout='{"signatures": []}'),
        }
        machine.files, machine.dirs = {}, {"/sys/block": ()}
        if label:
            captures.show(machine, label)
        blocks = [f"ubd{letter}" for letter in _LETTERS]
        machine.dirs["/sys/block"] = (*(("md0",) if label else ()), *blocks)
        for name in blocks:
            machine.files[f"/sys/block/{name}/size"] = f"{500 * MIB // 512}\n"
            machine.files[f"/sys/block/{name}/dev"] = f"98:{ord(name[-1])}\n"
        machine.files["/proc/mdstat"] = f"Personalities : [raid6] [raid5]\nmd0 : active {label}\n" if label else "\n"

    def finish_sync(self) -> None:
        """End the sync of md0: all members are in sync."""
        files = self.machine.files
        for path in [path for path in files if path.startswith("/sys/block/md0/md/dev-") and path.endswith("/state")]:
            files[path] = "in_sync\n"
        files["/sys/block/md0/md/degraded"] = "0\n"
        files["/sys/block/md0/md/sync_action"] = "idle\n"
        files["/sys/block/md0/md/sync_completed"] = "none\n"
        files["/sys/block/md0/md/resync_start"] = "none\n"
        files["/proc/mdstat"] = "Personalities : [raid6] [raid5]\nmd0 : active and whole\n"

    def tick(self, count: int = 1) -> None:
        """Advance the clock by ``TICK_SECONDS`` and take a sample, ``count`` times."""
        for _ in range(count):
            self.seconds += TICK_SECONDS
            assert self.machine.stream_of_samples is not None
            self.machine.stream_of_samples.put(self.sample_now())

    def sample_now(self) -> RawSample:
        """A sample of the current state."""
        lines = []
        members = sorted(entry for entry in self.machine.dirs.get("/sys/block/md0/md", ()) if entry.startswith("dev-"))
        for number, name in enumerate(self._moved):
            if f"dev-{name}" in members:
                self._moved[name] += self.busy
            sectors = self._moved[name] // 512
            ios, busy_ms = self._moved[name] // 4096, self._moved[name] // 40960
            lines.append(
                f"98 {number} {name} {ios} 0 {sectors} {busy_ms} {ios // 2} 0 {sectors // 2} {busy_ms} 0 {busy_ms} 0"
            )
        total = sum(self._moved.values())
        ios = total // 4096
        lines.append(f"9 0 md0 {ios} 0 {total // 512} 0 {ios // 3} 0 {total // 1536} 0 0 {ios // 90} 0")
        ticks = int(self.seconds * 100)
        files = {"/proc/diskstats": "\n".join(lines) + "\n", "/proc/mdstat": self.machine.files["/proc/mdstat"]}
        return RawSample(self.seconds, files, {"md0_raid5/81": ticks // 20 if self.md_works else 0})

    def lose(self, hint: str = "see its console log") -> None:
        """Lose the machine."""
        self.machine.is_lost = True
        assert self.machine.stream_of_samples is not None
        self.machine.stream_of_samples.put(MachineLost("the embedded kernel ended unexpectedly", hint=hint))


class StillClient(LabClient):
    """Opens at once, and stores submitted jobs instead of running them."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        super().__init__("uml:", post)
        self.jobs: list[Future[Any]] = []

    def start(self) -> None:
        self._post(SessionOpened(FACTS, DISKS, BroughtUp((), (), ())))

    def submit(self, work: Callable[..., Any]) -> Future[Any]:
        self.jobs.append(Future())
        return self.jobs[-1]

    def close(self) -> None:
        return
