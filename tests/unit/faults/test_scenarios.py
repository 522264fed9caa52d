"""Scenarios: their files, the places of blocks, facts and expectations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from lab.arrays.levels import level_with_layout
from lab.arrays.parity_program import exclusive_or, q_of
from lab.errors import LabError, SpecError
from lab.faults.arrays import BlockMap
from lab.faults.guest.scenario import PointSummary, culprit_of
from lab.faults.scenario import (
    ARRAYS,
    FOLDER,
    OPERATIONS,
    Scenario,
    StepFacts,
    all_scenarios,
    facts_of,
    find_scenario,
    read_scenario,
    step_of,
)
from lab.tomlfile import decode_toml
from lab.units import KIB, MIB


def test_the_culprit_of_a_raid6_row_is_named() -> None:
    chance = random.Random(1)
    for count in (2, 3, 5):
        pieces = [chance.randbytes(64) for _ in range(count)]
        p, q = exclusive_or(pieces, 64), q_of(dict(enumerate(pieces)), 64)
        assert culprit_of(pieces, p, q) == "none"
        for index in range(count):
            wrong = list(pieces)
            wrong[index] = bytes([wrong[index][0] ^ chance.randrange(1, 256)]) + wrong[index][1:]
            assert culprit_of(wrong, p, q) == f"data {index}"
        assert culprit_of(pieces, p[:-1] + bytes([p[-1] ^ 1]), q) == "P"
        assert culprit_of(pieces, p, bytes([q[0] ^ 1]) + q[1:]) == "Q"
        # Two wrong chunks are not mistaken for one.
        two = [bytes([piece[0] ^ (index < 2)]) + piece[1:] for index, piece in enumerate(pieces)]
        two[0] = two[0][:-1] + bytes([two[0][-1] ^ 1])
        assert culprit_of(two, p, q) == "several"


def test_crash_points_are_counted_by_kind_of_failure() -> None:
    summary = PointSummary()
    allowed = {0: [1], 1: [1, 5], 2: [1], 3: [1], 8: [1], 9: [1]}
    seen = {"cut": "10", "refused": "Input/output error", "settled": {"bad": [[0, "silently corrupt", [], [1]]]}}
    summary.add(seen, [2], allowed, 4)
    summary.add(
        {"cut": "11", "settled": {"bad": [[1, "silently corrupt", [], [1, 5]]], "wrong_rows": [3]}}, [], allowed, 4
    )
    summary.add({"cut": "12", "settled": {"bad": [[8, "lost after acknowledgement", [], [1]]]}}, [2], allowed, 4)
    summary.add({"cut": "13", "dead": "no member"}, [0, 1], allowed, 4)
    counts = summary.value()
    assert counts["points"] == 4
    assert (counts["untouched_corrupt"], counts["untouched_lost"], counts["in_flight_corrupt"]) == (1, 1, 1)
    assert (counts["refused"], counts["dead"], counts["wrong_parity"], counts["outside_open_stripes"]) == (1, 1, 1, 1)
    assert counts["untouched_at"] == {"2": "0,8"}
    assert counts["examples"]["untouched_corrupt"] == ["10"]


RAID5 = BlockMap(level_with_layout("raid5", None), 4, MIB, 16 * KIB)
# A document of scenario 10, Linux 6.1.192, mdadm 4.2, shortened.
CHECKED: dict[str, Any] = {
    "verdicts": {"intact": 765, "silently corrupt": 2, "unreadable": 1},
    "at": {"silently corrupt": "4-5", "unreadable": "9"},
    "bad": [[4, "silently corrupt", ["a mixture"], [1]]],
    "bad_in_flight": 0,
    "blocks": 768,
    "state": {"array_state": "clean", "degraded": "1", "mismatch_cnt": "8", "level": "raid5", "raid_disks": "5 (4)"},
    "members": {
        "1": {"slot": "1", "state": "in_sync,write_error", "errors": "0", "bad_blocks": "2", "recovery_start": "none"}
    },
    "events": {"0": 17},
    "seconds": 0.5,
    "reads_2": 40,
}


def check(name: str, wanted: object, evidence: dict[str, Any] = CHECKED, **kept: dict[str, Any]) -> bool:
    return StepFacts(facts_of(evidence, {}), kept, RAID5).check(name, wanted).is_met


@pytest.mark.parametrize(
    ("name", "wanted", "is_met"),
    [
        ("data", "corrupt and unreadable", True),
        ("data", "intact", False),
        ("corrupt", 2, True),
        ("intact", "> 700", True),
        ("intact", "= blocks", False),
        ("lost", 0, True),
        ("corrupt_at", "= blocks 4-5", True),
        ("corrupt_at", "= blocks 4", False),
        ("corrupt_at", "in slots 1", True),
        ("corrupt_at", "in slots 2", False),
        ("unreadable_at", "in blocks 8-9", True),
        ("unreadable_at", "in blocks 7-8", False),
        ("bad_at", "in lost with 1 2", True),
        ("array_state", ["active", "clean"], True),
        ("array_state", ["active", "broken"], False),
        ("degraded", 1, True),
        ("degraded", "1", True),
        ("raid_disks", "5", False),
        ("raid_disks", "~ (4)", True),
        ("raid_disks", "!~ (4)", False),
        ("member_1", "in_sync", True),
        ("member_1", "write_error", True),
        ("member_1", "sync", False),
        ("member_3", "gone", True),
        ("bad_blocks_1", "> 1", True),
        ("events_0", ">= 17", True),
        ("reads_2", 40, True),
        ("seconds", "< 0.5 * slow.seconds", True),
        ("seconds", "> 0.5 * slow.seconds", False),
        ("intact", "= 382.5 * corrupt", True),
        ("mismatch_cnt", "!= 8", False),
        ("complaints", 0, False),
    ],
)
def test_a_fact_is_compared(name: str, wanted: object, is_met: bool) -> None:
    assert check(name, wanted, slow={"seconds": 2.0}) is is_met


def test_a_missing_fact_never_meets_an_expectation() -> None:
    found = StepFacts(facts_of({"seconds": 1.0}, {}), {}, RAID5).check("mismatch_cnt", 0)
    assert (found.is_met, found.found) == (False, "nothing")
    assert not check("member_1", "gone", {"seconds": 1.0})
    assert check("array_state", "gone", {"state": {}})


def test_an_expectation_without_a_valid_reference_is_rejected() -> None:
    with pytest.raises(SpecError, match=r"there is no number 'slow\.seconds'"):
        check("seconds", "< slow.seconds")
    with pytest.raises(SpecError, match="does not compare blocks"):
        check("corrupt_at", "blocks 4")
    with pytest.raises(SpecError, match="does not say which blocks are meant"):
        check("corrupt_at", "= members 4")


def test_a_check_shows_its_expectation_with_names_resolved_to_numbers() -> None:
    found = StepFacts(facts_of(CHECKED, {}), {"slow": {"seconds": 2.0}}, RAID5).check("seconds", "< 0.5 * slow.seconds")
    assert (found.wanted, found.found) == ("< 0.5 * slow.seconds (1)", "0.5")


HEAD = """
format_version = 3
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
    assert len({each.id for each in found}) == len({each.title for each in found}) == 38
    assert len(list(FOLDER.iterdir())) == 38


