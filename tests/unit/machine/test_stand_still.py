"""When a silent kernel counts as hung, by the figures of its processes in /proc."""

from __future__ import annotations

import json
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from lab.errors import LabError, MachineLost
from lab.host.files import HostFiles
from lab.machine.channel import MOST_PATIENCE
from lab.machine.disk_rescue import MOST_READS, DiskRescue
from lab.machine.qemu import Silence
from lab.machine.stand_still import (
    EVIDENCE_FOLDER,
    MOST_FILES,
    STILL_SECONDS,
    Vigil,
    can_answer,
    console_of,
)
from tests.waiting import PATIENCE_SECONDS

KERNEL, GUEST = 100, 101
SILENT_SECONDS = 30
"""Less than in production, so that the tests take less time."""


@pytest.fixture(autouse=True)
def less_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("stand_still", "qemu"):
        monkeypatch.setattr(f"lab.machine.{module}.SILENT_SECONDS", SILENT_SECONDS)


@dataclass
class Computer:
    """/proc of a computer with a kernel and a process of its guest."""

    root: Path
    running: float = 0.0
    waiting: float = 0.0
    state: str = "S"

    @property
    def machine(self) -> Path:
        return self.root / "state" / "machines" / "1-a"

    def pass_second(self, *, running: float = 0.0, waiting: float = 0.0) -> None:
        self.running, self.waiting = self.running + running, self.waiting + waiting
        for process in (KERNEL, GUEST):
            folder = self.root / "proc" / str(process)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stat").write_text(f"{process} (linux.uml) {self.state} 1 {KERNEL} 1 0")
            half = [round(value * 1e9 / 2) for value in (self.running, self.waiting)]
            (folder / "schedstat").write_text(f"{half[0]} {half[1]} 1")


@pytest.fixture
def computer() -> Iterator[Computer]:
    """In a folder whose path is short enough for a socket (unix(7): 108 bytes), unlike that of some tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        found = Computer(Path(name))
        found.machine.mkdir(parents=True)
        record = {"kernel_group": KERNEL, "kernel_start_ticks": 1, "supervisor": 99, "supervisor_start_ticks": 1}
        (found.machine / "kernel.json").write_text(json.dumps(record))
        (found.machine / "console.log").write_text("last words\n")
        found.pass_second()
        yield found


@pytest.fixture
def vigil(computer: Computer) -> Vigil:
    return Vigil(HostFiles(computer.root), computer.machine)


def judged(
    computer: Computer, vigil: Vigil, *, running: float = 0.0, waiting: float = 0.0, awaited: str = "run"
) -> tuple[int, LabError]:
    """Return after how many seconds of silence the machine was given up, and the error; 0 if it was not."""
    for second in range(1, SILENT_SECONDS + 20):
        computer.pass_second(running=running, waiting=waiting)
        if loss := vigil.on_silence(second, [awaited]):
            return second, loss
    return 0, LabError("not given up")


def test_an_idle_silent_kernel_is_judged_as_hung(computer: Computer, vigil: Vigil) -> None:
    second, loss = judged(computer, vigil)
    assert second == STILL_SECONDS + 1
    assert isinstance(loss, MachineLost)
    (kept,) = (computer.root / "state" / EVIDENCE_FOLDER).iterdir()
    assert str(kept) in loss.hint
    assert kept.read_text().endswith("== console\nlast words\n")
    assert f"== process {GUEST}" in kept.read_text()


def test_one_that_gets_no_processor_is_never_given_up(computer: Computer, vigil: Vigil) -> None:
    assert judged(computer, vigil, waiting=0.9)[0] == 0


@pytest.mark.parametrize(
    ("state", "running", "awaited", "seconds", "words"),
    [
        pytest.param("S", 0.9, "run", SILENT_SECONDS, "", id="works"),
        pytest.param("D", 0.0, "run", SILENT_SECONDS, "", id="waits for the computer's disk"),
        pytest.param("S", 0.0, "write", SILENT_SECONDS, "", id="agent may wait for a lock of md"),
        pytest.param("T", 0.0, "write", STILL_SECONDS, "SIGSTOP", id="stopped"),
    ],
)
def test_how_long_others_have_depends_on_what_they_may_wait_for(
    computer: Computer, vigil: Vigil, state: str, running: float, awaited: str, seconds: int, words: str
) -> None:
    computer.state = state
    second, loss = judged(computer, vigil, running=running, awaited=awaited)
    assert second == seconds + 1
    assert words in loss.message


def test_a_word_in_between_begins_a_new_silence(computer: Computer, vigil: Vigil) -> None:
    for _ in range(5):
        for second in range(1, STILL_SECONDS):
            computer.pass_second()
            assert vigil.on_silence(second, ["run"]) is None


def test_only_the_newest_evidence_is_stored(computer: Computer, vigil: Vigil) -> None:
    folder = computer.root / "state" / EVIDENCE_FOLDER
    folder.mkdir()
    for number in range(MOST_FILES + 5):
        (folder / f"old-{number}.txt").write_text("")
    judged(computer, vigil)
    assert len(list(folder.iterdir())) == MOST_FILES
    assert (folder / "1-a.txt").exists()


@pytest.fixture
def console(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A management console like the kernel's, whose answers are awaited; yields the commands that it received."""
    monkeypatch.setattr("lab.machine.stand_still._ANSWER_SECONDS", PATIENCE_SECONDS)
    path = console_of(computer.machine)
    path.parent.mkdir(parents=True)
    asked: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(path))

        def answer() -> None:
            while True:
                request, client = line.recvfrom(4096)
                magic, version, length, data = struct.unpack("=III512s", request)
                assert (magic, version) == (0xCAFEBABE, 2)
                asked.append(data[:length].decode())
                if asked[-1] == "over":
                    return
                # In two pieces, like a long answer.
                line.sendto(struct.pack("=III", 0, 1, 3) + b"all" + bytes(509), client)
                line.sendto(struct.pack("=III", 0, 0, 6) + b" well\0" + bytes(506), client)

        thread = threading.Thread(target=answer)
        thread.start()
        yield asked
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.bind(str(path.parent / "end"))
            end.sendto(struct.pack("=III512s", 0xCAFEBABE, 2, 4, b"over"), str(path))
        thread.join()


