"""Makes an embedded machine one on which mdadm's test suite can run. Nothing of it lasts longer than the machine.

Runs inside the agent of a machine, standard library alone:

    FOLDER_ON_THE_COMPUTER DATA_DEVICE WITNESS_FOLDER_ON_THE_COMPUTER

Copies the suite from the computer's folder, which is read through a mount of its own since the machine's own /tmp and
/run may hide it; mounts the device, which holds a file system, on /var/tmp, where the suite keeps everything; mounts
the one folder of the computer that the machine may write in, so that a test's log outlives the machine; puts the mdadm
to be tested before and over the computer's; and covers what the computer's own mdadm and udev are told.
Raises OSError with the system's words.
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
"""The log of the running test lies there; what is written is on the computer at once (hostfs_write_end)."""
PROGRAMS = ("mdadm", "mdmon")
DATA = "/var/tmp"  # as the suite has it
# sys/mount.h
MS_RDONLY, MS_BIND = 1, 4096
COVERED = ("/etc/mdadm", "/etc/mdadm.conf.d", "/etc/udev/rules.d")
"""Folders whose content would tell mdadm or udev something about the computer's arrays."""
CONFIG = "/etc/mdadm.conf"
# No systemd runs here: mdadm then starts mdmon itself. The suite asks SELinux's tools, and has no use for the answer.
STAND_INS = {
    "systemctl": "#!/bin/sh\nexit 1\n",
    "getenforce": "#!/bin/sh\necho Disabled\n",
    "setenforce": "#!/bin/sh\nexit 0\n",
}


def mount(source: str, target: str, kind: str, options: str = "", flags: int = 0) -> None:
    """Attach a file system, or with MS_BIND a file over another."""
    words = [word.encode() for word in (source, target, kind)]
    if ctypes.CDLL(None, use_errno=True).mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def unmount(target: str) -> None:
    """Take the topmost one away again."""
    if ctypes.CDLL(None, use_errno=True).umount(target.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def content(path: str) -> bytes:
    """A whole file."""
    with open(path, "rb") as file:
        return file.read()


def put(path: str, data: bytes, mode: int) -> None:
    """A file with these contents."""
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def copy_tree(source: str, target: str) -> None:
    """Folders and plain files; whoever made them, here they are root's."""
    os.makedirs(target)
    for entry in os.scandir(source):
        place = f"{target}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            copy_tree(entry.path, place)
        elif entry.is_file(follow_symlinks=False):
            put(place, content(entry.path), 0o755 if entry.stat().st_mode & 0o100 else 0o644)


def bring_suite(folder: str) -> None:
    """From the computer, by a mount of just that folder."""
    source = f"{RUN_FOLDER}/suite-source"
    os.makedirs(source)
    mount("none", source, "hostfs", folder, MS_RDONLY)
    try:
        copy_tree(source, SUITE)
    finally:
        unmount(source)
    os.makedirs(LOGS)


def install_programs() -> None:
    """First in the PATH of all that the agent starts, and in place of those that a rule names by their full path."""
    for name in PROGRAMS:
        put(f"{BIN}/{name}", content(f"{SUITE}/{name}"), 0o755)
        for place in {os.path.realpath(f"{folder}/{name}") for folder in ("/sbin", "/usr/sbin")}:
            if os.path.isfile(place):
                mount(f"{BIN}/{name}", place, "none", flags=MS_BIND)
    for name, text in STAND_INS.items():
        put(f"{BIN}/{name}", text.encode(), 0o755)


def cover_configuration() -> None:
    """The computer's files of configuration; where there is none, none is seen either."""
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
    """Returns nothing."""
    folder, device, witness = arguments
    bring_suite(folder)
    mount(device, DATA, "ext4")
    os.makedirs(WITNESS)
    mount("none", WITNESS, "hostfs", witness)
    install_programs()
    cover_configuration()
    # Some tests take what /proc/mounts calls the root's device for a disk that is in use, which this one is.
    mounts = [line.split() for line in content("/proc/mounts").decode().splitlines()]
    root = next(source for source, place, *_ in mounts if place == "/")
    if not os.path.lexists(root):
        os.symlink(device, root)
    return ""
