"""``raidlab watch``: arrays, members and rebuilds, live."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from lab.arrays.detail import state_words
from lab.arrays.names import array_device, kernel_name
from lab.arrays.status import ArrayStatus
from lab.cli.array_plans import awake
from lab.cli.array_show import array_value, role, sync_words
from lab.cli.context import Context, current
from lab.cli.output import out, out_json_line, table
from lab.cli.session import Session, open_session
from lab.measure.samples import DiskCounters, parse_diskstats
from lab.units import SECTOR_BYTES, human_bytes, human_seconds

TERMINAL_INTERVAL_SECONDS = 0.25
LINE_INTERVAL_SECONDS = 1.0
_RATE_SECONDS = 5.0
"""A sync's speed is taken over so long a stretch: md moves in bursts."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at all arrays, at a time of the machine's clock."""

    time_seconds: float
    arrays: tuple[ArrayStatus, ...]
    disks: Mapping[str, DiskCounters]


@dataclass(frozen=True, slots=True)
class Sync:
    """How fast a sync is, and how long it still takes."""

    bytes_per_second: float
    left_seconds: float | None


def watch(
    name: str | None = None,
    *,
    count: Annotated[int | None, Parameter(help="Stop after so many looks; otherwise Ctrl-C ends it.")] = None,
) -> None:
    """Show arrays, members and rebuilds as they change. On uml: syncs go on as long as this runs."""
    context = current()
    if name:
        array_device(name)
    with open_session(context) as session:
        _let_syncs_go_on(session)
        live = sys.stdout.isatty() and not context.json
        interval = TERMINAL_INTERVAL_SECONDS if live else LINE_INTERVAL_SECONDS
        with _show(context, session, live=live) as show:
            looks: list[Look] = []
            while count is None or count > 0:
                looks.append(look_at(session, name))
                oldest = looks[-1].time_seconds - _RATE_SECONDS
                looks = [each for each in looks[:-1] if each.time_seconds >= oldest] + looks[-1:]
                show(looks)
                count = None if count is None else count - 1
                if count != 0:
                    session.lab.host.clock.sleep(interval)


def _let_syncs_go_on(session: Session) -> None:
    """A freshly assembled array waits with its sync for the first write."""
    for status in session.statuses() if session.context.is_embedded else ():
        if status.awaits_resync or status.awaits_rebuild:
            session.run(awake(status))


def look_at(session: Session, name: str | None) -> Look:
    """Read everything once."""
    arrays = (session.status(name),) if name else session.statuses()
    texts = session.lab.machine.read(["/proc/uptime", "/proc/diskstats"])
    # proc(5): the first number is the seconds since the start.
    uptime = (texts["/proc/uptime"] or "0").split()[0]
    return Look(float(uptime), arrays, parse_diskstats(texts["/proc/diskstats"] or ""))


def sync_of(looks: list[Look], name: str) -> Sync | None:
    """Speed per member and time left, from the progress between the oldest and the newest look of one sync."""
    seen = [(look.time_seconds, status) for look in looks for status in look.arrays if status.name == name]
    if not seen or seen[-1][1].sync_progress is None:
        return None
    newest_time, newest = seen[-1]
    for time, status in seen:
        before, now = status.sync_progress, newest.sync_progress
        if before is None or now is None or status.sync_action is not newest.sync_action:
            continue
        moved = (now.done_sectors - before.done_sectors) * SECTOR_BYTES
        if time < newest_time and moved >= 0:
            rate = moved / (newest_time - time)
            left = (now.total_sectors - now.done_sectors) * SECTOR_BYTES
            return Sync(rate, left / rate if rate > 0 else None)
    return None


def rates_of(looks: list[Look], device: str) -> tuple[float, float] | None:
    """Bytes read and written per second between the last two looks."""
    if len(looks) < 2:
        return None
    earlier, later = looks[-2], looks[-1]
    before, after = earlier.disks.get(device), later.disks.get(device)
    seconds = later.time_seconds - earlier.time_seconds
    if before is None or after is None or seconds <= 0:
        return None
    return (after.read_bytes - before.read_bytes) / seconds, (after.written_bytes - before.written_bytes) / seconds


def text_of(session: Session, looks: list[Look]) -> str:
    """All arrays with their members."""
    blocks = []
    for status in looks[-1].arrays:
        rows = []
        for member in status.members:
            rates = rates_of(looks, kernel_name(member.device))
            read, written = (f"{human_bytes(rate)}/s" for rate in rates) if rates else ("", "")
            slot = "-" if member.slot is None else member.slot
            rows.append((f"  {session.disk_name(member.device)}", member.device, slot, role(member), read, written))
        members = table(
            ("  disk", "device", "slot", "state", "reads", "writes"), rows, right=("slot", "reads", "writes")
        )
        blocks.append(f"{line_of(looks, status)}\n{members}")
    return "\n\n".join(blocks) or "no arrays"


def line_of(looks: list[Look], status: ArrayStatus) -> str:
    """One array in one line."""
    words = [f"{status.name} {status.level} {human_bytes(status.size_bytes)} {state_words(status)}"]
    if status.sync_progress or status.awaits_rebuild or status.awaits_resync:
        words.append(sync_words(status))
    if sync := sync_of(looks, status.name):
        words.append(f"{human_bytes(sync.bytes_per_second)}/s per member")
        if sync.left_seconds is not None:
            words.append(f"{human_seconds(max(1.0, sync.left_seconds))} left")
    return ", ".join(words)


def value_of(session: Session, looks: list[Look]) -> dict[str, Any]:
    """One look for JSON."""
    arrays = []
    for status in looks[-1].arrays:
        value, sync = array_value(session, status), sync_of(looks, status.name)
        value["sync_bytes_per_second"] = sync.bytes_per_second if sync else None
        value["sync_left_seconds"] = sync.left_seconds if sync else None
        for entry in value["members"]:
            rates = rates_of(looks, kernel_name(entry["device"]))
            entry["read_bytes_per_second"], entry["write_bytes_per_second"] = rates or (None, None)
        arrays.append(value)
    return {"time_seconds": looks[-1].time_seconds, "arrays": arrays}


@contextmanager
def _show(context: Context, session: Session, *, live: bool) -> Iterator[Callable[[list[Look]], None]]:
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


def _print_lines(looks: list[Look]) -> None:
    for status in looks[-1].arrays:
        busy = [
            f"{kernel_name(member.device)} r {human_bytes(rates[0])}/s w {human_bytes(rates[1])}/s"
            for member in status.members
            if (rates := rates_of(looks, kernel_name(member.device)))
        ]
        out("; ".join([line_of(looks, status), *busy]))
    if not looks[-1].arrays:
        out("no arrays")
