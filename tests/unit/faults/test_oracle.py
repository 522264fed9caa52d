"""The oracle's ledger survives its process, its verdicts are sentences, and each planted bug is a valid program."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lab.disks import Lab
from lab.errors import LabError
from lab.faults.oracle import BadPlace, Oracle, OracleVerdict
from lab.machine.programs import program_files
from tests.kernel.oracle_controls import CONTROLS, OracleBug, oracle_bugs
from tests.unit.disks.machines import Device, host_in, lab_disk, machine_of
from tests.unit.fakes import FakeMachine, Scripted

FOLDER = "/run/raidlab/mnt/md0"
END = {"end": True}


class Answering:
    """Scripted answers of the programs, one job after the other, and the jobs that they received."""

    def __init__(self, machine: FakeMachine, *answers: list[dict[str, Any]]) -> None:
        self.machine = machine
        scripted = [Scripted("".join(json.dumps(each) + "\n" for each in answer)) for answer in answers]
        machine.answers[("python3",)] = machine.answers[("sh",)] = scripted

    def jobs(self) -> list[dict[str, Any]]:
        found = []
        for argv, text in zip(self.machine.runs, self.machine.stdin_texts, strict=True):
            if argv[:2] == ("sh", "-c"):
                text = gzip.decompress(base64.b64decode(text)).decode()
            if text:
                found.append(json.loads(text)["histories"][0])
        return found


def made(tmp_path: Path, *answers: list[dict[str, Any]], **more: Any) -> tuple[Oracle, Answering]:
    machine = machine_of(Device("ubda", number="98:0"))
    lab = Lab(machine, host_in(tmp_path), [lab_disk()])
    answering = Answering(machine, *answers)
    return Oracle.open(lab, tmp_path, FOLDER, **more), answering


def new_events(*events: list[Any]) -> dict[str, Any]:
    return {"step": 1, "kind": "tell", "new": list(events)}


FILLED = [["begin", 1, {"names": 3}], ["create", 2, 4096, "d1/f1"], ["acknowledged", 2]]
CHECKED = {"step": 0, "kind": "check", "verdicts": {"intact": 4}, "bad": []}


def test_a_later_process_continues_the_ledger(tmp_path: Path) -> None:
    oracle, answering = made(tmp_path, [new_events(*FILLED), END], seed="s", mix={"names": 3})
    oracle.fill()
    (job,) = answering.jobs()
    assert (job["seed"], job["folder"], job["ledger"]) == ("s:1", FOLDER, [])
    assert job["steps"] == [["files", {"names": 3}], ["work", 8], ["tell"], ["work", 4], ["tell"], ["close"], ["tell"]]
    # A killed process may leave an incomplete line.
    oracle.file.write_bytes(oracle.file.read_bytes() + b'{"events"')
    again, answering = made(tmp_path, [CHECKED, END])
    assert (again.region, again.events) == (oracle.region, FILLED)
    assert again.check().is_intact
    (job,) = answering.jobs()
    assert (job["ledger"], job["steps"]) == (FILLED, [["check"], ["tell"]])


def test_beginning_anew_forgets_the_ledger_and_changes_the_content(tmp_path: Path) -> None:
    oracle, answering = made(tmp_path, [new_events(*FILLED), END], [END])
    oracle.fill()
    oracle.fill()
    assert oracle.events == []
    assert [job["seed"] for job in answering.jobs()] == ["oracle:1", "oracle:2"]


def test_many_operations_are_carried_out_in_several_runs(tmp_path: Path) -> None:
    oracle, answering = made(tmp_path, [new_events(*FILLED), END], [END], [END])
    oracle.fill()
    oracle.advance(70)
    works = [[step[1] for step in job["steps"] if step[0] == "work"] for job in answering.jobs()]
    assert works == [[8] * 5, [8] * 8, [6]]


def test_what_the_machine_reported_before_it_was_lost_is_stored(tmp_path: Path) -> None:
    oracle, _ = made(tmp_path, [new_events(*FILLED)])
    with pytest.raises(LabError):
        oracle.fill()
    assert made(tmp_path)[0].events == FILLED


def test_a_damaged_ledger_is_reported(tmp_path: Path) -> None:
    oracle, _ = made(tmp_path, [new_events(*FILLED), END])
    oracle.fill()
    oracle.file.write_bytes(oracle.file.read_bytes().replace(b'"fills":1', b'"fills":"x"'))
    with pytest.raises(LabError, match="damaged"):
        made(tmp_path)


def test_failed_operations_are_reported(tmp_path: Path) -> None:
    failed = {"step": 0, "kind": "work", "failures": 2, "first_failure": "write: No space left on device"}
    oracle, _ = made(tmp_path, [failed, END])
    with pytest.raises(LabError, match="No space left"):
        oracle.fill()


def test_a_verdict_is_a_sentence() -> None:
    good = OracleVerdict({"intact": 3, "in-flight old": 1}, ())
    assert good.is_intact
    assert good.sentence == "all 4 blocks are correct (3 intact, 1 in-flight old)"
    place = BadPlace("d0/f1", 8192, "silently corrupt", "zeros", "[3]")
    bad = OracleVerdict({"intact": 3, "silently corrupt": 1}, (place,))
    assert not bad.is_intact
    assert bad.sentence.endswith("first d0/f1 at byte 8192: silently corrupt, found zeros, allowed [3]")


@pytest.mark.parametrize("bug", oracle_bugs(), ids=lambda bug: bug.name)
def test_each_changes_one_text_of_the_program_and_leaves_it_a_program(bug: OracleBug) -> None:
    files, changed = program_files(CONTROLS), program_files(CONTROLS, bug.change)
    assert changed.folder != files.folder
    (text,) = (text for path, text in changed.texts.items() if path.endswith(".py") and text != files.texts[path])
    compile(text, bug.name, "exec")
