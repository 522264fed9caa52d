"""The parity microscope: the location of a block on the members, its real content there, and md's view of it.

``lab.arrays.geometry`` has the arithmetic. ``reading`` gets the geometry of a running array from sysfs and the bytes of
its members; ``array_map`` locates blocks, sectors of members, and places that a user types. ``picture`` reads one
stripe and damages bytes, ``comparison`` evaluates it. ``small_write`` predicts a write, makes it, and simulates a crash
in it.
"""
