"""Where a sweep's cells are measured: ``--cluster`` as it is typed, and what the sweep's file says of clusters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

from lab.errors import SpecError
from lab.gates.numbers import whole
from lab.gates.text import shortened
from lab.results.record import Word


class SlurmTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How ``--cluster slurm`` asks for workers: sbatch(1)."""

    partition: Word = ""
    """Empty: the cluster's default."""
    walltime: Annotated[str, msgspec.Meta(pattern=r"^([0-9]+-)?[0-9]{1,3}(:[0-9]{2}){1,2}$")] = "01:00:00"
    """Of each job. When it is over the worker's cell goes to another."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 2
    """Jobs, of one processor each."""
    memory: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+[KMG]$")] = "2G"
    """Of each job."""
    account: Word = ""
    host: Word = ""
    """Name or address by which the nodes reach this computer; empty: its host name."""
    python: Word = ""
    """The interpreter that has raidlab on the nodes; empty: the one that runs here, by its path."""
    directives: tuple[Word, ...] = ()
    """Further lines of the job's head, such as ``--constraint=ssd``."""


class SshTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How ``--cluster ssh:HOST,HOST`` starts workers."""

    python: Word = ""
    """As for Slurm."""
    workers: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    """On each host; 0: one a processor."""
    state: Word = ""
    """The state folder there (RAIDLAB_STATE); empty: that user's own."""
    config: Word = ""
    """Another file than ~/.ssh/config: ssh_config(5)."""


class ClusterTables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kind of cluster -> its table."""

    slurm: SlurmTable = SlurmTable()
    ssh: SshTable = SshTable()


MOST_WORKERS = 1024
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:\[\]-]*")
_ADDRESS = re.compile(r"(tcp|tls)://[A-Za-z0-9_.\[\]:-]+:[0-9]{1,5}")


class ClusterKind(StrEnum):
    """What kinds of cluster there are."""

    LOCAL = "local"
    """Processes of this computer."""
    SSH = "ssh"
    """Processes of other computers, each started through ssh, which carries their traffic too."""
    SLURM = "slurm"
    """Jobs of a Slurm cluster."""
    ADDRESS = "address"
    """Whatever workers a running scheduler has."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster as it was asked for."""

    kind: ClusterKind
    workers: int = 0
    """Of ``local``; 0: one a processor."""
    hosts: tuple[str, ...] = ()
    """Of ``ssh``."""
    address: str = ""
    text: str = "local"

    def __str__(self) -> str:
        return self.text


def parse_cluster(text: str) -> ClusterSpec:
    """Read ``local``, ``local:4``, ``ssh:HOST,HOST``, ``slurm`` or ``tcp://HOST:PORT``. Raises SpecError."""
    word, _, rest = text.strip().partition(":")
    if _ADDRESS.fullmatch(text.strip()) and int(text.strip().rpartition(":")[2]) in range(1, 65_536):
        return ClusterSpec(ClusterKind.ADDRESS, address=text.strip(), text=text.strip())
    if word == ClusterKind.LOCAL:
        workers = whole(rest, "workers of --cluster local:") if rest else 0
        if rest and not 1 <= workers <= MOST_WORKERS:
            raise SpecError(f"{workers} workers are not possible", hint=f"take 1 to {MOST_WORKERS}")
        return ClusterSpec(ClusterKind.LOCAL, workers=workers, text=text.strip())
    if word == ClusterKind.SSH and rest:
        hosts = tuple(host.strip() for host in rest.split(","))
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise SpecError(f"'{shortened(host)}' cannot be a host", hint="write ssh:HOST,HOST as ssh knows them")
        if len(set(hosts)) < len(hosts):
            raise SpecError("a host is named twice", hint="[cluster.ssh] workers says how many each has")
        return ClusterSpec(ClusterKind.SSH, hosts=hosts, text=text.strip())
    if text.strip() == ClusterKind.SLURM:
        return ClusterSpec(ClusterKind.SLURM, text=text.strip())
    raise SpecError(
        f"'{shortened(text)}' is no cluster",
        hint="write local, local:4, ssh:HOST,HOST, slurm, or a scheduler's address such as tcp://HOST:8786",
    )
