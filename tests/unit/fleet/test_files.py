"""Fleet files and the command: every figure is finite, even for extreme values in a file."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import ResultError, SpecError
from lab.fleet.engine import (
    MOST_NINES,
    BlockSums,
    Cause,
    Moments,
    cumulative_hazard,
    figures_of,
    mean_of,
    simulate_block,
    waiting_hours,
)
from lab.fleet.model import (
    MOST_YEARS,
    Block,
    FleetSpec,
    Scrubbing,
    ScrubKind,
    Spread,
    changed,
    fleet_names,
    fleet_spec,
    fleet_tree,
    model_of,
    variants,
)
from lab.fleet.run import BLOCK_TRIALS, blocks_of, run_model, run_spec
from lab.results.record import encode_record
from lab.results.store import RECORD_NAME, ResultStore, measured_rebuilds
from tests.unit.classroom.students import hand_in
from tests.unit.cli.conftest import Typed
from tests.unit.cli.conftest import typed as typed
from tests.unit.fleet.models import exponential, mean_and_error
from tests.unit.results.records import rebuild
from tests.unit.results.records import record as result

SMALL = """
format_version = 2
id = "small"
title = "Two small arrays"
arrays = 2
level = "raid5"
members = 4
disk_tb = 4.0
failures = { afr_percent = 20.0 }
rebuild = { hours = [100.0, 200.0] }
run = { trials = 2000, method = "plain" }

