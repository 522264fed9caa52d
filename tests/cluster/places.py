"""Sweeps on the clusters of the rigs."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.slurm_rig import PARTITION, SlurmRig
from tests.cluster.ssh_rig import SshRig
from tests.kernel.sweeps import PATIENCE_SECONDS, Sweeps, sweeps_in


def on_slurm(
    folder: Path, rig: SlurmRig, *, depths: tuple[int, ...] = (1,), patience_seconds: float = PATIENCE_SECONDS
) -> Sweeps:
    """``--cluster slurm``: two jobs. Lengths as ``sweeps_in``."""
    more = {name: rig.environment[name] for name in ("SLURM_CONF", "PATH")}
    sweeps = sweeps_in(folder, depths=depths, patience_seconds=patience_seconds, more=more)
    table = f'[cluster.slurm]\npartition = "{PARTITION}"\nhost = "127.0.0.1"\nwalltime = "00:20:00"\nmemory = "1G"\n'
    return _with_table(sweeps, table)


def over_ssh(
    folder: Path,
    rig: SshRig,
    *,
    state: Path | None = None,
    depths: tuple[int, ...] = (1,),
    patience_seconds: float = PATIENCE_SECONDS,
) -> Sweeps:
    """``--cluster ssh:node1,node2``: a worker on each. ``state``: the folder of both; without, that of the client."""
    sweeps = sweeps_in(folder, depths=depths, patience_seconds=patience_seconds)
    table = f'[cluster.ssh]\nconfig = "{rig.config}"\nworkers = 1\nstate = "{state or sweeps.state}"\n'
    return _with_table(sweeps, table)


def _with_table(sweeps: Sweeps, table: str) -> Sweeps:
    sweeps.file.write_text(f"{sweeps.file.read_text()}\n{table}")
    return sweeps
