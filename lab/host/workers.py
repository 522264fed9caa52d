"""Work shared among processes of this computer, for what is arithmetic alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def processors() -> int:
    """How many this process may use (sched_getaffinity(2))."""
    return len(os.sched_getaffinity(0))


def in_processes(function: Callable[[T], R], items: Sequence[T], workers: int) -> Iterator[R]:
    """The function's results, in the order of the items; with one worker in this process.

    ``function`` and the items go to other processes, so they must be picklable. The processes are started anew
    (spawn), since a fork would take locks of this one's threads with it; they end with the iterator.
    """
    if workers <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(min(workers, len(items)), mp_context=get_context("spawn"))
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
