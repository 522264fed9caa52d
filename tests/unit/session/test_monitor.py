from __future__ import annotations

import inspect
import tracemalloc
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from lab.arrays.discovery import BroughtUp
from lab.arrays.status import ArrayStatus, SyncAction, SyncProgress, parse_mdstat
from lab.errors import LabError
from lab.machine import RawSample, SampleRequest
from lab.measure.samples import DiskCounters
from lab.session.monitor import (
    EventKind,
    History,
    LoadMeasure,
    Measure,
    Monitor,
    Snapshot,
    SnapshotMaker,
    events_between,
    recent,
    take_snapshot,
)
from lab.session.session import LabSession
from lab.workloads.fio_output import LiveInterval
from tests.unit.adapt.running import running
from tests.unit.arrays.captures import machine_with
from tests.unit.disks.machines import lab_disks
from tests.unit.fakes import FACTS, FakeMachine, FakeSampleStream
from tests.unit.results.records import direction
from tests.unit.session.looks import NOTHING, captured, look, session_on
from tests.waiting import wait_until

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


@pytest.fixture
def machine() -> FakeMachine:
    fake = machine_with("raid5-rebuilding")
    fake.files |= {"/sys/block/ubda/size": "1024000", "/proc/mdstat": REBUILDING, "/proc/uptime": "12.5 20.0"}
    return fake


