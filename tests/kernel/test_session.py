"""A session on a real kernel: looks, events, loads, marks and faults, side by side as the app uses them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from lab.arrays import members
from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import ArraySpec, Bitmap
from lab.disks import DiskKind, DiskSpec, Lab, open_lab, specs
from lab.errors import ArrayError, CommandFailed, DeviceRefused, LabError, MachineLost, SpecError
from lab.machine import Host, parse_target
from lab.measure.integrity import Verdict
from lab.measure.job import Measured
from lab.plans import Plan
from lab.seams.clock import HostClock, wait_for
from lab.session import plans
from lab.session.breaking import is_pulled, paces
from lab.session.data_mark import mark_of, verify_mark, write_mark
from lab.session.events import Event, EventKind, events_between
from lab.session.history import History, Measure
from lab.session.load import Load, LoadPhase, predict
from lab.session.monitor import Look, Monitor
from lab.session.session import LabSession
from lab.session.shell import KEPT_CHARACTERS, Shell, ShellResult
from lab.units import KIB, MIB
from lab.workloads.live import LiveInterval

pytestmark = pytest.mark.kernel
FILES = specs(6, DiskKind.FILE, size_bytes=64 * MIB)
SPINDLES = tuple(
    DiskSpec(name=f"disk{number:02d}", kind=DiskKind.SPINDLE, size_bytes=24 * MIB, personality="hdd-10k")
    for number in range(7, 11)
)
D = [f"disk{number:02d}" for number in range(1, 11)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with open_lab(parse_target("uml:"), Host.real("tests"), wanted=(*FILES, *SPINDLES)) as opened:
        yield opened


@pytest.fixture
def session(lab: Lab) -> Iterator[LabSession]:
    """Blank disks and no array."""
    session = LabSession(parse_target("uml:?name=session"), lab.host, lab)
    yield session
    for status in session.statuses():
        session.run(plans.stop(session, status.name))
    for disk in SPINDLES:
        if is_pulled(session, session.lab.disk(disk.name)):
            session.run(plans.plug_in(session, disk.name))
        session.run(plans.slow(session, disk.name, disk.personality))
    session.run(plans.reset_all(session))


@dataclass
class Watched:
    """What a monitor told."""

    session: LabSession
    history: History = field(default_factory=History, repr=False)
    looks: list[Look] = field(default_factory=list, repr=False)
    events: list[Event] = field(default_factory=list)
    ends: list[LabError | None] = field(default_factory=list)

    def on_look(self, look: Look) -> None:
        if self.looks:
            self.events += events_between(self.looks[-1], look, name_of=self.session.disk_name)
        self.looks.append(look)
        self.history.add(look)

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def wait(self, is_reached: Callable[[Watched], bool], what: str, seconds: float = 20.0) -> None:
        wait_for(lambda: self, is_reached, what=what, timeout_seconds=seconds, clock=HostClock())


@contextmanager
def watching(session: LabSession, hertz: float = 8.0) -> Iterator[Watched]:
    watched = Watched(session)
    monitor = Monitor(session, on_look=watched.on_look, on_end=watched.ends.append, hertz=hertz)
    monitor.start()
    try:
        watched.wait(lambda w: bool(w.looks), "a first look")
        yield watched
    finally:
        monitor.stop()


def create(session: LabSession, level: str, disks: list[str], **more: object) -> None:
    nodes = tuple(session.node(name) for name in disks)
    clean = level != "raid0"
    spec = ArraySpec(level, nodes, assume_clean=clean, chunk_bytes=None if level == "raid1" else 64 * KIB, **more)  # type: ignore[arg-type]
    do(session, plans.create(session, spec))


def do(session: LabSession, plan: Plan) -> None:
    session.run(plan)
    session.rescan()


def by_hand(session: LabSession, line: str) -> None:
    session.machine.run(("sh", "-c", line))


def test_the_monitor_follows_what_is_typed_by_hand(session: LabSession) -> None:
    with watching(session) as watched:
        nodes = " ".join(session.node(name) for name in D[:3])
        by_hand(session, f"mdadm --create /dev/md7 --run --level=raid5 --raid-devices=3 --assume-clean {nodes}")
        watched.wait(lambda w: EventKind.ARRAY_APPEARED in w.kinds(), "the array to appear")
        by_hand(session, f"mdadm /dev/md7 --fail {session.node('disk02')}")
        watched.wait(lambda w: EventKind.DEGRADED in w.kinds(), "the failure to be seen")
        assert [event.sentence for event in watched.events if event.kind is EventKind.MEMBER_FAULTY] == [
            "disk02 in md7 is faulty"
        ]
        by_hand(session, f"mdadm /dev/md7 --remove {session.node('disk02')}")
        by_hand(session, "echo 8000 > /sys/block/md7/md/sync_speed_max")
        by_hand(session, f"mdadm /dev/md7 --add {session.node('disk04')}")
        watched.wait(lambda w: EventKind.RESTORED in w.kinds(), "the rebuild to end")
        by_hand(session, "mdadm --stop /dev/md7")
        watched.wait(lambda w: EventKind.ARRAY_GONE in w.kinds(), "the array to go")
    told = watched.kinds()
    wanted = [EventKind.SYNC_STARTED, EventKind.MEMBER_IN_SYNC, EventKind.RESTORED]
    assert [kind for kind in told if kind in wanted] == wanted
    assert watched.ends == [None]


def test_progress_of_a_rebuild_is_on_the_machines_clock(session: LabSession) -> None:
    create(session, "raid5", D[:3])
    do(session, plans.speed(session, "md0", minimum_kib_per_second=20000, maximum_kib_per_second=20000))
    with watching(session) as watched:
        for plan in (plans.fail, plans.remove):
            do(session, plan(session, "md0", "disk01"))
        do(session, plans.add(session, "md0", "disk04"))
        watched.wait(lambda w: EventKind.RESTORED in w.kinds(), "the rebuild to end")
    times = [look.time_seconds for look in watched.looks]
    assert times == sorted(times)
    points = [(time, value) for time, value in watched.history.sync_fraction("md0") if value is not None]
    fractions = [value for _, value in points]
    assert len(fractions) >= 5
    assert fractions == sorted(fractions)
    # 63 MiB of each member at 20 MB/s: the axis is right if the rate that it gives is near the limit.
    speed = (fractions[-1] - fractions[0]) * 62 * MIB / (points[-1][0] - points[0][0])
    assert 10_000 * KIB < speed < 45_000 * KIB


def test_a_load_runs_beside_the_monitor_and_a_rebuild(session: LabSession) -> None:
    create(session, "raid5", D[:3])
    mark = write_mark(session, "md0")
    intervals: list[LiveInterval] = []
    phases: list[LoadPhase] = []
    ends: list[Measured | LabError | None] = []
    with watching(session, hertz=4.0) as watched:
        load = Load(
            session,
            "md0",
            "rand-mix-4k",
            working_set_bytes=16 * MIB,
            on_live=intervals.append,
            on_phase=phases.append,
            on_end=ends.append,
        )
        load.start()
        watched.wait(lambda _: len(intervals) >= 2, "live values")
        do(session, plans.speed(session, "md0", minimum_kib_per_second=25000, maximum_kib_per_second=25000))
        for plan in (plans.fail, plans.remove):
            do(session, plan(session, "md0", "disk02"))
        do(session, plans.add(session, "md0", "disk04"))
        watched.wait(lambda w: EventKind.SYNC_STARTED in w.kinds(), "the rebuild to begin")
        seen = len(intervals)
        watched.wait(lambda _: len(intervals) >= seen + 2, "live values while it rebuilds")
        session.wait("md0")
        load.stop()
        measured = load.wait(20.0)
    assert phases == [LoadPhase.PREPARING, LoadPhase.RUNNING, LoadPhase.OVER]
    assert measured is not None
    assert ends == [measured]
    assert measured.figures.reads is not None
    assert measured.figures.writes is not None
    # The figures are those between the first document and the last before it was stopped.
    begin, seconds = measured.figures.window_begin_seconds, measured.figures.reads.runtime_seconds
    assert begin is not None
    clocks = itertools.accumulate(each.interval_seconds for each in intervals)
    inside = [
        each for each, clock in zip(intervals, clocks, strict=True) if begin + 0.001 < clock < begin + seconds + 0.001
    ]
    live = sum(part.ios for each in inside for part in (each.reads, each.writes) if part)
    total = measured.figures.reads.total_ios + measured.figures.writes.total_ios
    assert live == pytest.approx(total, rel=0.05)
    assert max(value or 0.0 for _, value in watched.history.rates("md0", Measure.WRITE_IOPS)) > 0
    assert verify_mark(session, mark).is_intact


def test_a_load_ends_by_itself_and_can_be_stopped_at_any_time(session: LabSession) -> None:
    create(session, "raid1", D[:2])
    load = Load(session, "md0", "rand-read-4k", runtime_seconds=1.0)
    load.start()
    measured = load.wait(30.0)
    assert measured is not None
    assert measured.figures.reads is not None
    early = Load(session, "md0", "rand-read-4k")
    early.start()
    early.stop()
    early.wait(20.0)
    assert early.is_over


def test_a_load_on_a_file_system_mounts_it_and_a_mark_is_a_file_there(session: LabSession) -> None:
    nodes = tuple(session.node(name) for name in D[:2])
    do(session, plans.create(session, ArraySpec("raid1", nodes, assume_clean=True), FileSystem.EXT4))
    mark = write_mark(session, "md0")
    assert not mark.is_raw
    load = Load(session, "md0", "rand-write-4k", runtime_seconds=1.0, working_set_bytes=8 * MIB)
    load.start()
    assert load.wait(30.0) is not None
    assert verify_mark(session, mark).is_intact
    by_hand(session, f"dd if=/dev/zero of={mark.path} bs=4k seek=3 count=2 conv=notrunc,fsync status=none")
    found = verify_mark(session, mark)
    assert (found.verdict, found.changed) == (Verdict.CHANGED, ((12 * KIB, 8 * KIB),))


def test_a_mark_survives_a_failure_and_a_rebuild(session: LabSession) -> None:
    create(session, "raid6", D[:4])
    mark = write_mark(session, "md0")
    assert mark_of(session, "md0") == mark
    for disk in ("disk01", "disk03"):
        do(session, plans.fail(session, "md0", disk))
    assert verify_mark(session, mark).is_intact
    for disk, new in (("disk01", "disk05"), ("disk03", "disk06")):
        do(session, plans.remove(session, "md0", disk))
        do(session, plans.add(session, "md0", new))
    session.wait("md0")
    found = verify_mark(session, mark)
    assert found.is_intact
    assert "all " in found.sentence


@pytest.mark.parametrize(
    ("level", "members", "victims"),
    [("raid0", 2, ["disk02"]), ("raid5", 3, ["disk03"]), ("raid6", 4, ["disk02"]), ("raid1", 2, ["disk01", "disk02"])],
)
def test_silent_corruption_is_found_by_the_mark_alone(
    session: LabSession, level: str, members: int, victims: list[str]
) -> None:
    create(session, level, D[:members])
    mark = write_mark(session, "md0")
    for disk in victims:
        do(session, plans.corrupt(session, "md0", disk))
    assert not session.status("md0").is_degraded
    found = verify_mark(session, mark)
    assert found.verdict is Verdict.CHANGED
    assert all(mark.start_bytes <= start < mark.start_bytes + mark.length_bytes for start, _ in found.changed)
    assert sum(length for _, length in found.changed) == 64 * KIB
    assert str(found.changed[0][0]) in found.sentence
    assert verify_mark(session, mark).changed == found.changed


def test_corrupted_parity_changes_no_data_but_a_check_tells(session: LabSession) -> None:
    create(session, "raid4", D[:3])
    mark = write_mark(session, "md0")
    plan = plans.corrupt(session, "md0", "disk03")
    assert "parity P" in plan.title
    with watching(session) as watched:
        do(session, plan)
        assert verify_mark(session, mark).is_intact
        do(session, plans.scrub(session, "md0", "check"))
        session.wait("md0")
        watched.wait(lambda w: EventKind.MISMATCH in w.kinds(), "the mismatch to be told")


def test_a_broken_array_is_unreadable_and_says_so(session: LabSession) -> None:
    create(session, "raid5", D[:3])
    mark = write_mark(session, "md0")
    do(session, plans.fail(session, "md0", "disk01"))
    with pytest.raises(ArrayError, match="cannot do without disk02"):
        plans.fail(session, "md0", "disk02")
    do(session, plans.fail(session, "md0", "disk02", breaks_array=True))
    found = verify_mark(session, mark)
    assert found.verdict is Verdict.UNREADABLE
    assert found.sentence


def test_what_is_left_of_a_broken_array_can_fail_too(session: LabSession) -> None:
    """mdadm refuses from 4.3 on, whether the member counts or not."""
    create(session, "raid5", D[:3])
    do(session, plans.speed(session, "md0", minimum_kib_per_second=100, maximum_kib_per_second=100))
    do(session, plans.add(session, "md0", "disk04"))
    do(session, plans.fail(session, "md0", "disk01"))
    for disk in ("disk02", "disk03"):
        do(session, plans.fail(session, "md0", disk, breaks_array=True))
    do(session, plans.fail(session, "md0", "disk04"))
    assert all(member.is_faulty for member in session.status("md0").members)


def test_a_member_that_is_not_there_cannot_break_an_array(session: LabSession) -> None:
    create(session, "raid0", D[:2])
    plan = members.fail("md0", session.node("disk03"), breaks_array=True)
    with pytest.raises(CommandFailed):
        session.run(plan)
    assert not session.status("md0").state.is_broken


def test_a_pulled_spindle_vanishes_and_comes_back_by_its_bitmap(session: LabSession) -> None:
    create(session, "raid5", D[6:9], bitmap=Bitmap.INTERNAL, bitmap_chunk_bytes=64 * KIB)
    mark = write_mark(session, "md0")
    with watching(session) as watched:
        do(session, plans.pull(session, "disk08"))
        watched.wait(lambda w: EventKind.DEGRADED in w.kinds(), "md to notice")
        assert is_pulled(session, session.lab.disk("disk08"))
        watched.wait(lambda w: EventKind.DISK_VANISHED in w.kinds(), "the disk to be missed")
        assert verify_mark(session, mark).is_intact
        with pytest.raises(ArrayError, match="cannot do without disk07"):
            plans.pull(session, "disk07")
        do(session, plans.plug_in(session, "disk08"))
        do(session, plans.re_add(session, "md0", "disk08"))
        session.wait("md0")
        watched.wait(lambda w: EventKind.RESTORED in w.kinds(), "the array to be whole")
        watched.wait(lambda w: EventKind.DISK_RETURNED in w.kinds(), "the disk to be back")
    assert verify_mark(session, mark).is_intact


def test_what_cannot_be_pulled_or_slowed_is_refused_with_what_can(session: LabSession) -> None:
    with pytest.raises(DeviceRefused, match="disk01 cannot be pulled: it is part of the embedded kernel") as refused:
        plans.pull(session, "disk01")
    assert "--kind spindle" in refused.value.hint
    with pytest.raises(DeviceRefused, match="disk01 is a file disk"):
        plans.slow(session, "disk01", "slow")
    with pytest.raises(SpecError, match="cannot become a ssd"):
        plans.slow(session, "disk07", "ssd")


def test_a_spindle_slows_down_and_recovers_while_a_load_runs(session: LabSession) -> None:
    rates: list[float] = []
    ends: list[object] = []
    load = Load(
        session,
        "disk07",
        "rand-read-4k-q1",
        working_set_bytes=1 * MIB,
        on_live=lambda each: rates.append(each.reads.iops if each.reads else 0.0),
        on_end=ends.append,
    )
    load.start()

    def mean_of_next(count: int) -> float:
        # The first interval after a change holds both paces.
        first = len(rates) + 1
        wait_for(
            lambda: (len(rates), ends),
            lambda seen: seen[0] >= first + count,
            what="live values",
            timeout_seconds=30,
            clock=HostClock(),
        )
        return sum(rates[first : first + count]) / count

    own = mean_of_next(3)
    session.run(plans.slow(session, "disk07", "slow"))
    assert paces(session) == {"disk07": "slow"}
    limping = mean_of_next(4)
    session.run(plans.slow(session, "disk07", "hdd-10k"))
    assert paces(session) == {}
    again = mean_of_next(3)
    load.stop()
    load.wait(20.0)
    # 20 I/Os a second against 130, on a machine that may be busy.
    assert 12 < limping < 23
    assert own > 2 * limping
    assert again > 2 * limping


def test_a_forecast_has_a_number_where_disks_have_a_service_time(session: LabSession) -> None:
    create(session, "raid5", D[6:9])
    forecast = predict(session, "md0", "rand-write-4k")
    assert forecast.iops is not None
    assert "member reads" in forecast.reason
    do(session, plans.destroy(session, "md0"))
    create(session, "raid5", D[:3])
    assert predict(session, "md0", "rand-write-4k").iops is None


def test_a_shell_goes_on_where_its_last_line_ended(session: LabSession) -> None:
    shell = Shell(session)
    pieces: list[str] = []
    first = shell.run(
        "cd /sys/block; SIZE=64; twice() { echo $1 $1; }; echo out; echo err >&2; false", on_output=pieces.append
    )
    assert (first.status, first.output) == (1, "out\nerr\n")
    assert "".join(pieces) == first.output
    assert shell.folder == "/sys/block"
    assert shell.run("pwd; twice $SIZE").output == "/sys/block\n64 64\n"
    # Bad syntax is the line's own failure, and loses nothing.
    assert shell.run("if then").status != 0
    assert shell.run("echo $SIZE").output == "64\n"
    assert shell.run("exit 7").status == 7
    shell.close()
    assert Shell(session).run("echo ${SIZE:-gone}").output == "gone\n"


def test_a_shell_begins_in_a_folder_that_its_user_can_enter(session: LabSession) -> None:
    begun = Shell(session).run("pwd; ls >/dev/null && [ $PWD = $HOME ]")
    assert (begun.status, begun.output) == (0, "/root\n" if os.access("/root", os.X_OK) else "/tmp\n")


def test_an_array_made_in_the_shell_is_one_of_the_labs(session: LabSession) -> None:
    shell = Shell(session)
    nodes = " ".join(session.node(name) for name in D[:2])
    made = shell.run(f"mdadm --create /dev/md3 --run --level=1 --raid-devices=2 --assume-clean {nodes}")
    assert made.status == 0, made.output
    session.rescan()
    assert session.array_of("disk02") == "md3"
    assert "md3 : active raid1" in shell.run("cat /proc/mdstat").output
    do(session, plans.fail(session, "md3", "disk02"))
    do(session, plans.destroy(session, "md3"))
    assert session.array_of("disk02") is None


def test_a_line_in_the_shell_can_be_interrupted_even_a_stubborn_one(session: LabSession) -> None:
    shell = Shell(session)
    begun = threading.Event()
    results: list[ShellResult] = []

    def run(line: str) -> threading.Thread:
        begun.clear()
        thread = threading.Thread(target=lambda: results.append(shell.run(line, on_output=lambda _: begun.set())))
        thread.start()
        assert begun.wait(20.0)
        return thread

    sleeping = run("X=1; echo begun; sleep 600; echo never")
    with pytest.raises(LabError, match="still running"):
        shell.run("true")
    shell.interrupt()
    sleeping.join(20.0)
    stubborn = run("trap '' INT; echo begun; while :; do sleep 1; done")
    shell.interrupt()
    shell.interrupt()
    stubborn.join(20.0)
    assert [(each.status, each.output) for each in results] == [(130, "begun\n"), (137, "begun\n")]
    assert not shell.is_running
    assert shell.run("echo ready").output == "ready\n"
    shell.interrupt()


def test_much_output_of_a_line_is_handed_on_and_its_end_kept(session: LabSession) -> None:
    total = 0

    def count(text: str) -> None:
        nonlocal total
        total += len(text)

    result = Shell(session).run("seq 1 100000", on_output=count)
    assert total == sum(len(str(number)) + 1 for number in range(1, 100_001))
    assert result.output.endswith("99999\n100000\n")
    assert len(result.output) <= KEPT_CHARACTERS


def test_a_lost_machine_ends_everything_soon() -> None:
    with open_lab(parse_target("uml:"), Host.real("tests"), wanted=FILES[:3]) as lab:
        session = LabSession(parse_target("uml:"), lab.host, lab)
        create(session, "raid5", D[:3])
        over = threading.Event()
        ends: list[LabError | None] = []

        def on_end(error: LabError | None) -> None:
            ends.append(error)
            over.set()

        monitor = Monitor(session, on_look=lambda _: None, on_end=on_end)
        monitor.start()
        live = threading.Event()
        load = Load(session, "md0", "rand-mix-4k", working_set_bytes=8 * MIB, on_live=lambda _: live.set())
        load.start()
        assert live.wait(20.0)
        lost: list[LabError] = []
        typed = threading.Thread(target=lambda: lost.append(error_of(lambda: Shell(session).run("sleep 600"))))
        typed.start()
        kill_kernel(session)
        assert over.wait(10.0)
        assert isinstance(ends[0], MachineLost)
        with pytest.raises(MachineLost):
            load.wait(10.0)
        load.stop()
        monitor.stop()
        typed.join(10.0)
        assert isinstance(lost[0], MachineLost)
        with pytest.raises(MachineLost):
            session.statuses()


def error_of(work: Callable[[], object]) -> LabError:
    with pytest.raises(LabError) as caught:
        work()
    return caught.value


def kill_kernel(session: LabSession) -> None:
    """End the kernel that was started last by this process, by the process group that its folder names."""
    machines = session.host.state.root / "machines"
    newest = max(machines.glob(f"{os.getpid()}-*/kernel.json"), key=lambda path: path.stat().st_mtime_ns)
    os.killpg(int(json.loads(newest.read_text())["kernel_group"]), signal.SIGKILL)
