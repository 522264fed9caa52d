"""Emulated drives: their mechanics, in C with simulated time; their plugin; checksums of their contents."""

from __future__ import annotations

import ctypes
import itertools
import random
import runpy
import shutil
import statistics
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lab.disks
from lab.disks import DiskKind, LabDisk
from lab.disks.attaching import content_sums
from lab.disks.kinds import (
    DriveModel,
    Mechanics,
    Zone,
    all_drive_models,
    find_drive_model,
    install_drive,
    save_drive_model,
)
from lab.errors import LabError, SpecError, ToolMissing
from lab.units import MIB, SECTOR_BYTES
from tests.unit.fakes import FACTS, FakeMachine, Scripted

Request = tuple[str, float, int, int]
Play = Callable[..., list[float]]

HERE = Path(__file__).parent
SIZE = 256 * MIB
SECTORS = SIZE // SECTOR_BYTES
DRIVES = ("barracuda-4lp", "cheetah-4lp", "sata-7200")
SIMPLE = Mechanics(
    rpm=6000,
    cylinders=1000,
    surfaces=2,
    zones=(Zone(share=0.5, sectors_per_track=400), Zone(share=0.5, sectors_per_track=200)),
    seek_short_a_ms=1.0,
    seek_short_b_ms=0.2,
    seek_short_cylinders=100,
    seek_long_a_ms=2.0,
    seek_long_b_ms=0.01,
    track_switch_ms=0.5,
    overhead_ms=0.1,
)
"""A revolution takes 10 ms; a sector takes 25 or 50 µs."""


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """A function that plays requests on a drive and returns when each of them is answered, in seconds."""
    program = tmp_path_factory.mktemp("probe") / "probe"
    compiler = next(found for name in ("tcc", "gcc", "cc") if (found := shutil.which(name)))
    sources = Path(lab.disks.__file__).parent / "drive"
    subprocess.run([compiler, f"-I{sources}", "-o", program, HERE / "drive_probe.c", "-lm"], check=True)

    def run(mechanics: Mechanics, lines: Iterable[Request | tuple[str, float] | str], size: int = SIZE) -> list[float]:
        text = "\n".join(line if isinstance(line, str) else " ".join(map(str, line)) for line in lines)
        argv = [str(program), f"size={size}", *mechanics.words]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
        return [float(line) for line in done.stdout.split()]

    return run


def changed(mechanics: Mechanics, **values: object) -> Mechanics:
    return msgspec.structs.replace(mechanics, **values)


def drive(name: str) -> Mechanics:
    mechanics = find_drive_model(name).mechanics
    assert mechanics
    return mechanics


def alone(sectors: Iterable[int], count: int = 8, gap: float = 0.1) -> list[Request]:
    """One read after the other, with long pauses between them."""
    return [("r", index * gap, sector, count) for index, sector in enumerate(sectors)]


def service(answers: list[float], gap: float = 0.1) -> list[float]:
    return [answer - index * gap for index, answer in enumerate(answers)]


def test_the_same_sector_comes_by_once_in_a_turn(play: Play) -> None:
    answers = play(SIMPLE, [("r", index * 0.1, 5000, 1) for index in range(5)])
    turns = [(later - earlier) / 0.010 for earlier, later in itertools.pairwise(answers)]
    assert turns == pytest.approx([round(turn) for turn in turns], abs=1e-6)


def test_a_random_read_takes_overhead_seek_and_half_a_turn(play: Play) -> None:
    source = random.Random(1)
    for name in DRIVES:
        mechanics = changed(drive(name), read_ahead_bytes=0)
        answers = play(mechanics, alone(source.randrange(SECTORS - 8) for _ in range(4000)))
        assert statistics.mean(service(answers)) == pytest.approx(mechanics.mean_random_seconds, rel=0.03)


def test_seek_time_follows_the_curve(play: Play) -> None:
    """The shortest of many accesses over a distance is the seek alone, since the sector was just about to arrive."""
    source = random.Random(2)
    cylinders = SECTORS / (300 * 2)
    for share in (0.02, 0.09, 0.3, 0.8):
        distance = round(share * cylinders)
        start = [source.randrange(1000) for _ in range(400)]
        # From the first zone (800 sectors per cylinder). The second zone begins in the middle of the stroke.
        middle = round(cylinders / 2)
        beyond = middle * 800 + max(0, distance - middle) * 400
        target = distance * 800 if distance < middle else beyond
        pairs = [sector for each in start for sector in (each % 8, target + each % 400)]
        taken = service(play(SIMPLE, alone(pairs, count=1)))[1::2]
        stretched = distance * SIMPLE.cylinders / cylinders
        assert min(taken) == pytest.approx(0.0001 + SIMPLE.seek_seconds(stretched), abs=0.0003)
        assert max(taken) < min(taken) + 0.0101


