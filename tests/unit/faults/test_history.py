"""Histories: the same seed gives the same history; complete and partial histories are rebuilt from their ids."""

from __future__ import annotations

import itertools
import json

import msgspec
import pytest

from lab.errors import SpecError
from lab.faults.campaign import history_of
from lab.faults.guest.campaign import CampaignPlayer
from lab.faults.history import (
    LEVELS,
    MOST_ACTS,
    MOST_CUTS,
    Act,
    ActKind,
    Bounds,
    FaultHistory,
    FindingId,
    HistoryPolicy,
    PlannedStep,
    commands,
    generated,
    geometries,
    job_of,
    parse_id,
    part_of,
    part_word,
    planned,
)
from lab.faults.scenario import words

SEEDS = range(1, 400)


@pytest.fixture(scope="module")
def histories() -> list[FaultHistory]:
    return [generated(seed) for seed in SEEDS]


def without(history: FaultHistory, *acts: int) -> FaultHistory:
    return msgspec.structs.replace(
        history, acts=tuple(act for index, act in enumerate(history.acts) if index not in acts)
    )


def test_a_seed_makes_the_same_history_and_another_seed_another_one(histories: list[FaultHistory]) -> None:
    assert histories[::8] == [generated(seed) for seed in SEEDS[::8]]
    assert len({(history.shape, history.acts) for history in histories}) == len(histories)


def test_all_levels_policies_and_acts_come_up(histories: list[FaultHistory]) -> None:
    assert {history.shape.level for history in histories} == set(LEVELS)
    assert {history.shape.policy for history in histories} == set(HistoryPolicy)
    assert {act.kind for history in histories for act in history.acts} == set(ActKind)


def test_a_history_is_short_and_keeps_damage_bounded(histories: list[FaultHistory]) -> None:
    for history in histories:
        assert 1 < len(history.acts) <= MOST_ACTS + 2
        assert sum(act.kind is ActKind.CUT for act in history.acts) <= MOST_CUTS
        assert history.shape.policy.fits(history.shape.level)
        blocks, pulled = history.shape.block_map().blocks, set[int]()
        for act in history.acts:
            for first, count, is_through in act.writes:
                assert 0 <= first <= first + count <= blocks
                assert is_through in (0, 1)
            # Power cuts, corruption and growth occur only while no drive is pulled.
            if act.kind in (ActKind.CUT, ActKind.SPOIL, ActKind.GROW):
                assert not pulled, history.seed
            pulled = {ActKind.PULL: pulled | {act.drive}, ActKind.PLUG_IN: pulled - {act.drive}}.get(act.kind, pulled)
            pulled = set() if act.kind is ActKind.FORCE else pulled


def test_bounds_are_respected_and_part_of_the_id() -> None:
    bounds = Bounds("5", "ppl")
    made = [generated(seed, bounds).shape for seed in range(40)]
    assert {(shape.level, shape.policy) for shape in made} == {("5", HistoryPolicy.PPL)}
    assert str(FindingId(bounds, 7)) == "c1-l5-ppl-7"


@pytest.mark.parametrize(
    "text",
    [
        "c1-7",
        "c1-l10-7",
        "c1-write-back-31",
        "c1-l5-ppl-p7-31",
        "c1-p20-30-a5",
        "c1-31-s0_2w1.4_5",
        "c1-l6-journal-p3-8-a2-snone",
    ],
)
def test_an_id_is_read_as_it_is_written(text: str) -> None:
    assert str(parse_id(text)) == text


@pytest.mark.parametrize("text", ["", "7", "c1", "c1-", "c2-7", "c1-l3-7", "c1-bitmap", "c1-7-s", "c1-7-sx", "../c1-7"])
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_id(text)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("c1-3-a5", "its seeds are out of range"),
        ("c1-99999999999999999999999", "its seeds are out of range"),
        *((f"c1-1-s{kept}", "is not part") for kept in ("99", "0w999", "0_0", "2_1")),
    ],
)
def test_an_id_of_what_no_seed_makes_is_refused(word: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        history_of(parse_id(word))


def test_a_partial_history_is_rebuilt_from_its_id() -> None:
    for seed in range(1, 60):
        whole = generated(seed)
        load = next(index for index, act in enumerate(whole.acts) if act.writes)
        fewer = msgspec.structs.replace(whole.acts[load], writes=whole.acts[load].writes[::2])
        part = without(whole, *range(1, len(whole.acts), 2))
        part = msgspec.structs.replace(part, acts=tuple(fewer if act == whole.acts[load] else act for act in part.acts))
        word = part_word(whole, part)
        assert part_of(whole, word) == part
        finding = FindingId(Bounds(), seed, part=word)
        assert history_of(parse_id(str(finding))) == (part, [])
        assert part_word(whole, without(whole, *range(len(whole.acts)))) == "none"
        assert part_of(whole, "none").acts == ()


def test_every_step_is_one_that_the_program_knows_and_can_be_sent(histories: list[FaultHistory]) -> None:
    shapes: dict[tuple[object, ...], tuple[FaultHistory, list[PlannedStep]]] = {}
    for history in histories:
        steps = planned(history, has_evidence=True)
        assert all(hasattr(CampaignPlayer, f"do_{each.step[0]}") for each in steps)
        assert [each.act for each in steps] == sorted(each.act for each in steps)
        sent = [each.step for each in steps]
        assert json.loads(json.dumps(sent)) == sent
        altering = frozenset(act.kind for act in history.acts) & {ActKind.GROW, ActKind.ENLARGE}
        shapes[history.shape.level, history.shape.policy, altering] = history, steps
    for job in itertools.starmap(job_of, shapes.values()):
        assert json.loads(json.dumps(job)) == job


def test_an_act_has_the_word_of_lessons_and_scenarios_for_the_same_operation() -> None:
    assert set(ActKind) - set(words()) == {"writes", "enlarge", "spoil", "force", "idle"}
    assert [*commands(Act(ActKind.READD, 2), generated(1).shape)] == [
        ("mdadm", "--manage", "/dev/md0", "--re-add", "/dev/drive2")
    ]


def test_a_grown_array_has_another_geometry() -> None:
    history = generated(1)
    grown = msgspec.structs.replace(history, acts=(Act(ActKind.GROW, 6), Act(ActKind.ENLARGE, number=1536)))
    shape = history.shape
    found = [(each["members"], each["size_kib"]) for each in geometries(grown)]
    assert found == [(shape.members, 1024), (shape.members + 1, 1024), (shape.members, 1536)]
    assert all(each["rows"] for each in geometries(grown))
