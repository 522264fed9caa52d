"""The sweeps in this computer's state folder, for the screens that use ``lab.experiments.sweeps``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec

from lab.errors import LabError
from lab.experiments.sweeps import SweepDesk, SweepEntry, SweepListener, SweepStatus, SweepWork
from lab.machine import Host, Target, TargetKind, parse_target
from lab.sweep.cluster import INSTALL, ClusterKind, parse_cluster
from lab.sweep.schema import Sweep, built_in_names, decode_sweep, find_sweep
from lab.sweep.service import SweepOutcome, SweepPlan, SweepRequest, plan_sweep, run_sweep, worker_count
from lab.sweep.store import SweepFolder, SweepStore
from lab.units import human_bytes, human_seconds

MOST_RUNS = 30
"""Maximum number of earlier sweeps in the list; older ones are available by their id."""
MOST_REASONS = 12
"""Maximum number of reasons that are given for combinations left out."""


def plan_lines(plan: SweepPlan, request: SweepRequest) -> Iterator[str]:
    """The number of cells, the time and the disk space that a sweep needs, in sentences, before it starts."""
    found, missing = plan.found, len(plan.missing)
    workers = worker_count(request.cluster, plan.sweep)
    there = f", {len(plan.tasks) - missing:,} of them measured before" if missing < len(plan.tasks) else ""
    time = "in virtual time" if plan.is_virtual_time else "in real time"
    yield f"{plan.sweep.title}: {len(plan.tasks):,} cell{'s' if len(plan.tasks) != 1 else ''} {time}{there}"
    if missing:
        on = f" on {workers} worker{'s' if workers != 1 else ''}" if workers else " on one worker"
        yield f"about {human_seconds(plan.seconds / max(1, workers))}{on}, and {human_bytes(plan.bytes)} of disk"
    for why, count in tuple(found.impossible.items())[:MOST_REASONS]:
        yield f"left out, since it cannot be: {why} (combinations: {count:,})"
    if more := tuple(found.impossible.values())[MOST_REASONS:]:
        yield f"left out for {len(more):,} other reasons (combinations: {sum(more):,}); --json --plan has them all"
    if found.skipped or found.same:
        yield f"combinations that are skipped: {found.skipped:,}; that are the same as another: {found.same:,}"
    if not plan.is_virtual_time and workers > 1:
        yield "real time: cells measured at once on one computer disturb each other; --cluster local:1 does not"


class LocalDesk(SweepDesk):
    """Sweeps that run on the processors of this computer."""

    def __init__(self, target: Target, host: Host) -> None:
        """Take the option ``time`` from ``target`` if it is an embedded kernel; everything else in it is ignored."""
        time = target.options.get("time") if target.kind is TargetKind.UML else None
        self._target = parse_target(f"uml:?time={time}" if time else "uml:")
        self._host = host
        self._store = SweepStore(host)

    def entries(self) -> tuple[SweepEntry, ...]:
        known = [_entry(name, find_sweep(name)[0]) for name in built_in_names()]
        for run_id in self._store.ids()[:MOST_RUNS]:
            folder = self._store.find(run_id)
            with suppress(LabError):
                sweep = decode_sweep(folder.record.toml, f"{run_id}/sweep")
                known.append(replace(_entry(run_id, sweep), state=", ".join(filter(None, folder.state_words()))))
        return tuple(known)

    def work(self, name: str) -> SweepWork:
        sweep, text, folder = self._find(name)
        request = SweepRequest(self._target_for(folder), self._host, parse_cluster("local"))
        plan, request = self._plan(sweep, text, request)
        return SweepWork(
            lines=tuple(plan_lines(plan, request))[1:],
            cells=len(plan.tasks),
            there=len(plan.tasks) - len(plan.missing),
            run_id=folder.id if folder else "",
            missing_dependency=INSTALL if find_spec("distributed") is None else "",
        )

    def newest_run(self, name: str) -> str:
        folder = self._find(name)[2]
        return folder.id if folder else ""

    def going_run(self, name: str) -> str:
        # Try the lock only if the progress file does not say that the sweep has ended.
        folder = self._find(name)[2]
        progress = folder.progress if folder else None
        is_going = folder and not (progress and progress.is_over) and folder.is_running
        return folder.id if folder and is_going else ""

    def stand(self, run_id: str) -> SweepStatus:
        folder = self._store.find(run_id)
        if folder.is_running:
            return SweepStatus(folder.progress, is_running=True)
        from lab.sweep.tables import summary_tables

        tables = tuple(each.as_text() for each in summary_tables(folder.result()))
        return SweepStatus(folder.stand(), is_running=False, tables=tables)

    def run(self, name: str, listener: SweepListener) -> SweepOutcome:
        sweep, text, folder = self._find(name)
        request = SweepRequest(
            self._target_for(folder),
            self._host,
            parse_cluster("local"),
            on_progress=listener.on_progress,
            on_notice=listener.on_notice,
            is_cancelled=listener.is_cancelled,
        )
        plan, request = self._plan(sweep, text, request)
        return run_sweep(plan, request, folder)

    def _plan(self, sweep: Sweep, text: str, request: SweepRequest) -> tuple[SweepPlan, SweepRequest]:
        """Plan a sweep; in real time with one worker, since cells measured in parallel disturb each other."""
        plan = plan_sweep(sweep, text, request)
        if not plan.is_virtual_time and request.cluster.kind is ClusterKind.LOCAL:
            request = replace(request, cluster=parse_cluster("local:1"))
        return plan, request

    def _target_for(self, folder: SweepFolder | None) -> Target:
        return folder.in_its_time(self._target) if folder else self._target

    def _find(self, name: str) -> tuple[Sweep, str, SweepFolder | None]:
        if name in built_in_names():
            sweep, text = find_sweep(name)
            return sweep, text, self._store.of_text(text, self._target.options.get("time"))
        folder = self._store.find(name)
        text = folder.record.toml
        return decode_sweep(text, f"{name}/sweep"), text, folder


def _entry(name: str, sweep: Sweep) -> SweepEntry:
    axes = tuple(f"{axis}: {', '.join(map(str, values))}" for axis, values in sweep.sweep.named.items())
    return SweepEntry(name, sweep.title, sweep.question, axes)
