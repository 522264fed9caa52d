"""From what the machine tells to facts, and from facts to checks."""

from __future__ import annotations

from typing import Any

import pytest

from lab.arrays.levels import level_with_layout
from lab.errors import SpecError
from lab.faults.stage import facts_of, judge, places_of
from lab.units import KIB, MIB

RAID5 = places_of(level_with_layout("raid5", None), 4, MIB, 16 * KIB)
# A document of scenario 10, Linux 6.1.192, mdadm 4.2, shortened.
CHECKED: dict[str, Any] = {
    "verdicts": {"intact": 765, "silently corrupt": 2, "unreadable": 1},
    "at": {"silently corrupt": "4-5", "unreadable": "9"},
    "bad": [[4, "silently corrupt", ["a mixture"], [1]]],
    "bad_in_flight": 0,
    "blocks": 768,
    "state": {"array_state": "clean", "degraded": "1", "mismatch_cnt": "8", "level": "raid5", "raid_disks": "5 (4)"},
    "members": {
        "1": {"slot": "1", "state": "in_sync,write_error", "errors": "0", "bad_blocks": "2", "recovery_start": "none"}
    },
    "events": {"0": 17},
    "seconds": 0.5,
    "reads_2": 40,
}


def check(name: str, wanted: object, evidence: dict[str, Any] = CHECKED, **kept: dict[str, Any]) -> bool:
    return judge(name, wanted, facts_of(evidence, {}), kept, RAID5).is_met


@pytest.mark.parametrize(
    ("name", "wanted", "is_met"),
    [
        ("data", "corrupt and unreadable", True),
        ("data", "intact", False),
        ("corrupt", 2, True),
        ("intact", "> 700", True),
        ("intact", "= blocks", False),
        ("lost", 0, True),
        ("corrupt_at", "= blocks 4-5", True),
        ("corrupt_at", "= blocks 4", False),
        ("corrupt_at", "in slots 1", True),
        ("corrupt_at", "in slots 2", False),
        ("unreadable_at", "= row of 9", False),
        ("unreadable_at", "in row of 5", True),
        ("bad_at", "in stripes 0", True),
        ("array_state", ["active", "clean"], True),
        ("array_state", ["active", "broken"], False),
        ("degraded", 1, True),
        ("degraded", "1", True),
        ("raid_disks", "5", False),
        ("raid_disks", "~ (4)", True),
        ("raid_disks", "!~ (4)", False),
        ("member_1", "in_sync", True),
        ("member_1", "write_error", True),
        ("member_1", "sync", False),
        ("member_3", "gone", True),
        ("bad_blocks_1", "> 1", True),
        ("events_0", ">= 17", True),
        ("reads_2", 40, True),
        ("seconds", "< 0.5 * slow.seconds", True),
        ("seconds", "> 0.5 * slow.seconds", False),
        ("intact", "= 382.5 * corrupt", True),
        ("mismatch_cnt", "!= 8", False),
        ("complaints", 0, False),
    ],
)
def test_a_fact_is_compared(name: str, wanted: object, is_met: bool) -> None:
    assert check(name, wanted, slow={"seconds": 2.0}) is is_met


def test_what_was_not_told_is_never_as_wanted() -> None:
    found = judge("mismatch_cnt", 0, facts_of({"seconds": 1.0}, {}), {}, RAID5)
    assert (found.is_met, found.found) == (False, "nothing")
    assert not check("member_1", "gone", {"seconds": 1.0})


def test_an_array_that_is_not_there_is_gone() -> None:
    assert check("array_state", "gone", {"state": {}})


def test_an_expectation_that_compares_with_nothing_says_so() -> None:
    with pytest.raises(SpecError, match=r"there is no number 'slow\.seconds'"):
        check("seconds", "< slow.seconds")
    with pytest.raises(SpecError, match="compares no blocks"):
        check("corrupt_at", "blocks 4")
    with pytest.raises(SpecError, match="names no blocks"):
        check("corrupt_at", "= members 4")


def test_a_check_says_what_was_wanted_with_the_number_that_a_name_stands_for() -> None:
    found = judge("seconds", "< 0.5 * slow.seconds", facts_of(CHECKED, {}), {"slow": {"seconds": 2.0}}, RAID5)
    assert (found.wanted, found.found) == ("< 0.5 * slow.seconds (1)", "0.5")
