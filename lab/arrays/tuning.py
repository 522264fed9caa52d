"""Plans for scrubs, sync speed limits and the bitmap of a running array."""

from __future__ import annotations

from dataclasses import replace

from lab.arrays.names import array_device, md_path
from lab.arrays.spec import Bitmap
from lab.errors import SpecError
from lab.plans import Plan, Step, write_file_step
from lab.units import KIB

SYSTEM_DEFAULT = "system"
"""Value that makes md/sync_speed_min and max follow /proc/sys/dev/raid again (md.rst)."""


def scrub_check(name: str) -> Plan:
    """Read the whole array and count mismatches, in md/mismatch_cnt."""
    why = (
        "md reads every stripe, compares copies or parity and counts what differs; it rewrites unreadable blocks only."
    )
    return Plan(f"Check {name}", (_sync_action(name, "check", why),))


def scrub_repair(name: str) -> Plan:
    """Make copies and parity agree again. md cannot know which is correct: it trusts the data, or the first mirror."""
    why = "md makes parity fit the data, or the mirrors fit the first copy: consistent again, not necessarily right."
    return Plan(f"Repair {name}", (_sync_action(name, "repair", why),))


def scrub_stop(name: str) -> Plan:
    """Stop a scrub; a rebuild that is due starts again by itself."""
    why = "Writing idle interrupts whatever runs; what is still needed, such as a rebuild, starts again by itself."
    step = replace(_sync_action(name, "idle", why), undo=())
    return Plan(f"Stop the scrub of {name}", (step,))


def set_sync_speed(name: str, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
    """Limits for every kind of sync of this array alone, in KiB/s per member; None: the system's value."""
    low, high = minimum_kib_per_second, maximum_kib_per_second
    for limit in (low, high):
        if limit is not None and limit < 1:
            hint = "leave it out for the system's value"
            raise SpecError(f"array {name}: sync speed {limit} KiB/s is below 1", hint=hint)
    if low is not None and high is not None and low > high:
        raise SpecError(
            f"array {name}: minimum sync speed {low} KiB/s is above the maximum {high} KiB/s", hint="raise the maximum"
        )
    minimum, maximum = (SYSTEM_DEFAULT if limit is None else str(limit) for limit in (low, high))
    steps = (
        _speed(name, "sync_speed_min", minimum, "md lets syncs run at least this fast, even against other I/O."),
        _speed(name, "sync_speed_max", maximum, "md does not let syncs run faster than this, even on idle disks."),
    )
    return Plan(f"Set the sync speed of {name}", steps)


def set_bitmap(name: str, bitmap: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
    """Add or remove the write-intent bitmap of a running array; one bit covers ``chunk_bytes`` (None: md chooses)."""
    array = array_device(name)
    on = bitmap is Bitmap.INTERNAL
    why = (
        "md notes which regions are being written, so that a resync or a re-add copies only those."
        if on
        else "Without the bitmap writes are cheaper, but an unclean stop means a full resync."
    )
    other = Bitmap.NONE if on else Bitmap.INTERNAL
    step = Step(
        argv=("mdadm", "--grow", array, f"--bitmap={bitmap.value}", *bitmap_chunk_option(chunk_bytes)),
        why=why,
        undo=("mdadm", "--grow", array, f"--bitmap={other.value}"),
        writes_devices=(array,),
    )
    return Plan(f"Set the bitmap of {name} to {bitmap.value}", (step,))


def bitmap_chunk_option(chunk_bytes: int | None) -> tuple[str, ...]:
    """The mdadm option for the size that one bit of a bitmap covers, in KiB; empty for mdadm's choice (mdadm(8))."""
    return () if chunk_bytes is None else (f"--bitmap-chunk={chunk_bytes // KIB}",)


def _sync_action(name: str, action: str, why: str) -> Step:
    path = md_path(name, "sync_action")
    undo = ("sh", "-c", f"echo idle > {path}")
    return replace(write_file_step(path, action, why), undo=undo, writes_devices=(array_device(name),))


def _speed(name: str, attribute: str, value: str, why: str) -> Step:
    path = md_path(name, attribute)
    undo = ("sh", "-c", f"echo {SYSTEM_DEFAULT} > {path}")
    return replace(write_file_step(path, value, why), undo=undo if value != SYSTEM_DEFAULT else ())
