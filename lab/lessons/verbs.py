"""The verbs of lessons, with their commands and their keys in the app."""

from __future__ import annotations

from typing import Annotated

from lab.actions import declared_in
from lab.actions.action import Argument, Verb


class ListLessons(Verb, frozen=True, kw_only=True):
    """List the course with your progress."""

    words = "lesson list"


class StartLesson(Verb, frozen=True, kw_only=True):
    """Begin a lesson, or continue it where you left off."""

    words, key, label = "lesson start", "v", "Variant"
    tooltip = "Type a word, such as your name: it selects the sizes, the levels and the disk that fails"
    name: Annotated[
        str,
        Argument("The lesson's id, number or part of its id, or a file's path.", is_placed=True, is_needed=True),
    ]
    seed: Annotated[str | None, Argument("Your name, or your teacher's seed: it selects the lesson's values.")] = None
    language: Annotated[str | None, Argument("The language, such as en, es or sv.")] = None
    reset: Annotated[bool, Argument("Make all lab disks blank first; this deletes their data.")] = False
    again: Annotated[bool, Argument("Begin again with the first step.")] = False
    anyway: Annotated[bool, Argument("Start even if earlier lessons are not finished.")] = False


class ShowLesson(Verb, frozen=True, kw_only=True):
    """Show the explanation of the last step, and what to do now."""

    words = "lesson show"


class Answer(Verb, frozen=True, kw_only=True):
    """Answer the question of this step, or give the number that it asks for."""

    words, key, label = "lesson answer", "t", "Type number"
    tooltip = "Type the number that this step asks for"
    text: Annotated[
        str,
        Argument("One of the options of the step, or the number that it asks for.", is_placed=True, is_needed=True),
    ]


class CheckStep(Verb, frozen=True, kw_only=True):
    """Check this step on the real lab. Exits with status 1 if something is missing."""

    words = "lesson check"


class LessonHint(Verb, frozen=True, kw_only=True):
    """Show one more hint for this step; the third is the complete answer."""

    words, key, label = "lesson hint", "h", "Hint"
    tooltip = "One more hint for this step; the third is the answer"


class DoStep(Verb, frozen=True, kw_only=True):
    """Let the lab do this step for you, with the same commands that you would type."""

    words, key, label = "lesson do", "o", "Do it"
    tooltip = "Have the lab do this step, with the same commands that you would type"
    plan: Annotated[bool, Argument("Print the commands of this step, as its last hint does.")] = False


class Measure(Verb, frozen=True, kw_only=True):
    """Run a measurement of the open lesson on its own emulated drives, and check the step."""

    words, key, label = "lesson measure", "r", "Measure"
    tooltip = "Run the measurement of this step on its own emulated drives"
    name: Annotated[str, Argument("The measurement's name, as given in the step.", is_placed=True, is_needed=True)]


class ResetLesson(Verb, frozen=True, kw_only=True):
    """Make all lab disks blank and begin the open lesson again, with the same seed."""

    words, key, label = "lesson reset", "z", "Restart"
    tooltip = "Blank the disks, and start the lesson again"


class LeaveLesson(Verb, frozen=True, kw_only=True):
    """Close the open lesson; its progress is kept."""

    words, key, label = "lesson leave", "escape", "Course"
    tooltip = "Close the lesson; its progress is kept"


VERBS = declared_in(__name__)
