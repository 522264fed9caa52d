"""Background jobs of the Faults screen: scenarios, crash points and campaigns, each on machines of its own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from lab.errors import LabError, RunCancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.faults.crash_points import CutConfiguration, StoredPoints
    from lab.faults.scenario import Scenario
    from lab.faults.scenario_run import ScenarioOutcome, StepOutcome
    from lab.machine import Host, Target
    from tui.frontend import Cancelled, Frontend, Progress

POINTS = 60
CAMPAIGN_SEEDS = 40
MOST_LINES = 2000
SEED = 1
_MOST_RUNS = 50
"""Number of the newest stored runs that are read."""
Line = tuple[str, str]
"""(text, style) of a line; the style is ``plain``, ``muted``, ``good``, ``bad`` or ``title``."""


@dataclass(frozen=True, slots=True)
class FaultItem:
    """A scenario, a configuration for crash points, or a campaign."""

    id: str
    label: str
    about: tuple[Line, ...]
    work: Callable[[Frontend, Progress, Cancelled], Line]
    """Runs it and returns the line of its outcome; raises LabError."""


@dataclass(slots=True)
class FaultView:
    """The output of the current or the last run of one item."""

    item: str
    lines: list[Line] = field(default_factory=list)
    outcome: Line | None = None
    """None while it runs."""
    is_ending: bool = False

    @property
    def is_running(self) -> bool:
        return self.outcome is None

    def add(self, line: Line) -> None:
        """Append a line; only the last ``MOST_LINES`` are kept."""
        self.lines.append(line)
        del self.lines[:-MOST_LINES]

    def lines_from(self, names: Sequence[str]) -> list[Line]:
        """All lines, with the parts that have one of these titles moved before the other parts."""
        parts: list[list[Line]] = [[]]
        for line in self.lines:
            if line[1] == "title":
                parts.append([])
            parts[-1].append(line)
        wanted = [part for name in names for part in parts if part and part[0] == (name, "title")]
        head, *others = (part for part in parts if part not in wanted)
        return [line for part in (head, *wanted, *others) for line in part]


class FaultRuns:
    """Starts and cancels runs, one at a time."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.view: FaultView | None = None
        self.stored: Mapping[str, FaultView] = {}
        """Id of an item -> its newest stored outcome, whether of the app, the command line or a lesson."""

    def read_stored(self) -> None:
        """Read the stored outcomes on a thread of its own."""
        host = self._frontend.client.host

        def read() -> Mapping[str, FaultView]:
            return stored_views(host)

        def done(found: Mapping[str, FaultView]) -> None:
            self.stored = found
            self._frontend.show_soon()

        self._frontend.beside("outcomes", read, on_done=done)

    def shown(self, item_id: str) -> FaultView | None:
        """The run of an item in this app, else its newest stored outcome, else None."""
        return self.view if self.view and self.view.item == item_id else self.stored.get(item_id)

    def start(self, item: FaultItem) -> bool:
        """Start the item; False if another background job runs."""
        view = FaultView(item.id)

        def done(outcome: Line) -> None:
            view.outcome = outcome
            self._frontend.say(outcome[0], title=item.label, is_bad=outcome[1] == "bad")

        def failed(error: LabError) -> None:
            is_cancelled = isinstance(error, RunCancelled)
            view.outcome = ("Ended before its time.", "muted") if is_cancelled else (error.message, "bad")
            if error.hint and not is_cancelled:
                view.add((f"next: {error.hint}", "muted"))

        def work(progress: Progress, cancelled: Cancelled) -> Line:
            return item.work(self._frontend, progress, cancelled)

        begun = self._frontend.background.run(item.label, work, on_done=done, on_error=failed, on_progress=view.add)
        if begun:
            self.view = view
        return begun

    def cancel(self) -> None:
        """Request that the run ends at its next step."""
        if self.view and self.view.is_running:
            self.view.is_ending = True
            self._frontend.background.cancel()
            self._frontend.show_soon()


def stored_views(host: Host) -> Mapping[str, FaultView]:
    """Id of an item -> its newest stored outcome. Outcomes that cannot be read are omitted."""
    from lab.faults.crash_points import stored_points
    from lab.faults.scenario_run import load_run, stored_runs

    found: dict[str, FaultView] = {}
    for run in stored_runs(host)[:_MOST_RUNS]:
        with suppress(LabError):
            for outcome in load_run(host, run.id).outcomes:
                head = (f"played {run.created_utc}, seed {run.seed}", "muted")
                found.setdefault(f"scenario-{outcome.number}", scenario_view(outcome, head))
    for kept in islice(stored_points(host), _MOST_RUNS):
        found.setdefault(f"points-{kept.configuration}", points_view(kept))
    return found


