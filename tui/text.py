"""The text mode: the app as plain lines of text, without screens or animation, for example for screen readers.

Each event is one sentence. ``?`` lists the possible actions, which have the same keys as in the app, each followed by
Enter. Building has its own dialog, and drills have their own commands. For experiments, results and lessons there are
``raidlab`` command lines, which can be typed here too.
"""

from __future__ import annotations

import os
import queue
import re
import shlex
import shutil
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, TextIO

from lab.actions.action import Action, Choice, PlanAction, Verb
from lab.actions.arrays import Load
from lab.arrays.spec import ArrayPreview, Spec
from lab.disks import LabDisk
from lab.drills import verbs
from lab.errors import LabError
from lab.gates.decoding import digits
from lab.host import signals
from lab.machine import parse_target
from lab.plain_page import page_lines
from lab.plans import Plan
from lab.session.session import LabSession, Shell
from lab.units import human_bytes
from lab.workloads.fio_output import LiveInterval
from tui.actions import (
    FIRST_MEMBERS,
    KEY_ACTIONS,
    Draft,
    applying,
    ask_for_larger,
    build,
    choose,
    do,
    next_array_name,
    next_step,
    selected_disk,
    selection_of,
    start_array,
    survives_words,
    system_rows,
)
from tui.drills import Drills
from tui.frontend import ClientMaker, Frontend, MakePlan, PlanRun
from tui.look import to_ascii
from tui.quantities import Unit, clock_words, format_value
from tui.rack import bays_of, inner_lines, sync_view
from tui.runs import figures_lines, measured_of
from tui.state import (
    LabMessage,
    LabState,
    LoadEnded,
    LoadTicked,
    MachinePhase,
    OperationChanged,
    PaceChosen,
    SessionEnded,
    SessionOpened,
    SnapshotTaken,
    condition,
)
from tui.widgets import ChoiceRow

if TYPE_CHECKING:
    from textual.message import Message

    from lab.frontend import ReadVerb, RunLine


_ALWAYS = """\
b: Build a first RAID 5; if there is an array, choose level and disks.
build: Compose an array choice by choice.
disk02: Select a disk; md0 selects an array, or starts one that is stopped.
! LINE: Run LINE as a root shell on the machine.
drill: Disasters to practise on, with a verdict; drill help lists the commands.
log, restart, q: The last commands; restart a lost machine; close the lab and quit.
raidlab commands can be typed too, with or without the word raidlab:
array fail md0 disk02: Any command that changes arrays; its plan is shown first.
lesson list: The lessons; lesson start 1 begins one.
run, results: The experiments, of which run NAME runs one; the stored results.
raidlab --help: Everything."""
HELP = f"""\
Type a key and Enter. Enter alone shows the state of the lab and the next step.
?: What can be done now, with the keys.
{_ALWAYS}"""
PACE_HELP = """\
Time on this machine is virtual: you set the pace of its clock. Enter alone shows the time.
, or pause         pause, or continue
. or step          to the next event (a member fails, a rebuild ends), then pause
> or faster        faster; < or slower: slower
1x, 10x, 100x, max machine seconds per second; max: as fast as it can"""
LOAD_EVERY_SECONDS = 10.0
_PROGRESS_STEP_PERCENT = 25
_MARKUP = re.compile(r"\[/?[a-z$@][^\]]*\]|\[/\]")
# Commands of the text mode that replace keys of the app.
_WORDS = {
    "[b]Tab[/b] selects, [b]Enter[/b] starts it": "its name starts it",
    "[b]F1[/b] explains the screen": "help explains",
    "[b]Ctrl+R[/b]": "restart",
    "[b]Del[/b]": "delete",
    "[b]2[/b]": "build",
    "[b]F6[/b]: task": "drill status shows the task",
    "[b]F6[/b] shows": "drill status shows",
    "[b]F7[/b]: hint": "drill hint gives a hint",
    "[b]5[/b]: terminal": "! LINE runs LINE on the machine",
}


def plain_step(markup: str) -> str:
    """Return the next step as plain text, with commands of the text mode instead of the app's keys."""
    for key, word in _WORDS.items():
        markup = markup.replace(key, word)
    return _MARKUP.sub("", markup)


def words_wrapped(text: str, columns: int) -> Iterator[str]:
    """Yield the lines of ``text``, wrapped at spaces to ``columns``. Longer words are not broken."""
    for line in text.splitlines() or [""]:
        yield from textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False) or [""]


