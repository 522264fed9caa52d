"""Every operation on existing arrays as a plan, in one namespace: whole arrays, members, reshape, tuning."""

from lab.arrays.create import assemble, destroy, stop, zero_superblocks
from lab.arrays.members import add, fail, re_add, remove, replace
from lab.arrays.reshape import grow_level, grow_members, grow_size
from lab.arrays.tuning import (
    scrub_check,
    scrub_repair,
    scrub_stop,
    set_bitmap,
    set_sync_speed,
)

__all__ = [
    "add",
    "assemble",
    "destroy",
    "fail",
    "grow_level",
    "grow_members",
    "grow_size",
    "re_add",
    "remove",
    "replace",
    "scrub_check",
    "scrub_repair",
    "scrub_stop",
    "set_bitmap",
    "set_sync_speed",
    "stop",
    "zero_superblocks",
]
