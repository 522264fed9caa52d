"""Rebuilds of real arrays: complete, correct, measured, interrupted, and ended by the death of the kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.arrays import operations
from lab.arrays.kinds import StoppedArrays, bring_up
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.arrays.status import SyncAction
from lab.disks import DiskKind, open_lab, specs
from lab.disks.lab import lab_folder
from lab.errors import MachineLost
from lab.machine import RunningCommand
from lab.measure.rebuild import DataVerdict, fail_and_remove, measure_rebuild, sum_device, verdict
from lab.measure.samples import Recorder
from lab.units import KIB, MIB
from tests.kernel.place import host_at, kernel_target, kill_kernel
from tests.kernel.rig import DEVICE, NAME, Rig, file_disks, run_lengths

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

# Three large disks for the bitmap: mdadm uses one bit for 64 MiB, so on the others there would be only one region.
DISKS = (*file_disks(5, 24), *specs(3, DiskKind.FILE, size_bytes=384 * MIB, first=6))
HELD_BACK_KIB = 8 * KIB
"""A whole member takes several seconds at this speed."""
CRAWLING_KIB = 2 * KIB
"""Slow enough that the test sees the middle of a rebuild, even if its looks are delayed."""
HELD_AT_BYTES = 12 * MIB
"""The offset in each member at which a rebuild stops until the test continues, a multiple of every chunk size."""

BLOCK_BYTES = 4096
SLOTS = 512
SPACING_BYTES = 64 * KIB
WRITER = f"""
import mmap, os
fd = os.open("{DEVICE}", os.O_WRONLY | os.O_DIRECT)
page = mmap.mmap(-1, {BLOCK_BYTES})
number = 0
while True:
    number += 1
    page[:] = (b"%016d" % number) * {BLOCK_BYTES // 16}
    os.pwrite(fd, page, number % {SLOTS} * {SPACING_BYTES})
    print(number, flush=True)
"""
READER = f"""
import mmap, os
fd = os.open("{DEVICE}", os.O_RDONLY | os.O_DIRECT)
page = mmap.mmap(-1, {BLOCK_BYTES})
for slot in range({SLOTS}):
    os.preadv(fd, [page], slot * {SPACING_BYTES})
    whole = page[:] == page[:16] * {BLOCK_BYTES // 16}
    print(page[:16].decode("latin-1") if whole else "torn")
"""


# The crash comes first in this file, so that its kernel is the only one that runs.


def acknowledged_until(writer: RunningCommand, seconds: float, most: int) -> Iterator[int]:
    """Yield the numbers whose write had returned in the guest, as far as they arrived before the kernel died.

    Yields -1 once, when the time is over and numbers above ``most`` have come; the caller then kills the kernel.
    """
    text, deadline, last, is_killed = "", time.monotonic() + seconds, 0, False
    try:
        for chunk in writer.chunks():
            *lines, text = (text + chunk).split("\n")
            yield from (int(line) for line in lines)
            last = int(lines[-1]) if lines else last
            if last > most and time.monotonic() > deadline and not is_killed:
                is_killed = True
                yield -1
    except MachineLost:
        return


@pytest.mark.parametrize(
    ("level", "members", "policy"),
    [
        ("raid1", 2, ConsistencyPolicy.RESYNC),
        ("raid10", 4, ConsistencyPolicy.RESYNC),
        ("raid5", 3, ConsistencyPolicy.PPL),
    ],
)
def test_killed_kernel_in_a_rebuild_under_load(
    tmp_path: Path, level: str, members: int, policy: ConsistencyPolicy
) -> None:
    # RAID 5 with a partial parity log: without one md rightly refuses to start an array that is dirty and degraded.
    target, last, crash_host = kernel_target("name=crash"), 0, host_at(tmp_path)
    with lab_folder(crash_host.state, "crash") as folder:
        folder.save(file_disks(members, 64))
    with open_lab(target, crash_host) as lab:
        rig = Rig(lab)
        spec = ArraySpec(level, rig.nodes[:members], assume_clean=True, consistency_policy=policy)
        lab.execute(spec.creation())
        fail_and_remove(lab, NAME, spec.members[1])
        # The rebuild takes a quarter of an hour, since on a busy computer the writes during it take long.
        rig.limit_sync(64)
        lab.execute(operations.add(NAME, spec.members[1], erase_first=True))
        rig.wait(lambda status: status.sync_progress is not None, "a rebuild under way")
        for number in acknowledged_until(lab.machine.stream(("python3", "-c", WRITER)), 1.5, 2 * SLOTS):
            if number > 0:
                last = number
                continue
            assert rig.status.sync_action is SyncAction.RECOVER
            kill_kernel(tmp_path)
    assert last > 2 * SLOTS
    with open_lab(target, crash_host) as lab:
        rig = Rig(lab)
        found = bring_up(lab, StoppedArrays(crash_host.state.lab_folder(target.lab_name)))
        assert [array.name for array in found.started] == [NAME]
        assert rig.status.degraded_count == 1
        expect_acknowledged(rig, last)
        lab.machine.run(("mdadm", "--readwrite", DEVICE))
        assert rig.idle().degraded_count == 0
        lab.execute(operations.fail(NAME, spec.members[0]))
        expect_acknowledged(rig, last)


def expect_acknowledged(rig: Rig, last: int) -> None:
    """Require that each slot contains its newest acknowledged number, or a later one that was in flight."""
    lines = rig.lab.machine.run(("python3", "-c", READER)).stdout.split()
    expected = {number % SLOTS: number for number in range(last - SLOTS + 1, last + 1)}
    assert len(lines) == SLOTS
    older = {slot: got for slot, got in enumerate(lines) if got == "torn" or int(got) < expected[slot]}
    assert older == {}


@pytest.mark.parametrize(
    ("level", "members", "layout"),
    [
        ("raid1", 2, None),
        ("raid4", 3, None),
        ("raid5", 3, None),
        ("raid6", 4, None),
        ("raid10", 4, "n2"),
        ("raid10", 4, "f2"),
        ("raid10", 4, "o2"),
    ],
)
def test_rebuild_restores_the_member(rig: Rig, level: str, members: int, layout: str | None) -> None:
    spec = rig.create(level, members, layout=layout)
    before, victim = rig.fill(), spec.members[1]
    fail_and_remove(rig.lab, NAME, victim)
    rig.lab.reset([rig.lab.disk(victim)])
    rig.limit_sync(HELD_BACK_KIB)
    names = [member.removeprefix("/dev/") for member in spec.members]
    written, started = rig.written_bytes(victim), time.monotonic()
    measured = measure_rebuild(rig.lab, NAME, victim, names)
    assert 0 < measured.rebuild_seconds <= time.monotonic() - started
    assert run_lengths(measured.samples) == [1, 0]
    assert measured.rebuilt_bytes == rig.status.component_bytes
    assert rig.written_bytes(victim) - written >= measured.rebuilt_bytes
    assert verdict(before, rig.sum()) is DataVerdict.INTACT
    # Only without the other copy are the data read from the rebuilt member or computed with it.
    rig.lab.execute(operations.fail(NAME, spec.members[0]))
    assert verdict(before, rig.sum()) is DataVerdict.INTACT


@pytest.mark.parametrize(("level", "members"), [("raid1", 2), ("raid5", 3), ("raid10", 4)])
def test_replace_is_never_degraded(rig: Rig, level: str, members: int) -> None:
    spec = rig.create(level, members)
    before, old, new = rig.fill(), spec.members[1], rig.nodes[members]
    rig.limit_sync(CRAWLING_KIB)
    with Recorder(rig.lab.machine, NAME, (), hertz=20) as recorder:
        rig.lab.execute(operations.replace(NAME, old, new))
        rig.wait(lambda status: status.sync_progress is not None, "the copy to start")
        rig.limit_sync(HELD_BACK_KIB)
        status = rig.idle()
    assert run_lengths(recorder.samples) == [0]
    assert sum(sample.sync_action == "recover" for sample in recorder.samples) > 5
    assert status.member(new).slot == 1
    assert status.member(new).is_in_sync
    assert status.member(old).is_faulty
    rig.lab.execute(operations.fail(NAME, spec.members[0]))
    assert verdict(before, rig.sum()) is DataVerdict.INTACT


@pytest.mark.parametrize("bitmap", list(Bitmap))
@pytest.mark.parametrize(("level", "members"), [("raid1", 2), ("raid5", 3)])
def test_a_bitmap_spares_the_copy_of_what_did_not_change(rig: Rig, level: str, members: int, bitmap: Bitmap) -> None:
    spec = ArraySpec(level, rig.nodes[5 : 5 + members], bitmap=bitmap, assume_clean=True)
    rig.lab.execute(spec.creation())
    victim = spec.members[1]
    fail_and_remove(rig.lab, NAME, victim)
    write = ("dd", "if=/dev/urandom", f"of={DEVICE}", "bs=1M", "count=4", "seek=100", "oflag=direct", "status=none")
    rig.lab.machine.run(write)
    changed, written = sum_device(rig.lab.machine, DEVICE, 128 * MIB), rig.written_bytes(victim)
    has_bitmap = bitmap is Bitmap.INTERNAL
    rig.lab.execute(operations.re_add(NAME, victim) if has_bitmap else operations.add(NAME, victim))
    status = rig.idle()
    copied, member_bytes = rig.written_bytes(victim) - written, status.component_bytes or 0
    assert status.degraded_count == 0
    if has_bitmap:
        assert 2 * MIB <= copied < member_bytes / 2
    else:
        assert copied >= member_bytes
    rig.lab.execute(operations.fail(NAME, spec.members[0]))
    assert verdict(changed, sum_device(rig.lab.machine, DEVICE, 128 * MIB)) is DataVerdict.INTACT


@pytest.mark.parametrize(("level", "members"), [("raid1", 2), ("raid6", 4), ("raid10", 4)])
def test_a_spare_takes_over_by_itself(rig: Rig, level: str, members: int) -> None:
    spare = rig.nodes[members]
    spec = rig.create(level, members, spares=(spare,))
    before = rig.fill()
    assert rig.status.member(spare).is_spare
    rig.lab.execute(operations.fail(NAME, spec.members[1]))
    status = rig.idle()
    assert status.degraded_count == 0
    assert status.member(spare).slot == 1
    rig.lab.execute(operations.fail(NAME, spec.members[0]))
    assert verdict(before, rig.sum()) is DataVerdict.INTACT


@pytest.mark.parametrize(("level", "members"), [("raid1", 2), ("raid5", 3)])
def test_a_stopped_rebuild_resumes_where_it_was(rig: Rig, level: str, members: int) -> None:
    spec = rig.create(level, members)
    before, victim = rig.fill(), spec.members[1]
    fail_and_remove(rig.lab, NAME, victim)
    rig.hold_sync(HELD_AT_BYTES)
    rig.lab.execute(operations.add(NAME, victim, erase_first=True))
    halfway = rig.wait_for_held_sync(HELD_AT_BYTES)
    rig.lab.execute(operations.stop(NAME))
    rig.lab.execute(operations.assemble(NAME, spec.members))
    assert rig.status.degraded_count == 1
    written = rig.written_bytes(victim)
    rig.lab.machine.run(("mdadm", "--readwrite", DEVICE))
    assert rig.idle().degraded_count == 0
    assert halfway.sync_progress
    left = (1 - halfway.sync_progress.fraction) * (halfway.component_bytes or 0)
    # Superblocks are written too.
    assert 0 < rig.written_bytes(victim) - written <= left + MIB
    rig.lab.execute(operations.fail(NAME, spec.members[0]))
    assert verdict(before, rig.sum()) is DataVerdict.INTACT