def clock_line(state: LabState) -> str:
    """Return a sentence about the machine's virtual time, or an empty string if it runs in real time."""
    if state.pace is None:
        return ""
    how = "is paused" if state.pace.is_paused else f"runs at {state.pace.words}"
    how = "runs to the next event" if state.pace.is_step else how
    return f"the machine's clock shows {clock_words(state.snapshot.time_seconds if state.snapshot else 0.0)} and {how}."


def array_lines(state: LabState) -> Iterator[str]:
    """Yield a line for each array, running or stopped, and one about the disks."""
    for status in state.arrays:
        members = ", ".join(state.disk_name(member.device) for member in status.members)
        words = condition(state, status)[1]
        yield f"{status.name}: {status.level}, {human_bytes(status.size_bytes)}, {words}; members {members}."
        if status.inner:
            inner = ", ".join(f"{name} {width} {how}" for name, width, how in inner_lines(status))
            yield f"inside {status.name}: {inner}."
    for array in state.resting_arrays:
        yield f"{array.name} is not running{f': {array.refusal}' if array.refusal else ''}."
    free = len(state.free_disks)
    yield f"{len(state.disks)} disks, {free} of them free."


def disk_line(state: LabState, disk: LabDisk) -> str:
    """Describe a disk in one line, such as ``disk02: 500 MiB file, member in md0, slot 1.``."""
    bay = next(each for each in bays_of(state) if each.name == disk.name)
    where = f" in {bay.array}" if bay.array else ""
    slot = "" if bay.slot is None else f", slot {bay.slot}"
    note = f", {bay.note}" if bay.note else ""
    return f"{disk.name}: {human_bytes(disk.size_bytes)} {bay.model}, {bay.state}{where}{slot}{note}."


def progress_lines(state: LabState, reported: dict[str, int]) -> Iterator[str]:
    """Yield a line for each sync that has completed another quarter. ``reported`` holds the last percentages."""
    for status in state.arrays:
        view = sync_view(state, status)
        if view is None:
            reported.pop(status.name, None)
            continue
        percent = int(view.fraction * 100) // _PROGRESS_STEP_PERCENT * _PROGRESS_STEP_PERCENT
        if percent > reported.get(status.name, 0):
            reported[status.name] = percent
            yield f"{status.name}: {view.action} {percent} % done."


def load_line(state: LabState) -> str:
    """Return the rates of the running load or the figures of the last one, or "" if there is none."""
    load = state.load
    if load is None:
        return ""
    if load.is_running:
        return f"{load.workload} on {load.array}: {_rates(load.newest)}." if load.newest else ""
    measured = measured_of(load)
    if isinstance(load.outcome, LabError):
        # The class Loads shows the error.
        return ""
    if measured is None:
        return f"{load.workload} on {load.array} has ended."
    figures = "; ".join(" ".join(line.split()) for line in figures_lines(measured, 200))
    return f"{load.workload} on {load.array} has ended: {figures}."


def _rates(interval: LiveInterval) -> str:
    from lab.session.monitor import LoadMeasure, load_value

    p99 = load_value(interval, LoadMeasure.P99_SECONDS)
    return (
        f"{format_value(load_value(interval, LoadMeasure.IOPS), Unit.IOPS)} IOPS, "
        f"{format_value(load_value(interval, LoadMeasure.BYTES_PER_SECOND), Unit.BYTES_PER_SECOND)}, "
        f"p99 {format_value(p99, Unit.SECONDS)}"
    )


_HOW = (
    "Type a number to change that line, 'disks 1 2 3' to choose disks, 'larger' to add two larger disks to the lab, "
    "b to build. Anything else cancels."
)


