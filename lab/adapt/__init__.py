"""Arrays of unequal disks: AdaptRaid5's arithmetic, an implementation with md and device mapper, and its study."""
