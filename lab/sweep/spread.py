"""Distribute tasks over a pool, a few per worker at a time, and yield their results in order of completion.

``Calls`` is for programs that determine the order of their calls themselves, such as campaigns, proofs and fleets.
"""

from __future__ import annotations

import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from lab.errors import ExitCode, LabError, RunCancelled
from lab.experiments.run import RESULT_ROOM_BYTES
from lab.host.pool import ClusterCalls
from lab.machine import Host
from lab.machine.state_folder import default_state_root
from lab.measure.job import own_digest
from lab.sweep.cells import computer, sweeps_folder
from lab.sweep.cluster import ClusterLost, ClusterTables, parse_cluster, require_dask

if TYPE_CHECKING:
    from lab.sweep.pool import Pool

P = ParamSpec("P")
Result = TypeVar("Result")


class Calls(ClusterCalls):
    """Calls functions on the workers of a pool, synchronously."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._tending = threading.Lock()
        self.workers = len(pool.workers())

    def __call__(self, function: Callable[P, Result], /, *arguments: P.args, **named: P.kwargs) -> Result:
        """Call ``function`` on a worker. Raises LabError if the call fails, and ClusterLost if no worker is left.

        If the worker exits, Dask repeats the call on another worker.
        """
        from distributed import TimeoutError as NotYet

        call = partial(function, *arguments, **named)
        future = self._pool.client.submit(answered, call, pure=False, retries=0)
        answer: Answer | None = None
        try:
            while answer is None:
                with self._tending:
                    self._pool.tend()
                with suppress(NotYet):
                    answer = future.result(timeout=POLL_SECONDS)
        except LabError:
            raise
        except Exception as error:
            raise LabError(f"a worker has failed: {error}", hint="check the cluster's logs") from None
        finally:
            future.cancel()
        if answer.failure:
            failure = LabError(f"on {answer.computer}: {answer.failure}", hint=answer.hint)
            failure.console = answer.console
            raise failure
        result: Result = answer.data
        return result


@contextmanager
def calls_on(cluster: str, host: Host, on_notice: Callable[[str], None]) -> Iterator[Calls]:
    """Start workers with default settings. ``cluster`` has the syntax of the option ``--cluster``.

    Raises SpecError if ``cluster`` is invalid, RequirementMissing if Dask is missing, and LabError if a worker has a
    different raidlab version.
    """
    spec = parse_cluster(cluster)
    require_dask()
    from lab.sweep.pool import Pool

    folder = host.state.make(sweeps_folder(host) / "calls", what="the folder for calls on clusters")
    with Pool(spec, ClusterTables(), host, folder, on_notice) as pool:
        own = own_digest()
        for address, found in pool.run(_computer_and_digest).items():
            if isinstance(found, Exception):
                hint = "install this version there"
                raise LabError(f"the worker at {address} cannot run raidlab: {found!r}", hint=hint)
            if found[1] != own:
                raise LabError(f"{found[0]} has a different raidlab version", hint="install this version there")
        yield Calls(pool)


def _computer_and_digest() -> tuple[str, str]:
    return computer(), own_digest()


MOST_TRIES = 2
AHEAD = 2
"""Number of tasks that each worker has at a time. Tasks that wait for their turn take no memory in the scheduler."""
POLL_SECONDS = 0.5
FIT_SECONDS = 120.0
"""How long to wait for a suitable worker if no connected one is suitable."""


class SpreadTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task. ``payload`` is the argument of the function."""

    key: str
    """Tasks with the same key do the same work."""
    label: str = ""
    payload: bytes = b""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a task on a worker."""

    data: Any = None
    """The result of the function."""
    failure: str = ""
    """The error message, or an empty string if ``data`` is valid."""
    hint: str = ""
    console: str = ""
    computer: str = ""
    worker: str = ""
    """The address of the worker, or an empty string if it is unknown because the worker died."""
    is_computers_fault: bool = False
    """Whether the computer caused the failure, as when a program is missing. Such an attempt does not count."""


Call = Callable[[bytes], object]
"""A function that is at module level, so that workers can import it."""


def answered(function: Callable[..., object], *arguments: bytes) -> Answer:
    """Call the function on this worker. Errors become part of the answer."""
    from distributed import get_worker

    name = os.uname().nodename
    here = Answer(computer=name, worker=str(get_worker().contact_address))
    try:
        return msgspec.structs.replace(here, data=function(*arguments))
    except LabError as error:
        is_unfit = error.exit_code == ExitCode.MISSING or not _has_room()
        words = {"failure": error.message, "hint": error.hint, "console": error.console}
        return msgspec.structs.replace(here, **words, is_computers_fault=is_unfit)
    except OSError as error:
        return msgspec.structs.replace(here, failure=f"{name}: {error}", is_computers_fault=True)


def _has_room() -> bool:
    """Whether this computer's state folder has room for another result."""
    root = default_state_root()
    folder = next(path for path in (root, *root.absolute().parents) if path.exists())
    return shutil.disk_usage(folder).free >= RESULT_ROOM_BYTES


@dataclass(slots=True)
class _Out:
    task: SpreadTask
    tries: int = 1
    failed_on: str = ""
    only_on: frozenset[str] = frozenset()
    """Addresses of the workers on which the task may run, or an empty collection for any."""
    future: Any = None


