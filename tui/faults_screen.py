"""The Faults screen, which runs scenarios, crash points and campaigns, and shows verdicts with their evidence."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lab.errors import LabError, RunCancelled
from lab.faults.crash_points import (
    CutConfiguration,
    Exploration,
    PointJudgement,
    PointVerdict,
    StoredPoints,
    all_configurations,
    stored_points,
)
from lab.faults.history import LEVELS
from lab.faults.scenario import Scenario, all_scenarios
from lab.faults.scenario_run import (
    FaultVerdict,
    ScenarioHooks,
    ScenarioOutcome,
    StepOutcome,
    load_run,
    play_and_store,
    step_lines,
    stored_runs,
)
from lab.machine import Host, Target, parse_target
from tui.frontend import Cancelled, Frontend, Progress
from tui.keys import command_key
from tui.look import glyphs_of
from tui.mode import ModeScreen
from tui.runs import JobView, end_job
from tui.state import LabState
from tui.widgets import titled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


POINTS = 60
CAMPAIGN_SEEDS = 40
MOST_LINES = 2000
SEED = 1
_MOST_RUNS = 50
"""Only this many of the newest stored runs are read."""
Line = tuple[str, str]
"""(text, style) of a line. The style is ``plain``, ``muted``, ``good``, ``bad`` or ``title``."""


@dataclass(frozen=True, slots=True)
class FaultItem:
    """A scenario, a configuration for crash points, or a campaign."""

    id: str
    label: str
    about: tuple[Line, ...]
    work: Callable[[Frontend, Progress, Cancelled], Line]
    """Runs it and returns the line with its outcome. Raises LabError."""


@dataclass(slots=True)
class FaultView(JobView[Line]):
    """The output of a run of one item."""

    item: str
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=MOST_LINES))

    def lines_from(self, names: Sequence[str]) -> list[Line]:
        """Return all lines, with the parts that have one of these titles moved to the front."""
        parts: list[list[Line]] = [[]]
        for line in self.lines:
            if line[1] == "title":
                parts.append([])
            parts[-1].append(line)
        chosen = [part for name in names for part in parts if part and part[0] == (name, "title")]
        head, *others = (part for part in parts if part not in chosen)
        return [line for part in (head, *chosen, *others) for line in part]


def stored_views(host: Host) -> Mapping[str, FaultView]:
    """Return the newest stored outcome of each item, by the item's id. Outcomes that cannot be read are omitted."""
    found: dict[str, FaultView] = {}
    for run in stored_runs(host)[:_MOST_RUNS]:
        with suppress(LabError):
            for outcome in load_run(host, run.id).outcomes:
                head = (f"run {run.created_utc}, seed {run.seed}", "muted")
                found.setdefault(f"scenario-{outcome.number}", scenario_view(outcome, head))
    for stored in islice(stored_points(host), _MOST_RUNS):
        found.setdefault(f"points-{stored.configuration}", points_view(stored))
    return found


def points_view(stored: StoredPoints) -> FaultView:
    """Return the view of stored crash points."""
    view = FaultView(f"points-{stored.configuration}")
    view.lines.append((f"run {stored.created_utc}, seed {stored.seed}", "muted"))
    view.lines += [(f"  {judgement}: {count}", "plain") for judgement, count in stored.judgements.items()]
    is_broken = bool(stored.judgements.get(PointJudgement.BROKEN))
    view.outcome = (f"{sum(stored.judgements.values())} crash points", "bad" if is_broken else "good")
    return view


def scenario_view(outcome: ScenarioOutcome, head: Line) -> FaultView:
    """Return the view of a stored scenario, without its commands. ``head`` is the first line."""
    view = FaultView(f"scenario-{outcome.number}")
    view.lines.append(head)
    for variant in outcome.variants:
        view.lines.append((variant.name or outcome.title, "title"))
        for step in variant.steps:
            view.lines += step_lines(step, with_commands=False)
    view.outcome = outcome_line(outcome)
    return view


