"""The ``raidlab`` command, which runs one command line, from its arguments to its exit status."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence

from lab import __version__
from lab.cli.context import OPTIONS, Options, current, err, out, out_json_line, use_width
from lab.errors import ExitCode, LabError
from lab.gates.text import require_utf8, shortened, visible
from lab.host import signals, streams
from lab.host.files import advice

_MAX_COMMAND_CHARACTERS = 200
_DEFAULT_HINT = "use --verbose to show commands, or 'raidlab doctor' to check requirements"
_MAX_ERROR_CHARACTERS = 2000
"""Maximum length of an error, which may repeat user input of any length."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status. With None, prepare this process and use its own arguments."""
    is_process = arguments is None
    if arguments is None:
        _prepare_process()
        arguments = sys.argv[1:]
    # The command identifies the process that holds a lab, for which one line is enough.
    line = shortened(visible(" ".join(("raidlab", *arguments))), _MAX_COMMAND_CHARACTERS)
    OPTIONS.set(Options(json="--json" in arguments, command=line))
    status: int | None = ExitCode.DONE
    try:
        try:
            if list(arguments) == ["--version"]:
                # This comes before any import, because scripts request the version frequently.
                out(__version__)
            else:
                require_utf8(arguments)
                from lab.cli.app import make_app, without_command

                app = make_app(arguments)
                use_width()
                # Without words, only global options were given. None means that help was printed.
                read, given, _ = app.meta.parse_args(list(arguments), print_error=False, exit_on_error=False)
                words = read(*given.args, **given.kwargs)
                if words:
                    command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
                    if runner := getattr(command, "runner", None):
                        verb, further = command(*bound.args, **bound.kwargs)
                        status = runner(current(), verb, **further)
                    else:
                        status = command(*bound.args, **bound.kwargs)
                elif words is not None:
                    status = without_command(app, run)
            streams.finish()
        finally:
            # Everything is closed by now, and an exception while the interpreter exits would only be printed.
            if is_process:
                signals.nothing_is_open()
    except (Exception, signals.Interrupted) as error:
        return _failure(error)
    return status if isinstance(status, int) else ExitCode.DONE


def _prepare_process() -> None:
    streams.prepare()
    signals.nothing_is_open()
    signals.install()
    # This is registered first, so it is called last, after all threads have been joined.
    atexit.register(signals.ignore)


def _failure(error: BaseException) -> int:
    if isinstance(error, LabError):
        return _report(error.message, error.hint, type(error).__name__, error.exit_code)
    if isinstance(error, signals.Interrupted):
        err("raidlab: interrupted; everything is closed")
        return error.exit_status
    if isinstance(error, BrokenPipeError):
        # The reader of standard output has closed it.
        streams.silence(sys.stdout.fileno())
        return ExitCode.DONE
    if isinstance(error, OSError):
        about = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        otherwise = "fix its permissions, or choose a different state folder with RAIDLAB_STATE=FOLDER"
        return _report(f"{about}{error.strerror or error}", advice(error, otherwise), "SystemError", ExitCode.FAILED)
    if isinstance(error, MemoryError):
        hint = "close other programs, or allow more memory (ulimit -v)"
        return _report("there is not enough memory", hint, "SystemError", ExitCode.FAILED)
    if "cyclopts" in sys.modules:
        from cyclopts import CycloptsError

        if isinstance(error, CycloptsError):
            from lab.cli.arguments import usage_words

            return _report(*usage_words(error), "UsageError", ExitCode.USAGE)
    from lab.host.files import bug_words, store_traceback

    assert isinstance(error, Exception)
    return _report(bug_words(error), store_traceback(error), "Bug", ExitCode.FAILED)


def _report(message: str, hint: str, kind: str, status: int) -> int:
    message, hint = shortened(message, _MAX_ERROR_CHARACTERS), shortened(hint or _DEFAULT_HINT, _MAX_ERROR_CHARACTERS)
    err(f"raidlab: {message}\n  next: {hint}")
    if OPTIONS.get().json:
        out_json_line({"error": {"kind": kind, "message": message, "hint": hint, "exit_status": int(status)}})
    return int(status)
