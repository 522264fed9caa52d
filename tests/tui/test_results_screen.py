from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from textual.widgets import OptionList

from lab.errors import LabError, SpecError
from lab.experiments.schedule import RunProgress
from lab.report.collected import collect, each_result
from lab.report.page.build import html_report
from lab.report.tables import csv_of, render_result
from lab.results.record import RunStatus
from lab.results.store import RECORD_NAME, ResultStore, decode_record, import_results
from tests.tui.conftest import Start
from tests.tui.results import STEADY, keep, result
from tests.tui.user import User
from tests.unit.lint.test_theory_checks import FILES, cpu
from tests.unit.results.records import CONDITIONS, array, rebuild
from tui import results_screen
from tui.dialogs import MenuScreen
from tui.runs import ExperimentView

pytestmark = [pytest.mark.app(mode="results", is_still=True), pytest.mark.usefixtures("store")]
FIRST, SECOND = "20261121T100100Z-try", "20261121T100200Z-try"


BUILT = msgspec.structs.replace(array("raid5", "raid5", 3), commands=("mdadm --create /dev/md0",))
OTHER_KERNEL = msgspec.structs.replace(CONDITIONS, kernel_release="6.12.0")
BUSY_CELLS = tuple(msgspec.structs.replace(each, cpu=cpu(9_500.0), predicted_iops=None) for each in result(1).cells)
LINK, PAINT = "[@click=app.quit]x[/]", "[bold red]y[/]"
STRANGERS = result(
    1,
    stamps=(f"{LINK}\x1b[2J",),
    experiment=f"{PAINT}\x1b]0;t\x07",
    conditions=msgspec.structs.replace(CONDITIONS, target=LINK),
)


async def test_without_results_the_screen_shows_how_to_get_one(user: User) -> None:
    user.sees("No results yet.", "Press 3")
    assert user.screen.check_action("delete", ()) is None


@pytest.mark.stored(result(1), result(2, [50.0, 200.0, 100.0, 90.0, 110.0, 150.0]))
async def test_the_newest_comes_first_as_bars_with_interval_and_theory(user: User) -> None:
    user.sees("2 stored", SECOND, "105 [50–200]")
    bar = user.text.split("rand-read-4k, IOPS")[1].splitlines()[1]
    assert {"▒", "◆"} <= set(bar)


@pytest.mark.stored(
    result(
        1,
        arrays=(BUILT,),
        stamps=("simulated-origin: measured on an embedded kernel",),
        rebuilds=(rebuild("raid5", 0, 12.5),),
    )
)
async def test_views_show_tables_then_conditions_with_commands_then_lint_findings(user: User) -> None:
    assert "1 cautions" not in user.text
    user.sees("1 caution: see Lint")
    for words in (
        ("Figures of try", "Rebuilds"),
        ("6.1.0", "mdadm 4.2", "4 × physical", "mdadm --create /dev/md0"),
        ("simulated-origin: the figures come from a simulator", "measured on an embedded kernel", "Remedy:"),
        ("rand-read-4k, IOPS",),
    ):
        await user.press("v")
        user.sees(*words)


@pytest.mark.parametrize(
    ("factor", "words"), [(2.0, "FASTER"), (0.5, "SLOWER"), (1.0, "THE SAME"), (1.046, "UNDECIDED")]
)
async def test_two_results_side_by_side_end_in_a_verdict(
    start: Start, store: ResultStore, factor: float, words: str
) -> None:
    keep(store, result(1, [value * factor for value in STEADY]), result(2))
    async with start() as user:
        await user.press("m", "down")
        await user.see(words)
        user.sees(f"first   {SECOND} (marked)", f"{factor:.2f} ×")
        await user.press("m", "m")
        assert "Compare" not in user.text


@pytest.mark.parametrize(
    ("error", "words"), [(SpecError("no cell is in both"), "NOTHING IN COMMON"), (LabError("no memory"), "ERROR")]
)
@pytest.mark.stored(result(1), result(2))
async def test_a_comparison_that_fails_names_the_error(
    user: User, error: LabError, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_screen, "compare", Mock(side_effect=error))
    await user.press("m", "down")
    await user.see(words)
    user.sees(error.message)


@pytest.mark.stored(result(1, [value * 2 for value in STEADY], conditions=OTHER_KERNEL), result(2))
async def test_unlike_results_are_compared_only_when_asked_for(user: User) -> None:
    await user.press("m", "down")
    user.sees("NOT COMPARABLE", "kernel: '6.1.0' and '6.12.0'")
    assert "2.00 ×" not in user.text
    await user.press("a")
    await user.see("2.00 ×")
    user.sees("kernel: '6.1.0' and '6.12.0'")


