from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lab.adapt.kind import as_array
from lab.arrays.discovery import BroughtUp
from lab.arrays.status import SyncProgress, parse_mdstat
from lab.disks import DiskKind, Lab, LabDisk
from lab.errors import LabError, MachineLost
from lab.host.clock import HostClock, wait_for
from lab.machine import Host, RawSample, SampleRequest, parse_target
from lab.session.monitor import Monitor, Snapshot, SnapshotMaker, recent, take_snapshot
from lab.session.session import LabSession
from tests.unit.adapt.running import running
from tests.unit.arrays.captures import load
from tests.unit.fakes import FACTS, FakeMachine, FakeSampleStream, as_machine

# Read from Linux 6.1.176 (user-mode-linux 6.1um4+b13) while the third member of a RAID 5 on 100 MiB disks was rebuilt.
REBUILDING = """Personalities : [raid6] [raid5] [raid4]
md0 : active raid5 ubdd[3] ubdb[1] ubda[0]
      200704 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/2] [UU_]
      [====>................]  recovery = 20.8% (21120/100352) finish=0.0min speed=21120K/sec
      bitmap: 1/1 pages [4KB], 65536KB chunk

unused devices: <none>
"""
LATER = REBUILDING.replace(
    "[====>................]  recovery = 20.8% (21120", "[===================>.]  recovery = 95.4% (96732"
)
DONE = "\n".join(line for line in REBUILDING.replace("[UU_]", "[UUU]").splitlines() if "recovery" not in line)
DISK = LabDisk(name="disk01", kind=DiskKind.FILE, node="/dev/ubda", size_bytes=500 << 20)


@pytest.fixture
def machine() -> FakeMachine:
    record = load("raid5-rebuilding")
    fake = FakeMachine(files=dict(record["files"]))
    fake.dirs = {folder: tuple(names) for folder, names in record["entries"].items()} | {"/sys/block": ("md0",)}
    fake.files |= {"/sys/block/ubda/size": "1024000", "/proc/mdstat": REBUILDING, "/proc/uptime": "12.5 20.0"}
    return fake


