"""docs/drills.md lists every key, verdict and sign of drills as the code has them, and its example is sound."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from lab.checks.drills import DrillCheck
from lab.drills.schema import DataStep, Drill, DrillGoal, read_drill
from lab.drills.verdict import DrillVerdict
from tests.unit.lessons.test_reference import row

DOCS = (Path(__file__).parents[3] / "docs" / "drills.md").read_text(encoding="utf-8")
BEGINNINGS = {line.split(" | ")[0].strip("| ") for line in DOCS.splitlines() if line.startswith("| ")}


def example(folder: Path) -> Path:
    """The drill of the page as a file."""
    found = re.search(r"^```toml\n(.*?)^```$", DOCS, flags=re.DOTALL | re.MULTILINE)
    assert found
    path = folder / "40-stale-mirror.toml"
    path.write_text(found[1], encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", DrillCheck.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_sign_is_documented(kind: type[DrillCheck]) -> None:
    assert row(str(kind.__struct_config__.tag), kind) in DOCS.splitlines()


def test_every_key_is_documented() -> None:
    keys = {field.name for kind in (Drill, DrillGoal) for field in msgspec.structs.fields(kind)}
    assert {f"`{key}`" for key in keys} <= BEGINNINGS
    assert {f'`data = "{step}"`' for step in DataStep} <= BEGINNINGS
    assert set(DrillVerdict) <= BEGINNINGS


def test_the_example_is_sound(tmp_path: Path) -> None:
    assert read_drill(example(tmp_path)).id == "40-stale-mirror"
