"""The parity microscope: the location of a block on the members, its real content there, and md's view of it.

``lab.arrays.geometry`` has the arithmetic. ``reading`` gets the geometry of a running array from sysfs; ``array_map``
locates blocks and sectors of members, ``finding`` places that a user types, including files. ``picture`` reads one
stripe through ``members``, and ``comparison`` evaluates it with ``galois``. ``damage`` changes bytes; ``small_write``
predicts a write, ``observed`` makes it, and ``crash`` simulates a crash during it.
"""
