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

_MOST_TOLD_OF_COMMAND = 200
_NEXT_AT_LEAST = "--verbose tells every command that is run, and 'raidlab doctor' what is missing"
_MOST_TOLD = 2000
"""Characters of an error: what was typed, and is repeated in it, may be of any length."""


def main() -> None:
    """Console entry: all that concerns the whole process, and then the command line."""
    streams.prepare()
    signals.nothing_is_open()
    signals.install(err)
    # Registered first, this is called last, when no thread is waited for any more.
    atexit.register(signals.ignore)
    try:
        status = run(sys.argv[1:])
        # What is left is the interpreter's own end, where an exception would only be printed.
        signals.nothing_is_open()
    except signals.Interrupted as interrupted:
        status = _closed(interrupted)
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    # Who holds a lab is told by the command: a line will do.
    command = shortened(visible(" ".join(("raidlab", *arguments))), _MOST_TOLD_OF_COMMAND)
    use_options(Options(json="--json" in arguments, command=command))
    try:
        if list(arguments) == ["--version"]:
            # Before anything is imported: scripts ask for it all the time.
            out(__version__)
            return ExitCode.DONE
        require_utf8(arguments)
        status = _dispatch(arguments)
        sys.stdout.flush()
    except LabError as error:
        status = _report(error.message, error.hint, type(error).__name__, error.exit_code)
    except signals.Interrupted as interrupted:
        status = _closed(interrupted)
    except BrokenPipeError:
        # Whoever read standard output has seen enough.
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

    app = make_app()
    use_width()
    try:
        result: Any = app.meta(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        chain = " ".join(error.command_chain or ())
        hint = f"'{' '.join(filter(None, ('raidlab', chain)))} --help' shows what can be written"
        return _report(str(error).strip(), hint, "UsageError", ExitCode.USAGE)
    return result if isinstance(result, int) else ExitCode.DONE


def _report(message: str, hint: str, kind: str, status: int) -> int:
    message, hint = shortened(message, _MOST_TOLD), shortened(hint or _NEXT_AT_LEAST, _MOST_TOLD)
    err(f"raidlab: {message}\n  next: {hint}")
    if options().json:
        out_json_line({"error": {"kind": kind, "message": message, "hint": hint, "exit_status": int(status)}})
    return int(status)


def _report_unexpected(error: Exception) -> int:
    import tempfile
    import traceback

    try:
        descriptor, path = tempfile.mkstemp(prefix="raidlab-", suffix=".traceback")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(error)))
        hint = f"report it with {path}"
    except OSError:
        last = traceback.extract_tb(error.__traceback__)[-1]
        hint = f"report it with this place: {last.filename}:{last.lineno}"
    return _report(f"this should not happen: {type(error).__name__}: {error}", hint, "Bug", ExitCode.FAILED)