@pytest.fixture
def session(machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabSession:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    return session_on(machine, lab_disks("a"), "uml:")


def raw(
    seconds: float, mdstat: str = REBUILDING, threads: dict[str, int] | None = None, *, partitions: str = ""
) -> RawSample:
    # Something has been read or written since the sample before.
    files = {"/proc/mdstat": mdstat, "/proc/diskstats": f"{seconds}", "/proc/partitions": partitions}
    return RawSample(seconds, files, threads or {})


def test_progress_and_bitmaps_leave_the_shape_as_it_is() -> None:
    assert parse_mdstat(REBUILDING).shape == parse_mdstat(LATER).shape
    assert parse_mdstat(REBUILDING).shape != parse_mdstat(DONE).shape
    assert parse_mdstat(LATER).progress == {"md0": SyncProgress(193464, 200704)}
    line = "[====>................]  recovery = 20.8% (21120/100352) finish=0.0min speed=21120K/sec"
    assert line in REBUILDING
    assert parse_mdstat(REBUILDING.replace(line, "resync=DELAYED")).progress == {}


def test_sysfs_is_read_only_when_something_changed_or_has_become_old(machine: FakeMachine, session: LabSession) -> None:
    maker = SnapshotMaker(session)
    maker.snapshot(raw(0.0))
    first = len(machine.reads)
    assert first > 0
    look = maker.snapshot(raw(0.25, LATER))
    assert len(machine.reads) == first
    status = look.array("md0")
    assert status is not None
    assert status.sync_progress == SyncProgress(193464, 200704)
    maker.snapshot(raw(0.5, DONE))
    again = len(machine.reads)
    assert again > first
    maker.snapshot(raw(2.6, DONE))
    latest = len(machine.reads)
    assert latest > again
    # If nothing is read or written, sysfs is left alone for longer.
    maker.snapshot(replace(raw(2.6, DONE), time_seconds=5.6))
    assert len(machine.reads) == latest
    maker.snapshot(replace(raw(2.6, DONE), time_seconds=13.1))
    assert len(machine.reads) > latest


def test_an_array_that_is_being_put_together_is_not_there_yet(machine: FakeMachine, session: LabSession) -> None:
    # As the kernel shows it between mdadm's first ioctl and RUN_ARRAY.
    machine.files |= {"/sys/block/md0/md/level": "5\n", "/sys/block/md0/md/array_state": "inactive\n"}
    maker = SnapshotMaker(session)
    assert maker.snapshot(raw(1.0, mdstat="")).arrays == ()
    machine.files |= {"/sys/block/md0/md/array_state": "clean\n"}
    (status,) = maker.snapshot(raw(1.25)).arrays
    assert status.level == "raid5"


def test_a_disk_without_size_has_vanished(machine: FakeMachine, session: LabSession) -> None:
    maker = SnapshotMaker(session)
    assert maker.snapshot(raw(0.0)).vanished == frozenset()
    machine.files["/sys/block/ubda/size"] = "0\n"
    assert maker.snapshot(raw(3.0)).vanished == {"ubda"}
    del machine.files["/sys/block/ubda/size"]
    assert maker.snapshot(raw(6.0)).vanished == {"ubda"}
    # A disk that the kernel no longer lists is noticed at the next look.
    machine.files["/sys/block/ubda/size"] = "1024000"
    maker.snapshot(raw(9.0, partitions="  98  0  512000 ubda\n"))
    machine.files["/sys/block/ubda/size"] = "0\n"
    assert maker.snapshot(raw(9.25, partitions="")).vanished == {"ubda"}


def test_threads_are_summed_for_each_array_and_ended_ones_count_on(session: LabSession) -> None:
    maker = SnapshotMaker(session)
    maker.snapshot(raw(0.0, threads={"md0_raid5/70": 5, "md1_raid1/80": 7}))
    maker.snapshot(raw(0.2, threads={"md0_raid5/70": 9, "md0_resync/90": 4, "md1_raid1/80": 7}))
    look = maker.snapshot(raw(0.4, threads={"md0_raid5/70": 10, "md1_raid1/80": 8}))
    assert look.md_thread_ticks == {"md0": 14, "md1": 8}


def test_an_unknown_member_makes_the_monitor_renew_its_request(machine: FakeMachine, session: LabSession) -> None:
    maker = SnapshotMaker(session)
    asked = maker.request(0.25).block_devices
    assert {"ubda", "md0", "md127"} <= set(asked)
    maker.snapshot(raw(0.0))
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
    monitor = Monitor(session, on_snapshot=looks.append, on_end=ends.append)
    monitor.start()
    wait_until(lambda: len(looks) == 2)
    monitor.stop()
    assert [look.time_seconds for look in looks] == [0.0, 0.25]
    assert ends == [None]


class StandingMachine(FakeMachine):
    """In virtual time: one sample for each request; the last one repeats."""

    def sample(self, request: SampleRequest) -> FakeSampleStream:
        super().sample(request)
        asked = len(self.sample_requests) - 1
        return FakeSampleStream(self.samples[min(asked, len(self.samples) - 1) :][:1])


def test_without_passing_time_snapshots_are_polled_and_reported_on_changes(
    session: LabSession, machine: FakeMachine
) -> None:
    standing = StandingMachine(files=machine.files, dirs=machine.dirs, facts=replace(FACTS, is_virtual_time=True))
    still = RawSample(5.0, raw(0.0).files, {})
    standing.samples = [still, replace(still, time_seconds=5.00001), raw(5.0, DONE), replace(still, time_seconds=6.0)]
    virtual = session_on(standing, session.disks, "uml:")
    looks: list[Snapshot] = []
    monitor = Monitor(virtual, on_snapshot=looks.append, hertz=200.0)
    monitor.start()
    wait_until(lambda: len(standing.sample_requests) > 8)
    assert [look.time_seconds for look in looks] == [5.0, 5.0, 6.0]
    assert {request.interval_seconds for request in standing.sample_requests} == {0.0}
    assert monitor.machine_seconds() == 6.0
    # A plan has run: what only sysfs shows is read again, although no time has passed.
    reads = len(standing.reads)
    virtual.found = BroughtUp()
    wait_until(lambda: len(looks) == 4)
    assert len(standing.reads) > reads
    monitor.stop()


def test_recent_snapshots_suffice_for_a_speed_when_they_are_rare() -> None:
    looks = [Snapshot(25.0 * number, (), {}) for number in range(10)]
    assert [look.time_seconds for look in recent(looks)] == [100.0, 125.0, 150.0, 175.0, 200.0, 225.0]
    assert recent([Snapshot(number / 4, (), {}) for number in range(40)])[0].time_seconds == 39 / 4 - 5.0


def test_a_rebuild_of_a_volume_spans_its_arrays_while_the_plan_runs(session: LabSession) -> None:
    maker = SnapshotMaker(session)
    own = running().disks[3].windows
    busy = running(filled={3: own[:1]}, syncing={own[1]: 0.9})
    resting = running(filled={3: own[:2]})
    session.going_on.add("adapt0")
    assert maker._bridged(busy) is busy
    assert maker._bridged(resting) == replace(
        resting, sync=busy.sync, sync_action=busy.sync_action, sync_progress=busy.sync_progress
    )
    session.going_on.clear()
    assert maker._bridged(resting) is resting
    session.going_on.add("adapt0")
    assert maker._bridged(resting) is resting, "what was interrupted does not begin again by itself"
    last = running(filled={3: own[:-1]}, syncing={own[-1]: 0.9})
    maker._bridged(last)
    assert not maker._bridged(running()).sync_action.is_busy, "it is over"


def kinds(before: ArrayStatus | None, after: ArrayStatus | None) -> list[EventKind]:
    first = look(1.0, *((before,) if before else ()))
    second = look(2.0, *((after,) if after else ()))
    return [event.kind for event in events_between(first, second)]


def without_faulty(status: ArrayStatus) -> ArrayStatus:
    return replace(status, members=tuple(member for member in status.members if not member.is_faulty))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (captured("raid5"), captured("raid5"), []),
        (
            None,
            captured("raid5-rebuilding"),
            [EventKind.ARRAY_APPEARED, EventKind.DEGRADED, EventKind.SYNC_STARTED],
        ),
        (captured("raid1"), None, [EventKind.ARRAY_GONE]),
        (captured("raid1-failed"), without_faulty(captured("raid1-failed")), [EventKind.MEMBER_REMOVED]),
    ],
    ids=["equal", "appears", "stopped", "removed"],
)
def test_events_between_two_snapshots(
    before: ArrayStatus | None, after: ArrayStatus | None, expected: list[EventKind]
) -> None:
    assert kinds(before, after) == expected


