"""Arrays of unequal disks: AdaptRaid5 as arithmetic, and made of md arrays under one device-mapper table."""
