"""raidlab's programs that run on machines. Each is a module, which is sent with the raidlab modules that it imports.

Modules keep their names, and import each other the way they do here. They use only each other and the standard library
of Python 3.9. On the machine, they are files in a folder named after a hash of their text, so they are sent only once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from lab.machine.agent import RUN_FOLDER

_ROOT = Path(__file__).resolve().parents[2]
# Only imports at the beginning of a line count, because imports for type checkers are indented.
_IMPORT = re.compile(r"^from (lab\.[\w.]+) import ", re.MULTILINE)
Change = Callable[[str], str]
"""A function that changes a module's text, so that a program can be run with a deliberate defect."""


def unchanged(text: str) -> str:
    """Return the text unchanged."""
    return text


@dataclass(frozen=True, slots=True)
class GuestProgram:
    """A module whose ``main`` function runs on machines.

    In the agent (``Machine.call``), ``main(arguments, is_stopped)`` returns text. As a process (``Machine.install``),
    ``main()`` uses its standard streams and returns the exit status.
    """

    file: Path
    name: str
    """The program's name in reports of commands, and the name of the file that starts the process."""

    @property
    def module(self) -> str:
        return _module_of(self.file)

    def argv_of_call(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the argv that stands for a call in reports of commands, with only the first line of each argument."""
        return (f"agent:{self.name}", *(argument.partition("\n")[0] for argument in arguments))


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """The files of a program on a machine."""

    folder: str
    texts: dict[str, str]
    """Maps paths in the folder to texts. One of these paths is ``start``."""
    start: str
    """The path of the file that ``python3 -IS`` starts as a process."""


@cache
def program_files(program: GuestProgram, change: Change = unchanged) -> ProgramFiles:
    """Return the files that are sent to a machine. ``change`` is applied to the text of each module."""
    texts = {path: change(text) for path, text in _modules(program.file).items()}
    digest = sha256("\0".join(part for item in sorted(texts.items()) for part in item).encode()).hexdigest()[:16]
    folder = f"{RUN_FOLDER}/program-{program.name}-{digest}"
    start = f"import sys\n\nsys.path.append({folder!r})\nfrom {program.module} import main\n\nsys.exit(main())\n"
    return ProgramFiles(folder, {**texts, program.name: start}, f"{folder}/{program.name}")


def _modules(file: Path) -> dict[str, str]:
    """Map the paths of a module, and of all raidlab modules that it imports, to their texts."""
    found: dict[str, str] = {}
    left = [file]
    while left:
        each = left.pop()
        path = f"{_module_of(each).replace('.', '/')}.py"
        if path not in found:
            found[path] = each.read_text(encoding="utf-8")
            left += [_ROOT / f"{name.replace('.', '/')}.py" for name in _IMPORT.findall(found[path])]
    return found


def _module_of(file: Path) -> str:
    path = file.resolve()
    parts = path.relative_to(_ROOT).with_suffix("").parts if path.is_relative_to(_ROOT / "lab") else (path.stem,)
    return ".".join(parts)
