"""A cluster and two servers of their own for each module that asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.slurm_rig import SlurmRig, slurm_rig
from tests.cluster.ssh_rig import SshRig, ssh_rig


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmRig]:
    """Two idle nodes. A test that takes one away brings it back."""
    with slurm_rig() as rig:
        yield rig


@pytest.fixture(scope="module")
def servers() -> Iterator[SshRig]:
    """Two names for ``ssh -F``."""
    with ssh_rig() as rig:
        yield rig
