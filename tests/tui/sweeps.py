"""Sweeps for tests of the Run screen."""

from __future__ import annotations

from lab.experiments.sweeps import LatestCell, SweepProgress, SweepWork
from tests.tui.user import User
from tui.sweeps import SweepState, SweepView

NAME = "chunks"
LATEST = (
    LatestCell(label="raid5, 4 members, chunk 16K", told="reads 1,234 IOPS"),
    LatestCell(label="raid5, 4 members, chunk 64K", told="the machine was lost", is_failed=True),
)
WORK = SweepWork(lines=("about 3 min on 2 workers",), cells=48, there=0, run_id="", missing_dependency="")
PROGRESS = SweepProgress(
    done=12, running=2, failed=1, planned=48, workers=2, left_seconds=90.0, dashboard="127.0.0.1:8787", latest=LATEST
)


def going() -> SweepView:
    """A sweep that this app runs."""
    return SweepView(NAME, PROGRESS)


async def sweeping(user: User, state: SweepState | None = None, view: SweepView | None = None) -> None:
    """Select the sweep on the Run screen, in this state."""
    user.app.sweeps._states[NAME] = state or SweepState(WORK)
    user.app.sweeps.view = view
    await choose(user)


async def choose(user: User) -> None:
    await user.until(lambda: user.app.sweeps.entries, "the sweeps are listed")
    await user.choose(f"sweep-{NAME}")
