"""Find the embedded kernel and its parts, which may be packaged, built here, or chosen by a target."""

from __future__ import annotations

import os
import platform
import struct
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from lab.errors import ToolMissing
from lab.gates.files import require_trusted
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine.target import Target, TargetKind

_BUILD = "make uml-kernel"
_TIME_PARTS = ("release", "quick_clock.so", "fio")
"""Files beside a kernel with virtual time. The last is a folder of replacement libraries, which exists only if fio is
installed."""
_ELF_HEADER = struct.Struct("<40xQ10xHH2x")
"""The fields e_shoff, e_shentsize and e_shnum of a 64-bit little-endian header (elf(5))."""


@dataclass(frozen=True, slots=True)
class KernelImage:
    """A kernel that can be started. ``modules`` is its folder of modules, or None if all drivers are built in."""

    path: Path
    modules: Path | None


def kernel_cache() -> Path:
    """Return the folder in which provision/kernel/build-uml.sh stores the kernels that it builds."""
    return platformdirs.user_cache_path("raidlab") / "kernels"


def built_folders() -> tuple[Path, Path]:
    """Return the user's folder of built kernels, and the one for all users (docs/computer-room.md)."""
    return kernel_cache(), Path(__file__).resolve().parents[2] / "kernels"


def built_part(name: str) -> Path:
    """Return a kernel's folder, or a file beside such folders: the user's own, or else the one for all users."""
    own, shared = (folder / name for folder in built_folders())
    return shared if shared.exists() and not own.exists() else own


def find_kernel(processes: Processes, files: HostFiles, *, virtual_time: bool = False, chosen: str = "") -> KernelImage:
    """Return the kernel for a target. Raises NotTrusted, or ToolMissing with the command that installs a kernel."""
    image = _found_kernel(processes, files, virtual_time=virtual_time, chosen=chosen)
    again = _BUILD if kernel_cache() in image.path.parents else ""
    require_trusted(image.path, "the embedded kernel", again=again)
    if image.modules:
        require_trusted(image.modules, "the kernel's folder of drivers", again=again, has_tree=True)
    if virtual_time:
        # Guest programs load these parts, which are beside the kernel.
        for name in _TIME_PARTS:
            require_trusted(image.path.parent / name, "the kernel's part", again=again, has_tree=True)
    return image


def _found_kernel(processes: Processes, files: HostFiles, *, virtual_time: bool, chosen: str) -> KernelImage:
    if chosen and not (os.access(chosen, os.X_OK) and Path(chosen).is_file()):
        raise ToolMissing(f"the embedded kernel {chosen} cannot be executed", hint="specify the path of a linux.uml")
    if not chosen and not virtual_time and (packaged := processes.find("linux.uml")):
        return KernelImage(Path(packaged), None)
    flavour = "virtual-time" if virtual_time else "standard"
    # The kernel for virtual time also runs in real time.
    built = (built_part(each) / "linux" for each in dict.fromkeys((flavour, "virtual-time")))
    if path := Path(chosen) if chosen else next((each for each in built if os.access(each, os.X_OK)), None):
        image = _image_in(path)
        # Any other kernel would panic, or run very slowly.
        if virtual_time and not all((image.path.parent / name).is_file() for name in _TIME_PARTS[:2]):
            is_own = image.path.parent == kernel_cache() / "virtual-time"
            hint = f"remove {image.path.parent}, then {_BUILD}" if is_own else f"leave out kernel=: {_BUILD}"
            message = f"{image.path} was not built for virtual time, or its build is incomplete"
            raise ToolMissing(message, hint=hint)
        return image
    if platform.machine() != "x86_64":
        hint = "choose another machine: --on qemu:"
        raise ToolMissing("the embedded kernel exists only for x86-64", hint=hint)
    is_packaged = not virtual_time and "ID=debian" in (files.read("/etc/os-release") or "")
    fix = "apt install user-mode-linux" if is_packaged else _BUILD
    kind = "with virtual time " if virtual_time else ""
    raise ToolMissing(f"the embedded kernel {kind}is not installed", hint=f"{fix}, or choose another machine with --on")


def quickest(target: Target, processes: Processes, files: HostFiles) -> Target:
    """Return the target in virtual time.

    It is returned unchanged if it sets a time or a kernel, or if no kernel with virtual time is installed.
    """
    if target.kind is not TargetKind.UML or {"time", "kernel"} & target.options.keys():
        return target
    try:
        find_kernel(processes, files, virtual_time=True)
    except ToolMissing:
        return target
    return target.with_option("time", "virtual")


def wide_registers(files: HostFiles) -> Path | None:
    """Return the library to preload if the processor has AMX (wide_registers.c), or None.

    Raises ToolMissing or NotTrusted.
    """
    if "amx_tile" not in (files.read("/proc/cpuinfo") or "").split():
        return None
    library = built_part("wide_registers.so")
    if not library.is_file():
        raise ToolMissing(
            "this processor has more registers (AMX) than an embedded kernel before Linux 6.13 can save",
            hint="run provision/host/setup.sh lab, or choose another machine with --on",
        )
    require_trusted(library, "the library", again="provision/host/setup.sh lab")
    return library


def _image_in(path: Path) -> KernelImage:
    """Return a kernel, with its modules if they are where a build here or an unpacked package puts them."""
    path = path.absolute()
    if not _is_whole(path):
        raise ToolMissing(
            f"{path} is not a program, or is truncated",
            hint=f"remove {path.parent}, then {_BUILD}" if path.parent.parent == kernel_cache() else "install it again",
        )
    built, packaged = path.parent / "modules", path.parent.parent / "lib/uml/modules"
    if not built.is_dir() and packaged.is_dir() and packaged != Path("/usr/lib/uml/modules"):
        # A package contains one release. Several releases mean that two packages were unpacked over each other.
        releases = list(packaged.iterdir())
        if len(releases) != 1:
            raise ToolMissing(
                f"{packaged} contains drivers for {len(releases)} kernels, but should contain only those for {path}",
                hint="unpack each package into its own folder",
            )
        return KernelImage(path, releases[0])
    return KernelImage(path, built if built.is_dir() else None)


def _is_whole(path: Path) -> bool:
    """Whether the program is as long as its header says. A linker writes the section header table last (elf(5))."""
    try:
        with path.open("rb") as file:
            header = file.read(_ELF_HEADER.size)
    except OSError:
        # An unreadable file may still be executable.
        return True
    if header.startswith(b"#!"):
        # This is a script that starts a kernel.
        return True
    if len(header) < _ELF_HEADER.size or not header.startswith(b"\x7fELF\x02\x01"):
        return False
    table_at, entry_bytes, entries = _ELF_HEADER.unpack(header)
    return bool(table_at + entry_bytes * entries <= path.stat().st_size)


def guest_python(processes: Processes) -> str:
    """Return the system's own interpreter for the agent. One from a version manager may be in a private folder."""
    for candidate in ("/usr/bin/python3", processes.find("python3")):
        if candidate and os.access(candidate, os.X_OK):
            require_trusted(Path(candidate), "the interpreter")
            return candidate
    raise ToolMissing("python3 is not installed", hint="apt install python3")
