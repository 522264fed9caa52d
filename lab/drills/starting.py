"""Starts arrays that a student created or repaired and that are not running, before a drill is judged.

On the embedded kernel every command has its own machine, and the start of a machine does only what the drill says. So a
repaired array may exist on the disks and not run. It is started read-only, so that nothing is written unless it is the
array with the data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lab.checks.pictures import MemberPicture, look_at_members
from lab.drills.desk import DrillDesk
from lab.drills.disks import run_lines
from lab.errors import CommandFailed
from lab.session.session import LabSession

_SECONDS = 30.0
_FIRST_NUMBER = 90
_LONGEST = 300


def start_what_was_repaired(desk: DrillDesk, has_data: Callable[[str], bool]) -> str:
    """Start an array with changed superblocks, if no running array ``has_data``.

    Arrays on overlays that still exist count too. Returns the messages of mdadm if no array with the data could be
    started.
    """
    session = desk.session
    session.rescan()
    if any(has_data(status.name) for status in session.statuses()):
        return ""
    said: list[str] = []
    written = _written(desk.case.record.before, look_at_members(session.machine, desk.disks))
    if written:
        _stop_inactive(session)
    for number, uuid in enumerate(written, _FIRST_NUMBER):
        name = f"md{number}"
        argv = ("mdadm", "--assemble", "--readonly", "--run", f"/dev/{name}", f"--uuid={uuid}")
        result = session.machine.run(argv, check=False, timeout_seconds=_SECONDS)
        session.rescan()
        if any(has_data(status.name) for status in session.statuses()):
            session.machine.run(("mdadm", "--readwrite", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)
            return ""
        said.append(" ".join(result.stderr.split())[-_LONGEST:])
        session.machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)
    session.rescan()
    return "; ".join(line for line in said if line)


def settle(desk: DrillDesk, name: str) -> None:
    """Wait for a running rebuild, for half a minute at most."""
    try:
        run_lines(desk.session, f"settle /dev/{name}", {})
    except CommandFailed:
        # There is no wait for an array that no longer exists.
        return


def _written(before: Mapping[str, MemberPicture], now: Mapping[str, MemberPicture]) -> list[str]:
    """UUIDs of arrays with a superblock that has changed since the drill began, without duplicates."""
    changed = [picture for name, picture in now.items() if picture.has_superblock and picture != before.get(name)]
    return list(dict.fromkeys(picture.uuid for picture in changed))


def _stop_inactive(session: LabSession) -> None:
    """Stop inactive arrays: they hold their disks, and cannot contain data in use."""
    text = session.machine.read(["/proc/mdstat"])["/proc/mdstat"] or ""
    for name in re.findall(r"^(md\S*) : inactive", text, re.MULTILINE):
        session.machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)
