"""Times and bounded waits, killing processes, and worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import pytest

from lab.errors import LabError
from lab.host.clock import polls, utc_text
from lab.host.pool import spread
from lab.host.processes import Processes
from tests.unit.fakes import FakeClock
from tests.waiting import is_running, wait_until


def test_moments_within_a_second_keep_their_order_as_text() -> None:
    clock = FakeClock()
    moments = []
    for _ in range(12):
        moments.append(utc_text(clock))
        clock.sleep(0.1)
    assert moments == sorted(set(moments))


def test_polls_end_with_one_after_the_time_out() -> None:
    clock = FakeClock()
    began = clock.now_seconds
    seen = [(clock.now_seconds - began, is_last) for is_last in polls(clock, 1.0, 0.4)]
    assert seen == [(0.0, False), (pytest.approx(0.4), False), (pytest.approx(0.8), False), (pytest.approx(1.2), True)]
    assert list(polls(clock, 0.0)) == [True]


SLEEPING = ("sleep", "1000")
# It starts other processes, each in a new session, until it is killed.
FORKING = ("sh", "-c", "while :; do setsid --fork sleep 1000; done")


@pytest.fixture
def started() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(started: ExitStack, argv: tuple[str, ...], *, writes: Path | None = None, reads: Path | None = None) -> int:
    stdin: IO[str] | int = started.enter_context(reads.open()) if reads else subprocess.DEVNULL
    stdout: IO[str] | int = started.enter_context(writes.open("a")) if writes else subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL)
    started.callback(process.wait)
    started.callback(process.kill)
    return process.pid


def holders(name: str) -> set[int]:
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/1"):
        with suppress(OSError):
            if str(descriptor.readlink()).removesuffix(" (deleted)") == name:
                found.add(int(descriptor.parts[2]))
    return found


def test_all_that_write_below_a_folder_are_killed_until_none_is_left(started: ExitStack, tmp_path: Path) -> None:
    folder = tmp_path / "machine"
    (folder / "deep").mkdir(parents=True)
    log, own, other = folder / "deep" / "log", folder / "own", tmp_path / "machine-2"
    forking = start(started, FORKING, writes=log)
    reader = start(started, SLEEPING, reads=log)
    spared, beside = start(started, SLEEPING, writes=own), start(started, SLEEPING, writes=other)
    looking = start(started, SLEEPING, writes=folder / "lock")
    assert forking in holders(str(log))
    log.unlink()
    Processes().kill_writers(folder, but="lock", spared=[spared])
    assert holders(str(log)) == set()
    assert (holders(str(own)), holders(str(other))) == ({spared}, {beside})
    assert is_running(reader)
    assert is_running(looking)


def squared(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def ends_itself(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def fails(number: int) -> int:
    return number // 0


def writes_its_pid_and_waits(place: str) -> None:
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    Path(place, str(os.getpid())).write_text(str(signal.SIGINT in held))
    signal.pause()


@pytest.mark.parametrize("processes", [1, 2])
def test_every_job_is_answered_once(processes: int) -> None:
    with spread(squared, range(40), processes) as answers:
        found = list(answers)
    assert sorted(square for square, _ in found) == [number * number for number in range(40)]
    workers = {worker for _, worker in found}
    assert (os.getpid() in workers) == (processes == 1)
    assert not any(map(is_running, workers - {os.getpid()}))


@pytest.mark.parametrize(
    ("work", "error", "words"), [(ends_itself, LabError, "SIGKILL"), (fails, RuntimeError, "ZeroDivisionError")]
)
def test_a_killed_worker_and_an_exception_are_reported(
    work: Callable[[int], int], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words), spread(work, range(4), 2) as answers:
        list(answers)


def test_no_worker_is_left_when_the_caller_stops_early() -> None:
    with spread(squared, range(1000), 2) as answers:
        worker = next(answers)[1]
        assert is_running(worker)
    assert not is_running(worker)


def test_workers_end_in_the_middle_of_a_job_when_the_parent_is_killed(tmp_path: Path) -> None:
    program = """if True:
        import sys
        from lab.host.pool import spread
        from tests.unit.test_host import writes_its_pid_and_waits
        with spread(writes_its_pid_and_waits, [sys.argv[1]] * 2, 2) as answers:
            list(answers)
    """
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=Path(__file__).parents[2])
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    # A terminal sends Ctrl-C to all processes; only the parent handles it.
    wait_until(lambda: {path.read_text() for path in tmp_path.iterdir()} == {"True"})
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert all(map(is_running, workers))
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(map(is_running, workers)))
