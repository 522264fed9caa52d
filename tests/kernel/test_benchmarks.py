"""Every script in benchmarks/ with ``--smoke``: started as users start it, it ends and prints everything it measures.

Only ``make bench`` says how fast anything is. A missed bound is therefore a failure here only if it does not depend on
speed, for example that nothing broke or that two runs are equal.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.browser import CHROMIUM
from lab.host.processes import isolated_python

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]
REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (REPOSITORY / "benchmarks").glob("*.py"))
LONGEST_SECONDS = 900.0
"""A script takes this long only on a computer that is busy with other work."""
SOME = 0
SPREAD = 3
"""Minimum, median, maximum."""


@dataclass(frozen=True)
class Expected:
    measures: Mapping[str, int] = field(default_factory=dict)
    """Path in the document -> how many numbers are there, all of them positive."""
    reports: Mapping[str, int] = field(default_factory=dict)
    """The same for numbers that may be zero, and for ``measured`` if it is such a number."""
    must_hold: bool = False
    """Whether its bound does not depend on speed."""


EXPECTED = {
    "adapt_layout": Expected({"tables/*/targets": 10, "tables/*/seconds": 10}),
    "adapt_mapping": Expected({"pairs": 1, "targets": 1, "mapped_iops/*": SPREAD, "bare_iops/*": SPREAD}),
    "adaptive_length": Expected({"*/iops": 2, "*/repeats": 2, "seconds/*": 2}, {"*/half_width": 2}),
    "app_first_frame": Expected(
        {"first_frame_seconds/*": SPREAD, "cpu_seconds_of_the_app_until_then/*": SPREAD}
        | {"machine_runs_seconds/*": SPREAD}
    ),
    "app_growth": Expected(
        {"looks": 1, "shows": 1, "first_mib": 1, "last_mib": 1}, must_hold=True, reports={"measured": 1}
    ),
    "app_idle": Expected({"seconds": 1}, {"app_fraction": 1, "machine_fraction": 1, "measured": 1}),
    "app_keys": Expected(
        {"seconds/*": SPREAD, "p90_seconds": 1, "mean_seconds": 1}, {"cpus_busy/app": 1, "cpus_busy/*": 2}
    ),
    "calibration": Expected(reports={"errors/sata-7200/*": 5, "measured": 1}, must_hold=True),
    "class_view": Expected(
        {"first/*": 6, "one_bundle_more/*": 5, "later_wall_seconds/*": SPREAD + 1, "later_cpu_seconds/*": SPREAD}
        | {"peak_mib": 1}
    ),
    "coverage": Expected({"all/cells": 1, "lines/*/truth": 6, "lines/*/interval/*": 12}),
    "crash_points": Expected(
        {"points": 1, "points_per_second": 1, "points_per_second_of_one_machine/*": SPREAD, "configurations": 1},
        must_hold=True,
    ),
    "false_alarms": Expected(
        {"trios": 1, "noise_of_a_run": 1, "true_ratio": 1, "by_repeats/*/repeats": 6},
        {"measured": 1, "by_repeats/*/found": 6, "by_repeats/*/false_alarm_interval/*": 12},
    ),
    "first_array": Expected({"first_array_seconds/*": SPREAD, "bare_boot_seconds/*": SPREAD}),
    "fleet": Expected(
        {"biased_per_second/*": SPREAD, "plain_per_second/*": SPREAD, "large_fleet_seconds": 1, "disks": 1}
        | {"a_biased_array_is_worth_plain_ones": 1},
        reports={"measured": 1},
    ),
    "louwrentius_ratios": Expected({"*/*": 18}, {"measured": 1}),
    "memory": Expected({"client_mib": 1, "agent_mib": 1, "rebuild_seconds/*": 1}),
    "planted_bugs": Expected({"oracle/row-skipped/found_after_seconds": 1}, must_hold=True),
    "prediction": Expected({"experiments/antioquia/seconds/*": SPREAD, "experiments/antioquia/cells": 1}),
    "qemu": Expected(
        {f"{name}_seconds/*/*": 2 * SPREAD for name in ("boot", "first_array", "command")} | {"kernel_fraction": 1}
    ),
    "report": Expected({"cpu_seconds/*": SPREAD, "wall_seconds/*": SPREAD, "peak_mib": 1, "page_megabytes": 1}),
    "sampling_overhead": Expected({"pairs": 1, "sampled_iops/*": SPREAD, "bare_iops/*": SPREAD}),
    "steady_flight": Expected({"paces/*/iops": 6}, {"measured": 1}),
    "study_overhead": Expected({f"{name}_seconds": 1 for name in ("wall", "fio", "mkfs", "mdadm", "resync")}),
    "sweep": Expected(
        {"cells": 1, "own_seconds": 1, "wall_seconds": 1, "two_workers_seconds": 1, "plan_seconds": 1}
        | {"resume_seconds": 1, "plan_bytes": 1, "resume_bytes": 1, "cells_planned": 1}
    ),
    "sweep_page": Expected({"seconds/*": SPREAD, "heap_mib/*": SPREAD, "rows": 1, "page_megabytes": 1}),
    "theory_accuracy": Expected(
        {"points/*/predicted_iops": 2, "points/*/measured_iops": 2, "points/*/ratio": 2}, {"measured": 1}
    ),
    "two_platforms": Expected({"speed_up/*/*": SOME}, {"measured": 1}),
    "virtual_time": Expected(
        {"speeds/*/simulated_seconds_per_second": 4, "speeds/*/computer_seconds": 4, "costs/*/measured": 2}
    ),
    "vm_boot": Expected(),
}


def needs(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """Marks for what a script needs in addition to the embedded kernels."""
    has_browser = CHROMIUM is not None or bool(os.environ.get("RAIDLAB_BROWSER"))
    marks: dict[str, tuple[pytest.MarkDecorator, ...]] = {
        "qemu": (pytest.mark.qemu,),
        "sweep_page": (pytest.mark.skipif(not has_browser, reason="no Chromium here (apt install chromium)"),),
        "vm_boot": (pytest.mark.skipif(os.geteuid() == 0, reason="as root it boots virtual machines: make bench"),),
    }
    return marks.get(name, ())


def run_benchmark(name: str, place: Path) -> tuple[dict[str, Any], int]:
    """Return the document and the exit status of a script. It starts in an empty folder and must leave it empty."""
    ended = subprocess.run(
        isolated_python("-m", f"benchmarks.{name}", "--smoke"),
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
    """All values at a path, where ``*`` matches each entry of an object or a list."""
    head, _, rest = path.partition("/")
    entries = dict(enumerate(document)) if isinstance(document, list) else document
    for key, value in entries.items() if isinstance(entries, dict) else ():
        if head in ("*", str(key)):
            yield from values(value, rest) if rest else [value]


def numbers(document: object, path: str) -> list[float]:
    """The numbers at a path. Infinity and NaN fail, since they mean that something was not measured."""
    found: list[float] = []
    for value in values(document, path):
        assert isinstance(value, int | float), (path, value)
        assert not isinstance(value, bool), path
        assert math.isfinite(value), (path, value)
        found.append(value)
    return found


@pytest.mark.timeout(LONGEST_SECONDS + 20)
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in NAMES])
def test_a_benchmark_reports_everything_that_it_measures(name: str, tmp_path: Path) -> None:
    assert name in EXPECTED, f"say in {Path(__file__).name} what benchmarks/{name}.py must tell"
    expected = EXPECTED[name]
    document, status = run_benchmark(name, tmp_path)
    assert document["benchmark"] == name
    if "left_out" in document:
        assert name == "vm_boot"
        assert document["left_out"].startswith("needs ")
        return
    assert status == (0 if document["is_within_bound"] else 1)
    assert document["is_within_bound"] or not expected.must_hold, document
    assert document["what"]
    assert re.fullmatch(r"(<=|>=) [\d.e+]+", document["bound"])
    measures = {"measured": 1, **expected.measures}
    for path, count in {**measures, **expected.reports}.items():
        found = numbers(document, path)
        assert len(found) == count or (count == SOME and found), (path, found)
        assert path in expected.reports or all(each > 0 for each in found), (path, found)


def test_every_benchmark_has_an_expectation_and_no_other() -> None:
    assert sorted(EXPECTED) == NAMES
