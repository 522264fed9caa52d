"""Drills on real arrays: what is counted, reset and reported, whatever the student does and however it ends."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.cli.context import OPTIONS, Options
from lab.cli.main import run
from lab.disks import LabDisk
from lab.drills.case import DrillCase, DrillStore
from lab.drills.desk import DrillDesk, images_of, open_desk, run_lines
from lab.drills.disks_program import PIECE_BYTES
from lab.drills.schema import file_digest, find_drill, read_drill, ready
from lab.drills.verdict import DrillVerdict, NothingRuns, debriefing, end_drill, judge
from lab.errors import DrillError, LabError
from lab.machine import Host
from lab.session.session import Client, LabSession, open_session
from tests.kernel.place import disk_name, host_at, kernel_target, kill_kernel

pytestmark = pytest.mark.kernel
TARGET = kernel_target()
PATH = find_drill("1")
DRILL = ready(read_drill(PATH), PATH, "tests")
VALUES = DRILL.values


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """The host of a lab in which the first drill was made once."""
    own = host_at(tmp_path_factory.mktemp("drill"))
    with open_session(Client(TARGET, own), start_arrays=False) as session:
        DrillDesk.begin(session, DRILL)
        clock_seconds = int(session.machine.run(("date", "+%s")).stdout)
    assert abs(clock_seconds - time.time()) < 600, "the clock is right again"
    return own


@contextmanager
def working(host: Host, *, resets: bool = True) -> Iterator[tuple[LabSession, DrillDesk]]:
    with open_session(Client(TARGET, host)) as session:
        desk = open_desk(session)
        assert desk is not None
        if resets:
            desk.reset()
        yield session, desk


def by_hand(session: LabSession, desk: DrillDesk, lines: str) -> str:
    return run_lines(session, f"set -e\n{lines}", desk.environment())


def touched(desk: DrillDesk) -> int:
    desk.update(is_last=True)
    return desk.case.record.touched_bytes


def test_looking_writes_nothing_and_assembling_does(made: Host) -> None:
    with working(made) as (session, desk):
        by_hand(session, desk, "cat /proc/mdstat; mdadm --examine $members")
        by_hand(session, desk, "for d in $members; do dd if=$d of=/dev/null bs=1M count=32; done")
        by_hand(session, desk, "mdadm --stop --scan; blkid $members; hexdump -C -n 4096 $late")
        assert touched(desk) == 0
        assert desk.beyond_own(desk.changed()) == 0
        by_hand(session, desk, "mdadm --assemble --force --run /dev/md0 $members")
        assert touched(desk) > 0


SAME = """
dd if=$late of=/tmp/x bs=4096 count=1 skip=8
dd if=/tmp/x of=$late bs=4096 seek=8 oflag=direct
"""
LOOP = """
loop=$(losetup --find --show $late)
dd if=/dev/zero of=$loop bs=4096 count=3 seek=900 oflag=direct
losetup -d $loop
"""
LINEAR = """
dmsetup create mapped --table "0 8192 linear $late 0"
dd if=/dev/zero of=/dev/mapper/mapped bs=4096 count=1 seek=800 oflag=direct
dmsetup remove --retry mapped
"""


@pytest.mark.parametrize(
    ("how", "lines", "most"),
    [
        ("dd through the cache", "dd if=/dev/urandom of=$late bs=4096 count=2 seek=300 conv=fsync", 8192),
        ("dd of what was there", SAME, 4096),
        ("a loop over the disk", LOOP, 12288),
        ("a linear mapping", LINEAR, 4096),
    ],
)
def test_bytes_written_by_hand_are_counted(made: Host, how: str, lines: str, most: int) -> None:
    with working(made) as (session, desk):
        by_hand(session, desk, f"mdadm --stop --scan\n{lines}\nsync")
        assert touched(desk) == most, how
        assert desk.commit() == most
        by_hand(session, desk, "dd if=/dev/zero of=$late bs=4096 count=9 seek=2000 oflag=direct")
        assert touched(desk) == most


def test_if_no_array_runs_all_blocks_are_missing_and_the_drill_does_not_end(made: Host) -> None:
    with working(made) as (session, desk):
        by_hand(session, desk, "mdadm --stop --scan")
        outcome = judge(desk)
        total = desk.case.record.blocks
        assert total > 0
        assert (outcome.verdict, outcome.blocks) == (DrillVerdict.STOPPED, {"missing": total})
        assert (outcome.kept_percent, [each.id for each in outcome.mistakes]) == (100.0, ["nothing-runs"])
        assert outcome.drill_file == desk.case.record.drill_file == file_digest(PATH)
        assert f"**0 %** of {total} blocks of 4 KiB ({total} missing)" in debriefing(outcome, desk.case.drill)
        with pytest.raises(NothingRuns) as caught:
            end_drill(desk, is_final=False)
        assert "--as-it-is" in caught.value.hint
        assert DrillCase.find(made.state.lab_folder("default")) is not None


def test_superblocks_record_when_each_member_was_last_used(made: Host) -> None:
    case = DrillCase.find(made.state.lab_folder("default"))
    assert case is not None
    pictures, now = case.record.before, time.time()
    stale, late = (str(VALUES[name]) for name in ("stale", "late"))
    days = {name: (now - _moment(pictures[name].updated)) / 86400 for name in (stale, late)}
    assert days[stale] > 50
    assert 0 < days[late] < 2
    assert (now - _moment(pictures[late].created)) / 86400 > 700


def _moment(text: str) -> float:
    """Seconds of a time of mdadm such as ``Thu Nov 26 20:01:10 2026``. The time zone does not matter for days."""
    return time.mktime(time.strptime(text))


def test_overlays_reports_the_array_that_holds_a_disk(made: Host) -> None:
    with working(made) as (session, desk):
        node = desk.environment()["late"]
        # The state after a start that has only collected members.
        by_hand(session, desk, "mdadm --stop --scan; mdadm --incremental $late")
        refused = session.machine.run(("overlays", "up", node), check=False)
        assert refused.status == 1
        held = rf"overlays: {node.removeprefix('/dev/')} is held by (md\d+) \(inactive\): mdadm --stop /dev/\1 first\n"
        assert re.fullmatch(held, refused.stderr)
        by_hand(session, desk, "mdadm --stop --scan; overlays up $members")


def test_a_repaired_array_that_is_stopped_is_started_before_judging(made: Host) -> None:
    with working(made) as (session, desk):
        desk.commit()
        by_hand(session, desk, f"{RIGHT}\nmdadm --stop /dev/md0")
    with working(made, resets=False) as (_, desk):
        outcome = judge(desk)
        assert (outcome.verdict, outcome.saved_percent, outcome.mistakes) == (DrillVerdict.SAVED, 100.0, ())
        desk.reset()


_BY_HAND = """
mdadm --stop --scan
for d in $members; do
  n=$(basename $d)
  truncate -s 64M /tmp/$n.cow
  dmsetup create cow-$n --table "0 $(blockdev --getsz $d) snapshot $d $(losetup --find --show /tmp/$n.cow) P 8"
