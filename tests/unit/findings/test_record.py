"""Scripts of findings, the record of their runs, and the table in docs/findings.md."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lab.errors import SpecError
from lab.findings.record import (
    Cell,
    Outcome,
    Record,
    Run,
    read_record,
    read_script,
    record_table,
    with_outcomes,
    words_of,
    write_record,
)

DOCS = Path(__file__).resolve().parents[3] / "docs"


def a_cell(outcomes: str, *, script: str = "a.sh", kernel: str = "6.1.0-56-amd64", mdadm: str = "4.2") -> Cell:
    """A cell with a run for each letter: r(eproduced), f (refuted), u(ntried)."""
    kinds = {"r": Outcome.REPRODUCED, "f": Outcome.REFUTED, "u": Outcome.UNTRIED}
    runs = [
        Run(outcome=kinds[letter], said="no such device", seconds=1.0, starts_read_only=True, has_udev=False)
        for letter in outcomes
    ]
    return Cell(
        script=script,
        digest="0",
        target=f"qemu:?kernel={kernel}&mdadm={mdadm}",
        kernel=kernel,
        mdadm=f"mdadm - v{mdadm} - 2021-12-30 - Debian {mdadm}-5",
        cpus=2,
        runs=tuple(runs),
    )


@pytest.mark.parametrize(
    ("usage", "disks"),
    [
        ("# As root: [ROW=0] a.sh MEMBER MEMBER NEW   (32 MiB or more each)", 3),
        ("# As root: a.sh MEMBER MEMBER...   (8 MiB)", 2),
        ("# As root: [LIST=bbl] a.sh MEMBER MEMBER MEMBER [SPARE]   (16 MiB)", 3),
    ],
)
def test_a_script_is_given_as_many_disks_as_its_usage_names(tmp_path: Path, usage: str, disks: int) -> None:
    path = tmp_path / "a.sh"
    path.write_text(f"#!/usr/bin/env bash\n# A question?\n{usage}\ntrue\n")
    assert read_script(path).disks == disks
    path.write_text("#!/usr/bin/env bash\ntrue\n")
    with pytest.raises(SpecError, match="which disks it needs") as raised:
        read_script(path)
    assert "# As root: a.sh MEMBER" in raised.value.hint


def test_a_changed_script_has_no_runs_and_replaces_those_of_the_earlier_one(tmp_path: Path) -> None:
    path, usage, code = tmp_path / "a.sh", "# As root: a.sh MEMBER   (1 MiB)\n", "true\n  # It is true.\n"
    path.write_text(f"#!/bin/sh\n{usage}{code}")
    first = read_script(path)
    cell = msgspec.structs.replace(a_cell("rr"), digest=first.digest)
    record = Record().with_cell(cell)
    assert record.cell(first, cell.target) == cell
    assert record.cell(first, "qemu:?kernel=7.2") is None
    path.write_text(f"#!/bin/sh\n# Reworded.\n{usage}true\n")
    assert record.cell(read_script(path), cell.target) == cell
    more_disks = usage.replace("MEMBER", "MEMBER MEMBER")
    for changed in (f"#!/bin/bash\n{usage}{code}", f"#!/bin/sh\n{more_disks}{code}", f"#!/bin/sh\n{usage}false\n"):
        path.write_text(changed)
        assert record.cell(read_script(path), cell.target) is None
    assert record.with_cell(a_cell("f")).cells == (a_cell("f"),)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert read_record(path) == Record()
    record = Record().with_cell(a_cell("rfu")).with_cell(a_cell("r", mdadm="4.4"))
    write_record(path, record)
    assert read_record(path) == record
    assert {cell.mdadm_version for cell in record.cells} == {"4.2", "4.4"}


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([a_cell("rrr"), a_cell("rr", mdadm="4.4")], "mdadm 4.2, 4.4: reproduced 5 of 5"),
        ([a_cell("rfr")], "mdadm 4.2: reproduced 2 of 3, refuted 1 of 3"),
        ([a_cell("rr"), a_cell("ff", mdadm="4.6")], "mdadm 4.2: reproduced 2 of 2; mdadm 4.6: refuted 2 of 2"),
        ([a_cell("uu")], "mdadm 4.2: cannot be tried 2 of 2 (no such device)"),
        ([], "–"),
    ],
)
def test_outcomes_are_counted_and_grouped_by_version_of_mdadm(cells: list[Cell], words: str) -> None:
    assert words_of(cells) == words


def test_the_table_has_a_column_for_each_kernel() -> None:
    record = Record().with_cell(a_cell("rr")).with_cell(a_cell("f", kernel="7.2.12+deb14-amd64"))
    assert record_table(record).as_markdown().splitlines()[-1].split(" | ") == [
        "| a.sh",
        "mdadm 4.2: reproduced 2 of 2",
        "mdadm 4.2: refuted 1 of 1 |",
    ]


def test_a_page_gets_the_outcomes_in_the_rows_that_name_a_script_and_nowhere_else() -> None:
    page = """| no. | Linux 6.1 | UML 6.1 | script |
|---|---|---|---|
| 1 | old | old | [a.sh](findings/a.sh) |
| 2 | by hand | – | – |

| a | b | c | d |
| 1 | old | old | `a.sh` |
"""
    embedded = msgspec.structs.replace(a_cell("ff"), target="uml:?time=virtual")
    filled = with_outcomes(page, Record().with_cell(a_cell("r")).with_cell(embedded))
    words = "mdadm 4.2: reproduced 1 of 1 | mdadm 4.2: refuted 2 of 2"
    assert filled.splitlines()[2] == f"| 1 | {words} | [a.sh](findings/a.sh) |"
    assert [*filled.splitlines()[:2], *filled.splitlines()[3:]] == [*page.splitlines()[:2], *page.splitlines()[3:]]


def test_the_findings_page_shows_the_stored_outcomes_of_the_scripts_as_they_are() -> None:
    record = read_record(DOCS / "findings" / "outcomes.json")
    page = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert with_outcomes(page, record) == page
    for path in sorted((DOCS / "findings").glob("*.sh")):
        script = read_script(path)
        stale = [cell.target for cell in record.cells if cell.script == script.name and cell.digest != script.digest]
        assert not stale, f"{script.name} has changed since: raidlab findings run"
        assert any(cell.script == script.name for cell in record.cells), script.name
