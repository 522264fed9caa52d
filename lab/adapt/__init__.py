"""Arrays of unequal disks: AdaptRaid5's arithmetic, its implementation with md and device mapper, and its study."""
