"""A fleet of arrays with knobs: where they stand, the rows that show it, and a turn of one in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.arrays.level_names import parse_level
from tui.drafts import title_of
from tui.widgets.choices import ChoiceRow

TB = 1e12
ARRAYS = (1, 2, 4, 10, 40, 100, 400, 1000, 10_000, 100_000)
LEVELS = ("raid0", "raid1", "raid5", "raid6", "raid10")
MEMBERS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24)
_MOST_COPIES = 4
DISKS_TB = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 32.0)
FAILING_PERCENT = (0.5, 1.0, 1.57, 2.0, 3.0, 5.0, 8.0)
"""1.57 % a year is Backblaze's figure for 2024 (docs/fleet.md)."""
REBUILD_HOURS = (6.0, 12.0, 24.0, 36.0, 48.0, 72.0, 168.0, 336.0)
SPARES = (0, 1, 2)
REPLACED_HOURS = (0.0, 6.0, 24.0, 72.0, 168.0, 336.0)
"""Until a failed drive, or a used spare, is replaced."""
YEARS = (1.0, 3.0, 5.0, 10.0)
_MONTH_HOURS = 730.5
SCRUBS: dict[float | None, tuple[str, str]] = {
    None: ("never", "never"),
    12 * _MONTH_HOURS: ("every year", "a year"),
    6 * _MONTH_HOURS: ("every 6 months", "6 months"),
    3 * _MONTH_HOURS: ("every 3 months", "3 months"),
    _MONTH_HOURS: ("every month", "a month"),
    336.0: ("every 2 weeks", "2 weeks"),
    168.0: ("every week", "a week"),
    72.0: ("every 3 days", "3 days"),
}
"""Hours between two scrubs -> as words, and short. More often, a large drive would do nothing but be read."""
_NOT_MEASURED = "no"


@dataclass(frozen=True, slots=True)
class ChosenRebuild:
    """Rebuilds of a stored result."""

    label: str
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class FleetChoice:
    """Where the knobs stand."""

    arrays: int = 4
    level: str = "raid5"
    members: int = 6
    disk_tb: float = 16.0
    failing_percent: float = 1.57
    chosen_hours: float = 48.0
    measured: ChosenRebuild | None = None
    """In place of the chosen hours."""
    scrub_hours: float | None = _MONTH_HOURS
    spares: int = 0
    replaced_hours: float = 24.0
    years: float = 5.0

    @property
    def rebuild_hours(self) -> float:
        """Of one drive; at a measured rate a larger one takes longer."""
        return self.disk_tb * TB / self.measured.bytes_per_second / 3600 if self.measured else self.chosen_hours

    @property
    def scrub_words(self) -> str:
        return SCRUBS[self.scrub_hours][0]

    @property
    def words(self) -> str:
        """``4 × RAID 5 of 6 × 16 TB, 5 years, scrubbed every month``."""
        scrub = f"scrubbed {self.scrub_words}" if self.scrub_hours else "never scrubbed"
        arrays = f"{self.arrays:,} × " if self.arrays > 1 else ""
        return f"{arrays}{title_of(self.level)} of {self.members} × {self.disk_tb:g} TB, {_years(self.years)}, {scrub}"

    def rows(self, measured: Sequence[ChosenRebuild]) -> tuple[ChoiceRow, ...]:
        """The form; ``measured``: what stored results have."""
        rate = f"{self.disk_tb * TB / self.rebuild_hours / 3600 / 1e6:,.0f} MB/s"
        hours = _hours(self.rebuild_hours)
        rebuild = ChoiceRow("rebuild", "Rebuild", tuple(map(_hours, REBUILD_HOURS)), hours, rate)
        if self.measured:
            rebuild = ChoiceRow("rebuild", "Rebuild", (), hours, rate)
        labels = (_NOT_MEASURED, *(each.label for each in measured))
        return (
            ChoiceRow("arrays", "Arrays", tuple(f"{each:,}" for each in ARRAYS), f"{self.arrays:,}"),
            ChoiceRow("level", "Level", tuple(map(title_of, LEVELS)), title_of(self.level)),
            ChoiceRow("members", "Members", tuple(map(str, members_of(self.level))), str(self.members)),
            ChoiceRow("disk", "Drive", tuple(map(_terabytes, DISKS_TB)), _terabytes(self.disk_tb)),
            ChoiceRow("failing", "Fail a year", tuple(map(_percent, FAILING_PERCENT)), _percent(self.failing_percent)),
            rebuild,
            ChoiceRow("measured", "As measured", labels, self.measured.label if self.measured else _NOT_MEASURED)
            if measured
            else ChoiceRow("measured", "As measured", note="no result yet"),
            ChoiceRow("scrub", "Scrub", tuple(words for words, _ in SCRUBS.values()), self.scrub_words),
            ChoiceRow("spares", "Spares", tuple(map(str, SPARES)), str(self.spares)),
            ChoiceRow("replaced", "Replaced", tuple(map(_after, REPLACED_HOURS)), _after(self.replaced_hours)),
            ChoiceRow("years", "Years", tuple(f"{each:g}" for each in YEARS), f"{self.years:g}"),
        )

    def changed(self, key: str, value: str, measured: Sequence[ChosenRebuild] = ()) -> FleetChoice:
        """The same with one row's new value."""
        match key:
            case "arrays":
                return replace(self, arrays=int(value.replace(",", "")))
            case "level":
                level = next(each for each in LEVELS if title_of(each) == value)
                fitting = members_of(level)
                nearest = min(fitting, key=lambda each: (abs(each - self.members), each))
                return replace(self, level=level, members=nearest)
            case "members":
                return replace(self, members=int(value))
            case "disk":
                return replace(self, disk_tb=next(each for each in DISKS_TB if _terabytes(each) == value))
            case "failing":
                return replace(self, failing_percent=next(each for each in FAILING_PERCENT if _percent(each) == value))
            case "rebuild":
                return replace(self, chosen_hours=next(each for each in REBUILD_HOURS if _hours(each) == value))
            case "measured":
                return replace(self, measured=next((each for each in measured if each.label == value), None))
            case "scrub":
                return replace(self, scrub_hours=next(hours for hours, words in SCRUBS.items() if words[0] == value))
            case "spares":
                return replace(self, spares=int(value))
            case "replaced":
                return replace(self, replaced_hours=next(each for each in REPLACED_HOURS if _after(each) == value))
            case _:
                return replace(self, years=float(value))

    def beside(self) -> tuple[FleetChoice, ...]:
        """The same at every interval, the nearest to this one first."""
        order = list(SCRUBS)
        at = order.index(self.scrub_hours)
        nearest = sorted(order, key=lambda each: abs(order.index(each) - at))
        return tuple(replace(self, scrub_hours=hours) for hours in nearest)


