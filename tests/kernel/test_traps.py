"""What starts a machine imports nothing of the folder, the environment or the home either: see tests/traps.py."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.traps import Traps, lay_traps

pytestmark = pytest.mark.kernel
RAIDLAB = Path(sys.executable).parent / "raidlab"
SECONDS = 120


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    return lay_traps(tmp_path)


def test_the_app_in_a_terminal(traps: Traps) -> None:
    ours, theirs = os.openpty()
    environment = traps.environment() | {"TERM": "xterm-256color"}
    process = subprocess.Popen(
        [RAIDLAB], stdin=theirs, stdout=theirs, stderr=theirs, cwd=traps.folder, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        seen, until = b"", time.monotonic() + SECONDS
        # A whole screen, by which all of the app is loaded.
        while len(seen) < 6000:
            assert select.select([ours], [], [], until - time.monotonic())[0], seen[-2000:]
            seen += os.read(ours, 65536)
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            # What is drawn while it ends wants to be read.
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    os.read(ours, 65536)
                except OSError:
                    break
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
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
