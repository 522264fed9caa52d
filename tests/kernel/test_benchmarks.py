"""Every script of benchmarks/ in its short form: started as users start it, it ends and writes all that it measures.

How fast anything is only ``make bench`` says, so a bound that is missed is no failure here, unless it is no matter of
speed: that nothing broke, or that two runs are the same.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.browser import CHROMIUM
from benchmarks.support.report import SMALL_EXPERIMENT
from lab.host.python import isolated_python

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time]
REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (REPOSITORY / "benchmarks").glob("*.py"))
LONGEST_SECONDS = 900.0
"""So long only where the computer has much other work."""
SOME = 0
SPREAD = 3
"""Minimum, median, maximum."""


@dataclass(frozen=True)
class Short:
    """How little a script can be asked for, and what it must tell then."""

    words: str = ""
    measures: Mapping[str, int] = field(default_factory=dict)
    """Path in the document -> how many numbers are there, all above zero."""
    tells: Mapping[str, int] = field(default_factory=dict)
    """The same of numbers that may be zero, and of ``measured`` where it is one."""
    must_hold: bool = False
    """Whether its bound is no matter of speed."""


SHORT = {
    "adapt_layout": Short("--rounds 1", {"tables/*/targets": 10, "tables/*/seconds": 10}),
    "adapt_mapping": Short("--rounds 1", {"pairs": 1, "targets": 1, "mapped_iops/*": SPREAD, "bare_iops/*": SPREAD}),
    "adaptive_length": Short("--seconds 6", {"*/iops": 2, "*/repeats": 2, "seconds/*": 2}, {"*/half_width": 2}),
    "app_first_frame": Short(
        "--rounds 1",
        {"first_frame_seconds/*": SPREAD, "cpu_seconds_of_the_app_until_then/*": SPREAD}
        | {"machine_runs_seconds/*": SPREAD},
    ),
    "app_growth": Short(
        "--seconds 2", {"looks": 1, "shows": 1, "first_mib": 1, "last_mib": 1}, must_hold=True, tells={"measured": 1}
    ),
    "app_idle": Short("--seconds 2", {"seconds": 1}, {"app_fraction": 1, "machine_fraction": 1, "measured": 1}),
    "app_keys": Short(
        "--rounds 3", {"seconds/*": SPREAD, "p90_seconds": 1, "mean_seconds": 1}, {"cpus_busy/app": 1, "cpus_busy/*": 2}
    ),
    "calibration": Short("--drives sata-7200", tells={"errors/sata-7200/*": 5, "measured": 1}, must_hold=True),
    "class_view": Short(
        "--results 20",
        {"first/*": 6, "one_bundle_more/*": 5, "later_wall_seconds/*": SPREAD + 1, "later_cpu_seconds/*": SPREAD}
        | {"peak_mib": 1},
    ),
    "coverage": Short(
        "--levels raid0,raid5 --depths 1", {"all/cells": 1, "lines/*/truth": 6, "lines/*/interval/*": 12}
    ),
    "crash_points": Short(
        "--points 2 --least 0.001 --only raid1/bitmap/idle/mixed",
        {"points": 1, "points_per_second": 1, "points_per_second_of_one_machine/*": SPREAD, "configurations": 1},
        must_hold=True,
    ),
    "false_alarms": Short(
        "--trios 1 --seconds 0.1",
        {"trios": 1, "noise_of_a_run": 1, "true_ratio": 1, "by_repeats/*/repeats": 6},
        {"measured": 1, "by_repeats/*/found": 6, "by_repeats/*/false_alarm_interval/*": 12},
    ),
    "first_array": Short("--rounds 1", {"first_array_seconds/*": SPREAD, "bare_boot_seconds/*": SPREAD}),
    "fleet": Short(
        "--rounds 1",
        {"biased_per_second/*": SPREAD, "plain_per_second/*": SPREAD, "large_fleet_seconds": 1, "disks": 1}
        | {"a_biased_array_is_worth_plain_ones": 1},
        tells={"measured": 1},
    ),
    "louwrentius_ratios": Short("--seconds 1 --repeats 1 --depths 4", {"*/*": 18}, {"measured": 1}),
    "memory": Short("--seconds 1 --mebibytes 16", {"client_mib": 1, "agent_mib": 1}),
    "planted_bugs": Short(
        "--only oracle --oracle row-skipped", {"oracle/row-skipped/found_after_seconds": 1}, must_hold=True
    ),
    "prediction": Short("--rounds 1", {"experiments/antioquia/seconds/*": SPREAD, "experiments/antioquia/cells": 1}),
    "report": Short(
        "--results 6", {"cpu_seconds/*": SPREAD, "wall_seconds/*": SPREAD, "peak_mib": 1, "page_megabytes": 1}
    ),
    "sampling_overhead": Short("--rounds 1", {"pairs": 1, "sampled_iops/*": SPREAD, "bare_iops/*": SPREAD}),
    "steady_flight": Short("--runs 2 --depths 1", {"paces/*/iops": 6}, {"measured": 1}),
    "study_overhead": Short(
        "--experiment ../small.toml",
        {f"{name}_seconds": 1 for name in ("wall", "fio", "mkfs", "mdadm", "resync")},
    ),
    "sweep": Short(
        "--cells 4 --planned 500",
        {"cells": 1, "own_seconds": 1, "wall_seconds": 1, "two_workers_seconds": 1, "plan_seconds": 1}
        | {"resume_seconds": 1, "plan_bytes": 1, "resume_bytes": 1, "cells_planned": 1},
    ),
    "sweep_page": Short("--rounds 1", {"seconds/*": SPREAD, "heap_mib/*": SPREAD, "rows": 1, "page_megabytes": 1}),
    "theory_accuracy": Short(
        "--seconds 2 --levels raid0 --depths 1",
        {"points/*/predicted_iops": 2, "points/*/measured_iops": 2, "points/*/ratio": 2},
        {"measured": 1},
    ),
    "two_platforms": Short("--on uml:?time=real --repeats 1", {"speed_up/*/*": SOME}, {"measured": 1}),
    "virtual_time": Short(
        "--seconds 2 --experiment ../small.toml",
        {"speeds/*/simulated_seconds_per_second": 4, "speeds/*/computer_seconds": 4, "costs/*/measured": 2},
    ),
    "vm_boot": Short(),
}


def needs(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """What this computer must have for it, beside the embedded kernels."""
    has_browser = CHROMIUM is not None or bool(os.environ.get("RAIDLAB_BROWSER"))
    marks = {
        "sweep_page": (pytest.mark.skipif(not has_browser, reason="no Chromium here (apt install chromium)"),),
        "vm_boot": (pytest.mark.skipif(os.geteuid() == 0, reason="as root it boots virtual machines: make bench"),),
    }
    return marks.get(name, ())


def told(name: str, words: str, folder: Path) -> tuple[dict[str, Any], int]:
    """What a script writes and ends with, started as users do, but where nothing of raidlab lies."""
    shutil.copy(SMALL_EXPERIMENT, folder)
    place = folder / "place"
    place.mkdir()
    ended = subprocess.run(
        isolated_python("-m", f"benchmarks.{name}", *words.split()),
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    assert ended.returncode in (0, 1), f"{ended.stderr[-3000:]}{ended.stdout[-1000:]}"
    assert "Traceback" not in ended.stderr, ended.stderr[-3000:]
    assert list(place.iterdir()) == []
    document: dict[str, Any] = json.loads(ended.stdout)
    return document, ended.returncode


def values(document: object, path: str) -> Iterator[object]:
    """All that lies at a path, where ``*`` is each entry of an object or a list."""
    head, _, rest = path.partition("/")
    entries = dict(enumerate(document)) if isinstance(document, list) else document
    for key, value in entries.items() if isinstance(entries, dict) else ():
        if head in ("*", str(key)):
            yield from values(value, rest) if rest else [value]


def numbers(document: object, path: str) -> list[float]:
    """What lies at a path. Infinity and NaN are no numbers: what should have been measured was not."""
    found: list[float] = []
    for value in values(document, path):
        assert isinstance(value, int | float), (path, value)
        assert not isinstance(value, bool), path
        assert math.isfinite(value), (path, value)
        found.append(value)
    return found


@pytest.mark.timeout(LONGEST_SECONDS + 20)
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in NAMES])
def test_it_tells_all_that_it_measures(name: str, tmp_path: Path) -> None:
    assert name in SHORT, f"give benchmarks/{name}.py a short form in {Path(__file__).name}"
    short = SHORT[name]
    document, status = told(name, short.words, tmp_path)
    assert document["benchmark"] == name
    if "left_out" in document:
        assert name == "vm_boot"
        assert document["left_out"].startswith("needs ")
        return
    assert status == (0 if document["is_within_bound"] else 1)
    assert document["is_within_bound"] or not short.must_hold, document
    assert document["what"]
    assert re.fullmatch(r"(<=|>=) [\d.e+]+", document["bound"])
    measures = {"measured": 1, **short.measures}
    for path, count in {**measures, **short.tells}.items():
        found = numbers(document, path)
        assert len(found) == count or (count == SOME and found), (path, found)
        assert path in short.tells or all(each > 0 for each in found), (path, found)


def test_no_short_form_is_of_a_script_that_is_gone() -> None:
    assert sorted(SHORT) == NAMES


@pytest.mark.parametrize("value", [float("inf"), float("nan"), None, True, "2"])
def test_what_was_not_measured_is_no_number(value: object) -> None:
    assert numbers({"a": [{"b": 1}, {"b": 0.5}]}, "a/*/b") == [1, 0.5]
    with pytest.raises(AssertionError):
        numbers({"a": [{"b": 1}, {"b": value}]}, "a/*/b")
