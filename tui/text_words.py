"""The text mode's help, and arrays, disks, syncs, loads and pages in sentences. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.units import human_bytes
from tui.conditions import condition
from tui.quantities import Unit, clock_words, format_value
from tui.runs import figures_lines, measured_of
from tui.state import LabState
from tui.views import bays_of, sync_view
from tui.volume_views import inner_lines

if TYPE_CHECKING:
    from lab.disks import LabDisk
    from lab.workloads.fio_output import LiveInterval

HELP = """\
Type a key and Enter. Enter alone tells how things stand and what can be done next.
?         what can be done now, with the keys
b         build a first RAID 5
build     put an array together choice by choice
disk02    select a disk; md0 selects an array, or starts one that is stopped
! LINE    run LINE as a root shell on the machine
drill     disasters to practise on: drill list, drill start 1; drill help tells the rest
log       the commands that ran last
restart   start a lost machine again
q         close the lab and leave
Commands of raidlab can be typed too, with raidlab in front or without:
array fail md0 disk02    any command that changes arrays; its plan is shown first
lesson list       the lessons; lesson start 1 begins one
run               experiments; run NAME measures one
results           what was measured; results show NAME
raidlab --help    everything"""
PACE_HELP = """\
Time on this machine is virtual: its clock goes as you choose. Enter alone tells what it shows.
, or pause         let it stand still, or go on
. or step          to the next event (a member fails, a rebuild ends), then pause
> or faster        faster; < or slower: slower
1x, 10x, 100x, max machine seconds for each second; max: as many as it can"""
LOAD_EVERY_SECONDS = 10.0
_PROGRESS_STEP_PERCENT = 25
_MARKUP = re.compile(r"\[/?[a-z$@][^\]]*\]|\[/\]")
# Keys of the app that are words here.
_WORDS = {
    "[b]Tab[/b] to it, [b]Enter[/b] starts it": "its name starts it",
    "[b]F1[/b] explains the screen": "help explains",
    "[b]Ctrl+R[/b]": "restart",
    "[b]Del[/b]": "delete",
    "[b]2[/b]": "build",
    "[b]F6[/b]: task": "drill status tells the task",
    "[b]F6[/b] shows": "drill status tells",
    "[b]F7[/b]: hint": "drill hint gives a hint",
    "[b]5[/b]: terminal": "! LINE runs LINE on the machine",
}


def plain_step(markup: str) -> str:
    """The next step with what is typed here instead of keys of the app."""
    for key, word in _WORDS.items():
        markup = markup.replace(key, word)
    return _MARKUP.sub("", markup)


def words_wrapped(text: str, columns: int) -> Iterator[str]:
    """Lines that no terminal has to break within a word."""
    for line in text.splitlines() or [""]:
        yield from textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False) or [""]


def clock_line(state: LabState) -> str:
    """How the machine's time passes; empty where it is real time."""
    if state.pace is None:
        return ""
    how = "stands still" if state.pace.is_paused else f"goes at {state.pace.words}"
    how = "goes to the next event" if state.pace.is_step else how
    return f"the machine's clock shows {clock_words(state.look.time_seconds if state.look else 0.0)} and {how}."


def array_lines(state: LabState) -> Iterator[str]:
    """A line for each array."""
    for status in state.arrays:
        members = ", ".join(state.disk_name(member.device) for member in status.members)
        words = condition(state, status)[1]
        yield f"{status.name}: {status.level}, {human_bytes(status.size_bytes)}, {words}; members {members}."
        if status.inner:
            inner = ", ".join(f"{name} {width} {how}" for name, width, how in inner_lines(status))
            yield f"inside {status.name}: {inner}."
    for array in state.resting_arrays:
        yield f"{array.name}: does not run{f': {array.refusal}' if array.refusal else ''}."
    free = len(state.free_disks)
    yield f"{len(state.disks)} disks, {free} of them free."


def disk_line(state: LabState, disk: LabDisk) -> str:
    """``disk02: 500 MiB file, member in md0, slot 1``, and so on."""
    bay = next(each for each in bays_of(state) if each.name == disk.name)
    where = f" in {bay.array}" if bay.array else ""
    slot = "" if bay.slot is None else f", slot {bay.slot}"
    note = f", {bay.note}" if bay.note else ""
    return f"{disk.name}: {human_bytes(disk.size_bytes)} {bay.model}, {bay.state}{where}{slot}{note}."


def progress_lines(state: LabState, told: dict[str, int]) -> Iterator[str]:
    """Progress of syncs, once for each quarter; ``told`` holds the quarters already reported."""
    for status in state.arrays:
        view = sync_view(state, status)
        if view is None:
            told.pop(status.name, None)
            continue
        percent = int(view.fraction * 100) // _PROGRESS_STEP_PERCENT * _PROGRESS_STEP_PERCENT
        if percent > told.get(status.name, 0):
            told[status.name] = percent
            yield f"{status.name}: {view.action} {percent} % done."


def load_line(state: LabState) -> str:
    """What the load does, or what it did in the end; empty without one."""
    load = state.load
    if load is None:
        return ""
    if load.is_running:
        return f"{load.workload} on {load.array}: {_rates(load.newest)}." if load.newest else ""
    measured = measured_of(load)
    if isinstance(load.outcome, LabError):
        # The error itself is shown.
        return ""
    if measured is None:
        return f"{load.workload} on {load.array} has ended."
    figures = "; ".join(" ".join(line.split()) for line in figures_lines(measured, 200))
    return f"{load.workload} on {load.array} has ended: {figures}."


def _rates(interval: LiveInterval) -> str:
    from lab.session.history import LoadMeasure, load_value

    p99 = load_value(interval, LoadMeasure.P99_SECONDS)
    return (
        f"{format_value(load_value(interval, LoadMeasure.IOPS), Unit.IOPS)} IOPS, "
        f"{format_value(load_value(interval, LoadMeasure.BYTES_PER_SECOND), Unit.BYTES_PER_SECOND)}, "
        f"p99 {format_value(p99, Unit.SECONDS)}"
    )
