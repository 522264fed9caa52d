"""The three places where raidlab's own process touches the world: processes, /sys and /proc, clocks."""
