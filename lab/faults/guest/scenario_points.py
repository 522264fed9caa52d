"""Many crash points of one recording, many sets of lost members: what scenarios try not once but in every way.

Runs in the machine as a part of other programs, standard library alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

from lab.faults.guest.arrays import QuickArray, pause, read_direct, write_text
from lab.faults.guest.blocks import BLOCK_BYTES
from lab.faults.guest.crash import Points
from lab.faults.guest.ledger import CORRUPT, UNREADABLE
from lab.faults.guest.player import command
from lab.faults.guest.record import Cut, Record, chosen_cut
from lab.faults.guest.scenario_layers import kernel_name_of
from lab.faults.guest.scenario_watch import WatchSteps, ranges
from lab.faults.guest.writer import ALL_BAD, PWRITE, Asynchronous

LABEL_BYTES = 8192
"""Of each member: what md changes there when another member fails."""
MOST_EXAMPLES = 3


class PointSummary:
    """What crash points have shown so far."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(
            (
                *("points", "refused", "dead", "wrong_parity", "not_idle"),
                *(
                    "untouched_corrupt",
                    "untouched_lost",
                    "unreadable_points",
                    "in_flight_corrupt",
                    "outside_open_stripes",
                ),
            ),
            0,
        )
        self.examples: dict[str, list[str]] = {}
        self.at: dict[str, set[int]] = {}

    def add(self, seen: dict[str, Any], missing: list[int], allowed: dict[int, list[int]], stripe: int) -> None:
        """One point. ``stripe``: blocks of data in a full stripe."""
        names = {"points"} | {name for name in ("refused", "dead") if seen.get(name)}
        last = seen.get("settled") or seen.get("started") or {}
        names |= {"wrong_parity"} if last.get("wrong_rows") else set()
        names |= {"not_idle"} if not seen.get("idle", True) else set()
        for block, verdict, _, versions in last.get("bad", ()):
            first = block // stripe * stripe
            is_open = any(len(allowed.get(each, ())) > 1 for each in range(first, first + stripe))
            names |= {"outside_open_stripes"} if not is_open else set()
            if verdict == UNREADABLE:
                names.add("unreadable_points")
            elif len(versions) > 1:
                names.add("in_flight_corrupt")
            else:
                names.add("untouched_corrupt" if verdict == CORRUPT else "untouched_lost")
                self.at.setdefault("+".join(map(str, missing)), set()).add(block)
        for name in names:
            self.counts[name] += 1
            if len(self.examples.setdefault(name, [])) < MOST_EXAMPLES:
                self.examples[name].append(seen["cut"])

    def value(self) -> dict[str, Any]:
        """For the client; ``untouched_at``: which members were missing -> blocks."""
        examples = {name: words for name, words in self.examples.items() if name != "points"}
        at = {missing: ranges(blocks) for missing, blocks in self.at.items()}
        return {**self.counts, "untouched_at": at, "examples": examples}


