"""``raidlab fault points``: crash points of configurations, judged against md's promises."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter

from lab.cli.arguments import number
from lab.cli.context import CLUSTER_HELP, Context, calls_on, current
from lab.cli.output import ProgressBar, err, out, out_json, table
from lab.errors import ExitCode, LabError, MachineLost, SpecError
from lab.faults.crash_points import (
    MACHINES,
    MOST_DRIVES,
    CutConfiguration,
    Exploration,
    Explored,
    Judge,
    PointJudgement,
    all_configurations,
    explore_all,
    find_configuration,
    judge_points,
    keep_points,
    make_recording,
    promises,
)
from lab.faults.guest.record import cut_of
from lab.faults.place import open_place
from lab.gates.numbers import PointCount

POINTS = 100
_HEADINGS = ("configuration", "points", *(word.value for word in PointJudgement), "refused", "")


def add_to(app: App) -> None:
    """Add this as a sub-command."""
    app.command(points, name="points")


def points(
    *names: Annotated[str, Parameter(help="Configurations, such as raid5/ppl/idle/mixed, or the beginning of names.")],
    count: Annotated[int, number(PointCount, help="Crash points of each configuration, chosen by the seed.")] = POINTS,
    every: Annotated[
        bool, Parameter(negative="", show_default=False, help="Every crash point of a short recording.")
    ] = False,
    operations: Annotated[
        int | None,
        number(PointCount, help="Operations of the load; without: as many as show something."),
    ] = None,
    seed: Annotated[str, Parameter(help="Of the load and of the choice.")] = "1",
    cut: Annotated[
        str | None, Parameter(help="One crash point again, by its word; the array is started by mdadm.")
    ] = None,
    listed: Annotated[
        bool,
        Parameter(name="--list", negative="", show_default=False, help="Only list what can be tried, and what cannot."),
    ] = False,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> int | None:
    """Cut the power at many moments of a load, each member for itself, and judge what is left by md's promises."""
    context = current()
    if listed:
        show_list(context)
        return None
    chosen = chosen_configurations(names)
    if cut is not None:
        return one_cut(context, chosen[0].name if len(chosen) == 1 else "", seed, cut, operations)
    return _tried(context, chosen, seed, None if every else count, operations, cluster)


def _tried(
    context: Context,
    chosen: Sequence[CutConfiguration],
    seed: str,
    count: int | None,
    operations: int | None,
    cluster: str,
) -> int:
    found: list[Explored] = []
    told: set[int] = set()
    done, ended = Counter[str](), threading.Event()
    with calls_on(cluster, context) as calls, ProgressBar(quiet=context.quiet) as bar:

        def on_points(points: int) -> None:
            done["points"] += points
            bar.show("crash points", min(1.0, done["points"] / (len(chosen) * count)) if count else 0.0)

        exploration = Exploration(
            context.target,
            context.host,
            points=count,
            operations=operations,
            on_point=lambda _: on_points(1),
            is_stopped=ended.is_set,
            calls=calls,
        )
        machines = calls.workers if calls else MACHINES
        try:
            work = [(each, seed) for each in chosen]
            for explored in explore_all(exploration, work, machines=machines, on_rest=found.append):
                found.append(explored)
                on_points(explored.tally.points if calls else 0)
                keep_points(context.host, explored)
                tell_broken(context, explored)
                told.add(id(explored))
        finally:
            ended.set()
            for explored in found:
                if id(explored) not in told:
                    tell_broken(context, explored)
            show_outcome(context, found, seed)
    return exit_code(found)


def chosen_configurations(names: Sequence[str]) -> list[CutConfiguration]:
    """Configurations with these name prefixes; all if there are none. Raises SpecError for a name without a match."""
    known = all_configurations()
    chosen = list(known) if not names else []
    for name in names:
        chosen += [each for each in known if each.name.startswith(name)] or [find_configuration(name)]
    return list(dict.fromkeys(chosen))


