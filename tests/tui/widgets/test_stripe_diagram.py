from __future__ import annotations

from lab.arrays.levels import Level, Raid0, Raid1, Raid5, Raid6, Raid10, Raid10Layout
from lab.units import KIB
from tests.tui.widgets.host import assert_bears, shown
from tui.charts import DiagramMember, StripeDiagram


def members(count: int, *failed: int) -> list[DiagramMember]:
    return [DiagramMember(f"disk{slot + 1:02d}", slot in failed) for slot in range(count)]


def diagram(level: Level, columns: list[DiagramMember], layout: str | None = None, rows: int = 4) -> StripeDiagram:
    made = StripeDiagram()
    made.rows = rows
    made.show(level, layout, columns, 64 * KIB)
    return made


def cells(line: str) -> list[str]:
    return line.split()


def test_the_layout_is_this_array_s() -> None:
    lines = shown(diagram(Raid5(), members(4), "right-asymmetric", rows=1))
    assert cells(lines[1]) == ["0", "P", "0", "1", "2"]


def test_the_legend_names_what_occurs_and_the_chunk() -> None:
    legend = shown(diagram(Raid6(), members(5)))[-1]
    assert legend.split("  ")[0].strip().startswith("0")
    assert "chunk of 64 KiB" in legend
    assert "2nd parity" in legend
    assert "parity" not in shown(diagram(Raid0(), members(3)))[-1]
    assert "copy" in shown(diagram(Raid1(), members(2)))[-1]


def test_a_failed_member_is_crossed_out_and_its_data_come_from_the_others() -> None:
    lines = shown(diagram(Raid5(), members(4, 1), rows=1))
    assert "✘ disk02" in lines[0] or "✘ 02" in lines[0]
    assert cells(lines[1]) == ["0", "0", "╳1", "2", "P"]
    assert "read from the others" in lines[-1]


def test_data_that_cannot_be_reconstructed_are_shown_as_lost() -> None:
    assert "LOST" in shown(diagram(Raid0(), members(3, 1)))[-1]
    assert "LOST" in shown(diagram(Raid5(), members(4, 1, 2)))[-1]
    assert "LOST" in shown(diagram(Raid10(), members(4, 0, 1)))[-1]
    assert "LOST" not in shown(diagram(Raid10(), members(4, 0, 2)))[-1]


def test_far_copies_are_shown_as_further_inside() -> None:
    lines = shown(diagram(Raid10(Raid10Layout.FAR, 2), members(4), rows=5))
    assert cells(lines[1]) == ["0", "0", "1", "2", "3"]
    assert "further inside" in lines[3]
    assert cells(lines[4]) == ["0", "3'", "0'", "1'", "2'"]


def test_many_members_keep_their_numbers_and_the_rest_is_counted() -> None:
    assert cells(shown(diagram(Raid0(), members(9)), (44, 8))[0]) == [f"{n:02d}" for n in range(1, 10)]
    assert cells(shown(diagram(Raid0(), members(9)), (30, 8))[0])[-1] == "+3"


def test_what_cannot_be_built_has_no_diagram() -> None:
    made = diagram(Raid6(), members(3))
    made.empty_text = "choose enough disks"
    assert shown(made) == ["choose enough disks"]


def test_no_size_is_too_odd() -> None:
    assert_bears(diagram(Raid6(), members(9, 3)), (1, 1), (4, 3), (9, 2), (30, 1), (200, 50))
