"""``raidlab load`` runs a workload on an array, ``workloads`` lists the catalogue, and ``watch`` shows arrays live."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec

from lab.actions.arrays import Load
from lab.arrays.kinds import kind_of_name, status_value
from lab.arrays.levels import kernel_name
from lab.arrays.status import ArrayStatus
from lab.cli.arguments import number
from lab.cli.context import Context, current, err, out, out_json, out_json_line, table
from lab.cli.session import VerbCommand, client_of
from lab.errors import ExitCode
from lab.gates.decoding import LookCount
from lab.gates.files import FileKind
from lab.measure.job import Measured
from lab.measure.samples import rates_between
from lab.session import load as session_load
from lab.session.load import Forecast, beside_prediction, predict
from lab.session.monitor import LoadMeasure, Snapshot, load_value, recent, sync_pace, take_snapshot
from lab.session.session import LabSession, open_session
from lab.units import format_bytes, human_bytes, human_rate, human_seconds
from lab.workloads.fio_output import LiveInterval
from lab.workloads.workload import Workload, all_workloads, find_workload


def _load(context: Context, action: Load) -> int:
    work = find_workload(action.workload)
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


load = VerbCommand(Load, _load)


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


def _text(measured: Measured) -> str:
    rows = [
        (
            name,
            f"{part.iops:.0f}",
            f"{human_bytes(part.bandwidth_bytes_per_second)}/s",
            *(human_seconds(value) if value else "" for value in (part.p50_seconds, part.p99_seconds)),
            f"{part.runtime_seconds:.1f} s",
        )
        for name, part in (("read", measured.figures.reads), ("write", measured.figures.writes))
        if part
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
    rows = [
        (each.id, format_bytes(each.block_bytes), each.queue_depth, each.jobs, each.title) for each in known.values()
    ]
    numbers = ("block", "depth", "jobs")
    context.out(list(known.values()), table(("workload", *numbers, "title"), rows, right=numbers))


TERMINAL_INTERVAL_SECONDS = 0.25
LINE_INTERVAL_SECONDS = 1.0


def watch(
    name: str | None = None,
    *,
    count: Annotated[int | None, number(LookCount, help="Stop after this many samples instead of at Ctrl-C.")] = None,
) -> None:
    """Show arrays, members and rebuilds as they change. On uml:, syncs advance only while a command like this runs."""
    context = current()
    if name:
        kind_of_name(name)
    with open_session(client_of(context)) as session:
        # The pending sync of a newly assembled array would otherwise wait for the first write.
        for status in session.statuses() if session.is_embedded else ():
            if status.awaits_resync or status.awaits_rebuild:
                session.run(session.array(status.name).awake(status))
        live = sys.stdout.isatty() and not context.json
        interval = TERMINAL_INTERVAL_SECONDS if live else LINE_INTERVAL_SECONDS
        with _watch_show(context, session, live=live) as show:
            snapshots: list[Snapshot] = []
            while count is None or count > 0:
                snapshots.append(take_snapshot(session, name))
                snapshots = recent(snapshots)
                show(snapshots)
                count = None if count is None else count - 1
                if count != 0:
                    session.lab.machine.clock.sleep(interval)


def _rates_of(snapshots: Sequence[Snapshot], device: str) -> tuple[float, float] | None:
    rates = rates_between(snapshots[-2], snapshots[-1], device) if len(snapshots) > 1 else None
    return (rates.read_bytes_per_second, rates.write_bytes_per_second) if rates else None


def text_of(session: LabSession, snapshots: list[Snapshot]) -> str:
    """Describe all arrays and their members."""
    blocks = []
    for status in snapshots[-1].arrays:
        rows = []
        for member in status.members:
            rates = _rates_of(snapshots, kernel_name(member.device))
            read, written = (f"{human_bytes(rate)}/s" for rate in rates) if rates else ("", "")
            slot = "-" if member.slot is None else member.slot
            rows.append(
                (f"  {session.disk_name(member.device)}", member.device, slot, member.state_words, read, written)
            )
        members = table(
            ("  disk", "device", "slot", "state", "reads", "writes"), rows, right=("slot", "reads", "writes")
        )
        blocks.append(f"{_line_of(snapshots, status)}\n{members}")
    return "\n\n".join(blocks) or "no arrays"


def _line_of(snapshots: list[Snapshot], status: ArrayStatus) -> str:
    words = [f"{status.name} {status.level} {human_bytes(status.size_bytes)} {status.state_words}"]
    if status.sync_words:
        words.append(status.sync_words)
    if sync := sync_pace(snapshots, status.name):
        words.append(f"{human_bytes(sync.bytes_per_second)}/s per member")
        if sync.left_seconds is not None:
            words.append(f"{human_seconds(max(1.0, sync.left_seconds))} left")
    return ", ".join(words)


def value_of(session: LabSession, snapshots: list[Snapshot]) -> dict[str, Any]:
    """Return the last snapshot for JSON."""
    arrays = []
    for status in snapshots[-1].arrays:
        value, sync = status_value(session, status), sync_pace(snapshots, status.name)
        value["sync_bytes_per_second"] = sync.bytes_per_second if sync else None
        value["sync_left_seconds"] = sync.left_seconds if sync else None
        for entry in value["members"]:
            rates = _rates_of(snapshots, kernel_name(entry["device"]))
            entry["read_bytes_per_second"], entry["write_bytes_per_second"] = rates or (None, None)
        arrays.append(value)
    return {"time_seconds": snapshots[-1].time_seconds, "arrays": arrays}


@contextmanager
def _watch_show(context: Context, session: LabSession, *, live: bool) -> Iterator[Callable[[list[Snapshot]], None]]:
    if context.json:
        yield lambda snapshots: out_json_line(value_of(session, snapshots))
        return
    if not live:
        yield lambda snapshots: _print_lines(snapshots)
        return
    from rich.live import Live
    from rich.text import Text

    with Live(Text(""), refresh_per_second=4, transient=False) as screen:
        yield lambda snapshots: screen.update(Text(text_of(session, snapshots)), refresh=True)


def _print_lines(snapshots: list[Snapshot]) -> None:
    for status in snapshots[-1].arrays:
        busy = [
            f"{kernel_name(member.device)} r {human_bytes(rates[0])}/s w {human_bytes(rates[1])}/s"
            for member in status.members
            if (rates := _rates_of(snapshots, kernel_name(member.device)))
        ]
        out("; ".join([_line_of(snapshots, status), *busy]))
    if not snapshots[-1].arrays:
        out("no arrays")
