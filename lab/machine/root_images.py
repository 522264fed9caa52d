"""Root images for ``qemu:?root=IMAGE``. Each is a folder with a small Linux, its kernel and the programs of the lab.

Root images are for computers without these programs, and for architectures other than the computer's. ``make
root-image`` builds the files in the folder:

    vmlinuz        the kernel
    initramfs.gz   busybox, and the modules that are needed to mount the system
    root.squashfs  the system, with all modules, which is never written to
    image.json     ImageFacts

Init and the agent are not in the image. The running raidlab adds them, in an archive before the initramfs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from lab.errors import LabError, SpecError, ToolMissing
from lab.gates.decoding import decoded_json
from lab.gates.files import read_plain, require_trusted
from lab.gates.text import is_name, shortened
from lab.host.files import create_file
from lab.machine.kernel_image import built_folders, built_part
from lab.machine.stock_kernels import cpio
from lab.units import MIB

IMAGE_MODULES = ("virtio_pci", "virtio_console", "virtio_blk", "squashfs")
"""Modules that must be loaded before the system can be mounted."""
AGENT_FOLDER = "/run/agent"
"""The folder of init and agent in the guest."""
FACTS_FILE = "image.json"
_FOLDER = "root-"
_MOST_FACTS_BYTES = MIB
_INIT = Path(__file__).with_name("root_init.sh")


class ImageFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a root image, stored in its folder."""

    architecture: Literal["x86_64", "aarch64"]
    """The architecture as in uname(2)."""
    release: str
    """The release of the kernel."""
    system: str
    """The distribution, such as ``Debian GNU/Linux 12 (bookworm)``."""
    format_version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class RootImage:
    """A root image that can be started."""

    name: str
    """The name as in a target."""
    folder: Path
    facts: ImageFacts
    kernel: Path
    initramfs: Path
    system: Path


def root_images() -> Iterator[RootImage]:
    """Yield the root images that can be found by name, except damaged ones."""
    found = {path.parent.name for folder in built_folders() for path in folder.glob(f"{_FOLDER}*/{FACTS_FILE}")}
    for name in sorted(name.removeprefix(_FOLDER) for name in found):
        try:
            yield find_root_image(name)
        except LabError:
            continue


def find_root_image(chosen: str) -> RootImage:
    """Return the image in the folder or with the name ``chosen``. Raises LabError."""
    build = f"make root-image ARCH={chosen if chosen in ('amd64', 'arm64') else 'amd64'}"
    if "/" not in chosen and not is_name(chosen):
        raise SpecError(
            f"'{shortened(chosen)}' is not the name of a root image",
            hint=f"give a folder, or a name such as amd64: {build}",
        )
    folder = Path(chosen).absolute() if "/" in chosen else built_part(f"{_FOLDER}{chosen}")
    if not os.access(folder / FACTS_FILE, os.F_OK):
        raise ToolMissing(
            f"there is no root image '{shortened(chosen)}' on this computer",
            hint=f"build one: {build}, or list the images: raidlab kernels images",
        )
    # The hint suggests removing the folder only if raidlab has made it, because a path may refer to any folder.
    require_trusted(folder, "the root image", again="" if "/" in chosen else build, has_tree=True)
    try:
        facts = decoded_json(read_plain(folder / FACTS_FILE, _MOST_FACTS_BYTES), ImageFacts)
    except (OSError, ValueError) as error:
        raise ToolMissing(f"the root image {folder} is damaged: {error}", hint=f"build it again: {build}") from None
    parts = [folder / part for part in ("vmlinuz", "initramfs.gz", "root.squashfs")]
    for part in parts:
        if not part.is_file():
            raise ToolMissing(f"the root image {folder} lacks {part.name}", hint=f"build it again: {build}")
    return RootImage(chosen, folder, facts, *parts)


def write_initramfs(image: RootImage, agent: Mapping[str, tuple[bytes, int]], path: Path) -> None:
    """Write the initramfs of one machine, from init, the agent's files and the image's own initramfs.

    ``agent`` maps the names of files to their content and mode. Archives may follow each other, compressed or not
    (Documentation/driver-api/early-userspace/buffer-format.rst).
    """
    entries = [("init", stat.S_IFREG | 0o755, _INIT.read_bytes()), ("sys", stat.S_IFDIR | 0o755, b"")]
    entries.append(("agent", stat.S_IFDIR | 0o755, b""))
    entries += [(f"agent/{name}", stat.S_IFREG | mode, content) for name, (content, mode) in agent.items()]
    create_file(path, cpio(entries) + image.initramfs.read_bytes(), is_durable=False)