@pytest.fixture
def session(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabSession:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    host = Host.real("tests")
    return LabSession(parse_target("uml:"), host, Lab(as_machine(machine), host, [DISK]))


def raw(
    seconds: float, mdstat: str = REBUILDING, threads: dict[str, int] | None = None, *, partitions: str = ""
) -> RawSample:
    # Something has been read or written since the sample before.
    files = {"/proc/mdstat": mdstat, "/proc/diskstats": f"{seconds}", "/proc/stat": "", "/proc/partitions": partitions}
    return RawSample(seconds, files, threads or {})


def test_progress_and_bitmaps_leave_the_shape_as_it_is() -> None:
    assert parse_mdstat(REBUILDING).shape == parse_mdstat(LATER).shape
    assert parse_mdstat(REBUILDING).shape != parse_mdstat(DONE).shape
    assert parse_mdstat(LATER).progress == {"md0": SyncProgress(193464, 200704)}
    assert parse_mdstat(LATER).names == ("md0",)
    assert parse_mdstat("").progress == {}


def test_a_delayed_sync_has_no_progress() -> None:
    delayed = REBUILDING.replace(
        "[====>................]  recovery = 20.8% (21120/100352) finish=0.0min speed=21120K/sec", "resync=DELAYED"
    )
    assert parse_mdstat(delayed).progress == {}


def test_sysfs_is_read_only_when_something_changed_or_has_become_old(machine: FakeMachine, session: LabSession) -> None:
    maker = SnapshotMaker(session)
    maker.look(raw(0.0))
    first = len(machine.reads)
    assert first > 0
    look = maker.look(raw(0.25, LATER))
    assert len(machine.reads) == first
    status = look.array("md0")
    assert status is not None
    assert status.sync_progress == SyncProgress(193464, 200704)
    maker.look(raw(0.5, DONE))
    again = len(machine.reads)
    assert again > first
    maker.look(raw(2.6, DONE))
    assert len(machine.reads) > again


def test_sysfs_is_left_alone_for_longer_where_nothing_is_read_or_written(
    machine: FakeMachine, session: LabSession
) -> None:
    maker = SnapshotMaker(session)
    maker.look(raw(0.0))
    first = len(machine.reads)
    still = raw(0.0).files
    maker.look(RawSample(3.0, still, {}))
    assert len(machine.reads) == first
    maker.look(RawSample(10.5, still, {}))
    assert len(machine.reads) > first


def test_an_array_that_is_being_put_together_is_not_there_yet(machine: FakeMachine, session: LabSession) -> None:
    # As the kernel shows it between mdadm's first ioctl and RUN_ARRAY.
    machine.files |= {"/sys/block/md0/md/level": "5\n", "/sys/block/md0/md/array_state": "inactive\n"}
    maker = SnapshotMaker(session)
    assert maker.look(raw(1.0, mdstat="")).arrays == ()
    machine.files |= {"/sys/block/md0/md/array_state": "clean\n"}
    (status,) = maker.look(raw(1.25)).arrays
    assert status.level == "raid5"


def test_a_disk_without_size_has_vanished(machine: FakeMachine, session: LabSession) -> None:
    maker = SnapshotMaker(session)
    assert maker.look(raw(0.0)).vanished == frozenset()
    machine.files["/sys/block/ubda/size"] = "0\n"
    assert maker.look(raw(3.0)).vanished == {"ubda"}
    del machine.files["/sys/block/ubda/size"]
    assert maker.look(raw(6.0)).vanished == {"ubda"}


def test_a_disk_that_vanishes_is_seen_at_the_next_look(machine: FakeMachine, session: LabSession) -> None:
    maker = SnapshotMaker(session)
    maker.look(raw(0.0, partitions="  98  0  512000 ubda\n"))
    machine.files["/sys/block/ubda/size"] = "0\n"
    assert maker.look(raw(0.25, partitions="")).vanished == {"ubda"}


def test_threads_are_summed_for_each_array_and_ended_ones_count_on(session: LabSession) -> None:
    maker = SnapshotMaker(session)
    maker.look(raw(0.0, threads={"md0_raid5/70": 5, "md1_raid1/80": 7}))
    maker.look(raw(0.2, threads={"md0_raid5/70": 9, "md0_resync/90": 4, "md1_raid1/80": 7}))
    look = maker.look(raw(0.4, threads={"md0_raid5/70": 10, "md1_raid1/80": 8}))
    assert look.md_thread_ticks == {"md0": 14, "md1": 8}


def test_a_member_that_nobody_asked_for_makes_the_monitor_ask_anew(machine: FakeMachine, session: LabSession) -> None:
    maker = SnapshotMaker(session)
    asked = maker.request(0.25).block_devices
    assert {"ubda", "md0", "md127"} <= set(asked)
    maker.look(raw(0.0))
    assert maker.misses_devices
    maker.request(0.25)
    assert not maker.misses_devices


def test_one_look_has_all_at_once(session: LabSession) -> None:
    look = take_snapshot(session)
    assert look.time_seconds == 12.5
    assert [status.name for status in look.arrays] == ["md0"]


def test_the_monitor_ends_without_error_when_it_is_stopped(machine: FakeMachine, session: LabSession) -> None:
    machine.files["/proc/mdstat"] = ""
    machine.dirs["/sys/block"] = ()
    machine.samples = [raw(0.0, ""), raw(0.25, "")]
    looks: list[Snapshot] = []
    ends: list[LabError | None] = []
    monitor = Monitor(session, on_look=looks.append, on_end=ends.append)
    monitor.start()
    wait_for(lambda: len(looks), lambda count: count == 2, what="both looks", timeout_seconds=10, clock=HostClock())
    monitor.stop()
    assert [look.time_seconds for look in looks] == [0.0, 0.25]
    assert ends == [None]


def test_a_lost_machine_ends_the_monitor_and_is_told(machine: FakeMachine, session: LabSession) -> None:
    machine.is_lost = True
    over = threading.Event()
    ends: list[LabError | None] = []

    def on_end(error: LabError | None) -> None:
        ends.append(error)
        over.set()

    Monitor(session, on_look=lambda _: None, on_end=on_end).start()
    assert over.wait(5.0)
    assert isinstance(ends[0], MachineLost)


class StandingMachine(FakeMachine):
    """In virtual time: a sample for each that is asked for, the last again and again."""

    def sample(self, request: SampleRequest) -> FakeSampleStream:
        super().sample(request)
        asked = len(self.sample_requests) - 1
        return FakeSampleStream(self.samples[min(asked, len(self.samples) - 1) :][:1])


def test_where_time_stands_still_looks_are_asked_for_and_told_when_something_changed(
    session: LabSession, machine: FakeMachine
) -> None:
    standing = StandingMachine(files=machine.files, dirs=machine.dirs, facts=replace(FACTS, is_virtual_time=True))
    still = RawSample(5.0, raw(0.0).files, {})
    standing.samples = [still, replace(still, time_seconds=5.00001), raw(5.0, DONE), replace(still, time_seconds=6.0)]
    virtual = LabSession(session.target, session.host, Lab(as_machine(standing), session.host, [DISK]))
    looks: list[Snapshot] = []
    monitor = Monitor(virtual, on_look=looks.append, hertz=200.0)
    monitor.start()
    wait_for(
        lambda: len(standing.sample_requests), lambda n: n > 8, what="looks", timeout_seconds=10, clock=HostClock()
    )
    assert [look.time_seconds for look in looks] == [5.0, 5.0, 6.0]
    assert {request.interval_seconds for request in standing.sample_requests} == {0.0}
    assert monitor.machine_seconds() == 6.0
    # A plan has run: what only sysfs shows is read again, although no time has passed.
    reads = len(standing.reads)
    virtual.found = BroughtUp()
    wait_for(lambda: len(looks), lambda n: n == 4, what="a look", timeout_seconds=10, clock=HostClock())
    assert len(standing.reads) > reads
    monitor.stop()


def test_a_speed_is_told_where_looks_are_far_between() -> None:
    looks = [Snapshot(25.0 * number, (), {}) for number in range(10)]
    assert [look.time_seconds for look in recent(looks)] == [100.0, 125.0, 150.0, 175.0, 200.0, 225.0]
    assert recent([Snapshot(number / 4, (), {}) for number in range(40)])[0].time_seconds == 39 / 4 - 5.0


def test_between_two_arrays_of_a_volume_its_rebuild_goes_on_while_a_plan_does(session: LabSession) -> None:
    maker = SnapshotMaker(session)
    own = running().disks[3].windows
    busy = as_array(running(filled={3: own[:1]}, syncing={own[1]: 0.9}))
    resting = as_array(running(filled={3: own[:2]}))
    session.going_on.add("adapt0")
    assert maker._bridged(busy) is busy
    assert maker._bridged(resting) == replace(
        resting, sync=busy.sync, sync_action=busy.sync_action, sync_progress=busy.sync_progress
    )
    session.going_on.clear()
    assert maker._bridged(resting) is resting
    session.going_on.add("adapt0")
    assert maker._bridged(resting) is resting, "what was interrupted does not begin again by itself"
    last = as_array(running(filled={3: own[:-1]}, syncing={own[-1]: 0.9}))
    maker._bridged(last)
    assert not maker._bridged(as_array(running())).sync_action.is_busy, "it is over"
