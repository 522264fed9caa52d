"""What must not be loaded before it is needed: each of these costs a tenth of a second to several seconds."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("scipy", "numpy", "duckdb", "cryptography", "plotly", "jinja2", "rich")


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    )


def test_the_command_starts_without_heavy_libraries() -> None:
    everything = "import lab.cli.main, lab.cli.app, lab.cli.run, lab.cli.results; lab.cli.app.make_app()"
    assert loaded_by(everything) <= {"rich"}


def test_the_app_starts_without_heavy_libraries() -> None:
    assert loaded_by("import tui.app") <= {"rich"}


def test_the_libraries_are_there_when_asked_for() -> None:
    assert "scipy" in loaded_by("from lab.results.statistics import RatioTest; RatioTest.apart([2.0], [1.0]).ratio")