def test_outer_zones_are_read_faster_by_the_ratio_of_their_tracks(play: Play) -> None:
    def seconds(first: int) -> float:
        run = 64 * 400
        answers = play(SIMPLE, [("r", 0.0, first, run)])
        return answers[0]

    outer, inner = 64 * 400 * SECTOR_BYTES / seconds(0), 64 * 400 * SECTOR_BYTES / seconds(SECTORS - 64 * 400)
    by_formula = [SIMPLE.sequential_bytes_per_second(zone) for zone in SIMPLE.zones]
    assert outer / inner == pytest.approx(2.0, rel=0.03)
    assert outer == pytest.approx(by_formula[0], rel=0.03)


def test_a_queue_is_served_in_the_order_that_suits_the_head(play: Play) -> None:
    source = random.Random(3)
    places = [source.randrange(SECTORS - 8) for _ in range(512)]

    def rate(depth: int) -> float:
        return len(places) / max(play(changed(SIMPLE, queue_depth=depth), [("r", 0.0, place, 8) for place in places]))

    in_order, few, many = rate(1), rate(4), rate(32)
    assert in_order * 1.2 < few
    assert few * 1.4 < many


def test_nothing_waits_for_ever_behind_nearer_requests(play: Play) -> None:
    near = [("r", index * 0.0005, (index * 37) % 4000, 1) for index in range(5000)]
    far = ("r", 0.001, SECTORS - 100, 1)
    answers = play(changed(SIMPLE, queue_depth=32), [near[0], far, *near[1:]])
    assert 1.0 < answers[1] < 4.0


def test_reading_on_costs_no_turn_where_the_drive_reads_ahead(play: Play) -> None:
    def mean(ahead: int) -> float:
        mechanics = changed(SIMPLE, read_ahead_bytes=ahead)
        now, lines = 0.0, []
        for index in range(40):
            lines.append(("r", now, index * 8, 8))
            now = play(mechanics, lines)[-1] + 0.00005
        return now / 40

    assert mean(0) == pytest.approx(0.010, rel=0.15)
    assert mean(128 * 1024) < 0.001


CACHED = changed(SIMPLE, write_cache_bytes=64 * 1024)


def test_the_write_cache_answers_at_once_until_it_is_full(play: Play) -> None:
    answers = play(CACHED, [("w", 0.0, 8 * 997 * index % SECTORS, 8) for index in range(20)])
    assert max(answers[:16]) < 0.0005
    # The first run left the cache as soon as it had arrived there.
    assert min(answers[17:]) > 0.001


def test_a_write_through_the_cache_takes_the_mechanics_time(play: Play) -> None:
    through, cached = play(CACHED, [("t", 0.0, 100_000, 8), ("w", 1.0, 200_000, 8)])
    assert through > 0.001
    assert cached < 1.0005


def test_flush_takes_as_long_as_the_medium_needs(play: Play) -> None:
    writes = [("w", 0.0, 8 * 997 * index % SECTORS, 8) for index in range(16)]
    flushed = play(CACHED, [*writes, ("f", 0.0005)])[-1]
    assert 16 * 0.002 < flushed < 16 * 0.020
    assert play(CACHED, [*writes, ("f", 60.0)])[-1] == pytest.approx(60.0, abs=1e-6)


def test_a_lost_cache_loses_acknowledged_writes_not_yet_on_the_medium(play: Play) -> None:
    writes = [("w", 0.0, 8 * 997 * index % SECTORS, 8) for index in range(16)]
    in_cache = play(CACHED, [*writes, "l"])[-1]
    assert 8 * 14 <= in_cache <= 8 * 16
    assert play(CACHED, [*writes, ("f", 0.001), "l"])[-1] == 0


def test_reads_from_the_write_cache_need_no_mechanics(play: Play) -> None:
    *_, read = play(CACHED, [("w", 0.0, 300_000, 8), ("w", 0.0001, 100_000, 8), ("r", 0.0002, 100_000, 8)])
    assert read < 0.001


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The configuration folder, without drive models of this computer's user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    all_drive_models.cache_clear()
    yield tmp_path
    all_drive_models.cache_clear()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rpm": 0}, r"mechanics\.rpm: 0 is not possible: write more than 0"),
        ({"zones": (Zone(share=0, sectors_per_track=100),)}, r"mechanics\.zones.*> 0"),
        ({"seek_long_a_ms": -1.0}, r"mechanics\.seek_long_a_ms: -1\.0 is not possible: write 0 or more"),
        ({"queue_depth": 0}, r"mechanics\.queue_depth: 0 is not possible: write 1 or more"),
    ],
)
def test_a_drive_that_no_drive_can_be_is_not_saved(own_folder: Path, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words) as refused:
        save_drive_model("mine", DriveModel(title="mine", mechanics=changed(SIMPLE, **wrong)))
    assert "the drive model mine" in refused.value.message
    assert refused.value.hint
    assert not (own_folder / "raidlab/drive-models/mine.toml").exists()