def test_a_faulty_member_is_reported_before_the_degraded_array() -> None:
    healthy = captured("raid5", degraded_count=0)
    failed = captured("raid5-failed")
    events = [*events_between(look(1.0, healthy), look(2.5, failed), name_of=lambda node: f"<{node}>")]
    (faulty,) = [event for event in events if event.kind is EventKind.MEMBER_FAULTY]
    assert faulty.sentence == f"<{faulty.device}> in md0 is faulty"
    assert faulty.time_seconds == 2.5
    order = [event.kind for event in events]
    assert order.index(EventKind.MEMBER_FAULTY) < order.index(EventKind.DEGRADED)


def test_a_rebuild_ends_with_a_member_in_sync_and_a_whole_array() -> None:
    before = captured("raid5-rebuilding")
    members = tuple(
        replace(member, flags=frozenset({"in_sync"})) if member.is_rebuilding else member for member in before.members
    )
    after = replace(before, degraded_count=0, sync_action=SyncAction.IDLE, sync_progress=None, members=members)
    assert kinds(before, after) == [EventKind.MEMBER_IN_SYNC, EventKind.SYNC_FINISHED, EventKind.RESTORED]


GONE = look(2.0, vanished=frozenset({"nbd3"}))


@pytest.mark.parametrize(
    ("before", "after", "device", "sentence"),
    [
        (look(1.0), look(2.0, captured("raid6-assume-clean")), "", "md0 was started: raid6 of 4 members"),
        (
            look(1.0, captured("raid6", degraded_count=1)),
            look(2.0, captured("raid6", degraded_count=2)),
            "",
            "md0 is degraded: 2 members are missing",
        ),
        (
            look(1.0, captured("raid5-checking", mismatch_sectors=0)),
            look(2.0, captured("raid5-checking", mismatch_sectors=128)),
            "",
            "md0: copies or parity differ somewhere in 128 sectors",
        ),
        (look(1.0), GONE, "/dev/nbd3", "disk04 has vanished"),
        (GONE, look(3.0), "/dev/nbd3", "disk04 is back"),
    ],
    ids=["appears", "second failure", "mismatch", "vanished", "back"],
)
def test_an_event_is_reported_in_a_sentence(before: Snapshot, after: Snapshot, device: str, sentence: str) -> None:
    (event,) = events_between(before, after, name_of=lambda node: "disk04" if node == "/dev/nbd3" else node)
    assert (event.time_seconds, event.device, event.sentence) == (after.time_seconds, device, sentence)


def counters(reads: int) -> DiskCounters:
    return replace(NOTHING, reads=reads, read_bytes=reads * 4096, busy_seconds=reads / 1000)


def test_rates_are_differences_of_two_snapshots() -> None:
    history = History()
    history.add(look(10.0, disks={"ubda": counters(0)}))
    history.add(look(10.5, disks={"ubda": counters(50)}))
    # The machine's clock does not go back.
    history.add(look(10.5, disks={"ubda": counters(60)}))
    history.add(look(4.0, disks={"ubda": counters(60)}))
    assert history.rates("ubda", Measure.READ_IOPS) == [(10.0, None), (10.5, 100.0)]
    assert history.rates("ubda", Measure.READ_BYTES_PER_SECOND)[-1] == (10.5, 409600.0)
    assert history.rates("ubda", Measure.UTILISATION)[-1] == (10.5, 0.1)


