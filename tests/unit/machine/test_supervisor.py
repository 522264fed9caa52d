"""Which processor the supervisor of an embedded kernel chooses, and when it pauses the kernel."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

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


def test_if_no_name_can_be_taken_the_scheduler_chooses_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than a name may be (unix(7)).
    monkeypatch.setattr(supervisor, "PROCESSOR_NAME", "x" * 200)
    processor, name = supervisor.own_processor()
    assert name
    name.close()
    assert processor in os.sched_getaffinity(0)


def test_a_kernel_is_paused_for_what_it_takes_itself_of_the_spare_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk01.img").touch()
    keeper = supervisor.RoomKeeper(0, [str(tmp_path / "disk01.img")], 64 << 20)
    # Room and image size in MiB. The image grows, then is only read while another program fills the disk, then grows.
    steps = [(500, 10), (200, 300), (60, 300), (10, 300), (9, 302)]
    monkeypatch.setattr(keeper, "room_bytes", iter([room << 20 for room, _ in steps]).__next__)
    monkeypatch.setattr(keeper, "file_bytes", iter([taken << 20 for _, taken in steps]).__next__)
    monkeypatch.setattr(keeper, "signal", lambda _: None)
    pauses = []
    for _ in steps:
        keeper.check()
        pauses.append(keeper.paused_at is not None)
    assert pauses == [False, False, False, False, True]
