from __future__ import annotations

import pytest

from lab.arrays.discovery import FoundArray, arrays_in, parse_superblock
from lab.arrays.kinds import MD
from lab.disks.inventory import FIRST_BYTES, LAST_BYTES, read_ends
from tests.unit.cli.superblocks import READS, as_read, ends, superblock
from tests.unit.fakes import FakeMachine, Scripted, as_machine

A, B, C, D = (f"/dev/ubd{letter}" for letter in "abcd")
SPARE, FAULTY, JOURNAL = 0xFFFF, 0xFFFE, 0xFFFD


def found(disks: dict[str, bytes]) -> tuple[FoundArray, ...]:
    parsed = {node: parse_superblock(data) for node, data in disks.items()}
    return arrays_in({node: each for node, each in parsed.items() if each})


def test_one_call_reads_all_disks_and_no_process_is_started() -> None:
    roles = [0, 1, 2]
    fake = FakeMachine()
    fake.answers[READS] = Scripted(stdout=as_read([superblock(0, roles), None, superblock(1, roles)]))
    read = read_ends(as_machine(fake), [A, B, C], FIRST_BYTES)
    (array,) = MD.discover(read, "here")
    assert (array.name, array.devices, array.working_slots) == ("md0", (A, C), (0, 1))
    assert array.refusal == ""
    assert array.start_plan(as_machine(fake)).lines() == [f"mdadm --assemble --run /dev/md0 {A} {C}"]
    assert fake.runs == [(*READS, str(FIRST_BYTES), str(LAST_BYTES), A, B, C)]


def test_a_blank_lab_has_no_arrays() -> None:
    assert MD.discover(dict(zip((A, B), ends([None, None]), strict=True)), "here") == ()
    assert read_ends(as_machine(FakeMachine()), [], MD.head_bytes) == {}


def test_a_failed_member_is_a_former_one() -> None:
    now = [0, FAULTY, 2]
    (array,) = found({A: superblock(0, now, events=20), B: superblock(1, [0, 1, 2]), C: superblock(2, now, events=20)})
    assert array.devices == (A, C)
    assert array.former_devices == (B,)
    assert array.refusal == ""


@pytest.mark.parametrize("role", [SPARE, JOURNAL])
def test_spares_and_the_journal_come_after_the_members(role: int) -> None:
    (array,) = found({node: superblock(number, [0, 1, 2, role]) for number, node in ((3, D), (2, C), (0, A), (1, B))})
    assert array.devices == (A, B, C, D)


def test_too_few_members_are_not_started_and_one_that_is_rebuilt_does_not_count() -> None:
    sentence = "2 of 3 members are missing or out of date, more than it survives"
    alone = {A: superblock(0, [0, 1, 2])}
    for disks in (alone, {**alone, C: superblock(2, [0, 1, 2], features=2)}):
        (array,) = found(disks)
        assert (array.working_slots, array.refusal) == ((0,), sentence)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("server:0", "its name 'server:0' says that it belongs to the computer 'server'"),
        ("any:home", "its name 'any:home' is not one of the lab's, which are md0 to md999"),
        ("home", "its name 'home' is not one of the lab's, which are md0 to md999"),
    ],
)
def test_an_array_of_another_name_waits_to_be_asked_for(name: str, message: str) -> None:
    roles = [0, 1, 2]
    (array,) = found({node: superblock(number, roles, name=name) for number, node in enumerate((A, B, C))})
    assert (array.name, array.refusal, array.obstacle, array.needs_asking) == (name, message, "", True)
    assert array.named_for(["md127"]).name == "md126"


def test_control_characters_in_a_name_are_escaped() -> None:
    (array,) = found({A: superblock(0, [0], level=1, slots=1, name="a\x1b[2J\nmd0")})
    assert array.name == r"a\x1b[2J\x0amd0"


@pytest.mark.parametrize("data", [b"", bytes(1024), superblock(0, [0])[:200]])
def test_data_without_a_superblock_parse_to_none(data: bytes) -> None:
    assert parse_superblock(data) is None
