"""A command that starts a machine imports nothing from the folder, environment or home either: see tests/traps.py."""

from __future__ import annotations

import signal

import pytest

from tests.traps import Traps
from tests.unit.cli.test_traps import RAIDLAB, run, traps
from tests.window import Window

__all__ = ["traps"]
pytestmark = pytest.mark.kernel


def test_the_app_in_a_terminal(traps: Traps) -> None:
    with Window([str(RAIDLAB)], folder=traps.folder, environment=traps.environment()) as window:
        # A whole screen, so that all of the app is loaded.
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
    done = run(traps, RAIDLAB, *words.split(), seconds=240)
    assert traps.sprung() == {}
    assert done.returncode == 0, done.stderr
