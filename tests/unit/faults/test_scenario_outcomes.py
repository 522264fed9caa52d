"""Steps become outcomes, outcomes are stored however a run ends, and a lost machine has its own outcome."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lab.cli.fault import exit_code
from lab.errors import DeviceRefused, ExitCode, LabError, MachineLost, ResultError, RunCancelled
from lab.faults import place, scenario_run
from lab.faults.guest.player import Alive
from lab.faults.place import FaultPlace
from lab.faults.scenario import FactCheck, ReadyVariant, Scenario, all_scenarios, find_scenario
from lab.faults.scenario_run import (
    FaultVerdict,
    PlayedVariant,
    ScenarioHooks,
    ScenarioOutcome,
    ScenarioRunner,
    StepOutcome,
    StoredScenarios,
    VariantOutcome,
    begun_run,
    judged_step,
    load_run,
    outcome_table,
    outcome_text,
    play_all,
    play_and_store,
    scenario_runs,
    scenario_text,
    stored_runs,
    verdict_of,
)
from lab.machine import CommandResult, Host, parse_target
from lab.store import RunFolders
from lab.tomlfile import decode_toml
from tests.unit.fakes import FACTS, FakeMachine, Scripted
from tests.waiting import PATIENCE_SECONDS


def outcome(number: int, verdict: FaultVerdict = FaultVerdict.AS_EXPECTED, *, found: str = "0") -> ScenarioOutcome:
    check = FactCheck(what="mismatch_cnt", wanted="0", found=found, is_met=found == "0")
    step = StepOutcome(do="scrub", lines=("echo check > sync_action",), checks=(check,), seconds=2.0)
    return ScenarioOutcome(
        number=number,
        id=f"scenario-{number}",
        title=f"Scenario {number}",
        model="silent corruption",
        must=("it holds",),
        sources=("md(4)",),
        verdict=verdict,
        variants=(VariantOutcome(name="RAID 5", array="raid5 of 4", steps=(step,)),),
        computer_seconds=3.0,
    )


class ClosableMachine:
    def __init__(self, kernel: str = "") -> None:
        self.closed = threading.Event()
        self.facts = dataclasses.replace(FACTS, kernel_release=kernel)

    def close(self) -> None:
        self.closed.set()

    def run(self, argv: Sequence[str], **_: object) -> CommandResult:
        return CommandResult(tuple(argv), 0, "mdadm - v4.4", "", 0.0, 0.0)


def place_of(machine: ClosableMachine) -> Any:
    return SimpleNamespace(lab=SimpleNamespace(machine=machine), nodes=())


def runner_on(machine: ClosableMachine, monkeypatch: pytest.MonkeyPatch, **replaced: Any) -> ScenarioRunner:
    """A runner on a machine that has everything and plays nothing, with these methods replaced."""
    replaced = {"_require_drives": lambda *_: None, "_missing": lambda *_: (), **replaced}
    for name, replacement in replaced.items():
        monkeypatch.setattr(ScenarioRunner, name, replacement)
    monkeypatch.setattr(PlayedVariant, "history", lambda *_: {})
    return ScenarioRunner(place_of(machine), longest_silence_seconds=PATIENCE_SECONDS)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    return Host.real("tests")


def played(text: str) -> PlayedVariant:
    head = 'format_version = 2\nnumber = 99\nid = "x"\ntitle = "t"\nmodel = "m"\nmust = ["a"]\nsources = ["b"]\n'
    tree = decode_toml(f"{head}steps = [{text}]", Scenario)
    (variant,) = tree.ready(1)
    return PlayedVariant(variant, is_virtual=True)


def judged(text: str, *documents: dict[str, Any]) -> StepOutcome:
    """The first step's outcome if the machine returns these documents."""
    variant = played(text)
    step, evidence, lines = next(variant.evidence(iter(documents)))
    return judged_step(step, evidence, lines, variant, {})[0]


SCRUBBED: dict[str, Any] = {"seconds": 1.0, "idle": True, "state": {"mismatch_cnt": "8"}, "members": {}}


