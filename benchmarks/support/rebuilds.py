"""Rebuilds that no computer is too fast for: one that is over between two samples is not seen."""

from __future__ import annotations

from lab.machine import Machine
from lab.units import KIB

SECONDS = 3
_LIMIT = "/proc/sys/dev/raid/speed_limit_max"


def limit_speed(machine: Machine, member_bytes: int) -> None:
    """From now on a member of this size takes two seconds at least, twenty samples.

    md averages over the seconds that have begun (md_do_sync in drivers/md/md.c): in the first a third may be copied, so
    the last third begins after two. An array with a minimum speed above the limit is not held back.
    """
    machine.run(("modprobe", "md_mod"))
    machine.write(_LIMIT, str(member_bytes // KIB // SECONDS))
