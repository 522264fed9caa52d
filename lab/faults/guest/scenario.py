"""Plays scenarios on the machine: the player's steps (guest/player.py), and those of the scenarios beside them.

A process on the machine, the last of several files joined to one program (lab/faults/program.py), standard library
alone. Its job: ``histories``, each as the player's, with ``nodes``
(the bare drives), ``has_record``, ``slots`` (``[slot, drive, where its data begin]``) and ``stripe_blocks``. Each
document has the ``seconds`` that its step took, on the machine's clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from typing import Any

from lab.faults.guest.arrays import pause, skip_modprobe
from lab.faults.guest.ledger import Ledger
from lab.faults.guest.player import command, drives, read_record, say
from lab.faults.guest.record import ALL, chosen_cut
from lab.faults.guest.scenario_points import PointSteps

MOUNT_FOLDER = "/run/raidlab/mnt/fault"
WORK_FOLDER = "/run/raidlab/fault"
"""Files of a scenario: empty at its start."""


class ScenarioPlayer(PointSteps):
    """One history of a scenario."""

    def play(self) -> None:
        """All steps from blank drives, or as far as one that cannot be carried out at all; nothing of it is left."""
        self.clear()
        self.open_log()
        for number, step in enumerate(self.job["steps"]):
            began = time.monotonic()
            seen: dict[str, Any] = {}
            try:
                seen = getattr(self, "do_" + step[0])(*step[1:]) or {}
            except Exception as error:
                seen = {"broke": f"{type(error).__name__}: {error}"}
            say({"step": number, "kind": step[0], "seconds": time.monotonic() - began, **seen})
            if "broke" in seen:
                break
        self.clear()
        say({"end": True})

    def do_cut(self, numbers: list[int], kind: str, seed: str) -> dict[str, Any]:
        """The power fails, or the kernel alone: each drive is made to hold what it might have held at this moment.

        What happened after the moment is undone with the rest: md stops in good order, so that nothing waits for a
        drive that is gone.
        """
        import random

        drives(f"mark {len(self.ledger.events)}")
        record, known = read_record(), len(self.ledger.events)
        for number in numbers:
            drives(f"still {number}")
        if self.writer:
            self.writer.mark_fd = -1
            self.writer.close()
            self.writer = None
        os.close(self.mark_fd)
        self.mark_fd = -1
        self.ledger = Ledger(self.ledger.events[:known])
        stopped = command(["mdadm", "--stop", self.node], 60.0)
        cut = chosen_cut(record, record.requests[-1].came, kind, random.Random(seed))
        for number, words in cut.lists(record, numbers).items():
            drives(f"restore {number} {words}".rstrip())
        # Of a kernel that crashed alone the drives keep all that had ended, and what was acknowledged must be there.
        self.is_cut = kind != ALL
        return (
            {"cut": cut.word(), "stop": stopped, "broke": stopped["output"]}
            if stopped["status"]
            else {"cut": cut.word()}
        )

    def do_activate(self) -> dict[str, Any]:
        """An array that md started as auto-read-only may be written on."""
        if self.read_md("array_state") in ("read-auto", "readonly"):
            return self.do_write(f"{self.folder}/array_state", "active")
        return {}

    def do_data(self, path: str) -> dict[str, Any]:
        """Where the oracle's data are."""
        self.job["data"] = path
        return {}

    def do_mount(self, kind: str, node: str) -> dict[str, Any]:
        """A file system, in the one place that is for it."""
        os.makedirs(MOUNT_FOLDER, exist_ok=True)
        return command(["mount", "-t", kind, self.filled(node), MOUNT_FOLDER], 60.0)

    def do_unmount(self) -> dict[str, Any]:
        """It goes."""
        return command(["umount", MOUNT_FOLDER], 60.0)

    def clear(self) -> None:
        """No writer, no program, no mount, no array, no layer; blank drives."""
        self.end_all()
        if self.writer:
            with contextlib.suppress(OSError):
                self.writer.close()
            self.writer = None
        if os.path.ismount(MOUNT_FOLDER):
            self.do_unmount()
        for _ in range(20):
            left = [name for name in names_in("/sys/block") if name.startswith("md") and self.is_ours(name)]
            if not left:
                break
            for name in left:
                command(["mdadm", "--stop", f"/dev/{name}"], 30.0)
            pause(0.02)
        shutil.rmtree(WORK_FOLDER, ignore_errors=True)
        os.makedirs(WORK_FOLDER, exist_ok=True)
        self.clear_layers()
        self.clear_drives()
        self.clear_settings()

    def is_ours(self, name: str) -> bool:
        """Whether an array lies on the lab's drives, or on layers over them."""
        ours = {os.path.basename(node) for node in self.bare}
        members = [each[4:] for each in names_in(f"/sys/block/{name}/md") if each.startswith("dev-")]
        return any({member, *names_in(f"/sys/block/{member}/slaves")} & ours for member in members)


def names_in(folder: str) -> list[str]:
    """What is in a folder, which may go at any moment."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def main() -> None:
    """One job: histories, one after the other."""
    skip_modprobe()
    job = json.load(sys.stdin)
    for history in job["histories"]:
        ScenarioPlayer(history).play()
