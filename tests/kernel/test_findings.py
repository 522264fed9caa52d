"""The scripts of docs/findings/ do on this kernel what docs/findings.md says of them.

A kernel in which a finding is mended fails here: then the finding's entry is to say since when.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.disks import DiskKind, DiskSpec, Lab, open_lab
from lab.machine import CommandResult, Host, parse_target
from lab.units import MIB

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time]

SCRIPTS = Path(__file__).resolve().parents[2] / "docs" / "findings"
DRIVES = tuple(
    DiskSpec(name=f"disk{n:02}", kind=DiskKind.SPINDLE, size_bytes=40 * MIB, model="ssd") for n in range(1, 9)
)
REPRODUCED, REFUTED = 0, 1


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with open_lab(parse_target("uml:?time=virtual"), Host.real("tests"), wanted=DRIVES) as opened:
        yield opened


def run(lab: Lab, script: str, drives: int, *settings: str) -> CommandResult:
    """The script's text is sent, so it does not matter which folders the machine sees."""
    nodes = (disk.node for disk in lab.disks[:drives])
    return lab.machine.run(
        ("env", *settings, "bash", "-c", (SCRIPTS / script).read_text(), script, *nodes), check=False
    )


def lost_blocks(result: CommandResult) -> int:
    found = re.search(r"do not hold what was written: (\d+) of", result.stdout)
    assert found, result.stdout + result.stderr
    return int(found[1])


def test_members_are_written_without_the_journal_that_failed(lab: Lab) -> None:
    result = run(lab, "journal-failure.sh", 5)
    assert result.status == REPRODUCED, result.stdout + result.stderr
    alone, beside = result.stdout.split("2. Member 0 is missing")
    # The write whose journal entry failed is done and acknowledged, the next one is refused; nothing says read-only.
    assert "write X to chunk 1: acknowledged" in alone
    assert "write Y to chunk 0: error" in alone
    assert "stripe after:  41 58 43 5a" in alone
    assert "array_state: active" in alone
    # The write is refused, yet its parity is on the member: what the missing member held is something else now.
    assert "write X to chunk 1: error" in beside
    assert "stripe before: 41 42 43 40" in beside
    assert "stripe after:  41 42 43 5a" in beside
    assert "chunk 0, written as 41 and never again, now reads: 5b" in beside


@pytest.mark.parametrize(
    ("settings", "verdict", "lost", "content"),
    [
        (("ROW=2",), REPRODUCED, 16, "block 128 holds: 400"),
        (("ROW=3",), REFUTED, 0, "New Offset: 3584"),
        (("ROW=2", "GROW=--backup-file=/tmp/findings-backup"), REFUTED, 0, "ended:   Data Offset: 4096"),
    ],
    ids=["first-rows", "later-row", "data-stays"],
)
def test_data_that_are_read_late_are_overwritten_where_a_reshape_moves_them(
    lab: Lab, settings: tuple[str, ...], verdict: int, lost: int, content: str
) -> None:
    result = run(lab, "reshape-slow-read.sh", 5, *settings)
    assert (result.status, lost_blocks(result)) == (verdict, lost), result.stdout + result.stderr
    assert content in result.stdout
    # Nothing tells of it: parity fits the wrong data.
    assert "mismatches that a check counts, in sectors: 0" in result.stdout


@pytest.mark.parametrize(
    ("settings", "shift_kib", "verdict"),
    [
        ((), 2048, REPRODUCED),
        (("CUT=0.1", "GROW=--layout=right-asymmetric --data-offset=1M"), 3072, REFUTED),
    ],
    ids=["past-the-shift", "within-the-shift"],
)
def test_a_power_cut_loses_what_a_reshape_did_beyond_the_shift_of_the_data(
    lab: Lab, settings: tuple[str, ...], shift_kib: int, verdict: int
) -> None:
    result = run(lab, "reshape-power-cut.sh", 8, *settings)
    assert result.status == verdict, result.stdout + result.stderr
    assert "Reshape pos'n : 0\n" in result.stdout
    done = re.search(r"\((\d+)/8192\)", result.stdout)
    assert done
    # Three data chunks in a row of chunks, four KiB in a block.
    assert lost_blocks(result) == max(0, int(done[1]) - shift_kib) * 3 // 4
