"""Drills on real arrays: right ways save the data, wrong ways are recognised by name, and every verdict is fair.

Each drill is proved for two students, and ended after many histories, as the command line and the app do it. On the
command line the work has its own machine, and so has the debriefing; in the app both use one machine. The text mode is
a process in a terminal, into which every line is typed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pytest

from lab.cli.context import OPTIONS, Options
from lab.cli.main import run
from lab.disks.kinds import DEFAULT_COUNT, DiskKind, specs
from lab.disks.lab import lab_folder
from lab.drills.case import DrillOutcome, DrillStore
from lab.drills.desk import DrillDesk, environment, open_desk, run_lines
from lab.drills.proof import DISK_BYTES, NOTHING_RUNS, prove
from lab.drills.schema import DrillStep, ReadyDrill, catalogue, read_drill, ready
from lab.drills.verdict import DrillVerdict, judge
from lab.errors import CommandFailed, ExitCode
from lab.lessons.proof import PROOF_SEEDS
from lab.machine import Host, parse_target
from lab.session.session import Client, LabSession, open_session
from tests.kernel.place import host_at, kernel_target, real_time_target
from tests.kernel.test_drills import DRILL, RIGHT
from tests.unit.drills.test_drill_files import example
from tests.window import RAIDLAB, Window, command

# Longer than the time limit of one step's lines, so that a step that hangs is reported by name.
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800), pytest.mark.wide]
PLACES = [(PROOF_SEEDS[0], "uml:"), pytest.param(PROOF_SEEDS[1], "uml:?time=virtual", marks=pytest.mark.virtual_time)]
"""One drill in each kind of time."""
SEED = "ana"
REFUSED = """
mdadm --assemble /dev/md77 --uuid=00000000:00000000:00000000:00000001 $disk01 $disk02
mdadm --create /dev/md77 --run --level=6 --raid-devices=2 $disk01 $disk02
mdadm --create /dev/md77 --run --level=5 --raid-devices=3 /dev/no-such-disk $disk01 $disk02
mdadm /dev/md77 --add $disk01
mdadm --stop /dev/md77
mdadm --readwrite /dev/md77
e2fsck -fy /dev/md77
mdadm --grow /dev/md77 --raid-devices=9
"""
LOOKED = "mdadm --stop --scan; mdadm --examine $disk01 $disk02; cat /proc/mdstat"
HARMLESS = frozenset({NOTHING_RUNS, "on-overlays"})
"""The mistakes that may be reported although the right steps were taken."""
_SAVED = frozenset({DrillVerdict.SAVED})
_NOT_DONE = frozenset({DrillVerdict.STOPPED, DrillVerdict.UNFINISHED})
_PATIENCE_SECONDS, _LEAVING_SECONDS = 180.0, 60.0
_STILL_RUNS = "not run: the previous command is still running"


class TextUser(Window):
    """``with TextUser(state) as user: user.hear("is running."); user.enter("b")``. Leaves the text mode at the end."""

    def __init__(self, state: Path) -> None:
        # Without the terminal's echo, so that typed text is not mistaken for output.
        super().__init__(command(RAIDLAB, "--text", "--on", kernel_target().text), state, has_echo=False, term="dumb")
        self._heard = 0
        self._lines_run = 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self.enter("q")
                self.end(_LEAVING_SECONDS)
        finally:
            super().__exit__(kind, error, at)

    def enter(self, line: str) -> None:
        self.type(f"{line}\n".encode())

    def hear(self, *words: str) -> str:
        """Wait for one of these words in the output after the word found by the last call; return the word."""
        self.until(lambda: self._first(words), f"one of {words}", _PATIENCE_SECONDS)
        found = self._first(words)
        assert found
        self._heard, word = found
        return word

    def run(self, line: str) -> None:
        """Type a line for the machine's shell and wait until it has ended."""
        self._lines_run += 1
        # The shell computes the number, so the echo of the line before it runs does not contain the result.
        line = f"{line}; echo ended-$(({self._lines_run} + 1000))"
        self.enter(f"! {line}")
        # The previous line has printed its last word, but the state for the next line may not be saved yet.
        while self.hear(f"# {line}\n", _STILL_RUNS) == _STILL_RUNS:
            time.sleep(0.1)
            self.enter(f"! {line}")
        self.hear(f"ended-{self._lines_run + 1000}\n")

    def _first(self, words: tuple[str, ...]) -> tuple[int, str] | None:
        """Find the first of these words in the output since the last call; return where it ends, and the word."""
        output = self.output.decode("utf-8", "ignore").replace("\r\n", "\n")
        places = [(output.find(word, self._heard), word) for word in words]
        return min(((place + len(word), word) for place, word in places if place >= 0), default=None)


