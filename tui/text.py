"""The app as plain lines, for screen readers and for terminals that can do no more: no screen, no animation.

What happens is told in a sentence when it happens; what can be done is asked with ``?`` and done with the same keys as
in the app, each followed by Enter. Building has its own dialog, drills their own words; experiments, results and
lessons are ``raidlab`` lines, which can be typed here too.
"""

from __future__ import annotations

import os
import queue
import shlex
import shutil
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, TextIO

from lab.actions.action import Action, Choice
from lab.actions.loads import Load
from lab.errors import LabError
from lab.gates.numbers import digits
from lab.host import signals
from lab.plain_page import page_lines
from tui import messages as happened
from tui.actions import KEY_ACTIONS, applying, ask, build, carry_out, selected_disk, selection_of, start_array
from tui.drills import Drills
from tui.frontend import ClientMaker, named
from tui.line_frontend import LineFrontend
from tui.plain import to_ascii
from tui.plan_runs import PlanRun
from tui.state import MachinePhase
from tui.story import next_step
from tui.text_build import TextBuild
from tui.text_drills import DRILL_HELP, SHORT_WORDS, TextDrills
from tui.text_words import (
    HELP,
    PACE_HELP,
    array_lines,
    clock_line,
    disk_line,
    load_line,
    plain_step,
    progress_lines,
    words_wrapped,
)

if TYPE_CHECKING:
    from textual.message import Message

    from lab.actions.action import Verb
    from lab.plans import Plan
    from lab.session.session import LabSession

_LOGGED = 10
_PAGE_COLUMNS = 100
_COMMANDS = ("  ", "running: ")
"""How lines begin that a user may copy: they are not wrapped."""
# They read what is stored or reckon, or start machines of their own: the open one is not needed.
_WITHOUT_MACHINE = frozenset(
    {"results", "compare", "export", "lint", "workloads", "fleet", "sweep", "completion", "--help", "--version"}
)
_LISTS = frozenset({"lesson", "drill", "fault"})
"""Commands whose ``list`` only reads files."""
_LEAVES = ("q", "quit", "exit")
_EXPLAINS = ("?", "help")


