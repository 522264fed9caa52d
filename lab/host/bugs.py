"""Report an unexpected error: one sentence, and the file that holds its traceback."""

from __future__ import annotations

import os
import tempfile
import traceback


def keep_traceback(error: BaseException) -> str:
    """Write the traceback to a new file and return how to report it; by the error's source line if that fails."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="raidlab-", suffix=".traceback")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"report it with this place: {last.filename}:{last.lineno}"
    return f"report it with {path}"


def bug_words(error: BaseException) -> str:
    """Return one sentence that describes the error."""
    return f"this should not happen: {type(error).__name__}: {error}"
