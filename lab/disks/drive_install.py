"""Brings the plugin of drives with mechanics to a machine: C source, compiled there in a moment."""

from __future__ import annotations

from pathlib import Path

from lab.errors import CommandFailed, LabError, ToolMissing
from lab.machine import Machine

_SOURCES = ("mechanics.h", "parameters.h", "plugin.c")
PACKAGES = "tcc libc6-dev nbdkit-plugin-dev"
_NO_COMPILER = 127
# tcc needs a tenth of gcc's time and a hundredth of its room; where its headers are too new for it, another will do.
_COMPILE = f"""
found={_NO_COMPILER}
rm -f "$1"
for compiler in tcc gcc cc; do
  command -v $compiler >/dev/null || continue
  found=0
  $compiler -O2 -shared -fPIC -o "$1.new" "$2" -lm -lpthread && mv "$1.new" "$1" && exit 0
done
exit $((found ? found : 1))
"""


def install_drive(machine: Machine, plugin: str) -> None:
    """Have the plugin at this path, made from the sources that the lab has now.

    Raises ToolMissing without a compiler or nbdkit's header, LabError if it cannot be compiled.
    """
    folder = f"{plugin}.d"
    here = Path(__file__).parent / "drive"
    sources = {f"{folder}/{name}": (here / name).read_text(encoding="utf-8") for name in _SOURCES}
    there = machine.read(list(sources))
    if there == sources and machine.run(("test", "-s", plugin), check=False).status == 0:
        return
    machine.run(("mkdir", "-p", folder))
    for path, text in sources.items():
        machine.write(path, text)
    try:
        machine.run(("sh", "-c", _COMPILE, "compile", plugin, f"{folder}/plugin.c"))
    except CommandFailed as error:
        hint = f"install {PACKAGES} there (provision/host/setup.sh lab does so here)"
        if error.status == _NO_COMPILER:
            raise ToolMissing(
                f"{machine.facts.target} has no C compiler, which drives with mechanics need", hint=hint
            ) from error
        if "nbdkit-plugin.h" in error.stderr_tail:
            raise ToolMissing(f"{machine.facts.target} has no headers of nbdkit", hint=hint) from error
        raise LabError(f"the drive's plugin cannot be compiled: {error.stderr_tail}", hint=hint) from error
