"""Simulated loads compared with measurements, and md's handling of requests with drivers/md of Linux 6.1."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.arrays.levels import Level, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10, Raid10Layout, Single, parse_level
from lab.arrays.spec import penalty_words
from lab.errors import SpecError
from lab.theory.model import DiskRates, ceiling_iops, demand, expected_busy_disks, predict_load
from lab.theory.simulation import ArrayUnderLoad, LoadFigures, Requests, Server, Servers, play, requests_for
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
    assert figures.p95_seconds == pytest.approx(8 * 0.013)


FLASH, UNEVEN = replace(DRIVE, concurrent_requests=16), Server(0.010, 0.030)


@pytest.mark.parametrize(
    ("level", "servers", "depth", "write_share", "iops", "within"),
    [
        # At depth one, the stages come one after the other.
        (Raid5(), (DRIVE,) * 6, 1, 1.0, 1 / 0.026, 1e-6),
        (Raid1(), (DRIVE,) * 2, 1, 1.0, 1 / 0.013, 1e-6),
        (Raid5(), (UNEVEN,) * 6, 1, 1.0, 1 / 0.040, 1e-6),
        # A mirror puts both heads to work.
        (Raid1(), (DRIVE,) * 2, 2, 0.0, 2 / 0.013, 0.01),
        (Single(), (FLASH,), 16, 0.0, 16 / 0.013, 0.01),
        (Single(), (FLASH,), 32, 0.0, 16 / 0.013, 0.01),
        # A slow member holds up a deep queue.
        (Raid0(), (*(DRIVE,) * 5, Server(0.130, 0.130)), 64, 0.0, 6 / 0.130, 0.05),
    ],
)
def test_loads_by_hand(
    level: Level, servers: tuple[Server, ...], depth: int, write_share: float, iops: float, within: float
) -> None:
    figures = play(ArrayUnderLoad(level, servers, depth, write_share))
    assert figures.iops == pytest.approx(iops, rel=within)
    # Little's law, exactly where one drive or one request sets the pace.
    if depth == 1 or level == Single():
        assert figures.mean_seconds == pytest.approx(depth / iops)


def test_the_number_of_busy_disks_matches_the_closed_form() -> None:
    for depth in (1, 2, 4, 8, 16, 64):
        played = play(ArrayUnderLoad(Raid0(), (DRIVE,) * 6, depth), 40_000)
        assert played.busy_members == pytest.approx(expected_busy_disks(6, depth), rel=0.02)


def test_mirrors_balance_better_than_stripes() -> None:
    assert load(Raid10(), 6, 4).iops > 1.1 * load(Raid0(), 6, 4).iops


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


def test_the_reason_lists_member_operations_and_missing_members() -> None:
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


NONE: frozenset[int] = frozenset()


def made(level: Level, members: int, *failed: int, rotational: bool = True, stripes: int | None = None) -> Requests:
    servers = Servers([Server(1.0, 1.0)] * members, follows_heads=True)
    return requests_for(
        level, members, frozenset(failed), servers, lambda: 0.5, is_rotational=rotational, stripes=stripes
    )


LEVELS = (Raid0(), Raid1(), Raid4(), Raid5(), Raid6(), Raid10())


@pytest.mark.parametrize(
    ("level", "members"),
    [(Single(), 1), *((level, count) for level in LEVELS for count in range(max(3, level.minimum_members), 13))],
)
def test_the_text_on_a_small_write_matches_the_model(level: Level, members: int) -> None:
    work, expected = demand(level, members, is_write=True), level.small_write(members)
    assert [work.total_reads, work.total_writes] == pytest.approx([expected.reads, expected.writes])
    words = penalty_words(level, members)
    assert words.startswith(f"{expected.ios} I/O")
    if level.parity_members:
        stages = made(level, members).stages(0, True, 0.0)
        written = {*stages[-1][0]}
        # Whether a block that is read is written afterwards tells which way it is.
        assert ("old data" in words) == (expected.modifies) == ({*stages[0][0]} == written)
        assert ("the other" in words) == ({*stages[0][0]}.isdisjoint(written))


def test_a_request_of_several_chunks_is_an_io_on_each_of_its_members() -> None:
    read = demand(Raid0(), 5, is_write=False, chunks=4)
    assert read.reads == pytest.approx([0.8] * 5)
    assert demand(Raid0(), 5, is_write=True, chunks=9).total_writes == 5
    whole = demand(Raid5(), 5, is_write=True, chunks=4)
    assert (whole.total_reads, whole.writes, whole.stages) == (0, (1.0,) * 5, 1)
    assert demand(Raid6(), 6, is_write=False, chunks=4).total_reads == pytest.approx(4)
    # So RAID 0 writes requests of four chunks 5/4 as fast as RAID 5 with as many members.
    of_chunks = [1 / max(demand(level, 5, is_write=True, chunks=4).writes) for level in (Raid0(), Raid5())]
    assert of_chunks[0] / of_chunks[1] == pytest.approx(5 / 4)
    with pytest.raises(SpecError, match="no prediction for requests of 3 chunks"):
        demand(Raid5(), 5, is_write=True, chunks=3)


def test_four_members_reconstruct_and_five_modify() -> None:
    # Place 0: data on slot 0, parity on the last slot, in both.
    assert made(Raid5(), 4).stages(0, True, 0.0)[0] == ((1, 2), False)
    assert made(Raid5(), 5).stages(0, True, 0.0)[0] == ((0, 4), False)


def test_writes_of_a_degraded_raid5() -> None:
    # The data's own member is gone: parity comes from the other data, and only parity is written.
    assert made(Raid5(), 6, 0).stages(0, True, 0.0) == (((1, 2, 3, 4), False), ((5,), True))
    # Parity's member is gone: md reads the other data all the same, and writes the data.
    assert made(Raid5(), 6, 5).stages(0, True, 0.0) == (((1, 2, 3, 4), False), ((0,), True))
    # Some other member is gone: reconstruct-write is impossible.
    assert made(Raid5(), 6, 2).stages(0, True, 0.0) == (((0, 5), False), ((0, 5), True))


def test_a_doubly_degraded_raid6_reads_all_it_can_when_parity_must_be_made_anew_without_a_data_block() -> None:
    # Place 0 of six: parity on slots 5 and 0, data on slot 1.
    assert made(Raid6(), 6, 1, 2).stages(0, True, 0.0) == (((0, 3, 4, 5), False), ((0, 5), True))
    assert made(Raid6(), 6, 2, 3).stages(0, True, 0.0) == (((0, 1, 5), False), ((1, 0, 5), True))


def test_a_read_of_a_lost_block_reads_all_the_others() -> None:
    assert made(Raid5(), 6, 0).stages(0, False, 0.0) == (((1, 2, 3, 4, 5), False),)
    assert made(Raid5(), 6, 1).stages(0, False, 0.0) == (((0,), False),)
    assert demand(Raid5(), 6, is_write=False, failed=frozenset({3})).total_reads == pytest.approx(2 * 5 / 6)


def test_pages_in_the_stripe_cache_are_not_read_again() -> None:
    requests = made(Raid5(), 6, stripes=6)
    assert requests.stages(0, True, 0.0) == (((0, 5), False), ((0, 5), True))
    assert requests.stages(0, True, 0.0) == (((0, 5), True),)
    # Another chunk of the stripe: its own old data only, the parity is there.
    assert requests.stages(6, True, 0.0) == (((1,), False), ((1, 5), True))
    degraded = made(Raid5(), 6, 0, stripes=6)
    degraded.stages(0, False, 0.0)
    assert degraded.stages(0, False, 0.0) == ()


def test_which_copy_a_mirror_reads() -> None:
    servers = Servers([Server(1.0, 1.0)] * 2, follows_heads=True)
    near = requests_for(Raid1(), 2, NONE, servers, lambda: 0.9, is_rotational=True)
    assert near.stages(0, False, 0.0) == (((0,), False),)
    servers.put(0.0, (0,), False, 0.2)
    assert near.stages(0, False, 0.5) == (((1,), False),), "the idle one"
    servers.put(0.0, (1,), False, 0.8)
    servers.put(0.5, (0, 1), False, 0.5)
    assert near.stages(0, False, 1.5) == (((1,), False),), "the nearest head: 0.8 is nearer to 0.9 than 0.2"
    pending = requests_for(Raid1(), 2, NONE, servers, lambda: 0.9, is_rotational=False)
    servers.put(1.5, (1,), False, 0.9)
    assert pending.stages(0, False, 1.6) == (((0,), False),), "the one with fewer I/Os waiting"


def test_far_copies_are_read_at_the_first_copy() -> None:
    far = made(Raid10(layout=Raid10Layout.FAR), 4)
    assert [far.stages(place, False, 0.0)[0][0] for place in range(4)] == [(0,), (1,), (2,), (3,)]
    assert made(Raid10(layout=Raid10Layout.FAR), 4, 1).stages(1, False, 0.0) == (((2,), False),)


def test_a_lost_array_is_refused() -> None:
    for level, failed in ((Raid0(), (0,)), (Raid5(), (0, 1)), (Raid10(), (0, 1)), (Raid1(), (0, 1))):
        members = 2 if isinstance(level, Raid1) else 4
        with pytest.raises(SpecError, match="does not survive"):
            made(level, members, *failed)


def test_ceilings() -> None:
    six = [Server(0.01, 0.01)] * 6
    assert ceiling_iops(Raid5(), six, is_write=True) == pytest.approx(150)
    assert ceiling_iops(Raid4(), six, is_write=True) == pytest.approx(50), (
        "the parity member reads and writes each time"
    )
    assert ceiling_iops(Raid10(), six, is_write=False) == pytest.approx(600)
    with pytest.raises(SpecError):
        ceiling_iops(Raid0(), [], is_write=True)
