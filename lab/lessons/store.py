"""State between commands: the open lesson, the student's seed and language, and the progress in every lesson.

::

    <state>/lessons/desk.json       the open lesson, the student's seed and language
    <state>/lessons/ID.json         the progress in one lesson
    <state>/lessons/ID-NAME.toml    a measurement of a lesson with the seed filled in, for 'raidlab run'
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from lab.errors import LessonError, ResultError
from lab.gates.names import checked_name
from lab.gates.own import read_own_json
from lab.host.files import write_file
from lab.lessons.engine import FORMAT_VERSION, Progress
from lab.machine.state_folder import StateFolder
from lab.old_names import ANSWERS, STEPS

T = TypeVar("T", bound=msgspec.Struct)


class StudentState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a student's state that is common to all lessons."""

    lesson: str = ""
    """Id of the open lesson, or the path of its file; empty: none."""
    seed: str = ""
    language: str = ""
    """Empty: not chosen."""


class LessonStore:
    """Reads and writes files below ``<state>/lessons``, each replaced atomically."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._folder = state.root / "lessons"

    def desk(self) -> StudentState:
        """The state common to all lessons; the default if no readable file exists."""
        try:
            return self._read("desk.json", StudentState) or StudentState()
        except LessonError:
            return StudentState()

    def keep_desk(self, desk: StudentState) -> None:
        """Store the state common to all lessons. Raises LessonError if it cannot be written."""
        self._write("desk.json", msgspec.json.encode(desk))

    def progress(self, lesson_id: str) -> Progress | None:
        """The progress in a lesson; None if it was never begun. Raises LessonError if the file is damaged."""
        found = self._read(f"{lesson_id}.json", Progress)
        if found and found.format_version > FORMAT_VERSION:
            raise LessonError(
                f"the progress in {lesson_id} was written by a newer raidlab",
                hint=f"work with that one, or start again: raidlab lesson start {lesson_id} --again",
            )
        if found and found.format_version == 1:
            names, answers = STEPS.get(lesson_id, {}), ANSWERS.get(lesson_id, {})
            steps = {
                names.get(step, step): msgspec.structs.replace(done, answer=answers.get(done.answer, done.answer))
                for step, done in found.steps.items()
            }
            found = msgspec.structs.replace(found, format_version=FORMAT_VERSION, steps=steps)
        return found

    def keep_progress(self, progress: Progress) -> None:
        """Store the progress in a lesson. Raises LessonError if it cannot be written."""
        self._write(f"{progress.lesson}.json", msgspec.json.format(msgspec.json.encode(progress), indent=1))

    def keep_experiment(self, name: str, text: str) -> Path:
        """Store an experiment file for ``raidlab run``; returns its path."""
        return self._write(f"{name}.toml", text.encode())

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            return read_own_json(self._path(name), kind, error=LessonError)
        except FileNotFoundError:
            return None
        except LessonError as error:
            again = "or start the lesson again: raidlab lesson start NAME --again"
            raise LessonError(error.message, hint=f"{error.hint}, {again}") from None

    def _write(self, name: str, data: bytes) -> Path:
        path = self._path(name)
        self._state.make(self._folder, what="the folder for lessons")
        try:
            write_file(path, data)
        except ResultError as error:
            hint = "free some room, or choose another state folder with RAIDLAB_STATE=FOLDER"
            raise LessonError(error.message, hint=hint) from error
        return path

    def _path(self, name: str) -> Path:
        return self._folder / checked_name(name, "file of a lesson", error=LessonError)
