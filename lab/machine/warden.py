#!/usr/bin/python3 -IS
"""The warden: starts one embedded kernel and sees to it that the kernel ends when its client does.

A stand-alone file, run as a process of its own between client and kernel, since only a process that outlives a client
killed by SIGKILL can clean up after it. Standard input is the lifeline: when its other end closes, the kernel's whole process
group is killed (killing the main process alone leaves User Mode Linux's helpers and guest processes running).

    warden.py RECORD_FILE KEPT_FD[,KEPT_FD...] KERNEL ARG...

RECORD_FILE receives the kernel's process group, so that a later client can recognise what a killed warden left.
"""

import ctypes
import json
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def start_kernel(argv, kept_fds):
    """Fork the kernel into a process group of its own; it dies with the warden."""
    libc = ctypes.CDLL(None)
    warden = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != warden:
        os._exit(1)
    for fd in kept_fds:
        os.set_inheritable(fd, True)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execv(argv[0], argv)
    finally:
        os._exit(127)


def wait_for_end(kernel):
    """Return the kernel's exit status, or None when the client went first."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: os.close(0))
    while True:
        # A child may have ended before the handler was there, hence the time-out.
        ready, _, _ = select.select([0, wake_read], [], [], 1.0)
        if 0 in ready and not os.read(0, 1):
            return None
        if wake_read in ready:
            os.read(wake_read, 512)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == 0:
                break
            if pid == kernel:
                return os.waitstatus_to_exitcode(status)


def reap(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main():
    """Start, record, wait, clean."""
    record, kept, argv = sys.argv[1], [int(fd) for fd in sys.argv[2].split(",")], sys.argv[3:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    kernel = start_kernel(argv, kept)
    try:
        os.setpgid(kernel, kernel)
    except OSError:
        pass  # the child did it first and may have gone on to exec
    with open(record + ".new", "w", encoding="ascii") as file:
        json.dump({"warden": os.getpid(), "kernel_group": kernel}, file)
    os.replace(record + ".new", record)
    for fd in kept:
        os.close(fd)
    try:
        status = wait_for_end(kernel)
    finally:
        reap(kernel)
    sys.exit(0 if status is None else status % 256)


if __name__ == "__main__":
    main()
