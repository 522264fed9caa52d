"""Completed drills in a state folder."""

from __future__ import annotations

import msgspec

from lab.drills.case import DrillOutcome
from lab.machine import Host

ID = "01-dropped-members"
OUTCOME = DrillOutcome(
    id=f"{ID}-1",
    drill=ID,
    title="Members dropped out",
    began_utc="2026-01-01T10:00:00Z",
    ended_utc="2026-01-01T10:20:00Z",
    verdict="partly lost",
    saved_percent=62.5,
    touched_bytes=0,
    was_committed=True,
    minutes=20,
    hints=1,
    resets=0,
    changed={"disk01": [[0, 4096]], "disk02": [[0, 512]]},
)


def put_outcome(host: Host, outcome: DrillOutcome) -> None:
    """Store the outcome where ``DrillStore`` reads it."""
    folder = host.state.root / "drills" / outcome.drill
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    (folder / f"{outcome.id}.json").write_bytes(msgspec.json.encode(outcome))
