"""Some seconds of the random keys of ``python -m tests.hardening.keys``."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.hardening.keys import Fuzzer

SECONDS = 40.0
LONGEST_SECONDS = 180.0


@pytest.mark.kernel
@pytest.mark.wide
# Longer than any wait of the keys, so that a hung app is reported as one.
@pytest.mark.timeout(1800)
def test_random_keys_end_nothing(tmp_path: Path) -> None:
    fuzzer, begun = Fuzzer(tmp_path, seed=11), time.monotonic()
    seen = fuzzer.run(SECONDS)
    # On a busy computer the first screen may take half of that time.
    while not seen.problem and len(seen.screens) <= 3 and time.monotonic() - begun < LONGEST_SECONDS:
        seen = fuzzer.run(SECONDS)
    assert not seen.problem, seen.problem
    assert len(seen.screens) > 3
