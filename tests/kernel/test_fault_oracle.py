"""The oracle across restarts of the machine, beside loads, under faults, on arrays, volumes and file systems."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from lab.adapt.spec import VolumeSpec
from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import ArraySpec
from lab.arrays.status import wait_until_idle
from lab.disks import DiskKind, open_lab, specs
from lab.errors import LabError, MachineLost
from lab.faults.guest.ledger import BLOCK_BYTES
from lab.faults.oracle import Oracle
from lab.faults.place import FILES, run_program
from lab.machine import Host, parse_target
from lab.session.data_mark import load_target
from lab.session.load import Load
from lab.session.session import Client, LabSession, open_session
from lab.units import KIB, MIB
from tests.kernel.place import host_at, kill_kernel

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]

NAMED = parse_target("uml:?time=virtual&name=oracle")
MOUNTED = filesystem.mount_point("/dev/md1")
DISKS = (
    *specs(4, DiskKind.SPINDLE, size_bytes=24 * MIB, model="ssd"),
    *specs(3, DiskKind.SPINDLE, size_bytes=12 * MIB, model="ssd", first=5),
)


def named(host: Host) -> AbstractContextManager[LabSession]:
    return open_session(Client(NAMED, host))


def oracles(session: LabSession) -> tuple[Oracle, Oracle]:
    """Of a bare array, and of the files on another; with the ledgers that are there."""
    blocks = Oracle.open(session.lab, session.folder, "/dev/md0", first_block=512, block_count=768)
    return blocks, Oracle.open(session.lab, session.folder, MOUNTED)


def mounted(session: LabSession) -> None:
    session.run(filesystem.mount(FileSystem.EXT4, "/dev/md1"))


def built(session: LabSession) -> None:
    nodes = [session.node(f"disk{number:02d}") for number in range(1, 7)]
    session.run(session.creation(ArraySpec("raid5", tuple(nodes[:4]), assume_clean=True, chunk_bytes=64 * KIB)))
    session.run(session.creation(ArraySpec("raid1", tuple(nodes[4:]), name="md1", assume_clean=True)))
    size = session.array("md1").status().size_bytes
    session.run(filesystem.make(FileSystem.EXT4, "/dev/md1", size_bytes=size))
    mounted(session)


def killed_while_at_work(oracle: Oracle, root: Path, events: int) -> None:
    """The machine is killed once so many further events were told, while operations go on. Raises MachineLost."""
    wanted = len(oracle.events) + events

    def watch() -> None:
        end = time.monotonic() + 60
        while len(oracle.events) < wanted and time.monotonic() < end:
            time.sleep(0.002)
        kill_kernel(root)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with oracle.going_on():
        watcher.join()
    # It may have been between two operations at that moment.
    oracle.lab.machine.read(["/proc/uptime"])


def checked_and_killed(host: Host, root: Path, turn: int, events: int) -> None:
    """A machine's life that begins with a verdict and ends with a kill in the middle of writing."""
    with named(host) as session:
        mounted(session)
        found = oracles(session)
        for oracle in found:
            verdict = oracle.check(after_loss=turn > 0)
            assert verdict.is_intact, verdict.sentence
        killed_while_at_work(found[turn % 2], root, events)


def test_all_that_was_acknowledged_is_there_after_restarts_and_kills(tmp_path: Path) -> None:
    host = host_at(tmp_path)
    with named(host) as session:
        built(session)
        for oracle in oracles(session):
            oracle.fill()
            oracle.advance(40)
    # Closed in good order: nothing may be missing, and a later process goes on with the same ledger.
    with named(host) as session:
        mounted(session)
        for oracle in oracles(session):
            verdict = oracle.check()
            assert set(verdict.verdicts) == {"intact"}, verdict.sentence
            oracle.advance(20)
    for turn, events in enumerate((3, 90, 40, 150)):
        with pytest.raises(MachineLost):
            checked_and_killed(host, tmp_path, turn, events)
    with named(host) as session:
        mounted(session)
        for oracle in oracles(session):
            verdict = oracle.check(after_loss=True)
            assert verdict.is_intact, verdict.sentence
            # Settled: from now on there is one answer again, but for what was torn.
            assert set(oracle.check().verdicts) <= {"intact", "torn", "in-flight old", "in-flight new"}
            oracle.fill()
            assert set(oracle.check().verdicts) == {"intact"}


