"""A drill on an open lab: it is made, reset, committed and closed here, and the student's work is counted."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.arrays.discovery import plain_uuid
from lab.checks.state import MemberPicture, look_at_members
from lab.drills.case import CaseRecord, DrillCase
from lab.drills.disks import drill_disks, environment, flush, images_of, release
from lab.drills.exam import ExamTerms, require_practice, require_time
from lab.drills.making import DisasterMaker, guest_files
from lab.drills.schema import ReadyDrill, file_digest
from lab.drills.truth import DiskTruth, begin_truth, look_for_truth
from lab.gates.decoding import digits
from lab.host.clock import utc_text
from lab.session.session import Arrival, LabSession, Leftovers, arrive, keep_arrival, keep_leftovers
from lab.session.versions import require_kernel, require_mdadm
from lab.units import SECTOR_BYTES

RESET_LINE = "drill reset"
"""Entry in the list of commands for a reset of the disks."""
_KEPT_SECONDS = 5.0


class DrillDesk:
    """A drill on an open lab: create it with ``begin``, or from the case of an open drill; then call ``look`` often.

    Only the thread that runs plans may change the drill (``commit``, ``reset``, ``close``).
    """

    def __init__(self, session: LabSession, case: DrillCase) -> None:
        self.session, self.case = session, case
        self.disks = drill_disks(session, case.drill)
        self.is_over = False
        self.lock = threading.RLock()
        """Held while counters are updated and while the drill is changed."""
        self._since = time.monotonic()
        self._written = self._counters()

    @classmethod
    def begin(cls, session: LabSession, drill: ReadyDrill, exam: ExamTerms | None = None) -> DrillDesk:
        """Make the disaster on blank disks, copy the disks, and start the machine as the drill says.

        Raises DrillError if the disaster cannot be made or the lab's disks are in use, UnfitVersion.
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
        """How long the lab was open during this drill."""
        return (self.case.record.open_seconds + time.monotonic() - self._since) / 60

    def look(self, *, is_last: bool = False) -> None:
        """Count the bytes written and the time. Call this often, so that little is lost if the program ends.

        New writes are stored at once, the time alone every few seconds or if ``is_last``.
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
        """The time of this computer's clock, by which the time limit of an exam is measured."""
        return utc_text(self.session.host.clock)

    def _require_time(self) -> None:
        require_time(self.case.record.exam, self.case.record.began_utc, self.now_utc)

    def note_command(self, line: str) -> None:
        """Store a typed command."""
        if not self.is_over:
            self.case.add_command(line, self.minutes * 60)

    def commit(self) -> int:
        """Record that the student writes to the disks from now on; returns the number of bytes written before.

        Raises DrillError when the time of an exam is over.
        """
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
        """Restore the disks as they were when the drill began, and start the machine again.

        Hints and time are not reset.

        Raises DrillError if a user of the disks cannot be stopped, or the time of an exam is over.
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
        """End the drill; the disks are not changed."""
        with self.lock:
            self.is_over = True
            pictures = look_at_members(self.session.machine, self.disks)
            close_case(self.session.folder, self.case, pictures)

    def changed(self) -> dict[str, list[list[int]]]:
        """Disk name -> byte ranges [first, end) that have changed since the drill began."""
        flush(self.session, self.disks)
        found = images_of(self.session, self.case.images, self.disks, "changed")
        return {disk.name: ranges for disk, ranges in zip(self.disks, found, strict=True) if ranges}

    def truth(self) -> DiskTruth | None:
        """How much of the data can still be recovered from the disks; None if this is unknown."""
        flush(self.session, self.disks)
        return look_for_truth(self.session, self.disks, self.case.folder)

    def environment(self) -> dict[str, str]:
        """Variables for the drill's lines: devices by disk name, and the values of the seed."""
        return environment({disk.name: disk.node for disk in self.disks}, self.case.drill)

    def _arrive(self) -> None:
        """Start as the machine would, and record what this writes, which does not count as the student's."""
        arrival = Arrival(
            title=self.case.drill.drill.title,
            script=guest_files(self.case.folder) + self.case.drill.drill.arrive,
            environment=self.environment(),
        )
        keep_arrival(self.session.folder, arrival)
        if self.session.is_embedded:
            # The kernel log shows how the drill was made. This log is the lab's own, unlike that of a computer.
            self.session.machine.run(("dmesg", "--clear"), check=False)
        arrive(self.session.machine, arrival)
        self.session.rescan()
        self.case.change(own_ranges=self.changed())
        self._written = self._counters()

    def changed_bytes(self) -> int:
        """Bytes that have changed since the drill began, without those that the start of the machine changes."""
        return self.beyond_own(self.changed())

    def beyond_own(self, changed: Mapping[str, Sequence[Sequence[int]]]) -> int:
        """Bytes of ``changed`` that the start of the machine had not changed."""
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
    """End a drill in the folder of its lab. The disks are not changed, and are recorded as leftovers of the drill.

    ``now``: their current superblocks, as far as they are known.
    """
    uuids = {plain_uuid(picture.uuid) for picture in (*case.record.before.values(), *now.values()) if picture.uuid}
    left = Leftovers(title=case.drill.drill.title, disks=case.drill.disk_names, uuids=tuple(sorted(uuids)))
    keep_leftovers(folder, left)
    keep_arrival(folder, None)
    case.forget()


def _outside(first: int, end: int, own: Sequence[Sequence[int]]) -> int:
    """The number of bytes of [first, end) outside of these ranges, which do not overlap."""
    inside = sum(max(0, min(end, stop) - max(first, start)) for start, stop in own)
    return end - first - inside
