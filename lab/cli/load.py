"""``raidlab load`` and ``raidlab workloads``: one workload on one array that is there, live."""

from __future__ import annotations

import sys
import threading
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from lab.cli.context import Context, current
from lab.cli.numbers import number
from lab.cli.output import err, out, out_json, table
from lab.cli.session import open_session
from lab.errors import ExitCode
from lab.gates.numbers import Seconds, parse_bytes
from lab.measure.job import Measured
from lab.session.history import LoadMeasure, load_value
from lab.session.load import Forecast, Load, beside_prediction, predict
from lab.session.session import LabSession
from lab.units import format_bytes, human_bytes, human_rate, human_seconds
from lab.workloads.fio_output import DirectionFigures
from lab.workloads.live import LiveInterval
from lab.workloads.workload import Workload, all_workloads, find_workload


def load(
    workload: Annotated[str, Parameter(help="A workload, or the path of a .toml file: see 'raidlab workloads'.")],
    array: Annotated[str, Parameter(help="A running array, or a free disk: a bare one is overwritten.")],
    *,
    runtime: Annotated[float, number(Seconds, help="Seconds to measure; Ctrl-C ends it before.")] = 10.0,
    size: Annotated[str | None, Parameter(help="What it works on, over all jobs, such as 64M.")] = None,
) -> int:
    """Run one workload on an array and print its figures; live values on standard error."""
    context = current()
    work = find_workload(workload)
    working_set = None if size is None else parse_bytes(size, what="size")
    with open_session(context) as session:
        is_array = any(status.name == array for status in session.statuses())
        forecast = predict(session, array, work) if is_array else None
        if forecast:
            number = f"about {human_rate(forecast.iops)} IOPS: " if forecast.iops else ""
            context.narrator.notice(f"expected: {number}{forecast.reason}")
        measured = _run(context, session, array, work, runtime, working_set)
    if measured is None:
        return ExitCode.FAILED
    if context.json:
        out_json(_value(work, array, measured, forecast))
    else:
        out(_text(measured))
        if forecast and forecast.iops:
            out(f"  {beside_prediction(forecast.iops, measured)}")
    return ExitCode.DONE


def _run(
    context: Context, session: LabSession, array: str, work: Workload, runtime: float, working_set: int | None
) -> Measured | None:
    over = threading.Event()
    is_live = sys.stderr.isatty() and not context.quiet
    made = Load(
        session,
        array,
        work,
        runtime_seconds=runtime,
        working_set_bytes=working_set,
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
