"""The parts that the lint of publications adds to raidlab."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.lint.rules import FileLint, LintFinding, PublicationLint
from lab.plugins import Plugin


def _lint_script(text: str) -> Iterable[LintFinding]:
    from lab.publications.recipes import lint_script_file

    return lint_script_file(text)


def _names() -> Sequence[str]:
    from lab.publications.recipes import built_in_names

    return built_in_names()


def _lint_study(name: str) -> Sequence[LintFinding]:
    from lab.publications.recipes import find_publication, lint_publication

    return lint_publication(find_publication(name))


PLUGIN = Plugin((FileLint(".sh", _lint_script), PublicationLint(_names, _lint_study)), folder=Path(__file__).parent)
