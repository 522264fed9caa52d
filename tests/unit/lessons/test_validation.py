"""Validation of lesson files and translations; docs/lessons.md has every name that they may use."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from lab.checks.catalogue import CHECKS, SOURCES
from lab.cli.main import run
from lab.drills.schema import find_drill
from lab.errors import SpecError
from lab.experiments.linting import lint_experiment
from lab.lessons.course import (
    ACTIONS,
    COURSE_FOLDER,
    WORDS_FOLDER,
    built_in_course,
    check_file,
    course_problems,
    lesson_problems,
    placeholders,
    read_course,
    read_lesson,
    word_languages,
    words_in,
)
from tests.unit.lessons.samples import LESSON, TRANSLATION, write

DOCS = (Path(__file__).parents[3] / "docs" / "lessons.md").read_text(encoding="utf-8")


def row(name: str, kind: type[msgspec.Struct]) -> str:
    """The line of a name in the documentation. A question mark follows each optional key."""
    fields = msgspec.structs.fields(kind)
    keys = ", ".join(f"{field.name}{'' if field.required else '?'}" for field in fields)
    summary = (kind.__doc__ or "").strip().partition("\n")[0].replace("``", "`")
    return f"| `{name}` | {keys} | {summary} |"


@pytest.mark.parametrize(
    ("name", "kind"), [*CHECKS.items(), *ACTIONS.items(), *SOURCES.items()], ids=lambda each: str(each)
)
def test_every_name_that_a_lesson_may_use_is_documented(name: str, kind: type[msgspec.Struct]) -> None:
    assert row(name, kind) in DOCS.splitlines()


def test_the_lesson_in_the_documentation_is_sound(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", DOCS, flags=re.DOTALL | re.MULTILINE)
    lesson, translation = blocks[0], blocks[-1]
    (tmp_path / "20-my-mirror.toml").write_text(lesson, encoding="utf-8")
    (tmp_path / "20-my-mirror.sv.toml").write_text(translation, encoding="utf-8")
    assert run(["lesson", "verify", str(tmp_path / "20-my-mirror.toml")]) == 0
    assert "20-my-mirror: no errors" in capfd.readouterr().out


def test_commands_in_lessons_are_quoted_so_that_the_app_can_show_them_as_keys() -> None:
    for files in built_in_course().lessons:
        for language in files.languages:
            for step in files.ready("", language).steps:
                for text in (step.text, step.explain, *step.hints, *(mistake.hint for mistake in step.mistakes)):
                    bare = re.sub(r"[`'][^`'\n]*raidlab [^`'\n]*[`']", "", text)
                    assert "raidlab " not in bare, (files.lesson.id, language, step.id, text)


def test_the_course_is_sound() -> None:
    ids = built_in_course().ids
    assert [int(each[:2]) for each in ids] == list(range(1, len(ids) + 1))
    assert course_problems(built_in_course()) == ()


def test_no_stray_files_lie_in_the_course() -> None:
    folders = {COURSE_FOLDER, *(files.path.parent for files in built_in_course().lessons)}
    found = [path for folder in folders for path in folder.iterdir()]
    assert {path.name.split(".")[0] for path in found} == set(built_in_course().ids)
    assert {path.suffix for path in found} == {".toml"}


READ_ERRORS = [
    ('title = "First"', 'titel = "First"', "unknown key 'titel': did you mean 'title'?"),
    ('explain = "Because."', 'explains = "Because."', "unknown key 'steps[0].explains': did you mean 'explain'?"),
    ('id = "01-first"', 'id = "01-first', "is not TOML"),
]


@pytest.mark.parametrize(("old", "new", "words"), READ_ERRORS, ids=[each[2] for each in READ_ERRORS])
def test_what_cannot_be_read_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_lesson(write(tmp_path, LESSON.replace(old, new, 1)))
    assert "01-first.toml" in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint


def read(value: str, *more: str, question: str = "?") -> str:
    """A reading of a step, before its question."""
    return "\n".join(["[steps.read]", f'question = "{question}"', f"value = {{ {value} }}", *more, "[steps.ask]"])


ERRORS = [
    ("format_version = 2", "format_version = 9", "format_version is 9, but this raidlab reads 2: write 2"),
    ('id = "01-first"', 'id = "01-frist"', 'write id = "01-first"'),
    ("minutes = 5", "minutes = 0", "minutes is 0: write 1 to 60"),
    ("disks = 4", "disks = 40", "disks is 40: write 1 to 16"),
    ('hints = ["one", "two", "{by_hand}"]', 'hints = ["one"]', "step build: it has 1 hints: write 3"),
    ('hints = ["one", "two", "{by_hand}"]', 'hints = ["one", "one", "x"]', "step build: two hints are the same"),
    ('hints = ["one", "two", "{by_hand}"]', 'hints = ["one", "", "x"]', "step build: a hint is empty"),
    ('explain = "Because."', 'explain = " "', "step build: 'explain' is empty"),
    ('say = "Build `md0` of {seed.disks}."', 'say = ""', "step build: 'say' is empty"),
    ('id = "fail"', 'id = "build"', "two steps are called 'build'"),
    ('options = { yes = "yes", no = "no" }', 'options = { yes = "yes" }', "fewer than two options"),
    ('answer = "yes"', 'answer = "yse"', "the answer 'yse' is not an option: did you mean 'yes'?"),
    ('answer = "yes"', 'answer = "{seed.level}"', "the answer 'raid1' is not an option"),
    (
        'that = "array.degraded"',
        'that = "array.degrade"',
        "there is no check 'array.degrade': did you mean 'array.degraded'?",
    ),
    ('that = "array.degraded", ', "", "step fail: a check has no 'that'"),
    ("equals = 1", "equal = 1", "unknown key 'equal': did you mean 'equals'?"),
    ("equals = 1", 'equals = "one"', "equals: Expected `int`, got `str`"),
    ('act = "array.fail"', 'act = "array.fial"', "there is no action 'array.fial': did you mean 'array.fail'?"),
    ('act = "array.fail", disk', 'act = "array.fail", disc', "unknown key 'disc': did you mean 'disk'?"),
    ('do = [{ act = "array.fail", disk = "{seed.victim}" }]', "", "step fail: it has checks, but no solution"),
    (
        'check = [{ that = "array.degraded", equals = 1 }, { that = "scrub.found" }]',
        "",
        "step fail: nothing is checked, so a guess passes",
    ),
    ("Let {seed.victim}", "Let {seed.victm}", "there is no seed variable 'victm': did you mean 'victim'?"),
    ("[steps.ask]", read('get = "array.sise"'), "mean 'array.size'?"),
    ("[steps.ask]", read('get = "array.size"', 'unit = "MB"'), "no unit in lesson 01-first, step build 'MB'"),
    (
        "[steps.ask]",
        read('get = "array.size"', "within_percent = 60.0"),
        "within_percent is 60: write 0 to 10, or a guess may pass",
    ),
    (
        "[steps.ask]",
        read('get = "array.size"', question=" "),
        "step build: its reading has no question: write one",
    ),
    (
        "[steps.ask]",
        read('get = "result.figure", measure = "x", of.array = "a"'),
        "step build: there is no measurement 'x'",
    ),
    ('mistake = "striped"', 'mistake = "stripes"', "there is no mistake 'stripes': did you mean 'striped'?"),
    ('step = "build"', 'step = "bild"', "wrong solution: there is no step 'bild': did you mean 'build'?"),
    ('hint = "That is a RAID 0."', 'hint = ""', "step build: mistake striped needs 'when' or 'types', and 'hint'"),
    ('{ that = "scrub.found" }', '{ that = "result.saved", measure = "speed" }', "there is no measurement 'speed'"),
    (
        'act = "array.fail", disk = "{seed.victim}"',
        'act = "measure", measure = "x"',
        "no measurement of lesson 01-first 'x'",
    ),
    ('level = { one_of = ["raid1", "raid5"] }', "level = { one_of = [] }", "seed.level has 0 of the keys"),
    ("raid5 = 3 }", "raid6 = 3 }", "seed.members has no value for level = raid5"),
    (
        'of = { array = "drive" }',
        'of = { array = "drvie" }',
        "measurement speed has no array 'drvie': did you mean 'drive'?",
    ),
    (
        'workload = "reads" } }',
        'workload = "rads" } }',
        "measurement speed has no workload 'rads': did you mean 'reads'?",
    ),
    ('workload = "rand-read-4k"', 'workload = "rand-raed-4k"', "no workload 'rand-raed-4k'"),
    ('model = "hdd-7200"', 'model = "hdd-720"', "'hdd-720'"),
    ("speed = ", "Speed_1 = ", "measurement 'Speed_1': use lowercase letters"),
]
EXPERIMENT = '''
[measure]
speed = """
title = "t"
question = "q"
repeats = 1

