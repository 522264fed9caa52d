"""Runs scenarios on separate machines, judges the results, and stores and shows the outcomes.

An outcome contains the evidence, and every check with the expected value and the value found. It is stored
immediately::

    STATE/faults/scenarios/<id>/run.json         the options and the machine
    STATE/faults/scenarios/<id>/outcomes.jsonl   one line per scenario, never changed afterwards
    STATE/faults/scenarios/<id>/documents.jsonl  with --keep: all documents from the machine
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from lab import __version__
from lab.errors import DeviceRefused, LabError, MachineLost, ResultError, RunCancelled, SpecError
from lab.faults.arrays import DATA_OFFSET_BYTES, BlockMap, array_title
from lab.faults.place import (
    LONGEST_SILENCE_SECONDS,
    SCENARIO,
    FaultPlace,
    open_place,
    run_program,
    with_own_kernel,
)
from lab.faults.scenario import (
    NEEDS,
    FactCheck,
    ReadyVariant,
    Scenario,
    ScenarioText,
    SceneStep,
    StepFacts,
    StoredFacts,
    facts_of,
)
from lab.gates.decoding import FormatVersion, Name
from lab.gates.text import shortened
from lab.host.clock import HostClock, utc_second_text
from lab.host.signals import Interrupted
from lab.machine import Host, Machine, Target, parse_target
from lab.machine.target import target_words
from lab.machine.watchdog import Watchdog
from lab.plans import Plan, Step
from lab.store import LATEST, Journal, RunFolders, stem
from lab.tables import Table
from lab.units import human_seconds


class FaultVerdict(StrEnum):
    """The verdict on a whole scenario."""

    AS_EXPECTED = "as expected"
    KNOWN_DEFECT = "a known defect of md"
    """All differences are explained by a finding in docs/findings.md that affects this kernel."""
    NOT_AS_EXPECTED = "NOT as expected"
    NOT_POSSIBLE = "not possible here"
    MACHINE_LOST = "machine lost"


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one step."""

    do: str
    lines: tuple[str, ...] = ()
    why: str = ""
    seconds: float = 0.0
    """Duration on the machine's clock."""
    checks: tuple[FactCheck, ...] = ()
    blocks: tuple[str, ...] = ()
    """The locations and contents of the first blocks whose verdict is not allowed."""
    evidence: dict[str, Any] = {}
    """Documents from the machine; stored only for steps with expectations."""
    problem: str = ""
    """Why the step could not be carried out; empty if it was."""

    @property
    def is_expected(self) -> bool:
        return self.is_expected_but_for(())

    def is_expected_but_for(self, facts: Sequence[str]) -> bool:
        """Whether nothing differs from what is expected, except possibly these facts."""
        return not self.problem and all(check.is_met or check.what in facts for check in self.checks)


class VariantOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of the scenario's steps on one array."""

    name: str
    array: str
    steps: tuple[StepOutcome, ...] = ()
    missing: tuple[str, ...] = ()
    """Descriptions of what the variant needs but this machine lacks; empty if the variant was run."""
    finding: int = 0
    """The number of the known defect of md that explains the differences; 0 if there are none or none explains them."""

    @property
    def is_expected(self) -> bool:
        return all(step.is_expected for step in self.steps)

    @property
    def machine_seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def unmet(self) -> Iterator[str]:
        """The results that are not as expected, as messages."""
        for step in self.steps:
            if step.problem:
                yield f"{self.name}: {step.do}: {step.problem}"
            for check in step.checks:
                if not check.is_met:
                    yield f"{self.name}: after {step.do}: {check.what} is {check.found}, but must be {check.wanted}"


