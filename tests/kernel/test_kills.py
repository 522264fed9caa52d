"""Every long command with somebody killed at random moments, for a share of ``--seconds`` each."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import pytest

from tests.conftest import LongRun
from tests.kernel.kills import ALONE, SCENARIOS, Preparations, planned, problems_after
from tests.kernel.place import kernel_target

pytestmark = [pytest.mark.kernel, pytest.mark.wide]
TARGET = kernel_target().text


@pytest.fixture(scope="module")
def preparations(tmp_path_factory: pytest.TempPathFactory) -> Preparations:
    return Preparations(tmp_path_factory.mktemp("prepared"), TARGET)


@pytest.mark.parametrize(("number", "command"), enumerate(SCENARIOS))
def test_after_a_kill_all_is_clean(
    number: int, command: str, preparations: Preparations, tmp_path: Path, long_run: LongRun
) -> None:
    chance, prepared, begun = random.Random(long_run.seed + number), preparations.prepare(command), time.monotonic()
    # Without a machine a command is over in an instant.
    least = 5 if SCENARIOS[command].victims is ALONE else 1
    for turn in itertools.count():
        if turn >= least and time.monotonic() - begun >= (long_run.seconds or 0.0) / len(SCENARIOS):
            break
        kill = planned(command, number + turn, chance)
        assert problems_after(kill, prepared, tmp_path / str(turn), TARGET) == []
