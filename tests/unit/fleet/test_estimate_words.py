"""What the figures of a fleet count, and MTTDL by hand: the numbers that are printed are those of the chain."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lab.fleet.engine import counted_words, mttdl_by_hand, mttdl_years
from lab.fleet.model import fleet_spec, fleet_tree, model_of
from lab.fleet.run import what_if


def by_hand(**changes: Any) -> tuple[float, str]:
    """The years that a formula comes to, worked out from its own text, and the text."""
    found = what_if(
        arrays=1, disk_tb=1.0, afr_percent=1.57, rebuild_hours=48.0, scrub_interval_hours=None, **changes
    ).mttdl_by_hand
    words = found.partition(" = ")[0].replace(",", "").replace(" h", "").replace("²", "**2").replace("³", "**3")
    words = words.replace("÷", "/").replace("×", "*").replace("^", "**")
    assert re.fullmatch(r"[0-9.*/() ]+", words)
    return eval(words) / 8766, found


@pytest.mark.parametrize(
    ("level", "members"), [("raid0", 4), ("raid1", 2), ("raid1", 4), ("raid5", 6), ("raid6", 7), ("raid10", 8)]
)
def test_by_hand_the_number_of_the_chain_comes_out(level: str, members: int) -> None:
    found = what_if(
        arrays=1, level=level, members=members, disk_tb=1.0, afr_percent=1.57, rebuild_hours=48.0,
        scrub_interval_hours=None,
    )  # fmt: skip
    years, text = by_hand(level=level, members=members)
    rest = re.search(r"and ([0-9,]+) until", text)
    years += float(rest[1].replace(",", "")) if rest else 0
    assert years == pytest.approx(found.mttdl_years, rel=2e-3)


def test_the_time_until_a_drive_is_replaced_is_counted() -> None:
    assert by_hand(level="raid5", members=6)[0] == pytest.approx(16_206, rel=1e-3)
    assert by_hand(level="raid5", members=6, replenish_hours=0.0)[0] == pytest.approx(24_310, rel=1e-3)


def test_both_say_what_they_count() -> None:
    school = model_of(fleet_spec(fleet_tree("school"), "school"), lambda _name, _array: (), lambda _: 0.0)
    assert counted_words(school) == (
        "a failed drive is noticed after 12 h, replaced after 72 h, rebuilt in 39.2 h; "
        "a wrong drive is pulled at 1 % of the replacements"
    )
    assert f"{mttdl_years(school):,.0f}" == "9,491"
    assert mttdl_by_hand(school) == "(553,949 h)² ÷ (6 × 5 × 123.25 h) = 9,467 years, and 23 until the first failures"
    screen = what_if(
        arrays=4, level="raid5", members=6, disk_tb=16.0, afr_percent=1.57, rebuild_hours=48.0,
        scrub_interval_hours=730.5,
    )  # fmt: skip
    assert screen.counted == "a failed drive is replaced after 24 h, rebuilt in 48 h; nobody errs"
