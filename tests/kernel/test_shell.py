"""The shell of a session on a real kernel, and what ends when the machine is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.disks import open_lab
from lab.errors import LabError, MachineLost
from lab.session.load import Load
from lab.session.monitor import Monitor
from lab.session.session import MOST_CHARACTERS, LabSession, Shell, ShellResult
from lab.units import MIB
from tests.kernel.place import host_at, kernel_target, kill_kernel
from tests.kernel.sessions import DISKS, FILES, D, create, session
from tests.waiting import PATIENCE_SECONDS

__all__ = ["DISKS", "session"]
pytestmark = pytest.mark.kernel


def holder(session: LabSession, disk: str) -> str | None:
    found = session.found.holder_of(session.node(disk))
    return found.name if found else None


def test_a_shell_keeps_its_state_from_line_to_line(session: LabSession) -> None:
    shell = Shell(session)
    pieces: list[str] = []
    first = shell.run(
        "cd /sys/block; SIZE=64; twice() { echo $1 $1; }; echo out; echo err >&2; false", on_output=pieces.append
    )
    assert (first.status, first.output) == (1, "out\nerr\n")
    assert "".join(pieces) == first.output
    assert shell.folder == "/sys/block"
    assert shell.run("pwd; twice $SIZE").output == "/sys/block\n64 64\n"
    assert shell.run('echo "<$*>"; set -- "two words" \'"\' && echo $#').output == "<>\n2\n"
    assert shell.run('printf "%s|" "$@"; set --').output == 'two words|"|'
    assert shell.run("echo $#").output == "0\n"
    # Bad syntax is the line's own failure, and loses nothing.
    assert shell.run("if then").status != 0
    assert shell.run("echo $SIZE").output == "64\n"
    assert shell.run("exit 7").status == 7
    shell.close()
    assert Shell(session).run("echo ${SIZE:-gone}").output == "gone\n"


def test_a_shell_begins_in_an_empty_home_that_can_be_written(session: LabSession) -> None:
    begun = Shell(session).run("pwd; ls -A; [ $PWD = $HOME ] && touch note && rm note")
    assert (begun.status, begun.output) == (0, "/root\n")


def test_an_array_made_in_the_shell_is_one_of_the_labs(session: LabSession) -> None:
    shell = Shell(session)
    nodes = " ".join(session.node(name) for name in D[:2])
    made = shell.run(f"mdadm --create /dev/md3 --run --level=1 --raid-devices=2 --assume-clean {nodes}")
    assert made.status == 0, made.output
    session.rescan()
    assert holder(session, "disk02") == "md3"
    assert "md3 : active raid1" in shell.run("cat /proc/mdstat").output
    session.run(session.array("md3").fail("disk02"))
    session.run(session.array("md3").destroy())
    assert holder(session, "disk02") is None


def test_a_line_in_the_shell_can_be_interrupted_even_a_stubborn_one(session: LabSession) -> None:
    shell = Shell(session)
    begun = threading.Event()
    results: list[ShellResult] = []

    def run(line: str) -> threading.Thread:
        begun.clear()
        thread = threading.Thread(target=lambda: results.append(shell.run(line, on_output=lambda _: begun.set())))
        thread.start()
        assert begun.wait(PATIENCE_SECONDS)
        return thread

    sleeping = run("X=1; echo begun; sleep 600; echo never")
    with pytest.raises(LabError, match="still running"):
        shell.run("true")
    shell.interrupt()
    sleeping.join(PATIENCE_SECONDS)
    stubborn = run("trap '' INT; echo begun; while :; do sleep 1; done")
    shell.interrupt()
    shell.interrupt()
    stubborn.join(PATIENCE_SECONDS)
    assert [(each.status, each.output) for each in results] == [(130, "begun\n"), (137, "begun\n")]
    assert shell.run("echo ready").output == "ready\n"
    shell.interrupt()


def test_long_output_of_a_line_is_passed_on_and_its_end_stored(session: LabSession) -> None:
    total = 0

    def count(text: str) -> None:
        nonlocal total
        total += len(text)

    result = Shell(session).run("seq 1 100000", on_output=count)
    assert total == sum(len(str(number)) + 1 for number in range(1, 100_001))
    assert result.output.endswith("99999\n100000\n")
    assert len(result.output) <= MOST_CHARACTERS


def test_a_lost_machine_ends_everything_soon(tmp_path: Path) -> None:
    with open_lab(kernel_target(), host_at(tmp_path), wanted=FILES[:3]) as lab:
        session = LabSession(kernel_target(), lab.host, lab)
        create(session, "raid5", D[:3])
        over = threading.Event()
        ends: list[LabError | None] = []

        def on_end(error: LabError | None) -> None:
            ends.append(error)
            over.set()

        monitor = Monitor(session, on_snapshot=lambda _: None, on_end=on_end)
        monitor.start()
        live = threading.Event()
        load = Load(session, "md0", "rand-mix-4k", working_set_bytes=8 * MIB, on_live=lambda _: live.set())
        load.start()
        assert live.wait(PATIENCE_SECONDS)
        lost: list[LabError] = []
        typed = threading.Thread(target=lambda: lost.append(error_of(lambda: Shell(session).run("sleep 600"))))
        typed.start()
        kill_kernel(tmp_path)
        assert over.wait(PATIENCE_SECONDS)
        assert isinstance(ends[0], MachineLost)
        with pytest.raises(MachineLost):
            load.wait(PATIENCE_SECONDS)
        load.stop()
        monitor.stop()
        typed.join(PATIENCE_SECONDS)
        assert isinstance(lost[0], MachineLost)
        with pytest.raises(MachineLost):
            session.statuses()


def error_of(work: Callable[[], object]) -> LabError:
    with pytest.raises(LabError) as caught:
        work()
    return caught.value
