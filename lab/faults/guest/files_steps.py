"""Steps of histories for files: make, mount, write under the oracle, lose the power, and judge what is left.

Runs inside the agent of a machine as a part of other programs, standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any

from lab.faults.guest.arrays import pause, write_text
from lab.faults.guest.blocks import Content
from lab.faults.guest.files_check import FilesCheck, read_files
from lab.faults.guest.files_ledger import FRESH, THERE, FileLedger
from lab.faults.guest.files_writer import FileWriter, syncfs
from lab.faults.guest.ledger import Ledger
from lab.faults.guest.player import Player, command, drives, read_record
from lab.faults.guest.record import chosen_cut
from lab.faults.guest.writer import Writer

FILES_FOLDER = "/run/raidlab/mnt/files"
EXT4_EXTENDED = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
MKFS = {
    "ext4": ["mkfs.ext4", "-F", "-q", "-b", "4096", "-m", "0", "-N", "64", "-J", "size=4", "-E", EXT4_EXTENDED],
    "xfs": ["mkfs.xfs", "-f", "-q", "-K", "-d", "agcount=1"],
}
"""As small as they can be made (8 MiB and 16 MiB), and without discards, so that what lay on the device stays there."""
FSCK = {"ext4": ["e2fsck", "-f", "-n"], "xfs": ["xfs_repair", "-n", "-o", "force_geometry"]}
MS_RDONLY = 1


def mkfs_of(kind: str) -> list[str]:
    """The command that makes a tiny file system, without its device."""
    if kind != "xfs":
        return MKFS[kind]
    numbers = command(["mkfs.xfs", "-V"], 60.0)["output"].split()[-1].split(".")
    # Since 5.19 it wants to be told that less than 300 MiB is meant.
    is_strict = [int(each) for each in numbers[:2] if each.isdigit()] >= [5, 19]
    return [*MKFS[kind], *(["--unsupported"] if is_strict else [])]


def mount_files(kind: str, device: str, folder: str, options: str, *, is_read_only: bool = False) -> str:
    """mount(2); the system's reason if it is refused."""
    os.makedirs(folder, exist_ok=True)
    words = (device.encode(), folder.encode(), kind.encode(), ctypes.c_ulong(MS_RDONLY if is_read_only else 0))
    if ctypes.CDLL(None, use_errno=True).mount(*words, options.encode()) == 0:
        return ""
    return os.strerror(ctypes.get_errno())


def unmount_files(folder: str) -> str:
    """umount(2); the system's reason if it is refused."""
    call = ctypes.CDLL(None, use_errno=True).umount2
    for _ in range(100):
        if call(folder.encode(), 0) == 0:
            return ""
        # Somebody may still look at it: mount(8) of another program, a kernel thread.
        pause(0.01)
    return os.strerror(ctypes.get_errno())


