"""Makes file systems, runs histories on their files, and judges crash points under them, on the machine."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from lab.faults.guest.arrays import pause, read_text, skip_modprobe, wrong_rows
from lab.faults.guest.file_ledger import FileLedger, FileStates
from lab.faults.guest.files import FilePlayer, FilesCheck, read_files, syncfs
from lab.faults.guest.ledger import Content, Cut, Ledger, cut_of
from lab.faults.guest.player import (
    SETTLE_SECONDS,
    KernelLog,
    Points,
    Writer,
    command,
    restore_drives,
    send_document,
)
from lab.machine.direct_io_program import opened

FILES_FOLDER = "/run/raidlab/mnt/files"
EXT4_EXTENDED = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
MKFS = {
    "ext4": ["mkfs.ext4", "-F", "-q", "-b", "4096", "-m", "0", "-N", "64", "-J", "size=4", "-E", EXT4_EXTENDED],
    "xfs": ["mkfs.xfs", "-f", "-q", "-K", "-d", "agcount=1"],
}
"""As small as possible (8 MiB and 16 MiB), and without discards, so that the earlier content of the device remains."""
FSCK = {"ext4": ["e2fsck", "-f", "-n"], "xfs": ["xfs_repair", "-n", "-o", "force_geometry"]}


def mkfs_of(kind: str) -> list[str]:
    if kind != "xfs":
        return MKFS[kind]
    numbers = command(["mkfs.xfs", "-V"], 60.0)["output"].split()[-1].split(".")
    # Since version 5.19 it requires confirmation for a size below 300 MiB.
    is_strict = [int(each) for each in numbers[:2] if each.isdigit()] >= [5, 19]
    return [*MKFS[kind], *(["--unsupported"] if is_strict else [])]


def mount_files(kind: str, device: str, folder: str) -> str:
    """mount(2); returns the system's error message, empty on success."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    words = (device.encode(), folder.encode(), kind.encode(), ctypes.c_ulong(0))
    if ctypes.CDLL(None, use_errno=True).mount(*words, b"") == 0:
        return ""
    return os.strerror(ctypes.get_errno())


def unmount_files(folder: str) -> str:
    """umount(2); returns the system's error message, empty on success."""
    call = ctypes.CDLL(None, use_errno=True).umount2
    for _ in range(100):
        if call(folder.encode(), 0) == 0:
            return ""
        # The file system may be in use for a moment, by another program such as mount(8) or by a kernel thread.
        pause(0.01)
    return os.strerror(ctypes.get_errno())


class FileSystemPlayer(FilePlayer):
    """Runs a history with files on file systems that it makes."""

    def do_garble(self, path: str, blocks: int) -> dict[str, Any]:
        """Fill a device with content that belongs to no file, so that leaks of earlier content are detected."""
        writer = Writer(path, Content("before"), Ledger(), {"first": 0, "count": blocks})
        writer.fill()
        writer.close()
        return {"failures": writer.failures}

    def do_sync(self) -> None:
        """Write out the whole file system, without recording it in the ledger."""
        with opened(self.mounted, os.O_RDONLY) as fd:
            syncfs(fd)

    def do_make(self, kind: str, device: str) -> dict[str, Any]:
        return command([*mkfs_of(kind), device], 120.0)

    def do_mount(self, kind: str, device: str) -> dict[str, Any]:
        return {"refused": mount_files(kind, device, self.mounted)}

    def do_unmount(self) -> dict[str, Any]:
        self.do_close()
        return {"refused": unmount_files(self.mounted)}

    def do_fsck(self, kind: str, device: str) -> dict[str, Any]:
        return command([*FSCK[kind], device], 120.0)


LOUD = (
    "EXT4-fs error",
    "EXT4-fs warning",
    "JBD2: ",
    "orrupt",
    "hutting down filesystem",
    "Buffer I/O error",
    "XFS: Assertion",
)
"""Parts of kernel messages that report damage to a file system."""


class FilePoints(Points):
    """Crash points of one recording under a file system.

    In addition to the fields of Points, ``job`` has ``kind`` (ext4 or xfs). One in ``fsck`` points (0: none) is checked
    with e2fsck or xfs_repair, and one in ``parity`` has its copies and parity compared once md is idle. ``without``:
    indices of records that are restored to no drive, as a test of the oracle.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__({**job, "ledger": ()})
        self.files = FileLedger(job["ledger"])
        self.kind = job["kind"]
        self.log = KernelLog()
        self.states: tuple[int, FileStates] | None = None
        self.asked: dict[str, int] = {}
        left_out = set(job.get("without", ()))
        for drive, requests in self.record.by_drive.items():
            self.record.by_drive[drive] = [each for each in requests if each.index not in left_out]

    def damage(self) -> list[str]:
        """The lines in the kernel log since the last call that report damage to a file system."""
        return [line for line in self.log.lines() if any(word in line for word in LOUD)]

    def allowed_at(self, event: int) -> FileStates:
        if self.states is None or self.states[0] != event:
            self.states = (event, self.files.allowed(event, is_power_cut=True))
        return self.states[1]

    def judge(self, word: str) -> dict[str, Any]:
        cut = cut_of(word)
        restore_drives(cut, self.record, list(self.members))
        nodes = [node for number, node in self.members.items() if number not in cut.missing]
        seen: dict[str, Any] = {"cut": word}
        if not self.begin(nodes, seen):
            return seen
        self.damage()
        try:
            seen.update(self.mounted(cut))
            if not cut.missing and self.is_due("parity"):
                seen["idle"] = self.array.settle(SETTLE_SECONDS)
                seen["wrong_rows"] = wrong_rows(self.array.folder, self.job["geometry"])
        finally:
            self.stop()
        return seen

    def is_due(self, word: str) -> bool:
        """Whether the more expensive check ``word`` is due at this point."""
        every, self.asked[word] = self.job.get(word, 0), self.asked.get(word, 0) + 1
        return bool(every) and self.asked[word] % every == 0

    def mounted(self, cut: Cut) -> dict[str, Any]:
        """Mount, check and unmount the file system, and check it with e2fsck or xfs_repair if that is due."""
        node = self.array.node
        event = self.record.ledger_event(cut.at)
        seen: dict[str, Any] = {"event": event}
        refused = mount_files(self.kind, node, FILES_FOLDER)
        if refused:
            return {**seen, "unmountable": refused, "kernel": self.damage()}
        try:
            check = FilesCheck(self.content, self.allowed_at(event), read_files(FILES_FOLDER))
            seen.update(check.document(), state=self.array.file("array_state"), degraded=self.array.file("degraded"))
        finally:
            stuck = unmount_files(FILES_FOLDER)
        if stuck:
            seen["stuck"] = stuck
        if self.is_due("fsck"):
            done = command([*FSCK[self.kind], node], 120.0)
            seen["fsck"] = done["status"]
            if done["status"] != 0:
                seen["fsck_said"] = done["output"]
        loud = self.damage()
        return {**seen, "kernel": loud} if loud else seen


def main() -> None:
    skip_modprobe()
    job = json.load(sys.stdin)
    for history in job.get("histories", ()):
        FileSystemPlayer({**history, "folder": FILES_FOLDER}).play()
    if "members" not in job:
        return
    points = FilePoints(job)
    for word in job["cuts"]:
        try:
            send_document(points.judge(word))
        except Exception as error:
            send_document(
                {
                    "cut": word,
                    "broke": f"{type(error).__name__}: {error}",
                    "kernel": points.damage(),
                    "mounts": read_text("/proc/mounts")[-200:],
                }
            )
            break
    send_document({"end": True})
