"""The parity microscope: where a block of an array lies, what the members really hold there, and what md makes of it.

``lab.arrays.geometry`` has the arithmetic. ``reading`` takes the geometry of a running array from sysfs, ``array_map``
answers for blocks and members, ``finding`` for what a user types, files too. ``picture`` reads one stripe by
``members``, and ``comparison`` judges it with ``galois``. ``damage`` changes bytes; ``small_write`` predicts a write,
``observed`` makes it, and ``crash`` steps through a crash in the middle of it.
"""
