"""``raidlab array show``."""

from __future__ import annotations

from typing import Any

import msgspec

from lab.arrays.discovery import FoundArray
from lab.arrays.kinds import kind_of_name, kinds
from lab.cli.array_run import array_text
from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.cli.session import open_session
from lab.session.session import LabSession


def show(name: str | None = None) -> None:
    """Show one array, or all, with members and the progress of a sync."""
    context = current()
    with open_session(context) as session:
        shown = [session.array(name).status()] if name else list(session.statuses())
        arrays = [(session.array(status.name), status) for status in shown]
        resting = () if name else (*session.found.stopped, *session.found.refused)
        if context.json:
            listed: dict[str, list[dict[str, Any]]] = {kind.listed_as: [] for kind in kinds()}
            for array, status in arrays:
                listed[kind_of_name(array.name).listed_as].append(array.value(status))
            more = {**listed, "not_running": [_found_value(session, found) for found in resting]}
            out_json(arrays[0][0].value(shown[0]) if name else more)
            return
        if not shown and not resting:
            context.narrator.notice("no arrays; 'raidlab array create --level raid5 --disks 3' makes one")
        texts = [array_text(array, status) for array, status in arrays]
        texts += [f"{found.name}: not running, {found.refusal or 'stopped'}" for found in resting]
        if texts:
            out("\n\n".join(texts))


def _found_value(session: LabSession, found: FoundArray) -> dict[str, Any]:
    """An array that does not run: what is known of those of every kind."""
    value = {field: msgspec.to_builtins(getattr(found, field)) for field in FoundArray.__dataclass_fields__}
    return {**value, "disks": [session.disk_name(node) for node in found.devices]}
