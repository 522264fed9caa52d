"""``settle`` in the lines of drills: it waits for what md is about to do, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.drills.desk import run_lines
from lab.lessons.proof import open_proof_session
from lab.session.session import LabSession
from tests.kernel.place import host_at, kernel_target

pytestmark = pytest.mark.kernel
SPEED_KIB = 16_000
"""Speed limit of a sync: slow enough that a sync of 32 MiB is not over before the test looks."""
CREATE = "mdadm --create /dev/md0 --run --bitmap=none --size=32M"
PARITY = f"{CREATE} --assume-clean -l5 -n3 $disk01 $disk02 $disk03"
PRINT_STATE = "for name in degraded sync_action resync_start; do cat /sys/block/md0/md/$name; done"
WHOLE = ["0", "idle", "none"]
FEW_SLEEPS = 75
"""Half of the number of times that ``settle`` sleeps at most. Its time would depend on how busy the computer is."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSession]:
    with open_proof_session(kernel_target(), host_at(tmp_path_factory.mktemp("settle")), disks=4) as session:
        yield session


@pytest.fixture
def session(lab: LabSession) -> Iterator[LabSession]:
    """A session with blank disks, in which a sync takes two seconds."""
    run(lab, f"modprobe md_mod; cd /proc/sys/dev/raid; echo 0 > speed_limit_min; echo {SPEED_KIB} > speed_limit_max")
    yield lab
    run(lab, "mdadm --stop --scan; mdadm --zero-superblock $disk01 $disk02 $disk03 $disk04 || true")


def run(session: LabSession, lines: str) -> list[str]:
    nodes = {disk.name: disk.node for disk in session.disks}
    return run_lines(session, lines, nodes).split()


def sleeps_to_settle(session: LabSession, lines: str) -> int:
    counted = "sleeps=0\nsleep() { sleeps=$((sleeps + 1)); command sleep $1; }"
    printed = run(session, f"({lines}) > /dev/null\n{counted}\nsettle /dev/md0\necho $sleeps")
    return int(printed[-1])


@pytest.mark.parametrize(
    ("lines", "more", "printed"),
    [
        (f"{CREATE} -l1 -n2 $disk01 $disk02", "true", []),
        (f"{PARITY}; mdadm /dev/md0 --fail $disk02 --remove $disk02; mdadm /dev/md0 --add $disk04", "true", []),
        (
            f"{PARITY}; mdadm /dev/md0 --add $disk04; mdadm /dev/md0 --replace $disk02 --with $disk04",
            "cd /sys/block/md0/md; for disk in $disk04 $disk02; do cat dev-${disk#/dev/}/state; done",
            ["in_sync", "faulty"],
        ),
        (
            f"{PARITY} --data-offset=4M; mdadm /dev/md0 --add $disk04; mdadm --grow /dev/md0 --raid-devices=4",
            "cat /sys/block/md0/md/reshape_position",
            ["none"],
        ),
    ],
    ids=["new array", "replaced member", "copy to another disk", "reshape"],
)
def test_it_waits_until_all_is_in_sync(session: LabSession, lines: str, more: str, printed: list[str]) -> None:
    assert run(session, f"set -e\n({lines}) > /dev/null\nsettle /dev/md0\n{PRINT_STATE}") == WHOLE
    assert run(session, more) == printed


@pytest.mark.parametrize(
    "lines",
    [
        "true",
        f"{CREATE} --assume-clean -l1 -n2 $disk01 $disk02",
        f"{CREATE} --assume-clean -l5 -n3 $disk01 $disk02 missing",
        # A resync is due, but does not start on a read-only array.
        f"{CREATE} --readonly -l1 -n2 $disk01 $disk02",
        f"{CREATE} --assume-clean -l0 -n2 $disk01 $disk02",
    ],
    ids=["no array", "whole", "no spare", "read-only", "no redundancy"],
)
def test_for_nothing_it_does_not_wait(session: LabSession, lines: str) -> None:
    assert sleeps_to_settle(session, lines) < FEW_SLEEPS
