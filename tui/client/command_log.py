"""From commands that ran on a machine to lines of the app's log, with what they were for."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from tui.state import CommandEntry, Origin

if TYPE_CHECKING:
    from lab.machine.api import CommandResult
    from lab.plans import Plan

OUTPUT_CHARACTERS = 4000
_ANNOUNCED_PLANS = 50


class CommandLog:
    """Hears of every command on whichever thread ran it, and knows which of them belong to plans."""

    def __init__(self, on_entry: Callable[[CommandEntry], None], now: Callable[[], datetime]) -> None:
        self._on_entry = on_entry
        self._now = now
        self._plans: list[dict[tuple[str, ...], str]] = []
        self._typed = threading.local()

    def announce(self, plan: Plan) -> None:
        """The steps of this plan are about to run."""
        self._plans.append({step.argv: step.why for step in plan.steps})
        del self._plans[:-_ANNOUNCED_PLANS]

    def typed(self, line: str) -> None:
        """The next command of this thread is what somebody typed."""
        self._typed.line = line

    def on_command(self, result: CommandResult) -> None:
        """A command has ended."""
        typed = self._typed.__dict__.pop("line", None)
        why = next((plan[result.argv] for plan in reversed(self._plans) if result.argv in plan), None)
        origin = Origin.SHELL if typed is not None else Origin.PLAN if why is not None else Origin.LAB
        self._on_entry(
            CommandEntry(
                line=typed if typed is not None else shlex.join(result.argv),
                status=result.status,
                seconds=result.duration_seconds,
                origin=origin,
                why=why or "",
                output=(result.stdout + result.stderr)[-OUTPUT_CHARACTERS:],
                ended=self._now(),
            )
        )
