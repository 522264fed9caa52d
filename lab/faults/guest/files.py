"""Files under the oracle on the machine: histories of them, and crash points under a file system.

The last of several files joined to one program (lab/faults/files.py), standard library alone. A job with
``histories`` is played as guest/player.py does it, with the steps of guest/files_steps.py; one with ``members`` is
judged as guest/crash.py does it, and the file system is mounted, so that it replays its journal, before its files are
looked at.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

from lab.faults.guest.arrays import read_text, skip_modprobe, wrong_rows
from lab.faults.guest.crash import SETTLE_SECONDS, Points
from lab.faults.guest.files_check import FilesCheck, read_files
from lab.faults.guest.files_ledger import FileLedger, FileStates
from lab.faults.guest.files_steps import FILES_FOLDER, FSCK, FilePlayer, mount_files, unmount_files
from lab.faults.guest.player import command, drives, read_record, say
from lab.faults.guest.record import KINDS, Cut, chosen_cut, cut_of

LOUD = (
    "EXT4-fs error",
    "EXT4-fs warning",
    "JBD2: ",
    "orrupt",
    "hutting down filesystem",
    "Buffer I/O error",
    "XFS: Assertion",
)
"""What the kernel says where a file system is not as it should be."""


class KernelLog:
    """What the kernel says from now on."""

    def __init__(self) -> None:
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def loud(self) -> list[str]:
        """Lines since the last call that tell of damage."""
        found: list[str] = []
        while True:
            try:
                line = os.read(self.fd, 8192).decode("utf-8", "replace")
            except BlockingIOError:
                return found
            except OSError:
                # EPIPE: some were lost, since there were too many.
                continue
            text = line.partition(";")[2].partition("\n")[0]
            if any(word in text for word in LOUD):
                found.append(text)


class FilePoints(Points):
    """Crash points of one recording under a file system.

    ``job`` beside what Points wants: ``kind`` (ext4 or xfs), ``options`` of the mount, ``is_arbitrary`` (whether with a
    member missing, what was in flight may be anything). One point in so many (0: none) is looked at by the file
    system's own program (``fsck``), and has its copies and parity read when md has done what it has to do (``parity``).
    ``again``: [cut, seed, points] instead of ``cuts``: see ``again``. ``without``: records that are restored nowhere,
    to try the oracle itself.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__({**job, "ledger": ()})
        self.files = FileLedger(job["ledger"])
        self.kind = job["kind"]
        self.log = KernelLog()
        self.states: tuple[int, FileStates] | None = None
        self.asked: dict[str, int] = {}
        self.event: int | None = None
        self.lost_before = 0
        left_out = set(job.get("without", ()))
        for drive, requests in self.record.by_drive.items():
            self.record.by_drive[drive] = [each for each in requests if each.index not in left_out]

    def restore(self, cut: Cut) -> None:
        """Every drive as the cut left it."""
        for number, words in cut.lists(self.record, list(self.members)).items():
            drives(f"restore {number} {words}".rstrip())

    def lost_under_way(self, cut: Cut) -> int:
        """Writes of the missing drives that were under way, or in their caches."""
        return sum(len(self.record.split(drive, cut.at)[1]) for drive in cut.missing)

    def again(self, word: str, seed: str, points: int) -> list[str]:
        """Record how one cut is recovered from, and return cuts of that: the power fails once more, meanwhile.

        The record of the first time is gone then.
        """
        cut = cut_of(word)
        self.restore(cut)
        self.event = self.record.ledger_event(cut.at)
        self.lost_before = self.lost_under_way(cut)
        drives("forget")
        for number in self.members:
            drives(f"record {number}")
        nodes = [node for number, node in self.members.items() if number not in cut.missing]
        if not self.start(nodes, is_forced=False) or not self.start(nodes, is_forced=True):
            self.mounted(cut)
            self.array.settle(SETTLE_SECONDS)
            self.stop()
        for number in self.members:
            drives(f"still {number}")
        self.record = read_record()
        moments, chance = self.record.moments(), random.Random(seed)
        chosen = [moments[index * len(moments) // points] for index in range(points)] if moments else []
        return [
            chosen_cut(self.record, at, KINDS[index % len(KINDS)], chance, cut.missing).word()
            for index, at in enumerate(chosen)
        ]

    def allowed_at(self, event: int) -> FileStates:
        if self.states is None or self.states[0] != event:
            self.states = (event, self.files.allowed(event, is_power_cut=True))
        return self.states[1]

    def judge(self, word: str) -> dict[str, Any]:
        """One cut."""
        cut = cut_of(word)
        self.restore(cut)
        nodes = [node for number, node in self.members.items() if number not in cut.missing]
        seen: dict[str, Any] = {"cut": word}
        if cut.missing:
            seen["lost_under_way"] = self.lost_under_way(cut) + self.lost_before
        if not self.begin(nodes, seen):
            return seen
        self.log.loud()
        try:
            seen.update(self.mounted(cut))
            if not cut.missing and self.is_due("parity"):
                seen["idle"] = self.array.settle(SETTLE_SECONDS)
                shape = self.job["geometry"]
                seen["wrong_rows"] = wrong_rows(self.array.folder, shape["rows"], shape["chunk"], shape["member_bytes"])
        finally:
            self.stop()
        return seen

    def is_due(self, word: str) -> bool:
        """Whether this point is one of those that are looked at so closely."""
        every, self.asked[word] = self.job.get(word, 0), self.asked.get(word, 0) + 1
        return bool(every) and self.asked[word] % every == 0

    def mounted(self, cut: Cut) -> dict[str, Any]:
        """Mount, look, unmount, and look again with the file system's own program."""
        node = self.array.node
        event = self.record.ledger_event(cut.at) if self.event is None else self.event
        seen: dict[str, Any] = {"event": event}
        refused = mount_files(self.kind, node, FILES_FOLDER, self.job.get("options", ""))
        if refused:
            return {**seen, "unmountable": refused, "kernel": self.log.loud()}
        try:
            is_arbitrary = bool(cut.missing and self.job.get("is_arbitrary"))
            check = FilesCheck(
                self.content, self.allowed_at(event), read_files(FILES_FOLDER), is_arbitrary=is_arbitrary
            )
            check.look_for_more(self.files, event)
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
        loud = self.log.loud()
        return {**seen, "kernel": loud} if loud else seen


def main() -> None:
    """See above."""
    skip_modprobe()
    job = json.load(sys.stdin)
    for history in job.get("histories", ()):
        FilePlayer(history).play()
    if "members" not in job:
        return
    points = FilePoints(job)
    cuts = points.again(*job["again"]) if "again" in job else job["cuts"]
    for word in cuts:
        try:
            say(points.judge(word))
        except Exception as error:
            say(
                {
                    "cut": word,
                    "broke": f"{type(error).__name__}: {error}",
                    "kernel": points.log.loud(),
                    "mounts": read_text("/proc/mounts")[-200:],
                }
            )
            break
    say({"end": True})
