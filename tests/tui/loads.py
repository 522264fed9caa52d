"""Messages about loads, for tests of screens."""

from __future__ import annotations

from msgspec.structs import replace

from lab.arrays.status import ArrayStatus, read_array
from lab.measure.job import Measured
from lab.session.load import Forecast, LoadPhase
from lab.session.monitor import Snapshot
from lab.units import MIB
from lab.workloads.fio_output import DirectionFigures, JobFigures, LiveInterval
from tests.tui.user import User
from tests.unit.arrays.captures import machine_with
from tests.unit.results.records import direction
from tui.state import LabMessage, LoadTicked, LoadView, SnapshotTaken


def array(label: str = "raid5") -> ArrayStatus:
    """A captured array, as md0."""
    return read_array(machine_with(label), "md0")


def measured(iops: float, *, seconds: float = 30.0, interrupted: bool = False) -> Measured:
    """Reads of 4 KiB."""
    reads = DirectionFigures(
        iops=iops,
        bandwidth_bytes_per_second=iops * 4096,
        total_ios=round(iops * seconds),
        io_bytes=round(iops * seconds) * 4096,
        runtime_seconds=seconds,
        mean_seconds=0.0002,
        max_seconds=0.02,
        p50_seconds=0.00018,
        p95_seconds=0.0005,
        p99_seconds=0.0014,
    )
    figures = JobFigures(
        job_name="load", reads=reads, fio_user_cpu_percent=1.0, fio_system_cpu_percent=2.0, interrupted=interrupted
    )
    return Measured(figures, "", 256 * MIB)


async def with_array(user: User, label: str = "raid5") -> None:
    """Show an array in the lab."""
    await post(user, SnapshotTaken(Snapshot(100.0, (array(label),), {})))


async def with_load(user: User, forecast: Forecast | None = None) -> None:
    """``rand-read-4k`` has run for 10 of 30 seconds on an array."""
    await with_array(user)
    user.lab.load = LoadView("rand-read-4k", "md0", 30.0, phase=LoadPhase.RUNNING.value, forecast=forecast)
    await user.show()
    for number in range(1, 21):
        iops = 460.0 + 7.0 * (number % 3)
        reads = replace(direction(iops, seconds=0.5, p99=0.0014), p50_seconds=0.00018)
        moment = 100.0 + number / 2
        user.app.post_message(LoadTicked(LiveInterval(0.5, reads, None, is_warmup=False), moment))
    await post(user, SnapshotTaken(Snapshot(110.0, (array(),), {})))


async def post(user: User, message: LabMessage) -> None:
    """Post a message as the lab's threads do."""
    user.app.post_message(message)
    await user.show()
