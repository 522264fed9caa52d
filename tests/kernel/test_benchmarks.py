"""Every script of benchmarks/ with ``--smoke``: started as users start it, it ends and writes what it measures.

How fast anything is only ``make bench`` says, so a bound that is missed is no failure here, unless it is no matter of
speed: that nothing broke, or that two runs are the same.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.browser import CHROMIUM
from lab.host.processes import isolated_python

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]
REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (REPOSITORY / "benchmarks").glob("*.py"))
LONGEST_SECONDS = 900.0
"""So long only where the computer has much other work."""
NO_MATTER_OF_SPEED = ("app_growth", "calibration", "crash_points", "planted_bugs")
"""Their bounds must hold here too."""


def needs(name: str) -> tuple[pytest.MarkDecorator, ...]:
    has_browser = CHROMIUM is not None or bool(os.environ.get("RAIDLAB_BROWSER"))
    marks: dict[str, tuple[pytest.MarkDecorator, ...]] = {
        "qemu": (pytest.mark.qemu,),
        "sweep_page": (pytest.mark.skipif(not has_browser, reason="no Chromium here (apt install chromium)"),),
        "vm_boot": (pytest.mark.skipif(os.geteuid() == 0, reason="as root it boots virtual machines: make bench"),),
    }
    return marks.get(name, ())


def run_benchmark(name: str, place: Path) -> tuple[dict[str, Any], int]:
    """The document and the exit status of a script, started in an empty folder, which it leaves empty."""
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


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.mark.timeout(LONGEST_SECONDS + 20)
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in NAMES])
def test_a_benchmark_reports_what_it_measures(name: str, tmp_path: Path) -> None:
    document, status = run_benchmark(name, tmp_path)
    assert document["benchmark"] == name
    if "left_out" in document:
        assert name == "vm_boot"
        assert document["left_out"].startswith("needs ")
        return
    assert status == (0 if document["is_within_bound"] else 1)
    assert document["is_within_bound"] or name not in NO_MATTER_OF_SPEED, document
    assert document["what"]
    assert re.fullmatch(r"(<=|>=) [\d.e+]+", document["bound"])
    # What should have been measured and was not is infinity or NaN.
    assert all(map(math.isfinite, numbers(document))), document