MOST_BESIDE_BLOCKS = 1024


@pytest.fixture(scope="module")
def session() -> Iterator[LabSession]:
    target = parse_target("uml:?time=virtual")
    with open_lab(target, Host.real("tests"), wanted=DISKS) as lab:
        yield LabSession(Client(target, lab.host), lab)


def test_beside_a_load_and_under_faults_no_acknowledged_write_is_lost(session: LabSession, tmp_path: Path) -> None:
    nodes = tuple(disk.node for disk in session.disks[:3])
    session.run(session.creation(ArraySpec("raid5", nodes, assume_clean=True, chunk_bytes=64 * KIB)))
    try:
        # No load uses the region of the data mark.
        target = load_target(session, "md0")
        first, count = target.available_bytes // BLOCK_BYTES, min(target.mark_bytes // BLOCK_BYTES, MOST_BESIDE_BLOCKS)
        oracle = Oracle.open(session.lab, tmp_path, "/dev/md0", first_block=first, block_count=count)
        oracle.fill()
        before = len(oracle.events)
        # It passes no time by itself, so that every command is heard at once.
        load = Load(session, "md0", "rand-write-4k", working_set_bytes=8 * MIB, is_aside=True)
        load.start()
        try:
            with oracle.going_on():
                session.run(session.array("md0").fail("disk01"))
                session.run(session.array("md0").remove("disk01"))
                session.run(session.array("md0").add("disk04"))
                wait_until_idle(session.machine, "md0")
        finally:
            load.stop()
        figures = load.wait(60)
        assert figures is None or figures.figures.writes
        assert len(oracle.events) > before + 100
        assert session.array("md0").status().degraded_count == 0
        verdict = oracle.check()
        assert set(verdict.verdicts) == {"intact"}, verdict.sentence
        # And it would see.
        assert places_of_flips(session, oracle) == 2
    finally:
        session.run(session.array("md0").destroy())


def places_of_flips(session: LabSession, oracle: Oracle) -> int:
    """Each member's part of one stripe is ruined in turn: data are told with stripe and members, parity is not read."""
    status = session.array("md0").status()
    row = oracle.region.first_block * 4096 // (64 * KIB) // 2 + 1
    seen = set()
    for member in status.members:
        at = (member.data_offset_sectors or 0) * 512 + row * 64 * KIB
        step = [["flip", member.device, at + 4096 + 5, 1]]
        list(run_program(session.machine, FILES, {"histories": [{"seed": "x", "steps": step}]}))
        verdict = oracle.check()
        list(run_program(session.machine, FILES, {"histories": [{"seed": "x", "steps": step}]}))
        if not verdict.is_intact:
            (bad,) = verdict.bad
            assert (bad.verdict, bad.stripe) == ("silently corrupt", row)
            assert member.device in bad.members
            assert len(bad.members) == 2
            seen.add(bad.offset_bytes)
    assert oracle.check().is_intact
    return len(seen)


def test_on_a_volume_of_unequal_disks(session: LabSession, tmp_path: Path) -> None:
    disks = tuple(session.lab.disk(name) for name in ("disk01", "disk02", "disk05", "disk06", "disk07"))
    session.run(session.creation(VolumeSpec(disks, assume_clean=True)))
    try:
        device = session.array("adapt0").status().device
        blocks = Oracle.open(session.lab, tmp_path, device, first_block=256, block_count=512)
        blocks.fill()
        blocks.advance(40)
        session.run(session.array("adapt0").fail("disk01"))
        blocks.advance(40)
        verdict = blocks.check()
        assert set(verdict.verdicts) == {"intact"}, verdict.sentence
        assert sum(verdict.verdicts.values()) == 512
    finally:
        session.run(session.array("adapt0").destroy())
        session.lab.reset(disks)


def test_what_the_lab_may_not_write_on_is_refused(session: LabSession, tmp_path: Path) -> None:
    oracle = Oracle.open(session.lab, tmp_path, "/dev/loop0", block_count=16)
    with pytest.raises(LabError, match="does not write to"):
        oracle.fill()
