"""Scheduler and worker of Dask without the HTTP server, which Dask otherwise starts even without web pages."""

from __future__ import annotations

from typing import Any

import distributed

_Scheduler: Any = distributed.Scheduler
_Worker: Any = distributed.Worker


class _NoPages:
    """Replaces ``distributed.node.ServerNode.start_http_server``."""

    http_server = None

    def start_http_server(self, *_: object, **__: object) -> None:
        """Do nothing: there is no HTTP server."""


class QuietScheduler(_NoPages, _Scheduler):  # type: ignore[misc] # it comes without types
    """A scheduler with one port, which requires a certificate."""


class QuietWorker(_NoPages, _Worker):  # type: ignore[misc] # it comes without types
    """A worker with one port, which requires a certificate."""
