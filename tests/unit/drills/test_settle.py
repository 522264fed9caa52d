"""What ``settle`` takes for busy: moments of md that on a real array are too short to be met each time.

Files and words: md.rst in the kernel's documents. On real arrays: tests/kernel/test_settle.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import lab.drills

SETTLE = Path(lab.drills.__file__).with_name("settle.bash")
IDLE = {
    "sync_action": "idle",
    "reshape_position": "none",
    "array_state": "clean",
    "degraded": "0",
    "resync_start": "none",
    "dev-sda/state": "in_sync",
    "dev-sdb/state": "in_sync",
}


def is_busy(folder: Path, files: dict[str, str]) -> bool:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n")
    found = subprocess.run(
        ["bash", "-euc", f'. {SETTLE}\n_is_busy "$1" && echo busy || echo settled', "bash", str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == ""
    return found.stdout == "busy\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"sync_action": "recover", "degraded": "1"},
        {"sync_action": "frozen"},
        {"reshape_position": "2048"},
        {"resync_start": "0"},
        {"degraded": "1", "dev-sdb/state": "spare"},
        {"dev-sda/state": "in_sync,want_replacement", "dev-sdc/state": "spare,replacement"},
        {"dev-sdc/state": "replacement,spare"},
    ],
    ids=["rebuild", "frozen", "reshape", "resync due", "spare for a hole", "replacement", "replacement, other order"],
)
def test_what_md_does_or_is_about_to_do_is_busy(tmp_path: Path, changes: dict[str, str]) -> None:
    assert is_busy(tmp_path, IDLE | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dev-sdc/state": "spare"},
        {"degraded": "1", "dev-sdb/state": "faulty"},
        {"degraded": "1", "resync_start": "0"},
        {"array_state": "readonly", "resync_start": "0"},
        {"array_state": "read-auto", "degraded": "1", "dev-sdb/state": "spare"},
        {"dev-sda/state": "in_sync,want_replacement"},
    ],
    ids=["whole", "a spare in reserve", "a hole", "a hole and no resync", "read-only", "read-auto", "no replacement"],
)
def test_what_md_will_not_begin_is_not_waited_for(tmp_path: Path, changes: dict[str, str]) -> None:
    assert not is_busy(tmp_path, IDLE | changes)


def test_what_is_no_array_with_redundancy_is_not_waited_for(tmp_path: Path) -> None:
    assert not is_busy(tmp_path, {"array_state": "clean"})