class TaskSpread:
    """Distributes tasks over the workers of a pool, and repeats failed tasks. A pool has one TaskSpread at a time."""

    def __init__(
        self,
        pool: Pool,
        function: Call,
        *,
        on_state: Callable[[int, int], None] = lambda running, workers: None,
        on_notice: Callable[[str], None] = lambda _: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """``on_state`` is called with the number of running tasks and the number of workers that get tasks."""
        self._pool, self._function = pool, function
        self._on_state, self._on_notice, self._is_cancelled = on_state, on_notice, is_cancelled
        self._unfit: set[str] = set()
        """Addresses of excluded workers."""
        self._out: dict[str, _Out] = {}
        self._held: list[_Out] = []
        """Tasks that are to be submitted, for the first time or again, once there is a suitable worker."""
        self._ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._generation = 0
        self._lacking_since: float | None = None

    def shut_out(self, problems: Mapping[str, str]) -> None:
        """Submit no more tasks to the workers at these addresses. Raises ClusterLost if no other worker is left."""
        self._unfit.update(problems)
        for problem in problems.values():
            self._on_notice(f"a worker gets no work: {problem}")
        if problems and not self._fit():
            first = next(iter(problems.values()))
            raise ClusterLost(
                f"no worker can do the work: {first}",
                hint="fix the problem on that computer, or choose another cluster",
            )

    def run(self, tasks: Iterable[SpreadTask]) -> Iterator[tuple[SpreadTask, Answer]]:
        """Yield each task with its answer as it completes. If the caller stops early, the other tasks are cancelled.

        Raises ClusterLost if no worker is left, and RunCancelled soon after ``is_cancelled`` returns True.
        """
        waiting = iter(tasks)
        try:
            while True:
                workers = len(self._fit())
                room = AHEAD * max(1, workers) - len(self._out) - len(self._held)
                self._held += map(_Out, islice(waiting, max(0, room)))
                self._send_held()
                self._on_state(min(len(self._out), workers), workers)
                if not self._out and not self._held:
                    return
                self._pool.tend()
                self._require_fit()
                if self._is_cancelled():
                    raise RunCancelled(
                        "the work was cancelled", hint="use --resume to continue; finished cells are stored"
                    )
                yield from self._next()
        finally:
            for out in self._out.values():
                out.future.cancel()
            self._out.clear()
            self._held.clear()

    def _send_held(self) -> None:
        """Submit held tasks, and resubmit tasks whose permitted workers are all gone, unless all workers are unfit."""
        alive = self._pool.workers()
        stranded = [out for out in self._out.values() if out.only_on and not out.only_on & alive.keys()]
        for out in stranded:
            del self._out[out.task.key]
            out.future.cancel()
        self._held += stranded
        fit = self._fit()
        if fit or not self._unfit:
            for out in self._held:
                self._send(out, fit)
            self._held.clear()

    def _require_fit(self) -> None:
        """Raise ClusterLost if all workers are excluded and no other worker appears within ``FIT_SECONDS``."""
        if self._fit() or not self._unfit:
            self._lacking_since = None
            return
        now = self._pool.now()
        if self._lacking_since is None:
            self._lacking_since = now
            self._on_notice(f"no worker is left that can do the work; waiting up to {FIT_SECONDS:.0f} s for one")
        elif now > self._lacking_since + FIT_SECONDS:
            raise ClusterLost("no worker is left that can do the work", hint="add one, and use --resume")

    def _fit(self) -> list[str]:
        return [address for address in self._pool.workers() if address not in self._unfit]

    def _send(self, out: _Out, fit: Sequence[str]) -> None:
        self._generation += 1
        options: dict[str, Any] = {}
        others = [address for address in fit if address != out.failed_on]
        if (self._unfit or out.failed_on) and others:
            # Repeat a task on the worker where it failed only if there is no other.
            options = {"workers": others, "allow_other_workers": not self._unfit}
            out.only_on = frozenset(others) if self._unfit else frozenset()
        key = f"{out.task.key}-{self._generation}"
        out.future = self._pool.client.submit(
            answered, self._function, out.task.payload, key=key, pure=False, retries=0, **options
        )
        self._out[out.task.key] = out
        out.future.add_done_callback(lambda done, name=out.task.key: self._ready.put((name, done)))

    def _next(self) -> Iterator[tuple[SpreadTask, Answer]]:
        try:
            name, future = self._ready.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return
        out = self._out.get(name)
        if out is None or out.future is not future:
            return
        del self._out[name]
        answer = self._answer(future)
        if answer is None:
            # The answer was lost together with its worker or with the scheduler.
            self._held.append(out)
        elif not answer.failure:
            yield out.task, answer
        elif answer.is_computers_fault:
            self.shut_out({answer.worker: answer.failure} if answer.worker not in self._unfit else {})
            self._held.append(out)
        elif out.tries < MOST_TRIES:
            self._on_notice(f"{out.task.label or out.task.key}: {answer.failure}; it is tried again")
            self._held.append(_Out(out.task, out.tries + 1, answer.worker))
        else:
            yield out.task, answer

    def _answer(self, future: Any) -> Answer | None:
        """Return the answer of a completed task, or None if it must be submitted again."""
        if future.status == "finished":
            try:
                found = future.result(timeout=60)
            except Exception:  # the worker that held the result has gone
                return None
            assert isinstance(found, Answer)
            return found
        if future.status == "error":
            error = future.exception(timeout=60)
            if type(error).__name__ == "KilledWorker":
                return Answer(failure="every worker that received this task died")
            return Answer(failure=f"{type(error).__name__}: {error}")
        return None
