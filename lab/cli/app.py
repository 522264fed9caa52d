"""The raidlab command with its global options, and its sub-commands, whose modules are imported only when needed.

``raidlab serve`` shows the app in a browser, on the loopback interface.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from lab import __version__
from lab.cli.arguments import flag, number
from lab.cli.context import OPTIONS, Command, Options, added_commands, current, err, out
from lab.errors import ExitCode, ToolMissing
from lab.frontend import AppFrontend
from lab.gates.decoding import PortOrAny
from lab.host import signals
from lab.plugins import extension

if TYPE_CHECKING:
    from lab.actions.action import Verb
    from lab.cli.context import Loaded
    from lab.frontend import RunLine


def serve(
    *,
    port: Annotated[int, number(PortOrAny, help="Port on the loopback interface; 0 selects any free port.")] = 8642,
) -> None:
    """Serve the app to a browser, on the loopback interface only.

    The printed address contains a random token. Each tab that opens it runs its own instance of the app. Ctrl-C ends
    the server. To open the app from another computer, forward the port with ``ssh -L``.
    """
    app = extension(AppFrontend)
    if app is None:
        raise ToolMissing("the app is not installed", hint="install raidlab with the package 'tui'")

    current()

    def ready(address: str) -> None:
        err("raidlab: open this address in a browser on this computer; Ctrl-C ends the server")
        out(address)

    app.serve(OPTIONS.get().on, port, ready)


TEXT_VARIABLE = "RAIDLAB_TEXT"
"""If set, the app runs in plain lines, as with ``--text``."""
_HELP = "A laboratory for Linux software RAID: build, load, break and rebuild real md arrays."


def _global_options(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    on: Annotated[
        str | None, Parameter(help="Machine: uml:, qemu:, local:, ssh:HOST or vagrant: [env: RAIDLAB_ON].")
    ] = None,
    json: Annotated[bool, flag("Print data as JSON.")] = False,
    quiet: Annotated[bool, flag("Print only data, errors and what files from others may do.", "--quiet", "-q")] = False,
    verbose: Annotated[bool, flag("Print every command that runs on the machine.", "--verbose", "-v")] = False,
    text: Annotated[bool, flag("Run the app in plain lines, for screen readers.")] = False,
) -> tuple[str, ...]:
    """Store the global options, and return the other arguments."""
    OPTIONS.set(Options(on, json, quiet, verbose, OPTIONS.get().command, text))
    return tokens


def make_app(words: Collection[str] | None = None) -> App:
    """Return the command. If ``words`` were typed, other sub-commands have only a name and help."""
    app = App(name="raidlab", help=_HELP, version=__version__, help_format="plaintext")
    for each in _commands():
        each.add_to(app, words)
    app.meta.default(_global_options)
    return app


def without_command(app: App, run_line: RunLine) -> int:
    """Start the app if it is installed and there is a terminal. Otherwise print the help."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    in_lines = OPTIONS.get().text
    wants_lines = in_lines or os.environ.get(TEXT_VARIABLE, "") not in ("", "0") or os.environ.get("TERM") == "dumb"
    frontend = extension(AppFrontend)
    if frontend and (is_terminal or in_lines):
        # The app queries the size of the terminal and follows its changes, but a variable would fix the size.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        on = OPTIONS.get().on
        # This is done only after the app is imported: nothing is open before, and an import may lose an exception.
        if wants_lines:
            open_text = frontend.load_text()
            signals.close_in_order()
            return open_text(on, run_line, {each.words for each in _commands()}, _read_verb)
        open_app = frontend.load()
        signals.close_in_order()
        return open_app(on)
    app.meta(["--help"], result_action="return_value")
    return ExitCode.DONE


def _read_verb(words: list[str]) -> Verb | None:
    from lab.cli.session import typed_verb

    return typed_verb(make_app(words), words)


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a completion script, for example to load it with ``source <(raidlab completion bash)``."""
    out(make_app().generate_completion(shell=shell).rstrip())


def _commands() -> Iterator[Command]:
    for name, help_text in COMMANDS.items():
        yield Command(name, partial(_load, name), help_text)
    yield from added_commands()


def _load(name: str) -> Loaded:
    command: Loaded
    match name:
        case "doctor":
            from lab.cli.doctor import doctor as command
        case "kernels":
            from lab.cli.kernels import app as command
        case "mdadm":
            from lab.cli.kernels import mdadm_app as command
        case "disks":
            from lab.cli.disks import app as command
        case "array":
            from lab.cli.array import app as command
        case "watch":
            from lab.cli.load import watch as command
        case "load":
            from lab.cli.load import load as command
        case "workloads":
            from lab.cli.load import workloads as command
        case "exec":
            from lab.cli.shell import execute as command
        case "shell":
            from lab.cli.shell import shell as command
        case "run":
            from lab.cli.run import run as command
        case "fault":
            from lab.cli.fault import app as command
        case "drill":
            from lab.cli.drill import app as command
        case "lesson":
            from lab.cli.lesson import app as command
        case "results":
            from lab.cli.results import app as command
        case "lint":
            from lab.cli.results import lint as command
        case "compare":
            from lab.cli.results import compare as command
        case "report":
            from lab.cli.results import report as command
        case "export":
            from lab.cli.results import export as command
        case "serve":
            command = serve
        case "completion":
            command = completion
        case _:
            raise AssertionError(f"no module has the command {name}")
    return command


COMMANDS = {
    "doctor": "Show what this computer can do, what is missing, and how to fix it.",
    "kernels": "List the distribution kernels that qemu: can start, and fetch others.",
    "mdadm": "List other versions of mdadm for uml: and qemu:, and fetch them.",
    "disks": "List the lab's disks, and every refused disk with the reason.",
    "array": "Create, show, change, break and repair arrays.",
    "watch": "Watch arrays, members and rebuilds live.",
    "load": "Run one workload on one array, and show it live.",
    "workloads": "List the workloads of the catalogue.",
    "exec": "Run a command on the machine, with its arrays running.",
    "shell": "Open a terminal on the machine, with its arrays running.",
    "run": "Run an experiment.",
    "fault": "Inject faults, and judge the data afterwards: scenarios, power cuts, campaigns.",
    "drill": "Practise on disasters: repair a damaged array, and get a verdict on the data.",
    "lesson": "Follow guided lessons: read, predict, do, check, understand.",
    "results": "Show and manage stored results.",
    "lint": "Show what makes a measurement untrustworthy, rule by rule.",
    "compare": "Compare two results by their ratios, and show which is faster.",
    "report": "Write results as one document: HTML with plots, Markdown, CSV or text.",
    "export": "Write results to one file that can be read back elsewhere.",
    "serve": "Serve the app to a browser, on loopback only.",
    "completion": "Print a completion script for a shell.",
}
