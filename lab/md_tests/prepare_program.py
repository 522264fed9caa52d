"""Prepares an embedded machine for mdadm's test suite. All changes end with the machine.

It runs in a machine's agent, and uses only the standard library. Its arguments are:

    FOLDER_ON_THE_COMPUTER DATA_DEVICE WITNESS_SOURCE WITNESS_KIND WITNESS_OPTIONS

The program copies the suite from the computer's folder, which the machine sees at the same path. It mounts the device,
which contains a file system, on /var/tmp, where the suite keeps its files. It mounts the only folder of the computer
that the machine may write to (mount(2): source, type and options), so that a test's log survives a crash of the
machine. It hides the computer's configuration of mdadm and udev. It raises OSError with the system's message.
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
"""The folder that contains mdadm and mdmon, which is the first one in the agent's PATH."""
WITNESS = f"{RUN_FOLDER}/suite-witness"
"""The folder for the running test's log. Writes go straight to the computer's file (hostfs_write_end; uncached 9p)."""
DATA = "/var/tmp"  # the suite's default
# sys/mount.h
MS_BIND = 4096
COVERED = ("/etc/mdadm", "/etc/mdadm.conf.d", "/etc/udev/rules.d")
"""Folders in which mdadm and udev would find the configuration of the computer's arrays."""
CONFIG = "/etc/mdadm.conf"
# If systemctl fails, mdadm starts mdmon itself. The suite calls SELinux's tools, but ignores their results.
STAND_INS = {
    "systemctl": "#!/bin/sh\nexit 1\n",
    "getenforce": "#!/bin/sh\necho Disabled\n",
    "setenforce": "#!/bin/sh\nexit 0\n",
}


def mount(source: str, target: str, kind: str, options: str = "", flags: int = 0) -> None:
    """Mount a file system or, with MS_BIND, one file over another. Raises OSError."""
    words = [word.encode() for word in (source, target, kind)]
    if ctypes.CDLL(None, use_errno=True).mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def content(path: str) -> bytes:
    """Read a whole file."""
    with open(path, "rb") as file:
        return file.read()


def put(path: str, data: bytes, mode: int) -> None:
    """Write ``data`` to a file, and set its mode."""
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def copy_tree(source: str, target: str) -> None:
    """Copy folders and regular files. The copies belong to root."""
    os.makedirs(target)
    for entry in os.scandir(source):
        place = f"{target}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            copy_tree(entry.path, place)
        elif entry.is_file(follow_symlinks=False):
            put(place, content(entry.path), 0o755 if entry.stat().st_mode & 0o100 else 0o644)


def cover_configuration() -> None:
    """Hide the computer's configuration of mdadm and udev from the machine, and install the suite's udev rules."""
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
    """Prepare the machine, and return an empty string."""
    folder, device, source, kind, options = arguments
    copy_tree(folder, SUITE)
    os.makedirs(LOGS)
    mount(device, DATA, "ext4")
    os.makedirs(WITNESS)
    mount(source, WITNESS, kind, options)
    # This folder comes first in the agent's PATH, and the machine's init has put the mdadm to be tested there.
    for name, text in STAND_INS.items():
        put(f"{BIN}/{name}", text.encode(), 0o755)
    cover_configuration()
    # Some tests need a disk that is in use, and take the root device from /proc/mounts. The data disk is in use too.
    # With 9p, the root device is just a name, which these tests treat as a file name relative to the suite's folder.
    mounts = [line.split() for line in content("/proc/mounts").decode().splitlines()]
    root = os.path.join(SUITE, next(source for source, place, *_ in mounts if place == "/"))
    if not os.path.lexists(root):
        os.symlink(device, root)
    return ""