done
mdadm --assemble --force --run /dev/md5 /dev/mapper/cow-*
mdadm /dev/md5 --add /dev/mapper/cow-$(basename $stale) || true
mkdir -p /tmp/mnt
mount /dev/md5 /tmp/mnt
rm -rf /tmp/mnt/d0
dd if=/dev/urandom of=/tmp/mnt/new bs=1M count=4
umount /tmp/mnt
"""


_WITH_OVERLAYS = """
mdadm --stop --scan
over=$(overlays up $members)
mdadm --create /dev/md5 --run --assume-clean -l5 -n$count --size=15M $over
mkfs.ext4 -q -F /dev/md5
"""


@pytest.mark.parametrize("lines", [_WITH_OVERLAYS, _BY_HAND], ids=["overlays", "by hand"])
def test_on_overlays_anything_goes(made: Host, lines: str) -> None:
    with working(made) as (session, desk):
        by_hand(session, desk, lines)
        assert touched(desk) == 0
        assert judge(desk).touched_bytes == 0
        desk.reset()
        assert desk.changed() == desk.case.record.own_ranges


_HALF = """
mdadm --stop --scan
overlays up $members
over=
for disk in $members; do
  [[ " $stale $second " == *" $disk "* ]] || over="$over /dev/mapper/over-$(basename $disk)"