@dataclass(frozen=True)
class History:
    """A student's work in a drill, and the verdicts that are fair for it."""

    id: str
    steps: tuple[DrillStep, ...]
    may_be: frozenset[DrillVerdict]
    is_way: bool = False
    """Whether it is a complete way from the drill's file. The drill's proof takes such ways on one machine."""
    is_wrong: bool = False
    """Whether mistakes may be recognised. Otherwise only harmless ones may be."""


def unfair(history: History, place: str, outcome: DrillOutcome) -> Iterator[str]:
    """Yield the reasons why a verdict is not fair."""
    mistakes = [each.id for each in outcome.mistakes]
    figures = f"{outcome.saved_percent:g} % now, {outcome.kept_percent} % left"
    told = f"{history.id} ({place}): {outcome.verdict}, {figures} {mistakes}"
    if outcome.verdict not in history.may_be:
        yield f"{told}: the verdict"
    if not history.is_wrong and not {*mistakes} <= HARMLESS:
        yield f"{told}: an accusation"


def histories(drill: ReadyDrill) -> Iterator[History]:
    """Nothing, refused commands, only looking, half of the right way, both right ways, and every wrong way."""
    first, second = drill.drill.right[:2]
    yield History("nothing", (), _NOT_DONE)
    yield History("refused commands", (DrillStep(run=REFUSED),), _NOT_DONE)
    yield History("only looked", (DrillStep(run=LOOKED),), _NOT_DONE)
    yield History("half: tried and committed", first.steps[:-1], _NOT_DONE)
    yield History("half: begun on the disks", (*first.steps[:-1], _begun(first.steps[-1])), _NOT_DONE | _SAVED)
    yield History(f"right: {first.id}", first.steps, _SAVED, is_way=True)
    yield History(f"right: {second.id}", second.steps, _SAVED, is_way=True)
    for way in drill.drill.wrong:
        yield History(f"wrong: {way.id}", way.steps, frozenset(DrillVerdict) - _SAVED, is_way=True, is_wrong=True)


def _begun(step: DrillStep) -> DrillStep:
    """The step up to the first line that changes an array."""
    lines = step.run.strip().splitlines()
    last = next(number for number, line in enumerate(lines) if line.startswith("mdadm"))
    return DrillStep(run="\n".join(lines[: last + 1]))


def play_all(drill: ReadyDrill) -> Iterator[str]:
    """Make the drill once, end it after each history without closing it, and yield what is not fair."""
    target = kernel_target()
    with tempfile.TemporaryDirectory(prefix="raidlab-drill-") as folder:
        own = own_lab(Path(folder))
        with open_session(Client(target, own), start_arrays=False) as session:
            DrillDesk.begin(session, drill)
        for history in histories(drill):
            for place in ("CLI",) if history.is_way else ("CLI", "app"):
                with open_session(Client(target, own), start_arrays=False) as session:
                    desk = _open(session)
                    desk.reset()
                    take(desk, history.steps)
                    if place == "app":
                        yield from unfair(history, place, judge(desk))
                if place == "CLI":
                    with open_session(Client(target, own)) as session:
                        yield from unfair(history, place, judge(_open(session)))