def exit_code(found: Sequence[Explored]) -> int:
    """A lost machine takes precedence over a broken promise, and that over a point that could not be tried."""
    errors = [each.error for each in found if each.error]
    if any(isinstance(error, MachineLost) for error in errors):
        return ExitCode.MACHINE_LOST
    if any(each.tally.broken for each in found):
        return ExitCode.FAILED
    return errors[0].exit_code if errors else ExitCode.DONE


def tell_broken(context: Context, explored: Explored) -> None:
    """The broken promises, and the commands that reproduce them."""
    name, seed = explored.configuration.name, explored.seed
    if explored.error:
        context.narrator.notice(f"{name}: {explored.error.message}")
        if explored.last:
            err(f"  next: raidlab fault points {name} --seed {seed} --cut {explored.last}")
        elif explored.error.hint:
            err(f"  next: {explored.error.hint}")
    for verdict in explored.tally.broken:
        context.narrator.notice(f"{name} {verdict.cut}: {'; '.join(verdict.reasons)}")
        err(f"  next: raidlab fault points {name} --seed {seed} --cut {verdict.cut}")


def show_outcome(context: Context, found: list[Explored], seed: str) -> None:
    """The results table, even if only a part was tried."""
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
            "" if not each.error else "not to its end" if each.tally.points else "could not be tried",
        )
        for each in sorted(found, key=lambda each: each.configuration.name)
    ]
    out(table(_HEADINGS, rows, right=_HEADINGS[1:-1]))
    tried = sum(each.tally.points for each in found)
    out(f"{tried} crash points of {len(found)} configurations, seed {seed}")


def one_cut(context: Context, name: str, seed: str, word: str, operations: int | None) -> int:
    """Record again, and judge one crash point with the array started by mdadm."""
    if not name:
        raise SpecError("a crash point belongs to one configuration", hint="name it in full, as 'points --list' does")
    try:
        cut = cut_of(word)
    except ValueError:
        raise SpecError(f"'{word[:60]}' is no crash point", hint="copy it as 'fault points' has printed it") from None
    configuration = find_configuration(name)
    with open_place(context.target, context.host, drives=MOST_DRIVES, on_notice=context.narrator.notice) as place:
        recording = make_recording(place, configuration, seed, operations=operations)
        recording.require(cut)
        for seen in judge_points(place, recording, [cut], by_mdadm=True):
            verdict = Judge(recording).verdict(seen)
            if context.json:
                out_json({"configuration": name, "judgement": verdict.judgement, "reasons": verdict.reasons, **seen})
            else:
                policy = configuration.policy
                out(f"{name}, cut {word}: {verdict.judgement}")
                out("\n".join(f"  {reason}" for reason in verdict.reasons))
                for stage in ("refused", "dead", "started", "settled"):
                    if stage in seen:
                        out(f"  {stage}: {seen[stage]}")
                out(f"  promised: {policy.degraded if cut.missing else policy.whole} ({policy.source})")
            return 1 if verdict.judgement is PointJudgement.BROKEN else 0
    raise LabError("the machine gave no answer about the crash point", hint="try it again")


def show_list(context: Context) -> None:
    """The available configurations, the promises, and the invalid combinations."""
    known = promises()
    if context.json:
        out_json(known)
        return
    out(table(("configuration",), [(each.name,) for each in all_configurations()]))
    out()
    rows = [(each.title, each.whole, each.degraded, each.source) for each in known.policy]
    for title, whole, degraded, source in rows:
        out(f"{title}\n  all members there: {whole}\n  one lost: {degraded}\n  source: {source}")
    out()
    for each in known.impossible:
        words = [" or ".join(part) for part in (each.levels, each.policies, each.moments) if part]
        out(f"not possible: {', '.join(words)}: {each.why} ({each.source})")
    for policy in known.policy:
        if policy.needs:
            out(f"not possible here: {policy.title}: needs {policy.needs}")
