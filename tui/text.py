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
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, TextIO

from lab.gates.numbers import digits
from tui import messages as happened
from tui.actions import applying, build, carry_out, selected_disk, start_array
from tui.drills import Drills
from tui.frontend import Choice, ClientMaker, Frontend
from tui.plain import to_ascii
from tui.plan_runs import PlanRun
from tui.state import MachinePhase
from tui.story import next_step
from tui.text_build import TextBuild
from tui.text_drills import DRILL_HELP, TextDrills
from tui.text_words import (
    HELP,
    PACE_HELP,
    array_lines,
    clock_line,
    disk_line,
    load_line,
    page_lines,
    plain_step,
    progress_lines,
    words_wrapped,
)

if TYPE_CHECKING:
    from textual.message import Message

    from lab.errors import LabError
    from lab.plans import Plan

_LOGGED = 10
_PAGE_COLUMNS = 100
_COMMANDS = ("  ", "running: ")
"""How lines begin that somebody may copy: they stay whole."""
# They read what is stored or reckon, or start machines of their own: the open one is not needed.
_WITHOUT_MACHINE = frozenset(
    {"results", "compare", "export", "lint", "workloads", "fleet", "sweep", "--help", "--version"}
)


class TextApp(Frontend):
    """The frontend that talks in lines."""

    def __init__(
        self,
        target: str | None,
        *,
        run_line: Callable[[list[str]], int],
        read: Callable[[], str] | None = None,
        write: TextIO | None = None,
        make_client: ClientMaker | None = None,
        ascii_only: bool = False,
    ) -> None:
        """``run_line`` is the command line; ``read`` gives the next line, empty at the end, as ``readline`` does."""
        self._inbox: queue.SimpleQueue[Message | str | None] = queue.SimpleQueue()
        self.connect(target, make_client)
        self.drills = Drills(self)
        self._desk = TextDrills(self, self.drills)
        self.services += (self.drills,)
        self._run_line = run_line
        self._read = read or sys.stdin.readline
        self._write = write or sys.stdout
        self._is_ascii = ascii_only
        self._answer: Callable[[str], None] | None = None
        self._printed = 0
        self._told: dict[str, int] = {}
        self._load_told_seconds = 0.0
        self.is_first_look = False
        """Whether the machine runs and nothing was seen of it yet: then it is told how things stand."""
        self._is_commanded = False

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

    def _listen(self) -> None:
        while line := self._read():
            self._inbox.put(line)
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
            # Of a drill that is being read the desk tells what comes next.
            self._stand()
            if not self.drills.is_finding:
                self._line(self.next_line())

    def _load_ticked(self) -> None:
        from tui.text_words import LOAD_EVERY_SECONDS

        # By the clock of whoever listens: the machine's may go a hundred times as fast.
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
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer(line)
            return True
        word, _, rest = line.partition(" ")
        if word in ("q", "quit", "exit"):
            return False
        if self._desk.is_making:
            self._desk.tell_making()
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
            if not self._desk.obey(rest):
                self._line(DRILL_HELP)
        elif word == "raidlab":
            # The command line would open the machine anew, and arrays by hand would be gone.
            group, _, words = rest.strip().partition(" ")
            if not (group == "drill" and self._desk.obey(words)):
                self._run_command_line(rest)
        elif word.startswith("!"):
            self._run_shell(f"{word[1:]} {rest}".strip())
        elif word == "b" and self.lab.is_open:
            build(self)
        elif not ((self._desk.takes(word) and self._desk.obey(line)) or self._select(word) or self.pacing.obey(word)):
            self._act(word)
        return True

    def _act(self, key: str) -> None:
        found = next((each for each in applying(self.lab) if key in (each.key, each.name.replace("_", "-"))), None)
        if found:
            carry_out(self, found.name)
        else:
            self._line(f"{key}: nothing that can be done now. ? lists what can.")

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
        if any(array.name == word for array in self.lab.resting_arrays):
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
        """What can be done next, in words."""
        return f"next: {plain_step(self._desk.next_step or next_step(self.lab))}"

    def _choices(self) -> None:
        for action in applying(self.lab):
            self._line(f"{action.key}: {action.label}. {action.tooltip}.")
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
        danger = "Data on these devices will be lost. " if plan.destroys_data else ""
        self._line(f"{danger}Type yes to run it; anything else leaves it.")

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

        def answer(line: str) -> None:
            if 1 <= (number := digits(line) or 0) <= len(choices):
                then(choices[number - 1].id)
            else:
                self._line("left as it was.")

        self._answer = answer

    def tell(self, error: LabError) -> None:
        """Show an error with what to do next."""
        self._line(f"problem: {error.message}" + (f". next: {error.hint}" if error.hint else ""))

    def say(self, text: str, *, title: str = "", is_bad: bool = False) -> None:
        """Show a sentence."""
        self._line(f"{title}. {text}" if title else text)

    def tell_page(self, markdown: str) -> None:
        """Show a page, in the width of the terminal."""
        for line in page_lines(markdown, self._columns or _PAGE_COLUMNS):
            self._line(line)

    def show_soon(self) -> None:
        """Lines are shown when something happens."""

    def choose_freely(self) -> None:
        """Put an array together, choice by choice."""
        if not self.lab.is_open:
            self._line(plain_step(next_step(self.lab)))
            return

        TextBuild(self).tell()

    def listen(self, answer: Callable[[str], None]) -> None:
        """Hand the next line that is typed to ``answer``."""
        self._answer = answer

    def _run_command_line(self, words: str) -> None:
        if self._is_commanded:
            self._line("not run: the raidlab command before still runs.")
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
        needs_machine = not (argv and argv[0] in _WITHOUT_MACHINE)
        on = ["--on", self.client.target] if self.client.target and needs_machine else []
        before = sys.stdin
        # What it would ask would be taken for a line of the text mode: it is to refuse, and name the option that says
        # yes.
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


def main(on: str | None, run_line: Callable[[list[str]], int]) -> int:
    """Open the text mode; the lab is closed on every way out. ``run_line`` is the command line that called it."""
    app = TextApp(on, run_line=run_line, ascii_only=not (sys.stdout.encoding or "").lower().startswith("utf"))
    try:
        return app.run()
    finally:
        app.background.end()
        app.client.close()
