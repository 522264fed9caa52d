"""Work over processes: every answer comes, and whatever ends the parent ends them all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.host.pool import spread


def squared(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def ends_itself(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def fails(number: int) -> int:
    return number // 0


def tells_and_waits(place: str) -> None:
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    Path(place, str(os.getpid())).write_text(str(signal.SIGINT in held))
    signal.pause()


def is_alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def awaited(is_reached: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not is_reached() and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_reached()


@pytest.mark.parametrize("processes", [1, 2])
def test_every_job_is_answered_once(processes: int) -> None:
    with spread(squared, range(40), processes) as answers:
        found = list(answers)
    assert sorted(square for square, _ in found) == [number * number for number in range(40)]
    workers = {worker for _, worker in found}
    assert (os.getpid() in workers) == (processes == 1)
    assert not any(map(is_alive, workers - {os.getpid()}))


def test_one_that_is_killed_is_told() -> None:
    with pytest.raises(LabError, match="SIGKILL"), spread(ends_itself, range(4), 2) as answers:
        list(answers)


def test_a_defect_is_told_with_its_place() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"), spread(fails, range(4), 2) as answers:
        list(answers)


def test_none_is_left_by_whoever_wants_no_more() -> None:
    with spread(squared, range(1000), 2) as answers:
        worker = next(answers)[1]
        assert is_alive(worker)
    assert not is_alive(worker)


def test_they_end_in_the_middle_of_a_job_when_the_parent_is_killed(tmp_path: Path) -> None:
    program = """if True:
        import sys
        from lab.host.pool import spread
        from tests.unit.test_pool import tells_and_waits
        with spread(tells_and_waits, [sys.argv[1]] * 2, 2) as answers:
            list(answers)
    """
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=Path(__file__).parents[2])
    assert awaited(lambda: len(list(tmp_path.iterdir())) == 2)
    # Ctrl-C goes to all of a terminal: it is the parent's to answer.
    assert awaited(lambda: {path.read_text() for path in tmp_path.iterdir()} == {"True"})
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert all(map(is_alive, workers))
    parent.kill()
    parent.wait()
    assert awaited(lambda: not any(map(is_alive, workers)))
