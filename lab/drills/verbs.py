"""Verbs for drills: commands, keys of the app, and lines that are typed in text mode or at the machine's shell.

The app imports this module before it opens a screen, so modules that are needed only to perform a verb are imported
when it is performed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from lab.actions import declared_in
from lab.actions.action import Argument, Verb
from lab.errors import DrillError, LabError, MachineLost
from lab.units import human_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from lab.drills.case import DrillCase
    from lab.drills.desk import DrillDesk
    from lab.drills.schema import ReadyDrill
    from lab.machine import Host, Target
    from lab.plans import Plan
    from lab.session.session import LabSession, Leftovers


@dataclass(frozen=True, slots=True)
class Report:
    """What a verb did or found. Each interface shows the page and then the text, or, as JSON, the value."""

    value: Any
    page: str = ""
    """As Markdown; empty if the text says everything."""
    text: str = ""
    """Without the final full stop; may be empty if there is a page."""
    is_success: bool = True


class ListDrills(Verb, frozen=True, kw_only=True):
    """List the drills with your progress."""

    words = "drill list"


class StartDrill(Verb, frozen=True, kw_only=True):
    """Create a disaster on the lab's disks, and show what an administrator would see."""

    words, key, label = "drill start", "v", "Variant"
    tooltip = "Type a word, such as your name: it varies the disks, sizes and levels"
    name: Annotated[
        str,
        Argument(
            "The drill's id, its number or part of its id, or the path of a drill file.", is_placed=True, is_needed=True
        ),
    ]
    seed: Annotated[
        str | None, Argument("Your name, or a word from your teacher: each word gives a different variant.")
    ] = None
    reset: Annotated[bool, Argument("Make all lab disks blank first, which deletes their data.")] = False
    again: Annotated[bool, Argument("Start over even if the drill is open. Your work is lost.")] = False
    exam: Annotated[
        float | None, Argument("Start an exam with this time limit in minutes: no hints, and the first attempt counts.")
    ] = None

    def ready(self, host: Host, target: Target) -> ReadyDrill:
        """Return the drill with the values of the seed, which is by default that of the open drill or of the student.

        Raises SpecError or DrillError if the drill may not begin in this lab, whatever is on its disks. With ``again``,
        it also replaces a drill whose record cannot be read.
        """
        from lab.drills.schema import find_playable, read_drill, ready
        from lab.lessons.student import Student

        path = find_playable(self.name, target)
        drill = read_drill(path)
        case = self._replaced(host, target, drill.id, path)
        usual = case.record.seed if case is not None else Student(host).state.seed
        return ready(drill, path, usual if self.seed is None else self.seed)

    def _replaced(self, host: Host, target: Target, drill_id: str, path: Path) -> DrillCase | None:
        """Return the open drill that this one replaces, or None if there is none or its record cannot be read.

        Raises DrillError if the open drill may not be replaced.
        """
        from lab.drills.case import DrillCase, require_attempt, require_no_exam, stored_name

        folder = host.state.lab_folder(target.lab_name)
        try:
            case = DrillCase.find(folder)
        except DrillError:
            if not self.again:
                raise
            case = None
        if case is not None and not self.again:
            is_same = case.drill.drill.id == drill_id
            hint = "'raidlab drill' shows it; --again starts it over" if is_same else "'raidlab drill debrief' ends it"
            raise DrillError(f"drill {case.drill.id} is open in this lab", hint=hint)
        require_no_exam(folder, besides="" if self.exam is None else stored_name(drill_id, path))
        if self.exam is not None:
            require_attempt(host, drill_id, minutes=self.exam, again=self.again)
        return case

    def use_of_disks(self, session: LabSession, drill: ReadyDrill) -> str:
        """Return why the disks are not free, or an empty string.

        Raises UnfitVersion, or DrillError if the drill may no longer begin in this lab.
        """
        from lab.drills.desk import require_possible
        from lab.lessons.student import use_words

        self._replaced(session.host, session.target, drill.id, drill.path)
        require_possible(session, drill)
        return use_words(session, drill.disk_names)

    def require_free(self, session: LabSession, drill: ReadyDrill) -> None:
        """Raises the errors of ``use_of_disks``, and DrillError if the disks are not free.

        A reset stops only arrays that consist of lab disks, so others may still be running after it.
        """
        if used := self.use_of_disks(session, drill):
            hint = "repeat the command with --reset, which makes all disks blank and deletes their data"
            if self.reset or self.again:
                hint = "stop these arrays and unmount the lab's disks yourself, and then start the drill again"
            raise DrillError(f"drill {drill.id} needs blank disks, and {used}", hint=hint)

    def begin(self, session: LabSession, drill: ReadyDrill) -> DrillDesk:
        """Create the disaster on blank disks. Raises the errors of ``require_free``, and DrillError on failure."""
        from lab.drills.case import begin_exam
        from lab.drills.desk import DrillDesk

        host, minutes, again = session.host, self.exam, self.again
        self.require_free(session, drill)
        if minutes is None:
            return DrillDesk.begin(session, drill)
        return DrillDesk.begin(
            session, drill, lambda: begin_exam(host, drill.id, seed=drill.seed, minutes=minutes, again=again)
        )


