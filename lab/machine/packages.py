"""Which Debian or Ubuntu package brings a program: for hints, and for the doctor."""

from __future__ import annotations

_PACKAGES = {
    "mdadm": "mdadm",
    "fio": "fio",
    "nbdkit": "nbdkit",
    "nbd-client": "nbd-client",
    "modprobe": "kmod",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "losetup": "mount",
    "blkdiscard": "util-linux",
    "linux.uml": "user-mode-linux",
    "ssh": "openssh-client",
    "sudo": "sudo",
    "python3": "python3",
}


def package_of(program: str) -> str:
    """The package's name; the program's own name where it is not known better."""
    return _PACKAGES.get(program.rsplit("/", 1)[-1], program)
