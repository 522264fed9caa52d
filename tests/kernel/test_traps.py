"""What starts a machine imports nothing of the folder, the environment or the home either: see tests/traps.py."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.traps import Traps, lay_traps
from tests.window import Window

pytestmark = pytest.mark.kernel
RAIDLAB = Path(sys.executable).parent / "raidlab"
SECONDS = 120


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    return lay_traps(tmp_path)


def test_the_app_in_a_terminal(traps: Traps) -> None:
    with Window([str(RAIDLAB)], folder=traps.folder, environment=traps.environment()) as window:
        # A whole screen, by which all of the app is loaded.
        window.until(lambda: len(window.output) >= 6000, "a whole screen")
        window.process.send_signal(signal.SIGTERM)
        window.end()
    assert traps.sprung() == {}


@pytest.mark.wide
@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "words",
    [
        "fault campaign --level 1 --seeds 1 --cluster local:1",
        "--on uml:?time=virtual array create --level 1 --disks 2 --wait",
        "--on uml:?time=virtual exec -- id",
    ],
)
def test_commands_on_a_machine_and_on_a_cluster(traps: Traps, words: str) -> None:
    done = subprocess.run(
        [RAIDLAB, *words.split()],
        cwd=traps.folder,
        env=traps.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS * 2,
        check=False,
    )
    assert traps.sprung() == {}
    assert done.returncode == 0, done.stderr
