"""The work of ``tests.kernel.soak`` for a minute or ``--seconds``, in its own process, since it measures its memory."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab.host.processes import isolated_python
from tests.conftest import LongRun

pytestmark = [pytest.mark.kernel, pytest.mark.wide]
SECONDS = 60


def test_nothing_fails_or_stays_behind(tmp_path: Path, long_run: LongRun) -> None:
    evidence = tmp_path / "evidence"
    words = ("--seconds", str(long_run.seconds or SECONDS), "--seed", str(long_run.seed), "--evidence", str(evidence))
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
