"""Every rule has a check that fires for its own case and for nothing else; the defects of five studies."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from lab.disks.kinds import DiskKind
from lab.errors import ExperimentError, SpecError
from lab.experiments.linting import PLAN_CHECKS, Expected, LintedPlan, lint_experiment, lint_plan, require_sound
from lab.experiments.schema import Cache, Order, Sharing, built_in_names, find_experiment
from lab.lint import experiment_checks, fio_checks
from lab.lint.experiment_checks import MACHINE_CHECKS, CellFacts, DeviceFacts, LintedMachine
from lab.lint.rules import LintFinding, LintStage, all_rules, find_rule, run_checks
from lab.publications import recipes
from lab.publications.recipes import Publication, find_publication, lint_publication
from lab.publications.recipes import built_in_names as publications
from lab.results.record import RunStatus, SteadyFigures
from lab.tomlfile import read_toml
from lab.units import GIB, MIB
from tests.unit.experiments.experiments import arrays, experiment
from tests.unit.results.records import CONDITIONS, cell, direction, rebuild, record

DATA = Path(__file__).with_name("data")
CHECKS: dict[LintStage, set[str]] = {
    LintStage.PLAN: set(PLAN_CHECKS),
    LintStage.RECIPE: {*recipes.SHELL_CHECKS, *fio_checks.FIO_CHECKS, *fio_checks.JOB_CHECKS},
    LintStage.PUBLICATION: set(recipes.CHECKS),
    LintStage.MACHINE: set(MACHINE_CHECKS),
    LintStage.CELL: {*experiment_checks.MEASURED_CHECKS, *experiment_checks.CELL_CHECKS},
    LintStage.RESULT: {
        *experiment_checks.SHOWN_CHECKS,
        *experiment_checks.CONDITION_CHECKS,
        *experiment_checks.RESULT_CHECKS,
    },
}
# lab.compare checks these in a comparison; the run itself checks the interval.
ELSEWHERE = {"unlike-conditions", "raw-across-platforms", "uml-absolute", "arm-missing"}
BY_THE_RUN = {"wide-interval"}
# The fio text of a plan's literal recipe is checked as a recipe. Other loads that break these rules are not read.
IN_RECIPES_OF_PLANS = {"mixed-directions", "zero-data", "depth-without-async", "runtime-short", "misaligned"}


def test_every_check_has_a_rule_with_its_stage() -> None:
    for stage, names in CHECKS.items():
        for name in names:
            assert stage in find_rule(name).looks_at, (stage, name)


def test_every_rule_is_checked_at_its_stages() -> None:
    for rule in all_rules().values():
        for stage in rule.looks_at:
            if stage is LintStage.COMPARISON:
                assert rule.id in ELSEWHERE
            elif not (stage is LintStage.PLAN and rule.id in IN_RECIPES_OF_PLANS) and rule.id not in BY_THE_RUN:
                assert rule.id in CHECKS[stage], (rule.id, stage)


def test_a_stamp_reads_back_as_the_finding() -> None:
    found = LintFinding("unsteady", "a/b/healthy/0", "a range of 30 %", "20 % at most")
    assert list(experiment_checks.stamped([found.stamp, "no rule: of that name", "too-few-repeats: 3 of them"])) == [
        found,
        LintFinding("too-few-repeats", "result", "3 of them", "see its remedy"),
    ]


def test_of_many_equal_stamps_one_stays() -> None:
    found = [LintFinding("unsteady", f"cell {number}", "x", "y") for number in range(5)]
    assert experiment_checks.summarised(found) == ("unsteady: cell 0: x; needed: y (and 4 more)",)


def rules_of(findings: Any) -> set[str]:
    return {finding.rule_id for finding in findings}


SOUND = experiment(
    "", arrays=arrays(a="raid5 3", b="raid0 3"), jobs='[[jobs]]\nworkload = "rand-read-4k"\nfile_bytes = "32M"\n'
)
ARRAY, OTHER = SOUND.arrays
(LOAD,) = LintedPlan.of(SOUND).loads


def test_a_sound_plan_breaks_no_rule() -> None:
    assert rules_of(lint_plan(SOUND)) == set()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"repeats": 5}, "too-few-repeats"),
        ({"order": Order.LISTED}, "ordered-runs"),
        ({"rounds_per_build": SOUND.repeats, "disks": changed(SOUND.disks, sharing=Sharing.SHARED)}, "ordered-runs"),
        ({"cache": Cache.WARM}, "warm-cache"),
        ({"writes_files_first": False}, "never-written"),
        ({"arrays": (ARRAY, changed(OTHER, members=2))}, "unequal-members"),
        ({"jobs": (changed(SOUND.jobs[0], file_bytes=GIB),)}, "file-exceeds-fs"),
        (
            {"arrays": (changed(ARRAY, assume_clean=True),), "disks": changed(SOUND.disks, kind=DiskKind.VIRTIO)},
            "parity-unverified",
        ),
    ],
)
def test_a_plan_that_breaks_a_rule(changes: Mapping[str, Any], rule: str) -> None:
    assert rules_of(lint_plan(changed(SOUND, **changes))) == {rule}


@pytest.mark.parametrize(
    ("changes", "expected", "rule"),
    [
        ({"vary_seed": False}, None, "same-addresses"),
        ({}, Expected(3.1, 0.0), "too-short-for-latency"),
        ({"warmup_seconds": 1.9}, Expected(1.0, 0.0), "too-short-for-latency"),
    ],
)
def test_a_load_that_breaks_a_rule(changes: Mapping[str, Any], expected: Expected | None, rule: str) -> None:
    load = LOAD._replace(workload=changed(LOAD.workload, **changes), expected=expected)
    assert rules_of(run_checks(PLAN_CHECKS, LintedPlan(SOUND, (load,)))) == {rule}


DEVICE = DeviceFacts("loop0", GIB, loop_direct=True, holders=("md0",))


@pytest.mark.parametrize(
    ("device", "rules"),
    [
        (DEVICE, set()),
        (replace(DEVICE, size_bytes=0), {"device-missing"}),
        (replace(DEVICE, holders=("md0", "md1")), {"member-reused"}),
        (replace(DEVICE, loop_direct=False), {"loop-buffered"}),
        (replace(DEVICE, is_counted=False), {"stats-off"}),
        (DeviceFacts("md0", GIB, sync_action="resync"), {"resync-running"}),
        (DeviceFacts("md0", GIB, sync_action="idle"), set()),
    ],
)
def test_a_machine_before_a_run(device: DeviceFacts, rules: set[str]) -> None:
    machine = LintedMachine((device,), expected_holders={"loop0": "md0"})
    assert rules_of(run_checks(MACHINE_CHECKS, machine)) == rules


def test_a_kernel_that_checks_itself() -> None:
    assert rules_of(run_checks(MACHINE_CHECKS, LintedMachine((), ("KASAN",)))) == {"debug-kernel"}


UNSTEADY = SteadyFigures(range_fraction=0.5, slope_fraction=0.2, is_steady=False)
FACTS = CellFacts(
    cell("a", "b", 0),
    is_mix=False,
    read_bytes=100 * MIB,
    member_read_bytes=100 * MIB,
    member_written_bytes=0,
    sync_actions=frozenset({"idle"}),
)


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({}, set()),
        ({"sync_actions": frozenset({"idle", "resync"})}, {"resync-running"}),
        ({"sync_actions": frozenset({"recover"}), "cell": cell("a", "b", 0, phase="rebuilding")}, set()),
        ({"written_bytes": 5 * MIB, "member_written_bytes": 5 * MIB}, {"mixed-directions"}),
        ({"written_bytes": 5 * MIB, "member_written_bytes": 5 * MIB, "is_mix": True}, set()),
        ({"member_read_bytes": 90 * MIB}, {"io-not-on-members"}),
        ({"member_read_bytes": None}, set()),
        ({"share_measured": 0.7}, {"disturbed"}),
    ],
)
def test_a_cell_as_it_is_measured(changes: Mapping[str, Any], rules: set[str]) -> None:
    facts: CellFacts = replace(FACTS, **changes)
    assert rules_of(run_checks(experiment_checks.MEASURED_CHECKS, facts)) == rules


SIX = tuple(cell("a", "rand-read-4k", repeat, read_iops=500) for repeat in range(6))
SMALL = tuple(changed(each, file_bytes=32 * MIB) for each in SIX)
BEHIND_A_CACHE = changed(CONDITIONS, host_cache_notes=("cached",))
IDLE_BEFORE = cell("a", "rand-read-4k", 6, read_iops=500, cpu_microseconds=9.0)
assert IDLE_BEFORE.cpu is not None
BUSY_BEFORE = changed(IDLE_BEFORE, cpu=changed(IDLE_BEFORE.cpu, idle_baseline_fraction=0.3))
STOLEN = changed(IDLE_BEFORE, cpu=changed(IDLE_BEFORE.cpu, steal_fraction=0.03))
WITHOUT_PERCENTILES = changed(SIX[0].figures, reads=direction(500, p99=None))


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"cells": SIX}, set()),
        ({"cells": SIX[:5]}, {"too-few-repeats"}),
        ({"cells": SIX[:1]}, {"too-few-repeats", "no-dispersion"}),
        ({"cells": SIX, "planned_cells": (*(each.key for each in SIX), "a/b/healthy/0")}, {"promised-metric-missing"}),
        ({"cells": SIX, "planned_cells": ("a/other/healthy/0",), "status": RunStatus.INCOMPLETE}, set()),
        ({"cells": SIX, "resumed_after": (2, 4)}, set()),
        ({"cells": SIX, "resumed_after": (2, 4), "conditions": changed(CONDITIONS, is_virtual_time=True)}, {"resumed"}),
        ({"cells": SIX, "rebuilds": (rebuild("a", 0, 5.0),)}, set()),
        ({"cells": SIX, "rebuilds": (changed(rebuild("a", 0, 5.0), data_unchanged=None),)}, {"integrity-unchecked"}),
        ({"cells": (*SIX, IDLE_BEFORE)}, set()),
        ({"cells": (*SIX, cell("a", "rand-read-4k", 6, read_iops=20))}, {"too-few-samples"}),
        ({"cells": tuple(changed(each, steady=UNSTEADY) for each in SIX)}, {"unsteady"}),
        ({"cells": tuple(changed(each, figures=WITHOUT_PERCENTILES) for each in SIX)}, {"no-percentiles"}),
        ({"cells": SIX, "stamps": ("resync-running: a: resync; needed: idle",)}, {"resync-running"}),
        ({"cells": SMALL, "conditions": BEHIND_A_CACHE}, {"host-cache-on", "file-fits-cache"}),
        ({"cells": (*SIX, BUSY_BEFORE)}, {"noisy-neighbour"}),
        ({"cells": (*SIX, STOLEN)}, {"noisy-neighbour"}),
        ({"cells": (*SIX, changed(IDLE_BEFORE, waited_fraction=0.2))}, {"disturbed"}),
    ],
)
def test_a_stored_result(changes: Mapping[str, Any], rules: set[str]) -> None:
    assert rules_of(experiment_checks.lint_result(record(**changes))) == rules


def disks(**changes: Any) -> Any:
    return {"disks": tuple(changed(disk, **changes) for disk in CONDITIONS.disks)}


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({}, set()),
        ({"is_embedded": True}, {"simulated-origin"}),
        (disks(kind="spindle"), {"simulated-origin"}),
        ({"host_cache_notes": ("cached",)}, {"host-cache-on"}),
        (disks(kind="loop"), {"shared-backing-disk"}),
        ({"disks": (changed(CONDITIONS.disks[0], kind="loop"),)}, set()),
        (disks(kind="file") | {"is_virtual_time": True}, set()),
        (disks(write_cache=""), {"write-cache-unknown"}),
        (disks(path="/dev/rbd0"), {"network-backed"}),
    ],
)
def test_the_conditions_of_a_machine(changes: Mapping[str, Any], rules: set[str]) -> None:
    assert rules_of(run_checks(experiment_checks.CONDITION_CHECKS, changed(CONDITIONS, **changes))) == rules


DEFECTS: dict[str, dict[str, str]] = tomllib.loads((DATA / "defects.toml").read_text(encoding="utf-8"))
DONE_RIGHT = [
    name
    for name in built_in_names()
    if find_experiment(name)[0].study and not name.endswith(("-as-published", "-quick"))
]


@pytest.mark.parametrize(
    ("study", "defect", "rule"),
    [(study, defect, rule) for study, table in DEFECTS.items() for defect, rule in table.items()],
)
def test_a_defect_of_a_publication_is_named(study: str, defect: str, rule: str) -> None:
    found = {finding.rule_id for finding in lint_publication(find_publication(study))}
    assert rule in found, defect


def test_every_study_has_a_publication_and_its_defects() -> None:
    assert set(publications()) == set(DEFECTS)
    forms = {f"{study}{form}" for study in DEFECTS for form in ("", "-quick", "-as-published")}
    assert forms <= set(built_in_names())


@pytest.mark.parametrize("name", [name for name in built_in_names() if name.endswith("-as-published")])
def test_an_experiment_as_published_names_the_defects_of_its_study(name: str) -> None:
    plan = find_experiment(name)[0]
    assert plan.publication
    found = {finding.rule_id for finding in lint_experiment(plan)}
    assert set(DEFECTS[plan.publication].values()) <= found


@pytest.mark.parametrize("name", DONE_RIGHT)
def test_a_study_done_right_breaks_no_rule(name: str) -> None:
    assert lint_experiment(find_experiment(name)[0]) == ()


@pytest.mark.parametrize("name", built_in_names())
def test_no_experiment_that_comes_with_raidlab_would_be_refused(name: str) -> None:
    plan = find_experiment(name)[0]
    require_sound(lint_experiment(plan), plan)


def test_a_sound_publication_breaks_no_rule() -> None:
    assert lint_publication(read_toml(DATA / "sound.toml", Publication)) == ()


def test_a_rule_that_refuses_stops_an_experiment_unless_allowed_by_name() -> None:
    plan = experiment("writes_files_first = false")
    found = lint_experiment(plan)
    with pytest.raises(ExperimentError, match="never-written") as caught:
        require_sound(found, plan)
    assert "--allow never-written" in caught.value.hint
    require_sound(found, plan, {"never-written"})
    with pytest.raises(SpecError, match="no rule 'never-writen'") as unknown:
        require_sound(found, plan, {"never-writen"})
    assert "never-written" in unknown.value.hint
