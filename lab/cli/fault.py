"""``raidlab fault`` runs scenarios, power cuts and campaigns, and reports their verdicts with the evidence."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import App, Parameter

from lab.cli.arguments import flag, number
from lab.cli.context import (
    CLUSTER_HELP,
    Context,
    ProgressBar,
    calls_on,
    current,
    err,
    fitted,
    out,
    out_json,
    pairs,
    table,
)
from lab.errors import ExitCode, LabError, MachineLost, SpecError
from lab.faults import campaign as campaigns
from lab.faults import crash_points, scenario_run
from lab.faults.arrays import array_title
from lab.faults.crash_points import PointJudgement
from lab.faults.guest.ledger import Cut, cut_of
from lab.faults.history import Bounds, FaultHistory, FindingId, parse_id
from lab.faults.place import FaultPlace, open_place, with_own_kernel
from lab.faults.scenario import all_scenarios, find_scenario
from lab.faults.scenario_run import FaultVerdict
from lab.gates.decoding import PointCount, Seconds, Seed
from lab.host.files import make_folder, write_file
from lab.machine import TargetKind, parse_target
from lab.store import LATEST
from lab.units import counted

if TYPE_CHECKING:
    from lab.host.pool import ClusterCalls

app = App(name="fault", help_format="plaintext")
_MOST_NARRATED = 3
"""If more scenarios than this are run, each is reported in one line, unless --verbose requests details."""

RACE_REPLAYS = 10
"""How often a history is replayed on a stock kernel, because a race between its processors is not seen every time."""
Names = Annotated[str, Parameter(help="Scenarios, by number or id.")]


@app.command(name="list")
def list_scenarios(*names: Names) -> None:
    """List the scenarios, or show what some of them break and what must hold afterwards."""
    context = current()
    chosen = [find_scenario(name) for name in names] or list(all_scenarios())
    if context.json:
        keys = ("number", "id", "title", "model", "must", "sources", "notes", "is_first")
        out_json([{key: getattr(each, key) for key in keys} for each in chosen])
    elif names:
        out("\n\n".join(map(scenario_run.scenario_text, chosen)))
    else:
        out(fitted(scenario_run.scenario_table(chosen)))


@app.command
def run(
    *names: Names,
    every: Annotated[bool, flag("All scenarios.", "--all")] = False,
    seed: Annotated[int, number(Seed, help="Seed for the oracle's writes, the cuts and random histories.")] = 1,
    keep: Annotated[bool, flag("Also store all output of the machine.")] = False,
) -> int:
    """Run scenarios with tiny arrays on a separate machine, and check that each ends as expected.

    They run in virtual time on the lab's own kernel, or in real time with --on 'uml:?time=real'. Every outcome is
    stored as soon as it is known. The exit status is 0 only if all outcomes are as expected or known defects of md.
    """
    context = current()
    if bool(names) == every:
        raise SpecError("specify either scenarios or --all", hint="'raidlab fault list' lists the scenarios")
    chosen = list(all_scenarios()) if every else [find_scenario(name) for name in dict.fromkeys(names)]
    target = with_own_kernel(context.target, context.host)
    notice, is_detailed = context.narrator.notice, context.verbose or len(chosen) <= _MOST_NARRATED
    opened = partial(open_place, target, context.host, seed=seed, on_notice=notice)
    with scenario_run.begun_run(context.host, str(target), seed, [each.id for each in chosen]) as journal:
        hooks = _hooks(notice if is_detailed else lambda _: None, journal if keep else None)
        try:
            for outcome in scenario_run.play_all(chosen, opened, seed=seed, hooks=hooks, on_place=journal.note_place):
                journal.add(outcome)
                reason = f" ({outcome.reason})" if outcome.reason else ""
                notice(f"{outcome.number} {outcome.id}: {outcome.verdict}{reason}")
                for line in outcome.unmet:
                    notice(f"  {line}")
        finally:
            if journal.outcomes and journal.stored.left:
                count = f"{len(journal.outcomes)} of {len(chosen)} scenarios have an outcome"
                notice(f"{count}; to see them again: raidlab fault show {journal.run.id}")
    return _shown(context, journal.stored)


@app.command
def show(
    name: Annotated[str, Parameter(help="A run: its id, a prefix of it, or 'latest'.")] = LATEST,
    *scenarios: Annotated[str, Parameter(help="Scenarios of the run whose evidence to show, by number or id.")],
) -> int:
    """Show the stored outcomes of a run as a table, or some of its scenarios with all their evidence."""
    context = current()
    return _shown(context, scenario_run.load_run(context.host, name), [find_scenario(each).id for each in scenarios])


def _shown(context: Context, stored: scenario_run.StoredScenarios, detailed: Sequence[str] = ()) -> int:
    if context.json:
        out_json({**msgspec.to_builtins(stored), "left": stored.left, "is_expected": stored.is_expected})
    else:
        for outcome in stored.outcomes:
            if outcome.id in detailed:
                out(scenario_run.outcome_text(outcome) + "\n")
        out(fitted(scenario_run.outcome_table(stored)))
    return exit_code(stored)


def exit_code(stored: scenario_run.StoredScenarios) -> ExitCode:
    """Return the exit status.

    A lost machine takes precedence over an unexpected result, and that over a scenario that could not be run.
    """
    verdicts = {outcome.verdict for outcome in stored.outcomes}
    if FaultVerdict.MACHINE_LOST in verdicts:
        return ExitCode.MACHINE_LOST
    if FaultVerdict.NOT_AS_EXPECTED in verdicts or stored.left:
        return ExitCode.FAILED
    return ExitCode.DONE if stored.is_expected else ExitCode.MISSING


def _hooks(notice: Callable[[str], None], journal: scenario_run.ScenarioJournal | None) -> scenario_run.ScenarioHooks:

    def on_step(step: scenario_run.StepOutcome) -> None:
        for line in scenario_run.step_text(step):
            notice(f"    {line}")

    return scenario_run.ScenarioHooks(
        on_scenario=lambda scenario: notice(f"{scenario.number} {scenario.title}"),
        on_variant=lambda variant: notice(f"  {scenario_run.variant_title(variant.name, array_title(variant.array))}"),
        on_step=on_step,
        on_document=journal.add_document if journal else lambda _: None,
    )


SEEDS = 1000
ALL = "all"


@app.command
def campaign(
    *,
    seeds: Annotated[
        int | None,
        number(PointCount, help="Number of histories. The default is 1000, or no limit with --minutes or --planted."),
    ] = None,
    minutes: Annotated[float | None, number(Seconds, help="Stop after this many minutes.")] = None,
    first: Annotated[int, number(Seed, help="The first seed.")] = 1,
    level: Annotated[str, Parameter(help="Test only this level: 1, 4, 5, 6 or 10.")] = "",
    policy: Annotated[
        str, Parameter(help="Test only this consistency policy: resync, bitmap, ppl, journal or write-back.")
    ] = "",
    planted: Annotated[
        str, Parameter(help="Plant this bug in md, and stop when it is found. 'all' plants each bug in turn.")
    ] = "",
    resume: Annotated[str | None, Parameter(help="Continue a campaign: its id, or 'latest'.")] = None,
    shrink: Annotated[bool, Parameter(help="Shrink the findings.")] = True,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> int:
    """Run random fault histories, each generated from its seed, on tiny arrays, and judge their data.

    The level's arithmetic says which data must survive. A violation is shrunk to the fewest operations and writes, and
    is stored as a finding, with an id to replay it.
    """
    context = current()
    if resume is not None:
        if seeds or minutes or level or policy or planted:
            raise SpecError("--resume cannot be combined with other options", hint="use --resume alone")
        with campaigns.resumed_campaign(context.host, resume) as journal, calls_on(cluster, context) as calls:
            summary = _run(context, journal, calls, shrinks=shrink)
            return _print_campaigns(context, [summary], is_hunt=bool(journal.run.planted))
    Bounds(level, policy)
    bugs = (
        campaigns.planted_bugs() if planted == ALL else (campaigns.find_planted_bug(planted),) if planted else (None,)
    )
    asked: dict[str, Any] = {"first": first, "seeds": seeds or 0, "seconds": (minutes or 0.0) * 60}
    if not (seeds or minutes or planted):
        asked["seeds"] = SEEDS
    summaries = []
    with calls_on(cluster, context) as calls:
        for bug in bugs:
            asked |= {"level": level, "policy": policy, "planted": bug.number if bug else 0}
            with campaigns.begun_campaign(context.host, str(context.target), **asked) as journal:
                summaries.append(_run(context, journal, calls, shrinks=shrink))
    return _print_campaigns(context, summaries, is_hunt=bool(planted))


def _run(
    context: Context, journal: campaigns.CampaignJournal, calls: ClusterCalls | None, *, shrinks: bool
) -> campaigns.CampaignSummary:
    run = journal.run
    target = with_own_kernel(parse_target(run.target), context.host)
    context.narrator.notice(f"campaign {run.id}; to continue it after an interruption: --resume {run.id}")
    with ProgressBar(quiet=context.quiet) as bar:

        def show(done: int, planned: int) -> None:
            bar.show("histories", done / planned if planned else 0.0)

        arena = campaigns.Arena(target, context.host, run.planted)
        workers = calls.workers if calls else campaigns.WORKERS
        notice, is_hunt = context.narrator.notice, bool(run.planted)
        return campaigns.Campaign(
            journal, arena, notice, show, workers, shrinks=shrinks, stops_at_first=is_hunt, calls=calls
        ).run()


def _print_campaigns(context: Context, summaries: list[campaigns.CampaignSummary], *, is_hunt: bool) -> int:
    """Print the campaigns, and return the exit status.

    A finding is a failure, unless a bug was planted. Then it is a failure if a campaign has no finding.
    """
    if context.json:
        out_json(summaries if len(summaries) > 1 else summaries[0])
    else:
        for summary in summaries:
            figures = {
                "campaign": summary.run + ("" if summary.is_complete else " (not complete)"),
                "histories": f"{summary.seeds}, {summary.histories_per_second} a second",
                "findings": len(summary.findings),
                **{f"explained: {word}": count for word, count in summary.explained.items()},
            }
            out(pairs(figures))
            if summary.findings:
                out()
                out(_table(summary.findings))
    return ExitCode.DONE if all(bool(summary.findings) is is_hunt for summary in summaries) else ExitCode.FAILED


def _table(records: tuple[campaigns.FindingRecord, ...]) -> str:
    rows = [(each.id, each.kind, each.operations, each.writes, each.status, each.title) for each in records]
    headings = ("finding", "kind", "operations", "writes", "status", "array")
    return table(headings, rows, right=("operations", "writes"))


@app.command
def findings(
    name: Annotated[str | None, Parameter(help="A finding. By default, all stored findings are listed.")] = None,
    *,
    forget: Annotated[bool, flag("Remove the finding.")] = False,
) -> None:
    """Show what campaigns have found."""
    context = current()
    store = campaigns.FindingStore(context.host)
    if name is None:
        if forget:
            raise SpecError("--forget needs a finding", hint="give its id: 'raidlab fault findings ID --forget'")
        records = tuple(each.record for each in store.all(on_damage=context.narrator.notice))
        context.out(records, _table(records) if records else "no findings are stored")
        return
    found = store.find(name)
    if found is None:
        raise SpecError(f"no finding '{name}' is stored", hint="'raidlab fault findings' lists them")
    if forget:
        store.forget(found)
        context.narrator.notice(f"{found.folder.name} is removed")
        if context.json:
            out_json({"forgotten": found.folder.name})
    elif context.json:
        out_json({"finding": found.record, "history": found.history, "folder": str(found.folder)})
    else:
        seen = [f"  act {act}: {kind}: {text}" for kind, act, text in found.record.differences]
        out("\n".join([*_history_lines(found.record.id, found.history), "seen:", *seen]))
        out(f"stored in {found.folder}: {', '.join(sorted(path.name for path in found.folder.iterdir()))}")


def _history_lines(name: str, history: FaultHistory) -> list[str]:
    acts = [f"  {number}: {act.title()}" for number, act in enumerate(history.acts)]
    return [f"{name}: {history.shape.title()}", *acts]


@app.command
def replay(
    name: Annotated[str, Parameter(help="The id of a finding, or its folder.")],
    *,
    times: Annotated[
        int | None,
        number(PointCount, help="How often to replay it. The default is once, or 10 times on a stock kernel."),
    ] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Also store all evidence in this new folder.")
    ] = None,
) -> int:
    """Replay a history and judge its data. In virtual time, the verdict is always the same.

    On a stock kernel (--on qemu:), it prints in how many runs the finding was seen, and with how many processors.
    """
    context = current()
    if output is not None and output.exists():
        raise SpecError(f"'{output}' already exists", hint="specify a folder that does not exist yet")
    finding_id, history, earlier = _found(context, name)
    arena = campaigns.Arena(with_own_kernel(context.target, context.host), context.host, finding_id.planted)
    repeats = None
    outcomes: list[campaigns.HistoryOutcome] = []
    has_races = arena.target.kind is not TargetKind.UML
    times = times or (RACE_REPLAYS if has_races else 1)
    with ProgressBar(quiet=context.quiet) as bar:

        def on_played(turn: int) -> None:
            bar.show(f"replay {turn} of {times}", turn / times)

        if has_races:
            repeats = campaigns.repeated(arena, history, times, earlier, on_played=on_played)
            outcomes += repeats.outcomes
        for turn in range(len(outcomes), times):
            on_played(turn)
            outcomes.append(campaigns.replayed(arena, history, earlier))
    if output is not None:
        _write_evidence(arena, finding_id, history, earlier, output)
        context.narrator.notice(f"evidence is in {output}")
    _print_replays(context, finding_id, history, outcomes, repeats)
    if not any(outcome.is_reached for outcome in outcomes):
        return ExitCode.MACHINE_LOST
    return ExitCode.FAILED if any(outcome.differences for outcome in outcomes) else ExitCode.DONE


def _found(context: Context, name: str) -> tuple[FindingId, FaultHistory, list[FaultHistory]]:
    """Return the id of a finding, its history, and the histories before it on the same machine."""
    # This version may be unable to generate a stored history.
    stored = campaigns.FindingStore(context.host).find(name)
    if stored is None:
        finding_id = parse_id(name)
        return finding_id, *campaigns.history_of(finding_id)
    finding_id = parse_id(stored.record.id, is_any_version=True)
    return finding_id, stored.history, campaigns.history_of(finding_id)[1] if finding_id.before else []


def _print_replays(
    context: Context,
    finding_id: FindingId,
    history: FaultHistory,
    outcomes: list[campaigns.HistoryOutcome],
    repeats: campaigns.Repeats | None,
) -> None:
    stored = campaigns.FindingStore(context.host).find(str(finding_id))
    kind = stored.record.kind if stored else ""
    verdict = repeats.verdict(kind) if repeats else ""
    # A run that did not reach the history says nothing about it.
    reached = [outcome for outcome in outcomes if outcome.is_reached]
    first = (reached or outcomes)[0]
    differences = [[(each.kind, each.act, each.text) for each in outcome.differences] for outcome in reached]
    verdict_count = len(set(map(tuple, differences)))
    if context.json:
        out_json(
            {
                "id": str(finding_id),
                "replays": len(reached),
                "verdicts": verdict_count,
                "differences": first.differences,
                "explained": dict(first.explained),
                **({"seen": repeats.seen(kind), "cpus": repeats.cpu_count, "verdict": verdict} if repeats else {}),
            }
        )
        return
    out("\n".join(_history_lines(str(finding_id), history)))
    if repeats:
        counts = Counter(each for found in differences for each in set(found))
        for (what, act, text), count in counts.most_common():
            out(f"act {act}: {what}: {text} ({count} of {counted(len(reached), 'run')})")
        out(verdict)
        return
    if not reached:
        out("the history was never reached, because the machine became unusable before that")
        return
    for what, act, text in differences[0]:
        out(f"act {act}: {what}: {text}")
    for word, count in first.explained.items():
        out(f"explained: {word}: {count}")
    if not differences[0]:
        out("nothing else is wrong" if first.explained else "nothing is wrong")
    if len(reached) > 1:
        same = "the same verdict each time" if verdict_count == 1 else f"{verdict_count} different verdicts"
        out(f"{len(reached)} replays: {same}")


def _write_evidence(
    arena: campaigns.Arena, finding_id: FindingId, history: FaultHistory, earlier: list[FaultHistory], folder: Path
) -> None:
    outcome, files = campaigns.gathered(arena, history, earlier)
    make_folder(folder)
    for file, data in files.items():
        write_file(folder / file, data)
    if outcome.differences:
        record = campaigns.record_of(finding_id, outcome, outcome.differences[0].kind, arena, status="confirmed")
        write_file(folder / "commands.sh", campaigns.plain_script(record, history))


POINTS = 100
_HEADINGS = ("configuration", "points", *(word.value for word in PointJudgement), "refused", "")


@app.command
def points(
    *names: Annotated[str, Parameter(help="Configurations, such as raid5/ppl/idle/mixed, or prefixes of names.")],
    count: Annotated[int, number(PointCount, help="Crash points for each configuration, chosen by the seed.")] = POINTS,
    every: Annotated[bool, flag("Try every crash point of a short recording.")] = False,
    operations: Annotated[
        int | None, number(PointCount, help="Number of operations in the load. By default, it is the configuration's.")
    ] = None,
    seed: Annotated[str, Parameter(help="Seed for the load and the choice of crash points.")] = "1",
    cut: Annotated[
        str | None,
        Parameter(help="Try the crash point with this printed name again, with the array started by mdadm."),
    ] = None,
    recording: Annotated[
        str | None, Parameter(help="The id of a stored recording. Its crash points are tried again on this machine.")
    ] = None,
    listed: Annotated[bool, flag("Only list what can be tried and what cannot.", "--list")] = False,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> int | None:
    """Cut the power at many points during a load, for each member separately, and check that md keeps its promises."""
    context = current()
    if listed:
        show_list(context)
        return None
    if recording is not None:
        return stored_cuts(context, crash_points.find_recording(context.host, recording), cut)
    chosen = chosen_configurations(names)
    if cut is not None:
        return _one_cut(context, chosen, seed, cut, operations)
    return _tried(context, chosen, seed, None if every else count, operations, cluster)


def _tried(
    context: Context,
    chosen: Sequence[crash_points.CutConfiguration],
    seed: str,
    count: int | None,
    operations: int | None,
    cluster: str,
) -> int:
    found: list[crash_points.Explored] = []
    printed: set[int] = set()
    done, ended = Counter[str](), threading.Event()
    with calls_on(cluster, context) as calls, ProgressBar(quiet=context.quiet) as bar:

        def on_points(points: int) -> None:
            done["points"] += points
            bar.show("crash points", min(1.0, done["points"] / (len(chosen) * count)) if count else 0.0)

        exploration = crash_points.Exploration(
            context.target,
            context.host,
            points=count,
            operations=operations,
            on_point=lambda _: on_points(1),
            is_stopped=ended.is_set,
            calls=calls,
        )
        machines = calls.workers if calls else crash_points.MACHINES
        try:
            work = [(each, seed) for each in chosen]
            for explored in crash_points.explore_all(exploration, work, machines=machines, on_rest=found.append):
                found.append(explored)
                on_points(explored.tally.points if calls else 0)
                crash_points.store_points(context.host, explored)
                _print_broken(context, explored)
                printed.add(id(explored))
        finally:
            ended.set()
            for explored in found:
                if id(explored) not in printed:
                    _print_broken(context, explored)
            if found:
                _show_outcome(context, found, seed)
    return points_exit_code(found)


def chosen_configurations(names: Sequence[str]) -> list[crash_points.CutConfiguration]:
    """Return the configurations whose names begin with these prefixes or, without prefixes, all of them.

    Raises SpecError if a prefix has no match.
    """
    known = crash_points.all_configurations()
    chosen = list(known) if not names else []
    for name in names:
        chosen += [each for each in known if each.name.startswith(name)] or [crash_points.find_configuration(name)]
    return list(dict.fromkeys(chosen))


def points_exit_code(found: Sequence[crash_points.Explored]) -> int:
    """Return the exit status.

    A lost machine takes precedence over a broken promise, and that over a crash point that could not be tried.
    """
    errors = [each.error for each in found if each.error]
    if any(isinstance(error, MachineLost) for error in errors):
        return ExitCode.MACHINE_LOST
    if any(each.tally.broken for each in found):
        return ExitCode.FAILED
    return errors[0].exit_code if errors else ExitCode.DONE


def _print_broken(context: Context, explored: crash_points.Explored) -> None:
    name, seed = explored.configuration.name, explored.seed
    again = f"--recording {explored.recording}" if explored.recording else f"{name} --seed {seed}"
    if explored.error:
        context.narrator.notice(f"{name}: {explored.error.message}")
        if explored.last:
            err(f"  next: raidlab fault points {again} --cut {explored.last}")
        elif explored.error.hint:
            err(f"  next: {explored.error.hint}")
    for verdict in explored.tally.broken:
        context.narrator.notice(f"{name} {verdict.cut}: {'; '.join(verdict.reasons)}")
        err(f"  next: raidlab fault points {again} --cut {verdict.cut}")


def _show_outcome(context: Context, found: list[crash_points.Explored], seed: str) -> None:
    if context.json:
        out_json(
            [
                {
                    "configuration": each.configuration.name,
                    "seed": each.seed,
                    "fingerprint": each.fingerprint,
                    "points": each.tally.points,
                    "judgements": {word.value: each.tally.judgements[word] for word in PointJudgement},
                    "refused": each.tally.refused,
                    "seconds": round(each.seconds, 2),
                    "broken": [{"cut": one.cut, "reasons": one.reasons} for one in each.tally.broken],
                    "error": each.error.message if each.error else "",
                    "last": each.last,
                }
                for each in found
            ]
        )
        return
    rows = [
        (
            each.configuration.name,
            each.tally.points,
            *(each.tally.judgements[word] or "" for word in PointJudgement),
            each.tally.refused or "",
            "" if not each.error else "not completed" if each.tally.points else "could not be tried",
        )
        for each in sorted(found, key=lambda each: each.configuration.name)
    ]
    out(table(_HEADINGS, rows, right=_HEADINGS[1:-1]))
    tried = sum(each.tally.points for each in found)
    out(f"{counted(tried, 'crash point')} of {counted(len(found), 'configuration')}, seed {seed}")


def _one_cut(
    context: Context, chosen: Sequence[crash_points.CutConfiguration], seed: str, word: str, operations: int | None
) -> int:
    if len(chosen) != 1:
        raise SpecError(
            "--cut needs exactly one configuration",
            hint="give its full name, as printed by 'raidlab fault points --list'",
        )
    cut = asked_cut(word)
    with open_place(context.target, context.host, on_notice=context.narrator.notice) as place:
        recording = crash_points.make_recording(place, chosen[0], seed, operations=operations)
        recording.require(cut)
        return _judged_by_mdadm(context, place, recording, [cut])


def asked_cut(word: str) -> Cut:
    """Return the crash point whose printed name is ``word``. Raises SpecError if there is no such crash point."""
    try:
        return cut_of(word)
    except ValueError:
        raise SpecError(
            f"'{word[:60]}' is not a crash point", hint="copy it exactly as 'fault points' printed it"
        ) from None


def stored_cuts(context: Context, stored: crash_points.StoredRecording, word: str | None) -> int:
    """Let mdadm start the array at each crash point of a stored recording, or only at ``word``, and judge its data."""
    recording = crash_points.recording_of(stored)
    cuts = [asked_cut(each) for each in ((word,) if word else stored.cuts)]
    for cut in cuts:
        recording.require(cut)
    with open_place(context.target, context.host, on_notice=context.narrator.notice) as place:
        return _judged_by_mdadm(context, place, recording, cuts, images=stored.images)


def _judged_by_mdadm(
    context: Context,
    place: FaultPlace,
    recording: crash_points.DriveRecording,
    cuts: list[Cut],
    *,
    images: crash_points.DriveImages | None = None,
) -> int:
    judge, configuration = crash_points.Judge(recording), recording.configuration
    found: list[PointJudgement] = []
    values: list[dict[str, Any]] = []
    for seen in crash_points.judge_points(place, recording, cuts, by_mdadm=True, images=images):
        verdict = judge.verdict(seen)
        found.append(verdict.judgement)
        if context.json:
            judged = {"judgement": verdict.judgement, "reasons": verdict.reasons}
            values.append({"configuration": configuration.name, **judged, **seen})
            continue
        policy, is_degraded = configuration.policy, bool(cut_of(verdict.cut).missing)
        out(f"{configuration.name}, cut {verdict.cut}: {verdict.judgement}")
        out("\n".join(f"  {reason}" for reason in verdict.reasons))
        for stage in ("refused", "dead", "started", "settled"):
            if stage in seen:
                out(f"  {stage}: {seen[stage]}")
        out(f"  promised: {policy.degraded if is_degraded else policy.whole} ({policy.source})")
    if context.json:
        out_json(values[0] if len(values) == 1 else values)
    if len(found) < len(cuts):
        raise LabError("the machine returned no result for a crash point", hint="try it again")
    return ExitCode.FAILED if PointJudgement.BROKEN in found else ExitCode.DONE


def show_list(context: Context) -> None:
    """Print the available configurations, the promises, and the invalid combinations."""
    known = crash_points.promises()
    if context.json:
        out_json(known)
        return
    out(table(("configuration",), [(each.name,) for each in crash_points.all_configurations()]))
    out()
    for each in known.policy:
        out(f"{each.title}\n  all members present: {each.whole}\n  one lost: {each.degraded}\n  source: {each.source}")
    out()
    for case in known.impossible:
        words = [" or ".join(part) for part in (case.levels, case.policies, case.moments) if part]
        out(f"not possible: {', '.join(words)}: {case.why} ({case.source})")
    for policy in known.policy:
        if policy.needs:
            out(f"not possible here: {policy.title}: needs {policy.needs}")
