"""Programs that run on machines: the files that are sent are complete and need only the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.faults.place import CAMPAIGN, PLAYER
from lab.machine.programs import GuestProgram, program_files

REPOSITORY = Path(__file__).resolve().parents[3]
FILES = [
    *sorted((REPOSITORY / "lab/faults/guest").glob("[!_]*.py")),
    *sorted((REPOSITORY / "lab").rglob("*_program.py")),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(REPOSITORY).as_posix())
def test_programs_sent_to_a_machine_import_without_raidlab(file: Path, tmp_path: Path) -> None:
    program = GuestProgram(file, "trial")
    sent = program_files(program).texts
    # Modules of the client may need a newer Python than that of machines.
    assert sent.keys() <= {"trial", *(each.relative_to(REPOSITORY).as_posix() for each in FILES)}
    for path, text in sent.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    # -S: without installed packages.
    line = f"import sys; sys.path.append({str(tmp_path)!r}); import {program.module}"
    done = subprocess.run((sys.executable, "-IS", "-c", line), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_folder_follows_from_the_text() -> None:
    files = program_files(CAMPAIGN)
    assert files.start == f"{files.folder}/fault-campaign"
    assert {"lab/faults/guest/campaign.py", "lab/faults/guest/player.py", "fault-campaign"} <= files.texts.keys()
    assert "lab/faults/guest/campaign.py" not in program_files(PLAYER).texts
    assert program_files(CAMPAIGN, lambda text: f"{text}\n").folder != files.folder
