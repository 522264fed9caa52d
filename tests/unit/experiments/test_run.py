"""The parts of a run that decide without a machine: the stopwatch, stamps, and refusals to start or resume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from lab.errors import ExperimentError, ResultError
from lab.experiments.linting import stamps_of
from lab.experiments.run import _require_room, _require_same
from lab.experiments.schedule import Stopwatch
from lab.machine.api import CommandResult
from lab.results.record import Conditions, DiskRecord, Timings
from lab.units import MIB
from tests.unit.experiments.experiments import experiment
from tests.unit.fakes import FakeClock

CONDITIONS = Conditions(
    target="ssh:lab",
    host_name="lab",
    kernel_release="6.1.176",
    architecture="x86_64",
    cpu_count=2,
    memory_bytes=2**30,
    is_embedded=False,
    mdadm_version="4.2",
    fio_version="3.33",
    disks=(DiskRecord(name="disk01", path="/dev/vdb", kind="virtio", size_bytes=MIB, write_cache="write back"),),
)


def command(program: str, seconds: float) -> CommandResult:
    return CommandResult((program, "--x"), 0, "", "", seconds, 0.0)


def test_commands_are_counted_by_their_program() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, clock.monotonic_seconds() - 10)
    for program, seconds in (("fio", 3.0), ("mkfs.ext4", 1.0), ("mkfs.xfs", 0.5), ("mdadm", 0.25), ("umount", 2.0)):
        watch.on_command(command(program, seconds))
    assert watch.timings() == Timings(
        fio_seconds=3.0,
        mkfs_seconds=1.5,
        mdadm_seconds=0.25,
        resync_seconds=0.0,
        other_seconds=5.25,
        total_seconds=10.0,
    )


def test_a_command_within_a_resync_is_not_counted_twice() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, clock.monotonic_seconds())
    with watch.resync():
        clock.sleep(4.0)
        watch.on_command(command("mdadm", 3.0))
    watch.on_command(command("mdadm", 1.0))
    clock.sleep(2.0)
    timings = watch.timings()
    assert (timings.resync_seconds, timings.mdadm_seconds, timings.other_seconds) == (4.0, 1.0, 1.0)
    assert timings.total_seconds == 6.0


def test_a_resync_that_fails_is_timed_and_over() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, clock.monotonic_seconds())

    def fail() -> None:
        with watch.resync():
            clock.sleep(4.0)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    watch.on_command(command("fio", 1.0))
    assert (watch.timings().resync_seconds, watch.timings().fio_seconds) == (4.0, 1.0)


def test_what_fio_does_to_prepare_is_no_measurement() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, clock.monotonic_seconds())
    with watch.aside():
        watch.on_command(command("fio", 2.0))
    clock.sleep(5.0)
    watch.on_command(command("fio", 1.0))
    with watch.resync(), watch.aside():
        watch.on_command(command("fio", 2.0))
    assert (watch.timings().fio_seconds, watch.timings().other_seconds) == (1.0, 4.0)


def test_commands_side_by_side_never_make_the_rest_negative() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, clock.monotonic_seconds())
    clock.sleep(1.0)
    watch.on_command(command("fio", 3.0))
    assert watch.timings().other_seconds == 0.0


def test_a_resumed_run_adds_to_what_was_spent() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock, clock.monotonic_seconds())
    clock.sleep(5.0)
    watch.on_command(command("fio", 2.0))
    found = watch.timings(Timings(fio_seconds=10.0, resync_seconds=7.0, other_seconds=1.0, total_seconds=18.0))
    assert (found.fio_seconds, found.resync_seconds, found.other_seconds, found.total_seconds) == (12.0, 7.0, 4.0, 23.0)


def disks(kind: str, count: int) -> tuple[DiskRecord, ...]:
    return tuple(
        DiskRecord(name=f"d{number}", path="/dev/x", kind=kind, size_bytes=MIB, write_cache="write back")
        for number in range(count)
    )


CLEAN = "repeats = 6"
EQUAL = """
[[arrays]]
id = "a"
level = "raid1"
members = 2

[[arrays]]
id = "b"
level = "raid0"
members = 2
"""
JOB = """
[[jobs]]
workload = "rand-read-4k"
"""


@pytest.mark.parametrize(
    ("head", "changes", "rules"),
    [
        (CLEAN, {}, []),
        (CLEAN, {"is_embedded": True}, ["simulated-origin"]),
        (CLEAN, {"disks": disks("spindle", 2)}, ["simulated-origin"]),
        (CLEAN, {"host_cache_notes": ("cached",)}, ["host-cache-on"]),
        ("repeats = 5", {}, ["too-few-repeats"]),
        ('repeats = 6\norder = "listed"', {}, ["ordered-runs"]),
        ('repeats = 1\norder = "listed"', {}, ["too-few-repeats", "ordered-runs"]),
        ('repeats = 6\ncache = "warm"', {}, ["warm-cache"]),
        (CLEAN, {"disks": disks("loop", 2)}, ["shared-backing-disk"]),
        (CLEAN, {"disks": disks("file", 2)}, ["shared-backing-disk"]),
        (CLEAN, {"disks": disks("loop", 1)}, []),
        (CLEAN, {"disks": disks("file", 2), "is_virtual_time": True}, []),
        ('repeats = 6\ndefects = ["one", "two"]', {}, ["recipe", "recipe"]),
        ('repeats = 6\npublication = "adaptraid"', {}, ["recipe", "recipe", "recipe"]),
    ],
)
def test_stamps(head: str, changes: dict[str, object], rules: list[str]) -> None:
    found = stamps_of(experiment(head, arrays=EQUAL, jobs=JOB), msgspec.structs.replace(CONDITIONS, **changes))
    assert [stamp.partition(": ")[0] for stamp in found] == rules
    assert all(stamp.partition(": ")[2] for stamp in found)


def test_virtual_time_is_told() -> None:
    plan = experiment(CLEAN, arrays=EQUAL, jobs=JOB)
    embedded = msgspec.structs.replace(CONDITIONS, is_embedded=True)
    assert "in virtual time" in stamps_of(plan, msgspec.structs.replace(embedded, is_virtual_time=True))[0]
    assert "virtual" not in stamps_of(plan, embedded)[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target", "ssh:other"),
        ("host_name", "other"),
        ("kernel_release", "6.2"),
        ("cpu_count", 4),
        ("mdadm_version", "4.3"),
        ("fio_version", "3.36"),
    ],
)
def test_a_result_is_resumed_only_where_it_was_begun(name: str, value: object) -> None:
    now = msgspec.structs.replace(CONDITIONS, **{name: value})
    with pytest.raises(ExperimentError) as caught:
        _require_same(CONDITIONS, now, "x")
    assert (
        caught.value.message
        == f"result x cannot be resumed here: {name} was {getattr(CONDITIONS, name)} and is {value}"
    )


def test_other_disks_nodes_and_tunables_do_not_hinder() -> None:
    _require_same(CONDITIONS, msgspec.structs.replace(CONDITIONS, disks=(), memory_bytes=1, tunables={"a": "b"}), "x")


@dataclass(frozen=True)
class Room:
    f_bavail: int
    f_frsize: int = 4096


def test_a_full_disk_is_told_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.statvfs", lambda path: Room(4096))
    _require_room(tmp_path / "results")
    monkeypatch.setattr("os.statvfs", lambda path: Room(4095))
    with pytest.raises(ResultError, match="less than 16 MiB left for results"):
        _require_room(tmp_path / "results")
