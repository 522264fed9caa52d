"""Runs the histories of a campaign, with the player's steps and further ones that only random histories need.

Each history begins with ``begin``, which removes all traces of an earlier one. A step that can no longer be carried
out, such as a write to an array that is gone, is reported and does not end the history; the judge evaluates it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Sequence
from typing import Any

from lab.faults.guest.arrays import (
    START_DEGRADED,
    STOP_PAUSE_SECONDS,
    STOP_SECONDS,
    kernel_name,
    label_of,
    pause,
    read_text,
    retried,
    stop_array,
    write_direct,
    write_text,
    wrong_rows,
)
from lab.faults.guest.ledger import ACKNOWLEDGED, Ledger, steady_cut
from lab.faults.guest.player import (
    ALL_BAD,
    Player,
    command,
    complaints_in,
    drives,
    read_record,
    reset_drives,
    restore_drives,
    run_job,
)
from lab.machine.direct_io_program import opened

# linux/raid/md_u.h
SET_DISK_FAULTY, HOT_REMOVE_DISK = 0x929, 0x922
MANAGED = {"fail": SET_DISK_FAULTY, "remove": HOT_REMOVE_DISK}
EVEN_SECONDS = 4
"""Each history begins when the machine's clock is a multiple of this many seconds, so that md's timers are in phase."""
COMMAND_SECONDS = 60.0
CALM_SECONDS, CALM_PAUSE_SECONDS = 3.0, 0.5
"""How long md must have been idle, because it reports its next action only once superblocks are written, which takes
time on a slow drive.
"""
STRANGER = re.compile(r"superblock on (\S+) doesn't match others")


def only_durable(events: list[list[Any]]) -> Ledger:
    """Return the ledger after a power cut, without the acknowledgements of writes that no flush had made durable."""
    before = Ledger(events)
    flushed = max((each["came"] for each in before.flushes.values() if each["ended"]), default=0)
    lost = {number for number, each in before.writes.items() if each["ended"] >= flushed and not each["through"]}
    return Ledger([each for each in events if each[0] != ACKNOWLEDGED or each[1] not in lost])


class CampaignPlayer(Player):
    """Runs one history.

    ``job`` is like the player's, except that ``geometries`` is a list of layouts with their ``members`` and
    ``size_kib``.
    """

    most_bad = ALL_BAD
    """All bad blocks are listed, because each one is judged."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self.has_lost = self.is_unsettled = False

    def member_node(self, name: str) -> str:
        """Return the node; on a stock kernel, nbdN is drive N (provision/kernel/served/lab_drives.c)."""
        return super().member_node(name.replace("nbd", "drive"))

    def carry_out(self, name: str, *arguments: Any) -> Any:
        """Report an array that is gone as ``absent``, which does not end the history."""
        if name in ("load", "rewrite", "fill", "drain") and not self.writer:
            return {"absent": "no writer"}
        try:
            return super().carry_out(name, *arguments)
        except OSError as error:
            if name not in ("open", "check", "settle"):
                raise
            return {"absent": str(error.strerror), **(self.state() if name == "check" else {})}

    def finish(self) -> None:
        super().finish()
        stop_array(self.node)

    def do_begin(self, numbers: list[int], length: int, junk: str) -> None:
        """Blank the drives, stop their recording and restore their normal speed.

        With ``junk``, the first ``length`` bytes of each drive are pseudorandom.
        """
        nodes = [f"/dev/drive{number}" for number in numbers]
        reset_drives(nodes, are_ours=True)
        for number, node in enumerate(nodes) if junk else ():
            start = hashlib.shake_128(f"{junk}:{number}".encode()).digest(65536)
            noise = b"".join(start[turn:] + start[:turn] for turn in range(0, length // 64, 1024))
            write_direct(node, 0, noise[:length])
        pause(EVEN_SECONDS - time.monotonic() % EVEN_SECONDS)

    def do_write(self, path: str, text: str) -> dict[str, Any]:
        """Write as the player does, but let a path below /sys/block name a drive as in /dev, such as ``drive3``."""
        folder, _, rest = path.removeprefix("/sys/block/").partition("/")
        if folder.startswith("drive"):
            path = f"/sys/block/{kernel_name(f'/dev/{folder}')}/{rest}"
        return super().do_write(path, text)

    def do_all_right(self, numbers: list[int]) -> None:
        """Restore pulled drives, and run all drives at normal speed."""
        for number in numbers:
            drives(f"plug {number}")
            drives(f"pace {number} 0")

    def do_manage(self, verb: str, node: str) -> dict[str, Any]:
        """Fail or remove a member with the ioctl that mdadm uses."""
        # md releases a failed member only when no request to it is in flight; mdadm retries too (Manage_remove).
        seconds = 0.0 if verb == "fail" else STOP_SECONDS
        try:
            with opened(self.node, os.O_RDWR) as fd:
                number = os.stat(node).st_rdev
                retried(lambda: fcntl.ioctl(fd, MANAGED[verb], number), errno.EBUSY, seconds, STOP_PAUSE_SECONDS)
        except OSError as error:
            return {"refused": str(error.strerror)}
        return {"refused": ""}

    def do_load(self, writes: Sequence[Sequence[int]], depth: int) -> dict[str, Any]:
        """Start writes ``[first block, blocks, is O_DSYNC]``; 0 blocks mean a flush. Some remain in flight."""
        assert self.writer
        for first, count, is_through in writes:
            while len(self.writer.under_way) >= depth or (count and self.writer.is_busy(first, count)):
                self.writer.reap(1)
            if count:
                self.writer.write(first, count, is_through=bool(is_through))
            else:
                self.writer.flush()
        self.writer.reap(0)
        return {"events": len(self.ledger.events), "failures": self.writer.failures}

    def do_rewrite(self, blocks: Sequence[int]) -> dict[str, Any]:
        assert self.writer
        before = self.writer.failures
        for block in blocks:
            self.writer.drain()
            self.writer.write(block, 1)
        self.do_flush()
        return {"failures": self.writer.failures - before}

    def do_fill(self) -> dict[str, Any]:
        """Write one generation of every block and flush; ``failures`` counts only the failures of this step."""
        assert self.writer
        self.writer.drain()
        before = self.writer.failures
        self.writer.fill()
        return {"failures": self.writer.failures - before}

    def do_halt(self) -> dict[str, Any]:
        self.do_close()
        return {"refused": stop_array(self.node)}

    def do_cut(self, numbers: list[int], kind: str, seed: str) -> dict[str, Any]:
        """Cut the power: restore each drive to a state that a cut at this moment could leave, without later writes.

        Requests in flight complete first, because a power cut does not make drives report errors. ``open`` lists the
        blocks for which several generations are allowed.
        """
        seen = self.state()
        known = len(self.ledger.events)
        os.write(self.mark_fd, f"mark {known}".encode())
        if self.writer:
            self.writer.mark_fd = -1
        self.do_close()
        refused = stop_array(self.node)
        record = read_record()
        self.end_marks()
        cut = steady_cut(record, record.marks[-1][0], kind, seed)
        for number in numbers:
            drives(f"plug {number}")
        restore_drives(cut, record, numbers)
        # Acknowledgements after the power cut do not count, and writes that were not flushed may be lost.
        self.ledger = only_durable(self.ledger.events[:known])
        self.is_unsettled = True
        return {"cut": cut.word(), "refused": refused, "requests": len(record.requests), **self.do_unsure(), **seen}

    def do_unsure(self) -> dict[str, Any]:
        """Return the blocks with a write that failed or is in flight."""
        return {"open": [block for block, versions in self.ledger.allowed().items() if len(versions) > 1]}

    def do_idle(self, seconds: float = 120.0) -> dict[str, Any]:
        """Wait until md has been idle for ``CALM_SECONDS``."""
        waited, calm, step = 0.0, 0.0, 0.02
        while calm < CALM_SECONDS and waited < seconds:
            is_idle = read_text(f"{self.folder}/sync_action") in ("idle", "")
            step = CALM_PAUSE_SECONDS if is_idle else min(step * 1.3, CALM_PAUSE_SECONDS)
            pause(step)
            waited += step
            calm = calm + step if is_idle else 0.0
        return {"idle": calm >= CALM_SECONDS, **self.state()}

    def do_settle(self) -> dict[str, Any]:
        """Settle as the player does, but only after a power cut, and flush all requests in flight first."""
        if not self.is_unsettled:
            return {}
        if self.writer:
            # What is read from the blocks must be durable, even in another power cut.
            self.do_flush()
        self.is_unsettled = False
        seen = super().do_settle()
        self.has_lost = bool(seen["bad"])
        return {**seen, **self.state()}

    def do_heal(self) -> dict[str, Any]:
        """Rewrite every block if a power cut corrupted some, or if the array is degraded."""
        if self.writer and (self.has_lost or read_text(f"{self.folder}/degraded") not in ("", "0")):
            return self.do_fill()
        return {}

    def do_assemble(self, numbers: list[int], is_forced: bool) -> dict[str, Any]:
        """Assemble the array from the drives with a superblock, by force if mdadm refuses and ``is_forced`` is true."""
        found = [label for number in numbers if (label := label_of(f"/dev/drive{number}"))]
        labels = {each.node: [each.superblock.events, each.superblock.role] for each in found}
        nodes = [*labels]
        done = command(["mdadm", "--assemble", self.node, "--run", *nodes], COMMAND_SECONDS)
        while (other := STRANGER.search(done["output"])) and other[1] in nodes:
            # mdadm refuses a list of drives with a member that failed before a reshape; such a member must be left out.
            nodes.remove(other[1])
            done = command(["mdadm", "--assemble", self.node, "--run", *nodes], COMMAND_SECONDS)
        seen: dict[str, Any] = {"nodes": nodes, **done}
        # mdadm does not mark a RAID 4 without its parity member as clean (enough() in util.c), so md refuses it;
        # start_dirty_degraded makes md start it.
        for way in ("--force", START_DEGRADED) if is_forced else ():
            if self.is_running():
                break
            stop_array(self.node)
            if way == START_DEGRADED:
                write_text(START_DEGRADED, "1")
            again = command(["mdadm", "--assemble", self.node, "--run", "--force", *nodes], COMMAND_SECONDS)
            write_text(START_DEGRADED, "0")
            seen = {"nodes": nodes, "forced": way, "refusal": done["output"], **again}
        if not self.is_running():
            stop_array(self.node)
        return {**seen, "labels": labels, **self.state()}

    def is_running(self) -> bool:
        return read_text(f"{self.folder}/array_state") not in ("", "clear", "inactive")

    def do_spoil(self, node: str, at: int, length: int) -> dict[str, Any]:
        """Invert bytes of a member while the array is stopped; ``at`` is the offset from the start of its data."""
        offset = read_text(f"{self.folder}/dev-{kernel_name(node)}/offset")
        refused = self.do_halt()["refused"]
        if not offset or refused:
            return {"refused": refused or "no member"}
        return self.do_flip(node, int(offset) * 512 + at, length)

    def do_parity(self) -> dict[str, Any]:
        """Return the rows with inconsistent parity or copies, using the geometry of the job that now fits the array."""
        shape = (read_text(f"{self.folder}/raid_disks"), read_text(f"{self.folder}/component_size"))
        if not shape[0]:
            return {"absent": "no array"}
        if read_text(f"{self.folder}/reshape_position") != "none":
            return {"absent": "it is being reshaped"}
        for each in self.job["geometries"]:
            if (str(each["members"]), str(each["size_kib"])) == shape:
                try:
                    wrong = wrong_rows(self.folder, each)
                except OSError as error:
                    # A member was pulled, and md has not noticed.
                    return {"absent": str(error.strerror)}
                return {"wrong": wrong, **self.state()}
        return {"absent": f"no geometry for {shape}"}

    def do_trouble(self) -> dict[str, Any]:
        """Return the complaints in the kernel log since the history began."""
        lines = self.log.lines()
        return {"trouble": complaints_in(lines), "log": lines if self.job.get("wants_log") else []}


def main() -> None:
    """Run one job."""
    run_job(CampaignPlayer)