class FilePlayer(Player):
    """A history with files.

    ``job`` has ``has_files``: then its ledger is one of files; ``folder``: where their file system is mounted;
    ``is_cut``: the power failed before the history.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        has_files = bool(job.get("has_files"))
        super().__init__({**job, "ledger": ()} if has_files else job)
        self.files = FileLedger(job.get("ledger", ())) if has_files else None
        if self.files:
            # What only counts or hands out events does so for both.
            self.ledger.events = self.files.events
        self.mounted = job.get("folder", FILES_FOLDER)
        self.told = len(self.ledger.events)
        self.is_cut = bool(job.get("is_cut"))

    def ledger_of_files(self) -> FileLedger:
        assert self.files is not None, "the job has no files"
        return self.files

    def do_garble(self, path: str, blocks: int) -> dict[str, Any]:
        """Fill a device with content that is none of any file, so that what a file system shows of it is seen."""
        writer = Writer(path, Content("before"), Ledger(), {"first": 0, "count": blocks})
        writer.fill()
        writer.close()
        return {"failures": writer.failures}

    def do_make(self, kind: str, device: str, more: list[str] | None = None) -> dict[str, Any]:
        """A file system."""
        return command([*mkfs_of(kind), *(more or []), device], 120.0)

    def do_mount(self, kind: str, device: str, options: str = "") -> dict[str, Any]:
        """Mount it."""
        return {"refused": mount_files(kind, device, self.mounted, options)}

    def do_unmount(self) -> dict[str, Any]:
        """Unmount it."""
        self.do_close()
        return {"refused": unmount_files(self.mounted)}

    def do_fsck(self, kind: str, device: str) -> dict[str, Any]:
        """Whether it is as it should be, seen by its own program."""
        return command([*FSCK[kind], device], 120.0)

    def do_files(self, mix: dict[str, int]) -> dict[str, Any]:
        """The writer of files. It takes the place of the one of blocks, and does all that steps ask of that."""
        writer: Any = FileWriter(self.mounted, self.content, self.ledger_of_files(), mix, self.mark_fd)
        self.writer = writer
        return {}

    def do_work(self, operations: int) -> dict[str, Any]:
        """Further operations on files; some stay under way."""
        writer: Any = self.writer
        writer.advance(operations)
        return {"events": len(self.ledger.events), "failures": writer.failures, "first_failure": writer.first_failure}

    def do_sync(self) -> dict[str, Any]:
        """All of the file system, and wait for it: not noted in the ledger."""
        fd = os.open(self.mounted, os.O_RDONLY)
        try:
            syncfs(fd)
        finally:
            os.close(fd)
        return {}

    def do_cut(self, numbers: list[int], kind: str, seed: str) -> dict[str, Any]:
        """The power fails, also under a file system: then that is taken away from drives that are gone."""
        if self.files is None:
            return super().do_cut(numbers, kind, seed)
        # What comes to its end from now on does so for nobody.
        events = self.files.events[:]
        drives(f"mark {len(events)}")
        record = read_record()
        for number in numbers:
            drives(f"pull {number}")
        self.do_close()
        stuck = unmount_files(self.mounted)
        stopped = command(["mdadm", "--stop", self.node], 60.0)
        os.close(self.mark_fd)
        self.mark_fd = -1
        self.files = FileLedger(events)
        self.ledger.events = self.files.events
        cut = chosen_cut(record, record.requests[-1].came, kind, random.Random(seed))
        for number, words in cut.lists(record, numbers).items():
            drives(f"plug {number}")
            drives(f"restore {number} {words}".rstrip())
        return {"cut": cut.word(), "stop": stopped, "unmount": stuck}

    def do_tell(self) -> dict[str, Any]:
        """What the ledger has noted since it was last told: a client keeps it in case that the machine is lost."""
        events, self.told = self.ledger.events[self.told :], len(self.ledger.events)
        return {"new": events}

    def do_check(self) -> dict[str, Any]:
        """The verdict on blocks, or on files as programs see them now, in part from the page cache."""
        if self.files is None:
            return super().do_check()
        write_text("/proc/sys/vm/drop_caches", "1\n")
        return {**self.checked(is_power_cut=False).document(), **self.state()}

    def do_recheck(self) -> dict[str, Any]:
        """The verdict on files after a power cut or the loss of the machine, before anything else is written."""
        check = self.checked(is_power_cut=True)
        check.look_for_more(self.ledger_of_files(), len(self.ledger.events))
        return {**check.document(), **self.state()}

    def checked(self, *, is_power_cut: bool) -> FilesCheck:
        states = self.ledger_of_files().allowed(is_power_cut=is_power_cut)
        return FilesCheck(self.content, states, read_files(self.mounted))

    def do_settle(self) -> dict[str, Any]:
        """What is there now is what must be there from now on."""
        if self.files is None:
            return super().do_settle()
        check = self.checked(is_power_cut=True)
        if not check.bad:
            self.do_sync()
            note_there(self.files, check)
        return check.document()


def note_there(ledger: FileLedger, check: FilesCheck) -> None:
    """A fault is over: the ledger begins anew with the files that were seen."""
    number = ledger.newest + 1
    ledger.add(FRESH, number)
    for name, files in sorted(check.seen.items()):
        file = max(files, default=0)
        verdict = files.get(file)
        if file and verdict:
            runs: list[list[int]] = []
            for generation in verdict.told[: len(check.found[name].data) // 512]:
                if runs and runs[-1][0] == generation:
                    runs[-1][1] += 1
                else:
                    runs.append([generation or 0, 1])
            number += 1
            ledger.add(THERE, number, file, name, runs)
