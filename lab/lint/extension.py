"""What plugins can add to the methodology guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.lint.rules import LintFinding


class FileLint(NamedTuple):
    """The lint of one type of file."""

    suffix: str
    lint: Callable[[str], Iterable[LintFinding]]
    """Gets the text of the file. Raises SpecError if it cannot be read."""


class PublicationLint(NamedTuple):
    """The lint of published studies."""

    names: Callable[[], Sequence[str]]
    """The studies that it knows."""
    lint: Callable[[str], Sequence[LintFinding]]
    """Gets the name of a study. Raises SpecError for an unknown one."""
