"""The parity microscope: the location of a block on the members, its real content there, and md's view of it.

``lab.arrays.geometry`` has the arithmetic. ``array_map`` reads the geometry of a running array from sysfs and the bytes
of its members, and locates blocks, sectors of members, and places that a user types. ``picture`` reads one stripe,
evaluates it and damages bytes. ``small_write`` predicts a write, makes it, and simulates a crash during it.
"""
