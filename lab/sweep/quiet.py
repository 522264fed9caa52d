"""Dask's scheduler and worker without the HTTP port that each opens, also where it is to have no pages."""

from __future__ import annotations

from typing import Any

import distributed

_Scheduler: Any = distributed.Scheduler
_Worker: Any = distributed.Worker


class _NoPages:
    """Takes the place of ``distributed.node.ServerNode.start_http_server``."""

    http_server = None

    def start_http_server(self, *_: object, **__: object) -> None:
        """Listen nowhere."""


class QuietScheduler(_NoPages, _Scheduler):  # type: ignore[misc] # it comes without types
    """A scheduler with one port, which wants a certificate."""


class QuietWorker(_NoPages, _Worker):  # type: ignore[misc] # it comes without types
    """A worker with one port, which wants a certificate."""
