#!/usr/bin/python3 -IS
"""The embedded kernel's init, which sets up the machine, runs the agent on the line to the client, and powers off.

This file stands alone, like the agent, which is beside it in the running machine's folder. Process 1 must never end,
because the kernel would then panic.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import socket
import stat
import struct
import sys
import time
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lab.machine.agent import RUN_FOLDER, Agent
    from lab.machine.disk_rescue import DiskRescue
else:
    # In isolated mode, Python does not search a script's own folder.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from agent import RUN_FOLDER, Agent
    from disk_rescue import DiskRescue

MODULE_ROOT = f"{RUN_FOLDER}/modroot"
FIO = "/usr/bin/fio"
QUICK_CLOCK = "RAIDLAB_QUICK_CLOCK"
"""Environment variable with the library to preload into fio in virtual time (provision/kernel/quick_clock.c)."""

MDADM_VARIABLE = "RAIDLAB_MDADM"
"""Environment variable with the folder of an mdadm that replaces this computer's (lab/machine/mdadm_versions.py)."""

OWN_ROOT = "RAIDLAB_OWN_ROOT"
"""Environment variable that is 1 if no namespace limits what the guest sees (supervisor.py)."""
VISIBLE_FILE = "visible.json"
STOCK_INIT = "RAIDLAB_INIT"
"""Environment variable that only QEMU machines have (lab/machine/stock_kernels.py)."""
PORTS = "/sys/class/virtio-ports"
PORT_POLL_SECONDS = 0.01

# sys/mount.h
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND = 1, 2, 32, 4096


