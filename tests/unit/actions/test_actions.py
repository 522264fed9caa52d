"""An action described once has the same meaning everywhere: as a command, key, typed line and lesson file."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import combinations, product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cyclopts import App

from lab.actions import ACTIONS
from lab.actions.action import Action, Fills, Selection, Verb, fields_of
from lab.actions.arrays import Create, Fail, Grow, Load, Scrub, ScrubAction, Slow, Speed
from lab.arrays.levels import LevelName
from lab.arrays.spec import Bitmap, ConsistencyPolicy
from lab.cli.app import make_app
from lab.cli.session import add_verbs, typed_verb
from lab.disks import DiskKind, LabDisk
from lab.drills.verbs import VERBS as DRILL_VERBS
from lab.drills.verbs import StartDrill
from lab.errors import LabError, SpecError
from lab.lessons.course import make_action
from lab.lessons.verbs import VERBS as LESSON_VERBS
from lab.units import MIB
from tests.unit.lessons.samples import array, member
from tui.actions import KEY_ACTIONS, action_id
from tui.app import RaidlabApp
from tui.keys import own_bindings
from tui.lab_screen import ArrayList, LabScreen
from tui.rack import Rack, bays_of

APP = make_app()
VERBS = (*ACTIONS, *LESSON_VERBS, *DRILL_VERBS)
# For each argument a value other than its default.
VALUES: dict[str, Any] = {
    "array": "md7",
    "disk": "disk02",
    "new": "disk05",
    "action": ScrubAction.REPAIR,
    "minimum": "10M",
    "maximum": "200M",
    "chunk": "128K",
    "members": "disk04,disk05",
    "size": "",
    "level": "raid5",
    "length": "8K",
    "sector": "4096",
    "model": "hdd-7200",
    "workload": "rand-read-4k",
    "runtime": 2.5,
    "disks": "disk01,disk02,disk03",
    "spares": "disk04",
    "layout": "left-asymmetric",
    "bitmap": Bitmap.INTERNAL,
    "policy": ConsistencyPolicy.RESYNC,
    "name": "05",
    "seed": "it's me",
    "exam": 45.0,
    "text": "yes",
    "language": "sv",
}


def example(kind: type[Verb]) -> Verb:
    """An instance with values for all arguments that can be combined."""
    left_out = {"bitmap_chunk", "journal", "file_system", "reference", "utilisation"}
    values = {
        field.name: VALUES.get(field.name, True)
        for field in fields_of(kind)
        if field.name not in left_out and VALUES.get(field.name, True) != ""
    }
    return kind(**values)


@pytest.mark.parametrize("kind", [each for each in VERBS if each.has_command], ids=lambda kind: kind.__name__)
def test_printed_commands_parse_to_the_same_action(kind: type[Verb]) -> None:
    made = example(kind)
    words = shlex.split(made.by_hand())
    assert words[0] == "raidlab"
    assert typed_verb(APP, words[1:]) == made


def run_start(_: object, verb: StartDrill) -> None:
    """Run a verb, with the signature that add_verbs expects."""


def test_each_verb_has_one_runner() -> None:
    with pytest.raises(AssertionError, match="StartDrill has no runner"):
        add_verbs(App(name="drill"), (StartDrill,))
    with pytest.raises(AssertionError, match="StartDrill has two runners"):
        add_verbs(App(name="drill"), (StartDrill,), run_start, run_start)


@pytest.mark.parametrize("kind", [each for each in ACTIONS if each.in_lessons], ids=lambda kind: kind.__name__)
def test_an_action_survives_a_round_trip_through_a_lesson_file(kind: type[Action]) -> None:
    made = example(kind)
    assert make_action(msgspec.to_builtins(made), where="here") == made
    assert kind.perform is not Action.perform


def test_the_shortest_forms() -> None:
    short = {
        "raidlab array create md0 --level raid1 --disks disk01,disk02": Create(level="raid1", disks="disk01,disk02"),
        "raidlab array create --level raid5": Create(array="", level="raid5"),
        "raidlab array fail md0 disk02": Fail(disk="disk02"),
        "raidlab array scrub md0": Scrub(),
        "raidlab load rand-read-4k md0": Load(workload="rand-read-4k"),
    }
    assert {made.by_hand(): made for made in short.values()} == short


def test_options_that_only_the_command_line_has_are_its_own() -> None:
    for words in (["array", "fail", "md0", "disk01", "--plan"], ["array", "add", "md0", "disk04", "--wait"]):
        assert typed_verb(APP, words) is None
    for words in (["array", "show"], ["array"], [], ["--json", "array", "stop", "md0"], ["--help"]):
        assert typed_verb(APP, words) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("array scrub md0 chekc", "did you mean 'check'?"),
        ("array bitmap md0 intrnal", "did you mean 'internal'?"),
        ("array grow md0", "give --members, --size max or --level"),
        ("array grow md0 --size 3G", "add members or change the level in a separate command"),
        ("array bitmap md0 none --chunk 64K", "omit --chunk, or write 'internal'"),
        ("array assemble --force", "'raidlab array show' lists the arrays"),
        ("array create --level raid9", "unknown level 'raid9'"),
        ("array create --level raid5 --disks 2", "raid5 needs at least 3 members, not 2"),
        ("array fail", "'raidlab array fail --help' shows its arguments and options"),
        ("aray fail md0 disk01", "did you mean 'raidlab array'?"),
        ("array create md0", "--level requires an argument"),
        # A digit, but not one that the kernel accepts.
        ("array create md1\N{ARABIC-INDIC DIGIT THREE} --level raid5", "is not 'md' and a number below 1000"),
        ("array speed md0 --max 1X", "speed '1X' is not a size"),
        ("array corrupt md0 disk01 --length x", "length 'x' is not a size"),
        ("array corrupt md0 disk01 --length 1K", "the length must be at least one block of 4 KiB"),
        ("array bitmap md0 internal --chunk 3K", "bitmap chunk 3 KiB is not a power of two"),
        ("array bitmap md0 internal --chunk 1", "of at least 4 KiB"),
        ("array bad-block md0 disk01 --sector x", "sector 'x' is not a whole number"),
        ("load rand-read-4k md0 --size x", "size 'x' is not a size"),
        # An unset shell variable gives an empty word.
        ("array create --level raid5 --chunk ''", "--chunk is empty"),
        ("array create --level raid5 --bitmap-chunk ''", "--bitmap-chunk is empty"),
        ("array create '' --level raid5", "ARRAY is empty"),
        ("array bitmap md0 none --chunk ''", "--chunk is empty"),
        ("array bad-block md0 disk01 --sector ''", "--sector is empty"),
        ("array pull '' disk10", "ARRAY is empty"),
        ("array plug-in '' disk10", "ARRAY is empty"),
        ("array fail md0 ''", "DISK is empty"),
        ("load rand-read-4k ''", "ARRAY is empty"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(words: str, message: str) -> None:
    with pytest.raises(LabError) as refused:
        typed_verb(APP, shlex.split(words))
    assert refused.value.hint
    assert message in f"{refused.value.message}; {refused.value.hint}"


def test_a_seed_may_be_empty() -> None:
    assert typed_verb(APP, ["drill", "start", "1", "--seed", ""]) == StartDrill(name="1", seed="")


@pytest.mark.parametrize(
    "written",
    [
        {"act": "array.fail", "disk": ""},
        {"act": "array.add", "disk": "disk01,disk02"},
        {"act": "array.remove", "disk": "disk01,disk02"},
        {"act": "array.replace", "disk": "disk01,disk02", "new": "disk03"},
        {"act": "array.grow"},
        {"act": "load", "workload": "rand-read-4k"},
        {"act": "load.stop"},
    ],
)
def test_impossible_actions_are_rejected_in_lessons(written: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        make_action(written, where="step 1")


def test_lesson_files_of_earlier_versions_are_read() -> None:
    assert make_action({"act": "array.scrub", "repair": True}, where="") == Scrub(action=ScrubAction.REPAIR)
    assert make_action({"act": "array.scrub", "repair": False}, where="") == Scrub()
    assert make_action({"act": "array.grow", "disk": "disk05", "members": 5}, where="") == Grow(members="disk05")
    several = make_action({"act": "array.fail", "disk": "disk01,disk02", "break_array": True}, where="")
    assert several.by_hand().splitlines() == [
        "raidlab array fail md0 disk01 --break-array",
        "raidlab array fail md0 disk02 --break-array",
    ]
    with pytest.raises(SpecError):
        make_action({"act": "array.scrub", "repair": "yes"}, where="")


def test_nothing_is_possible_without_a_machine() -> None:
    for kind in ACTIONS:
        assert kind.obstacle(Selection(is_open=False)) == "the machine is not running"


def test_the_app_has_a_value_for_every_required_field_of_an_action() -> None:
    for kind in ACTIONS:
        if not kind.key:
            continue
        open_fields = {
            field.name for field in fields_of(kind) if field.is_required and field.argument.fills is None
        } - {kind.picks}
        assert not open_fields, f"the app has no value for {open_fields} of {kind.__name__}"
        for choice in kind.choices():
            chosen, types = kind.chosen(choice.id), {field.name: field.type for field in fields_of(kind)}
            # Of the argument's own type: text is not a value of an enumeration, even if it equals one.
            assert all(type(value) is type(msgspec.convert(value, types[name])) for name, value in chosen.items())
        assert bool(kind.picks) == bool(kind.choices())
    assert Speed.chosen("4M") == {"minimum": "4M", "maximum": "4M"}
    assert Slow.acts_on() is Fills.DISK


def test_the_key_of_every_verb_is_in_the_table_for_students() -> None:
    page = (Path(__file__).parents[3] / "docs" / "student.md").read_text(encoding="utf-8")
    table = page.partition("\n## Breaking and repairing (screen 1)\n")[2].partition("\n## ")[0]
    cells = " ".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `"))
    shown = {key: {"delete": "Del"}.get(key, key) for kind in KEY_ACTIONS for key in keys_of(kind.key)}
    assert {key for key, text in shown.items() if f"`{text}`" not in cells} == set()


def selections() -> Iterator[Selection]:
    """Selections in which every verb with a key is possible at least once."""
    disk = LabDisk(name="disk01", kind=DiskKind.SPINDLE, node="/dev/ubda", size_bytes=MIB, model="hdd-7200")
    members = (None, member(disk.node, 0, "in_sync"), member(disk.node, None, "faulty"))
    for level, each, bitmap in product(LevelName, members, ("+8", None)):
        status = array(level, (each,) if each else (), bitmap_location=bitmap)
        for is_pulled, was_member, has_known_data, has_load in product((False, True), repeat=4):
            yield Selection(
                is_open=True,
                array=status,
                disk=disk,
                member=each,
                free_disk=disk,
                is_pulled=is_pulled,
                was_member=was_member,
                has_known_data=has_known_data,
                has_load=has_load,
            )


def keys_of(key: str) -> set[str]:
    return {each.strip() for each in key.split(",")}


def test_verbs_with_one_key_exclude_each_other() -> None:
    possible = [{kind for kind in KEY_ACTIONS if not kind.obstacle(it)} for it in selections()]
    assert set().union(*possible) == {*KEY_ACTIONS}, "add a selection in which the verb is possible"
    pairs = [pair for pair in combinations(KEY_ACTIONS, 2) if keys_of(pair[0].key) & keys_of(pair[1].key)]
    assert {(one.words, other.words) for one, other in pairs for them in possible if {one, other} <= them} == set()
    for verbs in (LESSON_VERBS, DRILL_VERBS):
        keys = [each.key for each in verbs if each.key]
        assert len(keys) == len(set(keys))


def test_no_verb_has_a_key_with_another_meaning_on_the_lab_screen() -> None:
    """Keys go first to the focused widget, then to the screen, then to the app."""
    of_verbs = {action_id(kind) for kind in KEY_ACTIONS}
    bindings = [binding for _, binding in own_bindings((*LabScreen.__mro__, *RaidlabApp.__mro__))]
    for widget in (Rack(bays_of), ArrayList()):
        own = (binding for _, binding in own_bindings(type(widget).__mro__))
        # The rack on the Lab screen does not let the user choose disks.
        bindings += [each for each in own if widget.check_action(each.action.partition("(")[0], ())]
    used = {key: each.id for each in bindings if each.id not in of_verbs for key in keys_of(each.key)}
    assert {kind.words: used[key] for kind in KEY_ACTIONS for key in keys_of(kind.key) if key in used} == {}


def test_no_word_of_files_is_declared_twice() -> None:
    """Lessons, drills and scenarios share their steps, checks and readings, so each word must have only one class."""
    for path in Path("lab").rglob("*.py"):
        if 'tag="' in path.read_text(encoding="utf-8"):
            import_module(".".join(path.with_suffix("").parts))
    kinds, left = set[type[msgspec.Struct]](), [msgspec.Struct]
    while left:
        kinds |= (found := set(left.pop().__subclasses__()))
        left += found
    configs = [kind.__struct_config__ for kind in kinds if kind.__module__.startswith("lab.")]
    named = Counter((each.tag_field, each.tag) for each in configs if each.tag_field in ("act", "that", "get"))
    assert {("act", "array.create"), ("act", "shell"), ("act", "power-cut"), ("that", "array.level")} <= set(named)
    assert [word for word, count in named.items() if count > 1] == []