def test_a_step_has_its_commands_its_checks_and_its_evidence() -> None:
    found = judged(
        '{ act = "array.scrub", why = "Look.", expect = { mismatch_cnt = 8 } }',
        {"seconds": 0.5, "refused": ""},
        SCRUBBED,
    )
    assert found.lines == ("echo check > /sys/block/md0/md/sync_action",)
    assert (found.seconds, found.why, found.is_expected) == (1.5, "Look.", True)
    assert found.evidence["state"] == {"mismatch_cnt": "8"}
    assert not judged(
        '{ act = "array.scrub", expect = { mismatch_cnt = 0 } }', {"seconds": 0, "refused": ""}, SCRUBBED
    ).is_expected


@pytest.mark.parametrize(
    ("text", "documents", "problem"),
    [
        ('{ act = "array.stop" }', [{"status": 1, "output": "mdadm: busy\n"}], "status 1: mdadm: busy"),
        ('{ act = "array.stop", expect = { status = [0, 1] } }', [{"status": 1, "output": ""}], ""),
        (
            '{ act = "set", file = "sync_min", value = 3 }',
            [{"refused": "Invalid argument"}, {}],
            "refused: Invalid argument",
        ),
        ('{ act = "array.wait" }', [{"idle": False}], "md did not become idle in time"),
        ('{ act = "fill" }', [{}, {"failures": 3}], "3 writes failed"),
        ('{ act = "fill", expect = { failures = 3 } }', [{}, {"failures": 3}], ""),
        ('{ act = "until", file = "degraded", words = ["0"] }', [{"late": True, "text": "1"}, {}], "last: '1'"),
        ('{ act = "check" }', [{"broke": "OSError: gone"}], "OSError: gone"),
    ],
)
def test_what_did_not_go_as_it_must_is_a_problem_unless_it_is_expected(
    text: str, documents: list[dict[str, Any]], problem: str
) -> None:
    found = judged(text, *documents).problem
    assert (problem in found) if problem else found == ""


def test_bad_blocks_are_reported_with_stripe_and_member() -> None:
    seen = {"verdicts": {"silently corrupt": 1}, "bad": [[5, "silently corrupt", ["zeros"], [1, 7]]], "state": {}}
    (block,) = judged('{ act = "check", expect = { data = "corrupt" } }', seen).blocks
    assert block == "block 5: stripe 0, member 1 at KiB 4: silently corrupt: holds zeros, must hold version 1 or 7"


def test_steps_that_compare_times_are_not_judged_in_real_time() -> None:
    text = '{ act = "reads", count = 3, is_timed = true, expect = { each = "< 0.001" } }'
    variant = played(text)
    for is_virtual, checks in ((True, 1), (False, 0)):
        variant.is_virtual = is_virtual
        step, evidence, lines = next(variant.evidence(iter([{"each": 5.0}])))
        assert len(judged_step(step, evidence, lines, variant, {})[0].checks) == checks


def test_a_verdict_on_the_whole() -> None:
    good, bad = outcome(1).variants, outcome(1, found="8").variants
    lacking = (VariantOutcome(name="b", array="raid5", missing=("recorded drives",)),)
    assert verdict_of(good) is FaultVerdict.AS_EXPECTED
    assert verdict_of((*good, *bad)) is FaultVerdict.NOT_AS_EXPECTED
    assert verdict_of((*good, *lacking)) is FaultVerdict.AS_EXPECTED
    assert verdict_of(lacking) is FaultVerdict.NOT_POSSIBLE
    known = tuple(msgspec.structs.replace(each, finding=25) for each in bad)
    assert verdict_of((*good, *known)) is FaultVerdict.KNOWN_DEFECT
    assert verdict_of((*known, *bad)) is FaultVerdict.NOT_AS_EXPECTED


