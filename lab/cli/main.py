"""The ``raidlab`` command: global options, sub-commands loaded on demand, errors to exit statuses."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any

from lab import __version__
from lab.cli.context import Options, options, use_options
from lab.cli.output import close_broken_stdout, err, out, out_json_line
from lab.errors import ExitCode, LabError
from lab.host import signals


def main() -> None:
    """Console entry."""
    signals.install(err)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status."""
    if list(arguments) == ["--version"]:
        # Before anything is imported: scripts ask for it all the time.
        out(__version__)
        return ExitCode.DONE
    use_options(Options(json="--json" in arguments, command=" ".join(("raidlab", *arguments))))
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
    except LabError as error:
        status = _report(error.message, error.hint, type(error).__name__, error.exit_code)
    except signals.Interrupted as interrupted:
        err("raidlab: interrupted; everything is closed")
        status = interrupted.exit_status
    except BrokenPipeError:
        close_broken_stdout()
        status = ExitCode.DONE
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        hint = "free some room, fix its rights, or choose another state folder with RAIDLAB_STATE=FOLDER"
        status = _report(f"{about}{error.strerror or error}", hint, "SystemError", ExitCode.FAILED)
    except Exception as error:
        status = _report_unexpected(error)
    return status


def _dispatch(arguments: Sequence[str]) -> int:
    from cyclopts.exceptions import CycloptsError

    from lab.cli.app import make_app

    app = make_app()
    try:
        result: Any = app.meta(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        chain = " ".join(error.command_chain or ())
        hint = f"'{' '.join(filter(None, ('raidlab', chain)))} --help' shows what can be written"
        return _report(str(error).strip(), hint, "UsageError", ExitCode.USAGE)
    return result if isinstance(result, int) else ExitCode.DONE


def _report(message: str, hint: str, kind: str, status: int) -> int:
    err(f"raidlab: {message}")
    if hint:
        err(f"  next: {hint}")
    if options().json:
        out_json_line({"error": {"kind": kind, "message": message, "hint": hint, "exit_status": int(status)}})
    return int(status)


def _report_unexpected(error: Exception) -> int:
    descriptor, path = tempfile.mkstemp(prefix="raidlab-", suffix=".traceback")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("".join(traceback.format_exception(error)))
    return _report(
        f"this should not happen: {type(error).__name__}: {error}", f"report it with {path}", "Bug", ExitCode.FAILED
    )
