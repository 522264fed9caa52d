"""What campaigns have found in md and mdadm themselves, so that it explains what it alone can explain.

Whoever judges binds each to the very condition under which it is expected, and to blocks where it is about blocks;
docs/findings.md tells each with its cause and how to show it with plain mdadm.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.levels import LevelName


@dataclass(frozen=True, slots=True)
class KnownBug:
    """One of them; ``name`` stands where it explains something."""

    name: str
    title: str
    where: str

    def __str__(self) -> str:
        return f"known: {self.name}"


COPIES_LEFT_DIFFERENT = KnownBug(
    "copies-left-different",
    "a power cut while a member is rebuilt, with a bitmap: members that were in sync stay different where it was written",
    "RAID 1 and 10: the rebuild comes before the resync, and clears the bits that the resync would need "
    "(raid1_sync_request() and raid10_sync_request() in drivers/md)",
)
READS_FROM_OLD_PLACE = KnownBug(
    "reads-from-old-place",
    "a reshape of RAID 10 that is not going on: what it has moved is read from where it was",
    "choose_data_offset() in drivers/md/raid10.c takes the new offset only while MD_RECOVERY_RESHAPE is set, and an "
    "array that is started read-only (md_mod.start_ro) has it not",
)
NEW_PART_NOT_SYNCED = KnownBug(
    "new-part-not-synced",
    "an array with a bitmap whose members were made larger, and that stops before the new part is synced: it never is",
    "md_bitmap_resize() in drivers/md/md-bitmap.c marks the new part in memory and not on the disks",
)
NOT_MARKED_CLEAN = KnownBug(
    "force-not-marked-clean",
    "mdadm --assemble --force does not mark a dirty array as clean whose member is being rebuilt, and md refuses it",
    "enough() in mdadm's Assemble.c takes that member for one that is there; start_dirty_degraded of md_mod helps",
)
GOOD_MEMBERS_IGNORED = KnownBug(
    "good-members-ignored",
    "a power cut while a spare takes the place of a failed member: mdadm leaves out all the others",
    "the spare's superblock may be the newest, and load_devices() in mdadm's Assemble.c believes it although it is not rebuilt",
)
KNOWN_BUGS = (GOOD_MEMBERS_IGNORED, COPIES_LEFT_DIFFERENT, NEW_PART_NOT_SYNCED, READS_FROM_OLD_PLACE, NOT_MARKED_CLEAN)
COPY_LEVELS = (LevelName.RAID1, LevelName.RAID10)