def test_a_drive_without_zones_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 32 zones"):
        changed(SIMPLE, zones=())


def test_published_drives_seek_as_published() -> None:
    """Table 1 of the AdaptRaid study. The two pieces of each curve meet at 600 cylinders."""
    for name, short, long in (("cheetah-4lp", 5.35, 5.29), ("barracuda-4lp", 8.70, 8.70)):
        mechanics = drive(name)
        assert mechanics.seek_seconds(599.99) * 1000 == pytest.approx(short, abs=0.01)
        assert mechanics.seek_seconds(600) * 1000 == pytest.approx(long, abs=0.01)


PLUGIN = "/run/raidlab/drive.so"


def test_the_sources_are_compiled_once_until_they_change() -> None:
    machine = FakeMachine()
    install_drive(machine, PLUGIN)
    written = [path.rpartition("/")[2] for path, _ in machine.writes]
    assert written == ["mechanics.h", "parameters.h", "plugin.c", "plain_stack.py", "compile.sh"]
    assert machine.runs[-1][-2:] == (PLUGIN, f"{PLUGIN}.d")
    machine.runs.clear()
    install_drive(machine, PLUGIN)
    assert machine.runs == [("test", "-s", PLUGIN)]
    machine.files[f"{PLUGIN}.d/mechanics.h"] = "older"
    install_drive(machine, PLUGIN)
    assert machine.runs[-1][0] == "sh"


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (Scripted(status=127), ToolMissing, "no C compiler"),
        (
            Scripted(status=1, stderr="plugin.c:14: include file 'nbdkit-plugin.h' not found"),
            ToolMissing,
            "nbdkit's headers",
        ),
        (Scripted(status=1, stderr="plugin.c:7: error"), LabError, "cannot be compiled"),
    ],
)
def test_what_keeps_it_from_being_compiled_is_named(answer: Scripted, kind: type[LabError], message: str) -> None:
    machine = FakeMachine(answers={("sh",): answer})
    with pytest.raises(kind, match=f"{message}.*\n.*tcc libc6-dev nbdkit-plugin-dev"):
        install_drive(machine, PLUGIN)


def segment_types(path: Path) -> list[int]:
    content = path.read_bytes()
    (start,), (size, count) = struct.unpack_from("<Q", content, 32), struct.unpack_from("<HH", content, 54)
    return [struct.unpack_from("<I", content, start + size * number)[0] for number in range(count)]


@pytest.mark.skipif(not shutil.which("tcc"), reason="tcc is not installed; next: provision/host/setup.sh lab")
def test_what_tcc_makes_asks_for_no_executable_stack(tmp_path: Path) -> None:
    source, built = tmp_path / "answer.c", tmp_path / "answer.so"
    source.write_text("int answer(void) { return 42; }\n")
    subprocess.run(["tcc", "-shared", "-o", built, source], check=True)
    program = Path(lab.disks.__file__).parent / "drive" / "plain_stack.py"
    plain_stack, gnu_stack = runpy.run_path(str(program))["main"], 0x6474E551
    before = segment_types(built)
    for _ in range(2):
        plain_stack(str(built))
        assert segment_types(built) == [*before, *([] if gnu_stack in before else [gnu_stack])]
    assert ctypes.CDLL(str(built)).answer() == 42


def test_disks_whose_driver_supports_it_have_a_checksum_in_virtual_time_only() -> None:
    disks = [
        LabDisk(name=name, kind=DiskKind.SPINDLE, node=f"/dev/{kernel_name}", size_bytes=MIB)
        for name, kernel_name in (("disk01", "drive3"), ("disk02", "loop0"))
    ]
    for is_virtual_time, sums in ((True, {"disk01": "e3b0"}), (False, {})):
        facts = replace(FACTS, is_virtual_time=is_virtual_time)
        machine = FakeMachine(files={"/sys/block/drive3/content_sum": "e3b0\n"}, facts=facts)
        assert content_sums(machine, disks) == sums