def members_of(level: str) -> tuple[int, ...]:
    """How many members an array of this level can have here."""
    least = parse_level(level).minimum_members
    most = _MOST_COPIES if level == "raid1" else MEMBERS[-1]
    step = 2 if level == "raid10" else 1
    return tuple(each for each in MEMBERS if least <= each <= most and each % step == 0)


def change_words(key: str, before: FleetChoice, after: FleetChoice) -> str:
    """``scrubbing every 2 weeks instead of never``: what was turned, and from where."""
    match key:
        case "scrub" if after.scrub_hours is None:
            return f"never scrubbing instead of {before.scrub_words}"
        case "scrub":
            return f"scrubbing {after.scrub_words} instead of {before.scrub_words}"
        case "arrays":
            return f"{after.arrays:,} arrays instead of {before.arrays:,}"
        case "level":
            old, new = title_of(before.level), title_of(after.level)
            has_others = before.members != after.members
            return (
                f"{new} of {after.members} instead of {old} of {before.members}"
                if has_others
                else f"{new} instead of {old}"
            )
        case "members":
            return f"{after.members} members instead of {before.members}"
        case "disk":
            return f"drives of {_terabytes(after.disk_tb)} instead of {_terabytes(before.disk_tb)}"
        case "failing":
            return f"{_percent(after.failing_percent)} failing a year instead of {_percent(before.failing_percent)}"
        case "spares":
            return (
                f"{after.spares or 'no'} spare{'' if after.spares == 1 else 's'} instead of {before.spares or 'none'}"
            )
        case "replaced":
            return f"drives replaced {_after(after.replaced_hours)} instead of {_after(before.replaced_hours)}"
        case "years":
            return f"{_years(after.years)} instead of {before.years:g}"
        case _:
            return f"rebuilds of {_hours(after.rebuild_hours)} instead of {_hours(before.rebuild_hours)}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.2g} h"


def _after(hours: float) -> str:
    return f"after {hours:.0f} h" if hours else "at once"


def _terabytes(terabytes: float) -> str:
    return f"{terabytes:g} TB"


def _percent(percent: float) -> str:
    return f"{percent:g} %"


def _years(years: float) -> str:
    return f"{years:g} year{'' if years == 1 else 's'}"