class OpenDrillVerb(Verb, frozen=True, kw_only=True):
    """A verb on the open drill."""

    def perform(self, desk: DrillDesk) -> Report:
        """Perform the verb in the open lab. Raises LabError."""
        raise NotImplementedError


class ClosedLabVerb(OpenDrillVerb, frozen=True, kw_only=True):
    """A verb on the open drill that can also be performed while the lab is closed."""

    def perform(self, desk: DrillDesk) -> Report:
        return self.perform_on(desk.case, desk.now_utc)

    def perform_on(self, case: DrillCase, now_utc: str) -> Report:
        """Perform the verb, whether or not the lab is open. Raises LabError."""
        raise NotImplementedError


class DrillStatus(ClosedLabVerb, frozen=True, kw_only=True):
    """Show the task and the progress of the drill."""

    words = "drill status"

    def perform_on(self, case: DrillCase, now_utc: str) -> Report:
        from lab.drills.verdict import briefing, hint_words, progress_lines

        record, drill = case.record, case.drill.drill
        lines = progress_lines(case, record.open_seconds / 60, now_utc)
        width = max(map(len, lines))
        value = {
            "id": drill.id,
            "title": drill.title,
            "seed": record.seed,
            "minutes": round(record.open_seconds / 60, 1),
            "meant_minutes": drill.minutes,
            "hints": record.hints,
            "hint_count": len(drill.hints),
            "is_committed": case.is_committed,
            "touched_bytes": record.touched_bytes,
            "resets": record.resets,
            "commands": len(case.commands()),
            "exam": record.exam,
        }
        hints = (hint_words(case.drill, number) for number in range(1, record.hints + 1))
        text = "\n".join(f"{label.ljust(width)}  {words}" for label, words in lines.items())
        return Report(value, "\n\n".join([briefing(case.drill), *hints]), text)


class DrillHint(ClosedLabVerb, frozen=True, kw_only=True):
    """Show one more hint. It does not affect the verdict, but is recorded."""

    words, key, label = "drill hint", "h", "Hint"
    tooltip = "One more hint; it does not affect the verdict, but is recorded"

    def perform_on(self, case: DrillCase, now_utc: str) -> Report:
        from lab.drills.verdict import hint_words

        number, text = case.hint()
        is_last = number == len(case.drill.drill.hints)
        page = hint_words(case.drill, number)
        return Report({"number": number, "hint": text}, page, "that is the last hint" if is_last else "")


class Commit(OpenDrillVerb, frozen=True, kw_only=True):
    """Declare that from now on you will write to the disks themselves."""

    words, key, label = "drill commit", "c", "Commit"
    tooltip = "From now on you write to the disks themselves"

    def perform(self, desk: DrillDesk) -> Report:
        touched = desk.commit()
        written = f"{human_bytes(touched)} had been written" if touched else "nothing had been written"
        return Report({"touched_bytes": touched}, text=f"committed; {written} to the disks before")


class ResetDrill(OpenDrillVerb, frozen=True, kw_only=True):
    """Restore the disks as they were when the drill began."""

    words, key, label = "drill reset", "z", "Reset"
    tooltip = "Restore the disks as they were when the drill began"

    def perform(self, desk: DrillDesk) -> Report:
        desk.reset()
        return Report({"resets": desk.case.record.resets}, text="the disks are as they were when the drill began")