class TextBuild:
    """The dialog in which the user composes an array."""

    def __init__(self, app: TextApp) -> None:
        self._app = app
        self._draft = Draft(disks=tuple(disk.name for disk in app.lab.blank_disks)[:FIRST_MEMBERS])

    def show(self) -> None:
        for number, row in enumerate(self._draft.rows(), start=1):
            note = f" ({row.note})" if row.note else ""
            self._app.show_message(f"{number}: {row.label}: {row.current or 'no choice'}{note}.")
        self._app.show_message(f"disks: {', '.join(self._draft.disks) or 'none'}.")
        preview = self._spec.preview(self._app.lab.disks, self._draft.file_system)
        for line in preview_lines(preview, self._draft.level):
            self._app.show_message(line)
        self._app.show_message(_HOW)
        self._app.listen(self._typed, _HOW)

    @property
    def _spec(self) -> Spec:
        state = self._app.lab
        return self._draft.spec(next_array_name(state, self._draft), state.disks)

    def _typed(self, line: str) -> None:
        rows = self._draft.rows()
        word, *rest = line.split() or [""]
        if word == "b":
            spec, file_system = self._spec, self._draft.file_system
            self._app.ask(lambda session: session.creation(spec, file_system))
        elif word == "disks":
            self._choose_disks(rest)
        elif word == "larger":
            ask_for_larger(self._app)
        elif 1 <= (number := digits(word) or 0) <= len(rows):
            self._choose(rows[number - 1])
        else:
            self._app.show_message("cancelled; nothing was built.")

    def _choose(self, row: ChoiceRow) -> None:
        if not row.values:
            self._app.show_message(f"{row.label}: {row.note}.")
            self.show()
            return

        def chosen(value: str) -> None:
            self._draft = self._draft.changed(row.key, value)
            self.show()

        self._app.pick(row.label, [Choice(value, value) for value in row.values], chosen)

    def _choose_disks(self, words: list[str]) -> None:
        names = [f"disk{word.zfill(2)}" if word.isdecimal() else word for word in words]
        free = [disk.name for disk in self._app.lab.blank_disks]
        for name in names:
            if name not in free:
                self._app.show_message(f"{name} is not free. Free disks: {', '.join(free) or 'none'}.")
        self._draft = self._draft.with_disks([name for name in dict.fromkeys(names) if name in free])
        self.show()


def preview_lines(shown: ArrayPreview, level: str) -> Iterator[str]:
    """Describe an array before it is built: problems, capacity, failures survived, cost of a small write, commands."""
    for problem in shown.problems:
        yield f"It cannot be built yet: {problem}."
    if not shown.usable_bytes:
        return
    lost = f", {human_bytes(shown.unused_bytes)} unused" if shown.unused_bytes else ""
    yield f"It would hold {human_bytes(shown.usable_bytes)} of {human_bytes(shown.raw_bytes)}{lost}."
    yield f"It survives the loss of: {survives_words(shown)}."
    yield f"A small write costs {shown.write_penalty}."
    if shown.note:
        yield f"{shown.note}."
    for row in system_rows(shown, level):
        reads = f"; full writes read: {row.small_write}" if row.small_write else ""
        yield f"{row.level}: {row.usable}, {row.survives}{reads}."
    for name, (data, parity) in zip(shown.array_names, shown.widths, strict=True):
        yield f"{name}: stripes of {data} data and {parity} parity chunks."
    for command in shown.commands:
        yield f"  {command}"


DRILL_HELP = "\n".join(
    [
        *(f"{each.words}: {each.summary()}" for each in verbs.VERBS),
        "drill alone shows the open drill, or the list. While a drill is open, the word drill can be left out.",
        "! LINE: Run LINE as root on the machine, as an administrator would.",
        "raidlab commands that change arrays work here too. Others restart the machine: arrays and overlays are then "
        "gone, as after a power cut.",
    ]
)
SHORT_WORDS = {each.short_name() for each in verbs.VERBS if issubclass(each, verbs.OpenDrillVerb) and each.key}
"""The drill verbs that need no preceding ``drill`` while a drill is open."""
_MAKING = "The drill is being set up. Its description follows."


