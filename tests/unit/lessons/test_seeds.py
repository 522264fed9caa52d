"""A seed's choices: the same everywhere, varied between students, and well explained when they cannot be made."""

from __future__ import annotations

import pytest

from lab.errors import SpecError
from lab.lessons.course import Lesson, Values, built_in_course, draw, fill, fill_tree
from lab.tomlfile import decode_toml
from tests.unit.lessons.samples import LESSON

HEAD = LESSON.partition("[seed]")[0]
TAIL = "[[steps]]" + LESSON.partition("[[steps]]")[2]


def lesson(seed: str) -> Lesson:
    return decode_toml(f"{HEAD}\n[seed]\n{seed}\n{TAIL}", Lesson)


def test_without_a_seed_everybody_has_the_first_choice() -> None:
    values = draw(decode_toml(LESSON, Lesson), "")
    assert values == {"level": "raid1", "members": 2, "disks": "disk01,disk02", "victim": "disk01"}


def test_choices_are_the_same_on_every_computer() -> None:
    # Written down once: a change here would give every student another lesson in the middle of a course.
    assert draw(decode_toml(LESSON, Lesson), "anna") == {
        "level": "raid1",
        "members": 2,
        "disks": "disk02,disk03",
        "victim": "disk03",
    }


def test_students_have_different_lessons() -> None:
    drawn = {tuple(draw(decode_toml(LESSON, Lesson), f"student {number}").values()) for number in range(60)}
    assert len(drawn) > 8


def test_a_later_variable_leaves_the_others_alone() -> None:
    text = LESSON.replace("[[steps]]", 'more = { one_of = ["a", "b"] }\n\n[[steps]]', 1).replace(
        "[seed]\n", "[seed]\n", 1
    )
    before, after = draw(decode_toml(LESSON, Lesson), "eva"), draw(decode_toml(text, Lesson), "eva")
    assert {key: after[key] for key in before} == before


def test_disks_build_on_each_other() -> None:
    built = lesson(
        'set = { disks = 3 }\nfirst = { disk_from = "set", index = 0 }\n'
        'other = { disk_from = "set", disk_besides = ["first"] }\n'
        'new = { disk_besides = ["set"] }'
    )
    for number in range(30):
        values = draw(built, f"s{number}")
        disks = str(values["set"]).split(",")
        assert len(disks) == 3
        assert values["first"] == disks[0]
        assert values["other"] in disks[1:]
        assert values["new"] not in disks


@pytest.mark.parametrize(
    ("seed", "said"),
    [
        ("a = {}", "has 0 of the keys one_of, disks"),
        ("a = { one_of = [1], disks = 2 }", "has 2 of the keys"),
        ("a = { disks = 5 }", "wants '5' disks"),
        ('a = { disks = "b" }', "wants 'b' disks"),
        ('a = { disk_from = "b" }', "builds on seed.b, which is not drawn before it"),
        ('b = { disks = 2 }\na = { disk_from = "b", disk_besides = ["b"] }', "nothing can be drawn for seed.a"),
        ('b = { one_of = ["x"] }\na = { case = "b", of = { y = 1 } }', "has no value for b = x"),
        ('a = { case = "b", of = { y = 1 } }', "builds on seed.b"),
    ],
)
def test_what_cannot_be_drawn_is_explained(seed: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        draw(lesson(seed), "anna")
    assert said in caught.value.message
    assert caught.value.hint


def test_a_text_that_is_one_placeholder_becomes_the_value_itself() -> None:
    values: Values = {"members": 4, "chunk": "64K"}
    assert fill_tree({"a": "{seed.members}", "b": ["{seed.chunk} x"], "c": 1}, values) == {
        "a": 4,
        "b": ["64K x"],
        "c": 1,
    }


def test_an_unknown_placeholder_names_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        fill("{seed.member}", {"members": 4})
    assert "did you mean 'members'?" in caught.value.hint


def test_other_braces_stay() -> None:
    assert fill("{by_hand} {x}", {}) == "{by_hand} {x}"


@pytest.mark.parametrize("seed", ["", "anna", "björn", "42"])
def test_every_lesson_of_the_course_can_be_drawn(seed: str) -> None:
    for files in built_in_course().lessons:
        ready = files.ready(seed)
        texts = [
            ready.title,
            ready.goal,
            *(text for step in ready.steps for text in (step.say, step.explain, *step.hints_by_hand)),
        ]
        assert not [text for text in texts if "{seed." in text or "{by_hand}" in text]
