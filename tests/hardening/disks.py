"""The images of disks, the state folder, and hints about both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.hardening.workbench import Bench, Done, expect, promise

MIB = 1024**2
SIZE = 48 * MIB
TWO: tuple[Mapping[str, object], ...] = tuple(
    {"name": f"disk{number:02}", "kind": "file", "size_bytes": SIZE} for number in (1, 2)
)


@promise("a state folder from which no kernel can start is refused in a sentence", needs_machine=True)
def _(bench: Bench) -> None:
    folder = Path(f"/dev/shm/raidlab-hardening-{os.getpid()}")
    try:
        done = bench.run("array", "show", environment={"RAIDLAB_STATE": str(folder)}, on_machine=True).is_answer()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    expect("panic" not in done.said and "crashed" not in done.said, str(done))
    expect(done.status == 0 or "/dev/shm" in done.err, str(done))


@promise("what a hint says to do is no loss of data, and helps", needs_machine=True)
def _(bench: Bench) -> None:
    bench.list_disks(TWO)
    image = bench.disks / "disk01.img"
    image.symlink_to("/nowhere/at/all")
    done = bench.run("array", "show", on_machine=True).was_refused()
    expect("room" not in done.err, f"a link that leads nowhere: {done}")
    image.unlink()
    image.write_bytes(bytes(SIZE // 2))
    done = bench.run("array", "show", on_machine=True).was_refused()
    expect("remove the file" not in done.err, f"an image of another size: {done}")
    image.unlink()
    bench.run("array", "create", "--level", "1", "--disks", "2", "--wait", on_machine=True).worked()
    told = _next(bench.run("array", "pull", "md0", "disk02", on_machine=True).was_refused())
    expect("spindle" not in told or "array fail" in told, f"a disk that cannot be pulled: {told}")


def _next(done: Done) -> str:
    return done.err.partition("  next: ")[2]
