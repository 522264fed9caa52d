"""Single calls on a cluster, for work that has an order of its own: campaigns, proofs, fleets."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lab.cli.extension import ClusterCalls
from lab.errors import LabError
from lab.machine import Host
from lab.measure.conditions import own_digest
from lab.sweep.cluster import ClusterTables, parse_cluster
from lab.sweep.measure import computer, sweeps_folder
from lab.sweep.pool import Pool
from lab.sweep.spread import Answer, answered

_LOOK_SECONDS = 0.5
_numbers = itertools.count()


class Calls(ClusterCalls):
    """Calls on the workers of a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._tending = threading.Lock()
        self.workers = len(pool.workers())

    def __call__(self, function: Callable[[bytes], bytes], payload: bytes) -> bytes:
        """Raises LabError as the function does, ClusterLost.

        A call whose worker ends is made again on another one.
        """
        from distributed import TimeoutError as NotYet

        client: Any = self._pool.client
        while True:
            key = f"{function.__module__}.{function.__qualname__}-{next(_numbers)}"
            future = client.submit(answered, function, payload, key=key, pure=False, retries=0)
            try:
                while True:
                    with self._tending:
                        self._pool.tend()
                    try:
                        answer: Answer = future.result(timeout=_LOOK_SECONDS)
                        break
                    except NotYet:
                        continue
            except LabError:
                raise
            except Exception as error:
                if future.status in ("cancelled", "lost"):
                    continue
                raise LabError(f"a worker has failed: {error}", hint="look at the logs of the cluster") from None
            finally:
                future.cancel()
            if answer.failure:
                told = LabError(f"on {answer.computer}: {answer.failure}", hint=answer.hint)
                told.console = answer.console
                raise told
            return answer.data


@contextmanager
def calls_on(cluster: str, host: Host, on_notice: Callable[[str], None]) -> Iterator[Calls]:
    """A cluster as ``--cluster`` names it, with the defaults of its table.

    Raises SpecError, RequirementMissing without Dask, and LabError for workers that have another raidlab.
    """
    spec = parse_cluster(cluster)
    folder = host.state.make(sweeps_folder(host) / "calls", what="the folder for calls on clusters")
    with Pool(spec, ClusterTables(), host, folder, on_notice) as pool:
        client: Any = pool.client
        own = own_digest()
        for address, told in client.run(_who_and_what, on_error="return").items():
            if isinstance(told, Exception):
                raise LabError(f"the worker at {address} has no raidlab: {told!r}", hint="install the same there")
            if told[1] != own:
                raise LabError(f"{told[0]} has another raidlab", hint="install the same there")
        yield Calls(pool)


def _who_and_what() -> tuple[str, str]:
    return computer(), own_digest()