def own_lab(root: Path) -> Host:
    """A lab with small disks, since they are read completely."""
    own = host_at(root)
    with lab_folder(own.state, kernel_target().lab_name) as disks:
        disks.save(specs(DEFAULT_COUNT, DiskKind.FILE, size_bytes=DISK_BYTES))
    return own


def _open(session: LabSession) -> DrillDesk:
    desk = open_desk(session)
    assert desk is not None, "the drill is gone from its lab"
    return desk


def take(desk: DrillDesk, steps: Iterable[DrillStep]) -> None:
    """Play these steps. A wrong way may cause an error of mdadm; the student then continues with what is left."""
    for step in steps:
        if step.commit:
            desk.commit()
            continue
        with suppress(CommandFailed):
            run_lines(desk.session, step.run, desk.environment())
        for line in step.run.strip().splitlines():
            desk.note_command(line)
        desk.update()


@pytest.mark.parametrize(("seed", "target"), PLACES)
@pytest.mark.parametrize(("name", "path"), catalogue().items())
def test_a_drill_is_proved(name: str, path: Path, seed: str, target: str) -> None:
    drill = read_drill(path)
    proof = prove(ready(drill, path, seed), parse_target(target), Host.real("tests"))
    assert proof.failures == ()
    assert (proof.right, proof.wrong) == (len(drill.right), len(drill.wrong)), name


@pytest.mark.parametrize("path", catalogue().values(), ids=catalogue())
def test_every_verdict_is_fair(path: Path) -> None:
    assert list(play_all(ready(read_drill(path), path, SEED))) == []


def test_lines_that_are_typed_in_the_text_mode_save_the_data_too(tmp_path: Path) -> None:
    host = own_lab(tmp_path)
    nodes = {name: f"$(readlink -f /dev/lab/{name})" for name in DRILL.disk_names}
    names = "; ".join(f'{name}="{value}"' for name, value in environment(nodes, DRILL).items())
    with TextUser(host.state.root) as user:
        user.hear("is running.")
        user.enter(f"drill start 1 --seed {DRILL.seed}")
        user.hear("drill help lists all commands.")
        user.enter("debrief")
        user.hear("problem: no running array has the drill's files")
        user.enter("commit")
        user.hear("committed; nothing had been written")
        for line in (names, *RIGHT.strip().splitlines()):
            user.run(line)
        user.enter("debrief")
        user.hear("The drill has ended: saved, 100 % of the data.")
    (outcome,) = DrillStore(host).all()
    assert outcome.mistakes == ()
    assert outcome.commands[-1].line.startswith(RIGHT.strip().splitlines()[-1])


def test_a_drill_is_ended_as_it_is_in_the_text_mode(tmp_path: Path) -> None:
    host = own_lab(tmp_path)
    with TextUser(host.state.root) as user:
        user.hear("is running.")
        user.enter(f"drill start 1 --seed {DRILL.seed}")
        user.hear("drill help lists all commands.")
        user.enter("debrief --as-it-is")
        user.hear("The drill has ended: ")
    assert len(DrillStore(host).all()) == 1


def test_the_example_of_the_page_is_true(tmp_path: Path) -> None:
    path = example(tmp_path)
    proof = prove(ready(read_drill(path), path, "page"), kernel_target(), Host.real("tests"))
    assert proof.failures == ()
    assert (proof.right, proof.wrong) == (2, 3)


def test_a_drill_that_cannot_be_made_is_reported_for_each_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    path = example(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("mdadm --create", "echo no such disk >&2; false", 1))
    try:
        words = ["drill", "verify", "--prove", str(path), "--seed", "one", "--seed", "two"]
        assert run(["--on", real_time_target().text, *words]) == ExitCode.FAILED
    finally:
        OPTIONS.set(Options())
    printed = capfd.readouterr()
    for word in ("one", "two"):
        assert f"40-stale-mirror ('{word}'): not proved" in printed.out
        assert f"40-stale-mirror ('{word}'): drill 40-stale-mirror could not be created" in printed.err
