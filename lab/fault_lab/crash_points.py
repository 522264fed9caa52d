"""Crash points over many configurations: machines side by side, each point judged, nothing kept but what is broken."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.errors import LabError
from lab.fault_lab.configuration import Configuration
from lab.fault_lab.place import FaultPlace, open_place
from lab.fault_lab.promise import Judge, PointVerdict, Tally
from lab.fault_lab.recording import OPERATIONS, judge_points, make_recording
from lab.machine import Host, Target

MOST_DRIVES = 8


@dataclass(frozen=True, slots=True)
class Explored:
    """A configuration whose points were tried."""

    configuration: Configuration
    seed: str
    fingerprint: str
    """Of the recording; in virtual time the same wherever it is made."""
    tally: Tally
    seconds: float
    """Of this computer's clock."""
    error: str = ""
    """Why it could not be tried, or not to its end."""


def explore(
    place: FaultPlace,
    configuration: Configuration,
    *,
    seed: str,
    points: int | None,
    operations: int = OPERATIONS,
    on_point: Callable[[PointVerdict], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Explored:
    """Record a configuration and try so many of its crash points (None: every one of a short recording)."""
    started, tally = time.monotonic(), Tally()
    recording = make_recording(place, configuration, seed, operations=operations)
    judge = Judge(recording)
    for seen in judge_points(place, recording, recording.cuts(points)):
        verdict = judge.verdict(seen)
        tally.add(verdict)
        on_point(verdict)
        if is_stopped():
            break
    return Explored(configuration, seed, recording.fingerprint, tally, time.monotonic() - started)


def explore_all(
    target: Target,
    host: Host,
    work: Sequence[tuple[Configuration, str]],
    *,
    points: int | None,
    operations: int = OPERATIONS,
    machines: int = 2,
    on_point: Callable[[PointVerdict], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Explored]:
    """The outcome of each configuration and seed, as they end; a machine that is lost costs its configuration alone."""
    todo: queue.SimpleQueue[tuple[Configuration, str]] = queue.SimpleQueue()
    done: queue.SimpleQueue[Explored | None] = queue.SimpleQueue()
    for each in work:
        todo.put(each)
    ended = threading.Event()

    def stops() -> bool:
        return ended.is_set() or is_stopped()

    def one_machine(configuration: Configuration, seed: str) -> Explored:
        began = time.monotonic()
        try:
            # A machine just started is the same each time; one that did other things before is not.
            with open_place(target, host, drives=MOST_DRIVES) as place:
                return explore(
                    place,
                    configuration,
                    seed=seed,
                    points=points,
                    operations=operations,
                    on_point=on_point,
                    is_stopped=stops,
                )
        except LabError as error:
            return Explored(configuration, seed, "", Tally(), time.monotonic() - began, error=error.message)

    def work_on() -> None:
        try:
            while not stops():
                done.put(one_machine(*todo.get_nowait()))
        except queue.Empty:
            pass
        finally:
            done.put(None)

    threads = [threading.Thread(target=work_on, name=f"crash points {number}") for number in range(machines)]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            found = done.get()
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        ended.set()
        for thread in threads:
            thread.join()
