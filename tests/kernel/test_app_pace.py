"""The app on a machine in virtual time: its clock is accelerated, paused, and stepped to the end of a rebuild."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, specs
from lab.units import KIB, MIB
from tests.kernel.student import Student, own_state, student_at
from tui.mode import TopBar

__all__ = ["own_state"]
pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide, pytest.mark.timeout(1800)]
# At a hundredfold pace a rebuild is still visible on a computer that is busy with other work.
DISKS = specs(5, DiskKind.SPINDLE, size_bytes=512 * MIB, model="slow")
STILL_SECONDS = 1.0
SETTLE_SECONDS = 600.0


class Hurried(Student):
    def seconds(self) -> float:
        """The machine's clock, read by a request that takes next to no machine time."""
        session = self.app.client.session
        assert session is not None
        return session.machine.sleep(0)

    async def pace(self, key: str, words: str) -> None:
        await self.press(key)
        await self.until(lambda: self.lab.pace and self.lab.pace.words == words, f"the pace is {words}")

    async def build(self) -> None:
        nodes = tuple(disk.node for disk in self.lab.disks[:4])
        spec = ArraySpec("raid5", nodes, name="md0", chunk_bytes=64 * KIB, assume_clean=True)
        self.app.make_and_run(lambda session: session.creation(spec))
        await self.until(lambda: self.lab.array("md0"), "the array")

    def header(self) -> str:
        return str(self.app.screen.query_one(TopBar).render())


async def test_a_rebuild_on_slow_drives_is_hurried_paused_and_stepped_through(tmp_path: Path) -> None:
    async with student_at(tmp_path, Hurried, target="uml:?time=virtual", disks=DISKS) as student:
        lab = student.lab
        await student.until(lambda: lab.pace and lab.snapshot, "the lab is open")
        assert lab.pace is not None
        assert lab.pace.words == "1x"
        await student.pace("space", "paused")

        # Plans take the machine time that they need, even during a pause, and their effects become visible.
        await student.build()
        student.app.loads.start("md0", "rand-read-4k")
        await student.until(lambda: lab.load and lab.load.phase == "preparing", "the load prepares")
        await student.pace("space", "1x")
        await student.pace("greater_than_sign", "10x")
        await student.until(lambda: lab.load and lab.load.newest, "figures of the load")
        await student.to_disk("disk02")
        await student.press("f")
        await student.confirm()
        await student.press("a")
        await student.confirm()
        await student.pace("greater_than_sign", "100x")
        seen = progress(student)
        began, computer_began = student.seconds(), time.monotonic()
        await student.until(lambda: progress(student) > seen + 0.02, "the rebuild gets on")
        passed, took = student.seconds() - began, time.monotonic() - computer_began
        assert passed > 2 * took, "the machine's clock is hurried"

        await student.pace("space", "paused")
        # The current portion of time ends first.
        deadline = time.monotonic() + SETTLE_SECONDS
        looks = [look(student)]
        while len(looks) < 2 or looks[-1][0] - looks[-2][0] > 0.01:
            assert time.monotonic() < deadline, f"the machine never paused: {looks}"
            await asyncio.sleep(STILL_SECONDS)
            looks.append(look(student))
        assert looks[-1][1:] == looks[-2][1:]
        assert progress(student) < 1, "the rebuild still runs"
        student.app.show_now()
        assert " paused " in student.header()

        await student.pace("full_stop", "step")
        await student.until(lambda: lab.pace and lab.pace.is_paused, "the step ends")
        await student.until(lambda: not lab.arrays[0].sync_action.is_busy, "the rebuild has ended")
        assert lab.arrays[0].in_sync_count == 4
        ended = [event for event in lab.events if event.kind.value == "sync-finished"]
        assert student.seconds() - ended[-1].time_seconds < 5.0, "it stands still where that happened"

        await student.press("w")
        await student.until(lambda: lab.past_loads, "the figures of the load, which are told in a pause too")


def look(student: Hurried) -> tuple[float, float, list[str]]:
    """What a pause must not change: the machine's clock, the progress of the rebuild and the drives' counters."""
    session = student.app.client.session
    assert session is not None
    texts = session.machine.read([f"/sys/block/{disk.kernel_name}/stat" for disk in student.lab.disks]).values()
    return student.seconds(), progress(student), [" ".join((text or "").split()[:7]) for text in texts]


def progress(student: Hurried) -> float:
    status = student.lab.arrays[0]
    return status.sync_progress.fraction if status.sync_progress else float(not status.is_degraded)
