"""Volumes of unequal disks as text and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from lab.adapt.state import VolumeDisk, VolumeStatus
from lab.cli.context import Context
from lab.cli.output import out, out_json, pairs, table
from lab.session.session import LabSession
from lab.session.words import sync_words
from lab.units import human_bytes


def show(session: LabSession, context: Context, status: VolumeStatus) -> None:
    """One volume on standard output."""
    if context.json:
        out_json(volume_value(session, status))
    else:
        out(volume_text(session, status))


def volume_text(session: LabSession, status: VolumeStatus) -> str:
    """Details, disks and inner arrays of one volume."""
    values: dict[str, object] = {"array": status.name, "level": status.level, "state": status.state_words}
    values["device"] = status.device
    values["capacity"] = f"{human_bytes(status.size_bytes)} ({status.size_bytes} bytes)"
    values |= {
        "chunk": human_bytes(status.chunk_bytes),
        "reference stripe": f"{status.reference_blocks} chunks, "
        f"{human_bytes(status.reference_blocks * status.chunk_bytes)}",
        "optimal I/O": human_bytes(status.optimal_io_bytes) if status.optimal_io_bytes else "unknown",
        "uuid": status.uuid,
    }
    if status.mismatch_sectors:
        values["mismatches"] = f"{status.mismatch_sectors} sectors in the last scrub"
    disks = [
        (_name(session, disk), human_bytes(disk.size_bytes), len(disk.windows), disk.state) for disk in status.disks
    ]
    inner = []
    for each in status.windows:
        names = " ".join(_name(session, status.disks[disk]) for disk in each.window.disks)
        state = "lost" if each.is_lost else "degraded" if each.is_degraded else "clean"
        if each.array and each.array in status.busy:
            state += f", {sync_words(each.array)}"
        inner.append((each.array.name if each.array else "-", f"{each.window.width}+1", state, names))
    return "\n\n".join(
        (
            pairs(values),
            table(("disk", "used", "arrays", "state"), disks, right=("used", "arrays")),
            table(("array", "data+parity", "state", "disks"), inner),
        )
    )


def volume_value(session: LabSession, status: VolumeStatus) -> dict[str, Any]:
    """One volume for JSON."""
    value: dict[str, Any] = msgspec.to_builtins(status)
    value |= {
        "device": status.device,
        "state_words": status.state_words,
        "is_degraded": status.is_degraded,
        "mismatch_sectors": status.mismatch_sectors,
        "lost_windows": [each.window.number for each in status.lost],
    }
    for disk, entry in zip(status.disks, value["disks"], strict=True):
        entry |= {"disk": _name(session, disk), "state": disk.state}
    for each, entry in zip(status.windows, value["windows"], strict=True):
        for member in (entry["array"] or {}).get("members", ()):
            member["flags"] = sorted(member["flags"])
        entry |= {"is_lost": each.is_lost, "is_degraded": each.is_degraded}
    return value


def _name(session: LabSession, disk: VolumeDisk) -> str:
    return session.disk_name(disk.node) if disk.node else f"({disk.number})"
