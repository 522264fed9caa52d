"""Change the pace of an emulated drive that is in use. This program runs on the machine, in a process of its own.

    pace-disk CONTROL NOTE SECONDS NAME      one request every SECONDS from now on; 0 restores the drive's own pace

CONTROL is the socket of nbdkit's pause filter. There, "r" resumes requests, and "p" holds later requests. The filter
answers a "p" when the requests in progress are done. An "r" and a "p" every SECONDS let one request through, because
the drive serves one request at a time. NOTE is a file that contains NAME and the ID of the process that sends these
commands. The process ends with the server.
"""

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

GATE_SECONDS = 0.002
END_SECONDS = 5.0


def end_earlier(note: Path) -> None:
    """End the process whose ID is in NOTE, and wait until it has ended."""
    try:
        pid = int(note.read_text().split()[0])
        os.kill(pid, signal.SIGTERM)
    except (OSError, ValueError, IndexError):
        return
    deadline = time.monotonic() + END_SECONDS
    while note.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def ask(control: socket.socket, letter: bytes) -> None:
    """Send one command to the filter, which echoes it in upper case when it is done."""
    control.sendall(letter)
    if not control.recv(1):
        raise ConnectionError("the server has exited")


def serve_at_pace(control: socket.socket, period: float) -> None:
    """Let one request through in each period, until a signal arrives or the server ends."""
    due = time.monotonic()
    while True:
        ask(control, b"r")
        time.sleep(GATE_SECONDS)
        ask(control, b"p")
        due = max(due + period, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> int:
    """Return once the new pace is in effect. A child process maintains it."""
    path, note, period, name = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    end_earlier(note)
    if period <= 0:
        note.unlink(missing_ok=True)
        return 0
    control = socket.socket(socket.AF_UNIX)
    try:
        control.connect(path)
    except OSError as error:
        sys.stderr.write(f"{path}: {error.strerror}\n")
        return 1
    read_end, write_end = os.pipe()
    if os.fork():
        # The child writes a byte once the note exists, and removes the note when it ends. Without a byte it has failed.
        os.close(write_end)
        return 0 if os.read(read_end, 1) else 1
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    note.write_text(f"{os.getpid()} {name}\n")
    os.write(write_end, b".")
    os.close(write_end)
    silence = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silence, number)
    try:
        serve_at_pace(control, period)
    except OSError:
        return 0
    finally:
        with contextlib.suppress(OSError):
            ask(control, b"r")
        note.unlink(missing_ok=True)
    return 0
