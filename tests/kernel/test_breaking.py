"""Arrays damaged in a session on a real kernel, silently, by a pulled disk or for good: reports about the data."""

from __future__ import annotations

import pytest

from lab.arrays import operations
from lab.arrays.spec import Bitmap
from lab.errors import ArrayError
from lab.measure.rebuild import DataVerdict
from lab.session import breaking
from lab.session.breaking import is_pulled
from lab.session.data_mark import verify_mark, write_mark
from lab.session.monitor import EventKind
from lab.session.session import LabSession
from lab.units import KIB
from tests.kernel.sessions import DISKS, D, create, session, watching

__all__ = ["DISKS", "session"]
pytestmark = [pytest.mark.kernel, pytest.mark.wide]


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
        session.run(breaking.corrupt(session, "md0", disk))
    assert not session.array("md0").status().is_degraded
    found = verify_mark(session, mark)
    assert found.verdict is DataVerdict.CHANGED
    assert all(mark.start_bytes <= start < mark.start_bytes + mark.length_bytes for start, _ in found.changed)
    assert sum(length for _, length in found.changed) == 64 * KIB
    assert str(found.changed[0][0]) in found.sentence
    assert verify_mark(session, mark).changed == found.changed


def test_corrupted_parity_changes_no_data_and_a_check_reports_a_mismatch(session: LabSession) -> None:
    create(session, "raid4", D[:3])
    mark = write_mark(session, "md0")
    plan = breaking.corrupt(session, "md0", "disk03")
    assert "parity P" in plan.title
    with watching(session) as watched:
        session.run(plan)
        assert verify_mark(session, mark).is_intact
        session.run(session.array("md0").scrub("check"))
        session.array("md0").wait()
        watched.wait(lambda w: EventKind.MISMATCH in w.kinds(), "the mismatch to be told")


def test_a_broken_array_is_reported_as_unreadable(session: LabSession) -> None:
    create(session, "raid5", D[:3])
    mark = write_mark(session, "md0")
    session.run(session.array("md0").fail("disk01"))
    with pytest.raises(ArrayError, match="cannot run without disk02"):
        session.array("md0").fail("disk02")
    session.run(session.array("md0").fail("disk02", breaks_array=True))
    found = verify_mark(session, mark)
    assert found.verdict is DataVerdict.UNREADABLE
    assert found.sentence


def test_remaining_members_of_a_broken_array_can_fail_too(session: LabSession) -> None:
    """Since version 4.3 mdadm refuses to fail them, whether the member matters or not."""
    create(session, "raid5", D[:3])
    session.run(session.array("md0").speed(minimum_kib_per_second=100, maximum_kib_per_second=100))
    session.run(session.array("md0").add("disk04"))
    session.run(session.array("md0").fail("disk01"))
    for disk in ("disk02", "disk03"):
        session.run(session.array("md0").fail(disk, breaks_array=True))
    session.run(session.array("md0").fail("disk04"))
    assert all(member.is_faulty for member in session.array("md0").status().members)


def test_a_pulled_spindle_vanishes_and_comes_back_by_its_bitmap(session: LabSession) -> None:
    create(session, "raid5", D[6:9], bitmap=Bitmap.INTERNAL, bitmap_chunk_bytes=64 * KIB)
    mark = write_mark(session, "md0")
    with watching(session) as watched:
        session.run(breaking.pull(session, "disk08"))
        watched.wait(lambda w: EventKind.DEGRADED in w.kinds(), "md to notice")
        assert is_pulled(session, session.lab.disk("disk08"))
        watched.wait(lambda w: EventKind.DISK_VANISHED in w.kinds(), "the disk to be missed")
        assert verify_mark(session, mark).is_intact
        with pytest.raises(ArrayError, match="cannot run without disk07"):
            breaking.pull(session, "disk07")
        session.run(breaking.plug_in(session, "disk08"))
        session.run(session.array("md0").re_add("disk08"))
        session.array("md0").wait()
        watched.wait(lambda w: EventKind.RESTORED in w.kinds(), "the array to be whole")
        watched.wait(lambda w: EventKind.DISK_RETURNED in w.kinds(), "the disk to be back")
    assert verify_mark(session, mark).is_intact


def test_a_slow_member_is_removed_once_it_has_answered_all(session: LabSession) -> None:
    create(session, "raid1", D[6:9])
    session.run(operations.slow(session.lab.disk("disk08"), "slow"))
    writing = ("fio", "--name=w", "--filename=/dev/md0", "--rw=randwrite", "--bs=64k", "--ioengine=libaio")
    load = session.machine.stream([*writing, "--direct=1", "--iodepth=64", "--time_based", "--runtime=60"])
    session.machine.run(["sleep", "1.5"])
    session.run(session.array("md0").fail("disk08"))
    session.run(session.array("md0").remove("disk08"))
    assert len(session.array("md0").status().members) == 2
    load.stop()
    load.result()
