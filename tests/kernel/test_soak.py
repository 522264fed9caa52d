"""A minute of the work that ``tests.kernel.soak`` does for two hours, in a process of its own: it counts its memory."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab.host.processes import isolated_python

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(600), pytest.mark.wide]
SECONDS = 60


def test_nothing_fails_or_stays_behind(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    words = ("--seconds", str(SECONDS), "--evidence", str(evidence))
    ended = subprocess.run(
        isolated_python("-m", "tests.kernel.soak", *words),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:] + ended.stdout[-3000:]
    assert json.loads(ended.stdout)["rounds"] > 0
    assert not evidence.exists()