def mount(source: str, target: str, kind: str, options: str = "", flags: int = 0) -> None:
    """Mount one file system. Raises OSError with the system's reason."""
    words = map(str.encode, (source, target, kind))
    if ctypes.CDLL(None, use_errno=True).mount(*words, ctypes.c_ulong(flags), options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")


def read_text(path: str) -> str:
    """Return the text of a small file."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def use_own_root(readable: list[str]) -> None:
    """Change to a root directory that contains only the files for the guest, as the namespace's root directory does.

    The host's files are only hidden. Root in the guest can mount them again.
    """
    # This is imported on demand, because loading it takes longer than most of the startup.
    if TYPE_CHECKING:
        from lab.machine import confinement
    else:
        import confinement
    confinement.use_root(confinement.visible(readable))
    confinement.leave_old_root()


def cover(folders: dict[str, str], visible: list[str]) -> None:
    """Mount an empty, writable file system over each folder, with the folder's options.

    ``visible`` paths below them remain.
    """
    below = [path for path in visible if path.startswith(tuple(f"{folder}/" for folder in folders))]
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in below if os.path.exists(path)}
    for folder, options in folders.items():
        mount("tmpfs", folder, "tmpfs", options)
    for path, held_fd in held.items():
        source = f"/proc/self/fd/{held_fd}"
        if os.path.isdir(source):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        mount(source, path, "none", flags=MS_BIND)
        mount("none", path, "none", flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)
        os.close(held_fd)


def prepare() -> None:
    """Mount the lab's file systems over the host's files, which stay read-only, and set up module loading."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), VISIBLE_FILE), encoding="utf-8") as file:
        visible = json.load(file)
    if os.environ.pop(OWN_ROOT, "") == "1":
        use_own_root(visible["readable"])
    # Here root owns everything. In the kernel's user namespace (confinement.py) the host's root is the user nobody, so
    # the set-user-ID bit would make mount(8) run as nobody.
    mount("none", "/", "none", flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    if not os.path.ismount("/dev"):
        mount("devtmpfs", "/dev", "devtmpfs")
    cover({"/run": "mode=755", "/tmp": "mode=1777", "/root": "mode=700"}, visible["kept"])
    for folder, kind in (("/dev/shm", "tmpfs"), ("/dev/pts", "devpts")):
        os.makedirs(folder, exist_ok=True)
        mount(kind, folder, kind)
    for folder in (f"{RUN_FOLDER}/mnt", f"{RUN_FOLDER}/bin", f"{MODULE_ROOT}/lib/modules"):
        os.makedirs(folder)
    release = os.uname().release
    # The kernel passes a parameter that it does not know to its init as an environment variable.
    modules = os.environ.get("RAIDLAB_MODULES", f"/usr/lib/uml/modules/{release}")
    os.symlink(modules, f"{MODULE_ROOT}/lib/modules/{release}")
    # The kernel loads modules by running this program. The host's /lib/modules contains those of another kernel.
    loader = f"{RUN_FOLDER}/bin/modprobe"
    # Every caller uses this wrapper, because fio's default clock, the processor's counter, shows the host's time.
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
    # losetup opens this device to find a free loop device, which loads the module (kmod's modules.devname).
    if not os.path.exists("/dev/loop-control"):
        os.mknod("/dev/loop-control", stat.S_IFCHR | 0o600, os.makedev(10, 237))
    if preloaded:
        os.chmod(fio, 0o755)
    else:
        os.remove(fio)
    if MDADM_VARIABLE in os.environ:
        use_mdadm(os.environ.pop(MDADM_VARIABLE))
    # See most_requests in lab/machine/embedded.py. Without the variable, the driver's own number applies.
    most = os.environ.get("RAIDLAB_UBD_REQUESTS", "")
    for disk in os.listdir("/sys/block") if most else ():
        if disk.startswith("ubd"):
            with open(f"/sys/block/{disk}/queue/nr_requests", "w", encoding="ascii") as file:
                file.write(most)
    # Set up the loopback interface, for programs that talk to themselves: SIOCSIFFLAGS with IFF_UP | IFF_RUNNING.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh14s", b"lo", 0x41, b""))


def use_mdadm(folder: str) -> None:
    """Put mdadm and mdmon from this folder first in the agent's PATH, and mount them over the system's programs."""
    for name in ("mdadm", "mdmon"):
        program = f"{folder}/{name}"
        if not os.path.exists(program):
            continue
        os.symlink(program, f"{RUN_FOLDER}/bin/{name}")
        for place in {os.path.realpath(f"{each}/{name}") for each in ("/sbin", "/usr/sbin")}:
            if os.path.isfile(place):
                mount(program, place, "none", flags=MS_BIND)


def virtio_port() -> str:
    """Return the device of the client's port on a QEMU machine.

    The driver creates the port only after QEMU has answered, and it creates the file with the port's name even later
    (PORT_ADD and PORT_NAME in drivers/char/virtio_console.c).
    """
    while True:
        for name in os.listdir(PORTS):
            with contextlib.suppress(OSError):
                if read_text(f"{PORTS}/{name}/name").strip() == "raidlab":
                    return f"/dev/{name}"
        time.sleep(PORT_POLL_SECONDS)


def fio_environment(preloaded: str) -> str:
    """Return shell assignments with which fio starts quickly in virtual time (provision/kernel/fio_libraries.sh)."""
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
    """Quote a path for a shell. Importing shlex would take longer than everything else that init does."""
    return "'" + path.replace("'", "'\\''") + "'"


def main() -> None:
    """Serve until the client sends exit, hangs up or is gone."""
    os.umask(0o022)
    kind, is_virtual_time = Agent, bool(os.environ.get(QUICK_CLOCK))
    if is_virtual_time:
        # This is imported on demand, so that a machine in real time never compiles it, and before another /tmp hides
        # it.
        if TYPE_CHECKING:
            from lab.machine.agent_virtual import VirtualAgent
        else:
            from agent_virtual import VirtualAgent
        kind = VirtualAgent
    prepare()
    path = "/dev/lab-client" if is_virtual_time else "/dev/ttyS0"
    if STOCK_INIT in os.environ:
        path = virtio_port()
    line = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # There is no udev here, so dmsetup itself must create its device nodes.
        environ = {"MODPROBE_OPTIONS": f"-d {MODULE_ROOT}", "DM_DISABLE_UDEV": "1"}
        agent = kind(line, line, init_environ=environ)
        if path == "/dev/ttyS0":
            tty.setraw(line)
            rescue = DiskRescue()
            agent.running[rescue.id] = rescue
        agent.serve()
    finally:
        # Call reboot(2) with LINUX_REBOOT_CMD_POWER_OFF.
        os.sync()
        ctypes.CDLL(None).reboot(0x4321FEDC)


if __name__ == "__main__":
    main()
