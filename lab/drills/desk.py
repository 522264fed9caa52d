"""A drill on an open lab: the disaster made, put back, counted while the student works, and committed."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.arrays.discovery import plain_uuid
from lab.checks.pictures import MemberPicture, look_at_members
from lab.drills.case import CaseRecord, DrillCase
from lab.drills.disks import drill_disks, environment, flush, images_of, release
from lab.drills.exam import ExamTerms, require_practice, require_time
from lab.drills.making import DisasterMaker, guest_files
from lab.drills.schema import ReadyDrill, file_digest
from lab.drills.truth import DiskTruth, begin_truth, look_for_truth
from lab.gates.numbers import digits
from lab.host.clock import utc_text
from lab.session.arrival import Arrival, arrive, keep_arrival
from lab.session.leftovers import Leftovers, keep_leftovers
from lab.session.session import LabSession
from lab.session.versions import require_kernel, require_mdadm
from lab.units import SECTOR_BYTES

RESET_LINE = "drill reset"
"""What stands on the list of commands where the disks were put back."""
_KEPT_SECONDS = 5.0


class DrillDesk:
    """``DrillDesk.begin(session, drill)``, or ``DrillDesk(session, case)`` of one that is open; then ``look()`` often.

    What changes the drill (``commit``, ``reset``, ``close``) is for the thread that runs plans.
    """

    def __init__(self, session: LabSession, case: DrillCase) -> None:
        self.session, self.case = session, case
        self.disks = drill_disks(session, case.drill)
        self.is_over = False
        self.lock = threading.RLock()
        """Whoever counts holds it, and whoever changes the drill."""
        self._since = time.monotonic()
        self._written = self._counters()

    @classmethod
    def begin(cls, session: LabSession, drill: ReadyDrill, exam: ExamTerms | None = None) -> DrillDesk:
        """Make the disaster on blank disks, keep them as they are then, and let the machine start as it would.

        Raises DrillError if it cannot be made, or the lab's disks are in use, UnfitVersion.
        """
        disks = drill_disks(session, drill)
        require_kernel(session.machine, drill.drill.needs_kernel, f"drill {drill.id}")
        require_mdadm(session.machine, drill.drill.needs_mdadm, f"drill {drill.id}")
        folder = session.folder / "drill"
        shutil.rmtree(folder, ignore_errors=True)
        session.host.state.make(folder, what="the folder of the drill")
        keep_arrival(session.folder, None)
        maker = DisasterMaker(session, drill, folder)
        try:
            for step in drill.drill.setup:
                maker.do(step)
        finally:
            maker.clock.put_right()
        release(session, disks)
        record = CaseRecord(
            drill=drill.id if drill.path.parent.name == "catalogue" else str(drill.path.absolute()),
            drill_file=file_digest(drill.path),
            seed=drill.seed,
            target=str(session.target),
            began_utc=utc_text(session.host.clock),
            file_system_uuid=maker.uuid,
            blocks=maker.blocks,
            before=look_at_members(session.machine, disks),
            exam=exam,
        )
        case = DrillCase(folder, record, drill)
        images_of(session, case.images, disks, "keep")
        begin_truth(session, disks, folder)
        case.change()
        desk = cls(session, case)
        desk._arrive()
        return desk

    @property
    def minutes(self) -> float:
        """How long the lab was open in this drill."""
        return (self.case.record.open_seconds + time.monotonic() - self._since) / 60

    def look(self, *, is_last: bool = False) -> None:
        """Count what was written and the time: often, so that whatever ends the program costs a moment.

        What is written is kept at once, the time alone every few seconds, or when it ``is_last``.
        """
        with self.lock:
            if not self.is_over:
                self._look(is_last=is_last)

    def _look(self, *, is_last: bool) -> None:
        now, written = time.monotonic(), self._counters()
        grown = sum(max(0, written[node] - self._written.get(node, 0)) for node in written)
        seconds = self.case.record.open_seconds + now - self._since
        touched = self.case.record.touched_bytes + (0 if self.case.is_committed else grown)
        if touched == self.case.record.touched_bytes and now - self._since < _KEPT_SECONDS and not is_last:
            return
        self._since, self._written = now, written
        self.case.change(open_seconds=round(seconds, 1), touched_bytes=touched)

    @property
    def now_utc(self) -> str:
        """By the clock of this computer, which an exam's time limit goes by."""
        return utc_text(self.session.host.clock)

    def _require_time(self) -> None:
        require_time(self.case.record.exam, self.case.record.began_utc, self.now_utc)

    def note_command(self, line: str) -> None:
        """Keep what was typed."""
        if not self.is_over:
            self.case.add_command(line, self.minutes * 60)

    def commit(self) -> int:
        """The student says that the disks may be written; returns the bytes that had been written before."""
        with self.lock:
            self._look(is_last=True)
            self._require_time()
            if not self.case.is_committed:
                touched = max(self.case.record.touched_bytes, self.changed_bytes())
                self.case.change(
                    committed_utc=utc_text(self.session.host.clock),
                    committed_seconds=self.case.record.open_seconds,
                    touched_bytes=touched,
                )
        return self.case.record.touched_bytes

    def reset(self) -> None:
        """The disks as they were when the drill began, and the machine started anew; hints and time go on counting.

        Raises DrillError if something holds the disks that cannot be stopped.
        """
        with self.lock:
            self._look(is_last=True)
            self._require_time()
            release(self.session, self.disks)
            images_of(self.session, self.case.images, self.disks, "put_back")
            resets = self.case.record.resets + 1
            self.case.change(resets=resets, touched_bytes=0, committed_utc="", committed_seconds=0.0)
            self.note_command(RESET_LINE)
            self._arrive()

    def leave(self) -> None:
        """Give the drill up without a verdict. Raises DrillError in an exam."""
        require_practice(self.case.record.exam)
        self.close()

    def close(self) -> None:
        """End the drill; the disks stay as they are."""
        with self.lock:
            self.is_over = True
            pictures = look_at_members(self.session.machine, self.disks)
            close_case(self.session.folder, self.case, pictures)

    def changed(self) -> dict[str, list[list[int]]]:
        """Name of a disk -> bytes [first, end) that are not as they were when the drill began."""
        flush(self.session, self.disks)
        found = images_of(self.session, self.case.images, self.disks, "changed")
        return {disk.name: ranges for disk, ranges in zip(self.disks, found, strict=True) if ranges}

    def truth(self) -> DiskTruth | None:
        """How much of the data can still be had from the disks; None where that is not known."""
        flush(self.session, self.disks)
        return look_for_truth(self.session, self.disks, self.case.folder)

    def environment(self) -> dict[str, str]:
        """What the drill's lines find: disks by name, and the values of the seed."""
        return environment({disk.name: disk.node for disk in self.disks}, self.case.drill)

    def _arrive(self) -> None:
        """Start as the machine would, and remember what that writes: it is nobody's doing."""
        arrival = Arrival(
            title=self.case.drill.drill.title,
            script=guest_files(self.case.folder) + self.case.drill.drill.arrive,
            environment=self.environment(),
        )
        keep_arrival(self.session.folder, arrival)
        if self.session.is_embedded:
            # Its log tells how the drill was made. It is the lab's own, unlike that of a computer.
            self.session.machine.run(("dmesg", "--clear"), check=False)
        arrive(self.session.machine, arrival)
        self.session.rescan()
        self.case.change(own_ranges=self.changed())
        self._written = self._counters()

    def changed_bytes(self) -> int:
        """What differs, beyond what the machine's own start had changed."""
        return self.beyond_own(self.changed())

    def beyond_own(self, changed: Mapping[str, Sequence[Sequence[int]]]) -> int:
        """Bytes of ``changed`` that the machine's own start had not changed."""
        total = 0
        for name, ranges in changed.items():
            own = self.case.record.own_ranges.get(name, [])
            total += sum(_outside(first, end, own) for first, end in ranges)
        return total

    def _counters(self) -> dict[str, int]:
        """Node -> bytes written since the machine started (iostats.rst, field 7: sectors of 512 bytes)."""
        paths = {disk.node: f"/sys/block/{disk.kernel_name}/stat" for disk in self.disks}
        texts = self.session.machine.read(list(paths.values()))
        fields = {node: (texts[path] or "").split() for node, path in paths.items()}
        return {node: (digits(words[6]) or 0) * SECTOR_BYTES for node, words in fields.items() if len(words) > 6}


def close_case(folder: Path, case: DrillCase, now: Mapping[str, MemberPicture]) -> None:
    """End a drill in the folder of its lab; its disks stay as they are, and are remembered as the drill's.

    ``now``: their superblocks, as far as they are known.
    """
    uuids = {plain_uuid(picture.uuid) for picture in (*case.record.before.values(), *now.values()) if picture.uuid}
    left = Leftovers(title=case.drill.drill.title, disks=case.drill.disk_names, uuids=tuple(sorted(uuids)))
    keep_leftovers(folder, left)
    keep_arrival(folder, None)
    case.forget()


def _outside(first: int, end: int, own: Sequence[Sequence[int]]) -> int:
    """Bytes of [first, end) that lie in none of these ranges, which do not overlap."""
    inside = sum(max(0, min(end, stop) - max(first, start)) for start, stop in own)
    return end - first - inside