[[compare]]
id = "raid6"
set = { level = "raid6", "run.method" = "biased" }
"""


def spec_of(**changes: Any) -> FleetSpec:
    return fleet_spec(fleet_tree("school"), "school", {key.replace("__", "."): each for key, each in changes.items()})


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", fleet_names())
def test_built_in_fleets_are_sound(name: str) -> None:
    spec = fleet_spec(fleet_tree(name), name)
    assert spec.id == name
    assert spec.source
    for _, each in variants(fleet_tree(name), spec):
        model_of(each)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": 2}, "raid5 needs at least 3 members"),
        ({"failures": {}}, "failures has no distribution"),
        ({"rebuild__constant_hours": 3.0}, "rebuild has constant_hours and hours"),
        ({"scrub__interval_hours": 10.0}, "longer than its interval"),
        ({"scrub__intervall_hours": 10.0}, "did you mean 'interval_hours'"),
        ({"level": "raid10", "members": 5}, "consists of pairs"),
        ({"parities": 6}, "hold no data"),
        ({"people__wrong_disk": 1.5}, "write 0 or more, and at most 1"),
        ({"years": 0.0}, "years"),
        ({"title__en": "x"}, "not a key of a fleet"),
        ({"years": 100.0, "failures__afr_percent": 99.0, "members": 24}, "but 1,000 is the maximum"),
        ({"run__trials": 10**9, "failures__afr_percent": 90.0}, "but 10,000,000,000 is the maximum"),
        ({"batches": {"bad_share": 1.0, "factor": 1000.0}, "failures__afr_percent": 50.0}, "1,000 is the maximum"),
        ({"compare": [{"id": "a", "set": {}}, {"id": "a", "set": {}}]}, "have the id 'a'"),
        ({"scrub": {"duration_hours": 10.0}}, "needs scrub.interval_hours"),
        ({"rebuild__array": "raid6"}, "needs rebuild.result"),
    ],
)
def test_an_invalid_fleet_is_refused_with_a_hint(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("level", "members", "layout"),
    [
        ("raid0", 4, (1, 4, 0, 4.0)),
        ("raid1", 3, (1, 3, 2, 1.0)),
        ("raid5", 5, (1, 5, 1, 4.0)),
        ("raid6", 8, (1, 8, 2, 6.0)),
        ("raid10", 8, (4, 2, 1, 4.0)),
    ],
)
def test_levels_are_groups_that_survive_failures(level: str, members: int, layout: tuple[int, int, int, float]) -> None:
    assert spec_of(level=level, members=members).layout() == layout


def test_a_fleet_becomes_a_model() -> None:
    model = model_of(spec_of())
    assert model.usable_bytes == 5 * 16e12
    assert model.rebuild.values_hours == (30.0, 34.0, 41.0, 52.0)
    assert model.scrub.kind is ScrubKind.PERIODIC
    # Of drives with this life, 1.57 % fail within a year.
    year = 1.0
    assert 1 - 2.718281828459045 ** (-year * 8766 / model.life.scale_hours) == pytest.approx(0.0157)


def test_rebuilds_come_from_a_stored_result(tmp_path: Path) -> None:
    rebuilds = (rebuild("raid6", 0, 10.0, 2 * 10**9), rebuild("raid6", 1, 20.0, 2 * 10**9), rebuild("raid5", 0, 5.0))
    record = result(rebuilds=rebuilds)
    (tmp_path / record.id).mkdir()
    (tmp_path / record.id / "record.json").write_bytes(encode_record(record))
    store = ResultStore(tmp_path)
    tree = changed(fleet_tree("school"), {"rebuild": {"result": record.id, "array": "raid6"}, "disk_tb": 18.0})
    model = model_of(fleet_spec(tree, "mine"), store)
    # 18 TB at 200 MB/s and at 100 MB/s.
    assert model.rebuild.values_hours == (25.0, 50.0)
    with pytest.raises(ResultError, match="no rebuild of 'raid1'"):
        model_of(spec_of(rebuild={"result": record.id, "array": "raid1"}), store)


def test_the_share_of_a_class_takes_the_place_of_a_number(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    truth = hand_in(tmp_path / "class", honest=12, copied=0, changed=0)
    model = model_of(spec_of(people__class_folder=str(tmp_path / "class")))
    assert model.loses_data == pytest.approx(1 - truth.first_saved / 12)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ResultError):
        model_of(spec_of(people__class_folder=str(tmp_path / "empty")))


def test_blocks_are_the_same_however_many_share_them() -> None:
    assert [each.trials for each in blocks_of(2 * BLOCK_TRIALS + 7)] == [BLOCK_TRIALS, BLOCK_TRIALS, 7]
    model = model_of(spec_of())
    alone, together = (run_model(model, 2 * BLOCK_TRIALS + 100, each) for each in (1, 2))
    assert msgspec.json.encode(alone) == msgspec.json.encode(together)


def test_the_command_shows_variants_beside_each_other(small: Path, typed: Typed) -> None:
    words = ("--scrub", "168", "--set", "sectors.defects_per_hour=1e-4")
    text = typed("-q", "fleet", str(small), "--workers", "1", *words).out
    own = "scrub.interval_hours = 168, sectors.defects_per_hour = 0.0001"
    assert [line.split("  ")[0] for line in text.splitlines() if line.startswith(("as it is", "raid6", own))] == [
        "as it is",
        "raid6",
        own,
    ] * 3
    # MTTDL is never shown without this explanation.
    assert "MTTDL is a mean over unlimited time" in text


def test_json_has_models_and_figures(small: Path, typed: Typed) -> None:
    printed = json.loads(typed("--json", "-q", "fleet", str(small), "--seed", "7", "--trials", "500").out)
    assert printed["fleet"]["id"] == "small"
    for name, is_biased in (("as it is", False), ("raid6", True)):
        variant = printed["variants"][name]
        assert variant["model"]["seed"] == 7
        assert variant["figures"]["trials"] == 500
        assert variant["figures"]["is_biased"] is is_biased
        assert sum(variant["figures"]["cause_losses"].values()) == pytest.approx(1)


def test_without_a_file_the_fleets_are_listed(typed: Typed) -> None:
    assert [line.split()[0] for line in typed("fleet").out.splitlines()[1:]] == list(fleet_names())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scool"], "did you mean 'school'?"),
        (["school", "--set", "members"], "is not of the form key=value"),
        (["--scrub", "168"], "these options need a fleet"),
        (["--cluster", "local:1"], "these options need a fleet"),
        (["school", "--scrub", "168", "--set", "scrub.interval_hours=24"], "'scrub.interval_hours' is set twice"),
    ],
)
def test_wrong_words_are_refused(words: list[str], message: str, typed: Typed) -> None:
    assert message in typed("-q", "fleet", *words, status=2).err


def test_rebuilds_of_stored_results_are_listed_by_array_and_load(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    rebuilds = (rebuild("raid5", 0, 2.0, 200), rebuild("raid5", 1, 2.0, 400), rebuild("raid5", 2, 1.0, 300))
    under = msgspec.structs.replace(rebuild("raid5", 0, 4.0, 200), under_workload="rand-read-4k")
    stored = result("20261121T100000Z-x", rebuilds=(*rebuilds, under))
    (tmp_path / stored.id).mkdir()
    (tmp_path / stored.id / RECORD_NAME).write_bytes(encode_record(stored))
    (tmp_path / "20261121T110000Z-x").mkdir()
    (tmp_path / "20261121T110000Z-x" / RECORD_NAME).write_text("{")
    found = measured_rebuilds(store)
    assert [(each.result, each.array, each.under_workload, each.bytes_per_second, each.count) for each in found] == [
        (stored.id, "raid5", "", 200.0, 3),
        (stored.id, "raid5", "rand-read-4k", 50.0, 1),
    ]


PAGE = Path(__file__).parents[3] / "docs" / "fleet.md"
NAN, INF = math.nan, math.inf
BASE: dict[str, Any] = {"format_version": 2, "id": "ends", "title": "Ends", "run": {"trials": 100}}


@pytest.mark.parametrize("value", [NAN, INF, -INF, -1.0, 1e-300, 1e300])
@pytest.mark.parametrize(
    ("key", "within"),
    [
        ("years", "0.01 or more, and at most 100"),
        ("disk_tb", "1e-06 or more, and at most 1,000"),
        ("failures.afr_percent", "0.001 or more, and at most 99"),
        ("rebuild.hours[1]", "0.001 or more, and at most 1,000,000,000"),
        ("scrub.interval_hours", "0.001 or more, and at most 1,000,000,000"),
        ("sectors.read_error_bits", "1,000,000,000 or more, and at most 1,000,000,000,000,000,000,000"),
    ],
)
def test_what_no_key_can_mean_is_refused_by_its_name_and_bounds(key: str, within: str, value: float) -> None:
    changes = {"rebuild.hours": [30.0, value]} if key.startswith("rebuild") else {key: value}
    with pytest.raises(SpecError) as caught:
        fleet_spec(fleet_tree("school"), "school", changes)
    shown = f"{value:,}" if math.isnan(value) or abs(value) < 1e20 else "inf" if math.isinf(value) else "of this size"
    assert f"{key}: {shown} is not possible: write {within}" in caught.value.message


def test_nan_in_a_file_is_refused_and_not_left_out() -> None:
    with pytest.raises(SpecError, match=r"scrub\.interval_hours: nan is not possible"):
        fleet_spec(changed(fleet_tree("school"), {"scrub.interval_hours": NAN}), "mine")


def test_a_variant_removes_only_what_the_fleet_has() -> None:
    spec = spec_of(compare=[{"id": "bare", "set": {}, "remove": ["scrubs"]}])
    with pytest.raises(SpecError, match="variant 'bare' removes 'scrubs', which the fleet does not have"):
        variants(fleet_tree("school"), spec)


@pytest.mark.parametrize("value", [NAN, INF, 1e-300, 99.0, 1e10])
def test_a_life_is_that_of_a_drive(value: float) -> None:
    with pytest.raises(SpecError, match=r"failures\.weibull\.scale_hours: .* write "):
        spec_of(failures={"weibull": {"shape": 1.0, "scale_hours": value}})
    with pytest.raises(SpecError, match=r"failures\.weibull\.shape: .* write 0\.4 or more, and at most 20"):
        spec_of(failures={"weibull": {"shape": 0.3, "scale_hours": 1e5}})


def test_the_page_s_file_is_one() -> None:
    text = next(each for each in re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
    spec = fleet_spec(tomllib.loads(text), "the page")
    assert (spec.members, [each.id for each in spec.compare]) == (10, ["weekly"])
    # Its comments name other keys, which must be valid.
    for key, value in (("sectors.read_error_bits", 1e15), ("rebuild.shares_rate", True), ("run.method", "plain")):
        assert f"# {key.partition('.')[2]} = " in text
        fleet_spec(tomllib.loads(text), "the page", {key: value})


WEIBULLS = [
    {"weibull": {"shape": shape, "scale_hours": scale, "location_hours": at}}
    for shape, scale, at in product((0.2, 20.0), (1e-3, 1e9), (0.0, 1e9))
]
HOURS = (1e-3, 48.0, 1e9)
ANY_HOURS = (0.0, 5e-324, 24.0, 1e9)
CHANCES = (0.0, 5e-324, 0.01, 1.0)
KINDS: dict[str, Sequence[Sequence[dict[str, Any]]]] = {
    "failures": (
        [{"afr_percent": afr} for afr in (1e-3, 1.57, 99.0)],
        [
            {"weibull": {"shape": shape, "scale_hours": scale}}
            for shape, scale in product((0.4, 1.0, 20.0), (100.0, 1e4, 1e9))
        ],
    ),
    "rebuild": (
        [{"constant_hours": hours} for hours in HOURS],
        [{"exponential_hours": hours} for hours in HOURS],
        [{"hours": [1e-3, 1e9]}],
        WEIBULLS,
    ),
    "scrub": (
        [{}],
        [{"interval_hours": hours} for hours in HOURS],
        [{"interval_hours": 1e9, "duration_hours": hours} for hours in (5e-324, 1e-3, 1e9)],
        WEIBULLS,
    ),
}
"""Values by kind. Each kind is drawn equally often, however many values it has."""
ENDS: dict[str, Sequence[Any]] = {
    "arrays": (1, 10**7),
    "years": (0.01, 5.0, 100.0),
    "level": ("raid0", "raid1", "raid5", "raid6", "raid10"),
    "members": (1, 2, 4, 16, 64),
    "disk_tb": (1e-6, 1000.0),
    "repair.detection_hours": ANY_HOURS,
    "repair.spares": (0, 8),
    "repair.replenish_hours": ANY_HOURS,
    "sectors.defects_per_hour": (0.0, 5e-324, 1e-6, 1.0),
    "sectors.defect_bytes": (1, 2**30),
    "people.wrong_disk": CHANCES,
    "people.loses_data": CHANCES,
    "run.method": ("auto", "plain", "biased"),
    "run.seed": range(10),
}
OPTIONAL_ENDS: dict[str, Sequence[Any]] = {
    "sectors.read_error_bits": (1e9, 1e21),
    "parities": (0, 1, 8),
    "batches": [{"bad_share": share, "factor": factor} for share in CHANCES for factor in (1.0, 1000.0)],
}


def numbers_of(tree: Any, path: str = "") -> dict[str, float]:
    if isinstance(tree, dict):
        return {name: each for key in tree for name, each in numbers_of(tree[key], f"{path}.{key}").items()}
    if isinstance(tree, str):
        # The formula of the MTTDL.
        assert "nan" not in tree, path
        assert "inf" not in tree, path
        return {}
    return {path: float(tree)}


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.fixed_dictionaries(
        {key: st.sampled_from(values) for key, values in ENDS.items()}
        | {key: st.one_of(*map(st.sampled_from, kinds)) for key, kinds in KINDS.items()},
        optional={key: st.sampled_from(values) for key, values in OPTIONAL_ENDS.items()},
    )
)
def test_every_figure_is_finite_at_all_extreme_values_together(changes: dict[str, Any]) -> None:
    spec, refusal = None, ""
    try:
        spec = fleet_spec(BASE, "ends", changes)
    except SpecError as error:
        refusal = error.message
    if spec is None:
        # An array that its members cannot form, or more failures than can be simulated. Nothing else is refused here.
        assert re.search(r"needs at least \d|hold no data|is the maximum", refusal), refusal
        assert "is the maximum" in refusal or changes["members"] <= max(4, changes.get("parities", 0))
        return
    with numpy.errstate(over="raise", invalid="raise", divide="raise"):
        found = run_spec(spec)[1]
    for name, each in numbers_of(msgspec.to_builtins(found)).items():
        assert 0 <= each <= 1e308, name
        assert math.copysign(1, each) > 0, name
    for interval in (found.losses_per_array_year, found.fleet_loss_chance, found.lost_bytes_per_pb_year):
        assert interval.low <= interval.value <= interval.high
        assert interval.high > 0, "nobody knows that nothing can be lost"
    if found.has_losses:
        assert math.fsum(found.cause_losses.values()) == pytest.approx(1)


def test_zero_losses_are_printed_as_a_bound(typed: Typed) -> None:
    mirrored = ["level=raid1", "run.method=plain", "people.wrong_disk=0.0", "sectors.defects_per_hour=0.0"]
    changes = [word for each in mirrored for word in ("--set", each)]
    printed = typed("-q", "fleet", "school", "--trials", "500", "--workers", "1", *changes).out
    rows = [line for line in printed.splitlines() if line.startswith("level = raid1")]
    # The exact upper bound for none of 500 is 3.69: per array, and per PB and year.
    assert "less than 2.92 %" in rows[0]
    assert "less than 0.148 %" in rows[0]
    assert "more than 2.83" in rows[0]
    assert "less than 1.34 TiB" in rows[1]
    assert rows[1].split("GiB")[-1].split() == ["–", "–", "–"]
    assert "fewer than" in rows[2]
    assert not re.search(r"\b(nan|inf)\b", "".join(rows))


def test_weights_below_what_squares_can_be_are_a_bound() -> None:
    tiny = Moments(1e-170, 0.0, 1e-170)
    assert mean_of(tiny, 1000).value == 0
    assert 0 < mean_of(tiny, 1000).high <= 1e-100
    causes = (tiny, Moments(), Moments())
    sums = BlockSums(1000, 0, tiny, tiny, tiny, causes, causes, causes, copies=1)
    found = figures_of(exponential(60, 59, 1e6, 1e-3), sums, 1)
    assert not found.has_losses
    assert found.nines_per_array_year.high == MOST_NINES
    assert found.mttdl_years == MOST_YEARS


def waited(scrub: Scrubbing, ages: list[float], phase: float = 0.0) -> list[float]:
    model = exponential(8, 2, 1e6, 1.0, scrub=scrub)
    found: list[float] = waiting_hours(model, numpy.array(ages), numpy.full(len(ages), phase)).tolist()
    return found


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0, 3.0])
def test_defects_that_wait_for_a_delay_follow_its_integral(shape: float) -> None:
    delay = Spread(shape=shape, scale_hours=168.0, location_hours=6.0)
    for age in (3.0, 6.5, 100.0, 3000.0):
        # In equal logarithmic steps, since delays of a small shape spread over many powers of ten.
        later = numpy.concatenate([[0.0], numpy.geomspace(1e-12, max(age - 6.0, 1e-12), 200_000)])
        alive = numpy.exp(-((later / 168.0) ** shape))
        truth = min(age, 6.0) + float(((alive[1:] + alive[:-1]) / 2 * numpy.diff(later)).sum()) * (age > 6.0)
        assert waited(Scrubbing(kind=ScrubKind.DELAY, delay=delay), [age]) == pytest.approx([truth], rel=1e-6)


def test_a_short_scrub_of_a_long_interval_keeps_its_digits() -> None:
    # The scrub takes almost no time: places wait for the phase, or for the age of the drive.
    for lasting in (0.0, 1e-3, 1.0):
        scrub = Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=9e5, duration_hours=lasting)
        found = waited(scrub, [1e-6, 5e4, 8e5], phase=7e5)
        assert found == pytest.approx([1e-6, 5e4, 7e5 - lasting / 2], rel=1e-9)
    # The age of an old drive and the duration of a short scrub differ by so much that squares would lose all digits.
    for lasting in (1e-3, 1e-5):
        scrub = Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=1.0, duration_hours=lasting)
        assert waited(scrub, [876_599.7], phase=0.5) == pytest.approx([0.5 - lasting / 2], rel=1e-9)


def test_defects_lose_no_more_than_the_array_holds() -> None:
    model = exponential(4, 1, 1e5, 1e3, defects_per_hour=1.0, defect_bytes=2.0**30, is_biased=False)
    sums = simulate_block(model, Block(0, 2000))
    assert sums.cause_losses[Cause.SECTORS].total > 100
    # Losses by sectors are counted when a drive fails; with a thousand defects each of these failures loses data.
    assert sums.cause_bytes[Cause.SECTORS].total == pytest.approx(
        sums.cause_losses[Cause.SECTORS].total * model.usable_bytes, rel=0.1
    )
    assert sums.cause_bytes[Cause.SECTORS].total <= sums.cause_losses[Cause.SECTORS].total * model.usable_bytes * (
        1 + 1e-12
    )


def test_an_age_below_zero_is_that_of_a_new_drive() -> None:
    model = exponential(4, 1, 1e5, 1e3, life=Spread(shape=1.2, scale_hours=1e5))
    assert cumulative_hazard(model, numpy.zeros(2), numpy.array([1e-12, 0.0]), None).tolist() == [0.0, 0.0]


def test_only_the_pair_that_lost_a_member_is_hurried() -> None:
    # Twelve pairs whose losses are all double failures. If the hazards of the other eleven were multiplied too, the
    # same number of arrays would have three times the error.
    model = exponential(2, 1, 500_000, 20, groups=12, group_members=2)
    sums = simulate_block(model, Block(0, 16_384))
    mean, error = mean_and_error(sums.losses, sums.trials)
    assert error < 0.015 * mean


def test_renewals_are_bounded_from_above() -> None:
    rng = numpy.random.Generator(numpy.random.PCG64DXSM(3))
    for shape, scale, hours in ((0.4, 100.0, 3e4), (1.0, 1e4, 5e4), (20.0, 1e3, 1e4), (0.7, 1e6, 5e4)):
        life = Spread(shape=shape, scale_hours=scale)
        counts = numpy.zeros(2000)
        ends = life.draw(rng, 2000)
        while (goes := ends < hours).any():
            counts += goes
            ends = ends + life.draw(rng, 2000)
        assert counts.mean() <= 1.05 * life.most_renewals(hours)


def test_a_heading_names_no_years_that_a_variant_does_not_have(typed: Typed) -> None:
    words = ("-q", "fleet", "mlec-7-3", "--trials", "200", "--workers", "1")
    printed = typed(*words, "--set", "years=2.0").out
    assert "loss in its years, any array" in printed
    assert "loss in a year" not in printed
    assert "loss in a year, any array" in typed(*words).out
