"""Arrays of unequal disks: AdaptRaid5 as arithmetic, made of md arrays under one device-mapper table, and measured."""
