"""A distribution's kernels in this computer's package sources (lab/machine/package_sources.py)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.machine.package_sources import Apt, Packaged, put_in_place
from lab.machine.stock_kernels import stock_folder

# Drivers for hardware that no QEMU machine has.
_UNUSED = ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/staging", "drivers/infiniband")
# Others may lack drivers (-azure) or have larger pages (-arm64-16k).
_ORDINARY = re.compile("-(amd64|arm64|generic)$")


def packaged_kernels() -> Packaged:
    """The kernels that can be fetched."""
    return Packaged("a kernel", "raidlab kernels", stock_folder(), _releases, _install)


def _releases(apt: Apt) -> list[str]:
    found = apt.run("apt-cache", "search", "--names-only", "^linux-image-[0-9]")
    names = re.findall(r"^linux-image-(\d[\w.+~-]*)", found, re.MULTILINE)
    has_numbers = (name for name in names if re.match(r"\d+\.\d+\.\d", name))
    return [name for name in has_numbers if _ORDINARY.search(name) and not re.search("-(rt|cloud)-", name)]


def _install(apt: Apt, release: str, folder: Path) -> None:
    tree, ready = folder / "tree", folder / "ready"
    # Some distributions package a kernel's modules separately.
    image_packages = apt.with_needs(
        f"linux-image-{release}", fits=lambda name: name.startswith("linux-") and name.endswith(f"-{release}")
    )
    apt.unpack(image_packages, tree)
    unpacked = next(
        path for path in (tree / "lib/modules" / release, tree / "usr/lib/modules" / release) if path.is_dir()
    )
    image = next(path for path in (tree / f"boot/vmlinuz-{release}", unpacked / "vmlinuz") if path.is_file())
    modules = ready / "lib/modules" / release
    modules.parent.mkdir(parents=True)
    image.rename(ready / "vmlinuz")
    unpacked.rename(modules)
    for unused in _UNUSED:
        shutil.rmtree(modules / "kernel" / unused, ignore_errors=True)
    apt.do("depmod", "-b", str(ready), release, hint="apt install kmod")
    put_in_place(ready, stock_folder() / release)
