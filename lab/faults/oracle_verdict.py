"""What the oracle says of a device or of files, and where on an array that is."""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.level_names import layout_name
from lab.arrays.levels import LevelName
from lab.arrays.status import ArrayStatus
from lab.arrays.stripes import place_on_member
from lab.faults.guest.ledger import CORRUPT, LOST, UNREADABLE
from lab.session.session import LabSession
from lab.session.site import load_target
from lab.units import KIB

BLOCK_BYTES = 4 * KIB
_MOST_BESIDE_BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class BadPlace:
    """One block, or one place in a file, that does not hold what it must."""

    where: str
    """The device, or the file's name below the folder."""
    offset_bytes: int
    verdict: str
    """A word of guest/ledger.py: lost after acknowledgement, silently corrupt, unreadable."""
    found: str
    allowed: str
    stripe: int | None = None
    """Rows of chunks from the start of the members' data; None for files, RAID 1, and what is not one md array."""
    members: tuple[str, ...] = ()
    """Devices that hold the block, a copy of it or parity over it."""

    def __str__(self) -> str:
        at = f", stripe {self.stripe}" if self.stripe is not None else ""
        on = f", on {', '.join(self.members)}" if self.members else ""
        place = f"{self.where} at byte {self.offset_bytes}{at}{on}"
        return f"{place}: {self.verdict}, found {self.found}, allowed {self.allowed}"


@dataclass(frozen=True, slots=True)
class OracleVerdict:
    """What one look at everything found."""

    verdicts: dict[str, int]
    """Verdict -> blocks of 4 KiB."""
    bad: tuple[BadPlace, ...]
    """The first ones that are not as they must be."""

    @property
    def is_intact(self) -> bool:
        """Whether all that was acknowledged is there; what was in flight may be there or not."""
        return not self.bad and not any(word in self.verdicts for word in (LOST, CORRUPT, UNREADABLE))

    @property
    def sentence(self) -> str:
        """For people."""
        total = sum(self.verdicts.values())
        words = ", ".join(f"{count} {word}" for word, count in self.verdicts.items())
        if self.is_intact:
            return f"all {total} blocks are as they must be ({words})"
        return f"of {total} blocks: {words}; first {self.bad[0]}" if self.bad else f"of {total} blocks: {words}"


def blocks_beside_loads(session: LabSession, name: str) -> tuple[int, int]:
    """First block and number of blocks of a bare array that no load touches.

    It is the data mark's place, 4 MiB of it at most. Raises ArrayError for an array that does not run.
    """
    target = load_target(session, name)
    count = min(target.mark_bytes // BLOCK_BYTES, _MOST_BESIDE_BLOCKS)
    return target.available_bytes // BLOCK_BYTES, count


def place_of(status: ArrayStatus, offset_bytes: int) -> tuple[int | None, tuple[str, ...]]:
    """The stripe of a byte of an array, and the devices that hold it, copies of it or parity over it.

    Stripes are rows of chunks from the start of the members' data; None for RAID 1.
    """
    level, chunk, members = status.raid, status.chunk_bytes, [each for each in status.members if each.slot is not None]
    if not chunk:
        return None, tuple(each.device for each in members)
    layout = None
    if level.name in (LevelName.RAID5, LevelName.RAID6) and status.layout_number is not None:
        layout = layout_name(level.name, status.layout_number)
    stripe, devices = None, []
    for member in members:
        assert member.slot is not None
        used = status.component_bytes or (member.data_size_kib or 0) * KIB
        place = place_on_member(
            level, layout, status.raid_disks, offset_bytes // chunk, member.slot, member_chunks=used // chunk
        )
        if place:
            stripe = place.row if stripe is None else stripe
            devices.append(member.device)
    return stripe, tuple(devices)
