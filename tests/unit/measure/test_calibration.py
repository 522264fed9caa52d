"""Calibration recovers a drive's mechanics from nothing but the times of reads."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

import lab.disks
from lab.disks.kinds import (
    DriveModel,
    Mechanics,
    all_drive_models,
    find_drive_model,
    require_free_name,
    save_drive_model,
)
from lab.errors import LabError, SpecError
from lab.measure.calibration import Calibration, Place, Times, calibrate
from lab.units import MIB, SECTOR_BYTES

SIZE = 256 * MIB
PROBE = Path(__file__).parents[1] / "disks" / "drive_probe.c"
DRIVES = ("barracuda-4lp", "cheetah-4lp", "sata-7200")


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("probe") / "probe"
    compiler = next(found for name in ("tcc", "gcc", "cc") if (found := shutil.which(name)))
    sources = Path(lab.disks.__file__).parent / "drive"
    subprocess.run([compiler, f"-I{sources}", "-o", program, PROBE, "-lm"], check=True)
    return program


def mechanics(name: str) -> Mechanics:
    found = find_drive_model(name).mechanics
    assert found
    return found


@cache
def calibrated(probe: Path, name: str, late_seconds: float = 0.0) -> Calibration:
    """``late_seconds``: the computer's mean delay, drawn anew for each answer."""
    late = random.Random(7)

    def read(places: Sequence[Place], depth: int) -> list[Times]:
        text = "\n".join(f"{offset // SECTOR_BYTES} {length // SECTOR_BYTES}" for offset, length in places)
        argv = [str(probe), f"size={SIZE}", f"loop={depth}", *mechanics(name).words]
        output = subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout
        times = [(float(begin), float(end)) for begin, end in (line.split() for line in output.splitlines())]
        return [(begin, end + (late.expovariate(1 / late_seconds) if late_seconds else 0.0)) for begin, end in times]

    return calibrate(read, SIZE, title="x", has_write_cache=False)


def rate_at(drive: Mechanics, share: float) -> float:
    """The sequential rate at this fraction of the stroke."""
    whole = sum(zone.share for zone in drive.zones)
    for zone in drive.zones:
        share -= zone.share / whole
        if share <= 0:
            break
    return drive.sequential_bytes_per_second(zone)


@pytest.mark.parametrize("name", DRIVES)
def test_a_quiet_drive_is_recovered(probe: Path, name: str) -> None:
    """Within the errors that docs/drives.md states."""
    true, found = mechanics(name), calibrated(probe, name).model.mechanics
    assert found
    assert found.rpm == pytest.approx(true.rpm, rel=0.001)
    assert found.queue_depth == true.queue_depth
    assert bool(found.read_ahead_bytes) == bool(true.read_ahead_bytes)
    assert found.write_cache_bytes == 0
    for share in (0.1, 0.5, 0.9):
        assert rate_at(found, share) == pytest.approx(rate_at(true, share), rel=0.03)
    for share in (0.05, 0.1, 0.2, 0.33, 0.5, 0.8, 0.95):
        there = true.overhead_ms + 1000 * true.seek_seconds(share * true.cylinders)
        here = found.overhead_ms + 1000 * found.seek_seconds(share * found.cylinders)
        assert here == pytest.approx(there, abs=0.8)
    assert found.mean_random_seconds == pytest.approx(true.mean_random_seconds, rel=0.04)


def test_a_computer_that_is_late_blurs_the_picture_a_little(probe: Path) -> None:
    true, found = mechanics("sata-7200"), calibrated(probe, "sata-7200", late_seconds=0.0005)
    assert found.model.mechanics
    assert found.model.mechanics.rpm == pytest.approx(true.rpm, rel=0.002)
    assert found.model.mechanics.mean_random_seconds == pytest.approx(true.mean_random_seconds, rel=0.08)
    assert found.coherence < calibrated(probe, "sata-7200").coherence


def test_a_disk_that_does_not_rotate_is_rejected(probe: Path) -> None:
    source, now = random.Random(5), [0.0]

    def read(places: Sequence[Place], depth: int) -> list[Times]:
        times = []
        for _ in places:
            begin = now[0]
            now[0] += source.uniform(0.001, 0.009)
            times.append((begin, now[0]))
        return times

    with pytest.raises(LabError, match="no rotation"):
        calibrate(read, SIZE, title="x", has_write_cache=False)


def test_a_disk_that_is_too_small_is_rejected() -> None:
    with pytest.raises(SpecError, match="too small"):
        calibrate(lambda places, depth: [], MIB, title="x", has_write_cache=False)


def test_a_saved_drive_model_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    all_drive_models.cache_clear()
    made = DriveModel(title='my "own"', mechanics=mechanics("cheetah-4lp"))
    path = save_drive_model("mine", made)
    assert path == tmp_path / "raidlab" / "drive-models" / "mine.toml"
    assert find_drive_model("mine") == made
    require_free_name("mine")
    for wrong in ("hdd-7200", "cheetah-4lp", "A B", "../x", ""):
        with pytest.raises(SpecError):
            require_free_name(wrong)
    path.write_text("title = 3\n")
    all_drive_models.cache_clear()
    with pytest.raises(SpecError, match="mine"):
        all_drive_models()
    monkeypatch.undo()
    all_drive_models.cache_clear()
