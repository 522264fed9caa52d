"""When a measurement is made again: by the time that the machine waited, by nothing else, and not for ever."""

from __future__ import annotations

import inspect

from lab.experiments.disturbed import MEASURED_AGAIN, SpareMeasurements


def test_a_disturbed_measurement_is_made_again_twice_at_most() -> None:
    spare = SpareMeasurements(planned=40)
    assert [spare.take(0.3, times) for times in range(4)] == [True] * MEASURED_AGAIN + [False, False]
    assert spare.left == 10 - MEASURED_AGAIN


def test_a_quiet_one_is_kept_and_so_is_one_of_which_nothing_is_known() -> None:
    spare = SpareMeasurements(planned=40)
    assert not spare.take(0.09, 0)
    assert not spare.take(None, 0)
    assert spare.left == 10


def test_a_computer_that_is_never_quiet_costs_a_quarter_more() -> None:
    spare = SpareMeasurements(planned=40)
    again = sum(spare.take(0.9, 0) for _ in range(40))
    assert again == 10
    assert SpareMeasurements(planned=1).left == MEASURED_AGAIN


def test_the_rule_is_not_told_what_was_measured() -> None:
    assert list(inspect.signature(SpareMeasurements.take).parameters) == ["self", "waited_fraction", "disturbed_before"]
