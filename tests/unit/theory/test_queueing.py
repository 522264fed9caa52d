"""Loads played through, against measurements and against what can be worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.arrays.levels import Level, Raid0, Raid1, Raid5, Raid6, Raid10, Single, parse_level
from lab.errors import SpecError
from lab.theory.model import DiskRates, expected_busy_disks, predict_load
from lab.theory.simulation import ArrayUnderLoad, LoadFigures, Server, play
from lab.units import MIB
from lab.workloads.workload import find_workload

DRIVE = Server(0.013, 0.013)
MEASURED = json.loads(Path(__file__).with_name("measured.json").read_text(encoding="utf-8"))


def load(level: Level, members: int, depth: int, **more: object) -> LoadFigures:
    return play(ArrayUnderLoad(level, (DRIVE,) * members, depth, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("row", MEASURED["rows"], ids=lambda row: "-".join(str(part) for part in row[:5]))
def test_measured_on_real_md(row: list[object]) -> None:
    level, members, failed, direction, depth, iops, mean_seconds = row
    raid, service = parse_level(str(level)), MEASURED["service_seconds"]
    working = raid.capacity_bytes(int(str(members)), MEASURED["disk_bytes"] - MIB)
    figures = play(
        ArrayUnderLoad(
            raid,
            (Server(service, service),) * int(str(members)),
            int(str(depth)),
            1.0 if direction == "write" else 0.0,
            frozenset(range(int(str(failed)))),
            working_bytes=working,
        )
    )
    assert figures.iops == pytest.approx(iops, rel=0.05)
    assert figures.mean_seconds == pytest.approx(mean_seconds, rel=0.06)


def test_one_disk_is_a_line() -> None:
    figures = load(Single(), 1, 8)
    assert figures.iops == pytest.approx(1 / 0.013)
    assert figures.mean_seconds == pytest.approx(8 * 0.013)
    assert figures.p99_seconds == pytest.approx(8 * 0.013)


def test_depth_one_takes_the_stages_one_after_the_other() -> None:
    assert load(Raid5(), 6, 1, write_share=1.0).mean_seconds == pytest.approx(0.026)
    assert load(Raid1(), 2, 1, write_share=1.0).mean_seconds == pytest.approx(0.013)


def test_reads_keep_the_disks_busy_that_the_closed_form_says() -> None:
    for depth in (1, 2, 4, 8, 16, 64):
        played = play(ArrayUnderLoad(Raid0(), (DRIVE,) * 6, depth), 40_000)
        assert played.busy_members == pytest.approx(expected_busy_disks(6, depth), rel=0.02)


def test_a_mirror_puts_both_heads_to_work() -> None:
    assert load(Raid1(), 2, 2).iops == pytest.approx(2 / 0.013, rel=0.01)
    assert load(Raid10(), 6, 4).iops > 1.1 * load(Raid0(), 6, 4).iops


def test_a_mix_lies_between() -> None:
    reads, writes = load(Raid5(), 6, 16).iops, load(Raid5(), 6, 16, write_share=1.0).iops
    assert writes < load(Raid5(), 6, 16, write_share=0.3).iops < reads


def test_drives_that_serve_many_at_a_time() -> None:
    flash = replace(DRIVE, concurrent_requests=16)
    assert play(ArrayUnderLoad(Single(), (flash,), 16)).iops == pytest.approx(16 / 0.013, rel=0.01)
    assert play(ArrayUnderLoad(Single(), (flash,), 32)).mean_seconds == pytest.approx(0.026)


def test_reads_and_writes_of_different_cost() -> None:
    uneven = Server(0.010, 0.030)
    assert play(ArrayUnderLoad(Raid5(), (uneven,) * 6, 1, 1.0)).mean_seconds == pytest.approx(0.040)


def test_a_slow_member_holds_a_deep_queue_up() -> None:
    mixed = (*(DRIVE,) * 5, Server(0.130, 0.130))
    assert play(ArrayUnderLoad(Raid0(), mixed, 64)).iops == pytest.approx(6 / 0.130, rel=0.05)


def test_the_same_question_has_the_same_answer() -> None:
    asked = ArrayUnderLoad(Raid6(), (DRIVE,) * 6, 7, 0.5)
    first = play(asked)
    play.cache_clear()
    assert play(asked) == first


def test_a_tiny_file_is_served_by_the_stripe_cache() -> None:
    big = load(Raid5(), 6, 4, write_share=1.0, working_bytes=1024 * MIB)
    small = load(Raid5(), 6, 4, write_share=1.0, working_bytes=8 * MIB)
    assert small.reads_per_request < 0.9 * big.reads_per_request
    with pytest.raises(SpecError, match="stripe cache"):
        load(Raid5(), 6, 4, failed=frozenset({0}), working_bytes=MIB)


def test_what_does_no_work_is_refused() -> None:
    with pytest.raises(SpecError):
        load(Raid0(), 6, 0)
    with pytest.raises(SpecError):
        play(ArrayUnderLoad(Raid0(), (), 1))
    with pytest.raises(SpecError):
        play(ArrayUnderLoad(Raid0(), (Server(0.0, 1.0),) * 2, 1))


def test_the_reason_tells_what_a_write_is_and_who_is_busy() -> None:
    six = [DiskRates(75, 75, 1e8, 1e8)] * 6
    write = find_workload("rand-write-4k")
    healthy = predict_load(Raid5(), six, write)
    assert "2 member reads and, after them, 2 member writes" in healthy.reason
    degraded = predict_load(Raid5(), six, write, failed=frozenset({0}))
    assert degraded.iops < healthy.iops
    assert "with 1 missing" in degraded.reason
    stream = predict_load(Raid5(), six, find_workload("seq-read-1m"))
    assert stream.p95_seconds is None
    with pytest.raises(SpecError):
        predict_load(Raid5(), six, find_workload("seq-read-1m"), failed=frozenset({0}))
