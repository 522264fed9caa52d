"""Replaces the shell commands in the texts of lessons with the keys of the app. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lab.actions.action import Action
from lab.actions.arrays import Create, Grow, Replace, Scrub, ScrubAction, Wait
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import kind_of_level, kinds
from lab.arrays.levels import parse_level
from lab.arrays.spec import ConsistencyPolicy
from lab.gates.decoding import parse_bytes
from lab.lessons.actions import ApartAction, ShellLine
from lab.units import human_bytes
from tui.arrays.actions import KEY_ACTIONS
from tui.arrays.drafts import title_of

_COMMAND = re.compile(r"(?P<open>\()?[`'](?P<command>raidlab [^`'\n]+)[`'](?P<close>\))?")
_DISKS = re.compile(r"\bdisk\d\d(?:,disk\d\d)+")
_LAB, _BUILD, _RUN, _RESULTS, _LESSONS = "1 Lab", "2 Build", "3 Run", "4 Results", "6 Lessons"
_COMMANDS, _FAULTS, _STRIPE = "5 Commands", "7 Faults", "8 Stripe"
_KEYS = {each.words: each for each in reversed(KEY_ACTIONS)}
TYPED = ("fleet",)
"""Commands without an equivalent in the app; they need a terminal of their own."""
_ELSEWHERE = {
    "array create": (_BUILD, ""),
    "array wait": (_LAB, ""),
    "array show": (_LAB, ""),
    "array grow": (_COMMANDS, ""),
    "exec": (_COMMANDS, ""),
    "disks": (_LAB, ""),
    "lesson reset": (_LESSONS, "z"),
    "lesson measure": (_LESSONS, "r"),
    "lesson answer": (_LESSONS, ""),
    "lesson hint": (_LESSONS, "h"),
    "results show": (_RESULTS, ""),
    "run": (_RUN, ""),
    "array map": (_STRIPE, "g"),
    "array inspect": (_STRIPE, "g"),
    # The Lessons screen uses the seed of the lesson; screen 7 uses its own.
    "fault run": (_LESSONS, "r"),
    "fault points": (_LESSONS, "r"),
    "fault show": (_FAULTS, ""),
    "fault list": (_FAULTS, "a"),
}


def in_app(text: str) -> str:
    """A text of a lesson with the screen and the key of the app in place of each quoted ``raidlab`` command.

    The replacements contain only names of screens and keys, so they fit every language.
    """
    told = _COMMAND.sub(_instead, text)
    return _DISKS.sub(lambda match: match[0].replace(",", ", "), told)


def _instead(match: re.Match[str]) -> str:
    screen, key = key_for(match["command"])
    if not screen:
        return match[0]
    if (typed := match["command"].removeprefix("raidlab exec -- ")) != match["command"]:
        line = typed.strip('"')
        return f"{match['open'] or ''}`{line}` ({screen}){match['close'] or ''}"
    if match["open"] and match["close"]:
        return f"(**{key}**, {screen})" if key else f"({screen})"
    told = f"**{key}** ({screen})" if key else f"**{screen}**"
    return f"{match['open'] or ''}{told}{match['close'] or ''}"


def key_for(command: str) -> tuple[str, str]:
    """(screen, key) of the app's equivalent of a command; both are empty if there is none."""
    words = command.split()[1:]
    for known in (" ".join(words[:2]), words[0] if words else ""):
        if known in _ELSEWHERE:
            return _ELSEWHERE[known]
        if known in _KEYS:
            return _LAB, f"{_key(known)}, Repair" if "repair" in words else _key(known)
    return "", ""


def steps_in_app(done: Iterable[Action]) -> tuple[str, ...]:
    """The solution of a step in the app, one line for each action."""
    return tuple(map(_in_app, done))


def _in_app(action: Action) -> str:
    match action:
        case Create() if action.disks and kind_of_level(action.level) is kinds()[0]:
            return _create(action)
        case Wait():
            return f"{_LAB}: → 100 %"
        case Scrub() if action.action is not ScrubAction.STOP:
            which = "Repair" if action.action is ScrubAction.REPAIR else "Check"
            return f"{_LAB}: {_pressed(action)} → {which} → 100 %"
        case Replace():
            return f"{_LAB}: {_disks(action.disk)} → {_pressed(action)} → {action.new}"
        case Grow() if action.members and not action.members.isdecimal() and not action.level:
            return _grow(action)
        case ShellLine():
            return f"{_COMMANDS}:\n```\n{action.line}\n```"
        case ApartAction():
            return f"{_LESSONS}: **r** Measure"
        case _ if any(action.option_words()) and not getattr(action, action.asks or "-", False):
            # The keys do not support these options.
            return f"`{action.by_hand()}`"
        case _ if action.key and not action.picks and (disk := getattr(action, "disk", "")):
            return f"{_LAB}: {_disks(disk)} → {_pressed(action)}"
        case _ if action.key and not action.picks:
            return f"{_LAB}: {_pressed(action)}"
        case _:
            return f"`{action.by_hand()}`"


def _pressed(action: Action) -> str:
    return f"**{_key(action.words)}** {action.label}"


def _key(cli: str) -> str:
    key = _KEYS[cli].key
    return {"delete": "Del"}.get(key, key)


def _create(action: Create) -> str:
    parts = [title_of(parse_level(action.level).name), _disks(action.disks)]
    if action.chunk:
        parts.append(f"chunk {human_bytes(parse_bytes(action.chunk))}")
    if action.layout == "n2":
        parts.append("near 2")
    if action.bitmap_chunk:
        parts.append(f"bitmap {human_bytes(parse_bytes(action.bitmap_chunk))}")
    if action.policy not in (None, ConsistencyPolicy.RESYNC):
        parts.append(f"policy {action.policy}")
    if action.file_system is not FileSystem.RAW:
        parts.append(action.file_system.value)
    if action.spares:
        parts.append(f"spares {_disks(action.spares)}")
    return f"{_BUILD}: {'; '.join(parts)} → **b**"


def _grow(action: Grow) -> str:
    disks = action.members.split(",")
    add = f"mdadm /dev/{action.array} --add {' '.join(f'/dev/lab/{disk}' for disk in disks)}"
    count = f"$(($(cat /sys/block/{action.array}/md/raid_disks) + {len(disks)}))"
    return f"{_COMMANDS}: `{add}; mdadm --grow /dev/{action.array} --raid-devices={count}`"


def _disks(words: str) -> str:
    return words.replace(",", ", ")
