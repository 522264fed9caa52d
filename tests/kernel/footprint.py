"""What a client and its embedded kernel take of the computer: memory, descriptors, threads, processes, files."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import tempfile
from pathlib import Path

from lab.host.files import HostFiles
from lab.machine.api import Machine
from lab.machine.stand_still import group_members

M_ARENA_MAX = -8
"""malloc.h, for mallopt(3)."""


def prepare_client(state: Path) -> None:
    """Give this process temporary files of its own, and its threads one heap.

    Else each new thread may take another heap (glibc keeps eight for each processor), and it is for hours a matter of
    chance which of them grow.
    """
    tempfile.tempdir = str(state / "tmp")
    os.environ["TMPDIR"] = tempfile.tempdir
    Path(tempfile.tempdir).mkdir()
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def client_footprint(state: Path) -> dict[str, float]:
    """Of this process, of the state folder with its temporary files, and of its machines' memory."""
    gc.collect()
    figures = {f"client_{name}": value for name, value in process_footprint(os.getpid()).items()}
    figures["client_objects"] = len(gc.get_objects())
    paths = [path for path in state.rglob("*") if not path.is_symlink()]
    figures["state_files"] = len(paths)
    # Images of disks are as large as what was written to them; they are gone with their lab.
    figures["state_bytes"] = sum(path.stat().st_size for path in paths if path.is_file() and path.suffix != ".img")
    figures["shm_files"] = len(list(Path("/dev/shm").glob(f"raidlab-{os.getpid()}-*")))
    return figures


def machine_footprint(state: Path, machine: Machine) -> dict[str, float]:
    """Of the one machine that runs in this state folder: supervisor, kernel from outside, and memory inside."""
    (path,) = (state / "machines").glob("*/kernel.json")
    record = json.loads(path.read_text(encoding="ascii"))
    figures: dict[str, float] = {}
    for who, process in (("supervisor", record["supervisor"]), ("kernel", record["kernel_group"])):
        figures |= {f"{who}_{name}": value for name, value in process_footprint(process).items()}
    figures["kernel_processes"] = len(group_members(HostFiles(), record["kernel_group"]))
    figures["guest_bytes"] = guest_bytes(machine)
    return figures


def process_footprint(process: int) -> dict[str, float]:
    """Memory of its own, descriptors, threads (proc(5))."""
    folder = Path(f"/proc/{process}")
    status = (folder / "status").read_text(encoding="utf-8")
    figures = {key: int(value) for key, value in re.findall(r"^(RssAnon|Threads):\s+(\d+)", status, re.MULTILINE)}
    descriptors = len(list((folder / "fd").iterdir()))
    return {"bytes": figures["RssAnon"] * 1024, "threads": figures["Threads"], "descriptors": descriptors}


def guest_bytes(machine: Machine) -> int:
    """Memory that the guest cannot give back: all, less what is free once its caches were dropped."""
    machine.run(("sync",))
    machine.write("/proc/sys/vm/drop_caches", "3")
    text = machine.read(["/proc/meminfo"])["/proc/meminfo"] or ""
    figures = {key: int(value) * 1024 for key, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    return figures["MemTotal"] - figures["MemFree"] - figures["Buffers"] - figures["Cached"] - figures["SReclaimable"]
