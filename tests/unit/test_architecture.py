"""docs/architecture.md matches the tree: its picture, packages and programs, and every path and name in it."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter

import pytest

from docs.pictures.packages import PAGE, REPOSITORY, drawn
from tests.unit.test_shape import STAND_ALONE

TEXT = PAGE.read_text(encoding="utf-8")
CODE = sorted(
    {*re.findall(r"`([^`\n]+)`", TEXT), *re.findall(r"`([^`\n]+)`", (REPOSITORY / "CONTRIBUTING.md").read_text())}
)
PATHS = [each for each in CODE if re.fullmatch(r"(?!\.venv)[\w.-]+(/[\w.-]+)+/?|[\w-]+\.(py|toml|md)", each)]
MODULES = [each for each in CODE if re.fullmatch(r"(lab|tui)(\.\w+)+", each)]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading, without the header row."""
    table = TEXT.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]


def test_the_picture_of_the_packages_is_what_the_imports_give() -> None:
    assert drawn(TEXT) == TEXT, "next: make architecture"


APP = (REPOSITORY / "docs/app.md").read_text(encoding="utf-8")
FUNCTIONS = sorted({*re.findall(r"`([\w.]+)` in `((?:lab|tui)/[\w/]+\.py)`", TEXT + APP)})


@pytest.mark.parametrize(("name", "path"), FUNCTIONS)
def test_every_function_exists(name: str, path: str) -> None:
    module = import_module(path.removesuffix(".py").replace("/", "."))
    # Not an attribute that the module or class imports or inherits.
    assert attrgetter(name)(module).__module__ == module.__name__


def test_every_path_exists() -> None:
    assert [path for path in PATHS if not (REPOSITORY / path).exists()] == []
    of_app = {*re.findall(r"`((?:[\w*-]+/)*[\w*-]+\.py)`", APP)}
    places = ("", "tui/**/", "tests/tui/**/")
    assert of_app == {name for name in of_app for place in places if any(REPOSITORY.glob(place + name))}


def test_every_module_exists() -> None:
    assert [name for name in MODULES if not find_spec(name)] == []


def test_likely_changes_begin_at_a_file() -> None:
    changes = rows("I want to …")
    assert len(changes) >= 20
    assert all(len(row) == 3 and row[1].strip("`") in PATHS for row in changes)


def test_every_package_is_documented_and_no_other() -> None:
    documented = {name for row in rows("package") for name in re.findall(r"`lab\.(\w+)`", row[0])}
    found = {
        path.stem for path in (REPOSITORY / "lab").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert documented == found - {"__init__"}


def test_every_standalone_program_is_documented() -> None:
    documented = {row[0].strip("`") for row in rows("program")}
    programs = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "lab").glob("*/*_program.py")}
    assert documented >= STAND_ALONE | programs