class TextDrills:
    """The drills of the text mode."""

    def __init__(self, app: TextApp, drills: Drills) -> None:
        self._app, self._drills = app, drills
        self.is_making = False
        """Whether a drill is being prepared. To hide this, no events are shown and no lines are accepted."""
        drills.on_making, drills.on_open = self._making, self._opened

    def perform(self, verb: Verb) -> bool:
        """Perform a verb about drills in the open lab. Return False for any other verb."""
        match verb:
            case verbs.ListDrills():
                self._drills.open(self._list)
            case verbs.StartDrill():
                self._start(verb)
            case verbs.ClearDisks():
                self._drills.clear(partial(self._app.show_message, "The drill's disks are blank."))
            case verbs.Debrief(name=str()):
                read = partial(verb.ended_before, self._app.client.host)
                self._app.beside("debriefing", read, on_done=self._show)
            case verbs.OpenDrillVerb():
                self._drills.perform(verb, self._show)
            case _:
                return False
        return True

    def _list(self) -> None:
        for item in self._drills.items:
            status = "open now" if item.is_open else item.status
            title = f"{item.drill.title} ({item.drill.minutes} minutes)"
            self._app.show_message(f"{item.number}: {title}. {status[0].upper()}{status[1:]}.")
        view = self._drills.view
        self._app.show_message("drill status shows the open one." if view else "drill start 1 sets up the first.")

    def _start(self, verb: verbs.StartDrill) -> None:
        from lab.drills.schema import find_drill, foreign_drill

        # Problems of the file are reported when the drill starts.
        with suppress(LabError):
            if note := foreign_drill(find_drill(verb.name)):
                self._app.show_message(f"{note}.")
        self._drills.begin(verb)

    def _making(self, is_making: bool) -> None:
        self.is_making = is_making
        if is_making:
            self._app.show_message(_MAKING)

    def _opened(self, is_new: bool) -> None:
        view = self._drills.view
        if view is None:
            return
        if is_new:
            self._app.show_page(f"{view.briefing}\n{view.rules}")
            self._app.show_message("Here: ! LINE runs LINE as root on the machine. drill help lists all commands.")
        else:
            self._app.show_message(f"Drill {view.number}, {view.title}, continues.")
        if not self._app.is_first_snapshot:
            self._app.show_message(self._app.next_line())

    def _show(self, report: verbs.Report) -> None:
        if report.page:
            self._app.show_page(report.page)
        if report.text:
            self._app.show_message(f"{report.text}.")


# These are escape sequences, such as colours, and control characters that would disturb the terminal.
_CONTROL_CHARACTERS = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]")


class TextShell:
    """Runs the lines after ``!``, one at a time. Their working directory and variables last as long as the session."""

    def __init__(self, app: TextApp, write: Callable[[str], object]) -> None:
        self._app, self._write = app, write
        self._session: LabSession | None = None
        self._shell: Shell | None = None
        self.running_line = ""
        """The running command line; empty if there is none."""
        self._is_line_open = False
        """Whether the last line of the output is still incomplete."""

    def run(self, line: str) -> bool:
        """Start a command. Return False if another one is still running, or there is no machine."""
        session = self._app.client.session
        if self.running_line or session is None:
            return False
        if self._session is not session or self._shell is None:
            # A new machine does not have the folder and the variables of the previous one.
            self._session, self._shell = session, Shell(session)
        self.running_line = line
        self._print(f"# {line}\n")
        work = partial(self._follow, self._shell, line)
        self._app.beside("shell", work, on_done=self._end, on_error=lambda error: self._end(f"{error}\n"))
        return True

    def interrupt(self) -> None:
        """Send Ctrl-C to the command. The second call kills it."""
        if self._shell and self.running_line:
            self._app.beside("shell interrupt", self._shell.interrupt, on_done=lambda _: None)

    def _follow(self, shell: Shell, line: str) -> str:
        """Run a command on a separate thread, and return the line about its status, or an empty string."""
        client = self._app.client
        with client.on_end(shell.interrupt):
            client.log.typed(line)
            status = shell.run(line, on_output=partial(self._app.call, self._print)).status
            return f"(status {status})\n" if status else ""

    def _end(self, words: str) -> None:
        self._print(f"\n{words}" if self._is_line_open else words)
        self.running_line = ""
        self._app.rescan()

    def _print(self, text: str) -> None:
        if clean := _CONTROL_CHARACTERS.sub("", text.replace("\r\n", "\n")).replace("\r", "\n"):
            self._is_line_open = not clean.endswith("\n")
            self._write(clean)


_LOGGED = 10
_PAGE_COLUMNS = 100
_COMMANDS = ("  ", "running: ")
"""Prefixes of lines that the user may copy, which are therefore not wrapped."""
# These commands and their subcommands do not need the open machine, because they read or change stored data, compute,
# or start machines of their own.
_WITHOUT_MACHINE = frozenset(
    {
        *("class", "compare", "completion", "disks models", "doctor", "drill hint", "drill list", "drill status"),
        *("export", "fault findings", "fault list", "fault show", "findings show", "fleet", "handout", "kernels"),
        *("lesson hint", "lesson leave", "lesson list", "lesson show", "lint", "mdadm", "report", "results", "serve"),
        *("sweep", "workloads"),
    }
)
_ALONE = frozenset({"", "drill", "lesson", "run"})
"""Commands that only list or show something if they have no arguments."""
_LEAVES = ("q", "quit", "exit")
_EXPLAINS = ("?", "help")


