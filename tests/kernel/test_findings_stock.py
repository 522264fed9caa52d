"""A distribution's kernel repeats one column of the table in docs/findings.md: each script has the same outcome."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.findings.record import Cell, Outcome, read_record, read_script
from lab.findings.runner import measure
from lab.machine import parse_target
from tests.kernel.place import host_at
from tests.kernel.test_machine import REPOSITORY

pytestmark = [pytest.mark.qemu, pytest.mark.wide, pytest.mark.timeout(3600)]

FINDINGS = REPOSITORY / "docs" / "findings"
SCRIPTS = sorted(FINDINGS.glob("*.sh"))


@pytest.fixture(scope="module")
def column(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Cell]:
    """One run of each script on the default kernel of ``qemu:`` and its mdadm."""
    folder = tmp_path_factory.mktemp("findings")
    scripts = [read_script(path) for path in SCRIPTS]
    target, output, host = parse_target("qemu:"), folder / "outcomes.json", host_at(folder)
    cells = measure(scripts, target, 1, 600.0, output, host, on_notice=print, on_machine=lambda _: None)
    return {cell.script: cell for cell in cells}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_has_an_outcome_that_the_table_has(column: Mapping[str, Cell], path: Path) -> None:
    cell = column[path.name]
    stored = [each for each in read_record(FINDINGS / "outcomes.json").cells if each.script == path.name]
    same = [each for each in stored if (each.column, each.mdadm_version) == (cell.column, cell.mdadm_version)]
    known = {run.outcome for each in same for run in each.runs}
    if not known:
        pytest.skip(f"the table has no column for Linux {cell.kernel} with mdadm {cell.mdadm_version}")
    (run,) = cell.runs
    assert run.outcome in known, run.said
    assert run.outcome in (Outcome.REPRODUCED, Outcome.REFUTED), run.said
