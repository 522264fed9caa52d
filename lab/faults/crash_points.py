"""Crash points over many configurations: machines side by side, each point judged, nothing kept but what is broken."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

import msgspec

from lab.errors import LabError, MachineLost
from lab.faults.configuration import CutConfiguration, find_configuration
from lab.faults.place import FaultPlace, open_place
from lab.faults.promise import Judge, PointVerdict, Tally
from lab.faults.recording import judge_points, make_recording
from lab.gates.decoding import decode_json
from lab.machine import Host, Target, parse_target

MOST_DRIVES = 8
MACHINES = 2
"""That run side by side on this computer."""
TRY = "lab.faults.crash_points:explore_asked"


@dataclass(frozen=True, slots=True)
class Explored:
    """A configuration whose points were tried."""

    configuration: CutConfiguration
    seed: str
    fingerprint: str
    """Of the recording; in virtual time the same wherever it is made."""
    tally: Tally
    seconds: float
    """Of this computer's clock."""
    error: LabError | None = None
    """Why it could not be tried, or not to its end."""
    last: str = ""
    """The crash point that was being tried then."""


def explore(
    place: FaultPlace,
    configuration: CutConfiguration,
    *,
    seed: str,
    points: int | None,
    operations: int | None = None,
    on_point: Callable[[PointVerdict], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Explored:
    """Record a configuration and try so many of its crash points (None: every one of a short recording).

    A machine that is lost ends it with what was tried until then. Raises LabError if it cannot be recorded.
    """
    started, tally = time.monotonic(), Tally()
    recording = make_recording(place, configuration, seed, operations=operations)
    judge, cuts, failure = Judge(recording), recording.cuts(points), None
    try:
        for seen in judge_points(place, recording, cuts):
            verdict = judge.verdict(seen)
            tally.add(verdict)
            on_point(verdict)
            if is_stopped():
                break
    except MachineLost as error:
        failure = error
    last = cuts[tally.points].word() if failure and tally.points < len(cuts) else ""
    return Explored(configuration, seed, recording.fingerprint, tally, time.monotonic() - started, failure, last)


@dataclass(frozen=True, slots=True)
class Exploration:
    """What is tried of each configuration, and where."""

    target: Target
    host: Host
    points: int | None
    operations: int | None = None
    on_point: Callable[[PointVerdict], None] = lambda _: None
    is_stopped: Callable[[], bool] = lambda: False
    calls: Callable[[str, bytes], bytes] | None = None
    """Calls ``module:name`` with bytes on a cluster: configurations are tried there, and ``on_point`` hears of none."""

    def one(self, configuration: CutConfiguration, seed: str) -> Explored:
        """A configuration on a machine just started, which is the same each time; one that did other things is not.

        A machine that is lost costs its configuration alone: the outcome says so.
        """
        began = time.monotonic()
        try:
            if self.calls:
                asked = _Asked(configuration.name, seed, self.points, self.operations, str(self.target))
                # From a worker that has this very program.
                found: Explored = pickle.loads(self.calls(TRY, msgspec.json.encode(asked)))
                return found
            with open_place(self.target, self.host, drives=MOST_DRIVES) as place:
                return explore(
                    place,
                    configuration,
                    seed=seed,
                    points=self.points,
                    operations=self.operations,
                    on_point=self.on_point,
                    is_stopped=self.is_stopped,
                )
        except LabError as error:
            return Explored(configuration, seed, "", Tally(), time.monotonic() - began, error)


class _Asked(msgspec.Struct, frozen=True):
    configuration: str
    seed: str
    points: int | None
    operations: int | None
    target: str


def explore_asked(payload: bytes) -> bytes:
    """On a worker of a cluster: one configuration, as it is asked for elsewhere."""
    asked = decode_json(payload, _Asked)
    host = Host.real("raidlab fault points")
    exploration = Exploration(parse_target(asked.target), host, asked.points, asked.operations)
    found = exploration.one(find_configuration(asked.configuration), asked.seed)
    if found.error and not isinstance(found.error, MachineLost):
        # Not every error can be taken apart and put together again.
        found = replace(found, error=LabError(found.error.message, hint=found.error.hint))
    return pickle.dumps(found)


def explore_all(
    exploration: Exploration,
    work: Sequence[tuple[CutConfiguration, str]],
    *,
    machines: int = MACHINES,
    on_rest: Callable[[Explored], object] = lambda _: None,
) -> Generator[Explored, None, None]:
    """The outcome of each configuration and seed, as they end; ``on_point`` is called on the machines' threads.

    Closing the iterator ends all of it; ``on_rest`` is told what was tried until then of those that were under way.
    """
    todo: queue.SimpleQueue[tuple[CutConfiguration, str]] = queue.SimpleQueue()
    done: queue.SimpleQueue[Explored | None] = queue.SimpleQueue()
    ended = threading.Event()
    for each in work:
        todo.put(each)
    stoppable = replace(exploration, is_stopped=lambda: ended.is_set() or exploration.is_stopped())

    def work_on() -> None:
        try:
            while not stoppable.is_stopped():
                done.put(stoppable.one(*todo.get_nowait()))
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
        while left:
            if (found := done.get()) is None:
                left -= 1
            else:
                on_rest(found)