def needs_machine(argv: Sequence[str]) -> bool:
    """Whether this raidlab command opens the machine that the text mode has open."""
    words = [word for word in argv if not word.startswith("-")]
    is_help = "--help" in argv and words[:1] != ["exec"]
    is_alone = " ".join(words) in _ALONE and not _resumes(argv)
    return not (is_help or is_alone or {*words[:1], " ".join(words[:2])} & _WITHOUT_MACHINE)


def _command_of(argv: Sequence[str]) -> str:
    """Return the first word that is not an option, or "" if there is none."""
    return next((word for word in argv if not word.startswith("-")), "")


def _has_option(argv: Sequence[str], option: str) -> bool:
    return any(word.partition("=")[0] == option for word in argv)


def _resumes(argv: Sequence[str]) -> bool:
    return _command_of(argv) == "run" and _has_option(argv, "--resume")


def _chooses_target(argv: Sequence[str], target: str) -> bool:
    """Whether the command needs no ``--on``, because it names its target or runs on machines of its own.

    Sweeps run on machines of their own. So do resumed runs, if raidlab would choose a target like ``target`` by
    itself.
    """
    # What follows "--" is a command for the machine.
    own = argv[: argv.index("--")] if "--" in argv else argv
    if _command_of(own) == "sweep" or _has_option(own, "--on"):
        return True
    return _resumes(own) and parse_target(target).is_embedded and "/" not in target


