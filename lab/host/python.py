"""The command line of every Python process that raidlab starts.

Guarantee: only its interpreter's own installation determines what such a process imports, not its working folder, the
variables of the environment or the user's site-packages, here or on another computer.
"""

from __future__ import annotations

import sys


def isolated_python(*arguments: str, python: str = "") -> tuple[str, ...]:
    """The argv of an interpreter in isolated mode (``-I``) with ``arguments``, such as ``"-m", "tui"``.

    ``python`` is the interpreter's path on the computer where it runs; empty for the present one. Processes that
    multiprocessing starts from such a process are isolated too (subprocess._args_from_interpreter_flags).
    """
    return (python or sys.executable, "-I", *arguments)
