"""``raidlab watch``: arrays, members and rebuilds, live."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from lab.arrays.kinds import kind_of_name
from lab.arrays.md import status_value
from lab.arrays.names import kernel_name
from lab.arrays.status import ArrayStatus
from lab.cli.arguments import number
from lab.cli.context import Context, current
from lab.cli.output import out, out_json_line, table
from lab.cli.session import client_of
from lab.gates.numbers import LookCount
from lab.measure.samples import rates_between
from lab.session.monitor import Snapshot, recent, sync_pace, take_snapshot
from lab.session.session import LabSession, open_session
from lab.units import human_bytes, human_seconds

TERMINAL_INTERVAL_SECONDS = 0.25
LINE_INTERVAL_SECONDS = 1.0


def watch(
    name: str | None = None,
    *,
    count: Annotated[int | None, number(LookCount, help="Stop after so many looks; otherwise Ctrl-C ends it.")] = None,
) -> None:
    """Show arrays, members and rebuilds as they change. On uml: syncs go on as long as this runs."""
    context = current()
    if name:
        kind_of_name(name)
    with open_session(client_of(context)) as session:
        _let_syncs_go_on(session)
        live = sys.stdout.isatty() and not context.json
        interval = TERMINAL_INTERVAL_SECONDS if live else LINE_INTERVAL_SECONDS
        with _show(context, session, live=live) as show:
            looks: list[Snapshot] = []
            while count is None or count > 0:
                looks.append(take_snapshot(session, name))
                looks = recent(looks)
                show(looks)
                count = None if count is None else count - 1
                if count != 0:
                    session.lab.machine.clock.sleep(interval)


def _let_syncs_go_on(session: LabSession) -> None:
    """Start the pending sync of a newly assembled array, which otherwise waits for the first write."""
    for status in session.statuses() if session.is_embedded else ():
        if status.awaits_resync or status.awaits_rebuild:
            session.run(session.array(status.name).awake(status))


def rates_of(looks: Sequence[Snapshot], device: str) -> tuple[float, float] | None:
    """Bytes read and written per second between the last two snapshots."""
    rates = rates_between(looks[-2], looks[-1], device) if len(looks) > 1 else None
    return (rates.read_bytes_per_second, rates.write_bytes_per_second) if rates else None


def text_of(session: LabSession, looks: list[Snapshot]) -> str:
    """All arrays with their members."""
    blocks = []
    for status in looks[-1].arrays:
        rows = []
        for member in status.members:
            rates = rates_of(looks, kernel_name(member.device))
            read, written = (f"{human_bytes(rate)}/s" for rate in rates) if rates else ("", "")
            slot = "-" if member.slot is None else member.slot
            rows.append((f"  {session.disk_name(member.device)}", member.device, slot, member.role, read, written))
        members = table(
            ("  disk", "device", "slot", "state", "reads", "writes"), rows, right=("slot", "reads", "writes")
        )
        blocks.append(f"{line_of(looks, status)}\n{members}")
    return "\n\n".join(blocks) or "no arrays"


def line_of(looks: list[Snapshot], status: ArrayStatus) -> str:
    """One array in one line."""
    words = [f"{status.name} {status.level} {human_bytes(status.size_bytes)} {status.state_words}"]
    if status.sync_words:
        words.append(status.sync_words)
    if sync := sync_pace(looks, status.name):
        words.append(f"{human_bytes(sync.bytes_per_second)}/s per member")
        if sync.left_seconds is not None:
            words.append(f"{human_seconds(max(1.0, sync.left_seconds))} left")
    return ", ".join(words)


def value_of(session: LabSession, looks: list[Snapshot]) -> dict[str, Any]:
    """One snapshot for JSON."""
    arrays = []
    for status in looks[-1].arrays:
        value, sync = status_value(session, status), sync_pace(looks, status.name)
        value["sync_bytes_per_second"] = sync.bytes_per_second if sync else None
        value["sync_left_seconds"] = sync.left_seconds if sync else None
        for entry in value["members"]:
            rates = rates_of(looks, kernel_name(entry["device"]))
            entry["read_bytes_per_second"], entry["write_bytes_per_second"] = rates or (None, None)
        arrays.append(value)
    return {"time_seconds": looks[-1].time_seconds, "arrays": arrays}


@contextmanager
def _show(context: Context, session: LabSession, *, live: bool) -> Iterator[Callable[[list[Snapshot]], None]]:
    if context.json:
        yield lambda looks: out_json_line(value_of(session, looks))
        return
    if not live:
        yield lambda looks: _print_lines(looks)
        return
    from rich.live import Live
    from rich.text import Text

    with Live(Text(""), refresh_per_second=4, transient=False) as screen:
        yield lambda looks: screen.update(Text(text_of(session, looks)), refresh=True)


def _print_lines(looks: list[Snapshot]) -> None:
    for status in looks[-1].arrays:
        busy = [
            f"{kernel_name(member.device)} r {human_bytes(rates[0])}/s w {human_bytes(rates[1])}/s"
            for member in status.members
            if (rates := rates_of(looks, kernel_name(member.device)))
        ]
        out("; ".join([line_of(looks, status), *busy]))
    if not looks[-1].arrays:
        out("no arrays")
