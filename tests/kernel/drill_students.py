"""Students who really play a drill: made in the embedded kernel, one way of its file taken, the verdict kept."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lab.drills.case import DrillOutcome
from lab.drills.desk import DrillDesk, run_lines
from lab.drills.schema import find_drill, read_drill, ready
from lab.drills.verdict import end_drill
from lab.errors import CommandFailed
from lab.machine import Host
from lab.session.session import Client, open_session
from tests.kernel.place import kernel_target

TARGET = kernel_target()


def student(folder: Path) -> Host:
    """A student with a state folder of their own, and so with a key of their own."""
    host = Host.real("tests")
    return replace(host, state=host.state.elsewhere(folder))


def play(host: Host, word: str, way_id: str, *, seed: str, hints: int = 0) -> DrillOutcome:
    """One try at a drill, along a way of its file, typed line by line; the outcome is kept in the student's state."""
    path = find_drill(word)
    drill = ready(read_drill(path), path, seed)
    (way,) = [each for each in (*drill.drill.right, *drill.drill.wrong) if each.id == way_id]
    with open_session(Client(TARGET, host), start_arrays=False) as session:
        desk = DrillDesk.begin(session, drill)
        for _ in range(hints):
            desk.case.hint()
        for step in way.steps:
            if step.commit:
                desk.commit()
                continue
            # A wrong way may well end in an error of mdadm: the student then stands before what is left.
            with suppress(CommandFailed):
                run_lines(session, step.run, desk.environment())
            for line in step.run.strip().splitlines():
                desk.note_command(line)
            desk.look()
        return end_drill(desk)
