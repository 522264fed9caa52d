"""Drills that are ended after many histories, as the command line and the app do it, and a user of the text mode.

On the command line the work has a machine of its own, and so has the debriefing; in the app both have one. The text
mode is a process in a terminal, into which every line is typed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from lab.disks.kinds import DEFAULT_COUNT, DiskKind, specs
from lab.disks.lab import lab_folder
from lab.drills.case import DrillOutcome
from lab.drills.desk import DrillDesk, environment, open_desk, run_lines
from lab.drills.proof import DISK_BYTES, NOTHING_RUNS
from lab.drills.schema import DrillStep, ReadyDrill
from lab.drills.verdict import DrillVerdict, judge
from lab.errors import CommandFailed
from lab.machine import Host
from lab.session.session import Client, LabSession, open_session
from tests.kernel.place import host_at, kernel_target
from tests.window import RAIDLAB, Window, command

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
"""What may be said of somebody who has done nothing wrong."""
_SAVED = frozenset({DrillVerdict.SAVED})
_NOT_DONE = frozenset({DrillVerdict.STOPPED, DrillVerdict.UNFINISHED})
_PATIENCE_SECONDS, _LEAVING_SECONDS = 180.0, 60.0
_STILL_RUNS = "not run: the previous command is still running"


class TextUser(Window):
    """``with TextUser(state) as user: user.hear("is running."); user.enter("b")``; the text mode is left at the end."""

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
        """Wait for one of these words in the output after those of the last call; returns it."""
        self.until(lambda: self._first(words), f"one of {words}", _PATIENCE_SECONDS)
        found = self._first(words)
        assert found
        self._heard, word = found
        return word

    def run(self, line: str) -> None:
        """A line for the machine's shell; waits until it has ended."""
        self._lines_run += 1
        # The shell reckons: the line that is repeated before it runs does not say so.
        line = f"{line}; echo ended-$(({self._lines_run} + 1000))"
        self.enter(f"! {line}")
        # The one before has said its last word, but what it leaves to the next is still being kept.
        while self.hear(f"# {line}\n", _STILL_RUNS) == _STILL_RUNS:
            time.sleep(0.1)
            self.enter(f"! {line}")
        self.hear(f"ended-{self._lines_run + 1000}\n")

    def _first(self, words: tuple[str, ...]) -> tuple[int, str] | None:
        """The end of the first of these words in the output since the last call, and the word."""
        output = self.output.decode("utf-8", "ignore").replace("\r\n", "\n")
        places = [(output.find(word, self._heard), word) for word in words]
        return min(((place + len(word), word) for place, word in places if place >= 0), default=None)


@dataclass(frozen=True)
class History:
    """A student's work in a drill, and the verdicts that are fair."""

    id: str
    steps: tuple[DrillStep, ...]
    may_be: frozenset[DrillVerdict]
    is_way: bool = False
    """A whole way of the drill's file: its proof takes it where work and debriefing have one machine."""
    is_wrong: bool = False
    """Mistakes may be recognised; otherwise none but harmless ones."""


@dataclass(frozen=True)
class Ended:
    history: History
    place: str
    verdict: DrillVerdict
    saved_percent: float
    kept_percent: float | None
    mistakes: tuple[str, ...]

    @property
    def problems(self) -> list[str]:
        """Why the verdict is not fair; empty: it is."""
        told = f"{self.history.id} ({self.place}): {self.words}"
        found = [] if self.verdict in self.history.may_be else [f"{told}: the verdict"]
        if not self.history.is_wrong and not {*self.mistakes} <= HARMLESS:
            found.append(f"{told}: an accusation")
        return found

    @property
    def words(self) -> str:
        figures = f"{self.saved_percent:g} %"
        if self.verdict in (DrillVerdict.STOPPED, DrillVerdict.PARTLY, DrillVerdict.LOST):
            figures += f" now, {self.kept_percent:g} % left"
        return f"{self.verdict}, {figures}" + (f" ({', '.join(self.mistakes)})" if self.mistakes else "")


def histories(drill: ReadyDrill) -> Iterator[History]:
    """Nothing, refused commands, a look, half of the right way, both right ways, and every wrong one."""
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
    """The step up to its first line that changes an array."""
    lines = step.run.strip().splitlines()
    last = next(number for number, line in enumerate(lines) if line.startswith("mdadm"))
    return DrillStep(run="\n".join(lines[: last + 1]))


def play_all(drill: ReadyDrill) -> Iterator[Ended]:
    """Make the drill once, and end it after each history, without closing it."""
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
                        yield _ended(history, place, judge(desk))
                if place == "CLI":
                    with open_session(Client(target, own)) as session:
                        yield _ended(history, place, judge(_open(session)))


def own_lab(root: Path) -> Host:
    """A lab with small disks, which are read as a whole."""
    own = host_at(root)
    with lab_folder(own.state, kernel_target().lab_name) as disks:
        disks.save(specs(DEFAULT_COUNT, DiskKind.FILE, size_bytes=DISK_BYTES))
    return own


def names_line(drill: ReadyDrill) -> str:
    """A line that sets shell variables for the disks and the values of the seed."""
    disks = {name: f"${name}" for name in drill.disk_names}
    found = environment(disks, drill)
    values = "; ".join(f'{name}="{value}"' for name, value in found.items() if name not in disks)
    return f'for at in /dev/lab/*; do declare -g "${{at##*/}}=$(readlink -f "$at")"; done; {values}'


def _open(session: LabSession) -> DrillDesk:
    desk = open_desk(session)
    assert desk is not None, "the drill is gone from its lab"
    return desk


def take(desk: DrillDesk, steps: Iterable[DrillStep]) -> None:
    """Play these steps. A wrong way may well end in an error of mdadm: the student then continues with what is left."""
    for step in steps:
        if step.commit:
            desk.commit()
            continue
        with suppress(CommandFailed):
            run_lines(desk.session, step.run, desk.environment())
        for line in step.run.strip().splitlines():
            desk.note_command(line)
        desk.update()


def _ended(history: History, place: str, outcome: DrillOutcome) -> Ended:
    mistakes = tuple(each.id for each in outcome.mistakes)
    verdict = DrillVerdict(outcome.verdict)
    return Ended(history, place, verdict, outcome.saved_percent, outcome.kept_percent, mistakes)