def outcome_line(outcome: ScenarioOutcome) -> Line:
    """Return the verdict on a scenario as one line."""
    text = f"{outcome.verdict}: {len(outcome.checks)} checks, {outcome.computer_seconds:.1f} s"
    is_good = outcome.verdict in (FaultVerdict.AS_EXPECTED, FaultVerdict.KNOWN_DEFECT)
    return f"{text}{'; ' if outcome.reason else ''}{outcome.reason}", "good" if is_good else "bad"


def all_items() -> tuple[FaultItem, ...]:
    """Return all scenarios by number, then the configurations for crash points, then the campaigns."""
    points = [each for each in all_configurations() if each.moment == "idle" and each.load == "mixed"]
    return (
        *map(_scenario_item, all_scenarios()),
        *map(_points_item, points),
        *map(_campaign_item, ("", *LEVELS)),
    )


def _target(frontend: Frontend) -> Target:
    """Return the target of the fault lab: another machine like the app's if raidlab can start one, else ``uml:``."""
    target = parse_target(frontend.lab.target or "uml:")
    if not target.is_embedded:
        return parse_target("uml:")
    options = [f"{key}={value}" for key, value in target.options.items() if key in ("time", "kernel", "cpus", "accel")]
    return parse_target(f"{target.kind}:?{'&'.join(options)}" if options else f"{target.kind}:")


def _stop_if(cancelled: Cancelled) -> None:
    if cancelled():
        raise RunCancelled("cancelled")


def _about(title: str, *parts: Sequence[Line]) -> tuple[Line, ...]:
    """Return the title and the parts, each after a blank line. Empty parts are omitted."""
    return ((title, "title"), *(line for part in parts if part for line in (("", "plain"), *part)))


def _scenario_item(scenario: Scenario) -> FaultItem:
    about = _about(
        scenario.title,
        [(f"Fault model: {scenario.model}", "plain")],
        [("What must hold", "title"), *((each, "plain") for each in scenario.must)],
        [(each, "muted") for each in scenario.notes],
        [("Sources", "title"), *((each, "muted") for each in scenario.sources)],
    )

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        def on_step(outcome: StepOutcome) -> None:
            for line in step_lines(outcome):
                progress(line)
            _stop_if(cancelled)

        hooks = ScenarioHooks(
            on_variant=lambda variant: progress((variant.name or scenario.title, "title")), on_step=on_step
        )
        progress(("starting a machine", "muted"))
        outcome = play_and_store(scenario, _target(frontend), frontend.client.host, seed=SEED, hooks=hooks)
        for line in outcome.unmet:
            progress((line, "bad"))
        return outcome_line(outcome)

    return FaultItem(f"scenario-{scenario.number}", f"{scenario.number:2} {scenario.title}", about, work)


def _points_item(configuration: CutConfiguration) -> FaultItem:
    policy = configuration.policy
    name = f"{configuration.level} {policy.name}"
    what = (
        f"A load is recorded on each drive. Then {POINTS} states that a power cut could have left are created, "
        "many of them with one member missing as well, and the data are checked in each."
    )
    promises: list[Line] = [
        ("What md promises", "title"),
        (f"All members present: {policy.whole}", "plain"),
        (f"One missing: {policy.degraded}", "plain"),
        (policy.source, "muted"),
    ]
    about = _about(f"Power cuts: {configuration.level}, {policy.title}", [(what, "plain")], promises)

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        def on_point(verdict: PointVerdict) -> None:
            is_broken = verdict.judgement is PointJudgement.BROKEN
            progress((f"{verdict.cut[:60]}: {verdict.judgement}", "bad" if is_broken else "plain"))
            for reason in verdict.reasons:
                progress((f"  {reason}", "bad"))

        progress(("starting a machine and recording the load", "muted"))
        target, host = _target(frontend), frontend.client.host
        exploration = Exploration(target, host, POINTS, on_point=on_point, is_stopped=cancelled)
        found = exploration.store_one(configuration, str(SEED))
        counted = ", ".join(f"{count} {word.value}" for word, count in sorted(found.tally.judgements.items()))
        return f"{found.tally.points} crash points: {counted}", "bad" if found.tally.broken else "good"

    return FaultItem(f"points-{configuration.name}", name, about, work)


