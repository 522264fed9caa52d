"""Synthetic traces: the same for the same seed, inside their space, of the kind that they say."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.units import MIB
from lab.workloads.jobs import KINDS, LEAD_MILLISECONDS, JobTarget, PathKind, fio_invocations, trace_texts
from lab.workloads.workload import TRACE_PATH, find_workload

SPACE = 64 * MIB


def requests(texts: tuple[str, ...]) -> list[tuple[int, str, int, int]]:
    """(due, word, offset, length) of all streams, in time."""
    found = []
    for text in texts:
        lines = text.splitlines()
        assert lines[:3] == ["fio version 2 iolog", "data add", "data open"]
        assert lines[-1] == "data close"
        for wait, io in zip(lines[3:-1:2], lines[4:-1:2], strict=True):
            _, word, offset, length = io.split()
            found.append((int(wait.split()[2]), word, int(offset), int(length)))
    return sorted(found)


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    one, again = (trace_texts("server-1990s", 10, seconds=20, space_bytes=SPACE, seed=5) for _ in range(2))
    assert one == again
    assert one != trace_texts("server-1990s", 10, seconds=20, space_bytes=SPACE, seed=6)


def test_a_trace_is_of_its_kind() -> None:
    kind = KINDS["server-1990s"]
    found = requests(trace_texts("server-1990s", 10, seconds=400, space_bytes=SPACE, seed=1))
    assert all(offset >= 0 and offset + length <= SPACE for _, _, offset, length in found)
    assert all(offset % 512 == 0 and length % 512 == 0 for _, _, offset, length in found)
    assert LEAD_MILLISECONDS <= found[0][0] <= found[-1][0] < LEAD_MILLISECONDS + 400_000
    assert sum(word == "write" for _, word, *_ in found) / len(found) == pytest.approx(kind.write_share, abs=0.05)
    # A run counts as one request of the mean rate.
    arrivals = len(found) / (1 + kind.run_share * (kind.run_requests - 1))
    assert arrivals / 400 == pytest.approx(kind.mean_per_second, rel=0.15)
    gaps = [after - before for (before, *_), (after, *_) in pairwise(found)]
    # Bursts: most requests follow soon, and some only after a long pause.
    assert sorted(gaps)[len(gaps) // 2] < 8
    assert max(gaps) > 1000


def test_every_stream_gets_its_share() -> None:
    texts = trace_texts("server-1990s", 4, seconds=30, space_bytes=SPACE, seed=1)
    counts = [len(requests((text,))) for text in texts]
    assert max(counts) - min(counts) <= 1


def test_a_short_trace_has_no_stream_without_a_request() -> None:
    texts = trace_texts("server-1990s", 500, seconds=2, space_bytes=SPACE, seed=1)
    assert 0 < len(texts) < 500
    assert all(requests((text,)) for text in texts)
    with pytest.raises(SpecError, match="no request of trace"):
        trace_texts("server-1990s", 1, seconds=1e-6, space_bytes=SPACE, seed=1)


def test_unknown_kinds_and_too_little_space_are_refused() -> None:
    with pytest.raises(SpecError, match="synthetic trace 'server-1990'"):
        trace_texts("server-1990", 1, seconds=1, space_bytes=SPACE, seed=1)
    with pytest.raises(SpecError, match="needs 16 MiB"):
        trace_texts("server-1990s", 1, seconds=1, space_bytes=MIB, seed=1)


def test_the_traces_reach_their_files_and_the_job_is_left_for_fio(tmp_path: Path) -> None:
    target = JobTarget("/dev/md0", PathKind.DEVICE, SPACE)
    (start,) = fio_invocations(find_workload("trace-server"), target, runtime_seconds=3)
    command = [*start.argv[:4], start.argv[4].replace(TRACE_PATH, f"{tmp_path}/trace"), "cat"]
    ran = subprocess.run(command, input=start.stdin_text, capture_output=True, text=True, check=True)
    assert ran.stdout == start.job_text
    assert tuple((tmp_path / f"trace.{number}").read_text() for number in range(10)) == start.traces
    sections = [line for line in start.job_text.splitlines() if line.startswith("read_iolog=")]
    assert sections == [f"read_iolog={TRACE_PATH}.{number}" for number in range(10)]
    assert "replay_redirect=/dev/md0" in start.job_text
    assert start.step().writes_devices == ("/dev/md0",)
