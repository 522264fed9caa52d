from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from lab.experiments.schedule import RunProgress
from lab.results.record import RunStatus
from lab.results.store import RECORD_NAME, ResultStore, decode_record
from tests.tui.results import STEADY, keep, result
from tests.tui.still import quiet, run_app, still_app, text_of
from tests.unit.lint.test_theory_checks import FILES, cpu
from tests.unit.results.records import CONDITIONS, array, rebuild
from tui.app import RaidlabApp
from tui.dialogs import MenuScreen
from tui.results_screen import ResultsScreen
from tui.runs import ExperimentView

pytestmark = pytest.mark.tui


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return ResultStore(tmp_path / "state" / "results")


async def see(app: RaidlabApp, pilot: Pilot[object], words: str) -> None:
    """Wait for words that a thread brings."""
    deadline = time.monotonic() + 30
    while words not in text_of(app):
        assert time.monotonic() < deadline, f"never: {words}\n{text_of(app)}"
        await asyncio.sleep(0.02)
        await quiet(app, pilot)


def show(tmp_path: Path, act: Callable[[RaidlabApp, Pilot[object]], Any], size: tuple[int, int] = (120, 40)) -> None:
    run_app(still_app(tmp_path, "results"), act, size)


def test_without_results_it_says_how_to_get_one(tmp_path: Path, store: ResultStore) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        text = text_of(app)
        assert "No results yet." in text
        assert "Press 3" in text
        assert app.screen.check_action("delete", ()) is None

    show(tmp_path, act)


def test_the_newest_comes_first_as_bars_with_interval_and_theory(tmp_path: Path, store: ResultStore) -> None:
    keep(store, result(1), result(2, [50.0, 200.0, 100.0, 90.0, 110.0, 150.0]))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        text = text_of(app)
        assert "2 stored" in text
        assert "20261121T100200Z-try" in text
        assert "rand-read-4k, IOPS" in text
        assert "105 [50–200]" in text
        assert "▒" in text.split("rand-read-4k, IOPS")[1].splitlines()[1]
        assert "◆" in text.split("rand-read-4k, IOPS")[1].splitlines()[1]

    show(tmp_path, act)


def test_views_show_tables_then_conditions_with_commands_then_what_the_lint_says(
    tmp_path: Path, store: ResultStore
) -> None:
    built = msgspec.structs.replace(array("raid5", "raid5", 3), commands=("mdadm --create /dev/md0",))
    made = result(
        1, stamps=("simulated-origin: measured on an embedded kernel",), rebuilds=(rebuild("raid5", 0, 12.5),)
    )
    keep(store, msgspec.structs.replace(made, arrays=(built,)))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert "1 cautions" not in text_of(app)
        assert "1 caution: see Lint" in text_of(app)
        await pilot.press("v")
        await quiet(app, pilot)
        assert "Figures of try" in text_of(app)
        assert "Rebuilds" in text_of(app)
        await pilot.press("v")
        await quiet(app, pilot)
        text = text_of(app)
        for words in ("6.1.0", "mdadm 4.2", "4 × physical", "mdadm --create /dev/md0"):
            assert words in text
        await pilot.press("v")
        await quiet(app, pilot)
        text = text_of(app)
        for words in (
            "simulated-origin: the figures come from a simulator",
            "measured on an embedded kernel",
            "Remedy:",
        ):
            assert words in text
        await pilot.press("v")
        await quiet(app, pilot)
        assert "rand-read-4k, IOPS" in text_of(app)

    show(tmp_path, act)


@pytest.mark.parametrize(
    ("factor", "words"), [(2.0, "FASTER"), (0.5, "SLOWER"), (1.0, "THE SAME"), (1.046, "UNDECIDED")]
)
def test_two_results_side_by_side_end_in_a_verdict(
    tmp_path: Path, store: ResultStore, factor: float, words: str
) -> None:
    second = [value * factor for value in STEADY]
    keep(store, result(1, second), result(2))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press("m", "down")
        await see(app, pilot, words)
        text = text_of(app)
        assert "first   20261121T100200Z-try (marked)" in text
        assert f"{factor:.2f} ×" in text
        await pilot.press("m", "m")
        await quiet(app, pilot)
        assert "Compare" not in text_of(app)

    show(tmp_path, act)


