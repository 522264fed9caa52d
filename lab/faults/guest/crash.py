"""Crash points on the machine: drives are restored to a state that a power cut could leave; the array is judged.

The job has the geometry, the ledger, the members and a list of cuts; the answer is one JSON document per line for each
cut.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from lab.faults.guest.arrays import MemberLabel, QuickArray, freshest, pause, skip_modprobe, wrong_rows
from lab.faults.guest.ledger import Content, Ledger
from lab.faults.guest.player import command, drives, read_record, say
from lab.faults.guest.record import Record, cut_of
from lab.faults.guest.writer import MOST_BAD, check

SETTLE_SECONDS = 600.0


class Points:
    """The crash points of one recording; ``members`` maps drive numbers to nodes."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.content = Content(job["seed"])
        self.ledger = Ledger(job["ledger"])
        self.record: Record = read_record()
        self.members: dict[int, str] = {int(number): node for number, node in job["members"].items()}
        self.array = QuickArray("/run/raidlab/crash-md0")
        self.allowed: dict[int, dict[int, list[int]]] = {}

    def judge(self, word: str) -> dict[str, Any]:
        """Restore and judge one cut."""
        cut = cut_of(word)
        for number, words in cut.lists(self.record, list(self.members)).items():
            drives(f"restore {number} {words}".rstrip())
        nodes = [node for number, node in self.members.items() if number not in cut.missing]
        event = self.record.ledger_event(cut.at)
        if event not in self.allowed:
            self.allowed = {event: self.ledger.allowed(event, is_power_cut=True)}
        seen: dict[str, Any] = {"cut": word}
        if self.job.get("tells_labels"):
            seen["labels"] = told_labels(nodes)
        if not self.begin(nodes, seen):
            return seen
        try:
            if self.job.get("looks_first", True):
                seen["started"] = self.look(self.allowed[event], has_parity=False)
            if self.job.get("settles", True):
                seen["idle"] = self.array.settle(SETTLE_SECONDS)
                seen["settled"] = self.look(self.allowed[event], has_parity=not cut.missing)
        finally:
            self.stop()
        return seen

    def begin(self, nodes: list[str], seen: dict[str, Any]) -> bool:
        """Start the array, by force if necessary; returns whether it runs. ``seen`` gets the reasons for refusals."""
        for word, is_forced in (("refused", False), ("dead", True)):
            reason = self.start(nodes, is_forced=is_forced)
            if not reason:
                return True
            seen[word] = reason
        return False

    def start(self, nodes: list[str], *, is_forced: bool) -> str:
        if not self.job.get("by_mdadm"):
            return self.array.start(nodes, is_forced=is_forced)
        words = ["--force"] if is_forced else []
        done = command(["mdadm", "--assemble", "/dev/md0", "--run", *words, *nodes], 60.0)
        if done["status"] == 0:
            return ""
        command(["mdadm", "--stop", "/dev/md0"], 60.0)
        return str(done["output"].strip() or f"status {done['status']}")

    def stop(self) -> None:
        if self.job.get("by_mdadm"):
            command(["mdadm", "--stop", "/dev/md0"], 60.0)
        else:
            for _ in range(100):
                if not self.array.stop():
                    break
                pause(0.01)

    def look(self, allowed: dict[int, list[int]], *, has_parity: bool) -> dict[str, Any]:
        node = "/dev/md0" if self.job.get("by_mdadm") else self.array.node
        found = check(node, self.content, allowed, self.job.get("most_bad", MOST_BAD))
        seen: dict[str, Any] = {"verdicts": found["verdicts"], "state": self.array.file("array_state")}
        seen["degraded"] = self.array.file("degraded")
        if found["bad"]:
            seen["bad"] = found["bad"]
        if has_parity:
            shape = self.job["geometry"]
            seen["wrong_rows"] = wrong_rows(self.array.folder, shape["rows"], shape["chunk"], shape["member_bytes"])
        return seen


def told_labels(nodes: list[str]) -> list[dict[str, Any]]:
    """Fields of the superblocks from which an array would be started, freshest first."""
    chosen, _ = freshest(nodes)
    names = ("raid_disks", "reshape_position", "data_offset", "recovery_offset")
    return [{name: getattr(label, name) for name in names} for label in map(MemberLabel, chosen)]


def main() -> None:
    """Judge the cuts of one job."""
    skip_modprobe()
    job = json.load(sys.stdin)
    points = Points(job)
    for word in job["cuts"]:
        try:
            say(points.judge(word))
        except Exception as error:
            say({"cut": word, "broke": f"{type(error).__name__}: {error}"})
            break
    say({"end": True})
