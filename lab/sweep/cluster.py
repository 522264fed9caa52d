"""The ``--cluster`` option, the ``[cluster.*]`` tables, and Dask's settings for the cluster that measures cells.

This module does not import Dask, which need not be installed.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from lab.errors import LabError, RequirementMissing, SpecError
from lab.gates.decoding import whole
from lab.gates.text import shortened
from lab.results.record import Word

INSTALL = "make cluster (in a clone), or pip install 'raidlab[cluster]'"
LOOPBACK = "127.0.0.1"
PAGES = f"{LOOPBACK}:8787"
"""The usual address of Dask's dashboard, as an example in help texts."""
_RETAINED_VARIABLES = "DASK_DISTRIBUTED__COMM__"
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "tornado.application", "asyncio")
CONFIGURATION: dict[str, Any] = {
    # Programs that the user's Dask configuration (~/.config/dask/*.yaml) loads in each process.
    **{f"distributed.{role}.preload": [] for role in ("scheduler", "worker", "nanny")},
    # A worker normally sends a heartbeat every half second. If it sends none for this long, it is stopped and replaced.
    "distributed.scheduler.worker-ttl": "60 seconds",
    "distributed.scheduler.allowed-failures": 2,
    # A worker has one task at a time, and gets the next one when that task is done.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.tick.limit": "1 minute",
    "logging": {"distributed": "error", "bokeh": "error"},
}


class ClusterLost(LabError):
    """The scheduler does not answer, or no worker is left. The cells measured so far are stored."""


def configure_dask() -> None:
    """Set Dask's configuration in this process. Call this before anything else imports Dask.

    Dask's environment variables that may name code to import (``DASK_CONFIG``, preloads, routes, plugins) are
    removed. The variables that configure connections cannot load code, and are kept.
    """
    for name in [each for each in os.environ if each.startswith("DASK_") and not each.startswith(_RETAINED_VARIABLES)]:
        del os.environ[name]
    import dask.config

    # Dask reads the user's configuration when it is imported.
    dask.config.set(CONFIGURATION)


def require_dask() -> None:
    """Prepare Dask. Raises RequirementMissing, whose hint is the command that installs Dask."""
    try:
        configure_dask()
        import distributed  # noqa: F401
    except ImportError:
        raise RequirementMissing("sweeps are distributed by Dask, which is not installed", hint=INSTALL) from None
    # Dask's log messages are for its developers, because raidlab reports errors itself.
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class SlurmTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jobs that ``--cluster slurm`` submits with sbatch(1)."""

    partition: Word = ""
    """The partition, or an empty string for the cluster's default."""
    walltime: Annotated[str, msgspec.Meta(pattern=r"^([0-9]+-)?[0-9]{1,3}(:[0-9]{2}){1,2}$")] = "01:00:00"
    """Time limit of each job. When a job reaches it, its cell is given to another worker."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 2
    """Number of jobs, each with one processor and ``memory``."""
    memory: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+[KMG]$")] = "2G"
    account: Word = ""
    host: Word = ""
    """Name or address of this computer on the cluster's network, or an empty string for its host name."""
    python: Word = ""
    """Python interpreter with raidlab on the nodes, or an empty string for the path of the running interpreter."""
    directives: tuple[Word, ...] = ()
    """Further options of sbatch(1) for each job, such as ``--constraint=ssd``."""


class SshTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The workers that ``--cluster ssh:HOST,HOST`` starts."""

    python: Word = ""
    """Python interpreter with raidlab on the hosts, or an empty string for the path of the running interpreter."""
    workers: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    """Number of workers on each host, or 0 for one per processor."""
    state: Word = ""
    """The state folder on the hosts (RAIDLAB_STATE), or an empty string for the remote user's default."""
    config: Word = ""
    """A configuration file to use in place of ~/.ssh/config (ssh_config(5))."""


class ClusterTables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ``[cluster.slurm]`` and ``[cluster.ssh]`` tables."""

    slurm: SlurmTable = SlurmTable()
    ssh: SshTable = SshTable()


MOST_WORKERS = 1024
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:\[\]-]*")
_ADDRESS = re.compile(r"(tcp|tls)://[A-Za-z0-9_.\[\]:-]+:[0-9]{1,5}")


class ClusterKind(StrEnum):
    """The kinds of cluster."""

    LOCAL = "local"
    """Processes on this computer."""
    SSH = "ssh"
    """Processes on other computers. Each is started through ssh, which also carries its traffic."""
    SLURM = "slurm"
    ADDRESS = "address"
    """The workers of a scheduler that is already running."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A parsed ``--cluster`` option. ``text`` is the option as typed."""

    kind: ClusterKind
    text: str
    workers: int = 0
    """For ``local``, the number of workers, or 0 for one per processor."""
    hosts: tuple[str, ...] = ()


def parse_cluster(text: str) -> ClusterSpec:
    """Parse ``local``, ``local:4``, ``ssh:HOST,HOST``, ``slurm`` or ``tcp://HOST:PORT``. Raises SpecError."""
    text = text.strip()
    word, _, rest = text.partition(":")
    if _ADDRESS.fullmatch(text) and int(text.rpartition(":")[2]) in range(1, 65_536):
        return ClusterSpec(ClusterKind.ADDRESS, text)
    if word == ClusterKind.LOCAL:
        workers = whole(rest, "workers of --cluster local:") if rest else 0
        if rest and not 1 <= workers <= MOST_WORKERS:
            raise SpecError(f"{workers} workers are not possible", hint=f"choose 1 to {MOST_WORKERS}")
        return ClusterSpec(ClusterKind.LOCAL, text, workers)
    if word == ClusterKind.SSH and rest:
        hosts = tuple(host.strip() for host in rest.split(","))
        if wrong := [host for host in hosts if not _HOST.fullmatch(host)]:
            raise SpecError(
                f"'{shortened(wrong[0])}' cannot be a host", hint="write ssh:HOST,HOST with hosts that ssh can reach"
            )
        if len(set(hosts)) < len(hosts):
            raise SpecError(
                "a host is given twice",
                hint="give each host once; 'workers' in [cluster.ssh] sets the number of workers on each",
            )
        return ClusterSpec(ClusterKind.SSH, text, hosts=hosts)
    if text == ClusterKind.SLURM:
        return ClusterSpec(ClusterKind.SLURM, text)
    raise SpecError(
        f"'{shortened(text)}' is not a cluster",
        hint="write local, local:4, ssh:HOST,HOST, slurm, or a scheduler's address such as tcp://HOST:8786",
    )