class TextApp(Frontend):
    """The text mode."""

    def __init__(
        self,
        target: str | None,
        *,
        run_line: RunLine,
        commands: Collection[str],
        read_verb: ReadVerb,
        read: Callable[[], str] | None = None,
        write: TextIO | None = None,
        make_client: ClientMaker | None = None,
    ) -> None:
        """``run_line`` runs a command line and returns its exit status. ``commands`` are the names of its commands.

        ``read_verb`` returns the verb for a command's words, or None for other commands. It raises LabError.
        ``read`` returns the next line, or an empty string at the end of the input, as ``readline`` does.
        """
        self._inbox: queue.SimpleQueue[Message | str | None] = queue.SimpleQueue()
        self.connect(target, make_client)
        self.drills = Drills(self)
        self._text_drills = TextDrills(self, self.drills)
        self.receivers += (self.drills.receive,)
        self._run_line = run_line
        self._commands, self._read_verb = frozenset(commands), read_verb
        self._read = read or sys.stdin.readline
        self._write = write or sys.stdout
        self.shell = TextShell(self, self._put)
        self._is_ascii = not (self._write.encoding or "utf-8").lower().startswith("utf")
        self._answer: Callable[[str], None] | None = None
        self._explanation = ""
        """The explanation of the possible answers, which ``?`` shows."""
        self._is_awaited = False
        """Whether a plan is being made. Lines typed meanwhile are held, since they answer the question about it."""
        self._held: deque[str] = deque()
        self._reported: dict[str, int] = {}
        self._load_reported_seconds = 0.0
        self.is_first_snapshot = False
        """Whether the machine runs but has not been sampled yet. The first sample is reported in full."""
        self._command: str | None = None
        """The arguments of the raidlab command that is running."""
        self.ended_by = 0
        """The number of the signal that ended the text mode, or 0 if none did."""

    def run(self) -> int:
        """Run until ``q`` or the end of the input, and return the exit status."""
        self._line("raidlab, text mode. Type ? for what you can do now, help for more.")
        self.client.start()
        threading.Thread(target=self._listen, name="lines", daemon=True).start()
        while True:
            item = self._inbox.get()
            if item is None:
                return 0
            if isinstance(item, str):
                if not self._typed(item.strip()):
                    return 0
            elif isinstance(item, LabMessage):
                self._handle_message(item)

    def end_by(self, number: int) -> None:
        """End the text mode after a signal or a lost terminal.

        Raises no exception, because it could interrupt the closing of the lab.
        """
        self.ended_by = number
        self._inbox.put(None)

    def _listen(self) -> None:
        try:
            while line := self._read():
                self._inbox.put(line)
        except (OSError, ValueError):
            # Reading from a lost terminal fails, instead of returning the end of the input.
            pass
        finally:
            self._inbox.put(None)

    def post_message(self, message: Message) -> bool:
        self._inbox.put(message)
        return True

    def _handle_message(self, message: LabMessage) -> None:
        self.on_lab_message(message)
        match message:
            case OperationChanged(operation=operation) if operation and operation.line:
                self._line(f"running: {operation.line}")
            case SnapshotTaken():
                self._report_snapshot()
            case SessionOpened():
                self._line(f"The machine {self.lab.target} is running.")
                self.is_first_snapshot = True
            case SessionEnded():
                self._ended()
            case LoadTicked():
                self._load_ticked()
            case PaceChosen() if self.lab.snapshot:
                self._line(clock_line(self.lab))
            case LoadEnded() if line := load_line(self.lab):
                self._line(line)

    def _report_snapshot(self) -> None:
        if self._text_drills.is_making:
            return
        for event in self.lab.new_events:
            self._line(f"{event.sentence}.")
        for line in progress_lines(self.lab, self._reported):
            self._line(line)
        if self.is_first_snapshot:
            self.is_first_snapshot = False
            # If an open drill is being read, the next step is shown once it has been read.
            self._stand()
            if not self.drills.is_finding:
                self._line(self.next_line())

    def _load_ticked(self) -> None:
        # Use this computer's clock, because the machine's clock may run a hundred times as fast.
        line, seconds = load_line(self.lab), self.client.host.clock.monotonic_seconds()
        if line and seconds - self._load_reported_seconds >= LOAD_EVERY_SECONDS:
            self._load_reported_seconds = seconds
            self._line(line)

    def _ended(self) -> None:
        if self.lab.is_down and self.lab.problem:
            what = "is lost" if self.lab.phase is MachinePhase.LOST else "did not start"
            self._line(f"The machine {what}: {self.lab.problem}")
            self._line("restart starts it again; nothing that was measured is lost.")

    def _typed(self, line: str) -> bool:
        """Handle a typed line. Return False to end the text mode."""
        if self._is_awaited and line not in _LEAVES:
            self._held.append(line)
            return True
        if self._answer is not None and line in _EXPLAINS:
            self._line(self._explanation)
            return True
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer(line)
            return True
        word, _, rest = line.partition(" ")
        if word in _LEAVES:
            if self._command is not None:
                self._line(f"raidlab {self._command} was still running, and was ended.")
            return False
        if self._text_drills.is_making:
            self._line(_MAKING)
            return True
        simple = {
            "": self._status,
            "status": self._status,
            "?": self._choices,
            "help": self._help,
            "log": self._log,
            "build": self.choose_freely,
            "restart": self.client.start,
        }
        if word in simple:
            simple[word]()
        elif word == "drill":
            self._drill(rest)
        elif word == "raidlab":
            self._run_command_line(rest)
        elif word.startswith("!"):
            self._run_shell(f"{word[1:]} {rest}".strip())
        elif word == "b" and self.lab.is_open:
            build(self)
        elif self.drills.view and word in SHORT_WORDS:
            self._drill(line)
        elif not (self._select(word) or self.pacing.set_by_word(word)):
            self._act(word, line)
        return True

    def _drill(self, words: str) -> None:
        if not self._perform(f"drill {words}"):
            self._line(DRILL_HELP)

    def _perform(self, words: str) -> bool:
        """Carry out a raidlab command in the open lab. Return False if only the command line can run it."""
        if words.split() == ["drill"]:
            return self._text_drills.perform(verbs.DrillStatus() if self.drills.view else verbs.ListDrills())
        try:
            verb = self._read_verb(shlex.split(words))
        except ValueError:
            # The command line reports the missing quote.
            return False
        except LabError as error:
            self.show_error(error)
            if words.startswith("drill "):
                self._line(DRILL_HELP)
            return True
        if isinstance(verb, Load) and (verb.size or verb.workload.endswith(".toml")):
            # The app's loads lack these options, and the command line first warns about a foreign file.
            return False
        if isinstance(verb, Load) and self.lab.is_open:
            if self.lab.running_load:
                self._line("a load is already running; stop-load ends it.")
            else:
                self.loads.start(verb.array, verb.workload, verb.runtime)
            return True
        if isinstance(verb, Action) and self.lab.is_open:
            self._carry_out(verb)
            return True
        return verb is not None and self._text_drills.perform(verb)

    def _carry_out(self, action: Action, note: str = "") -> None:
        if isinstance(action, PlanAction):
            self.ask(action.plan, note=note)
        else:
            do(self, action)

    def _act(self, word: str, line: str) -> None:
        """Perform an action, given by its key or its name, or a raidlab command. Report an unknown command."""
        named_so = [each for each in KEY_ACTIONS if word in (each.key, each.short_name())]
        selection = selection_of(self.lab)
        obstacles = [each.obstacle(selection) for each in named_so]
        if word in self._commands and (line != word or not named_so):
            self._run_command_line(line)
        elif "" in obstacles:
            kind = named_so[obstacles.index("")]
            if kind.picks:
                choose(self, kind, selection)
            else:
                self._carry_out(kind.on_selection(selection), kind.note(selection))
        elif named_so:
            self._line(f"{word} is not possible now: {obstacles[0]}.")
        elif word == "b":
            self._line("b is not possible now: the machine is not running.")
        elif word in SHORT_WORDS:
            self._line(f"{word} is not possible now: no drill is open.")
        else:
            self._line(f"{word} is not a command here; ? lists the commands.")

    def _select(self, word: str) -> bool:
        name = f"disk{word.zfill(2)}" if word.isdecimal() else word
        if disk := self.lab.disk(name):
            self.lab.selected_disk = name
            self._line(f"selected: {disk_line(self.lab, disk)}")
            return True
        if self.lab.array(word):
            self.lab.selected_array = word
            self._line(f"selected: {word}")
            return True
        if self.lab.resting_array(word):
            start_array(self, word)
            return True
        return False

    def _run_shell(self, line: str) -> None:
        if line == "^C":
            self.shell.interrupt()
        elif not self.shell.run(line):
            self._line("not run: the previous command is still running (! ^C interrupts it), or there is no machine.")

    def _put(self, text: str) -> None:
        self._write.write(text)
        self._write.flush()

    def _status(self) -> None:
        self._stand()
        self._line(self.next_line())

    def _stand(self) -> None:
        for line in array_lines(self.lab) if self.lab.snapshot else ():
            self._line(line)
        if self.lab.pace:
            self._line(clock_line(self.lab))
        if disk := selected_disk(self.lab):
            self._line(f"selected: {disk_line(self.lab, disk)}")

    def next_line(self) -> str:
        return f"next: {plain_step(self.drills.hint_line() or next_step(self.lab))}"

    def _choices(self) -> None:
        """Print the commands that can be typed now. The possible actions precede those that are always accepted."""
        self._line("You can type now, each followed by Enter:")
        for action in applying(self.lab):
            self._line(f"{action.key} or {action.short_name()}: {action.label}. {action.tooltip}.")
        self._line(_ALWAYS)
        if self.lab.pace:
            self._line(PACE_HELP)
        if self.drills.view:
            self._line(DRILL_HELP)
        for disk in self.lab.disks:
            self._line(disk_line(self.lab, disk))

    def _help(self) -> None:
        self._line(f"{HELP}\n{PACE_HELP}" if self.lab.pace else HELP)

    def _log(self) -> None:
        for entry in list(self.lab.commands)[-_LOGGED:]:
            self._line(f"{entry.line}  (status {entry.status}, {entry.seconds:.2f} s)")

    def _show_plan(self, run: PlanRun, note: str, on_done: Callable[[], object] | None) -> None:
        plan = run.plan
        self._line(f"{plan.title}. {note}")
        for step in plan.steps:
            self._line(f"  {step.shell_line()}  # {step.why}")
        if not plan.steps:
            self._line("There is nothing to do.")
            return
        danger = "Data will be lost: see the disks above. " if plan.destroys_data else ""
        danger = "The array cannot be used afterwards. " if plan.ends_array else danger
        self._line(f"{danger}Type yes to run it; anything else cancels.")

        def done() -> None:
            self._line(f"done: {plan.title}.")
            if on_done:
                on_done()

        def answer(line: str) -> None:
            if line.lower() in ("yes", "y"):
                self.start(run, on_done=done, on_error=self.show_error)
            else:
                self._line("nothing was changed.")

        self.listen(answer, "yes runs exactly these commands. Any other line, such as no, changes nothing.")

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        self._line(f"{title}. {intro}".strip())
        for number, choice in enumerate(choices, start=1):
            self._line(f"{number}: {choice.label}. {choice.detail}".rstrip(". ") + ".")
        self._line("Type a number; anything else cancels.")

        def answer(line: str) -> None:
            if 1 <= (number := digits(line) or 0) <= len(choices):
                then(choices[number - 1].id)
            else:
                self._line("nothing was changed.")

        self.listen(answer, f"A number from 1 to {len(choices)} chooses that line. Any other line changes nothing.")

    def show_error(self, error: LabError) -> None:
        self._line(f"problem: {error.message}" + (f". next: {error.hint}" if error.hint else ""))

    def show_message(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        self._line(f"{title}. {text}" if title else text)

    def show_page(self, markdown: str) -> None:
        """Show a page of Markdown, wrapped to the width of the terminal."""
        for line in page_lines(markdown, self._columns or _PAGE_COLUMNS):
            self._line(line)

    def show_soon(self) -> None:
        """Do nothing, because lines are printed when an event occurs."""

    def choose_freely(self) -> None:
        if not self.lab.is_open:
            self._line(plain_step(next_step(self.lab)))
            return
        TextBuild(self).show()

    def listen(self, answer: Callable[[str], None], explanation: str) -> None:
        """Pass the next typed line to ``answer``. ``?`` shows ``explanation`` instead."""
        self._answer, self._explanation = answer, explanation

    def ask(self, make: MakePlan, *, note: str = "", on_done: Callable[[], object] | None = None) -> None:
        """Like ``Frontend.ask``. Lines typed before the plan is shown answer the question about it."""
        self._is_awaited = True

        def show(plan: Plan | None) -> None:
            if plan is not None:
                self._show_plan(PlanRun(self, plan), note, on_done)
            elif on_done:
                on_done()
            self._go_on()

        def refuse(error: LabError) -> None:
            self.show_error(error)
            self._go_on()

        self.look_up(make, on_done=show, on_error=refuse)

    def _go_on(self) -> None:
        self._is_awaited = False
        while self._held and not self._is_awaited:
            if not self._typed(self._held.popleft()):
                self._inbox.put(None)
                return

    def _run_command_line(self, words: str) -> None:
        if self._command is not None:
            self._line("not run: the previous raidlab command is still running.")
            return
        if self._perform(words):
            return
        self._command = words

        def ended(status: int) -> None:
            self._command = None
            self._line(f"raidlab {words}: exited with status {status}.")

        self.beside("command", lambda: self._run_here(words), on_done=ended)

    def _run_here(self, words: str) -> int:
        """Run a command line on a separate thread. If it needs the machine, close the lab meanwhile."""
        try:
            argv = shlex.split(words)
        except ValueError as error:
            sys.stderr.write(f"raidlab: {error}: a quote is missing\n")
            return 2
        target = self.client.target
        on = ["--on", target] if target and not _chooses_target(argv, target) else []
        lab = self.client.released() if needs_machine(argv) else nullcontext()
        before = sys.stdin
        # The command must not read the user's next line as an answer. Without input it refuses, and names the option to
        # use.
        with open(os.devnull, encoding="ascii") as nothing, lab:
            sys.stdin = nothing
            try:
                return self._run_line([*on, *argv])
            finally:
                sys.stdin = before

    @property
    def _columns(self) -> int:
        """Return the number of columns of the terminal, or 0 if the output is not a terminal."""
        return shutil.get_terminal_size().columns if self._write.isatty() else 0

    def _line(self, text: str) -> None:
        if self._columns and not text.startswith(_COMMANDS):
            text = "\n".join(words_wrapped(text, self._columns))
        self._put((to_ascii(text) if self._is_ascii else text) + "\n")


def main(on: str | None, run_line: RunLine, commands: Collection[str], read_verb: ReadVerb) -> int:
    """Run the text mode. However it ends, close the lab. The arguments are those of ``TextApp``."""
    if threading.current_thread() is not threading.main_thread():
        raise LabError("the text mode is already running here", hint="run it in another terminal")
    app = TextApp(on, run_line=run_line, commands=commands, read_verb=read_verb)
    with signals.handled_by(app.end_by):
        signals.watch_terminal()
        try:
            status = app.run()
        finally:
            app.background.end()
            app.client.close()
    return 128 + app.ended_by if app.ended_by else status
