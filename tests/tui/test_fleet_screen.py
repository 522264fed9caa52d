"""The Fleet screen: knobs by keys, figures from a thread, nothing called different that intervals do not tell apart."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from lab.fleet.run import what_if
from lab.results.store import ResultStore
from lab.theory.extension import Interval, LossFigures
from tests.tui.conftest import reached, until
from tests.tui.results import keep, result
from tests.tui.still import quiet, run_app, still_app, text_of
from tests.unit.results.records import rebuild
from tui.app import RaidlabApp
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

pytestmark = pytest.mark.tui
NEVER, WEEKS = FleetChoice(scrub_hours=None), FleetChoice(scrub_hours=336.0)


def figures(losses: float, half: float = 0.1, **changes: object) -> LossFigures:
    """So many losses of an array in a year, give or take a part of them."""
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


def screen_of(app: RaidlabApp) -> FleetScreen:
    assert isinstance(app.screen, FleetScreen)
    return app.screen


async def all_known(app: RaidlabApp, pilot: Pilot[object]) -> None:
    """Wait for every figure that the screen asks for."""
    screen = screen_of(app)
    await until(pilot, lambda: screen.has_computed(screen.choice.with_each_scrub_interval()), "all is simulated")
    await quiet(app, pilot)


def flat(app: RaidlabApp, half: int = -1) -> str:
    """The right half of the screen as one line, or the left one (0)."""
    lines = [line.split("││", 1)[half] for line in text_of(app).splitlines()]
    return " ".join(" ".join(lines).replace("│", " ").split())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_scrub_interval_is_changed_and_what_it_does_is_said(tmp_path: Path, size: tuple[int, int]) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press(*["minus"] * 9, "z")
        assert screen_of(app).choice == FleetChoice()
        await pilot.press(*["minus"] * 9)
        assert screen_of(app).choice == NEVER
        # Another knob, and back: what is compared with begins where this one is turned.
        await pilot.press("down", "right", "left", *["plus"] * 5)
        assert screen_of(app).choice == WEEKS
        await all_known(app, pilot)
        text = flat(app)
        assert "Scrubbing every 2 weeks instead of never: 60 times fewer losses (57 to 63)." in text
        assert "4 × RAID 5 of 6 × 16 TB, 5 years, scrubbed every 2 weeks" in text
        assert "▸ 2 weeks" in text
        real = what_if(
            arrays=4, level="raid5", members=6, disk_tb=16.0, afr_percent=1.57, rebuild_hours=48.0,
            scrub_interval_hours=336.0, years=5.0,
        )  # fmt: skip
        assert f"any loss, 5 years {100 * real.fleet_loss_chance.value:.3g} %" in text
        left = " ".join(
            " ".join(line.split("││", 1)[0] for line in text_of(app).splitlines()).replace("│", " ").split()
        )
        for part in ("MTTDL", "16,200 years: (553,949 h)² ÷ (6 × 5 × 72 h)", "Simulated: ", "Replaced", "after 24 h"):
            assert part in left
        is_high = size[1] > 30
        assert ("A failed drive is replaced after 24 h, rebuilt in 48 h; nobody errs." in text) == is_high

    run_app(still_app(tmp_path, "fleet"), act, size)


def test_later_changes_win_and_the_loop_is_not_held_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[FleetChoice] = []
    threads: set[str] = set()
    may_go_on = threading.Event()

    def simulated(choice: FleetChoice) -> LossFigures:
        asked.append(choice)
        threads.add(threading.current_thread().name)
        may_go_on.wait(10)
        return figures(0.01)

    monkeypatch.setattr("tui.fleet_screen.simulate", simulated)

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await reached(lambda: bool(asked), "the first is simulated")
        # All of this happens while the first one is still simulated.
        await pilot.press(*["right"] * 4)
        assert screen_of(app).choice.arrays == 400
        assert len(asked) == 1
        may_go_on.set()
        await all_known(app, pilot)
        assert asked[1] == screen_of(app).choice, "before the rest of the chart of the one before"
        assert {each.arrays for each in asked} == {4, 400}, "what was passed by is not simulated"
        assert "400 × RAID 5" in text_of(app)

    run_app(still_app(tmp_path, "fleet"), act)
    assert threads == {"fleet"}


def test_figures_stay_under_the_words_that_they_are_of_until_others_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    may_go_on.set()

    def simulated(choice: FleetChoice) -> LossFigures:
        may_go_on.wait(10)
        return figures(0.01 * choice.members)

    monkeypatch.setattr("tui.fleet_screen.simulate", simulated)

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await all_known(app, pilot)
        may_go_on.clear()
        await pilot.press("down", "down", "right")
        await quiet(app, pilot)
        assert "RAID 5 of 6 × 16 TB" in flat(app)
        assert "any loss, 5 years 6 %" in flat(app)
        may_go_on.set()
        await all_known(app, pilot)
        assert "RAID 5 of 8 × 16 TB" in flat(app)
        assert "any loss, 5 years 8 %" in flat(app)
        assert "8 members instead of 6: 33 % more losses" in flat(app)

    run_app(still_app(tmp_path, "fleet"), act)


def test_an_error_is_shown_and_the_other_knobs_still_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.plugins.extension", lambda _kind: None)

    def simulated(choice: FleetChoice) -> LossFigures:
        if choice.level == "raid6":
            return simulate(choice)
        return figures(0.01)

    monkeypatch.setattr("tui.fleet_screen.simulate", simulated)

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await all_known(app, pilot)
        await pilot.press("down", "right")
        await all_known(app, pilot)
        assert "ERROR" in flat(app)
        assert "the plugin that simulates fleets is missing. install the complete raidlab package." in flat(app)
        await pilot.press("left")
        await quiet(app, pilot)
        assert "ERROR" not in flat(app)

    run_app(still_app(tmp_path, "fleet"), act)


def test_a_rebuild_as_it_was_measured_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    store = ResultStore(tmp_path / "state" / "results")
    # 100 MB a second: 16 TB in 160,000 s.
    keep(store, result(1, rebuilds=(rebuild("raid5", 0, 2.0, 200_000_000),)))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await until(pilot, lambda: bool(screen_of(app).rates), "the store was looked at")
        await quiet(app, pilot)
        await pilot.press(*["down"] * 6, "right")
        choice = screen_of(app).choice
        assert choice.measured
        assert choice.measured.label == "raid5, try"
        assert choice.rebuild_hours == pytest.approx(160_000 / 3600)
        assert replace(choice, disk_tb=8.0).rebuild_hours == pytest.approx(80_000 / 3600)
        await all_known(app, pilot)
        assert "44 h" in text_of(app)

    run_app(still_app(tmp_path, "fleet"), act)


def test_figures_that_overlap_are_not_called_different() -> None:
    said = comparison("scrub_hours", (NEVER, figures(0.010, 0.2)), (WEEKS, figures(0.008, 0.2)))
    assert said == "Scrubbing every 2 weeks instead of never: no difference beyond the intervals."
    rows = loss_rows(WEEKS, [(NEVER, figures(0.010, 0.2)), (WEEKS, figures(0.008, 0.2))])
    assert {row.tone for row in rows} == {Tone.QUIET}
    rows = loss_rows(WEEKS, [(NEVER, figures(0.02)), (WEEKS, figures(0.01)), (replace(WEEKS, scrub_hours=72.0), None)])
    assert [(row.label, row.tone, row.is_current, row.text) for row in rows if row.value] == [
        ("never", Tone.BAD, False, "0.4"),
        ("2 weeks", Tone.QUIET, True, "0.2"),
    ]
    assert (rows[-1].label, rows[-1].tone, rows[-1].text) == ("3 days", Tone.QUIET, "…")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (0.4, 0.01, "40 times fewer losses (33 to 49)"),
        (0.01, 0.4, "40 times as many losses (33 to 49)"),
        (0.01, 0.0, "fewer losses: none seen now"),
        (0.010, 0.007, "30 % fewer losses (14 to 43)"),
        (0.010, 0.015, "50 % more losses (23 to 83)"),
    ],
)
def test_how_a_difference_is_told(before: float, after: float, said: str) -> None:
    assert comparison("scrub_hours", (NEVER, figures(before)), (WEEKS, figures(after))).endswith(f": {said}.")


def test_more_of_the_same_arrays_are_no_matter_of_chance() -> None:
    found = figures(0.01, 0.3)
    one, more = (FleetChoice(), found), (FleetChoice(arrays=5), found)
    assert comparison("arrays", one, more) == "5 arrays instead of 4: 25 % more losses."


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_has_only_arrays_that_can_be(level: str) -> None:
    for members in members_of(level):
        assert members in MEMBERS
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
    assert order[0] == WEEKS.scrub_hours
    assert set(order) == set(SCRUBS)
    assert set(order[1:3]) == {730.5, 168.0}


def test_none_seen_is_told_as_a_bound() -> None:
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