def test_unlike_results_are_compared_only_when_asked_for(tmp_path: Path, store: ResultStore) -> None:
    other = msgspec.structs.replace(CONDITIONS, kernel_release="6.12.0")
    keep(store, result(1, [value * 2 for value in STEADY], conditions=other), result(2))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press("m", "down")
        await quiet(app, pilot)
        assert "NOT COMPARABLE" in text_of(app)
        assert "kernel: '6.1.0' and '6.12.0'" in text_of(app)
        assert "2.00 ×" not in text_of(app)
        await pilot.press("a")
        await see(app, pilot, "2.00 ×")
        assert "kernel: '6.1.0' and '6.12.0'" in text_of(app)

    show(tmp_path, act)


def test_exports_are_what_the_command_line_writes(tmp_path: Path, store: ResultStore) -> None:
    from lab.report.collected import collect, each_result
    from lab.report.page.build import html_report
    from lab.report.tables import csv_of, render_result
    from lab.results.store import import_results

    made = result(1)
    keep(store, made)

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        for key in "zhcmj":
            await pilot.press("e")
            await quiet(app, pilot)
            assert isinstance(app.screen, MenuScreen)
            await pilot.press(key)
            await quiet(app, pilot)

    show(tmp_path, act)
    assert (tmp_path / f"{made.id}.csv").read_text() == csv_of(made).rstrip() + "\n"
    assert (tmp_path / f"{made.id}.md").read_text() == render_result(made, is_markdown=True) + "\n"
    assert (tmp_path / f"{made.id}.html").read_text() == html_report(collect(each_result([made.id], store)))
    assert decode_record((tmp_path / f"{made.id}.json").read_bytes(), source="the export") == made
    elsewhere = ResultStore(tmp_path / "elsewhere")
    elsewhere.root.mkdir()
    assert import_results(elsewhere, tmp_path / f"{made.id}.zip") == ((made.id,), ())


def test_deleting_asks_first(tmp_path: Path, store: ResultStore) -> None:
    keep(store, result(1), result(2))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press("delete", "enter")  # Keep it
        await quiet(app, pilot)
        assert len(store.list()) == 2
        await pilot.press("delete")
        await quiet(app, pilot)
        assert "cannot be undone" in text_of(app)
        await pilot.press("d")
        await quiet(app, pilot)
        assert [each.id for each in store.list()] == ["20261121T100100Z-try"]
        assert app.screen.query_one(OptionList).option_count == 1

    show(tmp_path, act)


def test_a_damaged_result_is_named_and_does_not_hide_the_others(tmp_path: Path, store: ResultStore) -> None:
    keep(store, result(1), result(2))
    (store.root / "20261121T100200Z-try" / RECORD_NAME).write_text("{")

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        found = app.screen.query_one(OptionList)
        found.highlighted = found.get_option_index("20261121T100200Z-try")
        await quiet(app, pilot)
        assert "UNREADABLE" in text_of(app)
        assert app.screen.check_action("export", ()) is None
        assert app.screen.check_action("delete", ()) is True
        found.highlighted = found.get_option_index("20261121T100100Z-try")
        await quiet(app, pilot)
        assert "rand-read-4k, IOPS" in text_of(app)

    show(tmp_path, act)


