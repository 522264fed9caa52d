from __future__ import annotations

import shlex

import pytest
from textual.pilot import Pilot

from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.plans import Plan, Step
from tests.tui.widgets.host import shown
from tui.plan_screen import PlanView

CREATE = ArraySpec("raid5", ("/dev/ubda", "/dev/ubdb", "/dev/ubdc")).creation()
STOP = operations.stop("md0")
ERASE = STOP + operations.zero_superblocks(("/dev/ubda", "/dev/ubdb"))


def text(plan: Plan, done: int | None = None, failed: str = "", width: int = 70) -> list[str]:
    view = PlanView(plan)
    view.done, view.failed = done, failed
    return shown(view, (width, 40))


@pytest.mark.parametrize("width", [30, 50, 200])
def test_the_command_as_shown_can_be_typed(width: int) -> None:
    """Copied from the screen with its line ends, it is the same command."""
    lines = [line[3:] for line in text(CREATE, width=width)]
    start = next(index for index, line in enumerate(lines) if line.startswith("# "))
    # A shell removes a backslash together with the newline behind it, which shlex does not do.
    typed = "\n".join(line[2:] for line in lines[start:]).replace("\\\n", "")
    assert tuple(shlex.split(typed)) == CREATE.steps[0].argv


def test_a_plan_that_destroys_data_names_the_disks() -> None:
    lines = text(CREATE)
    assert lines[0].startswith(" ▲ ")
    assert "Data on ubda, ubdb, ubdc will be lost." in " ".join(line.strip() for line in lines)
    assert not any("will be lost" in line for line in text(STOP))


def test_the_same_step_for_many_disks_is_shown_once() -> None:
    nodes = [f"/dev/ubd{letter}" for letter in "abcdefghi"]
    reset = Plan.of(
        "Start anew", [Step(("blkdiscard", node), "It is blank.", writes_devices=(node,)) for node in nodes]
    )
    lines = [line.strip() for line in text(reset) if line.strip()]
    assert lines[0] == "○ 9 disks, ubda to ubdi: it is blank."
    assert lines[1:] == ["# blkdiscard /dev/ubda", "and the same for ubdb, ubdc, ubdd, ubde, ubdf, ubdg, ubdh, ubdi"]
    assert [line[1] for line in text(reset, 4) if line[1:2].strip()] == ["◐"]
    assert [line[1] for line in text(reset, 9) if line[1:2].strip()] == ["✔"]


def test_erasing_superblocks_is_a_warning_without_data_loss() -> None:
    """An array that is destroyed leaves the data on its members: the plan must warn, but not mention lost data."""
    lines = text(operations.zero_superblocks(("/dev/ubda",)))
    assert lines[0].startswith(" ▲ ")
    assert not any("lost" in line for line in lines)


def test_a_running_plan_marks_finished_and_open_steps() -> None:
    assert [line[1] for line in text(ERASE, 1) if line[1:2].strip()] == ["✔", "◐", "○"]
    assert [line[1] for line in text(ERASE, 3) if line[1:2].strip()] == ["✔", "✔", "✔"]


def test_a_failed_step_shows_its_error() -> None:
    lines = text(ERASE, 1, "mdadm: Couldn't open /dev/ubda for write")
    assert [line[1] for line in lines if line[1:2].strip()] == ["✔", "✘", "○"]
    assert any("Couldn't open /dev/ubda" in line for line in lines)


def test_the_commands_can_be_copied() -> None:
    view = PlanView(CREATE)

    async def act(pilot: Pilot[None]) -> None:
        view.focus()
        await pilot.press("c")
        assert pilot.app.clipboard == CREATE.steps[0].shell_line() + "\n"

    shown(view, act=act)


def test_a_plan_without_steps_is_shown_as_nothing_to_do() -> None:
    assert text(Plan("Nothing"))[0] == "nothing to do"
