"""The power of a drive fails for an instant: what it had answered and only its volatile write cache held is gone."""

from __future__ import annotations

from lab.disks import DiskKind, LabDisk
from lab.disks.attaching import pid_file
from lab.disks.personalities import all_personalities, find_personality
from lab.errors import DeviceRefused
from lab.plans import Danger, Plan, Step


def cut(disk: LabDisk) -> Plan:
    """Cut the power of a spindle with a write cache. Raises DeviceRefused for any other disk."""
    mechanics = find_personality(disk.personality).mechanics if disk.kind is DiskKind.SPINDLE else None
    if mechanics is None or not mechanics.write_cache_bytes:
        known = [name for name, each in all_personalities().items() if each.mechanics]
        with_cache = [
            name for name in known if (found := all_personalities()[name].mechanics) and found.write_cache_bytes
        ]
        raise DeviceRefused(
            f"{disk.name} has no volatile write cache that could be lost",
            hint=f"spindles of these personalities have one: {', '.join(with_cache) or 'none'}",
        )
    return Plan(
        f"Cut the power of {disk.name}",
        (
            Step(
                ("pkill", "-USR1", "-F", pid_file(disk.name)),
                "The drive forgets all writes that it had answered but not yet put on the medium.",
                danger=Danger.DATA,
                writes_devices=(disk.node,),
            ),
        ),
    )
