"""The lab's disks, its state folder and what runs in its machine: nobody else's files."""

from __future__ import annotations

import json
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
SECRET = b"not yours" * 1000
BAD_NAMES = (
    "../../../../victim3",
    "../../../victim3",
    "{folder}/victim4",
    "",
    ".",
    "..",
    "a/b",
    "a\x1b[31mb",
    "-rf",
    "x" * 300,
    "a b",
    "é",
)


@promise("a disk image is a plain file of the lab's own: no link leads a write to another file", needs_machine=True)
def _(bench: Bench) -> None:
    victim = bench.folder / "victim.bin"
    for link in (os.symlink, os.link):
        bench.list_disks(TWO)
        victim.write_bytes(SECRET)
        os.truncate(victim, SIZE)
        image = bench.disks / "disk01.img"
        image.unlink(missing_ok=True)
        link(victim, image)
        for words in (
            ["array", "create", "--level", "1", "--disks", "disk01,disk02"],
            ["array", "destroy", "md0"],
            ["disks", "reset", "disk01"],
        ):
            bench.run(*words, on_machine=True).was_refused()
        with victim.open("rb") as file:
            expect(file.read(len(SECRET)) == SECRET, f"{link.__name__}: the file was overwritten")
            expect(not any(file.read()), f"{link.__name__}: the file was written on")


@promise("a disk's name in lab.json is a name: it leads nowhere, and no two disks have the same")
def _(bench: Bench) -> None:
    for name in (each.replace("{folder}", str(bench.folder)) for each in BAD_NAMES):
        bench.list_disks([TWO[1], {**TWO[0], "name": name}])
        victim = Path(os.path.normpath(bench.disks / f"{name[:200]}.img"))
        is_outside = victim.parent == bench.folder or victim.parent.parent == bench.folder
        if is_outside:
            victim.write_bytes(SECRET)
        bench.run("disks", "remove", name or "x").was_refused()
        bench.run("disks", "remove", "disk02").was_refused()
        if is_outside:
            expect(victim.read_bytes() == SECRET, f"name {name!r}: '{victim}' was written on")
    bench.list_disks([TWO[0], TWO[1], TWO[0]])
    bench.run("disks", "add", "--kind", "file").was_refused(because="disk01")


@promise("nothing that runs in the machine writes on the computer's files", needs_machine=True)
def _(bench: Bench) -> None:
    victim = bench.folder / "victim"
    victim.write_bytes(SECRET)
    victim.chmod(0o666)
    mount = "mkdir -p /tmp/h; mount -t hostfs -o /,rw none /tmp/h &&"
    for line in (
        f"mount -o remount,rw / && echo x > {victim}",
        f"mount -o remount,rw / && touch {bench.folder}/made",
        f"{mount} echo x > /tmp/h{victim}",
        f"{mount} touch /tmp/h{bench.folder}/made",
        f"mount -o remount,rw /; rm -f {victim}; ln -s x {bench.folder}/made",
    ):
        bench.run("exec", "--", line, on_machine=True)
        expect(victim.exists() and victim.read_bytes() == SECRET, f"written on by: {line}")
        expect(not os.path.lexists(bench.folder / "made"), f"made by: {line}")


@promise("the state folder is its user's alone, or it is refused")
def _(bench: Bench) -> None:
    bench.run("disks", "add", "--kind", "file").worked()
    mode = bench.state.stat().st_mode & 0o777
    expect(mode == 0o700, f"a new state folder has mode {mode:o}")
    others = bench.folder / "others"
    others.mkdir()
    others.chmod(0o777)
    for folder in (others, Path("/tmp")):
        for words in (["disks", "add", "--kind", "file"], ["results", "show"], ["run", "antioquia-quick"]):
            done = bench.run(*words, environment={"RAIDLAB_STATE": str(folder)}).was_refused(because=str(folder))
            expect("no results" not in done.err, f"it was used: {done}")
    expect(list(others.iterdir()) == [], "something was put in it")


@promise("a disk is never larger than it can be made")
def _(bench: Bench) -> None:
    for kind in ("file", "loop", "ram", "spindle"):
        for size in ("9999999T", "100T", "17T", "9" * 5000, "0", "1", "-5M"):
            bench.run("disks", "add", "--kind", kind, "--size", size).was_refused()
    bench.run("disks", "add", "--kind", "file", "--size", "64M").worked()
    listed = json.loads((bench.disks.parent / "lab.json").read_text())
    expect(len(listed) == 10, f"{len(listed)} disks are on the list")


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
