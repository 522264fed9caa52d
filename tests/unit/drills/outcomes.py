"""Ended drills as they lie in a state folder."""

from __future__ import annotations

import msgspec

from lab.drills.case import DrillOutcome
from lab.machine import Host


def put_outcome(host: Host, outcome: DrillOutcome) -> None:
    """Write it to the place where raidlab looks for it."""
    folder = host.state.root / "drills" / outcome.drill
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    (folder / f"{outcome.id}.json").write_bytes(msgspec.json.encode(outcome))
