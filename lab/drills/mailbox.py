"""Requests from inside the machine: the client that has the lab open answers ``drill hint`` typed at its shell.

The machine cannot call the client, so a program on the machine writes a file, and the client polls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from lab.drills.desk import DrillDesk
from lab.drills.making import GUEST_FOLDER
from lab.drills.telling import PUT_BACK, briefing, committed_words, progress_lines
from lab.drills.verdict import end_drill
from lab.errors import LabError, MachineLost

_REQUEST = f"{GUEST_FOLDER}/request"
_FORM = re.compile(r"([0-9]{1,10}-[0-9]{1,6}) (status|hint|commit|reset|debrief|end)\s*")


def answer_one(desk: DrillDesk) -> bool:
    """Answer a pending request, if there is one; returns whether it ended the drill. Raises MachineLost."""
    machine = desk.session.machine
    found = _FORM.fullmatch(machine.read([_REQUEST])[_REQUEST] or "")
    if not found:
        return False
    machine.write(_REQUEST, "")
    number, word = found.groups()
    try:
        text = _ANSWERS[word](desk)
    except MachineLost:
        raise
    except LabError as error:
        text = f"{error.message}: {error.hint}" if error.hint else error.message
    # Renamed when it is complete, because the reader waits for the name.
    machine.write(f"{GUEST_FOLDER}/.{number}", f"{text.rstrip()}\n")
    machine.run(("mv", f"{GUEST_FOLDER}/.{number}", f"{GUEST_FOLDER}/answer.{number}"), check=False)
    return desk.is_over


def _status(desk: DrillDesk) -> str:
    lines = [f"{label:<22} {text}" for label, text in progress_lines(desk.case, desk.minutes, desk.now_utc).items()]
    return "\n".join([briefing(desk.case.drill), *lines])


def _hint(desk: DrillDesk) -> str:
    number, text = desk.case.hint()
    return f"hint {number} of {len(desk.case.drill.drill.hints)}: {text}"


def _debrief(desk: DrillDesk, *, is_final: bool) -> str:
    outcome = end_drill(desk, is_final=is_final)
    return f"{outcome.verdict}: {outcome.saved_percent:g} % of the data. 'raidlab drill debrief latest' has the page."


def _reset(desk: DrillDesk) -> str:
    desk.reset()
    return PUT_BACK


_ANSWERS: dict[str, Callable[[DrillDesk], str]] = {
    "status": _status,
    "hint": _hint,
    "commit": lambda desk: committed_words(desk.commit()),
    "reset": _reset,
    "debrief": partial(_debrief, is_final=False),
    "end": partial(_debrief, is_final=True),
}
