"""The fate of the data on every level when one or two members fail, compared with the level's arithmetic.

md never removes the last copy of RAID 0, 1 and 10: it calls the array broken and refuses writes, but still reads. So a
loss shows in two ways: the running array says that it failed, and the remaining members do not start it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import pytest

from lab.arrays import operations
from lab.arrays.levels import level_with_layout
from lab.arrays.spec import ArraySpec
from lab.arrays.status import ArrayStatus
from lab.disks import DiskKind, DiskSpec
from lab.errors import CommandFailed
from lab.measure.rebuild import DataSum, DataVerdict, verdict
from lab.units import MIB
from tests.kernel.rig import DEVICE, NAME, Rig, file_disks

pytestmark = pytest.mark.kernel

DISKS = file_disks(5, 8)
SHAPES = (
    ("raid0", None, 3),
    ("raid1", None, 2),
    ("raid1", None, 3),
    ("raid4", None, 4),
    ("raid5", None, 4),
    ("raid6", None, 5),
    ("raid10", "n2", 4),
    ("raid10", "n2", 5),
    ("raid10", "f2", 4),
    ("raid10", "o2", 4),
)
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}


@dataclass(frozen=True)
class Case:
    level: str
    layout: str | None
    members: int
    failed: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.level}{self.layout or ''}-of-{self.members}-without-{'+'.join(map(str, self.failed))}"

    @property
    def survives(self) -> bool:
        return level_with_layout(self.level, self.layout).survives(frozenset(self.failed), self.members)


def cases() -> Iterator[object]:
    """The first member, and in wide tests also the other members and every pair.

    RAID 6 also has triples, since it survives every pair.
    """
    for level, layout, members in SHAPES:
        for count in (1, 2, 3) if level == "raid6" else (1, 2):
            for failed in combinations(range(members), count):
                case = Case(level, layout, members, failed)
                yield pytest.param(case, id=str(case), marks=[] if failed == (0,) else [pytest.mark.wide])


@dataclass
class SharedArray:
    """The array that the cases of one shape share."""

    rig: Rig
    spec: ArraySpec | None = None
    before: DataSum = field(default_factory=lambda: DataSum(""))

    def array(self, case: Case) -> tuple[ArraySpec, DataSum]:
        spec = self.rig.spec(case.level, case.members, layout=case.layout)
        if spec == self.spec:
            # The same members are in the same slots and nothing was written: the array created again has the same
            # data, twenty times as fast as by rebuilding members.
            self.rig.lab.machine.run(("mdadm", "--stop", DEVICE), check=False)
            self.rig.lab.execute(spec.creation())
        else:
            self.rig.blank()
            self.rig.lab.execute(spec.creation())
            self.before = self.rig.fill()
        self.spec = spec
        return spec, self.before


@pytest.fixture(scope="module")
def shared_array(module_rig: Rig) -> SharedArray:
    return SharedArray(module_rig)


def fail(rig: Rig, case: Case, spec: ArraySpec) -> None:
    level, gone = level_with_layout(case.level, case.layout), frozenset[int]()
    for slot in case.failed:
        gone |= {slot}
        breaks = not level.survives(gone, case.members)
        rig.lab.execute(operations.fail(NAME, spec.members[slot], breaks_array=breaks))


def has_failed(status: ArrayStatus) -> bool:
    return status.state.is_broken or status.degraded_count > PARITY.get(status.level, status.raid_disks)


def start_without(rig: Rig, case: Case, spec: ArraySpec) -> bool:
    """Stop the array and start it from the other members alone, as after a real loss."""
    rig.lab.execute(operations.stop(NAME))
    left = [member for slot, member in enumerate(spec.members) if slot not in case.failed]
    if not left:
        return False
    try:
        rig.lab.execute(operations.assemble(NAME, left))
    except CommandFailed:
        return False
    return True


@pytest.mark.parametrize("case", cases())
def test_data_survive_exactly_the_failures_that_the_level_allows(shared_array: SharedArray, case: Case) -> None:
    rig = shared_array.rig
    spec, before = shared_array.array(case)
    assert before.digest
    fail(rig, case, spec)
    status, while_degraded = rig.status, verdict(before, rig.sum())
    assert has_failed(status) is not case.survives
    if case.survives:
        assert status.degraded_count == len(case.failed)
        assert while_degraded is DataVerdict.INTACT
    else:
        # It is right to lose data here, but not to invent any. Parity levels cannot compute the lost chunks.
        assert while_degraded is (DataVerdict.UNREADABLE if case.level in PARITY else DataVerdict.INTACT)
    assert start_without(rig, case, spec) is case.survives
    if case.survives:
        assert verdict(before, rig.sum()) is DataVerdict.INTACT


@pytest.mark.parametrize("level", ["raid0", "raid1", "raid5", "raid10"])
def test_a_failed_array_takes_no_writes(shared_array: SharedArray, level: str) -> None:
    members = 2 if level in ("raid0", "raid1") else 4
    case = Case(level, None, members, (0,) if level == "raid0" else (0, 1))
    shared_array.spec = None
    spec, before = shared_array.array(case)
    assert before.digest
    fail(shared_array.rig, case, spec)
    write = ("dd", "if=/dev/zero", f"of={DEVICE}", "bs=1M", "count=1", "oflag=direct", "status=none")
    assert shared_array.rig.lab.machine.run(write, check=False, timeout_seconds=20).status != 0
    shared_array.spec = None


def test_a_single_disk_that_dies_is_unreadable(shared_array: SharedArray) -> None:
    # Only the emulated drive can be taken away during a read, by killing its server.
    rig = shared_array.rig
    wanted = DiskSpec(name="lone", kind=DiskKind.SPINDLE, size_bytes=8 * MIB, model="ssd")
    (disk,) = rig.lab.attach([wanted])
    spec = ArraySpec("single", (disk.node,))
    rig.lab.execute(spec.creation())
    before = rig.fill(spec.device)
    assert verdict(before, rig.sum(spec.device)) is DataVerdict.INTACT
    rig.lab.machine.run(("pkill", "-KILL", "-F", "/run/raidlab/lone.pid"))
    assert not spec.raid.survives(frozenset({0}), 1)
    assert verdict(before, rig.sum(spec.device)) is DataVerdict.UNREADABLE
