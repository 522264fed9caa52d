"""Arrays and members in a few words, the same for the command line and the app."""

from __future__ import annotations

from lab.adapt.state import VolumeStatus
from lab.arrays.detail import state_words
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.units import human_bytes


def role(member: MemberStatus) -> str:
    """What a member is at present, in one or two words."""
    if member.is_faulty:
        return "faulty"
    if member.is_journal:
        return "journal"
    if member.is_rebuilding:
        return "rebuilding"
    return "spare" if member.is_spare else "in sync" if member.is_in_sync else ", ".join(sorted(member.flags))


def sync_words(status: ArrayStatus) -> str:
    """``recover 34.2 %``, or what waits."""
    if status.sync_progress:
        return f"{status.sync_action} {100 * status.sync_progress.fraction:.1f} %"
    return "a rebuild is due" if status.awaits_rebuild else "a resync is due"


def summary_line(status: ArrayStatus) -> str:
    """One line for the end of an operation."""
    parts = [status.level, human_bytes(status.size_bytes), state_words(status)]
    parts.append(f"{status.in_sync_count} of {status.raid_disks} in sync")
    if status.spares:
        parts.append(f"{len(status.spares)} spare")
    if status.sync_progress or status.awaits_resync or status.awaits_rebuild:
        parts.append(sync_words(status))
    if status.mismatch_sectors:
        parts.append(f"{status.mismatch_sectors} sectors mismatch")
    return f"{status.name}: " + ", ".join(parts)


def volume_line(status: VolumeStatus) -> str:
    """One line about a volume for the end of an operation."""
    working = sum(len(disk.working) == len(disk.windows) for disk in status.disks)
    parts = [status.level, human_bytes(status.size_bytes), status.state_words]
    parts.append(f"{working} of {len(status.disks)} disks in sync")
    parts.append(f"{len(status.windows)} arrays inside" if len(status.windows) > 1 else "1 array inside")
    parts += [f"{each.name} {sync_words(each)}" for each in status.busy]
    if status.mismatch_sectors:
        parts.append(f"{status.mismatch_sectors} sectors mismatch")
    return f"{status.name}: " + ", ".join(parts)


def failures_words(minimum: int, maximum: int) -> str:
    """``1 failed member``, ``1 to 3 failed members``, ``no failed members``."""
    if minimum != maximum:
        return f"{minimum} to {maximum} failed members"
    return "1 failed member" if minimum == 1 else f"{minimum or 'no'} failed members"
