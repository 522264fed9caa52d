"""Ended drills in a state folder."""

from __future__ import annotations

import msgspec

from lab.drills.case import DrillOutcome
from lab.machine import Host


def put_outcome(host: Host, outcome: DrillOutcome) -> None:
    """Store the outcome where ``DrillStore`` reads it."""
    folder = host.state.root / "drills" / outcome.drill
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    (folder / f"{outcome.id}.json").write_bytes(msgspec.json.encode(outcome))