def _campaign_item(level: str) -> FaultItem:
    label = f"RAID {level}" if level else "all levels"
    what = (
        f"{CAMPAIGN_SEEDS} histories, each generated from a seed: writes, failures, removals, rebuilds, growths, "
        "corruption, power cuts, restarts. A model of the level predicts which data must survive, and the data "
        "are checked after each history."
    )
    findings = (
        "A violation is a finding: it is stored, reduced to the fewest operations that still cause it, and can be "
        "replayed with 'raidlab fault replay'. Known defects of md are counted by name (docs/findings.md)."
    )
    about = _about(f"Random histories of {label}", [(what, "plain")], [(findings, "plain")])

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        from lab.faults.campaign import Arena, Campaign, begun_campaign
        from lab.faults.place import with_own_kernel

        def on_progress(done: int, total: int) -> None:
            _stop_if(cancelled)
            if done % 5 == 0:
                progress((f"{done} of {total} histories", "muted"))

        host = frontend.client.host
        target = with_own_kernel(_target(frontend), host)
        options = {"first": SEED, "seeds": CAMPAIGN_SEEDS, "seconds": 0, "level": level}
        progress(("starting machines", "muted"))
        with begun_campaign(host, str(target), **options) as journal:
            arena = Arena(target, host)
            summary = Campaign(journal, arena, lambda text: progress((text, "bad")), on_progress).run()
        for word, count in summary.explained.items():
            progress((f"known defect: {word}: {count}", "plain"))
        found = len(summary.findings)
        outcome = f"{summary.seeds} histories: {found or 'no'} finding{'' if found == 1 else 's'}"
        return outcome, "bad" if found else "good"

    return FaultItem(f"campaign-{level or 'all'}", label, about, work)


_STYLES = {"plain": "", "muted": "$text-muted", "good": "$text-success", "bad": "$text-error", "title": "bold"}