def test_a_device_that_comes_late_and_goes_has_gaps_on_the_same_axis() -> None:
    history = History()
    history.add(look(1.0))
    history.add(look(2.0, disks={"sdb": counters(0)}))
    history.add(look(3.0, disks={"sdb": counters(7)}))
    history.add(look(4.0))
    assert history.rates("sdb", Measure.READ_IOPS) == [(1.0, None), (2.0, None), (3.0, 7.0), (4.0, None)]
    assert history.now_rate("sdb", Measure.READ_IOPS) is None


def test_old_values_make_room_and_the_axis_keeps_step() -> None:
    history = History(seconds=2.0, hertz=2.0)
    for tick in range(10):
        history.add(look(float(tick), disks={"ubda": counters(tick * tick)}))
    assert history.rates("ubda", Measure.READ_IOPS) == [(6.0, 11.0), (7.0, 13.0), (8.0, 15.0), (9.0, 17.0)]
    assert history.rates("ubda", Measure.READ_IOPS, seconds=1.0) == [(8.0, 15.0), (9.0, 17.0)]


def test_a_device_missing_for_the_whole_axis_is_forgotten() -> None:
    history = History(seconds=2.0, hertz=2.0)
    history.add(look(0.0, disks={"sdb": counters(0)}))
    history.add(look(1.0, disks={"sdb": counters(5)}))
    assert history.rates("sdb", Measure.READ_IOPS)
    for tick in range(2, 8):
        history.add(look(float(tick)))
    assert not history.rates("sdb", Measure.READ_IOPS)


def test_md_threads_are_counted_in_cpus() -> None:
    history = History()
    history.add(look(0.0, md_ticks={"md0": 100}))
    history.add(look(0.5, md_ticks={"md0": 125, "md1": 10}))
    assert history.md_cpu("md0")[-1] == (0.5, 0.5)
    assert history.md_cpu("md1")[-1] == (0.5, 0.2)


def test_a_sync_has_a_rate_and_a_time_left() -> None:
    history = History()
    for second in range(3):
        status = captured(
            "raid5-rebuilding", sync_action=SyncAction.RECOVER, sync_progress=SyncProgress(second * 2048, 20480)
        )
        history.add(look(float(second), status))
    assert history.sync_rate("md0")[-1] == (2.0, 1 << 20)
    pace = history.pace("md0")
    assert pace is not None
    assert pace.left_seconds == 8.0


def test_a_load_is_reads_and_writes_together_with_the_worse_percentile() -> None:
    history = History()
    history.add(look(100.0))
    reads = direction(70.0, block_bytes=100, p99=0.004)
    writes = msgspec.structs.replace(direction(30.0, block_bytes=100, p99=0.006), p99_seconds=None)
    history.add_load(LiveInterval(0.5, reads, writes, False), 100.1)
    assert history.load(LoadMeasure.IOPS) == [(100.1, 100.0)]
    assert history.load(LoadMeasure.BYTES_PER_SECOND) == [(100.1, 10000.0)]
    assert history.load(LoadMeasure.P50_SECONDS) == [(100.1, 0.003)]
    assert history.load(LoadMeasure.P99_SECONDS) == [(100.1, 0.004)]


def test_a_longer_time_takes_no_more_memory() -> None:
    names = ("ubda", "ubdb", "ubdc", "md0")
    history = History(seconds=120.0)
    files = [inspect.getfile(each) for each in (History, look, counters)]

    def run(first: int, count: int) -> None:
        for tick in range(first, first + count):
            history.add(look(tick / 4, disks={name: counters(tick) for name in names}, md_ticks={"md0": tick}))

    def allocated_bytes() -> int:
        # Other tests' threads may allocate memory at the same time.
        own = [tracemalloc.Filter(inclusive=True, filename_pattern=file) for file in files]
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(own).traces)

    tracemalloc.start()
    try:
        run(0, 500)
        before = allocated_bytes()
        run(500, 1000)
        grown = allocated_bytes() - before
    finally:
        tracemalloc.stop()
    assert before > 0
    assert grown < 20_000
