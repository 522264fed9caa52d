"""Which mistakes of a drill show in what is there at its end."""

from __future__ import annotations

from lab.drills.case import EndedMistake
from lab.drills.schema import Drill, common_mistakes
from lab.drills.signs import DrillEnd, make_sign


def recognised(drill: Drill, seen: DrillEnd) -> tuple[EndedMistake, ...]:
    """Those of which all signs hold, the drill's own first. ``drill`` is filled in for its seed."""
    return tuple(
        EndedMistake(mistake.id, mistake.explain.strip())
        for mistake in (*drill.mistakes, *common_mistakes())
        if all(make_sign(sign, where=f"drill {drill.id}, mistake {mistake.id}").holds(seen) for sign in mistake.when)
    )
