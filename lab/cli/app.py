"""The sub-commands by name, and the global options."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from lab import __version__
from lab.cli.adding import add_command, added_commands
from lab.cli.commands import COMMANDS
from lab.cli.context import Options, options, use_options
from lab.cli.extension import Command
from lab.cli.output import out
from lab.errors import ExitCode
from lab.frontend import AppFrontend
from lab.host import signals
from lab.plugins import extension

if TYPE_CHECKING:
    from lab.actions.action import Verb
    from lab.frontend import RunLine

TEXT_VARIABLE = "RAIDLAB_TEXT"
"""If set, the app runs in plain lines, as with ``--text``."""
_HELP = "A laboratory for Linux software RAID: build, load, break and rebuild real md arrays."


def make_app(words: Collection[str] | None = None, run_line: RunLine | None = None) -> App:
    """The command with all its sub-commands.

    Args:
        words: of the command line: the modules of sub-commands that are not among them are not imported, and only
            their names and helps are there; None: all are imported.
        run_line: runs another command line, for the app; None: the app is not opened.
    """
    app = App(name="raidlab", help=_HELP, version=__version__, help_format="plaintext")
    for each in _commands():
        add_command(app, each, words)

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
            return _without_command(app, run_line, in_lines=text)
        return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")

    return app


def _without_command(app: App, run_line: RunLine | None, *, in_lines: bool) -> int:
    """Start the app, if it is installed and there is a terminal; otherwise print the help."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    wants_lines = in_lines or os.environ.get(TEXT_VARIABLE, "") not in ("", "0") or os.environ.get("TERM") == "dumb"
    frontend = extension(AppFrontend)
    if frontend and run_line and (is_terminal or in_lines):
        # The app queries the size of the terminal and follows its changes: a variable would fix the size.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        on = options().on
        # Not before the imports: until then nothing has to be closed, and an exception during imports could get lost.
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
    from lab.cli.verbs import typed_verb

    return typed_verb(make_app(words), words)


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a completion script, such as for ``source <(raidlab completion bash)``."""
    out(make_app().generate_completion(shell=shell).rstrip())


def _commands() -> Iterator[Command]:
    yield from COMMANDS
    yield Command("completion", lambda: completion, "Print a completion script for a shell.")
    yield from added_commands()
