"""Which clock fio is told to go by."""

from __future__ import annotations

import dataclasses

import pytest

from lab.arrays.filesystem import FileSystem
from lab.measure.job import LoadTarget
from lab.units import MIB
from lab.workloads.fio_job import fio_invocations
from lab.workloads.workload import find_workload
from tests.unit.fakes import FACTS, FakeMachine


@pytest.mark.parametrize("is_virtual", [True, False])
def test_fio_goes_by_the_clock_of_the_machine(is_virtual: bool) -> None:
    """In virtual time the processor's own counter runs on while the machine's clock leaps: a run would not end."""
    machine = FakeMachine(facts=dataclasses.replace(FACTS, is_virtual_time=is_virtual))
    bare = LoadTarget(None, "/dev/nbd0", ("nbd0",), FileSystem.RAW, 64 * MIB)
    (invocation,) = fio_invocations(find_workload("rand-read-4k"), bare.job_target(machine))
    assert ("clocksource=clock_gettime" in invocation.job_text) is is_virtual
