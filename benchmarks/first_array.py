"""Time from the command to the first usable array, compared in pairs with a bare boot of the same kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.support.report import RAIDLAB, asked_one, finish_pairs
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine.kernel_image import find_kernel

BOUND = 1.5
CREATED = b"mdadm --create"


def bare_boot_seconds(folder: Path, kernel: str) -> float:
    """Return the time from the kernel's start until its idle init runs, with the lab's disks and memory."""
    init = folder / "init"
    init.write_text("#!/bin/sh\necho READY > /dev/console\nwhile :; do sleep 1000; done\n", encoding="ascii")
    init.chmod(0o755)
    disks = []
    for number in range(9):
        image = folder / f"disk{number}.img"
        with image.open("wb") as file:
            file.truncate(500 * 1024 * 1024)
        disks.append(f"ubd{number}={image}")
    argv = [kernel, "mem=512M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", "con=null", "con0=null,fd:1"]
    begin = time.monotonic()
    process = subprocess.Popen(
        [*argv, f"uml_dir={folder}", "quiet", *disks],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if b"READY" in line:
                return time.monotonic() - begin
        raise SystemExit("the bare kernel did not boot")
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def first_array_seconds(state: Path) -> float:
    """Return the time from the command's start until mdadm has created the array, in a new lab each time."""
    shutil.rmtree(state, ignore_errors=True)
    begin = time.monotonic()
    process = subprocess.Popen(
        [*RAIDLAB, "--on", "uml:", "array", "create", "--level", "5", "--disks", "3"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "RAIDLAB_STATE": str(state)},
    )
    assert process.stderr is not None
    seconds = 0.0
    output = b""
    for line in process.stderr:
        output += line
        if CREATED in line and not seconds:
            seconds = time.monotonic() - begin
    if process.wait() != 0 or not seconds:
        raise SystemExit(f"array create failed:\n{output.decode()}")
    return seconds


def main() -> None:
    rounds = asked_one("rounds", 7, "number of pairs that count", smoke=1)
    kernel = str(find_kernel(Processes(), HostFiles()).path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bare").mkdir()
        # The first of each only warms the caches, and is not counted.
        bare_boot_seconds(folder / "bare", kernel)
        first_array_seconds(folder / "state")
        pairs = [
            (first_array_seconds(folder / "state"), bare_boot_seconds(folder / "bare", kernel)) for _ in range(rounds)
        ]
    what = "command to first usable RAID 5 ÷ bare boot of the embedded kernel"
    finish_pairs(what, pairs, "<=", BOUND, ("first_array_seconds", "bare_boot_seconds"))


if __name__ == "__main__":
    main()