class ScenarioOutcome(ScenarioText, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one scenario."""

    verdict: FaultVerdict
    reason: str = ""
    """Why the scenario could not be run, or what happened to the machine."""
    variants: tuple[VariantOutcome, ...] = ()
    computer_seconds: float = 0.0
    """Duration on this computer's clock."""

    @property
    def unmet(self) -> tuple[str, ...]:
        return tuple(line for variant in self.variants for line in variant.unmet)

    @property
    def checks(self) -> tuple[FactCheck, ...]:
        return tuple(check for variant in self.variants for step in variant.steps for check in step.checks)

    @property
    def machine_seconds(self) -> float:
        return sum(variant.machine_seconds for variant in self.variants)

    @property
    def is_partial(self) -> bool:
        """Whether this machine cannot run some of the variants."""
        return any(variant.missing for variant in self.variants)


def verdict_of(variants: tuple[VariantOutcome, ...]) -> FaultVerdict:
    """Return the verdict on all variants. Unexpected results take precedence over variants that could not be run."""
    if not all(variant.is_expected or variant.finding for variant in variants):
        return FaultVerdict.NOT_AS_EXPECTED
    if any(variant.finding for variant in variants):
        return FaultVerdict.KNOWN_DEFECT
    if not any(variant.steps for variant in variants):
        return FaultVerdict.NOT_POSSIBLE
    return FaultVerdict.AS_EXPECTED


FORMAT_VERSION = 1


class ScenarioRun(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run, and its machine."""

    format_version: FormatVersion = FORMAT_VERSION
    id: Name
    created_utc: str
    target: str
    seed: int
    asked: tuple[Name, ...]
    """Ids of scenarios."""
    kernel: str = ""
    """The kernel release. This field and ``mdadm`` are empty until the first machine is open."""
    mdadm: str = ""
    raidlab: str = __version__


class StoredScenarios(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its outcomes so far."""

    run: ScenarioRun
    outcomes: tuple[ScenarioOutcome, ...]

    @property
    def left(self) -> tuple[str, ...]:
        """Scenarios without an outcome because the run ended early."""
        done = {outcome.id for outcome in self.outcomes}
        return tuple(name for name in self.run.asked if name not in done)

    @property
    def is_expected(self) -> bool:
        """Whether all requested scenarios and variants were run, and only known defects of md caused differences."""
        return not self.left and all(
            outcome.verdict in (FaultVerdict.AS_EXPECTED, FaultVerdict.KNOWN_DEFECT) and not outcome.is_partial
            for outcome in self.outcomes
        )


class ScenarioJournal:
    """Writes the outcomes of one run to its folder."""

    def __init__(self, runs: RunFolders, run: ScenarioRun) -> None:
        self.folder = runs.path(run.id)
        self.run = run
        self.outcomes: list[ScenarioOutcome] = []
        self._runs = runs
        self._outcomes = _outcomes_of(self.folder)
        # Documents are diagnostics only: their loss in a power failure is acceptable.
        self._documents = Journal[dict[str, Any]](self.folder / "documents.jsonl", dict[str, Any], is_durable=False)

    @property
    def stored(self) -> StoredScenarios:
        return StoredScenarios(run=self.run, outcomes=tuple(self.outcomes))

    def note_place(self, place: FaultPlace) -> None:
        """Store the kernel and mdadm version of the run's machine. Raises ResultError."""
        machine = place.lab.machine
        version = machine.run(("mdadm", "--version"), check=False)
        text = (version.stdout or version.stderr).strip()
        self.run = msgspec.structs.replace(self.run, kernel=machine.facts.kernel_release, mdadm=text)
        self._runs.write_header(self.run, self.run.id)

    def forget_if_empty(self) -> None:
        """Remove a run that has neither an outcome nor a document."""
        if not self.outcomes and not self._documents.path.exists():
            with suppress(LabError):
                self._runs.delete(self.run.id, is_held=True)

    def add(self, outcome: ScenarioOutcome) -> None:
        """Store an outcome durably. Raises ResultError."""
        self._outcomes.append(outcome)
        self.outcomes.append(outcome)

    def add_document(self, document: dict[str, Any]) -> None:
        self._documents.append(document)


def scenario_runs(host: Host) -> RunFolders:
    """Return the runs of scenarios in the state folder."""
    return RunFolders(
        host.state.root / "faults" / "scenarios",
        "run of scenarios",
        ("run.json",),
        begin_hint="run a scenario: raidlab fault run 10",
        list_hint="'raidlab fault show' shows the latest",
        state_root=host.state.root,
    )


@contextmanager
def begun_run(host: Host, target: str, seed: int, asked: Sequence[str]) -> Iterator[ScenarioJournal]:
    """Create a run, hold its lock inside the context, and remove it at the end if it is empty. Raises LabError."""
    runs, created = scenario_runs(host), utc_second_text(host.clock)
    with runs.begin(stem(host.clock.utc_now())) as folder:
        run = ScenarioRun(id=folder.name, created_utc=created, target=target, seed=seed, asked=tuple(asked))
        journal = ScenarioJournal(runs, run)
        try:
            runs.write_header(run, run.id)
            yield journal
        finally:
            journal.forget_if_empty()


def stored_runs(host: Host) -> tuple[ScenarioRun, ...]:
    """Return all readable runs, newest first."""
    found = scenario_runs(host).headers(ScenarioRun, FORMAT_VERSION).values()
    return tuple(sorted(found, key=lambda run: (run.created_utc, run.id), reverse=True))


def load_run(host: Host, name: str = LATEST) -> StoredScenarios:
    """Return the run whose id is this text or begins with it, or the ``latest`` run. Raises ResultError."""
    runs = scenario_runs(host)
    run_id = runs.find(name, lambda ids: next((run.id for run in stored_runs(host)), ids[0]))
    run = runs.good_header(run_id, ScenarioRun, FORMAT_VERSION)
    return StoredScenarios(run=run, outcomes=tuple(_outcomes_of(runs.path(run_id)).read()))


def _outcomes_of(folder: Path) -> Journal[ScenarioOutcome]:
    return Journal(folder / "outcomes.jsonl", ScenarioOutcome, hint="run the scenarios again")


def outcome_table(stored: StoredScenarios) -> Table:
    """Return one row per scenario; the notes contain the unexpected results and describe the machine."""
    run = stored.run
    rows = []
    for each in stored.outcomes:
        is_partial = each.is_partial and each.verdict is FaultVerdict.AS_EXPECTED
        verdict = f"{each.verdict}, in part" if is_partial else each.verdict.value
        met = f"{sum(check.is_met for check in each.checks)} of {len(each.checks)}"
        times = (human_seconds(each.machine_seconds), human_seconds(each.computer_seconds))
        rows.append((each.number, each.title, verdict, met, *times))
    numbers = ("checks met", "machine's time", "computer's time")
    table = Table.listing(("number", "scenario", "verdict", *numbers), rows, right=("number", *numbers))
    return replace(table, title=f"Faults: run {run.id}", notes=tuple(_notes(stored)))


def _notes(stored: StoredScenarios) -> Iterator[str]:
    run = stored.run
    yield f"Linux {run.kernel}, {run.mdadm}, {target_words(run.target)}, seed {run.seed}, raidlab {run.raidlab}"
    counts = Counter(outcome.verdict.value for outcome in stored.outcomes)
    yield ", ".join(f"{count} {word}" for word, count in counts.items()) or "nothing was judged"
    for outcome in stored.outcomes:
        if outcome.reason:
            yield f"{outcome.number} {outcome.verdict}: {outcome.reason}"
        for line in outcome.unmet:
            yield f"{outcome.number} {line}"
    if stored.left:
        yield f"not run: {', '.join(stored.left)}"


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """Return the catalogue as a table."""
    rows = [(each.number, each.id, "yes" if each.is_first else "", each.title, each.model) for each in scenarios]
    table = Table.listing(("number", "id", "first", "title", "fault model"), rows, right=("number",))
    return replace(table, title="Scenarios")


def scenario_text(scenario: Scenario) -> str:
    """Describe one scenario: its fault model, its requirements and their sources."""
    lines = [f"{scenario.number}  {scenario.id}: {scenario.title}", *_head_lines(scenario)]
    if scenario.notes:
        lines += ["notes:", *(f"  - {each}" for each in scenario.notes)]
    if names := [each.name for each in scenario.variants if each.name]:
        lines.append(f"variants: {'; '.join(names)}")
    return "\n".join(lines)


def _head_lines(text: ScenarioText) -> list[str]:
    must, sources = ([f"  - {each}" for each in listed] for listed in (text.must, text.sources))
    return [f"fault model: {text.model}", "must hold:", *must, "sources:", *sources]


def outcome_text(outcome: ScenarioOutcome) -> str:
    """Describe one outcome with its evidence: the steps, the checks and the bad blocks."""
    lines = [f"{outcome.number}  {outcome.title}", *_head_lines(outcome)]
    for variant in outcome.variants:
        lines += ["", variant_title(variant.name, variant.array)]
        lines += [f"  not possible here: it needs {each}" for each in variant.missing]
        for step in variant.steps:
            lines += [f"  {line}" for line in step_text(step)]
    if outcome.notes:
        lines += ["", "notes:", *(f"  - {each}" for each in outcome.notes)]
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return "\n".join([*lines, "", f"verdict: {outcome.verdict}{reason}"])


def variant_title(name: str, array: str) -> str:
    """Return the title, for example ``RAID 5 (raid5 of 4, …)``."""
    return f"{name} ({array})" if name and name != array else array


_SIGNS = {"good": "✓ ", "bad": "✗ "}


def step_text(step: StepOutcome) -> list[str]:
    """Return the lines of ``step_lines`` as plain text, with a sign for each that is good or bad."""
    signed = ((text.lstrip(), text, _SIGNS.get(tone, "")) for text, tone in step_lines(step))
    return [f"{text[: len(text) - len(bare)]}{sign}{bare}" for bare, text, sign in signed]


def step_lines(step: StepOutcome, *, with_commands: bool = True) -> list[tuple[str, str]]:
    """Describe a step: its commands, the reason for them, and the values found and expected.

    Each line has a tone: ``plain``, ``muted``, ``good`` or ``bad``.
    """
    lines = [(f"{step.do}: {step.why}" if step.why else step.do, "plain")] if with_commands else []
    lines += [(f"  $ {line}", "muted") for command in step.lines if with_commands for line in command.splitlines()]
    if step.problem:
        lines.append((f"  {step.problem}", "bad"))
    if text := md_words(step):
        lines.append((f"  {text}", "muted"))
    lines += [(f"  {block}", "muted") for block in step.blocks]
    for check in step.checks:
        more, tone = ("", "good") if check.is_met else (f", but must be {check.wanted}", "bad")
        # A command's output may have several lines.
        first, *rest = f"{check.what}: {check.found.strip()}{more}".splitlines()
        lines += [(f"  {first}", tone), *((f"    {line}", "plain") for line in rest)]
    return lines


def md_words(step: StepOutcome) -> str:
    """Return the oracle's counts and md's state after a step with expectations."""
    parts = []
    if verdicts := step.evidence.get("verdicts"):
        parts.append("oracle: " + ", ".join(f"{count} {word}" for word, count in verdicts.items()))
    if state := step.evidence.get("state"):
        names = ("array_state", "degraded", "sync_action", "mismatch_cnt")
        parts.append("md: " + ", ".join(f"{name} {state[name]}" for name in names if name in state))
    members = sorted((step.evidence.get("members") or {}).items())
    if states := [f"drive {number} {words['state']}" for number, words in members if words.get("state") != "in_sync"]:
        parts.append(", ".join(states))
    for name in ("right_after", "settled"):
        if counts := step.evidence.get(name):
            parts.append(f"{name.replace('_', ' ')}: " + ", ".join(f"{word} {count}" for word, count in counts.items()))
    if lost := step.evidence.get("untouched_at"):
        parts.append("lost with member " + ", ".join(f"{member or 'none'}: blocks {at}" for member, at in lost.items()))
    return "; ".join(parts)


_EVIDENCE = (
    *("verdicts", "at", "bad", "bad_in_flight", "state", "members", "events", "output", "status", "refused", "text"),
    *("complaints", "told", "culprits", "copies", "fits", "untouched_at", "examples", "cut", "stop", "wrong"),
    *("right_after", "settled", "idle", "late"),
)
"""The keys of the documents from the machine that are stored as evidence."""
_LONGEST_OUTPUT = 600
_WRITING = ("fill", "write", "flush", "write-on", "under-load")


class PlayedVariant:
    """One variant: its history, and the assignment of documents to steps."""

    def __init__(self, variant: ReadyVariant, *, is_virtual: bool) -> None:
        self.variant, self.is_virtual, self.stage = variant, is_virtual, variant.stage()
        self._nodes: tuple[str, ...] = ()
        self._made = [(each, each.guest_steps(self.stage)) for each in variant.steps]

    def history(self, place: FaultPlace) -> dict[str, Any]:
        """Return the history as a job for the program on the machine."""
        self._nodes = place.nodes
        places = self.stage.places
        return {
            "seed": self.variant.seed,
            "geometry": places.geometry(),
            "members": places.members,
            "data_offset": DATA_OFFSET_BYTES,
            "stripe_blocks": places.row_blocks,
            "nodes": place.nodes,
            "has_record": place.has_record,
            "has_journal": self.variant.array.journal_device is not None,
            "steps": [each for _, made in self._made for each in made],
        }

    def evidence(self, documents: Iterator[dict[str, Any]]) -> Iterator[tuple[SceneStep, dict[str, Any], list[str]]]:
        """Yield each step with its merged evidence and commands, up to the first that could not be carried out."""
        for step, made in self._made:
            found: dict[str, Any] = {"seconds": 0.0}
            lines: list[str] = []
            for each in made:
                document = next(documents, {"broke": "the machine sent no further documents"})
                lines += shell_lines(each, document)
                if document.get("status") and found.get("status"):
                    document = {**document, "status": found["status"]}
                found = {**found, **document, "seconds": found["seconds"] + document.get("seconds", 0.0)}
                if "broke" in document:
                    break
            # Scenario files name drives by number: ``@1`` stands for the node of drive 1.
            for number, node in enumerate(self._nodes) if "text" in found else ():
                found["text"] = re.sub(rf"{re.escape(node)}(?![\w-])", f"@{number}", found["text"])
            yield step, found, lines
            if "broke" in found:
                break


def shell_lines(made: list[Any], document: Mapping[str, Any]) -> list[str]:
    """Return the shell commands that match a step of the machine's program; some steps have none."""
    match made[0]:
        case "run" | "start" | "under":
            argv = document.get("argv", made[-1] if made[0] != "run" else made[1])
            return [argv[2] if argv[:2] == ["sh", "-c"] else shlex.join(argv)]
        case "write":
            return [f"echo {shlex.quote(made[2])} > {made[1]}"]
        case "line":
            return [f"echo {shlex.quote(made[1])} > /dev/lab-drives"]
        case "layer" | "table":
            verb = "create" if made[0] == "layer" else "reload"
            return [f"dmsetup {verb} fault-{made[1]} <<< {shlex.quote(made[2])}"]
        case "message":
            return [f"dmsetup message fault-{made[1]} 0 {made[2]}"]
        case "hang" | "wake":
            return [f"dmsetup {'suspend' if made[0] == 'hang' else 'resume'} fault-{made[1]}"]
        case "flip":
            return [f"(invert {made[3]} bytes of {document.get('node', made[1])} at byte {made[2]})"]
        case "cut":
            return [f"(cut the power: {document.get('cut', made[2])})"]
    return []


def judged_step(
    step: SceneStep, evidence: dict[str, Any], lines: list[str], played: PlayedVariant, stored: StoredFacts
) -> tuple[StepOutcome, dict[str, Any]]:
    """Return the outcome of one step, and its facts."""
    own = step.facts(evidence, played.stage)
    places = played.stage.places
    found = StepFacts(facts_of(evidence, own), stored, places)
    expect = step.expect if played.is_virtual or not step.is_timed else {}
    known = {name: evidence[name] for name in _EVIDENCE if name in evidence} if step.expect else {}
    if "output" in known:
        known["output"] = shortened(str(known["output"]).strip(), _LONGEST_OUTPUT)
    outcome = StepOutcome(
        do=step.word,
        lines=tuple(lines),
        why=step.why,
        seconds=evidence["seconds"],
        checks=tuple(_checked(found, name, expected) for name, expected in expect.items()),
        blocks=tuple(_block_text(each, places) for each in evidence.get("bad", ())),
        evidence={**known, **({"facts": own} if own and step.expect else {})},
        problem=problem_of(step, evidence),
    )
    return outcome, dict(found.facts)


def _checked(found: StepFacts, name: str, expected: Any) -> FactCheck:
    try:
        return found.check(name, expected)
    except SpecError as error:
        return FactCheck(what=name, wanted=str(expected), found=error.message, is_met=False)


def problem_of(step: SceneStep, evidence: Mapping[str, Any]) -> str:
    """Return why a step failed, or nothing if it did not or if its expectations cover that kind of failure."""
    if "broke" in evidence:
        return str(evidence["broke"])
    expected = step.expect
    if evidence.get("status", 0) != 0 and not {"status", "output"} & expected.keys():
        return f"status {evidence['status']}: {str(evidence.get('output', '')).strip()[-_LONGEST_OUTPUT:]}"
    if isinstance(evidence.get("refused"), str) and evidence["refused"] and "refused" not in expected:
        return f"refused: {evidence['refused']}"
    if evidence.get("late") and "late" not in expected:
        return f"the expected value was not reached; last: '{evidence.get('text', '')}'"
    if evidence.get("idle") is False and "idle" not in expected:
        return "md did not become idle in time"
    if step.word in _WRITING and evidence.get("failures") and "failures" not in expected:
        return f"{evidence['failures']} writes failed"
    return ""


def _block_text(bad: list[Any], places: BlockMap) -> str:
    block, verdict, held, allowed = bad
    versions = " or ".join(str(each) for each in allowed)
    holds = f"holds {', '.join(dict.fromkeys(str(each) for each in held))}" if held else "cannot be read"
    return f"{places.described(block)}: {verdict}: {holds}, must hold version {versions}"


def _reasons(variants: Sequence[VariantOutcome]) -> Iterator[str]:
    """Yield the reasons why some variants were not run, or did not end as expected."""
    if missing := sorted({each for variant in variants for each in variant.missing}):
        yield f"it needs {'; '.join(missing)}"
    if findings := sorted({variant.finding for variant in variants if variant.finding}):
        yield f"see docs/findings.md, {', '.join(map(str, findings))}"


Documents = Iterator[dict[str, Any]]


def _nothing(*_: object) -> None:
    pass


@dataclass(frozen=True)
class ScenarioHooks:
    """Callbacks for the progress of a run."""

    on_scenario: Callable[[Scenario], None] = _nothing
    on_variant: Callable[[ReadyVariant], None] = _nothing
    on_step: Callable[[StepOutcome], None] = _nothing
    on_document: Callable[[dict[str, Any]], None] = _nothing


def play_all(
    scenarios: Sequence[Scenario],
    open_one: Callable[[], AbstractContextManager[FaultPlace]],
    *,
    seed: int = 1,
    hooks: ScenarioHooks | None = None,
    on_place: Callable[[FaultPlace], None] = _nothing,
) -> Iterator[ScenarioOutcome]:
    """Run scenarios one after the other, on one machine as long as it remains usable.

    If the machine is lost, that is the outcome of the current scenario, and a new machine runs the rest. Raises
    MachineLost if no machine can be opened at all.
    """
    left = list(scenarios)
    while left:
        runner: ScenarioRunner | None = None
        try:
            with open_one() as place:
                on_place(place)
                runner = ScenarioRunner(place, seed, hooks or ScenarioHooks())
                while left:
                    yield runner.play(left.pop(0))
                    if runner.is_machine_lost or (left and not place.is_as_new):
                        break
        except MachineLost:
            # The machine was lost after a scenario had ended, so the next one runs on a new machine. Each machine runs
            # at least one scenario, so this loop ends.
            if runner is None:
                raise


def play_and_store(
    scenario: Scenario,
    target: Target,
    host: Host,
    *,
    seed: int = 1,
    hooks: ScenarioHooks | None = None,
    on_notice: Callable[[str], None] = _nothing,
    on_machine: Callable[[Machine], None] = _nothing,
) -> ScenarioOutcome:
    """Run one scenario on a separate machine, and store the run. Raises LabError if no machine can be opened."""
    target = with_own_kernel(target, host)
    opened = partial(open_place, target, host, seed=seed, on_notice=on_notice)
    with begun_run(host, str(target), seed, [scenario.id]) as journal:

        def on_place(place: FaultPlace) -> None:
            on_machine(place.lab.machine)
            journal.note_place(place)

        for outcome in play_all([scenario], opened, seed=seed, hooks=hooks, on_place=on_place):
            journal.add(outcome)
    return journal.outcomes[0]


KNOWN_HANG_SECONDS = 60.0
"""The longest silence allowed for a variant in which md is known to hang."""


@dataclass
class ScenarioRunner:
    """Runs scenarios on one machine, whose drives are blanked after each one."""

    place: FaultPlace
    seed: int = 1
    hooks: ScenarioHooks = field(default_factory=ScenarioHooks)
    longest_silence_seconds: float = LONGEST_SILENCE_SECONDS
    is_machine_lost: bool = field(default=False, init=False)
    _playing: VariantOutcome | None = field(default=None, init=False)
    """The outcome of the current variant if a known defect makes md hang in it; None if no such defect applies."""

    def play(self, scenario: Scenario) -> ScenarioOutcome:
        """Run one scenario. If the machine is lost in the process, the scenario gets a verdict that says so."""
        self.hooks.on_scenario(scenario)
        clock, done = HostClock(), list[VariantOutcome]()
        began = clock.monotonic_seconds()
        verdict: FaultVerdict | None = None
        reason = ""
        watchdog = Watchdog(self.place.lab.machine, self.longest_silence_seconds)
        try:
            with watchdog:
                for outcome in self._variants(scenario, watchdog):
                    done.append(outcome)
        except (KeyboardInterrupt, Interrupted):
            # An interrupted scenario cannot be ended cleanly.
            with suppress(LabError):
                self.place.lab.machine.close()
            raise
        except MachineLost as error:
            self.is_machine_lost = True
            if watchdog.has_closed and self._playing:
                done.append(self._playing)
            else:
                silent = f"it reported nothing for {self.longest_silence_seconds:g} s, so it hangs or loops endlessly"
                verdict, reason = FaultVerdict.MACHINE_LOST, silent if watchdog.has_closed else error.message
        except (DeviceRefused, RunCancelled, ResultError):
            # The error is not caused by md, so there is no outcome.
            raise
        except LabError as error:
            verdict, reason = FaultVerdict.NOT_AS_EXPECTED, error.message
        return ScenarioOutcome(
            **{name: getattr(scenario, name) for name in ScenarioText.__struct_fields__},
            verdict=verdict or verdict_of(tuple(done)),
            reason=reason or "; ".join(_reasons(done)),
            variants=tuple(done),
            computer_seconds=clock.monotonic_seconds() - began,
        )

    def _variants(self, scenario: Scenario, watchdog: Watchdog) -> Iterator[VariantOutcome]:
        self._playing = None
        self._require_drives(scenario)
        machine = self.place.lab.machine
        kernel = machine.facts.kernel_release
        variants = [variant for variant in scenario.ready(self.seed) if variant.kernels.includes(kernel)]
        missing = {variant.name: self._missing(variant) for variant in variants}
        played = {
            each.name: PlayedVariant(each, is_virtual=machine.facts.is_virtual_time)
            for each in variants
            if not missing[each.name]
        }
        stored: dict[str, dict[str, Any]] = {}
        apart = {name for name, each in played.items() if each.variant.is_apart and machine.facts.is_embedded}
        histories = [each.history(self.place) for name, each in played.items() if name not in apart]
        documents = self._documents(self.place, histories, watchdog)
        for variant in variants:
            self.hooks.on_variant(variant)
            outcome = VariantOutcome(name=variant.name, array=array_title(variant.array), missing=missing[variant.name])
            if outcome.missing:
                yield outcome
                continue
            defect = variant.defect if variant.defect and variant.defect.includes(kernel) else None
            hangs = defect is not None and defect.hangs
            self._playing = msgspec.structs.replace(outcome, finding=defect.finding) if defect and hangs else None
            watchdog.seconds = min(self.longest_silence_seconds, KNOWN_HANG_SECONDS if hangs else math.inf)
            one = played[variant.name]
            steps = self._apart(one, stored) if variant.name in apart else tuple(self._judged(one, documents, stored))
            watchdog.feed()
            outcome = msgspec.structs.replace(outcome, steps=steps)
            if defect and not outcome.is_expected and all(step.is_expected_but_for(defect.facts) for step in steps):
                outcome = msgspec.structs.replace(outcome, finding=defect.finding)
            yield outcome

    def _apart(self, played: PlayedVariant, stored: dict[str, dict[str, Any]]) -> tuple[StepOutcome, ...]:
        """Run a variant on a new machine of the same kind."""
        lab = self.place.lab
        target = parse_target(lab.machine.facts.target)
        with (
            open_place(target, lab.host, seed=self.seed) as place,
            Watchdog(place.lab.machine, self.longest_silence_seconds) as watchdog,
        ):
            documents = self._documents(place, [played.history(place)], watchdog)
            return tuple(self._judged(played, documents, stored))

    def _documents(self, place: FaultPlace, histories: list[dict[str, Any]], watchdog: Watchdog) -> Documents:
        if not histories:
            return
        for document in run_program(place.lab.machine, SCENARIO, {"histories": histories}):
            watchdog.feed()
            if "alive" not in document:
                self.hooks.on_document(document)
                yield document

    def _require_drives(self, scenario: Scenario) -> None:
        """Raise DeviceRefused unless the drives are unused lab drives, and the machine has no other arrays."""
        lab = self.place.lab
        why = f"Scenario {scenario.number} repeatedly creates its arrays on these drives."
        lab.execute(Plan.of(scenario.title, [Step(("true",), why, writes_devices=self.place.nodes)]))
        if not lab.machine.facts.is_embedded:
            arrays = [name for name in lab.machine.list_dirs(["/sys/block"])["/sys/block"] if name.startswith("md")]
            if arrays:
                raise DeviceRefused(
                    f"{lab.machine.facts.target} already has arrays: {', '.join(arrays)}",
                    hint="run scenarios on a machine where nothing can be lost: --on uml:",
                )

    def _missing(self, variant: ReadyVariant) -> tuple[str, ...]:
        if self.place.has_own_kernel:
            return ()
        machine = self.place.lab.machine
        lacks = [need for need in variant.needs if need == "late-data" or (need in NEEDS and not self.place.has_record)]
        targets = [need.partition(":")[2] for need in variant.needs if need.startswith("dm:")]
        if targets:
            tried = " ".join(f"dm-{target}" for target in targets)
            listed = machine.run(("sh", "-c", f"modprobe -qa {tried}; dmsetup targets"), check=False).stdout
            known = {line.split()[0] for line in listed.splitlines() if line.split()}
            lacks += [f"dm:{target}" for target in targets if target not in known]
        return tuple(NEEDS.get(need, f"the device-mapper target {need.partition(':')[2]}") for need in lacks)

    def _judged(
        self, played: PlayedVariant, documents: Documents, stored: dict[str, dict[str, Any]]
    ) -> Iterator[StepOutcome]:
        its_own = takewhile(lambda document: "end" not in document, documents)
        for step, evidence, lines in played.evidence(its_own):
            outcome, facts = judged_step(step, evidence, lines, played, stored)
            if step.keep:
                stored[step.keep] = facts
            if self._playing:
                # A hang does not explain what went wrong before it.
                steps = (*self._playing.steps, outcome)
                finding = self._playing.finding if outcome.is_expected else 0
                self._playing = msgspec.structs.replace(self._playing, steps=steps, finding=finding)
            self.hooks.on_step(outcome)
            yield outcome
            if outcome.problem:
                # The results of later steps would be meaningless.
                break
        deque(its_own, maxlen=0)
