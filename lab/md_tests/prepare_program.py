"""Prepares an embedded machine for mdadm's test suite. All changes end with the machine.

Runs in the agent of a machine, with the standard library only:

    FOLDER_ON_THE_COMPUTER DATA_DEVICE WITNESS_FOLDER_ON_THE_COMPUTER

It copies the suite from the computer's folder, through a separate mount, since the machine's own /tmp and /run may hide
that folder. It mounts the device, which has a file system, on /var/tmp, where the suite keeps its files. It mounts the
only folder of the computer that the machine may write to, so that a test's log survives a crash of the machine. It
hides the computer's configuration of mdadm and udev. Raises OSError with the system's message.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RUN_FOLDER = "/run/raidlab"
SUITE = f"{RUN_FOLDER}/suite"
LOGS = f"{RUN_FOLDER}/suite-logs"
BIN = f"{RUN_FOLDER}/bin"
WITNESS = f"{RUN_FOLDER}/suite-witness"
"""The folder of the running test's log; writes reach the computer's file at once (hostfs_write_end)."""
DATA = "/var/tmp"  # the suite's default
# sys/mount.h
MS_RDONLY, MS_BIND = 1, 4096
COVERED = ("/etc/mdadm", "/etc/mdadm.conf.d", "/etc/udev/rules.d")
"""Folders with configuration of the computer's arrays for mdadm and udev."""
CONFIG = "/etc/mdadm.conf"
# Without systemd, mdadm starts mdmon itself. The suite calls SELinux's tools, but ignores their results.
STAND_INS = {
    "systemctl": "#!/bin/sh\nexit 1\n",
    "getenforce": "#!/bin/sh\necho Disabled\n",
    "setenforce": "#!/bin/sh\nexit 0\n",
}


def mount(source: str, target: str, kind: str, options: str = "", flags: int = 0) -> None:
    """Mount a file system, or with MS_BIND a file over another. Raises OSError."""
    words = [word.encode() for word in (source, target, kind)]
    if ctypes.CDLL(None, use_errno=True).mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def unmount(target: str) -> None:
    """Unmount the topmost file system at ``target``. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).umount(target.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def content(path: str) -> bytes:
    """The content of a file."""
    with open(path, "rb") as file:
        return file.read()


def put(path: str, data: bytes, mode: int) -> None:
    """Write a file with this content and mode."""
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def copy_tree(source: str, target: str) -> None:
    """Copy folders and regular files; the copies belong to root."""
    os.makedirs(target)
    for entry in os.scandir(source):
        place = f"{target}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            copy_tree(entry.path, place)
        elif entry.is_file(follow_symlinks=False):
            put(place, content(entry.path), 0o755 if entry.stat().st_mode & 0o100 else 0o644)


def bring_suite(folder: str) -> None:
    """Copy the suite from the computer's folder, through a mount of only that folder."""
    source = f"{RUN_FOLDER}/suite-source"
    os.makedirs(source)
    mount("none", source, "hostfs", folder, MS_RDONLY)
    try:
        copy_tree(source, SUITE)
    finally:
        unmount(source)
    os.makedirs(LOGS)


def install_stand_ins() -> None:
    """Install the stand-ins first in the agent's PATH, where the machine's init has put the mdadm to be tested."""
    for name, text in STAND_INS.items():
        put(f"{BIN}/{name}", text.encode(), 0o755)


def cover_configuration() -> None:
    """Hide the computer's configuration files; files that do not exist need no cover."""
    for folder in COVERED:
        if os.path.isdir(folder):
            mount("tmpfs", folder, "tmpfs", "mode=755")
    if os.path.isfile(CONFIG):
        put(f"{RUN_FOLDER}/mdadm.conf", b"", 0o644)
        mount(f"{RUN_FOLDER}/mdadm.conf", CONFIG, "none", flags=MS_BIND)
    os.makedirs("/run/udev/rules.d", exist_ok=True)
    rules = f"{SUITE}/udev-rules"
    for name in os.listdir(rules) if os.path.isdir(rules) else ():
        put(f"/run/udev/rules.d/{name}", content(f"{rules}/{name}"), 0o644)


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    """Prepare the machine; returns an empty string."""
    folder, device, witness = arguments
    bring_suite(folder)
    mount(device, DATA, "ext4")
    os.makedirs(WITNESS)
    mount("none", WITNESS, "hostfs", witness)
    install_stand_ins()
    cover_configuration()
    # Some tests take the root device in /proc/mounts for a disk in use, and this disk is one.
    mounts = [line.split() for line in content("/proc/mounts").decode().splitlines()]
    root = next(source for source, place, *_ in mounts if place == "/")
    if not os.path.lexists(root):
        os.symlink(device, root)
    return ""