def points_view(kept: StoredPoints) -> FaultView:
    """The view of stored crash points."""
    from lab.faults.crash_points import PointJudgement

    view = FaultView(f"points-{kept.configuration}", [(f"tried {kept.created_utc}, seed {kept.seed}", "muted")])
    for judgement, count in kept.judgements.items():
        view.add((f"  {judgement}: {count}", "plain"))
    is_broken = bool(kept.judgements.get(PointJudgement.BROKEN))
    view.outcome = (f"{sum(kept.judgements.values())} crash points", "bad" if is_broken else "good")
    return view


def scenario_view(outcome: ScenarioOutcome, head: Line) -> FaultView:
    """The view of a stored scenario, without its commands; ``head`` is the first line."""
    view = FaultView(f"scenario-{outcome.number}", [head])
    for variant in outcome.variants:
        view.add((variant.name or outcome.title, "title"))
        for step in variant.steps:
            for line in step_lines(step, with_commands=False):
                view.add(line)
    view.outcome = outcome_line(outcome)
    return view


def outcome_line(outcome: ScenarioOutcome) -> Line:
    """The verdict of a scenario, as one line."""
    from lab.faults.scenario_run import FaultVerdict

    told = f"{outcome.verdict}: {len(outcome.checks)} checks, {outcome.computer_seconds:.1f} s"
    is_good = outcome.verdict is FaultVerdict.AS_EXPECTED
    return f"{told}{'; ' if outcome.reason else ''}{outcome.reason}", "good" if is_good else "bad"


def all_items() -> tuple[FaultItem, ...]:
    """All scenarios by number, then the configurations for crash points, then the campaigns."""
    from lab.faults.crash_points import all_configurations
    from lab.faults.history import LEVELS
    from lab.faults.scenario import all_scenarios

    points = [each for each in all_configurations() if each.moment == "idle" and each.load == "mixed"]
    return (
        *map(_scenario_item, all_scenarios()),
        *map(_points_item, points),
        *map(_campaign_item, ("", *LEVELS)),
    )


def _target(frontend: Frontend) -> Target:
    """The target of the fault lab: an embedded kernel of its own, with the app's time mode if the app uses one too."""
    from lab.machine import TargetKind, parse_target

    target = parse_target(frontend.lab.target or "uml:")
    time = target.options.get("time") if target.kind is TargetKind.UML else None
    return parse_target(f"uml:?time={time}" if time else "uml:")


def _stop_if(cancelled: Cancelled) -> None:
    if cancelled():
        raise RunCancelled("cancelled")


def _scenario_item(scenario: Scenario) -> FaultItem:
    about: list[Line] = [(scenario.title, "title"), ("", "plain"), (f"Fault model: {scenario.model}", "plain")]
    about += [("", "plain"), ("What must hold", "title"), *((each, "plain") for each in scenario.must)]
    if scenario.notes:
        about += [("", "plain"), *((each, "muted") for each in scenario.notes)]
    about += [("", "plain"), ("Sources", "title"), *((each, "muted") for each in scenario.sources)]

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        from lab.faults.place import open_place
        from lab.faults.scenario_run import ScenarioHooks, ScenarioRunner, begun_run

        def on_step(outcome: StepOutcome) -> None:
            for line in step_lines(outcome):
                progress(line)
            _stop_if(cancelled)

        hooks = ScenarioHooks(
            on_variant=lambda variant: progress((variant.name or scenario.title, "title")), on_step=on_step
        )
        progress(("a machine starts", "muted"))
        target, host = _target(frontend), frontend.client.host
        journal = begun_run(host, str(target), SEED, [scenario.id])
        try:
            with open_place(target, host) as place:
                journal.note_place(place)
                outcome = ScenarioRunner(place, SEED, hooks).play(scenario)
            journal.add(outcome)
        finally:
            journal.forget_if_empty()
        for line in outcome.unmet:
            progress((line, "bad"))
        return outcome_line(outcome)

    return FaultItem(f"scenario-{scenario.number}", f"{scenario.number:2} {scenario.title}", tuple(about), work)


