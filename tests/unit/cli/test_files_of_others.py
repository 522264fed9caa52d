"""Files written by somebody else, through the commands that read them: each gives an answer or an error, and soon."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.cli.main import run
from lab.disks import kinds
from lab.disks.kinds import DriveModel
from lab.errors import LabError
from lab.experiments import schema
from lab.experiments.linting import lint_experiment
from lab.experiments.schedule import estimated_seconds, planned_keys
from lab.experiments.schema import Experiment
from lab.lessons.course import COURSE_FOLDER, Lesson, LessonFiles, Translation, lesson_problems
from lab.tomlfile import convert_tree
from lab.units import MIB
from lab.workloads.jobs import JobTarget, PathKind, dd_invocation, fio_invocations
from lab.workloads.workload import BUILT_IN_FOLDER, LoadProgram, Workload
from tests.changed import change_tree

SECONDS = 1.0
EXPERIMENTS = sorted(schema.BUILT_IN_FOLDER.glob("*.toml"))
LESSONS = sorted(path for path in COURSE_FOLDER.glob("*.toml") if path.stem.count(".") == 0)
WORKLOADS = sorted(BUILT_IN_FOLDER.glob("*.toml"))
DRIVES_FOLDER = Path(kinds.__file__).with_name("drives")
KINDS: list[tuple[type[msgspec.Struct], list[Path]]] = [
    (Experiment, EXPERIMENTS),
    (Lesson, LESSONS),
    (Translation, sorted(COURSE_FOLDER.glob("*.??.toml"))),
    (Workload, WORKLOADS),
    (DriveModel, sorted(DRIVES_FOLDER.glob("*.toml"))),
]
STRANGE = (
    *(2**31, 10**30, 999_999_999, 1e-300, 1e300, float("inf"), float("nan")),
    *("a\nexec_prerun=touch x", "{", "{seed.a}", "{filename}", "9" * 300, "1T", "512", "0", "nan"),
    *("shr", "adapt5", "md0", "disk01", "x" * 1000, "md0; reboot"),
)
QUICK = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def invocations_of(workload: Workload) -> None:
    target = JobTarget("/dev/md0", PathKind.DEVICE, 64 * MIB)
    if workload.program is LoadProgram.DD:
        dd_invocation(workload, target)
    else:
        fio_invocations(workload, target)


def error_of(kind: type[msgspec.Struct], tree: dict[str, Any]) -> LabError | None:
    try:
        found = convert_tree(tree, kind, source="x")
        if isinstance(found, Experiment):
            schema.check(found)
            lint_experiment(found)
            assert len(planned_keys(found)) <= schema.MOST_MEASUREMENTS
            assert math.isfinite(estimated_seconds(found))
        elif isinstance(found, Lesson):
            lesson_problems(LessonFiles(found, Path("01-other.toml"), {}))
        elif isinstance(found, Workload):
            invocations_of(found)
    except LabError as error:
        return error
    return None


@QUICK
@given(st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_any_tree_becomes_a_struct_or_an_error(
    kind: tuple[type[msgspec.Struct], list[Path]], draw: random.Random
) -> None:
    tree: dict[str, Any] = msgspec.toml.decode(draw.choice(kind[1]).read_bytes())
    for _ in range(draw.randint(1, 3)):
        change_tree(tree, draw, STRANGE)
    began = time.process_time()
    error = error_of(kind[0], tree)
    assert time.process_time() - began < SECONDS
    assert error is None or (error.hint and len(str(error)) < 6000)


COMMANDS = (("lint",), ("run", "--plan"), ("run",), ("lesson", "verify"))


def answered(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> str:
    began = time.process_time()
    status = run([*words])
    printed = capfd.readouterr()
    assert 0 <= status <= 4
    assert "this should not happen" not in printed.err
    assert "Traceback" not in printed.err
    assert time.process_time() - began < 2 * SECONDS
    return printed.err


@pytest.mark.parametrize("words", COMMANDS)
def test_toml_that_nests_too_deeply_is_refused(
    words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "01-other.toml"
    path.write_bytes(b"x = " + b"[" * 10_000)
    assert "01-other.toml" in answered((*words, str(path)), capfd)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_workload_that_runs_a_command_is_named_and_refused(
    words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    workload = (BUILT_IN_FOLDER / "rand-read-4k.toml").read_text(encoding="utf-8")
    evil = tmp_path / "evil.toml"
    evil.write_text(f'{workload}engine = "psync\\nexec_prerun=touch {tmp_path}/out"\n', encoding="utf-8")
    experiment = f"""format_version = 2
