"""What campaigns meet of known bugs of md and mdadm: it explains what it alone can explain, and is counted by name.

Whoever judges binds each to the very condition under which it is expected, and to blocks where it is about blocks;
docs/findings.md tells each with its cause and how to show it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.levels import LevelName


@dataclass(frozen=True, slots=True)
class KnownBug:
    """One of them; ``name`` is what docs/findings.md and promises.toml call it."""

    name: str
    title: str
    where: str

    def __str__(self) -> str:
        return f"known: {self.name}"


RAID1_REBUILD = KnownBug(
    "raid1-rebuild",
    "RAID 1 of which one mirror was in sync when the power failed in a rebuild: the mirrors stay different",
    "raid1_run() in drivers/md/raid1.c takes it as clean then",
)
BITMAP_CHUNK = KnownBug(
    "bitmap-chunk",
    "RAID 1 and 10 with a bitmap, a power cut while a member is rebuilt: members in sync stay different where it wrote",
    "the rebuild comes before the resync and clears the bits that the resync would need (md_bitmap_start_sync())",
)
NEW_PART = KnownBug(
    "new-part",
    "an array with a bitmap that was made larger and stops before the new part is synced: it never is; a RAID 10 that "
    "got a member may leave it out at once",
    "md_bitmap_resize() in drivers/md/md-bitmap.c marks the new part in memory and not on the disks",
)
RESHAPE_READS = KnownBug(
    "reshape-reads",
    "a reshape of RAID 10 that is not going on: what it has moved is read from where it was",
    "choose_data_offset() in drivers/md/raid10.c takes the new offset only while MD_RECOVERY_RESHAPE is set, and an "
    "array that is started read-only (md_mod.start_ro) has it not",
)
PPL_FLUSH = KnownBug(
    "ppl-flush",
    "PPL: flushed writes are lost in a power cut",
    "ppl_handle_flush_request() in drivers/md/raid5-ppl.c answers a flush before the members are flushed",
)
PPL_LEFT_OUT = KnownBug(
    "ppl-left-out",
    "PPL: a write that meets a stripe that is being rebuilt has no entry in the log, and leaves the write hole open",
    "ppl_write_stripe() in drivers/md/raid5-ppl.c turns away a stripe that is STRIPE_SYNCING: it is written without",
)
JOURNAL_LEFT_OUT = KnownBug(
    "journal-left-out",
    "a journal: a write into a stripe that is being rebuilt is not logged: parity may not fit after a power cut",
    "r5l_write_stripe() in drivers/md/raid5-cache.c turns away a stripe that is STRIPE_SYNCING: it is written without",
)
WRITE_BACK_FLUSH = KnownBug(
    "write-back-flush",
    "a write-back journal: what members have in their caches alone is lost in a power cut",
    "R5LOG_PAYLOAD_FLUSH is logged before the members are flushed (r5c_finish_stripe_write_out())",
)
FORCE_NOT_CLEAN = KnownBug(
    "force-not-clean",
    "mdadm --assemble --force does not mark a dirty RAID 4 as clean whose parity member is missing, and md refuses it",
    "enough() in mdadm's util.c says that it can be started as it is; start_dirty_degraded of md_mod helps",
)
FORCE_TAKES_STALE = KnownBug(
    "force-takes-stale",
    "mdadm --assemble --force takes an older member than it needs: what was written without it is lost",
    "force_array() in mdadm's Assemble.c marks avail[] by the drive's number in its list and not by its slot",
)
GOOD_MEMBERS_IGNORED = KnownBug(
    "good-members-ignored",
    "a power cut while a spare takes the place of a failed member: mdadm leaves out all the others",
    "the spare's superblock may be the newest, and mdadm's Assemble.c believes it though it is not rebuilt",
)
JOURNAL_AHEAD = KnownBug(
    "journal-ahead",
    "a power cut when the journal's superblock is written and the members' are not: mdadm wants to be forced",
    "mdadm's Assemble.c takes a journal that is one event ahead of the members for a stray spare; one behind it takes",
)
SPARE_IN_SYNC = KnownBug(
    "spare-in-sync",
    "a power cut while a spare takes the place of a failed member: md takes the spare for a member in sync",
    "super_1_validate() in drivers/md/md.c has the role from the freshest superblock, and from the spare's own that "
    "there is nothing to be rebuilt",
)
REPLACED_BESIDE_REBUILD = KnownBug(
    "replaced-beside-rebuild",
    "a member of RAID 4, 5 or 6 is replaced while a slot is rebuilt or a resync is due: wrong data on the replacement",
    "handle_stripe() in drivers/md/raid5.c writes out what is not up to date, and warns of it (R5_NeedReplace)",
)
READDED_SPARE = KnownBug(
    "re-added-spare",
    "a member that is added again while all slots are taken waits as a spare; later it gets only what the bitmap tells",
    "saved_raid_disk of drivers/md/md.c is kept while the bitmap forgets what was written in the meantime",
)
BAD_BLOCK_REBUILD = KnownBug(
    "bad-block-rebuild",
    "RAID 10: a rebuild gives up where the only source has a bad block in its list",
    "raid10_sync_request() in drivers/md/raid10.c, 'insufficient working devices for recovery'",
)
KNOWN_BUGS = (
    RAID1_REBUILD,
    BITMAP_CHUNK,
    NEW_PART,
    RESHAPE_READS,
    PPL_FLUSH,
    PPL_LEFT_OUT,
    JOURNAL_LEFT_OUT,
    WRITE_BACK_FLUSH,
    FORCE_NOT_CLEAN,
    FORCE_TAKES_STALE,
    GOOD_MEMBERS_IGNORED,
    JOURNAL_AHEAD,
    SPARE_IN_SYNC,
    REPLACED_BESIDE_REBUILD,
    READDED_SPARE,
    BAD_BLOCK_REBUILD,
)
COPY_LEVELS = (LevelName.RAID1, LevelName.RAID10)