[disks]
kind = "spindle"
model = "hdd-7200"

[[arrays]]
id = "drive"
level = "single"
members = 1

[[jobs]]
id = "reads"
workload = "rand-read-4k"
"""

[[steps]]
'''
RATIO = '{ that = "ratio", measure = "speed", of = { array = "drive" }, to = { array = "drive", workload = "reads" } }'
MEASURED = LESSON.replace("[[steps]]\n", EXPERIMENT, 1).replace('{ that = "scrub.found" }', RATIO)


@pytest.mark.parametrize(("old", "new", "message"), ERRORS, ids=[each[2] for each in ERRORS])
def test_a_mistake_in_a_lesson_is_named_with_its_remedy(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = LESSON if old in LESSON else MEASURED
    assert old in text
    problems = lesson_problems(read_lesson(write(tmp_path, text.replace(old, new, 1))))
    assert any(message in problem for problem in problems), problems
    assert all(problem.startswith("01-first.toml: ") for problem in problems)


def test_a_lesson_without_a_wrong_solution_is_refused(tmp_path: Path) -> None:
    text = "wrong = []\n" + LESSON.partition("[[wrong]]")[0]
    assert "write a [[wrong]]" in "".join(lesson_problems(read_lesson(write(tmp_path, text))))


@pytest.mark.parametrize("text", [LESSON, MEASURED])
def test_the_samples_are_sound(tmp_path: Path, text: str) -> None:
    assert lesson_problems(read_lesson(write(tmp_path, text, sv=TRANSLATION))) == ()


TRANSLATION_ERRORS = [
    ('language = "sv"', 'language = "es"', 'write language = "sv"'),
    ('id = "01-first"', 'id = "02-first"', 'write id = "01-first"'),
    ("format_version = 2", "format_version = 9", "format_version is 9"),
    ("[steps.fail]", "[steps.fial]", "steps.fail is missing: translate it"),
    ("[steps.fail]", "[steps.fial]", "steps.fial is not in the lesson: did you mean 'fail'?"),
    ('no = "nej"', 'nay = "nej"', "steps.build.ask.options.no is missing"),
    ('striped = "Det', 'strped = "Det', "steps.build.mistakes.striped is missing"),
    ('hints = ["ett", "två", "{by_hand}"]', 'hints = ["ett", "två"]', "hints has 2 texts, but the lesson has 3"),
    ('"två", "{by_hand}"]', '"två", "x"]', "steps.build.hints, number 3 lacks {by_hand}"),
    ("av {seed.disks}", "av {seed.victim}", "steps.build.say lacks {seed.disks} and has {seed.victim}"),
    ('explain = "Därför."', 'explain = ""', "steps.build.explain is empty: translate it"),
    ('goal = "Bygg en {seed.level}."', 'goal = "Bygg."', "goal lacks {seed.level}"),
    ('[steps.build.ask]\nquestion = "Snabbare?"\noptions', "#", "steps.build.ask is missing: translate it"),
]


@pytest.mark.parametrize(("old", "new", "message"), TRANSLATION_ERRORS, ids=[each[2] for each in TRANSLATION_ERRORS])
def test_a_translation_has_exactly_the_lessons_texts(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TRANSLATION
    problems = lesson_problems(read_lesson(write(tmp_path, sv=TRANSLATION.replace(old, new, 1))))
    assert any(problem.startswith("01-first.sv.toml: ") and message in problem for problem in problems), problems


def test_a_reading_that_is_not_translated_is_named(tmp_path: Path) -> None:
    text = LESSON.replace("[steps.ask]", read('get = "array.size"', question="{seed.level}?"))
    problems = lesson_problems(read_lesson(write(tmp_path, text, sv=TRANSLATION)))
    assert problems == ("01-first.sv.toml: steps.build.read is missing: translate it",)
    translated = TRANSLATION.replace('explain = "Därför."', 'explain = "Därför."\nread = "?"')
    problems = lesson_problems(read_lesson(write(tmp_path, text, sv=translated)))
    assert problems == ("01-first.sv.toml: steps.build.read lacks {seed.level}: use the same placeholders in braces",)


def test_needed_lessons_exist_and_come_before(tmp_path: Path) -> None:
    for name, need in (("01-first", "02-second"), ("02-second", "01-frist")):
        text = LESSON.replace("01-first", name).replace("minutes = 5", f'minutes = 5\nneeds = ["{need}"]')
        write(tmp_path, text, name)
    problems = course_problems(read_course(sorted(tmp_path.iterdir())))
    assert problems == (
        "01-first.toml: needs '02-second', which does not come before it: change needs or the numbers",
        "02-second.toml: needs '01-frist', which is not a lesson: did you mean '01-first'?",
    )


def test_two_lessons_with_one_number_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, LESSON.replace("01-first", "01-other"), "01-other")
    problems = course_problems(read_course(sorted(tmp_path.iterdir())))
    assert problems == ("two lessons have the number 01: give each its own place",)


def test_one_file_is_checked_with_everything_that_is_wrong_in_it(tmp_path: Path) -> None:
    path = write(tmp_path, LESSON.replace("minutes = 5", 'minutes = 99\nneeds = ["05-failing-and-rebuildin"]'))
    with pytest.raises(SpecError) as caught:
        check_file(path)
    assert "minutes is 99" in caught.value.message
    assert "did you mean '05-failing-and-rebuilding'?" in caught.value.message


def test_lessons_and_drills_are_found_by_number_and_by_part_of_their_names() -> None:
    course = built_in_course()
    assert course.find("5").lesson.id == course.find("failing").lesson.id == "05-failing-and-rebuilding"
    assert {find_drill(word).stem for word in ("3", "03", "03-which-copy", "which")} == {"03-which-copy"}
    assert find_drill("1").stem == "01-dropped-members"
    with pytest.raises(SpecError):
        find_drill("99")
    with pytest.raises(SpecError, match="may mean"):
        course.find("i")
    with pytest.raises(SpecError) as caught:
        course.find("05-failing-and-rebuildin-g")
    assert "did you mean '05-failing-and-rebuilding'?" in caught.value.hint


@pytest.mark.parametrize("seed", ["", "anna", "bo"])
def test_the_course_does_not_measure_what_its_own_lint_would_fault(seed: str) -> None:
    """To save time, lessons measure once and briefly, but the lint must not find fault with their comparisons."""
    for files in built_in_course().lessons:
        for experiment, _ in files.ready(seed).measures.values():
            found = lint_experiment(experiment)
            assert not any(finding.refuses for finding in found), (files.lesson.id, found)
            assert "unequal-members" not in {finding.rule_id for finding in found}, files.lesson.id


def test_all_languages_have_the_same_words_with_the_same_placeholders() -> None:
    def sentences(language: str) -> dict[str, set[str]]:
        tables = msgspec.structs.asdict(words_in(language))
        names = ("wanted", "found", "states", "frame")
        return {f"{name}.{key}": placeholders(text) for name in names for key, text in tables[name].items()}

    assert word_languages()[0] == "en"
    assert {path.stem for path in WORDS_FOLDER.iterdir()} == set(word_languages())
    for language in word_languages():
        assert words_in(language).language == language
        assert sentences(language) == sentences("en")
    assert {language for files in built_in_course().lessons for language in files.languages} <= set(word_languages())
