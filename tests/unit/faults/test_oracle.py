"""The oracle's ledger outlives its process: what is kept, what is in doubt after a loss, and where bad blocks lie."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lab.arrays.status import ArrayStatus, parse_array
from lab.disks import Lab
from lab.errors import DeviceRefused, LabError
from lab.faults.guest.file_ledger import FileLedger, FilePlan
from lab.faults.guest.ledger import Ledger
from lab.faults.oracle import BadPlace, Oracle, OracleVerdict, place_of
from lab.machine.programs import program_files
from tests.kernel.oracle_controls import CONTROLS, OracleBug, oracle_bugs
from tests.unit.disks.machines import Device, host_in, lab_disk, machine_of
from tests.unit.fakes import FakeMachine, Scripted

FOLDER = "/run/raidlab/mnt/md0"
END = {"end": True}


class Answering:
    """What the programs answer, one job after the other, and what they were asked."""

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


def made(
    tmp_path: Path, *answers: list[dict[str, Any]], where: str = "/dev/ubda", **more: Any
) -> tuple[Oracle, Answering]:
    machine = machine_of(Device("ubda", number="98:0"))
    lab = Lab(machine, host_in(tmp_path), [lab_disk()])
    answering = Answering(machine, *answers)
    return Oracle.open(lab, tmp_path, where, **more), answering


def new_events(*events: list[Any]) -> dict[str, Any]:
    return {"step": 1, "kind": "tell", "new": list(events)}


FILLED = [["write", 1, 8, 4, 0], ["acknowledged", 1], ["flush", 2], ["acknowledged", 2]]
CHECKED = {"step": 0, "kind": "check", "verdicts": {"intact": 4}, "bad": []}


def test_a_later_process_continues_the_ledger(tmp_path: Path) -> None:
    oracle, _ = made(tmp_path, [new_events(*FILLED), END], first_block=8, block_count=4, seed="s", mix={"depth": 2})
    oracle.fill()
    again, answering = made(tmp_path, [CHECKED, END])
    assert (again.region, again.events) == (oracle.region, FILLED)
    assert again.check().is_intact
    (job,) = answering.jobs()
    assert job["ledger"] == FILLED
    assert job["seed"] == "s:1"
    assert job["steps"] == [["check"], ["tell"]]


def test_beginning_anew_forgets_the_ledger_and_changes_the_content(tmp_path: Path) -> None:
    oracle, answering = made(tmp_path, [new_events(*FILLED), END], [END], first_block=8, block_count=4)
    oracle.fill()
    oracle.fill()
    assert oracle.events == []
    assert [job["seed"] for job in answering.jobs()] == ["oracle:1", "oracle:2"]


def test_the_machine_hears_of_nothing_that_is_not_noted(tmp_path: Path) -> None:
    oracle, answering = made(tmp_path, [new_events(*FILLED), END], [], first_block=8, block_count=4)
    oracle.fill()
    with pytest.raises(LabError):
        oracle.advance(3)
    # Three operations are in doubt, on any block of the region, also for a later process.
    again, answering = made(tmp_path, [CHECKED, END])
    assert again.check(after_loss=True).is_intact
    assert again.events[len(FILLED) :] == [["write", number, 8, 4, 0] for number in (3, 4, 5)]
    assert Ledger(again.events).allowed()[8] == [1, 3, 4, 5]
    (job,) = answering.jobs()
    assert job["steps"] == [["check"], ["settle"], ["tell"]]
    assert made(tmp_path)[0].events == again.events


def test_writes_acknowledged_before_the_loss_are_certain(tmp_path: Path) -> None:
    write = [["write", 3, 9, 1, 0], ["acknowledged", 3]]
    oracle, _ = made(
        tmp_path, [new_events(*FILLED), END], [new_events(*write)], [CHECKED, END], first_block=8, block_count=4
    )
    oracle.fill()
    with pytest.raises(LabError):
        oracle.advance(2)
    oracle.check(after_loss=True)
    assert oracle.events[len(FILLED) :] == [*write, ["write", 4, 8, 4, 0]]
    assert Ledger(oracle.events).allowed()[9] == [3, 4]


def test_uncertain_file_events_are_derived_from_the_seed(tmp_path: Path) -> None:
    plan = FilePlan("oracle:1", FileLedger([["begin", 1, {}]]), {})
    first = [event for one in (plan.next().event for _ in range(5)) for event in (one, ["acknowledged", one[1]])]
    expected = [plan.next().event for _ in range(40 - 5)]
    oracle, _ = made(tmp_path, [new_events(["begin", 1, {}], *first)], where=FOLDER)
    with pytest.raises(LabError):
        oracle.fill()
    recheck = {"step": 0, "kind": "recheck", "verdicts": {}, "bad": []}
    again, answering = made(tmp_path, [recheck, END], where=FOLDER)
    again.check(after_loss=True)
    assert again.events == [["begin", 1, {}], *first, *expected]
    (job,) = answering.jobs()
    assert (job["steps"][0], job["folder"]) == (["recheck"], FOLDER)


def test_a_loss_before_the_writer_reported_its_start(tmp_path: Path) -> None:
    oracle, _ = made(tmp_path, [], where=FOLDER)
    with pytest.raises(LabError):
        oracle.fill()
    again, _ = made(tmp_path, [{"step": 0, "verdicts": {}, "bad": []}, END], where=FOLDER)
    again.check(after_loss=True)
    plan = FilePlan("oracle:1", FileLedger([["begin", 1, {}]]), {})
    assert again.events == [["begin", 1, {}], *(plan.next().event for _ in range(40))]


def test_a_damaged_ledger_is_reported(tmp_path: Path) -> None:
    oracle, _ = made(tmp_path, [new_events(*FILLED), END], first_block=8, block_count=4)
    oracle.fill()
    oracle.file.write_bytes(oracle.file.read_bytes().replace(b'"first_block":8', b'"first_block":"x"'))
    with pytest.raises(LabError, match="damaged"):
        made(tmp_path)


def test_failed_operations_are_reported(tmp_path: Path) -> None:
    failed = {"step": 0, "kind": "work", "failures": 2, "first_failure": "write: No space left on device"}
    oracle, _ = made(tmp_path, [failed, END], where=FOLDER)
    with pytest.raises(LabError, match="No space left"):
        oracle.fill()


def test_a_device_that_is_not_the_labs_is_refused_before_anything_is_noted(tmp_path: Path) -> None:
    oracle, answering = made(tmp_path, where="/dev/sda", block_count=4)
    with pytest.raises(DeviceRefused):
        oracle.fill()
    assert answering.jobs() == []


def test_without_a_number_of_blocks_the_device_is_asked(tmp_path: Path) -> None:
    machine = machine_of(Device("ubda", number="98:0"))
    machine.answers[("blockdev",)] = Scripted("409600\n")
    lab = Lab(machine, host_in(tmp_path), [lab_disk()])
    assert Oracle.open(lab, tmp_path, "/dev/ubda", first_block=10).region.block_count == 90


def array(level: str, members: int, chunk: int | None, layout: int = 0) -> ArrayStatus:
    texts = {"level": level, "raid_disks": str(members), "component_size": "1024"}
    texts |= {"chunk_size": str(chunk or 0), "layout": str(layout)}
    folders = [f"dev-d{slot}" for slot in range(members)]
    for slot, folder in enumerate(folders):
        texts |= {f"{folder}/slot": str(slot), f"{folder}/state": "in_sync", f"{folder}/size": "1024"}
    return parse_array("md0", folders, {f"/sys/block/md0/md/{name}": text for name, text in texts.items()})


@pytest.mark.parametrize(
    ("status", "offset", "expected"),
    [
        # Left-symmetric: row 0 has data on 0, 1, 2 and parity on 3; row 1 begins on 3, with parity on 2.
        (array("raid5", 4, 4096, 2), 0, (0, {"/dev/d0", "/dev/d3"})),
        (array("raid5", 4, 4096, 2), 3 * 4096 + 5, (1, {"/dev/d3", "/dev/d2"})),
        (array("raid6", 4, 4096, 2), 0, (0, {"/dev/d1", "/dev/d3", "/dev/d0"})),
        (array("raid10", 4, 4096, 0x102), 4096, (0, {"/dev/d2", "/dev/d3"})),
        (array("raid1", 2, None), 123456, (None, {"/dev/d0", "/dev/d1"})),
        (array("raid0", 3, 4096), 4 * 4096, (1, {"/dev/d1"})),
    ],
)
def test_where_a_bad_block_lies(status: ArrayStatus, offset: int, expected: tuple[int | None, set[str]]) -> None:
    stripe, members = place_of(status, offset)
    assert (stripe, set(members)) == expected


def test_a_verdict_is_a_sentence() -> None:
    good = OracleVerdict({"intact": 3, "in-flight old": 1}, ())
    assert good.is_intact
    assert good.sentence == "all 4 blocks are correct (3 intact, 1 in-flight old)"
    place = BadPlace("/dev/md0", 8192, "silently corrupt", "zeros", "generations [3]", 7, ("/dev/d0", "/dev/d3"))
    bad = OracleVerdict({"intact": 3, "silently corrupt": 1}, (place,))
    assert not bad.is_intact
    assert bad.sentence.endswith(
        "first /dev/md0 at byte 8192, stripe 7, on /dev/d0, /dev/d3: "
        "silently corrupt, found zeros, allowed generations [3]"
    )


@pytest.mark.parametrize("bug", oracle_bugs(), ids=lambda bug: bug.name)
def test_each_changes_one_text_of_the_program_and_leaves_it_a_program(bug: OracleBug) -> None:
    files, changed = program_files(CONTROLS), program_files(CONTROLS, bug.change)
    assert changed.folder != files.folder
    (text,) = (text for path, text in changed.texts.items() if path.endswith(".py") and text != files.texts[path])
    compile(text, bug.name, "exec")