def test_a_live_kernel_with_a_hung_agent_is_recognised_and_its_state_is_stored(
    computer: Computer, vigil: Vigil, console: list[str]
) -> None:
    assert "its agent has not answered" in judged(computer, vigil)[1].message
    kept = (computer.root / "state" / EVIDENCE_FOLDER / "1-a.txt").read_text()
    assert "== management console, sysrq w: all well" in kept
    assert console[0] == "version"
    assert console[-1] == "sysrq t"


@pytest.mark.parametrize(
    ("misses", "second", "words"),
    [(1, SILENT_SECONDS + 1, "no answer for 30 s"), (2, STILL_SECONDS + 1, "console does not answer")],
)
def test_one_question_may_fall_into_a_moment_in_which_nothing_runs(
    computer: Computer, vigil: Vigil, monkeypatch: pytest.MonkeyPatch, misses: int, second: int, words: str
) -> None:
    console_of(computer.machine).parent.mkdir(parents=True)
    console_of(computer.machine).touch()
    asked: list[str] = []

    def ask(_folder: Path, command: str) -> str | None:
        asked.append(command)
        return None if (len(asked) - 1) % 2 < misses else "6.1"

    monkeypatch.setattr("lab.machine.stand_still.ask_management_console", ask)
    found, loss = judged(computer, vigil, awaited="write")
    assert found == second
    assert words in loss.message


DISKSTATS = """\
  98       0 ubda 10 0 80 1 20 0 160 2 {under_way} 3 4 5 0 40 1 6 7
  98      16 ubdb 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0
  98       1 ubda1 1 0 8 0 0 0 0 0 9 0 0 0 0 0 0 0 0
   9       0 md0 1 0 8 0 0 0 0 0 5 0 0 0 0 0 0 0 0
"""


@pytest.mark.parametrize(
    ("looks", "read"),
    [
        ([3, 3, 3], ["/dev/ubdb"]),
        ([3, 3, 3, 3, 3], ["/dev/ubdb"] * 2),
        ([3] * 100, ["/dev/ubdb"] * MOST_READS),
        ([3, 3], []),
        ([0, 0, 0, 0], []),
        ([3, 4, 3, 4], []),
    ],
    ids=["still", "its-own-read-too", "for-ever", "not-long-enough", "nothing-to-do", "moving"],
)
def test_disks_are_nudged_only_if_nothing_makes_progress(
    looks: list[int], read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nudged: list[str] = []
    monkeypatch.setattr("lab.machine.disk_rescue.log_error", lambda _: None)
    monkeypatch.setattr("_thread.start_new_thread", lambda _, arguments: nudged.extend(arguments))
    rescue = DiskRescue()
    for number, under_way in enumerate(looks):
        rescue.check(DISKSTATS.format(under_way=under_way), float(number))
    assert nudged == read


@pytest.mark.parametrize(
    ("layers", "can"),
    [(["namespace", "landlock", "seccomp"], True), (["landlock", "seccomp"], False), (["landlock"], True), ([], True)],
)
def test_a_console_that_may_not_answer_is_not_waited_for(tmp_path: Path, layers: list[str], can: bool) -> None:
    console_of(tmp_path).parent.mkdir(parents=True)
    console_of(tmp_path).touch()
    (tmp_path / "kernel.json").write_text(json.dumps({"confined_by": layers}))
    assert can_answer(HostFiles(), tmp_path) is can


@pytest.mark.parametrize(
    ("waited_each_second", "lost_after"),
    [
        # None: the computer does not count it.
        *((None, SILENT_SECONDS), (0.0, SILENT_SECONDS)),
        *((0.5, 2 * SILENT_SECONDS - 1), (2.0, MOST_PATIENCE * SILENT_SECONDS)),
    ],
)
def test_waiting_for_a_processor_does_not_count(waited_each_second: float | None, lost_after: int) -> None:
    waited = count(1000.0, waited_each_second or 0.0)
    silence = Silence(lambda: None if waited_each_second is None else next(waited))
    assert next(second for second in count(1) if silence.on_silence(second, ["run"])) == lost_after


def test_each_silence_is_judged_by_itself() -> None:
    silence = Silence(lambda: None)
    assert not any(silence.on_silence(second, ["run"]) for second in [*range(1, SILENT_SECONDS)] * 3)
