"""A session on a real kernel: snapshots, events, loads and the shell, and what ends when the machine is lost."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lab.arrays import operations
from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import ArraySpec
from lab.disks import open_lab
from lab.disks.inventory import READ_HEADS
from lab.errors import ArrayError, LabError, MachineLost
from lab.host.clock import HostClock, wait_for
from lab.machine import GuestProgram
from lab.measure.job import Measured
from lab.measure.rebuild import DataVerdict
from lab.session.breaking import paces
from lab.session.data_mark import load_target, mark_of, verify_mark, write_mark
from lab.session.load import Load, LoadPhase, predict
from lab.session.monitor import EventKind, Measure, Monitor
from lab.session.session import MOST_CHARACTERS, Client, LabSession, Shell, ShellResult
from lab.units import KIB, MIB
from lab.workloads.fio_output import LiveInterval
from tests.kernel.place import host_at, kernel_target, kill_kernel
from tests.kernel.sessions import DISKS, FILES, D, by_hand, create, session, watching
from tests.waiting import PATIENCE_SECONDS

__all__ = ["DISKS", "session"]
pytestmark = pytest.mark.kernel

SLOWED, QUICK = 40.0, 60.0
"""I/Os per second. A drive of the model "slow" answers 20, or a few more on a busy computer, where the moment in which
a request is let through may last long enough for two. One of the model "hdd-10k" answers 130, or fewer there.
"""


def test_progress_of_a_rebuild_is_on_the_machines_clock(session: LabSession) -> None:
    create(session, "raid5", D[:3])
    session.run(session.array("md0").speed(minimum_kib_per_second=4000, maximum_kib_per_second=4000))
    with watching(session) as watched:
        session.run(session.array("md0").fail("disk01"))
        session.run(session.array("md0").remove("disk01"))
        session.run(session.array("md0").add("disk04"))
        watched.wait(lambda w: EventKind.RESTORED in w.kinds(), "the rebuild to end")
    times = [look.time_seconds for look in watched.looks]
    assert times == sorted(times)
    rates = [value for _, value in watched.history.sync_rate("md0") if value is not None]
    assert len(rates) >= 5
    # The time axis is right if the resulting rate is near the limit of 4 MB/s, which a busy computer still reaches.
    assert 2_000 * KIB < statistics.median(rates) < 9_000 * KIB


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
        session.run(session.array("md0").speed(minimum_kib_per_second=25000, maximum_kib_per_second=25000))
        session.run(session.array("md0").fail("disk02"))
        session.run(session.array("md0").remove("disk02"))
        session.run(session.array("md0").add("disk04"))
        watched.wait(lambda w: EventKind.SYNC_STARTED in w.kinds(), "the rebuild to begin")
        seen = len(intervals)
        watched.wait(lambda _: len(intervals) >= seen + 2, "live values while it rebuilds")
        session.array("md0").wait()
        load.stop()
        measured = load.wait(20.0)
    assert phases == [LoadPhase.PREPARING, LoadPhase.RUNNING, LoadPhase.OVER]
    assert measured is not None
    assert ends == [measured]
    assert measured.figures.reads is not None
    assert measured.figures.writes is not None
    # The figures cover the time from the first document to the last one before the load was stopped.
    begin, seconds = measured.figures.window_begin_seconds, measured.figures.reads.runtime_seconds
    assert begin is not None
    live, clock = 0.0, 0.0
    for each in intervals:
        # Documents in quick succession form one interval, which may extend over an edge.
        inside = min(clock + each.interval_seconds, begin + seconds) - max(clock, begin)
        ios = sum(part.total_ios for part in (each.reads, each.writes) if part)
        live += ios * max(0.0, inside) / each.interval_seconds
        clock += each.interval_seconds
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


def test_an_interrupted_replacement_of_a_mark_invalidates_the_mark(
    session: LabSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(session, "raid1", D[:2])
    first = write_mark(session, "md0")
    assert mark_of(session, "md0") == first

    call = session.machine.call

    def lost(program: GuestProgram, arguments: Sequence[str] = (), **more: float) -> str:
        # The session first reads what is on the array.
        if program is READ_HEADS:
            return call(program, arguments, **more)
        raise MachineLost("the machine was killed while the mark was being written")

    with monkeypatch.context() as patch:
        patch.setattr(session.machine, "call", lost)
        with pytest.raises(MachineLost):
            write_mark(session, "md0")
    # The array may now contain half of each mark.
    assert mark_of(session, "md0") is None
    assert verify_mark(session, write_mark(session, "md0")).is_intact


@pytest.mark.wide
def test_a_load_on_a_file_system_mounts_it_and_a_mark_is_a_file_there(session: LabSession) -> None:
    nodes = tuple(session.node(name) for name in D[:2])
    session.run(session.creation(ArraySpec("raid1", nodes, assume_clean=True), FileSystem.EXT4))
    mark = write_mark(session, "md0")
    assert not mark.is_raw
    load = Load(session, "md0", "rand-write-4k", runtime_seconds=1.0, working_set_bytes=8 * MIB)
    load.start()
    assert load.wait(30.0) is not None
    assert verify_mark(session, mark).is_intact
    by_hand(session, f"dd if=/dev/zero of={mark.path} bs=4k seek=3 count=2 conv=notrunc,fsync status=none")
    found = verify_mark(session, mark)
    assert (found.verdict, found.changed) == (DataVerdict.CHANGED, ((12 * KIB, 8 * KIB),))


@pytest.mark.wide
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

    def next_until(is_reached: Callable[[list[float]], bool], what: str) -> list[float]:
        # The first interval after a change contains both paces.
        first = len(rates) + 1
        return wait_for(
            lambda: rates[first:], is_reached, what=f"{what} ({ends})", timeout_seconds=120, clock=HostClock()
        )

    def is_quick(found: list[float]) -> bool:
        return max(found, default=0.0) > QUICK

    next_until(is_quick, "the drive's own pace")
    session.run(operations.slow(session.lab.disk("disk07"), "slow"))
    assert paces(session) == {"disk07": "slow"}
    limping = statistics.median(next_until(lambda found: len(found) >= 5, "live values"))
    session.run(operations.slow(session.lab.disk("disk07"), "hdd-10k"))
    assert paces(session) == {}
    next_until(is_quick, "the drive's own pace again")
    load.stop()
    load.wait(20.0)
    assert 0 < limping < SLOWED


def test_a_forecast_has_a_number_where_disks_have_a_service_time(session: LabSession) -> None:
    create(session, "raid5", D[6:9])
    forecast = predict(session, "md0", "rand-write-4k")
    assert forecast.iops is not None
    assert "member reads" in forecast.reason
    session.run(session.array("md0").destroy())
    create(session, "raid5", D[:3])
    assert predict(session, "md0", "rand-write-4k").iops is None


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ("parted -s /dev/md0 mklabel gpt mkpart a 1MiB 100%", "gpt"),
        # blkid calls this ambivalent and reports nothing.
        ("mkfs.ext4 -q /dev/md0; printf hsqs | dd of=/dev/md0 conv=notrunc status=none", "ext4"),
    ],
)
def test_foreign_content_of_an_array_is_not_overwritten(session: LabSession, lines: str, word: str) -> None:
    create(session, "raid1", D[:2])
    by_hand(session, lines)
    before = session.machine.run(("sha256sum", "/dev/md0")).stdout
    with pytest.raises(ArrayError, match=word) as caught:
        load_target(session, "md0")
    assert "does not overwrite" in caught.value.message
    assert session.machine.run(("sha256sum", "/dev/md0")).stdout == before


def holder(session: LabSession, disk: str) -> str | None:
    found = session.found.holder_of(session.node(disk))
    return found.name if found else None


def test_a_shell_keeps_its_state_from_line_to_line(session: LabSession) -> None:
    shell = Shell(session)
    pieces: list[str] = []
    first = shell.run(
        "cd /sys/block; SIZE=64; twice() { echo $1 $1; }; echo out; echo err >&2; false", on_output=pieces.append
    )
    assert (first.status, first.output) == (1, "out\nerr\n")
    assert "".join(pieces) == first.output
    assert shell.folder == "/sys/block"
    assert shell.run("pwd; twice $SIZE").output == "/sys/block\n64 64\n"
    assert shell.run('echo "<$*>"; set -- "two words" \'"\' && echo $#').output == "<>\n2\n"
    assert shell.run('printf "%s|" "$@"; set --').output == 'two words|"|'
    assert shell.run("echo $#").output == "0\n"
    # A syntax error fails only the line itself and loses nothing.
    assert shell.run("if then").status != 0
    assert shell.run("echo $SIZE").output == "64\n"
    assert shell.run("exit 7").status == 7
    shell.close()
    assert Shell(session).run("echo ${SIZE:-gone}").output == "gone\n"


def test_a_shell_begins_in_an_empty_home_that_can_be_written(session: LabSession) -> None:
    begun = Shell(session).run("pwd; ls -A; [ $PWD = $HOME ] && touch note && rm note")
    assert (begun.status, begun.output) == (0, "/root\n")


def test_an_array_made_in_the_shell_is_one_of_the_labs(session: LabSession) -> None:
    shell = Shell(session)
    nodes = " ".join(session.node(name) for name in D[:2])
    made = shell.run(f"mdadm --create /dev/md3 --run --level=1 --raid-devices=2 --assume-clean {nodes}")
    assert made.status == 0, made.output
    session.rescan()
    assert holder(session, "disk02") == "md3"
    assert "md3 : active raid1" in shell.run("cat /proc/mdstat").output
    session.run(session.array("md3").fail("disk02"))
    session.run(session.array("md3").destroy())
    assert holder(session, "disk02") is None


def test_a_line_in_the_shell_can_be_interrupted_even_a_stubborn_one(session: LabSession) -> None:
    shell = Shell(session)
    begun = threading.Event()
    results: list[ShellResult] = []

    def run(line: str) -> threading.Thread:
        begun.clear()
        thread = threading.Thread(target=lambda: results.append(shell.run(line, on_output=lambda _: begun.set())))
        thread.start()
        assert begun.wait(PATIENCE_SECONDS)
        return thread

    sleeping = run("X=1; echo begun; sleep 600; echo never")
    with pytest.raises(LabError, match="still running"):
        shell.run("true")
    shell.interrupt()
    sleeping.join(PATIENCE_SECONDS)
    stubborn = run("trap '' INT; echo begun; while :; do sleep 1; done")
    shell.interrupt()
    shell.interrupt()
    stubborn.join(PATIENCE_SECONDS)
    assert [(each.status, each.output) for each in results] == [(130, "begun\n"), (137, "begun\n")]
    assert shell.run("echo ready").output == "ready\n"
    shell.interrupt()


def test_long_output_of_a_line_is_passed_on_and_its_end_stored(session: LabSession) -> None:
    total = 0

    def count(text: str) -> None:
        nonlocal total
        total += len(text)

    result = Shell(session).run("seq 1 100000", on_output=count)
    assert total == sum(len(str(number)) + 1 for number in range(1, 100_001))
    assert result.output.endswith("99999\n100000\n")
    assert len(result.output) <= MOST_CHARACTERS


def test_a_lost_machine_ends_everything_soon(tmp_path: Path) -> None:
    with open_lab(kernel_target(), host_at(tmp_path), wanted=FILES[:3]) as lab:
        session = LabSession(Client(kernel_target(), lab.host), lab)
        create(session, "raid5", D[:3])
        over = threading.Event()
        ends: list[LabError | None] = []

        def on_end(error: LabError | None) -> None:
            ends.append(error)
            over.set()

        monitor = Monitor(session, on_snapshot=lambda _: None, on_end=on_end)
        monitor.start()
        live = threading.Event()
        load = Load(session, "md0", "rand-mix-4k", working_set_bytes=8 * MIB, on_live=lambda _: live.set())
        load.start()
        assert live.wait(PATIENCE_SECONDS)
        lost: list[LabError] = []
        typed = threading.Thread(target=lambda: lost.append(error_of(lambda: Shell(session).run("sleep 600"))))
        typed.start()
        kill_kernel(tmp_path)
        assert over.wait(PATIENCE_SECONDS)
        assert isinstance(ends[0], MachineLost)
        with pytest.raises(MachineLost):
            load.wait(PATIENCE_SECONDS)
        load.stop()
        monitor.stop()
        typed.join(PATIENCE_SECONDS)
        assert isinstance(lost[0], MachineLost)
        with pytest.raises(MachineLost):
            session.statuses()


def error_of(work: Callable[[], object]) -> LabError:
    with pytest.raises(LabError) as caught:
        work()
    return caught.value