done
mdadm --assemble --force --run /dev/md0 $over
dmsetup remove --retry over-$(basename $stale)
mdadm --zero-superblock $stale
mdadm /dev/md0 --add $stale
settle /dev/md0
"""


def test_an_array_that_is_half_on_overlays_is_not_finished(made: Host) -> None:
    with working(made) as (session, desk):
        desk.commit()
        run_lines(session, f"set -e{_HALF}", desk.environment())
        outcome = judge(desk)
        assert (outcome.verdict, outcome.saved_percent) == ("saved, unfinished", 100)
        assert "required: the array is on the disks themselves; found: it is on overlays" in outcome.missing
        desk.reset()


_MESS = """
mdadm --stop --scan
mdadm --create /dev/md3 --run -l1 -n2 --size=30M $late $stale
mkfs.ext4 -q -F /dev/md3
mkdir -p /tmp/m
mount /dev/md3 /tmp/m
wipefs -a $other || true
"""


def pieces_of(ranges: list[list[int]]) -> set[int]:
    """The pieces of a disk in which these byte ranges lie."""
    return {piece for first, end in ranges for piece in range(first // PIECE_BYTES, -(-end // PIECE_BYTES))}


def test_a_reset_takes_everything_back_and_writes_only_what_has_changed(
    made: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[int] = []
    written: list[Any] = []

    def noted(session: LabSession, folder: Path, disks: Sequence[LabDisk], work: str) -> Any:
        if work == "put_back":
            # Until all is unmounted and stopped, more may change.
            changed = images_of(session, folder, disks, "changed")
            expected.extend(len(pieces_of(ranges)) * PIECE_BYTES for ranges in changed)
            written.extend(found := images_of(session, folder, disks, work))
            return found
        return images_of(session, folder, disks, work)

    with working(made) as (session, desk):
        by_hand(session, desk, _MESS)
        assert desk.changed()
        monkeypatch.setattr("lab.drills.desk.images_of", noted)
        desk.reset()
        assert written == expected
        # Otherwise the reset would take as long as copying all disks.
        assert 0 < sum(written) < sum(disk.size_bytes for disk in desk.disks) / 2
        assert desk.changed() == desk.case.record.own_ranges
        assert desk.case.record.touched_bytes == 0
        assert "/tmp/m" not in (session.machine.read(["/proc/mounts"])["/proc/mounts"] or "")


@pytest.mark.wide
def test_what_cannot_be_stopped_is_named(made: Host) -> None:
    with working(made) as (session, desk):
        by_hand(session, desk, "mdadm --stop --scan; mdadm --assemble --force --run /dev/md3 $members")
        holder = session.machine.stream(("bash", "-c", "exec 7< /dev/md3; echo open; sleep 600"))
        assert next(holder.chunks()) == "open\n"
        with pytest.raises(DrillError, match="md3"):
            desk.reset()
        holder.stop(signal_number=9)


def test_a_machine_that_is_killed_costs_neither_disks_nor_count(made: Host) -> None:
    def write_and_kill() -> None:
        with working(made) as (session, desk):
            by_hand(session, desk, "mdadm --stop --scan; dd if=/dev/urandom of=$late bs=4096 count=2 seek=1500")
            by_hand(session, desk, "sync")
            # The monitor has stopped, so the write shows only in a comparison of the disks with their earlier state.
            kill_kernel(made.state.root)
            session.machine.run(("true",))

    with pytest.raises(LabError):
        write_and_kill()
    with working(made, resets=False) as (_, desk):
        assert desk.case.record.resets > 0
        assert sum(end - first for ranges in desk.changed().values() for first, end in ranges) > 0
        assert 0 < desk.commit() <= 8192


@pytest.mark.wide
def test_a_restarted_drill_prints_nothing_about_the_previous_array(
    made: Host, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(made.state.root))
    try:
        assert run(["drill", "start", "1", "--again"]) == 0
        assert run(["exec", "--", "true"]) == 0
    finally:
        OPTIONS.set(Options())
    printed = capfd.readouterr().err
    assert "blkdiscard" in printed
    assert "was not started" not in printed
    case = DrillCase.find(made.state.lab_folder("default"))
    assert case is not None
    assert case.record.seed == "tests"


RIGHT = """
mdadm --stop --scan
mdadm --assemble --force --run /dev/md0 $members
for d in $stale $second; do mdadm /dev/md0 --add $d; done
mdadm --wait /dev/md0 || true
"""


@pytest.mark.wide
def test_the_outcome_is_stored_with_all_typed_commands(made: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with working(made) as (session, desk):
        desk.note_command("mdadm --examine x")
        desk.commit()
        by_hand(session, desk, RIGHT)
        before = judge(desk)
        assert (before.verdict, before.saved_percent, before.missing) == (DrillVerdict.SAVED, 100.0, ())
        images = desk.case.images
        assert images.is_dir()
        outcome = end_drill(desk)
    assert not images.exists()
    assert DrillCase.find(made.state.lab_folder("default")) is None
    assert [each.id for each in DrillStore(made).all()] == [outcome.id]
    assert outcome.commands[-1].line == "mdadm --examine x"
    assert outcome.mistakes == ()
    assert {name for name, picture in outcome.after.items() if picture.has_superblock} == {
        *str(VALUES["members"]).split(",")
    }
    reported: list[str] = []
    with open_session(Client(TARGET, made, on_notice=reported.append)) as session:
        assert open_desk(session) is None
    assert [line for line in reported if "drill" in line] == [
        "the drill 'Members dropped out, one after the other' left server:data on disk01 to disk06; "
        "'raidlab drill clear' makes these disks blank"
    ]
    monkeypatch.setenv("RAIDLAB_STATE", str(made.state.root))
    try:
        assert run(["drill", "clear"]) == 0
        assert run(["drill", "clear"]) != 0
        assert run(["exec", "--", f"blkid /dev/{disk_name(0)[:-1]}?"]) != 0
    finally:
        OPTIONS.set(Options())
