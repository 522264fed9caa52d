"""The Fleet screen: settings changed by keys, figures from a thread, no difference claimed where intervals overlap."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from lab.fleet.run import what_if
from lab.theory.extension import Interval, LossFigures
from tests.tui.conftest import Start
from tests.tui.results import result
from tests.tui.user import PATIENCE_SECONDS, User
from tests.unit.results.records import rebuild
from tui.fleet_screen import (
    LEVELS,
    MEMBERS,
    SCRUBS,
    FleetChoice,
    FleetScreen,
    change_text,
    comparison,
    figure_lines,
    loss_rows,
    members_of,
    mttdl_text,
    simulate,
)
from tui.look import Tone

pytestmark = pytest.mark.app(mode="fleet", is_still=True)
NEVER, WEEKS = FleetChoice(scrub_hours=None), FleetChoice(scrub_hours=336.0)


def figures(losses: float, half: float = 0.1, **changes: object) -> LossFigures:
    """Figures with this many losses of an array per year, in an interval of plus or minus ``half`` of them."""
    interval = Interval(losses, losses * (1 - half), losses * (1 + half))
    values: dict[str, object] = {
        "trials": 1000,
        "array_years": 5000.0,
        "failures_per_array_year": 0.1,
        **dict.fromkeys(("losses_per_array_year", "loss_chance_per_array_year", "fleet_loss_chance"), interval),
        **dict.fromkeys(("nines_per_array_year", "nines_per_fleet_year"), Interval(3.0, 2.9, 3.1)),
        **dict.fromkeys(("lost_bytes_per_pb_year", "nomdl_bytes_per_tb"), Interval(5000.0, 4000.0, 6000.0)),
        "cause_losses": {"failures": 0.25, "sectors": 0.75, "people": 0.0},
        "cause_bytes": {},
        "mttdl_years": 16_234.0,
        "losses_to_mttdl": 5.6,
        "is_biased": False,
        "weight_mean": 1.0,
        "weight_error": 0.0,
    }
    return LossFigures(**(values | changes))  # type: ignore[arg-type]


async def all_known(user: User) -> FleetScreen:
    """Wait for all figures that the screen needs."""
    screen = user.at(FleetScreen)
    await user.until(lambda: screen._known.keys() >= {*screen.choice.with_each_scrub_interval()}, "all is simulated")
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_scrub_interval_can_be_changed_and_its_effect_is_shown(user: User, size: tuple[int, int]) -> None:
    screen = user.at(FleetScreen)
    await user.press(*["minus"] * 9, "z")
    assert screen.choice == FleetChoice()
    await user.press(*["minus"] * 9)
    assert screen.choice == NEVER
    # Change another setting and back: the comparison now starts from this interval.
    await user.press("down", "right", "left", *["plus"] * 5)
    assert screen.choice == WEEKS
    await all_known(user)
    real = what_if(
        arrays=4, level="raid5", members=6, disk_tb=16.0, afr_percent=1.57, rebuild_hours=48.0,
        scrub_interval_hours=336.0, years=5.0,
    )  # fmt: skip
    user.sees(
        "Scrubbing every 2 weeks instead of never: 60 times fewer losses (57 to 63).",
        "4 × RAID 5 of 6 × 16 TB, 5 years, scrubbed every 2 weeks",
        "▸ 2 weeks",
        f"any loss, 5 years {100 * real.fleet_loss_chance.value:.3g} %",
    )
    user.sees("MTTDL", "16,200 years: (553,949 h)² ÷ (6 × 5 × 72 h)", "Simulated: ", "Replaced", "after 24 h")
    is_high = size[1] > 30
    sentence = "A failed drive is replaced after 24 h, rebuilt in 48 h; nobody errs."
    assert (sentence in user.halves[1]) == is_high


async def test_later_changes_win_and_the_loop_is_not_held_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[FleetChoice] = []
    threads: set[str] = set()
    may_go_on = threading.Event()

    def simulated(choice: FleetChoice) -> LossFigures:
        asked.append(choice)
        threads.add(threading.current_thread().name)
        may_go_on.wait(PATIENCE_SECONDS)
        return figures(0.01)

    monkeypatch.setattr("tui.fleet_screen.simulate", simulated)
    async with start() as user:
        await user.until(lambda: bool(asked), "the first is simulated")
        # All of this happens while the first choice is still being simulated.
        await user.press(*["right"] * 4)
        assert user.at(FleetScreen).choice.arrays == 400
        assert len(asked) == 1
        may_go_on.set()
        screen = await all_known(user)
        assert asked[1] == screen.choice, "before the rest of the chart of the one before"
        assert {each.arrays for each in asked} == {4, 400}, "what was passed by is not simulated"
        user.sees("400 × RAID 5")
    assert threads == {"fleet"}


async def test_figures_stay_under_their_own_words_until_new_ones_come(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    may_go_on.set()

    def simulated(choice: FleetChoice) -> LossFigures:
        may_go_on.wait(PATIENCE_SECONDS)
        return figures(0.01 * choice.members)

    monkeypatch.setattr("tui.fleet_screen.simulate", simulated)
    async with start() as user:
        await all_known(user)
        may_go_on.clear()
        await user.press("down", "down", "right")
        user.sees("RAID 5 of 6 × 16 TB", "any loss, 5 years 6 %")
        may_go_on.set()
        await all_known(user)
        user.sees("RAID 5 of 8 × 16 TB", "any loss, 5 years 8 %", "8 members instead of 6: 33 % more losses")


async def test_an_error_is_shown_and_the_other_knobs_still_turn(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.fleet_screen.extension", lambda _kind: None)
    monkeypatch.setattr(
        "tui.fleet_screen.simulate", lambda choice: simulate(choice) if choice.level == "raid6" else figures(0.01)
    )
    async with start() as user:
        await all_known(user)
        await user.press("down", "right")
        await all_known(user)
        user.sees("ERROR", "the plugin that simulates fleets is missing. install the complete raidlab package.")
        await user.press("left")
        assert "ERROR" not in user.text


# 100 MB per second: 160,000 s for 16 TB.
@pytest.mark.stored(result(1, rebuilds=(rebuild("raid5", 0, 2.0, 200_000_000),)))
@pytest.mark.usefixtures("store")
async def test_a_rebuild_as_it_was_measured_here(user: User) -> None:
    screen = user.at(FleetScreen)
    await user.until(lambda: bool(screen.rates), "the store was looked at")
    await user.press(*["down"] * 6, "right")
    choice = screen.choice
    assert choice.measured
    assert choice.measured.label == "raid5, try"
    assert choice.rebuild_hours == pytest.approx(160_000 / 3600)
    assert replace(choice, disk_tb=8.0).rebuild_hours == pytest.approx(80_000 / 3600)
    await all_known(user)
    user.sees("44 h")


def test_figures_that_overlap_are_not_called_different() -> None:
    output = comparison("scrub_hours", (NEVER, figures(0.010, 0.2)), (WEEKS, figures(0.008, 0.2)))
    assert output == "Scrubbing every 2 weeks instead of never: no difference beyond the intervals."
    rows = loss_rows(WEEKS, [(NEVER, figures(0.010, 0.2)), (WEEKS, figures(0.008, 0.2))])
    assert {row.tone for row in rows} == {Tone.QUIET}
    rows = loss_rows(WEEKS, [(NEVER, figures(0.02)), (WEEKS, figures(0.01)), (replace(WEEKS, scrub_hours=72.0), None)])
    assert [(row.label, row.tone, row.is_current, row.text) for row in rows if row.value] == [
        ("never", Tone.BAD, False, "0.4"),
        ("2 weeks", Tone.QUIET, True, "0.2"),
    ]
    assert (rows[-1].label, rows[-1].tone, rows[-1].text) == ("3 days", Tone.QUIET, "…")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (0.4, 0.01, "40 times fewer losses (33 to 49)"),
        (0.01, 0.4, "40 times as many losses (33 to 49)"),
        (0.01, 0.0, "fewer losses: none seen now"),
        (0.010, 0.007, "30 % fewer losses (14 to 43)"),
        (0.010, 0.015, "50 % more losses (23 to 83)"),
    ],
)
def test_wording_of_differences(before: float, after: float, message: str) -> None:
    assert comparison("scrub_hours", (NEVER, figures(before)), (WEEKS, figures(after))).endswith(f": {message}.")


def test_more_of_the_same_arrays_are_no_matter_of_chance() -> None:
    found = figures(0.01, 0.3)
    one, more = (FleetChoice(), found), (FleetChoice(arrays=5), found)
    assert comparison("arrays", one, more) == "5 arrays instead of 4: 25 % more losses."


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_has_only_arrays_that_can_be(level: str) -> None:
    assert set(members_of(level)) <= set(MEMBERS)
    for members in members_of(level):
        what_if(
            arrays=1, level=level, members=members, disk_tb=1.0, afr_percent=2.0, rebuild_hours=6.0,
            scrub_interval_hours=168.0, years=1.0,
        )  # fmt: skip


def test_every_step_of_every_knob_leads_to_a_choice_and_has_words() -> None:
    choice = FleetChoice()
    for row in choice.rows(()):
        for value in row.values:
            after = choice.changed(row.key, value)
            assert next(each for each in after.rows(()) if each.key == row.key).current == value
            assert after == choice or change_text(row.key, choice, after)


def test_the_nearest_intervals_come_first() -> None:
    order = [each.scrub_hours for each in WEEKS.with_each_scrub_interval()]
    assert (order[0], set(order[1:3])) == (WEEKS.scrub_hours, {730.5, 168.0})
    assert set(order) == set(SCRUBS)


def test_zero_losses_are_shown_as_a_bound() -> None:
    none = Interval(0.0, 0.0, 2.5e-4)
    found = figures(
        0.01,
        losses_per_array_year=none,
        loss_chance_per_array_year=none,
        fleet_loss_chance=none,
        nines_per_array_year=Interval(3.6, 3.6, 300.0),
        lost_bytes_per_pb_year=Interval(0.0, 0.0, 2.0 * 1024**3),
        losses_to_mttdl=0.0,
    )
    texts = [text for _, text in figure_lines(FleetChoice(), found, 60)]
    assert texts == ["less than 0.025 %", "less than 0.025 %", "more than 3.60", "less than 2 GiB"]
    assert "no losses, fewer than 4.1 times as many" in mttdl_text(found)


def test_figures_fit_by_having_fewer_digits() -> None:
    found = figures(1.2345e-7)
    assert dict(figure_lines(WEEKS, found, 100))["any loss, 5 years"] == "1.23e-5 % [1.11e-5–1.36e-5]"
    assert dict(figure_lines(WEEKS, found, 44))["any loss, 5 years"] == "1.2e-5 % [1.1e-5–1.4e-5]"