def test_outcomes_are_stored_one_by_one_and_can_be_shown_again(host: Host) -> None:
    with begun_run(host, "uml:?time=virtual", 7, ["scenario-1", "scenario-2"]) as journal:
        machine = FakeMachine(answers={("mdadm", "--version"): Scripted(stderr="mdadm - v4.2\n")})
        journal.note_place(SimpleNamespace(lab=SimpleNamespace(machine=machine)))  # type: ignore[arg-type]
        journal.add(outcome(1))
        assert load_run(host).left == ("scenario-2",)
        journal.add(outcome(2, FaultVerdict.NOT_AS_EXPECTED, found="8"))
    found = load_run(host, journal.run.id[:8])
    assert found == journal.stored
    assert (found.run.kernel, found.run.mdadm, found.run.seed) == (FACTS.kernel_release, "mdadm - v4.2", 7)
    assert found.left == ()
    assert not found.is_expected
    text = outcome_table(found).as_text()
    assert "NOT as expected" in text
    assert "2 RAID 5: after scrub: mismatch_cnt is 8, but must be 0" in text


def test_a_run_is_locked_while_it_is_written_and_removed_if_it_has_no_outcome(host: Host) -> None:
    with begun_run(host, "uml:", 1, ["scenario-1"]) as kept, begun_run(host, "uml:", 1, ["scenario-1"]) as empty:
        kept.add(outcome(1))
        assert all(scenario_runs(host).is_held(each.run.id) for each in (kept, empty))
    assert [path.name for path in scenario_runs(host).root.glob("[!.]*")] == [kept.run.id]
    assert stored_runs(host) == (kept.run,)


def test_a_run_whose_header_cannot_be_written_leaves_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ResultError("no space left on device")

    monkeypatch.setattr(RunFolders, "write_header", full)
    with pytest.raises(ResultError, match="no space"), begun_run(host, "uml:", 1, ["scenario-1"]):
        pass
    assert list(scenario_runs(host).root.glob("[!.]*")) == []


