"""The ``raidlab`` command: global options, sub-commands loaded on demand, errors to exit statuses."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from typing import Any

from lab import __version__
from lab.cli.context import Options, options, use_options
from lab.cli.output import err, out, out_json_line, use_width
from lab.errors import ExitCode, LabError
from lab.gates.text import require_utf8, shortened, visible
from lab.host import signals, streams
from lab.host.files import advice

_MAX_COMMAND_CHARACTERS = 200
_DEFAULT_HINT = "use --verbose to show commands, or 'raidlab doctor' to check requirements"
_MAX_ERROR_CHARACTERS = 2000
"""Maximum length of an error: it may repeat user input of any length."""


def main() -> None:
    """Console entry point: process-wide setup, then the command line."""
    streams.prepare()
    signals.nothing_is_open()
    signals.install()
    # Registered first, so called last, after all threads have been joined.
    atexit.register(signals.ignore)
    try:
        status = run(sys.argv[1:])
        # Only the interpreter's own exit remains, where an exception would merely be printed.
        signals.nothing_is_open()
    except signals.Interrupted as interrupted:
        status = _closed(interrupted)
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    # The command identifies the process that holds a lab: one line is enough.
    command = shortened(visible(" ".join(("raidlab", *arguments))), _MAX_COMMAND_CHARACTERS)
    use_options(Options(json="--json" in arguments, command=command))
    try:
        if list(arguments) == ["--version"]:
            # Before any import: scripts request the version frequently.
            out(__version__)
            streams.finish()
            return ExitCode.DONE
        require_utf8(arguments)
        status = _dispatch(arguments)
        streams.finish()
    except LabError as error:
        status = _report(error.message, error.hint, type(error).__name__, error.exit_code)
    except signals.Interrupted as interrupted:
        status = _closed(interrupted)
    except BrokenPipeError:
        # The reader of standard output has closed it.
        streams.give_up(sys.stdout.fileno())
        status = ExitCode.DONE
    except OSError as error:
        about = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        otherwise = "fix its rights, or choose another state folder with RAIDLAB_STATE=FOLDER"
        status = _report(f"{about}{error.strerror or error}", advice(error, otherwise), "SystemError", ExitCode.FAILED)
    except MemoryError:
        hint = "close other programs, or allow more memory (ulimit -v)"
        status = _report("there is not enough memory", hint, "SystemError", ExitCode.FAILED)
    except Exception as error:
        status = _report_unexpected(error)
    return status


def _closed(interrupted: signals.Interrupted) -> int:
    err("raidlab: interrupted; everything is closed")
    return interrupted.exit_status


def _dispatch(arguments: Sequence[str]) -> int:
    from cyclopts.exceptions import CycloptsError

    from lab.cli.app import make_app

    app = make_app(arguments, run)
    use_width()
    try:
        result: Any = app.meta(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        from lab.cli.usage import usage_words

        return _report(*usage_words(error), "UsageError", ExitCode.USAGE)
    return result if isinstance(result, int) else ExitCode.DONE


def _report(message: str, hint: str, kind: str, status: int) -> int:
    message, hint = shortened(message, _MAX_ERROR_CHARACTERS), shortened(hint or _DEFAULT_HINT, _MAX_ERROR_CHARACTERS)
    err(f"raidlab: {message}\n  next: {hint}")
    if options().json:
        out_json_line({"error": {"kind": kind, "message": message, "hint": hint, "exit_status": int(status)}})
    return int(status)


def _report_unexpected(error: Exception) -> int:
    from lab.host.bugs import bug_words, keep_traceback

    return _report(bug_words(error), keep_traceback(error), "Bug", ExitCode.FAILED)
