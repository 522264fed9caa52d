"""Applies each message of the lab's threads to ``LabState``, without widgets or threads.

The first sync of a new array has its own words: md reports a new RAID 4 or 5 as degraded, because it computes the
parity by rebuilding the last member (mdadm(8), --create).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.errors import LabError
from tui import messages as happened
from tui.state import LabState, MachinePhase, MarkView, PastLoad, RunningOperation
from tui.tones import condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.arrays.status import ArrayStatus
    from lab.session.data_mark import DataMark
    from lab.session.monitor import Event, Snapshot


def update(state: LabState, message: happened.LabMessage) -> None:
    """Apply a message to the state."""
    match message:
        case happened.LabLooked(look=look):
            from lab.session.monitor import events_between

            before, state.look = state.look, look
            is_quiet = before is not None and before.arrays == look.arrays and before.disks == look.disks
            state.quiet_looks = state.quiet_looks + 1 if is_quiet else 0
            state.has_ticked = before is None or int(before.time_seconds) != int(look.time_seconds)
            found = events_between(before, look, name_of=state.full_disk_name) if before else ()
            state.new_events = first_syncs_told(found, look, state.first_syncs)
            for event in state.new_events:
                state.events.append(event)
                if (view := state.marks.get(event.array)) and view.verdict:
                    state.marks[event.array] = replace(view, is_stale=True)
            if state.history:
                state.history.add(look)
        case happened.MachineOpening():
            state.phase, state.target, state.problem = MachinePhase.OPENING, message.target, None
        case happened.SessionOpened():
            _opened(state, message)
        case happened.SessionEnded():
            _ended(state, message)
        case happened.PaceChosen():
            state.pace = message.pace
        case happened.DisksChanged():
            state.disks, state.found = message.disks, message.found
        case happened.CommandRan():
            state.commands.append(message.entry)
            state.command_count += 1
        case happened.LoadTicked():
            if state.load:
                state.load = replace(state.load, newest=message.interval)
            if state.history:
                state.history.add_load(message.interval, message.time_seconds)
        case happened.LoadEnded():
            _load_ended(state, message)
        case happened.LoadEntered():
            if state.load:
                state.load = replace(state.load, phase=message.phase.value)
        case happened.MarksRead():
            _marks(state, message.marks)
        case happened.JobStarted(job=job) if job.is_shown:
            state.operation = RunningOperation(job.title, steps=job.step_count)
        case happened.StepStarted(job=job) if job.is_shown:
            state.operation = RunningOperation(job.title, message.line, message.number, job.step_count)
        case happened.JobFinished(job=job) | happened.JobFailed(job=job) if job.is_shown:
            state.operation = None
        case _:
            pass


def _load_ended(state: LabState, message: happened.LoadEnded) -> None:
    load = state.load
    if load is None:
        return
    state.load = replace(load, is_running=False, phase="over", outcome=message.outcome)
    if message.outcome is None or isinstance(message.outcome, LabError):
        return
    status = state.array(load.array)
    words = condition(state, status)[1] if status else ""
    state.past_loads.append(PastLoad(load.workload, load.array, words, message.outcome))


def _marks(state: LabState, marks: Mapping[str, DataMark]) -> None:
    """Replace the marks; a verdict is kept if its mark is unchanged."""
    known = state.marks
    state.marks = {
        name: known[name] if name in known and known[name].mark.seed == mark.seed else MarkView(mark)
        for name, mark in marks.items()
    }


def _opened(state: LabState, message: happened.SessionOpened) -> None:
    state.phase, state.problem = MachinePhase.OPEN, None
    state.facts, state.disks, state.found = message.facts, message.disks, message.found
    # A new session has a new clock, so the history of the old one cannot continue.
    forget_past(state)


def forget_past(state: LabState) -> None:
    """Delete the samples, the history, the events and the first syncs."""
    from lab.session.monitor import History

    state.look, state.history = None, History()
    state.events.clear()
    state.first_syncs.clear()


def _ended(state: LabState, message: happened.SessionEnded) -> None:
    state.problem, state.pace = message.error, None
    if message.error is None:
        state.phase = MachinePhase.CLOSED
    else:
        state.phase = MachinePhase.LOST if message.was_open else MachinePhase.FAILED
    state.operation = None
    if load := state.running_load:
        state.load = replace(load, is_running=False, phase="over", outcome=message.error)


_LOSSES = ("member-faulty", "member-removed", "array-gone", "array-broken", "disk-vanished")


def first_syncs_told(events: Iterable[Event], look: Snapshot, going_on: set[str]) -> tuple[Event, ...]:
    """The events, those of first syncs in their own words or left out; ``going_on``, the first syncs, is updated."""
    told = []
    for event in events:
        name, kind, status = event.array, event.kind.value, look.array(event.array)
        if kind == "array-appeared" and status and _is_new(status):
            going_on.add(name)
        if name in going_on and kind in _LOSSES:
            going_on.discard(name)
        if name in going_on and status:
            # The inner arrays become ready one after another; only the last one is reported.
            is_partial = bool(status.inner) and (
                kind == "member-in-sync" or (kind == "restored" and status.is_degraded)
            )
            if kind == "degraded" or is_partial:
                continue
            words = {
                "array-appeared": event.sentence.replace("appeared", "is there", 1),
                "sync-started": f"md {purpose(status)} (first sync)",
                "sync-finished": f"the first sync of {name} has ended",
                "restored": f"{name} is ready: any one disk may fail now",
            }.get(kind)
            event = replace(event, sentence=words) if words else event
        told.append(event)
    for name in list(going_on):
        status = look.array(name)
        if status is None or not status.owes_sync:
            going_on.discard(name)
    return tuple(told)


def purpose(status: ArrayStatus) -> str:
    """The purpose of the first sync, such as ``computes the parity of md0``."""
    if status.has_parity:
        return f"computes the parity of {status.name}"
    return f"makes the copies of {status.name} agree"


def _is_new(status: ArrayStatus) -> bool:
    """Whether md still has to sync the array, and each slot has a member or a spare for it."""
    fillers = sum(member.is_rebuilding or member.is_spare for member in status.members)
    is_complete = not any(member.is_faulty for member in status.members) and fillers >= status.degraded_count
    return is_complete and status.owes_sync
