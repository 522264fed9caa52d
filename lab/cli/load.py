"""``raidlab load`` and ``raidlab workloads``: one workload on one existing array, live."""

from __future__ import annotations

import sys
import threading
from typing import Any

import msgspec

from lab.actions.loads import Load
from lab.cli.arguments import command_of
from lab.cli.context import Context, current
from lab.cli.output import err, out, out_json, table
from lab.cli.session import client_of
from lab.errors import ExitCode
from lab.gates.files import FileKind
from lab.measure.job import Measured
from lab.session import load as session_load
from lab.session.load import Forecast, beside_prediction, predict
from lab.session.monitor import LoadMeasure, load_value
from lab.session.session import LabSession, open_session
from lab.units import format_bytes, human_bytes, human_rate, human_seconds
from lab.workloads.fio_output import DirectionFigures, LiveInterval
from lab.workloads.workload import Workload, all_workloads


def _load(context: Context, action: Load) -> int:
    work = action.work
    context.announce_foreign(action.workload, FileKind.WORKLOAD)
    with open_session(client_of(context)) as session:
        is_array = any(status.name == action.array for status in session.statuses())
        forecast = predict(session, action.array, work) if is_array else None
        if forecast:
            number = f"about {human_rate(forecast.iops)} IOPS: " if forecast.iops else ""
            context.narrator.notice(f"expected: {number}{forecast.reason}")
        measured = _measured(context, session, action, work)
    if measured is None:
        return ExitCode.FAILED
    if context.json:
        out_json(_value(work, action.array, measured, forecast))
    else:
        out(_text(measured))
        if forecast and forecast.iops:
            out(f"  {beside_prediction(forecast.iops, measured)}")
    return ExitCode.DONE


load = command_of(Load, _load)


def _measured(context: Context, session: LabSession, action: Load, work: Workload) -> Measured | None:
    over = threading.Event()
    is_live = sys.stderr.isatty() and not context.quiet
    made = session_load.Load(
        session,
        action.array,
        work,
        runtime_seconds=action.runtime,
        working_set_bytes=action.working_set_bytes,
        on_live=lambda interval: _show(interval, is_live=is_live) if not context.quiet else None,
        on_end=lambda _: over.set(),
    )
    made.start()
    try:
        over.wait()
    except BaseException:
        made.stop()
        raise
    finally:
        if is_live:
            sys.stderr.write("\r\033[K")
    return made.wait()


def _show(interval: LiveInterval, *, is_live: bool) -> None:
    iops, rate = load_value(interval, LoadMeasure.IOPS), load_value(interval, LoadMeasure.BYTES_PER_SECOND)
    p99 = load_value(interval, LoadMeasure.P99_SECONDS)
    words = [f"{human_rate(iops or 0.0)} IOPS", f"{human_bytes(rate or 0.0)}/s"]
    if p99 is not None:
        words.append(f"p99 {human_seconds(p99)}")
    if interval.is_warmup:
        words.append("warming up")
    line = "  ".join(words)
    if is_live:
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()
    else:
        err(line)


def _sections(measured: Measured) -> list[tuple[str, DirectionFigures]]:
    figures = measured.figures
    return [(name, part) for name, part in (("read", figures.reads), ("write", figures.writes)) if part]


def _text(measured: Measured) -> str:
    rows = [
        (
            name,
            f"{part.iops:.0f}",
            f"{human_bytes(part.bandwidth_bytes_per_second)}/s",
            *(human_seconds(value) if value else "" for value in (part.p50_seconds, part.p99_seconds)),
            f"{part.runtime_seconds:.1f} s",
        )
        for name, part in _sections(measured)
    ]
    numbers = ("IOPS", "throughput", "p50", "p99", "measured")
    return table(("direction", *numbers), rows, right=numbers)


def _value(work: Workload, array: str, measured: Measured, forecast: Forecast | None) -> dict[str, Any]:
    figures = msgspec.to_builtins(measured.figures)
    figures.pop("raw_json", None)
    return {
        "workload": work.id,
        "array": array,
        "file_bytes": measured.file_bytes,
        "predicted_iops": forecast.iops if forecast else None,
        "prediction_reason": forecast.reason if forecast else "",
        "beside_prediction": beside_prediction(forecast.iops, measured) if forecast and forecast.iops else "",
        "figures": figures,
    }


def workloads() -> None:
    """List the workloads of the catalogue."""
    context, known = current(), all_workloads()
    if context.json:
        out_json(list(known.values()))
        return
    rows = [
        (each.id, format_bytes(each.block_bytes), each.queue_depth, each.jobs, each.title) for each in known.values()
    ]
    out(table(("workload", "block", "depth", "jobs", "title"), rows, right=("block", "depth", "jobs")))
