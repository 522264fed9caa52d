"""A folder full of traps: modules that leave a note when they are imported, and variables that lead Python to them.

A command that starts there, such as a student's in a folder of unpacked hand-ins, must leave no note.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("lab", "tui", "textual", "rich", "distributed", "dask", "bokeh", "duckdb", "jinja2", "tests")
MODULES = (
    *("json", "multiprocessing", "subprocess", "asyncio", "signal", "socket", "ssl", "random", "readline", "pdb"),
    *("sitecustomize", "usercustomize", "msgspec", "cyclopts", "platformdirs", "yaml", "numpy", "tornado", "click"),
    *("trap", "lab_preload"),
)
# Uses only built-in modules, since some traps are imported before Python has found its own modules.
TRAP = """import posix, sys
path = {notes!r} + "/" + {name!r} + "." + str(posix.getpid())
note = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND)
posix.write(note, repr((sys.orig_argv, posix.getcwd())).encode())
posix.close(note)
"""


@dataclass(frozen=True, slots=True)
class Traps:
    """Traps in ``folder``, in the user's site-packages below ``home``, and in the variables of ``environment``."""

    folder: Path
    home: Path
    notes: Path

    def environment(self, before: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return ``before`` with every variable that makes Python or Dask look elsewhere."""
        kept = {name: value for name, value in before.items() if not name.startswith(("PYTHON", "DASK_"))}
        here = str(self.folder)
        settings = {
            f"DASK_DISTRIBUTED__{role}__PRELOAD": f"{here}/lab_preload.py" for role in ("SCHEDULER", "WORKER", "CLIENT")
        }
        return {
            **kept,
            **settings,
            "HOME": str(self.home),
            # Kernels built by the user are used with any home.
            "XDG_CACHE_HOME": before.get("XDG_CACHE_HOME", str(Path(before.get("HOME", "/")) / ".cache")),
            "DASK_CONFIG": f"{here}/dask.yaml",
            "PYTHONPATH": here,
            "PYTHONHOME": here,
            "PYTHONSTARTUP": f"{here}/trap.py",
            "PYTHONUSERBASE": str(self.home / ".local"),
            "PYTHONBREAKPOINT": "trap.hit",
            "PYTHONINSPECT": "1",
            "PYTHONSAFEPATH": "",
            "PYTHONPLATLIBDIR": "trap",
            "PYTHONWARNINGS": "error::trap.Trap",
            "PYTHONDEVMODE": "1",
        }

    def sprung(self) -> dict[str, str]:
        """Name of a trap and process id -> command line and folder of the process that imported it."""
        return {each.name: each.read_text() for each in self.notes.iterdir()}


def lay_traps(folder: Path) -> Traps:
    notes, home = folder / ".notes", folder / ".home"
    site = home / ".local" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for each in (notes, home / ".config" / "dask", site):
        each.mkdir(parents=True)

    def trap(name: str) -> str:
        return TRAP.format(notes=str(notes), name=name)

    for name in PACKAGES:
        (folder / name).mkdir()
        for module in ("__init__", "__main__"):
            (folder / name / f"{module}.py").write_text(trap(name))
    for name in MODULES:
        (folder / f"{name}.py").write_text(trap(name))
    for name in ("sitecustomize", "usercustomize", "lab"):
        (site / f"{name}.py").write_text(trap(f"user-{name}"))
    (site / "trap.pth").write_text(f"import os; exec({trap('pth')!r})\n")
    (folder / "dask.yaml").write_text(
        "distributed:\n"
        + "".join(f"  {role}:\n    preload: [{folder}/lab_preload.py]\n" for role in ("scheduler", "worker", "client"))
    )
    return Traps(folder, home, notes)


def flags(_: int) -> tuple[bool, bool, bool]:
    """Whether this process is isolated, ignores the environment, and ignores the user's site-packages."""
    return bool(sys.flags.isolated), bool(sys.flags.ignore_environment), bool(sys.flags.no_user_site)