class TextApp(LineFrontend):
    """The frontend that talks in lines."""

    def __init__(
        self,
        target: str | None,
        *,
        run_line: Callable[[list[str]], int],
        commands: Collection[str] = (),
        read_verb: Callable[[list[str]], Verb | None] = lambda _: None,
        read: Callable[[], str] | None = None,
        write: TextIO | None = None,
        make_client: ClientMaker | None = None,
        ascii_only: bool = False,
    ) -> None:
        """``run_line`` is the command line, whose commands are called ``commands``.

        ``read_verb`` gives the verb that the words of a command are, None for other commands; it raises LabError.
        ``read`` gives the next line, empty at the end, as ``readline`` does.
        """
        self._inbox: queue.SimpleQueue[Message | str | None] = queue.SimpleQueue()
        self.connect(target, make_client)
        self.drills = Drills(self)
        self._desk = TextDrills(self, self.drills)
        self.services += (self.drills,)
        self._run_line = run_line
        self._commands, self._read_verb = frozenset(commands), read_verb
        self._read = read or sys.stdin.readline
        self._write = write or sys.stdout
        self._is_ascii = ascii_only
        self._answer: Callable[[str], None] | None = None
        self._explanation = ""
        """Of what can be answered."""
        self._is_awaited = False
        """Whether a plan is being made: lines that were typed since are for the question about it."""
        self._held: deque[str] = deque()
        self._printed = 0
        self._told: dict[str, int] = {}
        self._load_told_seconds = 0.0
        self.is_first_look = False
        self._is_commanded = False
        self.ended_by = 0
        """The signal that ended it, if one did."""

    def run(self) -> int:
        """Until ``q`` or the end of the input; returns the exit status."""
        self._line("raidlab in plain lines. Type ? for what can be done, help for more.")
        self.client.start()
        threading.Thread(target=self._listen, name="lines", daemon=True).start()
        while True:
            item = self._inbox.get()
            if item is None:
                return 0
            if isinstance(item, str):
                if not self._typed(item.strip()):
                    return 0
            elif isinstance(item, happened.LabMessage):
                self._heard(item)

    def end_by(self, number: int) -> None:
        """A signal has come, or the terminal is gone. No exception: it would also end what is closing already."""
        self.ended_by = number
        self._inbox.put(None)

    def _listen(self) -> None:
        try:
            while line := self._read():
                self._inbox.put(line)
        except (OSError, ValueError):
            # A terminal that is gone answers with an error, not with an end.
            pass
        finally:
            self._inbox.put(None)

    def post_message(self, message: Message) -> bool:
        """From any thread."""
        self._inbox.put(message)
        return True

    def _heard(self, message: happened.LabMessage) -> None:
        self.on_lab_message(message)
        match message:
            case happened.StepStarted():
                self._line(f"running: {message.line}")
            case happened.LabLooked():
                self._looked()
            case happened.SessionOpened():
                self._line(f"The machine {self.lab.target} runs.")
                self.is_first_look = True
            case happened.SessionEnded():
                self._ended()
            case happened.LoadTicked():
                self._load_ticked()
            case happened.PaceChosen() if self.lab.look:
                self._line(clock_line(self.lab))
            case happened.LoadEnded() if line := load_line(self.lab):
                self._line(line)
            case _:
                pass
        self._print_shell()

    def _looked(self) -> None:
        if self._desk.is_making:
            return
        for event in self.lab.new_events:
            self._line(f"{event.sentence}.")
        for line in progress_lines(self.lab, self._told):
            self._line(line)
        if self.is_first_look:
            self.is_first_look = False
            # While an open drill is being read, the drill reports what comes next.
            self._stand()
            if not self.drills.is_finding:
                self._line(self.next_line())

    def _load_ticked(self) -> None:
        from tui.text_words import LOAD_EVERY_SECONDS

        # By this computer's clock: the machine's may run a hundred times as fast.
        line, seconds = load_line(self.lab), self.client.host.clock.monotonic_seconds()
        if line and seconds - self._load_told_seconds >= LOAD_EVERY_SECONDS:
            self._load_told_seconds = seconds
            self._line(line)

    def _ended(self) -> None:
        if self.lab.is_down and self.lab.problem:
            what = "is lost" if self.lab.phase is MachinePhase.LOST else "did not start"
            self._line(f"The machine {what}: {self.lab.problem}")
            self._line("restart starts it again; nothing that was measured is lost.")

    def _typed(self, line: str) -> bool:
        """False: leave."""
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
            return False
        if self._desk.is_making:
            self._desk.show_making()
            return True
        simple = {
            "": self._status,
            "status": self._status,
            "?": self._choices,
            "help": self._help,
            "log": self._log,
            "build": self.choose_freely,
        }
        if word in simple:
            simple[word]()
        elif word == "restart":
            self.client.restart()
        elif word == "drill":
            self._drill(rest)
        elif word == "raidlab":
            self._run_command_line(rest)
        elif word.startswith("!"):
            self._run_shell(f"{word[1:]} {rest}".strip())
        elif word == "b" and self.lab.is_open:
            build(self)
        elif self._desk.is_open and word in SHORT_WORDS:
            self._drill(line)
        elif not (self._select(word) or self.pacing.obey(word)):
            self._act(word, line)
        return True

    def _drill(self, words: str) -> None:
        """Obey the words after ``drill``."""
        if not self._obey(f"drill {words}"):
            self._line(DRILL_HELP)

    def _obey(self, words: str) -> bool:
        """Do what a command of raidlab says in the lab that is open; False for what only the command line can."""
        if words.split() == ["drill"]:
            self._desk.show()
            return True
        try:
            verb = self._read_verb(shlex.split(words))
        except ValueError:
            # The command line says which quote is missing.
            return False
        except LabError as error:
            self.show_error(error)
            if words.startswith("drill "):
                self._line(DRILL_HELP)
            return True
        if isinstance(verb, Load) and (verb.size or verb.workload.endswith(".toml")):
            # The app's loads have no such option, and the command line says first what a foreign file may do.
            return False
        if isinstance(verb, Load) and self.lab.is_open:
            if self.lab.running_load:
                self._line("a load runs already: stop-load ends it.")
            else:
                self.loads.start(verb.array, verb.workload, verb.runtime)
            return True
        if isinstance(verb, Action) and self.lab.is_open:
            ask(self, verb)
            return True
        return verb is not None and self._desk.obey(verb)

    def _act(self, word: str, line: str) -> None:
        """An action by its key or its name, a command of raidlab, or nothing that is known."""
        named_so = [each for each in KEY_ACTIONS if word in (each.key, each.short_name())]
        selection = selection_of(self.lab)
        obstacles = [each.obstacle(selection) for each in named_so]
        if word in self._commands and (line != word or not named_so):
            self._run_command_line(line)
        elif "" in obstacles:
            carry_out(self, named_so[obstacles.index("")])
        elif named_so:
            self._line(f"{word} is not possible now: {obstacles[0]}.")
        elif word == "b":
            self._line("b is not possible now: the machine does not run.")
        elif word in SHORT_WORDS:
            self._line(f"{word} is not possible now: no drill is open.")
        else:
            self._line(f"{word} is not a word here; ? lists what there is.")

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
            self._line("not run: the command before still runs (! ^C interrupts it), or there is no machine.")
        self._print_shell()

    def _print_shell(self) -> None:
        if text := self.shell.unseen(self._printed):
            self._write.write(text)
            self._write.flush()
        self._printed = self.shell.count

    def _status(self) -> None:
        self._stand()
        self._line(self.next_line())

    def _stand(self) -> None:
        for line in array_lines(self.lab) if self.lab.look else ():
            self._line(line)
        if self.lab.pace:
            self._line(clock_line(self.lab))
        disk = selected_disk(self.lab)
        if disk:
            self._line(f"selected: {disk_line(self.lab, disk)}")

    def next_line(self) -> str:
        return f"next: {plain_step(self._desk.next_step or next_step(self.lab))}"

    def _choices(self) -> None:
        """What can be typed now: actions with their words, then what is always there."""
        self._line("What can be typed now, each with Enter:")
        for action in applying(self.lab):
            self._line(f"{action.key} or {action.short_name()}: {action.label}. {action.tooltip}.")
        if self.lab.is_open:
            self._line("b: Build. A good first RAID 5, or the choice of level and disks where there is an array.")
            self._line("build: Put an array together choice by choice.")
        self._line("drill: Disasters to practise on, with a verdict. drill help lists its words.")
        self._line("lesson list: The lessons; lesson start 1 begins the first.")
        self._line("run, results: Experiments, and what was measured.")
        self._line("! LINE: Run LINE as a root shell on the machine.")
        self._line("log, restart, q: The last commands; start a lost machine again; leave.")
        for disk in self.lab.disks:
            self._line(disk_line(self.lab, disk))
        if self.lab.pace:
            self._line(PACE_HELP)
        if self._desk.next_step:
            self._line(DRILL_HELP)
        self._line("help explains the rest.")

    def _help(self) -> None:
        self._line(f"{HELP}\n{PACE_HELP}" if self.lab.pace else HELP)

    def _log(self) -> None:
        for entry in list(self.lab.commands)[-_LOGGED:]:
            self._line(f"{entry.line}  (status {entry.status}, {entry.seconds:.2f} s)")

    def show_plan(self, plan: Plan, *, note: str, on_done: Callable[[], None] | None) -> None:
        """Print it, and run it after ``yes``."""
        self._line(f"{plan.title}. {note}")
        for step in plan.steps:
            self._line(f"  {step.shell_line()}  # {step.why}")
        if not plan.steps:
            self._line("There is nothing to do.")
            return
        danger = "Data will be lost: see the disks above. " if plan.destroys_data else ""
        danger = "The array cannot be used afterwards. " if plan.ends_array else danger
        self._line(f"{danger}Type yes to run it; anything else leaves it.")
        self._explanation = "yes runs exactly these commands. Any other line, such as no, leaves everything as it is."

        def answer(line: str) -> None:
            if line.lower() in ("yes", "y"):
                PlanRun(self, plan, on_done=(partial(self._line, f"done: {plan.title}."), on_done)).go_on()
            else:
                self._line("left as it was.")

        self._answer = answer

    def pick(self, title: str, choices: Sequence[Choice], then: Callable[[str], None], *, intro: str = "") -> None:
        """Print them with numbers."""
        self._line(f"{title}. {intro}".strip())
        for number, choice in enumerate(choices, start=1):
            self._line(f"{number}: {choice.label}. {choice.detail}".rstrip(". ") + ".")
        self._line("Type a number; anything else leaves it.")
        self._explanation = f"A number from 1 to {len(choices)} chooses that line. Any other line leaves everything."

        def answer(line: str) -> None:
            if 1 <= (number := digits(line) or 0) <= len(choices):
                then(choices[number - 1].id)
            else:
                self._line("left as it was.")

        self._answer = answer

    def show_error(self, error: LabError) -> None:
        """Show an error with what to do next."""
        self._line(f"problem: {error.message}" + (f". next: {error.hint}" if error.hint else ""))

    def say(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        """Show a sentence."""
        self._line(f"{title}. {text}" if title else text)

    def show_page(self, markdown: str) -> None:
        for line in page_lines(markdown, self._columns or _PAGE_COLUMNS):
            self._line(line)

    def show_soon(self) -> None:
        """Lines are shown when something happens."""

    def choose_freely(self) -> None:
        """Put an array together, choice by choice."""
        if not self.lab.is_open:
            self._line(plain_step(next_step(self.lab)))
            return

        TextBuild(self).show()

    def listen(self, answer: Callable[[str], None], explanation: str) -> None:
        self._answer, self._explanation = answer, explanation

    def ask(
        self, make: Callable[[LabSession], Plan | None], *, note: str = "", on_done: Callable[[], None] | None = None
    ) -> None:
        """As every frontend does; lines that come before the plan are for the question about it."""
        self._is_awaited = True

        def show(plan: Plan | None) -> None:
            if plan is not None:
                self.show_plan(plan, note=note, on_done=on_done)
            elif on_done:
                on_done()
            self._go_on()

        def refuse(error: LabError) -> None:
            self.show_error(error)
            self._go_on()

        self.look_up(partial(named, make), on_done=show, on_error=refuse)

    def _go_on(self) -> None:
        """Take the lines that were held."""
        self._is_awaited = False
        while self._held and not self._is_awaited:
            if not self._typed(self._held.popleft()):
                self._inbox.put(None)
                return

    def _run_command_line(self, words: str) -> None:
        if self._is_commanded:
            self._line("not run: the raidlab command before still runs.")
            return
        if self._obey(words):
            return
        self._is_commanded = True

        def ended(status: int) -> None:
            self._is_commanded = False
            self._line(f"raidlab {words}: ended with status {status}.")

        self.beside("command", lambda: self._run_here(words), on_done=ended)

    def _run_here(self, words: str) -> int:
        """On a thread of its own; the lab is closed meanwhile if the command opens it itself."""
        try:
            argv = shlex.split(words)
        except ValueError as error:
            sys.stderr.write(f"raidlab: {error}: a quote is missing\n")
            return 2
        reads_only = argv[1:2] == ["list"] and argv[0] in _LISTS
        needs_machine = not (argv and (argv[0] in _WITHOUT_MACHINE or reads_only))
        on = ["--on", self.client.target] if self.client.target and needs_machine else []
        before = sys.stdin
        # The next typed line would answer a question of the command: it must refuse, and name the option that says yes.
        with open(os.devnull, encoding="ascii") as nothing, self.client.released() if needs_machine else nullcontext():
            sys.stdin = nothing
            try:
                return self._run_line([*on, *argv])
            finally:
                sys.stdin = before

    @property
    def _columns(self) -> int:
        """Of the terminal; 0 where there is none."""
        return shutil.get_terminal_size().columns if self._write.isatty() else 0

    def _line(self, text: str) -> None:
        if self._columns and not text.startswith(_COMMANDS):
            text = "\n".join(words_wrapped(text, self._columns))
        self._write.write((to_ascii(text) if self._is_ascii else text) + "\n")
        self._write.flush()


def main(
    on: str | None,
    run_line: Callable[[list[str]], int],
    commands: Collection[str] = (),
    read_verb: Callable[[list[str]], Verb | None] = lambda _: None,
) -> int:
    """Open the text mode; the lab is closed on every way out. The arguments are those of ``TextApp``."""
    app = TextApp(
        on,
        run_line=run_line,
        commands=commands,
        read_verb=read_verb,
        ascii_only=not (sys.stdout.encoding or "").lower().startswith("utf"),
    )
    with signals.heard_by(app.end_by):
        signals.watch_terminal()
        try:
            status = app.run()
        finally:
            app.background.end()
            app.client.close()
    return 128 + app.ended_by if app.ended_by else status
