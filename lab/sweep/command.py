"""``raidlab sweep`` runs one experiment with many combinations of settings, several of them in parallel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from cyclopts import Parameter

from lab.cli.context import Context, ProgressBar, current, err, out, out_json, table
from lab.errors import ExitCode, SpecError
from lab.experiments.sweeps import SweepProgress
from lab.gates.decoding import digits
from lab.gates.files import FileKind
from lab.host.clock import Clock
from lab.store import LATEST
from lab.sweep.cells import SweepFolder, SweepStore
from lab.sweep.cluster import PAGES, parse_cluster
from lab.sweep.grid import summary_text
from lab.sweep.schema import Sweep, built_in_names, decode_sweep, find_sweep
from lab.sweep.service import SweepOutcome, SweepPlan, SweepRequest, plan_lines, plan_sweep, run_sweep

NONE = "none"
_PAGES_HELP = (
    f"HOST:PORT of Dask's own pages, such as {PAGES}; '{NONE}' for no pages. They need no password. On loopback, every "
    "user of this computer can read them; on any other address, everyone who can reach it can."
)


def sweep(
    name: Annotated[
        str | None,
        Parameter(
            help="A sweep, the path of a .toml file, or the id of a stored sweep to show. By default all are listed."
        ),
    ] = None,
    *,
    cluster: Annotated[
        str, Parameter(help="local[:N], ssh:HOST,HOST, slurm, or a scheduler's address such as tcp://HOST:8786.")
    ] = "local",
    resume: Annotated[
        bool, Parameter(negative="", help="Continue the newest sweep of this file, or the one with this id.")
    ] = False,
    plan: Annotated[
        bool, Parameter(negative="", help="Only print the number of cells and the time and space needed.")
    ] = False,
    dashboard: Annotated[str, Parameter(help=_PAGES_HELP)] = NONE,
    allow: Annotated[
        list[str] | None, Parameter(negative="", help="A lint rule that may be violated. May be repeated.")
    ] = None,
) -> int:
    """Measure every combination of a sweep's axes, each on a separate machine, and show the results.

    A cell that was measured before is not measured again. 'raidlab report ID' writes the page or the Parquet file.
    """
    context = current()
    store = SweepStore(context.host)
    if name is None and not resume:
        if plan:
            raise SpecError("--plan needs the name of a sweep", hint="raidlab sweep NAME --plan")
        _list(context, store)
        return ExitCode.DONE
    folder = _earlier(name, store, context, is_resumed=resume)
    if folder and not resume and not plan:
        _show(folder, context)
        return ExitCode.DONE
    text = folder.record.toml if folder else find_sweep(name or "")[1]
    meant = decode_sweep(text, folder.id if folder else name or "")
    if resume and folder is None:
        folder = _resumed(meant, text, store, context)
    request = SweepRequest(
        target=folder.in_its_time(context.target) if folder else context.target,
        host=context.host,
        cluster=parse_cluster(cluster),
        dashboard="" if dashboard == NONE else _checked_dashboard(dashboard),
        on_notice=context.narrator.notice,
        allowed_rules=frozenset(allow or ()),
    )
    with ProgressBar(quiet=context.quiet) as bar:
        planned = plan_sweep(meant, text, replace(request, on_planned=planning_shown(bar, context.host.clock)))
    lines = list(plan_lines(planned, request))
    if plan:
        context.out(_plan_document(planned), "\n".join(lines))
        return ExitCode.DONE
    for line in lines:
        context.narrator.notice(line)
    with ProgressBar(quiet=context.quiet) as bar:
        outcome = run_sweep(planned, replace(request, on_progress=partial(_show_progress, bar)), folder)
    return _print_outcome(outcome, context)


def planning_shown(bar: ProgressBar, clock: Clock) -> Callable[[float], None]:
    """Return a callback that shows the progress of planning on a terminal if planning takes more than a second."""
    begin = clock.monotonic_seconds()

    def show(part: float) -> None:
        if bar.is_terminal and clock.monotonic_seconds() - begin > 1.0:
            bar.show("planning", part)

    return show


def _show_progress(bar: ProgressBar, progress: SweepProgress) -> None:
    # Without a terminal, each call would print a line.
    if bar.is_terminal:
        failed = f", {progress.failed} failed" if progress.failed else ""
        label = f"{progress.done:,} of {progress.planned:,} cells, {progress.running} running{failed}"
        bar.show(label, progress.done / progress.planned, progress.left_seconds)


def _earlier(name: str | None, store: SweepStore, context: Context, *, is_resumed: bool) -> SweepFolder | None:
    """Find the stored sweep ``name``. If ``name`` is the file of a sweep, announce this file and return None.

    Raises ResultError if no sweep is found.
    """
    if name is None:
        return store.find("latest") if is_resumed else None
    if name.endswith(".toml") or name in built_in_names():
        context.announce_foreign(name, FileKind.SWEEP)
        return None
    if name != LATEST and not any(each.startswith(name) for each in store.ids()):
        # Raises SpecError with the nearest known name in its hint.
        find_sweep(name)
    return store.find(name)


def _resumed(sweep: Sweep, text: str, store: SweepStore, context: Context) -> SweepFolder | None:
    """Return the newest sweep of a file. If there is none, explain in a notice why a new sweep begins."""
    if folder := store.of_text(text, context.target.options.get("time")):
        return folder
    notice = "there is no earlier sweep of this file, so this is a new one"
    if newest := store.of_id(sweep.id):
        notice = (
            f"{newest.id} was begun with a different version of this file, so this is a new sweep; "
            f"'raidlab sweep {newest.id} --resume' continues the earlier one"
        )
    context.narrator.notice(notice)
    return None


def _checked_dashboard(text: str) -> str:
    host, colon, port = text.rpartition(":")
    number = digits(port)
    if not colon or not host or number is None or number > 65535:
        hint = f"write HOST:PORT, such as {PAGES}, or 'none' for no dashboard"
        raise SpecError(f"'{text}' is not a dashboard address", hint=hint)
    return text


def _plan_document(plan: SweepPlan) -> dict[str, Any]:
    done = plan.done
    return {
        "id": plan.sweep.id,
        "cells": [{"cell": task.key, "label": task.label, "is_done": task.key in done} for task in plan.tasks],
        "is_virtual_time": plan.is_virtual_time,
        "estimated_worker_seconds": round(plan.seconds, 1),
        "estimated_bytes": plan.bytes,
        "impossible": dict(plan.found.impossible),
    }


def _print_outcome(outcome: SweepOutcome, context: Context) -> int:
    folder = outcome.folder
    if context.json:
        out_json({**_document(folder), "measured": outcome.measured, "reused": outcome.reused})
    else:
        _show(folder, context)
        for cell in outcome.failed:
            err(f"\nfailed: {cell.label}: {cell.message}")
            if cell.console:
                err("\n".join(f"  | {line}" for line in cell.console.splitlines()[-12:]))
    context.narrator.notice(
        f"cells measured: {outcome.measured:,}; already stored: {outcome.reused:,}; failed: {len(outcome.failed):,}; "
        f"'raidlab report {folder.id} -o sweep.html' writes the page, '-o sweep.parquet' the data"
    )
    return ExitCode.FAILED if outcome.failed else ExitCode.DONE


def _document(folder: SweepFolder) -> dict[str, Any]:
    digests = folder.digests()
    cells = folder.record.cells
    return {
        "id": folder.id,
        "planned": len(cells),
        "cells": [{"cell": each.key, "digest": digests.get(each.key, ""), "label": each.label} for each in cells],
        "failed": folder.failed(),
    }


def _show(folder: SweepFolder, context: Context) -> None:
    if context.json:
        out_json(_document(folder))
    else:
        out(summary_text(folder.result(), is_running=folder.is_running))


def _list(context: Context, store: SweepStore) -> None:
    sweeps = [store.find(each) for each in store.ids()]
    known = [find_sweep(name)[0] for name in built_in_names()]
    runs = [{"id": each.id, "progress": each.current_progress(), "is_running": each.is_running} for each in sweeps]
    document = {"sweeps": [{"id": each.id, "title": each.title} for each in known], "runs": runs}
    tables = [table(("sweep", "title"), [(each.id, each.title) for each in known])]
    if sweeps:
        rows = [(each.id, *each.state_words()) for each in sweeps]
        tables.append(table(("run before", "cells", "state"), rows, right=("cells",)))
    context.out(document, "\n\n".join(tables))
