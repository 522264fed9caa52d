"""The times of a drill: before now, in the order of its setup, and the same for one word on one day."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab.drills.desk import moment_of
from lab.drills.schema import catalogue, read_drill
from lab.errors import SpecError

DAYS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, hours=day % 24, minutes=7) for day in range(0, 366, 3)]


@pytest.mark.parametrize("path", catalogue().values(), ids=catalogue())
def test_a_drill_goes_forward_in_time_on_each_day_of_the_year(path: Path) -> None:
    whens = [step.when for step in read_drill(path).setup if step.when]
    assert whens, "its superblocks would all be of today"
    for now, seed in itertools.product(DAYS, ("", "ana", "ben")):
        moments = [moment_of(when, now, f"{path.stem}/{seed}") for when in whens]
        assert moments == sorted(moments), (now, whens)
        assert moments[-1] < now
        # The first and the last are so far apart that a date tells them apart.
        assert moments[-1] - moments[0] > timedelta(days=30)


def test_a_season_is_over_and_less_than_two_years_ago() -> None:
    for now in DAYS:
        for when in ("spring", "summer"):
            assert timedelta(days=59) < now - moment_of(when, now, "x") < timedelta(days=500)


def test_a_word_means_one_moment_and_another_word_another() -> None:
    now = DAYS[5]
    assert moment_of("spring", now, "ana") == moment_of("spring", now, "ana")
    assert moment_of("spring", now, "ana") != moment_of("spring", now, "ben")


@pytest.mark.parametrize("when", ["soon", "0 days ago", "1000 days ago", "in spring", "3 days ago;reboot"])
def test_what_is_no_time_is_refused_with_what_is(when: str) -> None:
    with pytest.raises(SpecError) as caught:
        moment_of(when, DAYS[0], "x")
    assert "2 weeks ago" in caught.value.hint