@pytest.mark.stored(result(1))
async def test_exports_are_what_the_command_line_writes(
    user: User, store: ResultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for key in "zhcmj":
        await user.press("e")
        assert isinstance(user.screen, MenuScreen)
        await user.press(key)
    made, written = result(1), {path.suffix: path for path in tmp_path.glob(f"{FIRST}.*")}
    assert written[".csv"].read_text() == csv_of(made).rstrip() + "\n"
    assert written[".md"].read_text() == render_result(made, is_markdown=True) + "\n"
    assert written[".html"].read_text() == html_report(collect(each_result([made.id], store)))
    assert decode_record(written[".json"].read_bytes(), source="the export") == made
    elsewhere = ResultStore(tmp_path / "elsewhere")
    elsewhere.root.mkdir()
    assert import_results(elsewhere, written[".zip"]) == ((made.id,), ())


@pytest.mark.stored(result(1), result(2))
async def test_deleting_asks_first(user: User, store: ResultStore) -> None:
    await user.press("delete", "enter")  # Keep it
    assert len(store.list()) == 2
    await user.press("delete")
    user.sees("cannot be undone")
    await user.press("d")
    assert [each.id for each in store.list()] == [FIRST]
    assert user.find(OptionList).option_count == 1


@pytest.mark.stored(result(1), result(2))
async def test_a_damaged_result_is_named_and_does_not_hide_the_others(start: Start, store: ResultStore) -> None:
    (store.root / SECOND / RECORD_NAME).write_text("{")
    async with start() as user:
        await user.choose(SECOND)
        user.sees("UNREADABLE")
        assert user.screen.check_action("export", ()) is None
        assert user.screen.check_action("delete", ()) is True
        await user.choose(FIRST)
        user.sees("rand-read-4k, IOPS")


@pytest.mark.stored(result(1, conditions=FILES, cells=BUSY_CELLS))
async def test_a_processor_bound_result_is_marked_before_its_figures(user: User) -> None:
    for _ in range(2):
        assert user.words.index("PROCESSOR-BOUND") < user.words.index("100 [99–")
        user.sees("95%")
        await user.press("v")


@pytest.mark.stored(result(1, iops=(90.0, 91.0, 92.0)))
async def test_a_figure_off_theory_is_marked_and_explained(user: User) -> None:
    user.sees("91 [90–92] off-theory", "off-theory: raid5/rand-read-4k/healthy: 0.87")


@pytest.mark.stored(
    result(1, status=RunStatus.INCOMPLETE, planned_cells=tuple(f"raid5/rand-read-4k/healthy/{n}" for n in range(10)))
)
async def test_one_that_broke_off_can_be_resumed(user: User) -> None:
    user.sees("6 of 10", "This result is incomplete: r resumes the experiment.")
    assert user.screen.check_action("resume", ()) is True


@pytest.mark.stored(result(1))
async def test_a_running_experiment_shows_here_too_and_its_result_appears_by_itself(
    user: User, store: ResultStore
) -> None:
    view = ExperimentView("try", RunProgress("RAID 5", 0.4, 55.0, 12, 30))
    user.app.experiments.view = view
    await user.show()
    user.sees("55 s left")
    keep(store, result(2))
    view.outcome = result(2)
    await user.show()
    user.sees("2 stored")
    assert "55 s left" not in user.text


@pytest.mark.stored(STRANGERS)
async def test_words_of_a_stranger_are_shown_and_do_nothing(start: Start, store: ResultStore) -> None:
    bad = store.root / "[bold]z\x1b"
    bad.mkdir()
    (bad / RECORD_NAME).write_text("{}")
    async with start() as user:
        user.sees(LINK, PAINT, r"[bold]z\x1b")
        await user.press("v", "v", "v")
        user.sees(rf"{LINK}\x1b[2J")
        await user.press("down", "delete")
        assert isinstance(user.screen, MenuScreen)
        user.sees(r"Delete [bold]z\x1b permanently?")
        assert "\x1b" not in user.text


@pytest.mark.app(size=(80, 24))
@pytest.mark.stored(result(1))
async def test_columns_that_do_not_fit_are_a_few_keys_away(user: User) -> None:
    assert "More columns" not in user.text
    await user.press("v")
    await user.see("← scroll the table")
    assert "p99" not in user.text
    await user.press("right", "right", "right")
    await user.see("p99")
    await user.press("left", "left", "left")
    await user.see("IOPS  theory")
