"""The parity microscope shows where a block lies on the members, what it contains there, and what md does with it.

``lab.arrays.geometry`` contains the arithmetic. ``array_map`` reads the geometry of a running array from sysfs, and
reads bytes from the array's members. It also locates blocks, sectors of members, and places that a user types.
``picture`` reads one stripe, evaluates it and damages bytes. ``small_write`` predicts a write, performs it, and
simulates a crash during the write.
"""
