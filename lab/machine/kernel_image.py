"""Which embedded kernel is there, with what belongs to it: packaged, built here, or chosen by a target."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from lab.errors import ToolMissing
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine.target import Target, TargetKind

_BUILD = "provision/kernel/build-uml.sh virtual-time"
_ELF_HEADER = struct.Struct("<40xQ10xHH2x")
"""elf(5), 64 bits, little-endian: e_shoff, e_shentsize, e_shnum."""


@dataclass(frozen=True, slots=True)
class KernelImage:
    """A kernel that can be started. ``modules`` is its folder of drivers, None where all are built in."""

    path: Path
    modules: Path | None


def kernel_cache() -> Path:
    """Where provision/kernel/build-uml.sh leaves the kernels that it builds."""
    return platformdirs.user_cache_path("raidlab") / "kernels"


def find_kernel(processes: Processes, files: HostFiles, *, virtual_time: bool = False, chosen: str = "") -> KernelImage:
    """The kernel for a target. Raises ToolMissing with the command that brings it."""
    if chosen:
        if not os.access(chosen, os.X_OK) or not Path(chosen).is_file():
            raise ToolMissing(f"the embedded kernel {chosen} cannot be executed", hint="give the path of a linux.uml")
        return _with_time(_image_in(Path(chosen))) if virtual_time else _image_in(Path(chosen))
    flavour = "virtual-time" if virtual_time else "standard"
    packaged = None if virtual_time else processes.find("linux.uml")
    if packaged:
        return KernelImage(Path(packaged), None)
    built = kernel_cache() / flavour
    if os.access(built / "linux", os.X_OK):
        return _with_time(_image_in(built / "linux")) if virtual_time else _image_in(built / "linux")
    is_packaged = not virtual_time and "ID=debian" in (files.read("/etc/os-release") or "")
    fix = "apt install user-mode-linux" if is_packaged else f"provision/kernel/build-uml.sh {flavour}"
    kind = "with virtual time " if virtual_time else ""
    raise ToolMissing(f"the embedded kernel {kind}is not installed", hint=f"{fix}, or choose another machine with --on")


def quickest(target: Target, processes: Processes, files: HostFiles) -> Target:
    """An embedded kernel in virtual time, if that was built and nothing else is asked for: it waits for no disk."""
    if target.kind is not TargetKind.UML or {"time", "kernel"} & target.options.keys():
        return target
    try:
        find_kernel(processes, files, virtual_time=True)
    except ToolMissing:
        return target
    return target.with_option("time", "virtual")


def wide_registers(files: HostFiles) -> Path | None:
    """What must be preloaded where the processor has AMX (provision/kernel/wide_registers.c); None where it has not.

    Raises ToolMissing if it is to be built first.
    """
    if "amx_tile" not in (files.read("/proc/cpuinfo") or "").split():
        return None
    library = kernel_cache() / "wide_registers.so"
    if not library.is_file():
        raise ToolMissing(
            "this processor has more registers (AMX) than an embedded kernel before Linux 6.13 can keep",
            hint="provision/host/setup.sh lab, or choose another machine with --on",
        )
    return library


def _image_in(path: Path) -> KernelImage:
    """A kernel with the drivers that lie beside it, if any do: as built here, or as in an unpacked package."""
    path = path.absolute()
    if not _is_whole(path):
        raise ToolMissing(
            f"{path} is no program, or only the beginning of one",
            hint=f"remove {path.parent}, then {_BUILD}" if kernel_cache() in path.parents else "install it again",
        )
    built, packaged = path.parent / "modules", path.parent.parent / "lib/uml/modules"
    if not built.is_dir() and packaged.is_dir() and packaged != Path("/usr/lib/uml/modules"):
        # A package holds one release. Several: two packages were unpacked over each other.
        releases = list(packaged.iterdir())
        if len(releases) != 1:
            raise ToolMissing(
                f"{packaged} holds drivers of {len(releases)} kernels, and {path} is one of them",
                hint="unpack each package into a folder of its own",
            )
        return KernelImage(path, releases[0])
    return KernelImage(path, built if built.is_dir() else None)


def _is_whole(path: Path) -> bool:
    """Whether it is a program as long as its header says: a linker writes the table of sections last (elf(5))."""
    try:
        with path.open("rb") as file:
            header = file.read(_ELF_HEADER.size)
    except OSError:
        # What may not be read may still be executed.
        return True
    if header.startswith(b"#!"):
        # A script that starts one.
        return True
    if len(header) < _ELF_HEADER.size or not header.startswith(b"\x7fELF\x02\x01"):
        return False
    table_at, entry_bytes, entries = _ELF_HEADER.unpack(header)
    return bool(table_at + entry_bytes * entries <= path.stat().st_size)


def _with_time(image: KernelImage) -> KernelImage:
    """The same, if it was built for virtual time: another one would panic, or run at a crawl."""
    folder = image.path.parent
    if all((folder / name).is_file() for name in ("release", "quick_clock.so")):
        return image
    first = f"remove {folder}, then " if kernel_cache() in folder.parents else ""
    raise ToolMissing(
        f"{image.path} was not built for virtual time, or not wholly",
        hint=f"{first}{_BUILD}",
    )


def guest_python(processes: Processes) -> str:
    """The interpreter for the agent: the system's own, since a version manager's may lie in a private folder."""
    for candidate in ("/usr/bin/python3", processes.find("python3")):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise ToolMissing("python3 is not installed", hint="apt install python3")
