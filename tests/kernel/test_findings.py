"""The scripts in docs/findings/ have the results on this kernel that docs/findings.md describes.

A kernel in which a finding is fixed fails here. The entry of the finding must then say since which version.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.disks import DiskKind, Lab, specs
from lab.gates.decoding import version_numbers
from lab.machine import CommandResult, parse_target
from lab.units import MIB

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]

SCRIPTS = Path(__file__).resolve().parents[2] / "docs" / "findings"
TARGET = parse_target("uml:?time=virtual")
DISKS = specs(8, DiskKind.SPINDLE, size_bytes=40 * MIB, model="ssd")
REPRODUCED, REFUTED = 0, 1


def run(lab: Lab, script: str, drives: int, *settings: str, status: int) -> CommandResult:
    """Run a script whose text is sent to the machine, so it does not matter which folders the machine sees."""
    nodes = (disk.node for disk in lab.disks[:drives])
    argv = ("env", *settings, "bash", "-c", (SCRIPTS / script).read_text(), script, *nodes)
    result = lab.machine.run(argv, check=False)
    assert result.status == status, result.stdout + result.stderr
    return result


def lost_blocks(result: CommandResult) -> int:
    found = re.search(r"do not hold what was written: (\d+) of", result.stdout)
    assert found, result.stdout + result.stderr
    return int(found[1])


MISMATCHES = "mismatches that a check counts, in sectors: {}\n"
# No check reports it, since parity matches the wrong data.
UNSEEN = MISMATCHES.format(0)
# The kernel counts the blank spare as a member, while mdadm still reports a spare.
SPARE = ("spare is in_sync, degraded 0", "drive3: Events 4,Device Role spare", "and 1 spare.")
RESTARTED = ("before the stop: resync, resync_start", "afterwards: idle, resync_start none")


@pytest.mark.parametrize(
    ("script", "drives", "settings", "verdict", "lost", "expected"),
    [
        # The write whose journal entry failed is acknowledged, the next one is refused, and nothing reports read-only.
        # With a member missing the write is refused, yet its parity is written: the missing member's data have changed.
        (
            "journal-failure.sh", 5, (), REPRODUCED, None,
            ("write X to chunk 1: acknowledged", "write Y to chunk 0: error", "stripe after:  41 58 43 5a",
             "array_state: active", "write X to chunk 1: error", "stripe before: 41 42 43 40",
             "stripe after:  41 42 43 5a", "chunk 0, written as 41 and never again, now reads: 5b"),
        ),
        # A power cut while a spare takes a place turns it into a member in sync, unless the spare's superblock says so.
        ("spare-in-sync.sh", 4, (), REPRODUCED, 768, (MISMATCHES.format(8192), *SPARE)),
        (
            "spare-in-sync.sh", 4, ("LEVEL=10", "CREATE=--layout=f2"), REPRODUCED, 504,
            (MISMATCHES.format(8192), *SPARE),
        ),
        ("spare-in-sync.sh", 4, ("LEVEL=1",), REPRODUCED, 0, (MISMATCHES.format(16384), *SPARE)),
        ("spare-in-sync.sh", 4, ("LATE=1",), REFUTED, 0, (UNSEEN, SPARE[0])),
        # Data that are read late are overwritten where a reshape moves them.
        ("reshape-slow-read.sh", 5, ("ROW=2",), REPRODUCED, 16, ("block 128 holds: 400", UNSEEN)),
        ("reshape-slow-read.sh", 5, ("ROW=3",), REFUTED, 0, ("New Offset: 3584", UNSEEN)),
        (
            "reshape-slow-read.sh", 5, ("ROW=2", "GROW=--backup-file=/tmp/findings-backup"), REFUTED, 0,
            ("ended:   Data Offset: 4096", UNSEEN),
        ),
        # The new part of a larger array with a bitmap is not synced after a restart.
        ("larger-array-bitmap.sh", 2, (), REPRODUCED, None, (*RESTARTED, MISMATCHES.format(4096))),
        ("larger-array-bitmap.sh", 4, ("LEVEL=5",), REPRODUCED, None, (*RESTARTED, MISMATCHES.format(4096))),
        ("larger-array-bitmap.sh", 4, ("LEVEL=10",), REPRODUCED, None, (*RESTARTED, MISMATCHES.format(8192))),
        ("larger-array-bitmap.sh", 2, ("BITMAP=none",), REFUTED, None, (*RESTARTED, UNSEEN)),
        # mdadm forces an older member into the array than it needs.
        ("force-stale.sh", 4, (), REPRODUCED, 768, ("[4/4] [UUUU]",)),
        ("force-stale.sh", 4, ("ORDER=0 1 2 3",), REFUTED, 0, ("[4/3] [UUU_]",)),
    ],
)  # fmt: skip
def test_a_script_reproduces_the_result_in_docs_findings(
    lab: Lab,
    script: str,
    drives: int,
    settings: tuple[str, ...],
    verdict: int,
    lost: int | None,
    expected: tuple[str, ...],
) -> None:
    """``lost``: blocks that do not contain what was written; None: the script does not report it."""
    result = run(lab, script, drives, *settings, status=verdict)
    assert lost is None or lost_blocks(result) == lost
    assert [words for words in expected if words not in result.stdout + result.stderr] == []


@pytest.mark.parametrize(
    ("settings", "shift_kib", "verdict"),
    [
        ((), 2048, REPRODUCED),
        (("CUT=1", "GROW=--layout=right-asymmetric --data-offset=1M"), 3072, REFUTED),
    ],
    ids=["past-the-shift", "within-the-shift"],
)
def test_a_power_cut_loses_what_a_reshape_did_beyond_the_shift_of_the_data(
    lab: Lab, settings: tuple[str, ...], shift_kib: int, verdict: int
) -> None:
    result = run(lab, "reshape-power-cut.sh", 8, *settings, status=verdict)
    assert "Reshape pos'n : 0\n" in result.stdout
    done = re.search(r"\((\d+)/8192\)", result.stdout)
    assert done
    # Three data chunks in a row of chunks, and four KiB in a block.
    assert lost_blocks(result) == max(0, int(done[1]) - shift_kib) * 3 // 4


def test_a_stalled_reshape_of_raid_10_is_read_from_the_old_place(lab: Lab) -> None:
    result = run(lab, "reshape-read-only.sh", 5, status=REPRODUCED)
    position = re.search(r"Reshape pos'n : (\d+)", result.stdout)
    assert position
    # Everything that was moved, in KiB of the array; a block has four KiB.
    assert lost_blocks(result) == int(position[1]) // 4
    assert "after the reshape: 0 of 4096" in result.stdout


@pytest.mark.parametrize(
    ("settings", "drives", "result_before"),
    [
        (("LIST=bbl",), 3, "bad blocks of the second member: 4096 8 \n"),
        (("LIST=no-bbl",), 3, "[3/1] [U__]"),
        (("LIST=bbl",), 4, "bad blocks of the second member: 4096 8 \n"),
        (("LIST=no-bbl",), 4, "[3/1] [U__]"),
    ],
    ids=["read", "read-no-lists", "rebuild", "rebuild-no-lists"],
)
def test_a_sector_without_a_second_copy_is_retried_endlessly_since_linux_7_0(
    lab: Lab, settings: tuple[str, ...], drives: int, result_before: str
) -> None:
    is_new = version_numbers(lab.machine.facts.kernel_release) >= version_numbers("7.0")
    result = run(lab, "unreadable-sector.sh", drives, *settings, status=REPRODUCED if is_new else REFUTED)
    reads = re.search(r"after (\d+) reads of the second member", result.stdout)
    assert reads, result.stdout + result.stderr
    if is_new:
        # One read in 10 ms, for ten seconds. No member is failed, and no bad block is recorded.
        assert int(reads[1]) >= 1000
        assert "[3/2] [UU_]" in result.stdout
        assert "bad blocks of the second member: \n" in result.stdout
    else:
        assert result_before in result.stdout
        assert drives == 4 or int(reads[1]) == 2


def test_a_spare_counts_as_in_sync_where_a_member_fails_in_its_rebuild_since_linux_7_0(lab: Lab) -> None:
    is_new = version_numbers(lab.machine.facts.kernel_release) >= version_numbers("7.0")
    result = run(lab, "failure-in-rebuild.sh", 4, status=REPRODUCED if is_new else REFUTED)
    forced, without = re.findall(r"do not hold what was written: (\d+) of 1024", result.stdout)
    # The member that failed has all data in any case.
    assert int(without) == 0
    if is_new:
        # What was not rebuilt before the failure, in half of the blocks.
        assert 0 < int(forced) < 1024
        assert "the spare: in_sync" in result.stdout
        assert "[3/2] [U_U]" in result.stdout
    else:
        assert int(forced) == 0, result.stdout + result.stderr
        assert "the spare: spare" in result.stdout
