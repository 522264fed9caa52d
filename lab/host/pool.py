"""Run one function over many jobs in worker processes that end with this process.

Workers are started with spawn, because a fork would copy locks that threads of this process hold. A worker has one pipe
to its parent and no descriptor of the other workers' pipes, so it reads end of file when its parent ends. The kernel
also kills the worker when the parent dies, even in the middle of a job (PR_SET_PDEATHSIG, prctl(2)).
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import ParamSpec, TypeVar

from lab.errors import LabError
from lab.host.processes import ended_how
from lab.host.signals import ENDING

_PR_SET_PDEATHSIG = 1
Job = TypeVar("Job")
Answer = TypeVar("Answer")
P = ParamSpec("P")


class ClusterCalls(ABC):
    """Calls functions on any free worker of a cluster. Threads may share it."""

    workers: int
    """Maximum number of simultaneous calls."""

    @abstractmethod
    def __call__(self, function: Callable[P, Answer], /, *arguments: P.args, **named: P.kwargs) -> Answer:
        """Return the result of ``function``, which every worker must be able to import.

        The arguments and the result must be picklable. Raises LabError if ``function`` raises it.
        """


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def spread(work: Callable[[Job], Answer], jobs: Iterable[Job], processes: int) -> Iterator[Iterator[Answer]]:
    """Yield the results of ``work`` for all jobs as they arrive, in any order. At the end, no worker remains.

    ``work`` must be a module-level function, and jobs and results must be picklable. Each worker imports the program's
    main module, so importing it must have no side effects. A worker has one job at a time, so there are never more
    waiting results than workers. With fewer than two ``processes`` all jobs run in this process.

    Raises LabError if a worker is killed from outside, and RuntimeError if ``work`` raises an exception.
    """
    if processes < 2:
        yield map(work, jobs)
        return
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, SpawnProcess] = {}
    try:
        with held_back():
            for _ in range(processes):
                here, there = context.Pipe()
                process = context.Process(target=_serve, args=(work, there, os.getpid()), daemon=True)
                with there:
                    process.start()
                workers[here] = process
        yield _answers(workers, iter(jobs))
    finally:
        for process in workers.values():
            process.kill()
        for pipe, process in workers.items():
            process.join()
            pipe.close()


@contextmanager
def held_back() -> Iterator[None]:
    """Block signals while workers start, so that the workers inherit the mask and only the parent handles Ctrl-C."""
    # The resource tracker, which multiprocessing starts with the first process, unblocks signals when it starts.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _answers(workers: dict[Connection, SpawnProcess], jobs: Iterator[Job]) -> Iterator[Answer]:
    busy: set[Connection] = set()

    def send_next_job(pipe: Connection) -> None:
        for job in jobs:
            # A worker that has ended is detected when its result is read.
            with suppress(BrokenPipeError):
                pipe.send(job)
            busy.add(pipe)
            return

    for pipe in workers:
        send_next_job(pipe)
    while busy:
        ready = wait(list(busy))
        for pipe in [each for each in busy if each in ready]:
            try:
                is_good, answer = pipe.recv()
            except (EOFError, ConnectionResetError):
                workers[pipe].join()
                how = ended_how(workers[pipe].exitcode or 0)
                hint = "run the command again; if memory is short, close other programs first"
                raise LabError(f"a worker process was killed from outside ({how})", hint=hint) from None
            if not is_good:
                raise RuntimeError(answer)
            busy.discard(pipe)
            # The worker gets its next job before its result is used, so that it runs in the meantime.
            send_next_job(pipe)
            yield answer


def _serve(work: Callable[[Job], Answer], pipe: Connection, parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before that call.
    while os.getppid() == parent:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            answer: tuple[bool, object] = (True, work(job))
        except Exception:
            answer = (False, traceback.format_exc())
        with suppress(BrokenPipeError):
            pipe.send(answer)