class FaultsScreen(ModeScreen):
    """The Faults screen, key 7. It runs one item at a time."""

    CSS_PATH = "faults_screen.tcss"
    AREA = "Faults"
    USES_LAB = False
    LESSON_FROM_CELLS = 160
    HELP = (
        "Each scenario breaks an array in one way, on blank drives of a separate machine, and ends with a verdict on "
        "the data: what was written, what the array returns now, and whether md keeps its promises.\n\n"
        "Power cuts: a load is recorded on each drive, and many states that a power cut could have left are tested. "
        "Campaigns: random histories of faults. The arrays of the lab are not touched and can be used meanwhile."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        command_key("faults.run", "r", "Run", "fault run", "Run the selected item"),
        command_key("faults.stop", "s", "Stop", "fault run", "Stop the run at its next step"),
        Binding("a", "about", "About", id="faults.about", tooltip="Switch between description and result"),
        Binding("tab", "app.focus_next", "Next panel", show=False, id="faults.next", tooltip="To the text"),
        Binding("shift+tab", "app.focus_previous", "Back", show=False, id="faults.previous", tooltip="To the list"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[str, FaultItem] = {}
        self._item: FaultItem | None = None
        self._is_about = False
        self._drawn: tuple[object, ...] | None = None
        self.run: FaultView | None = None
        self._stored: Mapping[str, FaultView] = {}
        """The newest stored outcome of each item, by the item's id, from the app, the command line or a lesson."""

    def body(self) -> ComposeResult:
        with Horizontal(id="faults"):
            yield titled(OptionList(id="fault-list", markup=False), "Faults")
            with titled(VerticalScroll(id="fault-scroll"), "Verdict"):
                yield Static("", id="fault-text")

    def on_mount(self) -> None:
        items = all_items()
        self._items = {item.id: item for item in items}
        choose = self.query_one(OptionList)
        for title, kind in (("Scenarios", "scenario"), ("Power cuts", "points"), ("Campaigns", "campaign")):
            found = [item for item in items if item.id.startswith(kind)]
            if found:
                choose.add_option(Option(Content.styled(title, "italic"), disabled=True))
                choose.add_options(Option(item.label, id=item.id) for item in found)
        choose.highlighted = 1
        choose.focus()

    def on_screen_resume(self) -> None:
        """Reread the stored outcomes, and select the item that the open lesson asks about."""
        self.app.beside("outcomes", partial(stored_views, self.app.client.host), on_done=self._set_stored)
        requested = self.app.guide.fault_to_read
        choose = self.query_one("#fault-list", OptionList)
        if requested and any(option.id == requested.item for option in choose.options):
            choose.highlighted = choose.get_option_index(requested.item)

    def _set_stored(self, found: Mapping[str, FaultView]) -> None:
        self._stored = found

    @property
    def _view(self) -> FaultView | None:
        """Return the run of the selected item in this app, else its newest stored outcome, else None."""
        if self._item is None:
            return None
        return self.run if self.run and self.run.item == self._item.id else self._stored.get(self._item.id)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._item, self._is_about = self._items.get(event.option.id or ""), False
        self.changes += 1

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if self.check_action("run", ()):
            self.action_run()

    def show_state(self, state: LabState) -> None:
        item = self._item
        if item is None:
            return
        view = None if self._is_about else self._view
        requested = self.app.guide.fault_to_read
        first = requested.parts if requested and requested.item == item.id else ()
        lines = view.lines_from(first) if view else list(item.about)
        outcome, is_run = view.outcome if view else None, view is not None
        drawn = (item.id, len(lines), is_run, outcome, lines[:1], first)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        scroll, glyphs = self.query_one("#fault-scroll", VerticalScroll), glyphs_of(self)
        signs = {"good": f"{glyphs.good} ", "bad": f"{glyphs.bad} "}
        if outcome:
            lines = [*lines, ("", "plain"), (f"{signs.get(outcome[1], '')}{outcome[0]}", outcome[1])]
        parts = [self._part(line, signs) for line in lines]
        self.query_one("#fault-text", Static).update(Content("\n").join(parts))
        scroll.border_title = item.label.strip()
        scroll.border_subtitle = "" if not is_run else "done" if outcome else "running"
        if view is not None and view is self.run and not first:
            scroll.scroll_end(animate=False)
        else:
            scroll.scroll_home(animate=False)

    def _part(self, line: Line, signs: dict[str, str]) -> Content:
        text, tone = line
        # Colour is not the only sign of the result, because a failed check also has its own character.
        bare = text.lstrip()
        if tone in signs and not bare.startswith(tuple(signs.values())):
            text = f"{text[: len(text) - len(bare)]}{signs[tone]}{bare}"
        return Content.styled(text, _STYLES[tone]) if _STYLES[tone] else Content(text)

    def action_run(self) -> None:
        item = self._item
        if item is None:
            return
        self._is_about = False
        view = FaultView(item.id)

        def done(outcome: Line) -> None:
            view.outcome = outcome
            self.app.show_message(outcome[0], title=item.label, is_bad=outcome[1] == "bad")

        def failed(error: LabError) -> None:
            is_cancelled = isinstance(error, RunCancelled)
            view.outcome = ("Stopped.", "muted") if is_cancelled else (error.message, "bad")
            if error.hint and not is_cancelled:
                view.lines.append((f"next: {error.hint}", "muted"))

        work = partial(item.work, self.app)
        if self.app.background.run(item.label, work, on_done=done, on_error=failed, on_progress=view.lines.append):
            self.run = view

    def action_stop(self) -> None:
        end_job(self.app, self.run)

    def action_about(self) -> None:
        self._is_about = not self._is_about
        self.changes += 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "run":
            return None if self.app.lab.background else True
        if action == "stop":
            return True if self.run and self.run.can_be_ended else None
        if action == "about":
            return True if self._view else None
        return True

    def hint(self, state: LabState) -> str | None:
        if self.run and self.run.is_running:
            if self.run.is_ending:
                return "Stopping …"
            return "It runs on a separate machine. [b]s[/b] stops it; [b]1[/b] shows your own arrays."
        if state.background:
            return f"It can run when '{state.background}' has ended."
        if self._view and not self._is_about:
            return "This is the last result. [b]a[/b] shows what must hold; [b]r[/b] runs it again."
        return "[b]r[/b] or Enter runs it on a separate machine; your arrays are not touched."