def step_lines(outcome: StepOutcome, *, with_commands: bool = True) -> list[Line]:
    """The lines of a step: its reason and commands, its checks, the affected blocks and the problem, if any."""
    lines: list[Line] = [(outcome.why or outcome.do, "plain")] if with_commands else []
    lines += [(f"  $ {line}", "muted") for line in outcome.lines if with_commands]
    for check in outcome.checks:
        wanted = "" if check.is_met else f", must be {check.wanted}"
        lines.append((f"  {check.what}: {check.found}{wanted}", "good" if check.is_met else "bad"))
    lines += [(f"    {block}", "muted") for block in outcome.blocks]
    if outcome.problem:
        lines.append((f"  {outcome.problem}", "bad"))
    return lines


def _points_item(configuration: CutConfiguration) -> FaultItem:
    policy = configuration.policy
    name = f"{configuration.level} {policy.name}"
    about: tuple[Line, ...] = (
        (f"Power cuts: {configuration.level}, {policy.title}", "title"),
        ("", "plain"),
        (
            f"A load is recorded, drive by drive; then {POINTS} states that a power cut could have left are made, many "
            "with one member lost too, and the data judged at each.",
            "plain",
        ),
        ("", "plain"),
        ("What md promises", "title"),
        (f"All members there: {policy.whole}", "plain"),
        (f"One lost: {policy.degraded}", "plain"),
        (policy.source, "muted"),
    )

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        from lab.faults.crash_points import MOST_DRIVES, PointJudgement, PointVerdict, explore, keep_points
        from lab.faults.place import open_place

        def on_point(verdict: PointVerdict) -> None:
            is_broken = verdict.judgement is PointJudgement.BROKEN
            progress((f"{verdict.cut[:60]}: {verdict.judgement}", "bad" if is_broken else "plain"))
            for reason in verdict.reasons:
                progress((f"  {reason}", "bad"))

        progress(("a machine starts, and the load is recorded", "muted"))
        with open_place(_target(frontend), frontend.client.host, drives=MOST_DRIVES) as place:
            found = explore(
                place, configuration, seed=str(SEED), points=POINTS, on_point=on_point, is_stopped=cancelled
            )
        _stop_if(cancelled)
        if found.error:
            raise found.error
        keep_points(frontend.client.host, found)
        counted = ", ".join(f"{count} {word.value}" for word, count in sorted(found.tally.judgements.items()))
        return f"{found.tally.points} crash points: {counted}", "bad" if found.tally.broken else "good"

    return FaultItem(f"points-{configuration.name}", name, about, work)


def _campaign_item(level: str) -> FaultItem:
    about: tuple[Line, ...] = (
        (f"Random histories of {f'RAID {level}' if level else 'all levels'}", "title"),
        ("", "plain"),
        (
            f"{CAMPAIGN_SEEDS} histories, each from its seed: writes, failures, removals, rebuilds, growths, "
            "corruption, power cuts, restarts. The level arithmetic says what must survive, and the data are judged "
            "after each.",
            "plain",
        ),
        ("", "plain"),
        (
            "What should not be is a finding: it is kept, shrunk to the fewest operations that still show it, and "
            "replayed by 'raidlab fault replay'. Known defects of md are counted by their names (docs/findings.md).",
            "plain",
        ),
    )

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        from lab.faults.campaign import Arena, Campaign, CampaignHooks, begun_campaign
        from lab.faults.place import with_own_kernel

        def on_progress(done: int, wanted: int) -> None:
            _stop_if(cancelled)
            if done % 5 == 0:
                progress((f"{done} of {wanted} histories", "muted"))

        host = frontend.client.host
        target = with_own_kernel(_target(frontend), host)
        asked = {"first": SEED, "seeds": CAMPAIGN_SEEDS, "seconds": 0, "level": level}
        progress(("machines start", "muted"))
        with begun_campaign(host, str(target), **asked) as journal:
            hooks = CampaignHooks(lambda text: progress((text, "bad")), on_progress)
            summary = Campaign(journal, Arena(target, host), hooks).run()
        for word, count in summary.explained.items():
            progress((f"explained: {word}: {count}", "plain"))
        found = len(summary.findings)
        told = f"{summary.seeds} histories: {found or 'no'} finding{'' if found == 1 else 's'}"
        return told, "bad" if found else "good"

    return FaultItem(f"campaign-{level or 'all'}", f"RAID {level}" if level else "all levels", about, work)
