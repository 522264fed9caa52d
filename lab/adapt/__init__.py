"""Arrays of unequal disks: AdaptRaid5 as arithmetic, its implementation with md and device mapper, and its study."""
