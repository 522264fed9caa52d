"""Drills as files: the built-in ones are sound, their times are in order, and docs/drills.md has every key."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from lab.checks.catalogue import DrillCheck
from lab.drills.desk import moment_of
from lab.drills.schema import (
    DataStep,
    Drill,
    DrillGoal,
    DrillStep,
    catalogue,
    drill_problems,
    read_drill,
    ready,
)
from lab.drills.verdict import DrillVerdict
from lab.errors import SpecError
from tests.unit.lessons.test_validation import row

DAYS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, hours=day % 24, minutes=7) for day in range(0, 366, 3)]


@pytest.mark.parametrize("path", catalogue().values(), ids=catalogue())
def test_a_drill_goes_forward_in_time_on_each_day_of_the_year(path: Path) -> None:
    whens = [step.when for step in read_drill(path).setup if step.when]
    assert whens, "its superblocks would all be of today"
    for now, seed in itertools.product(DAYS, ("", "ana", "ben")):
        moments = [moment_of(when, now, f"{path.stem}/{seed}") for when in whens]
        assert moments == sorted(moments), (now, whens)
        assert moments[-1] < now
        # The first and the last must have different dates.
        assert moments[-1] - moments[0] > timedelta(days=30)


def test_a_season_is_over_and_less_than_two_years_ago() -> None:
    for now in DAYS:
        for when in ("spring", "summer"):
            assert timedelta(days=59) < now - moment_of(when, now, "x") < timedelta(days=500)


def test_another_word_means_another_moment() -> None:
    assert len({moment_of("spring", DAYS[5], word) for word in ("ana", "ana", "ben")}) == 2


@pytest.mark.parametrize("when", ["soon", "0 days ago", "1000 days ago", "in spring", "3 days ago;reboot"])
def test_an_invalid_time_is_refused_with_an_example(when: str) -> None:
    with pytest.raises(SpecError) as caught:
        moment_of(when, DAYS[0], "x")
    assert "2 weeks ago" in caught.value.hint


DOCS = (Path(__file__).parents[3] / "docs" / "drills.md").read_text(encoding="utf-8")
BEGINNINGS = {line.split(" | ")[0].strip("| ") for line in DOCS.splitlines() if line.startswith("| ")}


def example(folder: Path) -> Path:
    """Write the example in docs/drills.md to a file."""
    path = folder / "40-stale-mirror.toml"
    path.write_text(DOCS.partition("\n```toml\n")[2].partition("\n```\n")[0], encoding="utf-8")
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


FILES = sorted(catalogue().items())
FIRST = read_drill(FILES[0][1])


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_drill_is_sound_has_sources_and_varies_with_the_word(name: str, path: Path) -> None:
    drill = read_drill(path)
    assert drill.sources
    cases = [ready(drill, path, word) for word in ("", *(f"student-{n}" for n in range(30)))]
    assert len({tuple(case.values.items()) for case in cases}) >= 8, name
    for case in cases[:3]:
        assert "{seed." not in msgspec.json.encode(replace(case.drill, seed={})).decode(), name


def problems(**changes: object) -> str:
    return "; ".join(drill_problems(replace(FIRST, **changes), FIRST.id))


def test_problems_of_a_drill_file_are_reported() -> None:
    assert problems() == ""
    assert "1 right way:" in problems(right=FIRST.right[:1])
    assert "2 wrong ways" in problems(wrong=FIRST.wrong[:2])
    assert "2 hints" in problems(hints=FIRST.hints[:2])
    assert "two ways have the id" in problems(right=(FIRST.right[0], FIRST.right[0]))
    assert "no mistake 'x'" in problems(wrong=(*FIRST.wrong, replace(FIRST.wrong[0], id="y", mistake="x")))
    assert "write id" in problems(id="other")
    assert "format_version is 9" in problems(format_version=9)
    assert "seed variable" in problems(symptom="{seed.levle}")


@pytest.mark.parametrize("step", [{"run": "true", "commit": True}, {}, {"run": "  "}])
def test_a_step_is_one_thing(step: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        msgspec.convert(step, type=DrillStep)
