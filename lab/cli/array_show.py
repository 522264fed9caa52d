"""``raidlab array show``, and arrays as text and as JSON for the other sub-commands."""

from __future__ import annotations

from typing import Any

import msgspec

from lab.adapt.names import is_volume_name
from lab.arrays.detail import read_detail, state_words
from lab.arrays.discovery import FoundArray
from lab.arrays.status import ArrayStatus
from lab.cli import volume_show
from lab.cli.context import current
from lab.cli.output import out, out_json, pairs, table
from lab.cli.session import open_session
from lab.errors import SpecError
from lab.session.checks import level_of
from lab.session.session import LabSession
from lab.session.words import failures_words, role, sync_words
from lab.units import KIB, human_bytes


def show(name: str | None = None) -> None:
    """Show one array, or all, with members and the progress of a sync."""
    context = current()
    with open_session(context) as session:
        if name and is_volume_name(name):
            volume_show.show(session, context, session.volume(name))
            return
        shown = (session.status(name),) if name else session.statuses()
        volumes = () if name else session.volumes()
        resting = () if name else (*session.found.stopped, *session.found.refused)
        if context.json:
            value = {
                "arrays": [array_value(session, status) for status in shown],
                "volumes": [volume_show.volume_value(session, volume) for volume in volumes],
                "not_running": [found_value(session, found) for found in resting],
            }
            out_json(value["arrays"][0] if name else value)
            return
        if not shown and not resting and not volumes:
            context.narrator.notice("no arrays; 'raidlab array create --level raid5 --disks 3' makes one")
        texts = [array_text(session, status) for status in shown]
        texts += [volume_show.volume_text(session, volume) for volume in volumes]
        texts += [f"{found.name}: not running, {found.refusal or 'stopped'}" for found in resting]
        if texts:
            out("\n\n".join(texts))


def array_text(session: LabSession, status: ArrayStatus) -> str:
    """Details and members of one array."""
    detail = read_detail(session.lab.machine, status.name)
    values: dict[str, object] = {"array": status.name, "level": status.level, "state": state_words(status)}
    values["capacity"] = f"{human_bytes(status.size_bytes)} ({status.size_bytes} bytes)"
    if status.component_bytes:
        values["of each member"] = human_bytes(status.component_bytes)
    values |= {
        "members": f"{status.in_sync_count} of {status.raid_disks} in sync, {len(status.spares)} spare",
        "chunk": human_bytes(status.chunk_bytes) if status.chunk_bytes else "none",
        "layout": detail.layout or "none",
        "consistency policy": detail.consistency_policy,
        "uuid": detail.uuid or "unknown",
    }
    if status.mismatch_sectors:
        values["mismatches"] = f"{status.mismatch_sectors} sectors in the last scrub"
    values |= level_facts(status)
    if status.sync_progress or status.awaits_resync or status.awaits_rebuild:
        values["sync"] = sync_words(status)
    rows = [
        (session.disk_name(member.device), member.device, member.slot if member.slot is not None else "-", role(member))
        for member in status.members
    ]
    return pairs(values) + "\n\n" + table(("disk", "device", "slot", "state"), rows, right=("slot",))


def level_facts(status: ArrayStatus) -> dict[str, object]:
    """What follows from the level; nothing for a level that the lab does not know."""
    try:
        level = level_of(status)
    except SpecError:
        return {}
    low, high = (
        level.minimum_failures_survived(status.raid_disks),
        level.maximum_failures_survived(status.raid_disks),
    )
    stripe = level.full_stripe_bytes(status.raid_disks, status.chunk_bytes) if status.chunk_bytes else 0
    return {
        "survives": failures_words(low, high),
        "small write costs": f"{level.write_penalty} member I/Os",
        "full stripe": human_bytes(stripe) if stripe else "none",
    }


def array_value(session: LabSession, status: ArrayStatus) -> dict[str, Any]:
    """One array for JSON: its status, what follows from its level, and the names of its disks."""
    value: dict[str, Any] = msgspec.to_builtins(status)
    for member, entry in zip(status.members, value["members"], strict=True):
        entry |= {"disk": session.disk_name(member.device), "role": role(member), "flags": sorted(member.flags)}
    value["state_words"] = state_words(status)
    value["sync_fraction"] = status.sync_progress.fraction if status.sync_progress else None
    value["is_degraded"] = status.is_degraded
    try:
        level = level_of(status)
    except SpecError:
        return value
    chunk = status.chunk_bytes or 64 * KIB
    value["theory"] = {
        "minimum_failures_survived": level.minimum_failures_survived(status.raid_disks),
        "maximum_failures_survived": level.maximum_failures_survived(status.raid_disks),
        "write_penalty": level.write_penalty,
        "full_stripe_bytes": level.full_stripe_bytes(status.raid_disks, chunk),
    }
    return value


def found_value(session: LabSession, found: FoundArray) -> dict[str, Any]:
    """An array that does not run, for JSON."""
    value: dict[str, Any] = msgspec.to_builtins(found)
    # What a volume's label says beyond that is for the program alone.
    for inner in ("label", "nodes", "former_nodes"):
        value.pop(inner, None)
    value["disks"] = [session.disk_name(node) for node in found.devices]
    return value