class Debrief(OpenDrillVerb, frozen=True, kw_only=True):
    """End the drill, and show the verdict on the data and what an expert would have done."""

    words, key, label = "drill debrief", "d", "Debrief"
    tooltip = "End the drill, and show the verdict on the data and what an expert would have done"
    name: Annotated[
        str | None,
        Argument("A drill that has ended, whose page is shown again; 'latest' is the newest.", is_placed=True),
    ] = None
    as_it_is: Annotated[
        bool, Argument("End it even if no running array has the data, although one could be started.")
    ] = False
    array: Annotated[str, Argument("The array that has the data; by default, the one with the drill's files.")] = ""

    def perform(self, desk: DrillDesk) -> Report:
        """End the drill. Raises the errors of ``end_drill``, among them NothingRuns."""
        from lab.drills.verdict import DrillVerdict, debriefing, end_drill

        outcome = end_drill(desk, self.array.removeprefix("/dev/"), is_final=self.as_it_is)
        return Report(
            outcome,
            debriefing(outcome, desk.case.drill, can_clear=True),
            f"The drill has ended: {outcome.verdict}, {outcome.saved_percent:g} % of the data. "
            "'raidlab drill debrief latest' shows the page again, and 'raidlab drill list' shows all your results",
            is_success=outcome.verdict == DrillVerdict.SAVED,
        )

    def ended_before(self, host: Host) -> Report:
        """Return the page of the outcome that ``name`` denotes. Raises ResultError if there is none."""
        from lab.drills.case import DrillStore
        from lab.drills.verdict import ended_page

        outcome = DrillStore(host).newest("" if self.name == "latest" else self.name or "")
        return Report(outcome, ended_page(outcome))


class LeaveDrill(OpenDrillVerb, frozen=True, kw_only=True):
    """Give up the drill without a verdict, and leave the disks as they are."""

    words, key, label = "drill leave", "x", "Give up"
    tooltip = "Close the drill without a verdict"

    def perform(self, desk: DrillDesk) -> Report:
        desk.leave()
        return Report({}, text="the drill is closed; 'raidlab drill clear' makes its disks blank")


class ClearDisks(Verb, frozen=True, kw_only=True):
    """Blank the disks that the last drill used, which deletes their data."""

    words, key, label = "drill clear", "b", "Clear disks"
    tooltip = "Blank the disks that the last drill used"

    def require_left(self, lab_folder: Path) -> Leftovers:
        """Return what the last drill left in this lab. Raises DrillError if it left nothing."""
        from lab.session.session import read_leftovers

        left = read_leftovers(lab_folder)
        if left is None:
            hint = "'raidlab disks' shows what is on them"
            raise DrillError("no drill has left anything on this lab's disks", hint=hint)
        return left

    def plan(self, session: LabSession) -> Plan:
        """Return the plan that blanks the disks. Raises DrillError if no drill has left anything on them."""
        return session.reset_all(only=self.require_left(session.folder).disks)


VERBS = declared_in(__name__)
_FORM = re.compile(r"([0-9]{1,10}-[0-9]{1,6}) ([a-z]{1,10})\s*")
_TYPED: dict[str, OpenDrillVerb] = {
    "status": DrillStatus(),
    "hint": DrillHint(),
    "commit": Commit(),
    "reset": ResetDrill(),
    "debrief": Debrief(),
    "end": Debrief(as_it_is=True),
}
"""The verbs that ``drill`` on the machine requests. ``end`` stands for ``debrief --as-it-is``."""


def answer_one(desk: DrillDesk) -> bool:
    """Answer a pending request of ``drill`` on the machine. Returns whether this ended the drill. Raises MachineLost.

    The machine cannot call the client, so the program writes each request to a file, which the client polls.
    """
    from lab.drills.desk import GUEST_FOLDER

    machine, request = desk.session.machine, f"{GUEST_FOLDER}/request"
    found = _FORM.fullmatch(machine.read([request])[request] or "")
    if not found or found[2] not in _TYPED:
        return False
    machine.write(request, "")
    number, word = found.groups()
    try:
        report = _TYPED[word].perform(desk)
    except MachineLost:
        raise
    except LabError as error:
        text = f"{error.message}: {error.hint}" if error.hint else error.message
    else:
        # The page of a debriefing is too long for a terminal.
        page = "" if desk.is_over else report.page.replace("**", "").strip()
        text = "\n".join(filter(None, (page, report.text)))
    # The file is renamed when it is complete, because the reader waits for that name.
    machine.write(f"{GUEST_FOLDER}/.{number}", f"{text}\n")
    machine.run(("mv", f"{GUEST_FOLDER}/.{number}", f"{GUEST_FOLDER}/answer.{number}"), check=False)
    return desk.is_over
