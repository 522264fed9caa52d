#!/usr/bin/python3 -IS
"""The embedded kernel's init: makes the machine usable, lets the agent serve on the serial line, powers off.

Stand-alone like the agent, which lies beside it in the running machine's folder. Process 1 may never end: the kernel
would panic.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lab.machine.agent import RUN_FOLDER, Agent
    from lab.machine.disk_rescue import DiskRescue
else:
    # Python's isolated mode leaves a script's own folder out.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from agent import RUN_FOLDER, Agent
    from disk_rescue import DiskRescue

MODULE_ROOT = f"{RUN_FOLDER}/modroot"


# sys/mount.h
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND = 1, 2, 32, 4096


def mount(source: str, target: str, kind: str, options: str = "", flags: int = 0) -> None:
    """Mount one file system. Raises OSError with the system's reason."""
    words = map(str.encode, (source, target, kind))
    if ctypes.CDLL(None, use_errno=True).mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")


def read_text(path: str) -> str:
    """A small file."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def prepare() -> None:
    """Mount what a lab needs over the host's files, which stay read-only, and make module loading work."""
    # Here all is root's. In the kernel's user namespace (confinement.py) the computer's root is nobody, whose mount(8)
    # would be run as nobody for its set-user-ID bit.
    mount("none", "/", "none", flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    if not os.path.ismount("/dev"):
        mount("devtmpfs", "/dev", "devtmpfs")
    mount("tmpfs", "/run", "tmpfs", "mode=755")
    mount("tmpfs", "/tmp", "tmpfs", "mode=1777")
    for folder, kind in (("/dev/shm", "tmpfs"), ("/dev/pts", "devpts")):
        os.makedirs(folder, exist_ok=True)
        mount(kind, folder, kind)
    for folder in (f"{RUN_FOLDER}/mnt", f"{RUN_FOLDER}/bin", f"{MODULE_ROOT}/lib/modules"):
        os.makedirs(folder)
    release = os.uname().release
    # A kernel parameter that the kernel itself does not know reaches its init as an environment variable.
    modules = os.environ.get("RAIDLAB_MODULES", f"/usr/lib/uml/modules/{release}")
    os.symlink(modules, f"{MODULE_ROOT}/lib/modules/{release}")
    # The kernel loads drivers by calling this program; /lib/modules of the host holds another kernel's.
    loader = f"{RUN_FOLDER}/bin/modprobe"
    for path, text in (
        (loader, f'#!/bin/sh\nexec /sbin/modprobe -d {MODULE_ROOT} "$@"\n'),
        ("/proc/sys/kernel/modprobe", loader),
        ("/proc/sys/kernel/hostname", "raidlab"),
    ):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    os.chmod(loader, 0o755)
    # See most_requests in lab/machine/embedded.py. Without it, or with few disks, the driver's own number stands.
    most = os.environ.get("RAIDLAB_UBD_REQUESTS", "")
    for disk in os.listdir("/sys/block") if most else ():
        if disk.startswith("ubd"):
            with open(f"/sys/block/{disk}/queue/nr_requests", "w", encoding="ascii") as file:
                file.write(most)
    # The loopback interface, for programs that talk to themselves: SIOCSIFFLAGS with IFF_UP | IFF_RUNNING.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14s", b"lo", 0x41, b""))


def main() -> None:
    """Serve until the client says exit, hangs up or is gone."""
    os.umask(0o022)
    prepare()
    line = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    tty.setraw(line)
    try:
        agent = Agent(line, line, init_environ={"MODPROBE_OPTIONS": f"-d {MODULE_ROOT}"})
        # Where time is virtual, seconds pass while a disk works.
        if "time-travel" not in read_text("/proc/cmdline"):
            rescue = DiskRescue()
            agent.running[rescue.id] = rescue
        agent.serve()
    finally:
        # reboot(2) with LINUX_REBOOT_CMD_POWER_OFF.
        os.sync()
        ctypes.CDLL(None).reboot(0x4321FEDC)


if __name__ == "__main__":
    main()
