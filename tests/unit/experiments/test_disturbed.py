"""When a measurement is made again: by the time that the machine waited, by nothing else, and not for ever."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import cast

import pytest

from lab.errors import MeasurementDisturbed
from lab.experiments import run
from lab.experiments.run import Bench, Run
from lab.experiments.schedule import MEASURED_AGAIN, SpareMeasurements, cells
from lab.host.clock import HostClock
from tests.unit.experiments.experiments import experiment


def test_a_disturbed_measurement_is_made_again_twice_at_most() -> None:
    spare = SpareMeasurements(planned=40)
    assert [spare.take(0.3, 1.0, times) for times in range(4)] == [True] * MEASURED_AGAIN + [False, False]
    assert spare.left == 10 - MEASURED_AGAIN


def test_a_quiet_one_is_kept_and_so_is_one_of_which_nothing_is_known() -> None:
    spare = SpareMeasurements(planned=40)
    assert not spare.take(0.09, 1.0, 0)
    assert not spare.take(None, 1.0, 0)
    assert spare.left == 10


def test_a_computer_that_is_never_quiet_costs_a_quarter_more() -> None:
    spare = SpareMeasurements(planned=40)
    again = sum(spare.take(0.9, 1.0, 0) for _ in range(40))
    assert again == 10
    assert SpareMeasurements(planned=1).left == MEASURED_AGAIN


def test_the_rule_is_not_told_what_was_measured() -> None:
    assert list(inspect.signature(SpareMeasurements.take).parameters) == [
        "self",
        "waited_fraction",
        "share_measured",
        "disturbed_before",
    ]


def test_a_measurement_that_was_held_up_is_made_again() -> None:
    assert SpareMeasurements(planned=40).take(0.0, 0.5, 0)
    assert not SpareMeasurements(planned=40).take(0.0, 0.95, 0)


def test_a_resumed_run_has_what_its_first_part_left() -> None:
    assert SpareMeasurements(planned=40, used=9).left == 1
    assert SpareMeasurements(planned=4, used=3).left == 0


def test_one_of_which_nothing_is_known_is_made_again_and_then_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def hang(*_: object, **__: object) -> None:
        tries.append(1)
        raise MeasurementDisturbed("fio reported nothing")

    monkeypatch.setattr(run, "run_workload", hang)
    monkeypatch.setattr(run, "make_cold", lambda *_: ())
    built = SimpleNamespace(target=SimpleNamespace(file_system=None, device=""), disks=(), parity_arrays=())
    monkeypatch.setattr(Bench, "array", lambda *_: built)
    planned = experiment()
    journal = SimpleNamespace(record=SimpleNamespace(cells=(), arrays=()))
    progress = SimpleNamespace(doing=lambda *_: None, on_sample=None, is_cancelled=None)
    lab = SimpleNamespace(host=SimpleNamespace(clock=HostClock()))
    this_run = SimpleNamespace(lab=lab, experiment=planned, journal=journal, progress=progress)
    with pytest.raises(MeasurementDisturbed, match="reported nothing"):
        run.ExperimentRunner(cast("Run", this_run))._measure_cell(cells(planned)[0])
    assert len(tries) == MEASURED_AGAIN + 1
