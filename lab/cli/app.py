"""The sub-commands by name, and the global options."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from lab import __version__
from lab.cli.context import Options, options, use_options
from lab.errors import ExitCode
from lab.host import signals
from lab.parts import commands

if TYPE_CHECKING:
    from lab.actions.action import Verb

TEXT_VARIABLE = "RAIDLAB_TEXT"
"""If set, the app runs in plain lines, as with ``--text``."""
_HELP = "A laboratory for Linux software RAID: build, load, break and rebuild real md arrays."

# Name, location, help. A module is imported when its command is used. Parts add theirs (lab.parts).
_COMMANDS = (
    ("doctor", "lab.cli.doctor:doctor", "What this computer can do, what is missing, and the command that fixes it."),
    ("disks", "lab.cli.disks:app", "Lab disks, and every refused disk with its reason."),
    ("array", "lab.cli.array:app", "Create, show, change, break and repair arrays."),
    ("watch", "lab.cli.watch:watch", "Arrays, members and rebuilds, live."),
    ("load", "lab.cli.load:load", "Run one workload on one array, live."),
    ("workloads", "lab.cli.load:workloads", "The catalogue of workloads."),
    ("exec", "lab.cli.execute:execute", "Run a command on the machine while the lab is open."),
    ("shell", "lab.cli.shell:shell", "A terminal on the machine while the lab is open."),
    ("run", "lab.cli.run:run", "Run an experiment."),
    ("fault", "lab.cli.fault:app", "Faults that end in a verdict on the data: scenarios, power cuts, campaigns."),
    ("drill", "lab.cli.drill:app", "Disasters to practise on: an array in trouble, and a verdict on the data."),
    ("lesson", "lab.cli.lesson:app", "Guided lessons: read, predict, do, check, understand."),
    ("results", "lab.cli.results:app", "Stored results."),
    ("lint", "lab.cli.lint:lint", "What makes a measurement untrustworthy, rule by rule."),
    ("compare", "lab.cli.compare:compare", "Two results side by side: ratios, and which is faster."),
    ("report", "lab.cli.report:report", "Results as one document: HTML with plots, Markdown, CSV or text."),
    ("export", "lab.cli.export:export", "Results as one file that can be read back elsewhere."),
    ("serve", "lab.cli.serve:serve", "The app in a browser, on loopback only."),
    ("completion", "lab.cli.completion:completion", "Print a completion script for a shell."),
)


def make_app() -> App:
    """The command with all its sub-commands, which are not loaded yet."""
    app = App(name="raidlab", help=_HELP, version=__version__, help_format="plaintext")
    for name, place, text in (*_COMMANDS, *commands()):
        app.command(place, name=name, help=text)

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        on: Annotated[str | None, Parameter(help="Machine: uml:, local: or ssh:HOST [env: RAIDLAB_ON].")] = None,
        json: Annotated[bool, Parameter(negative="", show_default=False, help="Print data as JSON.")] = False,
        quiet: Annotated[
            bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False, help="No narration.")
        ] = False,
        verbose: Annotated[
            bool, Parameter(name=["--verbose", "-v"], negative="", show_default=False, help="Narrate every command.")
        ] = False,
        text: Annotated[
            bool, Parameter(negative="", show_default=False, help="The app in plain lines, for screen readers.")
        ] = False,
    ) -> Any:
        use_options(Options(on, json, quiet, verbose, options().command))
        if not tokens:
            return _without_command(app, in_lines=text)
        return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")

    return app


def _without_command(app: App, *, in_lines: bool) -> int:
    """Start the app, if it is installed and there is a terminal; otherwise print the help."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    wants_lines = in_lines or os.environ.get(TEXT_VARIABLE, "") not in ("", "0") or os.environ.get("TERM") == "dumb"
    if find_spec("tui") and find_spec("tui.app") and (is_terminal or in_lines):
        from lab.cli.main import run

        # The app queries the size of the terminal and follows its changes: a variable would fix the size.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        frontend, on = import_module("tui.text" if wants_lines else "tui.app"), options().on
        # Only now: before this point there is nothing to close, and an exception during imports could get lost.
        signals.close_in_order()

        def read_verb(words: list[str]) -> Verb | None:
            from lab.cli.verbs import typed_verb

            return typed_verb(app, words)

        names = {name for name, _, _ in (*_COMMANDS, *commands())}
        status = frontend.main(on, run, names, read_verb) if wants_lines else frontend.main(on)
        return status if isinstance(status, int) else ExitCode.DONE
    app.meta(["--help"], result_action="return_value")
    return ExitCode.DONE
