"""Fixtures: a Slurm cluster and a pair of ssh servers for each module that asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.slurm_rig import SlurmRig, slurm_rig
from tests.cluster.ssh_rig import SshRig, ssh_rig


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmRig]:
    """A cluster with two idle nodes. A test that stops a node starts it again."""
    with slurm_rig() as rig:
        yield rig


@pytest.fixture(scope="module")
def servers() -> Iterator[SshRig]:
    """Servers with two host names for ``ssh -F``."""
    with ssh_rig() as rig:
        yield rig
