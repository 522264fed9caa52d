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
FIO = "/usr/bin/fio"
QUICK_CLOCK = "RAIDLAB_QUICK_CLOCK"
"""In virtual time: what fio has preloaded (provision/kernel/quick_clock.c)."""


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
    # Whoever starts it: its own choice of clock is the processor's counter, which tells the computer's time.
    fio = f"{RUN_FOLDER}/bin/fio"
    preloaded = os.environ.get(QUICK_CLOCK, "")
    for path, text in (
        (loader, f'#!/bin/sh\nexec /sbin/modprobe -d {MODULE_ROOT} "$@"\n'),
        (fio, f'#!/bin/sh\n{fio_environment(preloaded)}exec {FIO} --clocksource=clock_gettime "$@"\n'),
        ("/proc/sys/kernel/modprobe", loader),
        ("/proc/sys/kernel/hostname", "raidlab"),
    ):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    os.chmod(loader, 0o755)
    if preloaded:
        os.chmod(fio, 0o755)
    else:
        os.remove(fio)
    # See most_requests in lab/machine/embedded.py. Without it, or with few disks, the driver's own number stands.
    most = os.environ.get("RAIDLAB_UBD_REQUESTS", "")
    for disk in os.listdir("/sys/block") if most else ():
        if disk.startswith("ubd"):
            with open(f"/sys/block/{disk}/queue/nr_requests", "w", encoding="ascii") as file:
                file.write(most)
    # The loopback interface, for programs that talk to themselves: SIOCSIFFLAGS with IFF_UP | IFF_RUNNING.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14s", b"lo", 0x41, b""))


def fio_environment(preloaded: str) -> str:
    """The assignments with which fio starts quickly in virtual time.

    Its libraries are those of provision/kernel/fio_libraries.sh, unless another fio has been installed since.
    """
    if not preloaded:
        return ""
    folder, words = os.path.join(os.path.dirname(preloaded), "fio"), f"LD_PRELOAD={quoted(preloaded)} "
    try:
        status, made_for = os.stat(FIO), read_text(f"{folder}/for")
    except OSError:
        return words
    is_same = made_for.split() == [str(status.st_size), str(int(status.st_mtime))]
    return f"{words}LD_LIBRARY_PATH={quoted(folder)} " if is_same else words


def quoted(path: str) -> str:
    """For a shell. Loading shlex would take longer than all that init does."""
    return "'" + path.replace("'", "'\\''") + "'"


def main() -> None:
    """Serve until the client says exit, hangs up or is gone."""
    os.umask(0o022)
    kind, is_virtual_time = Agent, bool(os.environ.get(QUICK_CLOCK))
    if is_virtual_time:
        # What a machine in real time never needs, it shall not compile. Before another /tmp hides where it lies.
        if TYPE_CHECKING:
            from lab.machine.agent_virtual import VirtualAgent
        else:
            from agent_virtual import VirtualAgent
        kind = VirtualAgent
    prepare()
    line = os.open("/dev/lab-client" if is_virtual_time else "/dev/ttyS0", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # There is no udev here, so dmsetup itself has to make the nodes of its devices.
        environ = {"MODPROBE_OPTIONS": f"-d {MODULE_ROOT}", "DM_DISABLE_UDEV": "1"}
        agent = kind(line, line, init_environ=environ)
        if not is_virtual_time:
            tty.setraw(line)
            rescue = DiskRescue()
            agent.running[rescue.id] = rescue
        agent.serve()
    finally:
        # reboot(2) with LINUX_REBOOT_CMD_POWER_OFF.
        os.sync()
        ctypes.CDLL(None).reboot(0x4321FEDC)


if __name__ == "__main__":
    main()
