"""Verbs for drills, which are commands, keys of the app, and lines typed in the text mode."""

from __future__ import annotations

from typing import Annotated

from lab.actions import declared_in
from lab.actions.action import Argument, Verb


class ListDrills(Verb, frozen=True, kw_only=True):
    """List the drills with your progress."""

    words = "drill list"


class StartDrill(Verb, frozen=True, kw_only=True):
    """Make a disaster on the lab's disks, and show what an administrator would see."""

    words, key, label = "drill start", "v", "Variant"
    tooltip = "Type a word, such as your name: it varies the disks, sizes and levels"
    name: Annotated[
        str,
        Argument(
            "The drill's id, its number or part of its id, or the path of a drill file.", is_placed=True, is_needed=True
        ),
    ]
    seed: Annotated[
        str | None, Argument("Your name, or a word from your teacher: each word gives a different variant.")
    ] = None
    reset: Annotated[bool, Argument("Make all lab disks blank first, which deletes their data.")] = False
    again: Annotated[bool, Argument("Start over even if the drill is open. Your work is lost.")] = False
    exam: Annotated[
        float | None, Argument("Start an exam with this time limit in minutes: no hints, and the first attempt counts.")
    ] = None


class DrillStatus(Verb, frozen=True, kw_only=True):
    """Show the task and the progress of the drill."""

    words = "drill status"


class DrillHint(Verb, frozen=True, kw_only=True):
    """Show one more hint. It costs nothing, but is recorded."""

    words, key, label = "drill hint", "h", "Hint"
    tooltip = "One more hint; it costs nothing, but is recorded"


class Commit(Verb, frozen=True, kw_only=True):
    """Declare that from now on you will write to the disks themselves."""

    words, key, label = "drill commit", "c", "Commit"
    tooltip = "From now on you write to the disks themselves"


class ResetDrill(Verb, frozen=True, kw_only=True):
    """Restore the disks as they were when the drill began."""

    words, key, label = "drill reset", "z", "Reset"
    tooltip = "Restore the disks as they were when the drill began"


class Debrief(Verb, frozen=True, kw_only=True):
    """End the drill, and show the verdict on the data and what an expert would have done."""

    words, key, label = "drill debrief", "d", "Debrief"
    tooltip = "End the drill, and show the verdict on the data and what an expert would have done"
    name: Annotated[
        str | None, Argument("An ended drill, whose page is shown again; 'latest' is the newest.", is_placed=True)
    ] = None
    as_it_is: Annotated[
        bool, Argument("End it even if no running array has the data, although one could be started.")
    ] = False
    array: Annotated[str, Argument("The array that has the data; by default, the one with the drill's files.")] = ""


class LeaveDrill(Verb, frozen=True, kw_only=True):
    """Give up the drill without a verdict, and leave the disks as they are."""

    words, key, label = "drill leave", "x", "Give up"
    tooltip = "Close the drill without a verdict"


class ClearDisks(Verb, frozen=True, kw_only=True):
    """Blank the disks that an ended drill used, which deletes their data."""

    words, key, label = "drill clear", "b", "Clear disks"
    tooltip = "Blank the disks that the last drill used"


VERBS = declared_in(__name__)
