"""The machine in virtual time: its clock and its drives. test_exact_repeat.py tests that runs are repeatable."""

from __future__ import annotations

import json
import time

import pytest

from lab.arrays.operations import slow
from lab.arrays.spec import Bitmap
from lab.disks import DiskKind, Lab, open_lab, specs
from lab.errors import SpecError
from lab.machine import Host, parse_target
from lab.measure.job import PROGRAMS, LoadTarget, MeasureOptions, run_workload
from lab.session import breaking
from lab.session.session import Client, LabSession
from lab.units import MIB
from lab.workloads.fio_output import DirectionFigures
from lab.workloads.workload import changed, find_workload
from tests.kernel.rig import Rig, bare

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time]

TARGET = parse_target("uml:?time=virtual")
DRIVES = specs(6, DiskKind.SPINDLE, size_bytes=32 * MIB, model="hdd-7200")
FILES = specs(3, DiskKind.FILE, size_bytes=32 * MIB, first=7)
DISKS = (*DRIVES, *FILES)
AWAY_SECONDS = 1.0
TWO_HOURS = 7200.0


def uptime(lab: Lab) -> float:
    return float((lab.machine.read(["/proc/uptime"])["/proc/uptime"] or "").split()[0])


def test_virtual_time_does_not_advance_without_requests(lab: Lab) -> None:
    before = uptime(lab)
    time.sleep(AWAY_SECONDS)
    assert uptime(lab) - before < AWAY_SECONDS / 10


def test_two_hours_pass_in_seconds(lab: Lab) -> None:
    before, here = uptime(lab), time.monotonic()
    lab.machine.sleep(TWO_HOURS)
    assert uptime(lab) - before == pytest.approx(TWO_HOURS, abs=1.0)
    # An idle computer takes half a second.
    assert time.monotonic() - here < TWO_HOURS / 100


def test_time_outs_are_of_the_machines_time(lab: Lab) -> None:
    assert lab.machine.run(["sleep", "3000"], timeout_seconds=TWO_HOURS).status == 0
    ended = lab.machine.run(["sleep", "1"]).duration_seconds
    assert ended == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("kind", [DiskKind.RAM, DiskKind.LOOP])
def test_disks_that_take_no_time_are_refused(lab: Lab, kind: DiskKind) -> None:
    before = lab.disks
    with pytest.raises(SpecError, match="would never end"):
        lab.attach(specs(1, kind, size_bytes=16 * MIB, first=50))
    assert lab.disks == before


@pytest.mark.parametrize("way", ["options", "file", "stdin"])
def test_a_fio_that_is_started_by_hand_goes_by_the_machines_clock(lab: Lab, way: str) -> None:
    """By default fio uses the processor's counter, which continues while the machine's clock leaps."""
    options = {"filename": DRIVES[0].name, "size": "256k", "rw": "randread", "bs": "4k", "direct": "1"}
    options["filename"] = next(disk.node for disk in lab.disks if disk.name == DRIVES[0].name)
    job = "\n".join(["[by-hand]", *(f"{key}={value}" for key, value in options.items())])
    start = {
        "options": "fio --name=by-hand " + " ".join(f"--{key}={value}" for key, value in options.items()),
        "file": "cat >/tmp/by-hand.fio && fio /tmp/by-hand.fio",
        "stdin": "fio -",
    }[way]
    ended = lab.machine.run(("sh", "-c", f"{start} --output-format=json"), stdin_text=job)
    found = json.loads(ended.stdout)["jobs"][0]["read"]
    # 64 reads, one at a time, 13.3 ms each.
    assert found["runtime"] == pytest.approx(64 * 13.3, rel=0.02)


def test_arrays_made_in_separate_sessions_have_different_uuids() -> None:
    found = set()
    for _ in range(2):
        with open_lab(TARGET, Host.real("tests"), wanted=FILES) as opened:
            found.add(Rig(opened).create("raid1", 2) and Rig(opened).status.uuid)
    assert len(found) == 2


def test_a_short_job_takes_its_own_time_and_next_to_nothing_else(lab: Lab) -> None:
    job = ["--ioengine=libaio", f"--filename={lab.disks[0].node}", "--rw=randread", "--direct=1", "--time_based"]
    ended = lab.machine.run(["fio", "--name=short", *job, "--runtime=1s", "--ramp_time=500ms"])
    assert ended.duration_seconds == pytest.approx(1.5, rel=0.03)


def test_fio_starts_without_the_libraries_of_other_engines(lab: Lab) -> None:
    job = ["--name=start", "--size=4k"]
    assert lab.machine.run(["fio", *job, "--ioengine=null"]).status == 0
    unloaded = lab.machine.run(["fio", *job, "--ioengine=rbd", "--rbdname=x", "--pool=x"], check=False)
    assert "librados.so.2 is not loaded in virtual time" in unloaded.stderr


@pytest.mark.wide
def test_a_guest_that_computes_without_end_does_not_hold_its_client() -> None:
    """Nothing preempts the guest in virtual time, where computing takes no time, and the agent never runs."""
    begin = time.monotonic()
    with open_lab(TARGET, Host.real("tests"), wanted=FILES) as opened:
        opened.machine.stream(("sh", "-c", "while :; do :; done"))
    assert time.monotonic() - begin < 60


def written(rig: Rig, target: LoadTarget) -> DirectionFigures:
    workload = changed(find_workload("rand-write-4k"), queue_depth=1, jobs=1)
    options = MeasureOptions(runtime_seconds=30.0, warmup_seconds=2.0)
    writes = run_workload(rig.lab, target, workload, options).figures.writes
    assert writes
    return writes


def test_a_slow_drive_is_slow_until_it_is_healthy_again(rig: Rig) -> None:
    disk = rig.lab.disk("disk02")
    rig.lab.execute(slow(disk, "slow"))
    slowed = written(rig, bare(disk))
    rig.lab.execute(slow(disk, disk.model))
    healthy = written(rig, bare(disk))
    assert slowed.iops < healthy.iops / 2
    # 13.3 ms for each request, as in the drive's table.
    assert healthy.iops == pytest.approx(75.0, rel=0.01)
    assert healthy.mean_seconds == pytest.approx(1 / 75, rel=0.01)


def test_a_pulled_drive_fails_its_array_and_comes_back_with_its_data(rig: Rig) -> None:
    session = LabSession(Client(TARGET, rig.lab.host), rig.lab)
    spec = rig.create("raid5", 4, bitmap=Bitmap.INTERNAL)
    session.run(breaking.pull(session, "disk02"))
    before = rig.fill()
    assert rig.status.is_degraded
    session.run(breaking.plug_in(session, "disk02"))
    session.run(session.array(spec.name).re_add("disk02"))
    assert not rig.idle().is_degraded
    rig.lab.machine.run(("mdadm", "--fail", spec.device, spec.members[0]))
    # The returned drive has the data that were written while it was away.
    assert rig.sum() == before


def test_the_programs_that_figures_depend_on_are_those_of_the_machine(lab: Lab) -> None:
    inside = lab.machine.run(("sh", "-c", PROGRAMS)).stdout
    outside = lab.host.processes.run(("env", "-i", "sh", "-c", PROGRAMS)).stdout
    assert {line.rpartition("/")[2] for line in inside.splitlines()} >= {"fio", "mdadm"}
    assert inside == outside
