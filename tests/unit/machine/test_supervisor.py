"""Which processor the supervisor of an embedded kernel chooses."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from lab.machine import supervisor


def test_kernels_that_start_at_once_share_out_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "PROCESSOR_NAME", f"raidlab-test-{os.getpid()}")
    processors = os.sched_getaffinity(0)
    held = [supervisor.own_processor() for _ in range(2 * len(processors))]
    try:
        assert Counter(processor for processor, _ in held) == dict.fromkeys(processors, 2)
    finally:
        for _, name in held:
            assert name
            name.close()
    # The name is free again when its holder has closed it.
    processor, name = supervisor.own_processor()
    assert name
    with name:
        assert name.getsockname() == f"\0raidlab-test-{os.getpid()}-{processor}-0".encode()


def test_where_names_cannot_be_had_it_is_the_one_that_the_scheduler_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than a name may be (unix(7)).
    monkeypatch.setattr(supervisor, "PROCESSOR_NAME", "x" * 200)
    processor, name = supervisor.own_processor()
    assert name
    name.close()
    assert processor in os.sched_getaffinity(0)
