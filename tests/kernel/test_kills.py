"""Every long command with somebody killed at one of the random moments that ``tests.kernel.kills`` tries."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kernel.kills import ALONE, SCENARIOS, Preparations, planned, problems_after
from tests.kernel.place import kernel_target

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(600), pytest.mark.wide]
TARGET = kernel_target().text
SEED = 11


@pytest.fixture(scope="module")
def preparations(tmp_path_factory: pytest.TempPathFactory) -> Preparations:
    return Preparations(tmp_path_factory.mktemp("prepared"), TARGET)


@pytest.mark.parametrize(("number", "command"), enumerate(SCENARIOS))
def test_after_a_kill_all_is_clean(number: int, command: str, preparations: Preparations, tmp_path: Path) -> None:
    chance, prepared = random.Random(SEED + number), preparations.prepare(command)
    # Without a machine a command is over in an instant.
    for turn in range(5 if SCENARIOS[command].victims is ALONE else 1):
        kill = planned(command, number + turn, chance)
        assert problems_after(kill, prepared, tmp_path / str(turn), TARGET) == []