@pytest.mark.parametrize("error", [RunCancelled("ended"), ResultError("no space"), DeviceRefused("not a lab disk")])
def test_errors_outside_md_are_raised_instead_of_judged(error: LabError, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[VariantOutcome]:
        raise error

    monkeypatch.setattr(ScenarioRunner, "_variants", fail)
    with pytest.raises(type(error)):
        ScenarioRunner(place_of(ClosableMachine())).play(find_scenario("1"))


def test_the_exit_status_is_that_of_the_gravest_outcome() -> None:
    run = scenario_run.ScenarioRun(id="r", created_utc="", target="uml:", seed=1, asked=("scenario-1", "scenario-2"))

    def status(*outcomes: ScenarioOutcome) -> ExitCode:
        return exit_code(StoredScenarios(run=run, outcomes=outcomes))

    good, other = outcome(1), outcome(2)
    assert status(good, other) is ExitCode.DONE
    assert status(good) is ExitCode.FAILED
    assert status(good, outcome(2, FaultVerdict.KNOWN_DEFECT)) is ExitCode.DONE
    assert status(good, outcome(2, FaultVerdict.NOT_AS_EXPECTED)) is ExitCode.FAILED
    assert status(good, outcome(2, FaultVerdict.NOT_POSSIBLE)) is ExitCode.MISSING
    part = msgspec.structs.replace(
        other, variants=(*other.variants, VariantOutcome(name="b", array="", missing=("x",)))
    )
    assert status(good, part) is ExitCode.MISSING
    lost = outcome(2, FaultVerdict.MACHINE_LOST)
    assert status(outcome(1, FaultVerdict.NOT_AS_EXPECTED), lost) is ExitCode.MACHINE_LOST


def test_the_text_of_an_outcome_has_promise_source_commands_and_verdict() -> None:
    text = outcome_text(outcome(1, FaultVerdict.NOT_AS_EXPECTED, found="8"))
    parts = ("it holds", "md(4)", "$ echo check > sync_action", "✗ mismatch_cnt: 8, but must be 0", "NOT as expected")
    assert [part for part in parts if part not in text] == []
    assert "raid5.c" in scenario_text(find_scenario("10"))


@pytest.mark.parametrize("how", ["lost", "lost afterwards", "without discards"])
def test_another_machine_takes_the_place_of_one_that_is_lost_or_not_as_new(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    opened: list[Any] = []
    chosen = [find_scenario(str(number)) for number in (1, 2, 3)]

    class Lost:
        @property
        def is_as_new(self) -> bool:
            raise MachineLost("it does not answer")

    @contextmanager
    def open_one() -> Iterator[FaultPlace]:
        opened.append(Lost() if how == "lost afterwards" and not opened else SimpleNamespace(is_as_new=True))
        yield opened[-1]
        if len(opened) == 1 and how == "lost":
            raise MachineLost("it cannot be closed either")

    def play(runner: ScenarioRunner, scenario: Scenario) -> ScenarioOutcome:
        runner.is_machine_lost = scenario.number == 2 and how == "lost"
        if how == "without discards":
            opened[-1].is_as_new = scenario.number != 2
        return outcome(scenario.number)

    monkeypatch.setattr(ScenarioRunner, "play", play)
    found = list(play_all(chosen, open_one))
    assert [each.number for each in found] == [1, 2, 3]
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("kernel", "verdict", "reason"),
    [
        ("6.12.117+deb12-amd64", FaultVerdict.KNOWN_DEFECT, "see docs/findings.md, 27"),
        ("6.1.0-56-amd64", FaultVerdict.MACHINE_LOST, "it reported nothing for 0.2 s, so it hangs or loops endlessly"),
    ],
)
def test_a_hang_is_a_known_defect_only_on_a_kernel_that_has_it(
    monkeypatch: pytest.MonkeyPatch, kernel: str, verdict: FaultVerdict, reason: str
) -> None:
    journal = find_scenario("19")
    hanging = tuple(each for each in journal.variants if each.defect)
    scenario = msgspec.structs.replace(journal, variants=hanging)
    machine = ClosableMachine(kernel)

    def silence(*_: object) -> Iterator[dict[str, Any]]:
        yield from ()
        assert machine.closed.wait(PATIENCE_SECONDS)
        raise MachineLost("the machine has ended")

    runner = runner_on(machine, monkeypatch, _documents=silence)

    def shorten(_: ReadyVariant) -> None:
        # Not earlier, or the limit might be exceeded on a busy computer before the variant begins.
        runner.longest_silence_seconds = 0.2

    runner.hooks = ScenarioHooks(on_variant=shorten)
    found = runner.play(scenario)
    assert (found.verdict, found.reason, runner.is_machine_lost) == (verdict, reason, True)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [("6.1.192-raidlab-vt", True), ("6.18.5", True), ("6.19.0-rc1", False), ("7.2.12+deb14-amd64", False)],
)
def test_of_two_variants_one_fits_each_kernel(kernel: str, expected: bool) -> None:
    joins, refuses = (each.kernels for each in find_scenario("34").variants if "join 512" in each.name)
    assert (joins.includes(kernel), refuses.includes(kernel)) == (expected, not expected)


