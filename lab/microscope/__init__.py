"""The parity microscope: where a block of an array lies, what the members really hold there, and what md makes of it.

``lab.arrays.geometry`` has the arithmetic, and ``reading`` takes the geometry of a running array from sysfs;
``array_map`` answers for blocks, members and files; ``picture`` reads one stripe from the members and compares it;
``flipping``, ``small_write`` and ``crash`` change a byte and step through a write and through a crash.
"""