class PointSteps(WatchSteps):
    """Steps that try everything."""

    def do_points(
        self,
        members: list[int],
        losses: list[list[int]],
        kinds: list[str],
        most_moments: int = 0,
        *,
        settles: bool = True,
    ) -> dict[str, Any]:
        """Crash points of what was recorded.

        At every moment (or so many, evenly), of each kind, with each of the losses.

        ``losses`` are the drives that are gone at the same time, ``[]`` for none. In the end the drives hold what the
        last point made of them.
        """
        import random

        job = {
            **{name: self.job[name] for name in ("seed", "geometry")},
            "ledger": self.ledger.events,
            "members": {number: self.bare[number] for number in members},
            "settles": settles,
            "most_bad": ALL_BAD,
        }
        points = Points(job)
        chance, summary = random.Random(f"{self.content.seed}:points"), PointSummary()
        for cut in chosen_cuts(points.record, kinds, losses, most_moments, chance):
            seen = points.judge(cut.word())
            allowed = points.allowed[points.record.ledger_event(cut.at)]
            summary.add(seen, list(cut.missing), allowed, self.job["stripe_blocks"])
        return summary.value()

    def do_sets(self, members: list[int], sets: list[list[int]], *, restarts: bool = True) -> dict[str, Any]:
        """Each set of members fails in a running array, which is read then; and what is left of them is started alone.

        The array must be stopped. Told of each: what can be read, md's words, and whether md starts it from the rest.
        """
        array = QuickArray(self.node)
        labels = {number: read_direct(self.bare[number], 0, LABEL_BYTES) for number in members}
        told = []
        for failed in sets:
            seen: dict[str, Any] = {"failed": failed, "refused": array.start([self.bare[each] for each in members])}
            if not seen["refused"]:
                write_text(f"{self.folder}/fail_last_dev", "1")
                for number in failed:
                    write_text(f"{self.folder}/dev-{kernel_name_of(self.bare[number])}/state", "faulty")
                seen |= self.brief()
                self.stop_fully(array)
            self.put_labels(labels)
            if restarts:
                seen["restart_refused"] = array.start([self.bare[each] for each in members if each not in failed])
                if not seen["restart_refused"]:
                    seen["restarted"] = self.brief()
                    self.stop_fully(array)
                self.put_labels(labels)
            told.append(seen)
        return {"sets": told}

    def brief(self) -> dict[str, Any]:
        """The oracle's words and md's, of an array."""
        seen = self.seen_by(self.ledger)
        words = {name: self.read_md(name) for name in ("array_state", "degraded")}
        return {"verdicts": seen["verdicts"], "at": seen["at"], **words}

    def read_md(self, name: str) -> str:
        return str(self.do_read(f"{self.folder}/{name}")["text"])

    def put_labels(self, labels: dict[int, bytes]) -> None:
        for number, data in labels.items():
            self.put(self.bare[number], 0, data)

    def stop_fully(self, array: QuickArray) -> None:
        """Stop it, though md refuses for as long as somebody looks at it."""
        for _ in range(200):
            if not array.stop():
                return
            pause(0.01)

    def do_changed_write(self, block: int, seconds: float) -> dict[str, Any]:
        """A write past the page cache whose data are changed so long after it was sent, while it is under way.

        As a program may do with its own memory.
        """
        asynchronous, page = Asynchronous(), mmap.mmap(-1, BLOCK_BYTES)
        page[:] = b"A" * BLOCK_BYTES
        fd = os.open(self.node, os.O_WRONLY | os.O_DIRECT)
        try:
            address = ctypes.addressof(ctypes.c_char.from_buffer(page))
            asynchronous.submit(fd, 1, PWRITE, address, BLOCK_BYTES, block * BLOCK_BYTES, 0)
            pause(seconds)
            page[:] = b"B" * BLOCK_BYTES
            ended = asynchronous.ended(1)
        finally:
            asynchronous.close()
            os.close(fd)
        return {"failures": sum(result != BLOCK_BYTES for _, result in ended)}

    def do_race(self, members: list[int], rounds: int) -> dict[str, Any]:
        """Stop the array while every member is announced to ``mdadm --incremental``.

        As udev does when it sees them: many times.

        What it is like right after, and once nothing changes any more.
        """
        right_after: dict[str, int] = {}
        settled: dict[str, int] = {}
        unsettled = torn_up = 0
        for number in range(rounds):
            self.do_start("stop", ["mdadm", "--stop", self.node])
            for member in members[number % len(members) :] + members[: number % len(members)]:
                self.do_start(f"add{member}", ["mdadm", "--incremental", self.node_of(member)])
            word = self.read_md("array_state") or "gone"
            right_after[word] = right_after.get(word, 0) + 1
            while any(self.ended(name) is None for name in ("stop", *(f"add{member}" for member in members))):
                pause(0.01)
            self.end_all()
            word, is_settled = self.settled_word()
            settled[word] = settled.get(word, 0) + 1
            unsettled += not is_settled
            torn_up += not (
                word.endswith(f"with {len(members)} members") or word.startswith(("gone", "clear", "inactive"))
            )
            command(["mdadm", "--stop", self.node], 30.0)
            done = command(["mdadm", "--assemble", self.node, *(self.node_of(each) for each in members)], 30.0)
            if done["status"]:
                return {"broke": f"round {number}: {done['output']}", "right_after": right_after, "settled": settled}
        counts = {"rounds": rounds, "unsettled": unsettled, "torn_up": torn_up}
        return {"right_after": right_after, "settled": settled, **counts}

    def settled_word(self) -> tuple[str, bool]:
        """The array's state and members once two looks in a row are the same, and whether that came to be."""
        before = ""
        for _ in range(100):
            there = len([name for name in os.listdir(self.folder) if name.startswith("rd")]) if self.is_there() else 0
            now = f"{self.read_md('array_state') or 'gone'} with {there} members"
            if now == before:
                return now, True
            before = now
            pause(0.1)
        return before, False

    def is_there(self) -> bool:
        return os.path.isdir(self.folder)


def chosen_cuts(record: Record, kinds: list[str], losses: list[list[int]], most_moments: int, chance: Any) -> list[Cut]:
    """All of them, in the order of their moments."""
    moments = record.moments()
    if 0 < most_moments < len(moments):
        moments = [moments[index * len(moments) // most_moments] for index in range(most_moments)]
    return [chosen_cut(record, at, kind, chance, lost) for at in moments for kind in kinds for lost in losses]