id = "other"
title = "Other"
question = "What?"
[[arrays]]
id = "a"
level = "raid0"
members = 2
[[jobs]]
id = "j"
workload = "{evil}"
"""
    lesson = (LESSONS[5].read_text(encoding="utf-8")).replace('workload = "rand-write-4k"', f'workload = "{evil}"')
    assert str(evil) in lesson
    path = tmp_path / f"{LESSONS[5].stem}.toml"
    assert "foreign-command" in answered((*words[:1], str(evil)), capfd) or words[0] != "lint"
    path.write_text(lesson if words[0] == "lesson" else experiment, encoding="utf-8")
    assert "foreign-command" in answered((*words, str(path)), capfd)
    assert "foreign-command" in answered(("load", str(evil), "disk01"), capfd)


def test_values_of_a_lesson_that_double_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = LESSONS[0].read_text(encoding="utf-8")
    grown = '\n[seed.v0]\none_of = ["xxxxxxxx"]\n'
    for n in range(1, 60):
        grown += f'[seed.v{n}]\ncase = "v0"\n[seed.v{n}.of]\nxxxxxxxx = "{{seed.v{n - 1}}}{{seed.v{n - 1}}}"\n'
    names = "abcdefghijklmnopqrstuvwxyz"
    for n in range(59, -1, -1):
        grown = grown.replace(f"v{n}", f"v_{names[n // 26]}{names[n % 26]}")
    path = tmp_path / f"{LESSONS[0].stem}.toml"
    path.write_text(text + grown, encoding="utf-8")
    assert "longer than 500 characters" in answered(("lesson", "verify", str(path)), capfd)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recipe.sh", "for a in" + " " * 60_000),
        ("recipe.sh", "for a in b; do " * 4_000),
        ("recipe.sh", "for a in " + "b " * 1_900 + "; do " + "echo $a " * 400 + "; done\n"),
        ("recipe.sh", "for a in b; do" + " " * 60_000 + "don"),
        ("recipe.sh", "'" * 60_001),
        ("recipe.sh", "[" * 60_000),
        ("recipe.sh", "x=" * 30_000),
        ("recipe.sh", "case x in " + "a " * 16_000),
        ("recipe.sh", "case x in " + "a) b ;; " * 8_000 + "esac"),
        ("recipe.sh", "cat <<E\n" + "x\n" * 30_000),
        ("recipe.sh", "a " * 30_000),
        ("recipe.sh", "if a; then " * 5_000),
        ("recipe.sh", "{ " * 15_000),
        ("recipe.sh", "$(" * 20 + "a" + ")" * 20),
        ("recipe.sh", "a{b,c}" * 10_000),
        ("recipe.sh", "fio " + "--name=x " * 6_000),
        ("job.fio", "'" * 60_001),
        ("job.fio", "[" * 60_000),
        ("job.fio", "\n[a]" * 15_000),
        ("job.fio", "x=" * 30_000),
        ("job.fio", "[global]\n" + "a=1\n" * 15_000),
        ("job.fio", "[a]\n" * 480),
    ],
    ids=lambda text: repr(text[:16]),
)
def test_no_recipe_takes_long_to_lint(name: str, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    answered(("lint", str(tmp_path / name)), capfd)
