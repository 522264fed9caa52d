"""The machine's clock while a drill is made: superblocks then show when each member was last in use.

A time is ``spring``, ``summer``, ``yesterday``, ``last night`` or ``3 years ago``, also with months, weeks, days or
hours. The seed selects the hour, so that two students see different dates, and one student sees the same dates in all
attempts of one day.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta

from lab.errors import SpecError
from lab.gates.numbers import digits
from lab.gates.text import visible
from lab.machine import Machine, TargetKind
from lab.session.session import LabSession

_UNITS = {"year": 365.0, "month": 30.0, "week": 7.0, "day": 1.0, "hour": 1 / 24}
_MIDDLE_MONTH = {"spring": 4, "summer": 7}
_LEAST_DAYS = 60
"""A season of this year counts only if its date is at least this long ago; otherwise it is the season of last year."""
_SETTLE_SECONDS = "0.6"
"""Longer than md waits before it marks an array clean (md/safe_mode_delay, 0.2 s). The first write after the clock was
set then marks the array dirty again, and md stores the new time in the superblocks.
"""
_FORM = re.compile(r"([1-9][0-9]?) (year|month|week|day|hour)s? ago")


def moment_of(when: str, now: datetime, seed: str) -> datetime:
    """The time that ``when`` means; it is before ``now``. Raises SpecError for any other text."""
    share = int.from_bytes(hashlib.blake2b(f"{when}/{seed}".encode(), digest_size=4).digest(), "big") / (1 << 32)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if when in _MIDDLE_MONTH:
        found = midnight.replace(month=_MIDDLE_MONTH[when], day=5) + timedelta(days=20 * share)
        return found if found < now - timedelta(days=_LEAST_DAYS) else found.replace(year=found.year - 1)
    if when == "yesterday":
        return midnight - timedelta(hours=15 - 6 * share)
    if when == "last night":
        found = midnight + timedelta(hours=1 + 3 * share)
        return found if found < now - timedelta(minutes=30) else found - timedelta(days=1)
    match = _FORM.fullmatch(when)
    if match is None:
        raise SpecError(
            f"'{visible(when)}' is no time of a drill",
            hint="write 'spring', 'summer', 'yesterday', 'last night', or such as '2 weeks ago'",
        )
    # Add less than one unit, so that '2 weeks ago' is before '1 week ago'.
    return now - timedelta(days=_UNITS[match[2]] * (int(match[1]) + 0.4 * share))


class DrillClock:
    """The clock of a lab's own machine: ``show`` sets it to a time, ``put_right`` restores it.

    Other machines keep their clock, because other programs use it.
    """

    def __init__(self, session: LabSession, seed: str) -> None:
        self._machine, self._seed = session.machine, seed
        self._may_set = session.target.kind is TargetKind.UML
        self._began: tuple[float, float] | None = None

    def show(self, when: str) -> None:
        """Set the clock to this time. Raises CommandFailed."""
        if not when or not self._may_set:
            return
        if self._began is None:
            self._began = _clocks(self._machine)
        self._machine.run(("sleep", _SETTLE_SECONDS))
        now = datetime.fromtimestamp(self._now(), UTC)
        self._set(moment_of(when, now, self._seed).timestamp())

    def put_right(self) -> None:
        """Set the clock to the correct time. Raises CommandFailed."""
        if self._began is not None:
            self._set(self._now())
            self._began = None

    def _now(self) -> float:
        """The time that an unchanged clock would show."""
        assert self._began is not None
        return self._began[0] + _clocks(self._machine)[1] - self._began[1]

    def _set(self, seconds: float) -> None:
        self._machine.run(("date", "-u", "-s", f"@{seconds:.0f}"))


def _clocks(machine: Machine) -> tuple[float, float]:
    """Seconds since 1970, and since the machine started."""
    shown = digits(machine.run(("date", "+%s")).stdout.strip()) or 0
    uptime = (machine.read(["/proc/uptime"])["/proc/uptime"] or "0").split()[0]
    return float(shown), float(uptime)