@pytest.mark.parametrize(
    ("limits", "has_record", "expected"),
    [(("4096\n", "4096\n"), True, True), (("4096\n", "0\n"), True, False), (("0\n", "0\n"), False, True)],
)
def test_a_place_is_as_new_while_its_recorded_drives_accept_discards(
    limits: tuple[str, ...], has_record: bool, expected: bool
) -> None:
    disks = [SimpleNamespace(kernel_name=f"nbd{number}") for number in range(len(limits))]
    machine = SimpleNamespace(read=lambda paths: dict(zip(paths, limits, strict=True)))
    lab: Any = SimpleNamespace(disks=disks, machine=machine)
    assert FaultPlace(lab, ("/dev/nbd0", "/dev/nbd1"), has_record).is_as_new is expected


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_scenario_that_ends_its_machine_has_an_outcome_too(
    is_lost: bool, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = ClosableMachine("7.2.12")
    runner_on(machine, monkeypatch, _documents=lambda *_: iter(()), _judged=lambda *_: iter([StepOutcome(do="check")]))

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[FaultPlace]:
        yield place_of(machine)
        if is_lost:
            raise MachineLost("the kernel crashed")

    monkeypatch.setattr(scenario_run, "open_place", opened)
    found = play_and_store(find_scenario("1"), parse_target("qemu:"), host, on_machine=lambda _: None)
    stored = load_run(host)
    assert stored.outcomes == (found,)
    assert (stored.run.target, stored.run.mdadm) == ("qemu:", "mdadm - v4.4")


def test_a_scenario_without_a_machine_leaves_no_run(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_place(*_: object, **__: object) -> FaultPlace:
        raise MachineLost("the kernel does not start")

    monkeypatch.setattr(scenario_run, "open_place", no_place)
    with pytest.raises(MachineLost):
        play_and_store(find_scenario("1"), parse_target("qemu:"), host)
    assert not scenario_runs(host).ids()


def test_a_long_step_sends_heartbeats_that_feed_the_watchdog_and_are_not_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 3.0, 9.9, 10.5, 10.5, 12.0, 25.0, 25.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    alive = Alive()
    for _ in range(5):
        alive.report()
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents == [{"alive": True}] * 2

    fed: list[None] = []
    watchdog = SimpleNamespace(feed=lambda: fed.append(None))
    here: Any = SimpleNamespace(lab=SimpleNamespace(machine=None))
    monkeypatch.setattr(scenario_run, "run_program", lambda *_: iter([*documents, {"step": 0}]))
    passed_on = ScenarioRunner(here)._documents(here, [{}], watchdog)  # type: ignore[arg-type]
    assert list(passed_on) == [{"step": 0}]
    assert len(fed) == 3


class LostStream:
    """Prints documents; its machine turns out to be lost when it is stopped."""

    stops = 0

    def chunks(self) -> Iterator[str]:
        yield '{"step": 1}\n'
        yield '{"step": 2}\n'

    def stop(self, signal_number: int) -> None:
        assert signal_number == 9
        self.stops += 1
        raise MachineLost("the machine was closed")


def test_closing_after_the_machine_was_lost_raises_nothing() -> None:
    stream = LostStream()

    class Machine:
        def install(self, *_: Any) -> str:
            return "/run/raidlab/program"

        def stream(self, *_: Any, **__: Any) -> LostStream:
            return stream

    documents = place.run_program(Machine(), place.PLAYER, {})  # type: ignore[arg-type]
    assert next(documents) == {"step": 1}
    documents.close()  # type: ignore[attr-defined]
    assert stream.stops == 1


@pytest.mark.parametrize(
    ("differing", "problem", "verdict"),
    [
        ("mismatch_cnt", "", FaultVerdict.KNOWN_DEFECT),
        ("data", "", FaultVerdict.NOT_AS_EXPECTED),
        ("mismatch_cnt", "md did not become idle in time", FaultVerdict.NOT_AS_EXPECTED),
    ],
)
def test_a_known_defect_explains_only_the_facts_that_it_names(
    monkeypatch: pytest.MonkeyPatch, differing: str, problem: str, verdict: FaultVerdict
) -> None:
    changing = find_scenario("20")
    scenario = msgspec.structs.replace(changing, variants=tuple(each for each in changing.variants if each.defect))
    check = FactCheck(what=differing, wanted="0", found="8", is_met=False)
    runner = runner_on(
        ClosableMachine("7.2.12"),
        monkeypatch,
        _documents=lambda *_: iter(()),
        _judged=lambda *_: iter([StepOutcome(do="check", checks=(check,), problem=problem)]),
    )
    assert runner.play(scenario).verdict is verdict


def test_the_facts_of_each_known_defect_are_expected_by_a_step() -> None:
    found = [variant for scenario in all_scenarios() for variant in scenario.ready(1) if variant.defect]
    for variant in found:
        assert variant.defect is not None
        expected = {fact for step in variant.steps for fact in step.expect}
        assert set(variant.defect.facts) <= expected, variant.name
        assert variant.defect.facts or variant.defect.hangs, variant.name
    assert len(found) == 5
