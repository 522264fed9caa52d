"""Write the parts of a root image that raidlab itself reads: the initramfs and the facts.

Usage: parts.py PARTS amd64|arm64 IMAGE. PARTS contains the kernel's modules, busybox and os-release.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from lab.host.files import replace_file
from lab.host.processes import Processes
from lab.machine.root_images import FACTS_FILE, IMAGE_MODULES, ImageFacts
from lab.machine.stock_kernels import initramfs, needed_modules

ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def main() -> None:
    """Write both files."""
    folder, architecture, image = Path(sys.argv[1]), ARCHITECTURES[sys.argv[2]], Path(sys.argv[3])
    (modules,) = (folder / "modules").iterdir()
    archive = initramfs(folder / "busybox", needed_modules(modules, IMAGE_MODULES), Processes())
    replace_file(image / "initramfs.gz", archive)
    facts = {"architecture": architecture, "release": modules.name, "system": system_name(folder / "os-release")}
    replace_file(image / FACTS_FILE, msgspec.json.format(msgspec.json.encode(msgspec.convert(facts, ImageFacts))))


def system_name(os_release: Path) -> str:
    """Return the distribution's name for people, as in os-release(5)."""
    lines = os_release.read_text("utf-8").splitlines()
    return next(line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME="))


if __name__ == "__main__":
    main()
