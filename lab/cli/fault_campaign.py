"""``raidlab fault campaign``, ``replay`` and ``findings``: random histories, and their findings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from lab.cli.arguments import number
from lab.cli.context import CLUSTER_HELP, Context, calls_on, current
from lab.cli.extension import ClusterCalls
from lab.cli.output import ProgressBar, out, out_json, pairs, table
from lab.errors import ExitCode, SpecError
from lab.faults.campaign import (
    WORKERS,
    Campaign,
    CampaignHooks,
    CampaignJournal,
    CampaignSummary,
    begun_campaign,
    history_of,
    resumed_campaign,
)
from lab.faults.findings import FindingRecord, FindingStore, KeptFinding, gathered, record_of, script_of
from lab.faults.history import Bounds, FaultHistory, FindingId, parse_id
from lab.faults.history_play import Arena, HistoryOutcome, find_planted_bug, planted_bugs, replayed
from lab.faults.place import with_own_kernel
from lab.gates.numbers import PointCount, Seconds, Seed
from lab.host.files import make_folder, write_file
from lab.machine import parse_target

SEEDS = 1000
ALL = "all"


def add_to(app: App) -> None:
    """Add these as sub-commands."""
    app.command(campaign, name="campaign")
    app.command(replay, name="replay")
    app.command(findings, name="findings")


def campaign(
    *,
    seeds: Annotated[int | None, number(PointCount, help="Histories; 1000 unless minutes are given.")] = None,
    minutes: Annotated[float | None, number(Seconds, help="Until so much time is over.")] = None,
    first: Annotated[int, number(Seed, help="The first seed.")] = 1,
    level: Annotated[str, Parameter(help="Only this level: 1, 4, 5, 6 or 10.")] = "",
    policy: Annotated[
        str, Parameter(help="Only this consistency policy: resync, bitmap, ppl, journal or write-back.")
    ] = "",
    planted: Annotated[
        str, Parameter(help="With this planted bug of md, until it is found; 'all': one after the other.")
    ] = "",
    resume: Annotated[str | None, Parameter(help="Go on with a campaign: its id, or 'latest'.")] = None,
    shrink: Annotated[bool, Parameter(help="Shrink what is found.")] = True,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> int:
    """Play random histories of faults on tiny arrays, each from its seed, and judge them by the level arithmetic.

    A violation is stored as a finding, with an id that replays it, shrunk to the fewest operations and writes.
    """
    context = current()
    if resume is not None:
        if seeds or minutes or level or policy or planted:
            raise SpecError("--resume cannot be combined with other options", hint="give --resume alone")
        with resumed_campaign(context.host, resume) as journal, calls_on(cluster, context) as calls:
            return _told(context, [_run(context, journal, calls, shrinks=shrink)])
    Bounds(level, policy)
    bugs = planted_bugs() if planted == ALL else (find_planted_bug(planted),) if planted else (None,)
    asked: dict[str, Any] = {"first": first, "seeds": seeds or 0, "seconds": (minutes or 0.0) * 60}
    if not (seeds or minutes or planted):
        asked["seeds"] = SEEDS
    summaries = []
    with calls_on(cluster, context) as calls:
        for bug in bugs:
            asked |= {"level": level, "policy": policy, "planted": bug.number if bug else 0}
            with begun_campaign(context.host, str(context.target), **asked) as journal:
                summaries.append(_run(context, journal, calls, shrinks=shrink))
    return _told(context, summaries)


def _run(context: Context, journal: CampaignJournal, calls: ClusterCalls | None, *, shrinks: bool) -> CampaignSummary:
    run = journal.run
    target = with_own_kernel(parse_target(run.target), context.host)
    context.narrator.notice(f"campaign {run.id}; to go on with it after an interruption: --resume {run.id}")
    with ProgressBar(quiet=context.quiet) as bar:

        def show(done: int, wanted: int) -> None:
            bar.show("histories", done / wanted if wanted else 0.0)

        hooks = CampaignHooks(context.narrator.notice, show)
        arena = Arena(target, context.host, run.planted)
        workers = calls.workers if calls else WORKERS
        is_hunt = bool(run.planted)
        return Campaign(journal, arena, hooks, workers, shrinks=shrinks, stops_at_first=is_hunt, calls=calls).run()


def _told(context: Context, summaries: list[CampaignSummary]) -> int:
    """The exit status: findings are a failure, except in a campaign with a planted bug, which is meant to find it."""
    if context.json:
        out_json(summaries if len(summaries) > 1 else summaries[0])
    else:
        for summary in summaries:
            _tell(summary)
    found = [record for summary in summaries for record in summary.findings]
    is_planted = any(record.planted for record in found)
    return ExitCode.FAILED if found and not is_planted else ExitCode.DONE


def _tell(summary: CampaignSummary) -> None:
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


def _table(records: tuple[FindingRecord, ...]) -> str:
    rows = [(each.id, each.kind, each.operations, each.writes, each.status, each.title) for each in records]
    headings = ("finding", "kind", "operations", "writes", "status", "array")
    return table(headings, rows, right=("operations", "writes"))


def findings(
    name: Annotated[str | None, Parameter(help="A finding; without it: list all that are stored.")] = None,
    *,
    forget: Annotated[bool, Parameter(negative="", help="Remove it.")] = False,
) -> None:
    """What campaigns have found."""
    context = current()
    store = FindingStore(context.host)
    if name is None:
        if forget:
            raise SpecError("--forget needs a finding", hint="name one: raidlab fault findings ID --forget")
        records = tuple(each.record for each in store.all(on_damage=context.narrator.notice))
        if context.json:
            out_json(records)
        else:
            out(_table(records) if records else "no findings are stored")
        return
    found = store.find(name)
    if found is None:
        raise SpecError(f"no finding '{name}' is stored", hint="'raidlab fault findings' lists them")
    if forget:
        store.forget(found)
        context.narrator.notice(f"{found.folder.name} is forgotten")
        if context.json:
            out_json({"forgotten": found.folder.name})
    elif context.json:
        out_json({"finding": found.record, "history": found.history, "folder": str(found.folder)})
    else:
        out("\n".join(_lines_of(found.record, found.history)))
        out(f"stored in {found.folder}: {', '.join(sorted(path.name for path in found.folder.iterdir()))}")


def _lines_of(record: FindingRecord, history: FaultHistory) -> list[str]:
    acts = [f"  {number}: {act.title()}" for number, act in enumerate(history.acts)]
    seen = [f"  act {act}: {kind}: {text}" for kind, act, text in record.differences]
    return [f"{record.id}: {history.shape.title()}", *acts, "seen:", *seen]


def replay(
    name: Annotated[str, Parameter(help="The id of a finding, or its folder.")],
    *,
    times: Annotated[int, number(PointCount, help="So many times, each on a machine of its own.")] = 1,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Keep all evidence in this new folder too.")
    ] = None,
) -> int:
    """Play a history again and judge it: in virtual time with the same verdict each time."""
    context = current()
    if output is not None and output.exists():
        raise SpecError(f"'{output}' is there already", hint="name a folder that is not")
    finding_id, history, earlier = _found(context, name)
    arena = Arena(with_own_kernel(context.target, context.host), context.host, finding_id.planted)
    outcomes = []
    with ProgressBar(quiet=context.quiet) as bar:
        for turn in range(times):
            bar.show(f"replay {turn + 1} of {times}", turn / times)
            outcomes.append(replayed(arena, history, earlier))
    if output is not None:
        _write_evidence(arena, finding_id, history, earlier, output)
        context.narrator.notice(f"evidence is in {output}")
    _tell_replays(context, finding_id, history, outcomes)
    return ExitCode.FAILED if any(outcome.differences for outcome in outcomes) else ExitCode.DONE


def _found(context: Context, name: str) -> tuple[FindingId, FaultHistory, list[FaultHistory]]:
    """From the stored finding, whose history this version may not be able to generate; otherwise from the id."""
    kept: KeptFinding | None = FindingStore(context.host).find(name)
    if kept is None:
        finding_id = parse_id(name)
        return finding_id, *history_of(finding_id)
    finding_id = parse_id(kept.record.id, is_any_version=True)
    return finding_id, kept.history, history_of(finding_id)[1] if finding_id.before else []


def _tell_replays(
    context: Context, finding_id: FindingId, history: FaultHistory, outcomes: list[HistoryOutcome]
) -> None:
    verdicts = {tuple((each.kind, each.act, each.text) for each in outcome.differences) for outcome in outcomes}
    if context.json:
        out_json(
            {
                "id": str(finding_id),
                "replays": len(outcomes),
                "verdicts": len(verdicts),
                "differences": outcomes[0].differences,
                "explained": dict(outcomes[0].explained),
            }
        )
        return
    out(f"{finding_id}: {history.shape.title()}")
    for place, act in enumerate(history.acts):
        out(f"  {place}: {act.title()}")
    for kind, act_number, text in next(iter(verdicts)):
        out(f"act {act_number}: {kind}: {text}")
    for word, count in outcomes[0].explained.items():
        out(f"explained: {word}: {count}")
    if not next(iter(verdicts)):
        out("nothing else that should not be" if outcomes[0].explained else "nothing that should not be")
    if len(outcomes) > 1:
        same = "the same verdict each time" if len(verdicts) == 1 else f"{len(verdicts)} different verdicts"
        out(f"{len(outcomes)} replays: {same}")


def _write_evidence(
    arena: Arena, finding_id: FindingId, history: FaultHistory, earlier: list[FaultHistory], folder: Path
) -> None:
    evidence = gathered(arena, history, earlier)
    make_folder(folder)
    for file, data in evidence.files.items():
        write_file(folder / file, data)
    if evidence.outcome.differences:
        kind = evidence.outcome.differences[0].kind
        record = record_of(finding_id, evidence.outcome, kind, arena, status="confirmed")
        write_file(folder / "commands.sh", script_of(record, history))
