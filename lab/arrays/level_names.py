"""Parsing of level names such as ``5``, ``RAID 5`` and ``mirror``; and the layouts of each level."""

from __future__ import annotations

import difflib
import re

from lab.arrays.added_levels import AddedLevels
from lab.arrays.levels import Level, LevelName, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10, Raid10Layout, Single
from lab.errors import SpecError
from lab.plugins import extensions

_ALL: tuple[Level, ...] = (Single(), Raid0(), Raid1(), Raid4(), Raid5(), Raid6(), Raid10())
_LEVELS = {level.name: level for level in _ALL}
_NICKNAMES = {
    "disk": LevelName.SINGLE,
    "none": LevelName.SINGLE,
    "jbod": LevelName.SINGLE,
    "stripe": LevelName.RAID0,
    "mirror": LevelName.RAID1,
    "1+0": LevelName.RAID10,
    "raid1+0": LevelName.RAID10,
}
_WORDS = (
    {name.value: name for name in LevelName}
    | _NICKNAMES
    | {name.value.removeprefix("raid"): name for name in LevelName}
)
_RAID10_LAYOUT = re.compile(r"([nfo])(\d+)")

ROTATIONS = ("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric")
"""Parity rotations of RAID 5 and 6 in the order that the lab offers them; the first is mdadm's default."""


def parse_level(text: str) -> Level:
    """The level meant by ``raid5``, ``5``, ``RAID 5``, ``mirror`` or ``stripe``; RAID 10 has layout near 2.

    Raises SpecError that names the nearest known level.
    """
    word = re.sub(r"[\s_-]", "", text).lower()
    if word in _WORDS:
        return _LEVELS[_WORDS[word]]
    added = extensions(AddedLevels)
    others = {level: each.makes for each in added for level in each.levels}
    if word in others:
        raise SpecError(
            f"level {word} is not possible here: it makes {others[word]}",
            hint=f"raidlab array create --level {word} makes one",
        )
    titles = {**_WORDS, **{level: level for level in others}}
    titles |= {nickname: level for each in added for nickname, level in each.nicknames.items()}
    near = difflib.get_close_matches(word, (name for name in titles if not name.isdecimal()), n=1, cutoff=0.5)
    guess = f"; did you mean {titles[near[0]]}?" if near else ""
    more = f"; for disks of different sizes: {', '.join(others)}" if others else ""
    raise SpecError(f"unknown level '{text}'{guess}", hint=f"known levels: {', '.join(LevelName)}{more}")


def layout_words(level: LevelName) -> tuple[str, ...]:
    """Layout words that mdadm accepts for a level, RAID 10's as patterns; empty if there is no choice."""
    if level in (LevelName.RAID5, LevelName.RAID6):
        return ROTATIONS
    return ("n2", "f2", "o2") if level is LevelName.RAID10 else ()


def level_with_layout(text: str, layout: str | None) -> Level:
    """The level with its layout applied (only RAID 10's arithmetic depends on it).

    Raises SpecError for an unknown level or a layout that the level does not have.
    """
    level = parse_level(text)
    if layout is None:
        return level
    if isinstance(level, Raid10):
        match = _RAID10_LAYOUT.fullmatch(layout)
        if match and int(match[2]) >= 2:
            return Raid10(Raid10Layout(match[1]), int(match[2]))
        raise SpecError(
            f"layout '{layout}' is not one of raid10",
            hint="write n, f or o (near, far, offset) and the number of copies, such as n2",
        )
    words = layout_words(level.name)
    if layout not in words:
        hint = f"known layouts: {', '.join(words)}" if words else f"leave the layout out for {level.name.value}"
        raise SpecError(f"layout '{layout}' is not one of {level.name.value}", hint=hint)
    return level


def layout_name(level: LevelName, number: int) -> str | None:
    """The word for the number in md/layout; None if the level has none or the number is unknown.

    Numbers: drivers/md/raid5.h (ALGORITHM_*) and, for RAID 10, near copies in the low byte, far copies in the next,
    bit 16 set for offset (raid10.c, setup_geo).
    """
    if level in (LevelName.RAID5, LevelName.RAID6):
        return ROTATION_NUMBERS.get(number)
    if level is not LevelName.RAID10 or number <= 0:
        return None
    near, far, is_offset = number & 0xFF, number >> 8 & 0xFF, bool(number >> 16 & 1)
    if far > 1 and near > 1:
        return None
    return f"{'o' if is_offset else 'f'}{far}" if far > 1 else f"n{near}"


ROTATION_NUMBERS = {
    0: "left-asymmetric",
    1: "right-asymmetric",
    2: "left-symmetric",
    3: "right-symmetric",
    4: "parity-first",
    5: "parity-last",
    16: "left-asymmetric-6",
    17: "right-asymmetric-6",
    18: "left-symmetric-6",
    19: "right-symmetric-6",
    20: "parity-first-6",
}
"""md's number of a parity layout (drivers/md/raid5.h) -> mdadm's word."""
