"""Arrays of unequal disks on real md and device mapper: capacity, failures, restarts, and writes without reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.support.rig import destroy
from lab.adapt.kind import VolumeArray
from lab.adapt.layout import AdaptLevel, capacity
from lab.adapt.spec import VolumeSpec
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, DiskSpec, Lab, LabDisk
from lab.disks.lab import lab_folder
from lab.errors import ArrayError, DeviceRefused
from lab.measure.rebuild import DataSum, sum_device
from lab.plans import Plan, Step
from lab.session.session import Client, LabSession, open_session
from lab.units import KIB, MIB
from tests.kernel.place import host_at, kernel_target
from tests.kernel.rig import Rig

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

# The whole matrix takes minutes and runs only with RAIDLAB_MATRIX=1.
WHOLE_MATRIX = os.environ.get("RAIDLAB_MATRIX") == "1"
SLOW, FAST = 15 * MIB, 30 * MIB
CHUNK = 128 * KIB
NAME = "adapt0"
# The embedded kernel accepts sixteen file disks, but nine slow and nine fast ones are needed: two are loop disks.
DISKS = (
    *(DiskSpec(name=f"fast{number}", kind=DiskKind.FILE, size_bytes=FAST) for number in range(1, 10)),
    *(DiskSpec(name=f"slow{number}", kind=DiskKind.FILE, size_bytes=SLOW) for number in range(1, 8)),
)
MORE = tuple(DiskSpec(name=f"slow{number}", kind=DiskKind.LOOP, size_bytes=SLOW) for number in (8, 9))


@pytest.fixture(scope="module")
def session(lab: Lab) -> LabSession:
    lab.attach(MORE)
    return LabSession(Client(kernel_target(), lab.host), lab)


def nine_names(k: int) -> list[str]:
    return [*(f"fast{number}" for number in range(1, k + 1)), *(f"slow{number}" for number in range(1, 10 - k))]


def nine(session: LabSession, k: int) -> tuple[LabDisk, ...]:
    return tuple(session.lab.disk(name) for name in nine_names(k))


def volume_now(session: LabSession) -> VolumeArray:
    status = session.array(NAME).status()
    assert isinstance(status, VolumeArray)
    return status


@contextmanager
def volume(session: LabSession, disks: tuple[LabDisk, ...], **more: object) -> Iterator[VolumeArray]:
    """A volume on blank disks, which is removed in any case."""
    spec = VolumeSpec(disks, assume_clean=True, **more)  # type: ignore[arg-type]
    session.run(session.creation(spec))
    try:
        yield volume_now(session)
    finally:
        session.run(session.array(NAME).destroy())


@contextmanager
def filled(session: LabSession, disks: tuple[LabDisk, ...], **more: object) -> Iterator[tuple[str, DataSum]]:
    """A volume full of random data, and its checksum. Its disks are blank again afterwards."""
    try:
        with volume(session, disks, **more) as status:
            yield status.device, Rig(session.lab).fill(status.device)
    finally:
        session.lab.reset([disk for disk in disks if disk.kind is DiskKind.FILE])


def sectors_read(session: LabSession, disks: tuple[LabDisk, ...]) -> int:
    """Sectors read from all disks (field 3 of each stat file, block/stat.rst)."""
    paths = [f"/sys/block/{disk.kernel_name}/stat" for disk in disks]
    return sum(int((text or "").split()[2]) for text in session.machine.read(paths).values())


def sectors_read_by_aligned_writes(session: LabSession, device: str, disks: tuple[LabDisk, ...]) -> int:
    """Write a device MiB by MiB, past the caches, and return how many sectors its disks had to read."""
    # The first write wakes the arrays, and md then reads its metadata.
    write = ("dd", "if=/dev/zero", f"of={device}", "bs=1M", "oflag=direct", "status=none")
    session.machine.run((*write, "count=1"))
    before = sectors_read(session, disks)
    session.machine.run((*write, f"count={Rig(session.lab).size_bytes(device) // MIB}"))
    return sectors_read(session, disks) - before


@pytest.mark.parametrize("k", range(10) if WHOLE_MATRIX else (2, 4, 7))
def test_capacity_of_nine_disks_matches_the_table_and_aligned_writes_read_nothing(session: LabSession, k: int) -> None:
    disks = nine(session, k)
    with volume(session, disks) as status:
        # Label and superblocks take the same space on every disk, so the table holds for the rest of the disks.
        reserve = VolumeSpec(disks).geometry().reserve_bytes
        behind = [(disk.size_bytes - reserve) // CHUNK for disk in disks]
        assert Fraction(Rig(session.lab).size_bytes(status.device), CHUNK) == capacity(AdaptLevel.ADAPT5, behind)
        # In other words: the table's row for whole disks, less one reserve for each disk that holds data.
        ideal = capacity(AdaptLevel.ADAPT5, [disk.size_bytes for disk in disks])
        assert Rig(session.lab).size_bytes(status.device) == ideal - 8 * reserve
        assert reserve == (1 + max(len(disk.windows) for disk in status.disks)) * MIB
        assert status.optimal_io_bytes == MIB
        assert sectors_read_by_aligned_writes(session, status.device, disks) == 0


SHR_READS = [(2, False), (3, False), (4, True), (5, False), (6, True), (7, True), (8, True)]
FAST_READ = [*SHR_READS[1:], (9, False)]


@pytest.mark.parametrize(("k", "reads"), SHR_READS if WHOLE_MATRIX else SHR_READS[2:4])
def test_the_shr_like_layout_reads_before_it_writes(session: LabSession, k: int, reads: bool) -> None:
    disks = nine(session, k)
    with volume(session, disks, rule=AdaptLevel.SHR) as status:
        assert (sectors_read_by_aligned_writes(session, status.device, disks) > 0) == reads


@pytest.mark.parametrize(("k", "reads"), FAST_READ if WHOLE_MATRIX else FAST_READ[1:3])
def test_the_fast_disks_alone_read_before_they_write(session: LabSession, k: int, reads: bool) -> None:
    disks = nine(session, k)[:k]
    spec = ArraySpec("raid5", tuple(disk.node for disk in disks), chunk_bytes=CHUNK, assume_clean=True)
    session.run(spec.creation())
    try:
        assert (sectors_read_by_aligned_writes(session, spec.device, disks) > 0) == reads
    finally:
        session.run(destroy(spec))


# The worked example with four windows of three disks; windows of two disks; a reference stripe narrower than the
# widest stripe, with little of one disk used.
FAILING: dict[str, tuple[list[str], dict[str, object]]] = {
    "4 of 5 fast": (["fast1", "fast2", "slow1", "fast3", "fast4"], {}),
    "reference 2": (["fast1", "fast2", "fast3", "slow1"], {"reference": 2, "utilisation": (1, 1, 1, 0.25)}),
}
if WHOLE_MATRIX:
    FAILING["2 of 4 fast"] = (["fast1", "slow1", "fast2", "slow2"], {"chunk_bytes": 64 * KIB})
    FAILING |= {f"{k} of 9 fast": (nine_names(k), {}) for k in range(10)}


@pytest.mark.parametrize("configuration", FAILING)
def test_each_disk_in_turn_fails_and_is_rebuilt_without_loss(session: LabSession, configuration: str) -> None:
    names, more = FAILING[configuration]
    disks = tuple(session.lab.disk(name) for name in names)
    with filled(session, disks, **more) as (device, written):
        for name in names:
            session.run(session.array(NAME).fail(name))
            failed = volume_now(session)
            assert failed.is_degraded
            assert not failed.lost
            assert {disk.number for disk in failed.disks if not disk.present} == {names.index(name)}
            assert sum_device(session.machine, device) == written
            session.run(session.array(NAME).add(name))
            assert volume_now(session).windows_words == "clean"
        # Every byte has been copied again by now, and the check finds no mismatch between parity and data.
        session.run(session.array(NAME).scrub("check"))
        assert volume_now(session).mismatch_sectors == 0
        assert sum_device(session.machine, device) == written


def test_one_spare_replaces_a_disk_in_all_windows(session: LabSession) -> None:
    disks = nine(session, 4)
    with filled(session, disks) as (device, written):
        session.run(session.array(NAME).fail("fast2"))
        with pytest.raises(ArrayError, match="slow6 has 15 MiB, but replacing the failed disk of adapt0 needs 30 MiB"):
            session.array(NAME).add("slow6")
        session.run(session.array(NAME).add("fast9"))
        status = volume_now(session)
        spare = status.disk(session.node("fast9"))
        assert (spare.number, spare.working, spare.state) == (1, (0, 1, 2, 4), "in sync")
        assert sum_device(session.machine, device) == written
        session.lab.reset([session.lab.disk("fast2")])


def test_a_second_failure_in_a_window_is_refused_and_then_reported_as_loss(session: LabSession) -> None:
    disks = nine(session, 4)
    with filled(session, disks) as (device, _):
        session.run(session.array(NAME).fail("fast1"))
        with pytest.raises(ArrayError, match="cannot run without fast3: the data of 3 of its 5 arrays would be lost"):
            session.array(NAME).fail("fast3")
        with pytest.raises(ArrayError, match="cannot run without slow1: the data of 1 of its 5 arrays would be lost"):
            session.array(NAME).fail("slow1")
        session.run(session.array(NAME).fail("fast3", breaks_array=True))
        status = volume_now(session)
        assert [each.window.number for each in status.lost] == [0, 1, 3]
        assert status.windows_words == "data lost in 3 of 5 arrays"
        assert sum_device(session.machine, device).digest == ""
        with pytest.raises(ArrayError, match="nothing can be rebuilt"):
            session.array(NAME).add("fast9")


def test_the_guard_lets_nothing_be_written_through_a_mapping_that_is_not_on_lab_disks(session: LabSession) -> None:
    machine = session.machine
    machine.run(("truncate", "--size", "8M", "/run/foreign.img"))
    foreign = machine.run(("losetup", "--find", "--show", "/run/foreign.img")).stdout.strip()
    machine.run(("dmsetup", "--verifyudev", "create", "foreign"), stdin_text=f"0 8192 linear {foreign} 0\n")
    try:
        for device in ("/dev/mapper/foreign", foreign):
            with pytest.raises(DeviceRefused, match=f"{device}: it is"):
                session.lab.execute(Plan("Overwrite it", (Step(("false",), "never run", writes_devices=(device,)),)))
    finally:
        machine.run(("dmsetup", "remove", "foreign"))
        machine.run(("losetup", "--detach", foreign))


def test_disks_of_a_stopped_volume_are_not_free(session: LabSession) -> None:
    with volume(session, nine(session, 2)):
        session.run(session.array(NAME).stop())
        spec = ArraySpec("raid1", (session.node("fast1"), session.node("fast9")))
        with pytest.raises(DeviceRefused, match="fast1 belongs to array adapt0, which is not running"):
            session.creation(spec)
        session.run(session.array(NAME).assemble())
        names = [window.array.name for window in volume_now(session).windows if window.array]
        delays = session.machine.read([f"/sys/block/{name}/md/safe_mode_delay" for name in names])
        assert {(text or "").strip() for text in delays.values()} == {"5.000"}
        # A user sees one array of all disks, and does not see the arrays inside.
        (shown,) = session.statuses()
        assert shown.name == NAME
        assert [member.device for member in shown.members] == [disk.node for disk in nine(session, 2)]


def test_a_creation_that_was_cut_short_is_recognised_and_can_be_removed(session: LabSession) -> None:
    disks = nine(session, 4)
    plan = session.creation(VolumeSpec(disks, assume_clean=True))
    session.run(Plan(plan.title, plan.steps[:-3]))
    (found,) = session.found.refused
    assert (found.name, found.refusal) == (NAME, "its creation was interrupted; there are no data on it yet")
    session.run(session.array(NAME).destroy())
    assert session.found.all == ()
    mapped = session.machine.run(("dmsetup", "ls")).stdout
    assert mapped.strip() == "No devices found"


def test_a_volume_comes_back_after_a_restart_of_the_machine_without_the_disk_that_failed(tmp_path: Path) -> None:
    host, target = host_at(tmp_path), kernel_target("name=restart")
    sizes = {"file01": 20, "file02": 20, "file03": 20, "file04": 10, "file05": 20}
    with lab_folder(host.state, "restart") as folder:
        folder.save([DiskSpec(name=name, kind=DiskKind.FILE, size_bytes=size * MIB) for name, size in sizes.items()])
    with open_session(Client(target, host)) as session:
        spec = VolumeSpec(session.disks[:4], assume_clean=True)
        session.run(session.creation(spec))
        written = Rig(session.lab).fill(spec.device)
        session.run(session.array(NAME).fail("file02"))
    with open_session(Client(target, host)) as session:
        status = volume_now(session)
        assert [disk.state for disk in status.disks] == ["in sync", "faulty", "in sync", "in sync"]
        assert sum_device(session.machine, spec.device) == written
        session.run(session.array(NAME).add("file05"))
        assert sum_device(session.machine, spec.device) == written
        session.run(session.array(NAME).stop())
    with open_session(Client(target, host)) as session:
        assert [array.name for array in session.found.stopped] == [NAME]
        assert [status.name for status in session.start_all()] == [NAME]
        assert volume_now(session).windows_words == "clean"
        assert sum_device(session.machine, spec.device) == written


def test_a_label_cut_short_leaves_the_one_before_it(session: LabSession) -> None:
    disks = nine(session, 2)
    with filled(session, disks) as (device, written):
        session.run(session.array(NAME).stop())
        # As after a power cut in the middle of writing the next label: garbage in one place on every disk.
        for disk in disks:
            place = (f"of={disk.node}", "bs=512", "seek=8", "count=3", "conv=fsync,notrunc", "status=none")
            session.machine.run(("dd", "if=/dev/urandom", *place))
        session.rescan()
        session.run(session.array(NAME).assemble())
        assert sum_device(session.machine, device) == written
