"""Random keys on the app, for as long as ``--seconds`` says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import LongRun
from tests.hardening.keys import Fuzzer

SECONDS = 40.0
LONGEST_SECONDS = 180.0


@pytest.mark.kernel
@pytest.mark.wide
def test_random_keys_end_nothing(tmp_path: Path, long_run: LongRun) -> None:
    fuzzer, begun = Fuzzer(tmp_path, long_run.seed), time.monotonic()
    fuzzer.run(long_run.seconds or SECONDS)
    # On a busy computer the first screen may take half of that time.
    while not fuzzer.problem and len(fuzzer.screens) <= 3 and time.monotonic() - begun < LONGEST_SECONDS:
        fuzzer.run(SECONDS)
    assert not fuzzer.problem, fuzzer.problem
    assert len(fuzzer.screens) > 3