def test_a_result_that_measured_the_processor_says_so_before_its_figures(tmp_path: Path, store: ResultStore) -> None:
    made = result(1, conditions=FILES)
    cells = tuple(msgspec.structs.replace(each, cpu=cpu(9_500.0), predicted_iops=None) for each in made.cells)
    keep(store, msgspec.structs.replace(made, cells=cells))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        for _ in range(2):
            text = " ".join(text_of(app).split())
            assert text.index("PROCESSOR-BOUND") < text.index("100 [99–")
            assert "95%" in text
            await pilot.press("v")
            await quiet(app, pilot)

    show(tmp_path, act)


def test_a_figure_off_theory_is_marked_and_explained(tmp_path: Path, store: ResultStore) -> None:
    keep(store, result(1, iops=(90.0, 91.0, 92.0)))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert "91 [90–92] off-theory" in text_of(app)
        assert "off-theory: raid5/rand-read-4k/healthy: 0.87" in text_of(app)

    show(tmp_path, act)


def test_one_that_broke_off_can_be_resumed(tmp_path: Path, store: ResultStore) -> None:
    keep(
        store,
        result(
            1, status=RunStatus.INCOMPLETE, planned_cells=tuple(f"raid5/rand-read-4k/healthy/{n}" for n in range(10))
        ),
    )

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert "6 of 10" in text_of(app)
        assert "This result is incomplete: r resumes the experiment." in text_of(app)
        assert app.screen.check_action("resume", ()) is True

    show(tmp_path, act)


def test_a_running_experiment_shows_here_too_and_its_result_appears_by_itself(
    tmp_path: Path, store: ResultStore
) -> None:
    keep(store, result(1))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert isinstance(app.screen, ResultsScreen)
        view = ExperimentView("try", RunProgress("RAID 5", 0.4, 55.0, 12, 30))
        app.experiments.view = view
        await quiet(app, pilot)
        assert "55 s left" in text_of(app)
        keep(store, result(2))
        view.outcome = result(2)
        await quiet(app, pilot)
        assert "2 stored" in text_of(app)
        assert "55 s left" not in text_of(app)

    show(tmp_path, act)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (40, 12)])
def test_it_works_on_every_terminal(tmp_path: Path, store: ResultStore, size: tuple[int, int]) -> None:
    keep(store, result(1), result(2))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        # Below 80 × 24 it need only stay alive.
        assert "100 [99–101]" in text_of(app) or size < (80, 24)
        await pilot.press("m", "down")
        await quiet(app, pilot)

    show(tmp_path, act, size)


def test_words_of_a_stranger_are_shown_and_do_nothing(tmp_path: Path, store: ResultStore) -> None:
    link, paint = "[@click=app.quit]x[/]", "[bold red]y[/]"
    made = msgspec.structs.replace(
        result(1, stamps=(f"{link}\x1b[2J",)),
        experiment=f"{paint}\x1b]0;t\x07",
        conditions=msgspec.structs.replace(CONDITIONS, target=link),
    )
    keep(store, made)
    bad = store.root / "[bold]z\x1b"
    bad.mkdir()
    (bad / RECORD_NAME).write_text("{}")

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        text = text_of(app)
        assert link in text
        assert paint in text
        assert r"[bold]z\x1b" in text
        await pilot.press("v", "v", "v")
        await quiet(app, pilot)
        assert rf"{link}\x1b[2J" in text_of(app)
        await pilot.press("down", "delete")
        await quiet(app, pilot)
        assert isinstance(app.screen, MenuScreen)
        assert r"Delete [bold]z\x1b permanently?" in text_of(app)
        assert "\x1b" not in text_of(app)

    show(tmp_path, act)


def test_columns_that_do_not_fit_are_a_few_keys_away(tmp_path: Path, store: ResultStore) -> None:
    keep(store, result(1))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert "More columns" not in text_of(app)
        await pilot.press("v")
        await see(app, pilot, "← scroll the table")
        assert "p99" not in text_of(app)
        await pilot.press("right", "right", "right")
        await see(app, pilot, "p99")
        await pilot.press("left", "left", "left")
        await see(app, pilot, "IOPS  theory")

    show(tmp_path, act, (80, 24))