@pytest.mark.parametrize("each", all_scenarios(), ids=lambda each: each.id)
def test_a_scenario_has_requirements_sources_and_checks(each: Scenario) -> None:
    assert each.must
    assert each.sources
    names = [variant.name for variant in each.variants]
    assert len(set(names)) == len(names)
    for variant in each.ready(1):
        looked = [step for step in variant.steps if step.expect and step.word != "log"]
        # A variant may be checked only in another variant that compares with it.
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
    # The last variant equals the first, except for the comparison.
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
        array = { level = "raid6", disks = 5 }
        variants = [
          { name = "a", values = { who = "{new}" } },
          { name = "b", array = { disks = 6 }, values = { who = 2 } },
        ]
        steps = [
          { act = "array.create" },
          { act = "array.fail", disk = "{who}", expect = { "member_{who}" = "faulty" } },
          { act = "shell", line = "mdadm --fail @{new}", only = ["b"] },
        ]
        """
    )
    first, second = made.ready(1)
    assert [step.word for step in first.steps] == ["array.create", "array.fail", "log"]
    assert first.steps[1].expect == {"member_5": "faulty"}
    assert second.steps[1].guest_steps(second.stage()) == [
        ["run", ["mdadm", "--manage", "/dev/md0", "--fail", "@2"], 120.0]
    ]
    assert second.steps[2].guest_steps(second.stage()) == [["run", ["sh", "-c", "mdadm --fail @6"], 60.0]]


@pytest.mark.parametrize(
    ("tree", "words", "hint"),
    [
        ({"act": "corupt"}, "there is no step 'corupt'", "did you mean 'corrupt'?"),
        ({"act": "array.fail", "dsk": 1}, "unknown key 'dsk': did you mean 'disk'?", ""),
        ({"act": "check", "expect": {"dta": "intact"}}, "there is no fact 'dta'", "did you mean 'data'?"),
        ({"act": "array.scrub", "action": "repare"}, "action", ""),
        ({"act": "write", "operations": 0}, "operations", ""),
    ],
)
def test_a_wrong_step_is_reported_with_the_nearest_word(tree: dict[str, object], words: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        step_of(tree, "a scenario: step 3")
    assert words in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('steps = [{ act = "array.fail", disk = "{nobody}" }]', "there is no value 'nobody'"),
        ('array = { level = "raid7" }\nsteps = [{ act = "array.create" }]', "raid7"),
        ('array = { policy = "pppl" }\nsteps = [{ act = "array.create" }]', "Invalid enum value 'pppl'"),
        ('array = { level = "raid5", layout = "f2" }\nsteps = [{ act = "array.create" }]', "'f2'"),
        ('array = { disks = 9 }\nsteps = [{ act = "array.create" }]', "only 8 of 8 are free"),
        ('array = { level = "shr" }\nsteps = [{ act = "array.create" }]', "name 'md0' is not 'adapt'"),
        ('array = { array = "adapt0", level = "shr" }\nsteps = []', "do not create arrays of level shr"),
        ('code = "nothing"', "code: Invalid enum value 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made_ready(text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        list(scenario(text).ready(1))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ('{ act = "layer", disk = 1, kind = "dirt" }', "there is no layer 'dirt'"),
        ('{ act = "layer", disk = 1, kind = "integrity", again = true }', "there is no layer 'integrity'"),
        ('{ act = "corrupt", block = 5, on = "Q" }', "block 5 has no Q on a raid5"),
        ('{ act = "power-cut", kind = "some" }', "'some' is not a kind of power cut"),
        ('{ act = "file", path = "/etc/passwd", text = "" }', "is not below /run/raidlab/fault"),
        ('{ act = "misdirect", block = 4, over = 0, disk = 1 }', "member 1 holds neither data nor parity of block 0"),
        ('{ act = "locate" }', "only on RAID 6"),
    ],
)
def test_a_file_with_impossible_steps_is_refused_with_its_name(tmp_path: Path, step: str, words: str) -> None:
    path = tmp_path / "99-made-up.toml"
    path.write_text(f'{HEAD}array = {{ level = "raid5" }}\nsteps = [{step}]\n', encoding="utf-8")
    with pytest.raises(SpecError, match=words) as caught:
        read_scenario(path)
    assert "99-made-up.toml" in caught.value.message


def test_a_file_that_is_called_otherwise_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "12-made-up.toml"
    path.write_text(f'{HEAD}steps = [{{ act = "array.create" }}]\n', encoding="utf-8")
    with pytest.raises(SpecError, match="is not named after its number"):
        read_scenario(path)


def test_what_a_machine_may_lack_is_known_before_anything_is_played() -> None:
    chosen = map(find_scenario, ("7", "10", "17", "27", "29"))
    needs = {each.number: {need for variant in each.ready(1) for need in variant.needs} for each in chosen}
    assert needs[10] == set()
    assert needs[17] == {"record"}
    assert "dm:dust" in needs[7]
    assert "lab-drives" in needs[29]
    assert "dm:snapshot" in needs[27]


def compiled(text: str, version: int, array: str = "") -> list[list[Any]]:
    made = decode_toml(
        HEAD.replace("format_version = 3", f"format_version = {version}") + f"array = {{ {array} }}\nsteps = [{text}]",
        Scenario,
    )
    (variant,) = made.ready(1)
    stage = variant.stage()
    return [each for step in variant.steps for each in step.guest_steps(stage)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{ do = "create" }, { do = "stop" }', '{ act = "array.create" }, { act = "array.stop" }'),
        (
            '{ do = "fail", members = [1, 2] }, { do = "add", members = ["{new}"] }',
            '{ act = "array.fail", disk = 1 }, { act = "array.fail", disk = 2 }, { act = "array.add", disk = "{new}" }',
        ),
        (
            '{ do = "assemble" }',
            '{ act = "shell", line = "mdadm --assemble /dev/md0 {drives}" }, { act = "activate" }',
        ),
        (
            '{ do = "assemble", members = [0, 2], options = ["--run"] }',
            '{ act = "shell", line = "mdadm --assemble --run /dev/md0 @0 @2" }, { act = "activate" }',
        ),
        ('{ do = "scrub", action = "repair" }', '{ act = "array.scrub", action = "repair" }'),
        ('{ do = "scrub", action = "check", waits = false }', '{ act = "set", file = "sync_action", value = "check" }'),
        ('{ do = "wait" }, { do = "pull", member = 1 }', '{ act = "array.wait" }, { act = "array.pull", disk = 1 }'),
        ('{ do = "run", command = "true" }', '{ act = "shell", line = "true" }'),
        ('{ do = "slow", member = 1, milliseconds = 2 }', '{ act = "slow", disk = 1, milliseconds = 2 }'),
        ('{ do = "sum", members = [0, 1] }', '{ act = "sum", disks = [0, 1] }'),
    ],
)
def test_a_file_of_version_1_has_the_same_steps(old: str, new: str) -> None:
    assert compiled(old, 1) == compiled(new, 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{ act = "array.assemble" }', '{ act = "array.assemble" }'),
        (
            '{ act = "array.assemble", disks = [0, "{new}"] }',
            '{ act = "array.assemble", array = "md0", disks = "0,4" }',
        ),
        (
            '{ act = "array.assemble", force = true, activates = false }',
            '{ act = "shell", line = "mdadm --assemble --run --force /dev/md0 @0 @1 @2 @3" }',
        ),
        (
            '{ act = "restart", options = ["--update=no-bbl"] }',
            '{ act = "array.stop" }, { act = "shell", line = "mdadm --assemble --update=no-bbl /dev/md0 {drives}" }, '
            '{ act = "activate" }',
        ),
        ('{ act = "load", seconds = 1 }', '{ act = "write-on", seconds = 1 }'),
    ],
)
def test_a_file_of_version_2_has_the_same_steps(old: str, new: str) -> None:
    assert compiled(old, 2) == compiled(new, 3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('members = 5, policy = "bitmap"', 'disks = 5, bitmap_chunk = "64K"'),
        ('policy = "journal", spares = 1', "journal = 4, spares = 1"),
        (
            'policy = "ppl", chunk_bytes = "32K", is_clean = false',
            'policy = "ppl", chunk = "32K", assume_clean = false',
        ),
        ('level = "raid1", chunk_bytes = "32K"', 'level = "raid1"'),
        ('level = "raid0", chunk_bytes = "32K", is_clean = true', 'level = "raid0", chunk = "32K"'),
        ('level = "raid0", policy = "bitmap"', 'level = "raid0"'),
        ('policy = "journal-back"', ""),
        ('policy = "write-back"', ""),
    ],
)
def test_an_array_of_version_2_is_created_by_the_same_command(old: str, new: str) -> None:
    create = '{ act = "array.create" }'
    assert compiled(create, 2, old) == compiled(create, 3, new)


def test_an_assembly_that_version_2_describes_is_activated_only_if_it_has_started() -> None:
    steps = compiled('{ act = "array.assemble", options = ["--run"], disks = [0, 2] }', 2)
    assert steps[:2] == [["run", ["sh", "-c", "mdadm --assemble --run /dev/md0 @0 @2"], 60.0], ["activate"]]


def test_a_value_named_drives_does_not_change_an_assembly_of_version_2() -> None:
    text = '{ act = "array.assemble", force = true, activates = false }, { act = "shell", line = "{drives}" }'
    variant = 'variants = [{ name = "", values = { drives = "mine" } }]'
    head = HEAD.replace("format_version = 3", "format_version = 2")
    (ready,) = decode_toml(f"{head}{variant}\nsteps = [{text}]", Scenario).ready(1)
    lines = [step.guest_steps(ready.stage())[0][1][-1] for step in ready.steps[:2]]
    assert lines == ["mdadm --assemble --run --force /dev/md0 @0 @1 @2 @3", "mine"]


@pytest.mark.parametrize("array", ["disks = 9", "disks = 7, spares = 2"])
def test_an_array_with_too_many_disks_is_an_error_in_the_file(array: str) -> None:
    with pytest.raises(SpecError, match="were requested") as caught:
        compiled('{ act = "array.create" }', 3, array)
    assert caught.value.hint == "a scenario has 8 drives, so request fewer disks"


def test_an_array_is_created_where_the_oracle_expects_its_data() -> None:
    command, *_ = compiled('{ act = "array.create" }', 3, 'level = "raid6", disks = 5, layout = "right-symmetric"')
    assert {"--layout=right-symmetric", "--data-offset=2048", "--size=1024"} < set(command[1])
    assert command[1][-5:] == [f"@{number}" for number in range(5)]


def test_another_array_is_created_and_assembled_from_the_named_drives() -> None:
    other = 'array = "md1", level = "raid1", disks = [6, 7]'
    made = [step[1][-4:] for step in compiled(f'{{ act = "array.create", {other} }}', 3) if step[0] == "run"]
    assert made == [["--size=1024", "--bitmap=none", "@6", "@7"]]
    with pytest.raises(SpecError, match="array md1: no members to assemble it from"):
        compiled('{ act = "array.assemble", array = "md1" }', 3)


def test_a_grown_array_is_known_to_the_next_step() -> None:
    text = (
        '{ act = "array.add", disk = 4 }, { act = "array.grow", members = 5 }, { act = "array.grow", level = "raid6" }'
    )
    commands = [step[1] for step in compiled(text, 3) if step[0] == "run"]
    assert commands[1] == ["mdadm", "--grow", "/dev/md0", "--raid-devices=5"]
    assert "--level=6 --raid-devices=6" in commands[3][2]
