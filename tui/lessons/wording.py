"""Lessons name commands of the shell; in the app the same things are keys. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from lab.arrays.filesystem import FileSystem
from lab.arrays.level_names import parse_level
from lab.arrays.spec import ConsistencyPolicy
from lab.gates.numbers import parse_bytes
from lab.lessons import actions, blocks, faults
from lab.lessons.actions import LessonAction
from lab.units import human_bytes
from tui.actions import ACTIONS
from tui.drafts import title_of

_COMMAND = re.compile(r"(?P<open>\()?[`'](?P<command>raidlab [^`'\n]+)[`'](?P<close>\))?")
_DISKS = re.compile(r"\bdisk\d\d(?:,disk\d\d)+")
_LAB, _BUILD, _RUN, _RESULTS, _LESSONS = "1 Lab", "2 Build", "3 Run", "4 Results", "6 Lessons"
_COMMANDS, _FAULTS, _STRIPE, _FLEET = "5 Commands", "7 Faults", "8 Stripe", "0 Fleet"
_KEYS = {action.cli: action for action in ACTIONS}
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
    "fleet": (_FLEET, ""),
    "array map": (_STRIPE, "g"),
    "array inspect": (_STRIPE, "g"),
    "fault run": (_FAULTS, "r"),
    "fault points": (_FAULTS, "r"),
    "fault show": (_FAULTS, ""),
    "fault list": (_FAULTS, "a"),
}


def in_app(text: str) -> str:
    """A text of a lesson with every quoted ``raidlab`` command told as the app's screen and key for it.

    Only names of screens and keys take its place, so it is right in every language.
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
    """Where and with which key the app does what a command does; both empty if it does not."""
    words = command.split()[1:]
    for known in (" ".join(words[:2]), words[0] if words else ""):
        if known in _ELSEWHERE:
            return _ELSEWHERE[known]
        if known in _KEYS:
            return _LAB, f"{_key(known)}, Repair" if "repair" in words else _key(known)
    return "", ""


def steps_in_app(done: Iterable[LessonAction]) -> tuple[str, ...]:
    """How a step's own solution is done in the app, one line for each action."""
    return tuple(_DONE[type(action)](action) for action in done)


def _key(cli: str) -> str:
    key = _KEYS[cli].key
    return {"delete": "Del"}.get(key, key)


def _create(action: LessonAction) -> str:
    assert isinstance(action, actions.Create)
    parts = [title_of(parse_level(action.level).name), _disks(action.disks)]
    if action.chunk:
        parts.append(f"chunk {human_bytes(parse_bytes(action.chunk))}")
    if action.layout == "n2":
        parts.append("near 2")
    if action.bitmap_chunk:
        parts.append(f"bitmap {human_bytes(parse_bytes(action.bitmap_chunk))}")
    if action.policy is not ConsistencyPolicy.RESYNC:
        parts.append(f"policy {action.policy.value}")
    if action.file_system is not FileSystem.RAW:
        parts.append(action.file_system.value)
    if action.spares:
        parts.append(f"spares {_disks(action.spares)}")
    return f"{_BUILD}: {'; '.join(parts)} → **b**"


def _on_disk(cli: str) -> Callable[[LessonAction], str]:
    return lambda action: f"{_LAB}: {_disks(getattr(action, 'disk', ''))} → **{_key(cli)}** {_KEYS[cli].label}"


def _on_array(cli: str) -> Callable[[LessonAction], str]:
    return lambda _: f"{_LAB}: **{_key(cli)}** {_KEYS[cli].label}"


def _scrub(action: LessonAction) -> str:
    which = "Repair" if isinstance(action, actions.Scrub) and action.repair else "Check"
    return f"{_LAB}: **{_key('array scrub')}** Scrub → {which} → 100 %"


def _replace(action: LessonAction) -> str:
    assert isinstance(action, actions.Replace)
    return f"{_on_disk('array replace')(action)} → {action.new}"


def _grow(action: LessonAction) -> str:
    assert isinstance(action, actions.Grow)
    add = f"mdadm /dev/{action.array} --add /dev/lab/{action.disk}"
    return f"{_COMMANDS}: `{add}; mdadm --grow /dev/{action.array} --raid-devices={action.members}`"


def _shell_line(action: LessonAction) -> str:
    assert isinstance(action, actions.ShellLine)
    return f"{_COMMANDS}:\n```\n{action.line}\n```"


def _disks(words: str) -> str:
    return words.replace(",", ", ")


_DONE: dict[type[LessonAction], Callable[[LessonAction], str]] = {
    actions.Create: _create,
    actions.Destroy: _on_array("array destroy"),
    actions.Fail: _on_disk("array fail"),
    actions.Remove: _on_disk("array remove"),
    actions.Add: _on_disk("array add"),
    actions.ReAdd: _on_disk("array re-add"),
    actions.Scrub: _scrub,
    actions.Wait: lambda _: f"{_LAB}: → 100 %",
    actions.Corrupt: _on_disk("array corrupt"),
    actions.WriteMark: _on_array("array mark"),
    actions.VerifyMark: _on_array("array verify"),
    blocks.BadBlock: _on_disk("array bad-block"),
    faults.PlayScenario: lambda _: f"{_LESSONS}: **r** Measure",
    faults.TryPoints: lambda _: f"{_LESSONS}: **r** Measure",
    actions.StopArray: _on_array("array stop"),
    actions.Replace: _replace,
    actions.Grow: _grow,
    actions.ShellLine: _shell_line,
    actions.RunMeasurement: lambda _: f"{_LESSONS}: **r** Measure",
}
