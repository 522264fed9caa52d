"""The catalogue of scenarios: every file is sound, and one that is not is told where and what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.faults.scenario import (
    ARRAYS,
    FOLDER,
    OPERATIONS,
    Scenario,
    all_scenarios,
    find_scenario,
    read_scenario,
    step_of,
    words,
)
from lab.tomlfile import decode_toml

FIRST = {1, 2, 3, 4, 5, 7, 10, 11, 12, 15, 16, 17, 18, 19, 22, 23, 31, 36, 38}
"""Of the catalogue of faults: what comes first."""
HEAD = """
format_version = 2
number = 99
id = "made-up"
title = "t"
model = "m"
must = ["it holds"]
sources = ["md(4)"]
"""


def scenario(text: str) -> Scenario:
    return decode_toml(HEAD + text, Scenario)


def test_the_catalogue_is_whole() -> None:
    found = all_scenarios()
    assert [each.number for each in found] == list(range(1, 39))
    assert {each.number for each in found if each.is_first} == FIRST
    assert len({each.id for each in found}) == len({each.title for each in found}) == 38
    assert {path.name for path in FOLDER.glob("*")} == {f"{each.number:02d}-{each.id}.toml" for each in found}


@pytest.mark.parametrize("each", all_scenarios(), ids=lambda each: each.id)
def test_a_scenario_says_what_must_hold_who_says_so_and_looks_at_it(each: Scenario) -> None:
    assert each.must
    assert each.sources
    names = [variant.name for variant in each.variants]
    assert len(set(names)) == len(names)
    for variant in each.ready(1):
        looked = [step for step in variant.steps if step.expect and step.word != "log"]
        # What stands beside another for comparison is looked at there.
        assert looked or any(step.keep for step in variant.steps), variant.name
        assert variant.steps[-1].word == "log"
    for tree in each.steps:
        assert set(tree.get("only", ())) <= set(names), tree


def test_the_same_seed_makes_the_same_steps_and_another_seed_other_ones() -> None:
    long = find_scenario("38")
    steps = [[variant.steps for variant in long.ready(seed)] for seed in (1, 1, 2)]
    assert steps[0] == steps[1]
    assert steps[0] != steps[2]
    assert len(steps[0]) == len(ARRAYS) + 1
    # The last one is the first once more, but for what it is compared with.
    first, again = steps[0][0], steps[0][-1]
    assert [step.word for step in first] == [step.word for step in again]
    assert len(first) > OPERATIONS


def test_a_scenario_is_found_by_number_and_by_id() -> None:
    assert find_scenario("10").id == find_scenario("silent-corruption-raid5").id == find_scenario("010").id
    with pytest.raises(SpecError, match="there is no scenario 'write-hol'") as caught:
        find_scenario("write-hol")
    assert "write-hole" in caught.value.hint


def test_values_are_filled_in_and_built_ones_are_there() -> None:
    made = scenario(
        """
        array = { level = "raid6", members = 5 }
        variants = [
          { name = "a", values = { who = "{new}" } },
          { name = "b", array = { members = 6 }, values = { who = 2 } },
        ]
        steps = [
          { act = "array.create" },
          { act = "array.fail", disk = "{who}", expect = { "member_{who}" = "faulty" } },
          { act = "shell", line = "mdadm --fail @{last}", only = ["b"] },
        ]
        """
    )
    first, second = made.ready(1)
    assert [step.word for step in first.steps] == ["array.create", "array.fail", "log"]
    assert first.steps[1].expect == {"member_5": "faulty"}
    assert second.steps[1].guest_steps(second.stage()) == [
        ["run", ["mdadm", "--manage", "/dev/md0", "--fail", "@2"], 120.0]
    ]
    assert second.steps[2].guest_steps(second.stage()) == [["run", ["sh", "-c", "mdadm --fail @5"], 60.0]]


@pytest.mark.parametrize(
    ("tree", "said", "hint"),
    [
        ({"act": "corupt"}, "there is no step 'corupt'", "did you mean 'corrupt'?"),
        ({"act": "array.fail", "dsk": 1}, "unknown key 'dsk': did you mean 'disk'?", ""),
        ({"act": "check", "expect": {"dta": "intact"}}, "there is no fact 'dta'", "did you mean 'data'?"),
        ({"act": "array.scrub", "action": "repare"}, "action", ""),
        ({"act": "write", "operations": 0}, "operations", ""),
    ],
)
def test_a_wrong_step_is_told_with_the_nearest_word(tree: dict[str, object], said: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        step_of(tree, "a scenario: step 3")
    assert said in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('steps = [{ act = "array.fail", disk = "{nobody}" }]', "there is no value 'nobody'"),
        ('array = { level = "raid7" }\nsteps = [{ act = "array.create" }]', "raid7"),
        ('array = { policy = "pppl" }\nsteps = [{ act = "array.create" }]', "there is no policy 'pppl'"),
        (
            'array = { level = "raid5", layout = "f2" }\nsteps = [{ act = "array.create" }]',
            "a layout is chosen for RAID 10",
        ),
        ('code = "nothing"', "there is no function of lab/faults/scenario.py 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made_ready(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        list(scenario(text).ready(1))


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ('{ act = "layer", disk = 1, kind = "dirt" }', "there is no layer 'dirt'"),
        ('{ act = "corrupt", block = 5, on = "Q" }', "block 5 has no Q on a raid5"),
        ('{ act = "power-cut", kind = "some" }', "there is no power cut of the kind 'some'"),
        ('{ act = "file", path = "/etc/passwd", text = "" }', "is not below /run/raidlab/fault"),
        ('{ act = "misdirect", block = 4, over = 0, disk = 1 }', "member 1 has nothing of block 0"),
        ('{ act = "locate" }', "only RAID 6"),
    ],
)
def test_a_file_whose_steps_cannot_be_done_is_refused_with_its_name(tmp_path: Path, step: str, said: str) -> None:
    path = tmp_path / "99-made-up.toml"
    path.write_text(f'{HEAD}array = {{ level = "raid5" }}\nsteps = [{step}]\n', encoding="utf-8")
    with pytest.raises(SpecError, match=said) as caught:
        read_scenario(path)
    assert "99-made-up.toml" in caught.value.message


def test_a_file_that_is_called_otherwise_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "12-made-up.toml"
    path.write_text(f'{HEAD}steps = [{{ act = "array.create" }}]\n', encoding="utf-8")
    with pytest.raises(SpecError, match="is called otherwise"):
        read_scenario(path)


def test_what_a_machine_may_lack_is_known_before_anything_is_played() -> None:
    needs = {each.number: {need for variant in each.ready(1) for need in variant.needs} for each in all_scenarios()}
    assert needs[10] == set()
    assert needs[17] == {"record"}
    assert "dm:dust" in needs[7]
    assert "lab-drives" in needs[29]
    assert "dm:snapshot" in needs[27]


def test_every_word_has_its_story() -> None:
    assert len(words()) > 40
    assert all(kind.__doc__ for kind in words().values())
