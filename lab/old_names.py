"""Old names in files of earlier versions: accepted on input, never written.

Version 1 of experiments, lessons and results, and lists of disks from before those, use ``personality`` for the model
of an emulated drive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_KEYS = {"personality": "model"}
OLD_DRIVES_FOLDER = "personalities"
"""The old name of the folder of the user's own drive models."""
STEPS = {"11-scrub-and-silent-corruption": {"mend": "repair"}}
"""Lesson -> a step's old id -> its current id."""
ANSWERS = {"11-scrub-and-silent-corruption": {"mends": "repairs"}}
"""Lesson -> an option's old id -> its current id."""
DRAWN_AS = {("12-choosing-a-level", "purpose"): "wish"}
"""Lesson and variable -> the name that seeds its random value, so that a seed gives a student the same value as
before."""


def with_new_keys(tree: Any) -> Any:
    """A tree of tables, lists and values with every old key renamed to the current one."""
    if isinstance(tree, dict):
        return {_KEYS.get(key, key): with_new_keys(value) for key, value in tree.items()}
    return [with_new_keys(each) for each in tree] if isinstance(tree, list) else tree


def with_new_arguments(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action of a lesson file with its current arguments."""
    match action:
        case {"act": "array.scrub", "repair": bool(repairs), **rest}:
            return {**rest, "act": "array.scrub", "action": "repair" if repairs else "check"}
        case {"act": "array.grow", "disk": disk, **rest}:
            # ``members`` was the resulting number of members, which the disks alone determine.
            return {**rest, "act": "array.grow", "members": disk}
        case _:
            return dict(action)


_ARRAY_STEPS = {
    **{word: f"array.{word}" for word in ("create", "fail", "remove", "add", "re-add", "replace", "stop", "assemble")},
    **{"scrub": "array.scrub", "wait": "array.wait", "pull": "array.pull", "plug": "array.plug-in", "run": "shell"},
}
_STEP_KEYS = {"do": "act", "member": "disk", "by": "new", "command": "line"}


def with_new_scenario_step(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A step of a scenario of version 1 with its current names; one that named several disks becomes several."""
    word = step.get("do", "")
    renames = {**_STEP_KEYS, "command": "command"} if word in ("start", "under-load") else _STEP_KEYS
    new = {renames.get(key, key): value for key, value in step.items()}
    new["act"] = _ARRAY_STEPS.get(word, word)
    match new:
        case {"act": "array.scrub", "waits": False, "action": action, **rest}:
            yield {**rest, "act": "set", "file": "sync_action", "value": action}
        case {
            "act": "array.fail" | "array.remove" | "array.add" | "array.re-add" as act,
            "members": [*members],
            **rest,
        }:
            yield from ({**rest, "act": act, "disk": member} for member in members)
        case {"act": "array.replace", "disk": old, "new": other, **rest}:
            # A step of its own had added the disk.
            yield {**rest, "act": "shell", "line": f"mdadm /dev/md0 --replace @{old} --with @{other}"}
        case {"act": "array.assemble" | "restart" | "sum" as act}:
            options = {} if act == "sum" else {"options": new.pop("options", [])}
            yield {"disks" if key == "members" else key: value for key, value in new.items()} | options
        case _:
            yield {key: value for key, value in new.items() if key != "waits" or word != "scrub"}
