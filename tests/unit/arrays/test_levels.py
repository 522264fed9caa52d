from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.arrays.levels import (
    Level,
    LevelName,
    Raid0,
    Raid1,
    Raid4,
    Raid5,
    Raid6,
    Raid10,
    Raid10Layout,
    Single,
    data_offset_bytes,
    layout_name,
    level_with_layout,
    parse_level,
    usable_bytes,
)
from lab.errors import SpecError
from lab.units import GIB, KIB, MIB

CHUNKS = st.sampled_from([4 * KIB, 64 * KIB, 512 * KIB])
LEVELS: st.SearchStrategy[Level] = st.one_of(
    st.sampled_from([Raid0(), Raid1(), Raid4(), Raid5(), Raid6()]),
    st.builds(Raid10, st.sampled_from(Raid10Layout), st.integers(2, 4)),
)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Level, int]:
    level = draw(LEVELS)
    copies = level.copies if isinstance(level, Raid10) else 0
    return level, draw(st.integers(max(level.minimum_members, copies), 9))


@given(arrays())
def test_a_small_write_costs_at_most_the_textbook_unless_every_mirror_is_written(array: tuple[Level, int]) -> None:
    level, members = array
    ios = level.small_write(members).ios
    assert 1 <= ios <= max(level.write_penalty, members)
    if not isinstance(level, Raid1):
        assert ios <= level.write_penalty


@given(arrays(), st.just(set[int]()) | st.sets(st.integers(0, 8)))
def test_failures_survived_without_some_members_match_a_count_of_all_combinations(
    array: tuple[Level, int], missing: set[int]
) -> None:
    level, members = array
    failed = frozenset(slot for slot in missing if slot < members)
    present = [slot for slot in range(members) if slot not in failed]

    def further(count: int) -> list[bool]:
        return [level.survives(failed | frozenset(more), members) for more in combinations(present, count)]

    least, most = level.failures_survived_without(failed, members)
    if not failed:
        assert (least, most) == (level.minimum_failures_survived(members), level.maximum_failures_survived(members))
    if not level.survives(failed, members):
        assert (least, most) == (0, 0)
        return
    assert all(further(least))
    assert not all(further(least + 1)) or least == len(present)
    assert any(further(most))
    assert not any(further(most + 1))


def test_raid0_uses_all_of_unequal_disks_and_other_levels_the_smallest() -> None:
    # Measured with Linux 6.1 and mdadm 4.2 on 200 and 400 MiB with chunks of 64 KiB.
    assert usable_bytes(Raid0(), [200 * MIB, 400 * MIB], 64 * KIB) == 612352 * KIB
    assert usable_bytes(Raid1(), [200 * MIB, 400 * MIB]) == usable_bytes(Raid1(), [200 * MIB] * 2)


def test_parity_levels_reconstruct_when_that_touches_fewer_members() -> None:
    five, six = ([level.small_write(count) for count in range(3, 9)] for level in (Raid5(), Raid6()))
    # On four members of a RAID 5 both ways need two reads, and a tie goes to reconstruct-write.
    assert [(each.reads, each.writes) for each in five] == [(1, 2), *[(2, 2)] * 5]
    assert [each.modifies for each in five] == [False, False, *[True] * 4]
    assert [(each.reads, each.writes) for each in six[1:]] == [(1, 3), (2, 3), *[(3, 3)] * 3]
    assert (Raid5().write_penalty, Raid6().write_penalty, Raid4().write_penalty) == (4, 6, 4)


def test_members_that_one_sequential_reader_keeps_busy() -> None:
    assert Raid1().sequential_read_members(2) == 1
    assert Raid10(Raid10Layout.FAR).sequential_read_members(4) == 4


@pytest.mark.parametrize(
    ("level", "members", "chunk", "kib"),
    [
        (Raid0(), 2, 512 * KIB, 1019904),
        (Raid1(), 2, None, 510976),
        (Raid5(), 3, 512 * KIB, 1019904),
        (Raid6(), 4, 64 * KIB, 1021952),
        (Raid10(), 3, 512 * KIB, 764928),
        (Raid10(Raid10Layout.FAR), 4, 64 * KIB, 1021952),
    ],
)
def test_capacity_of_500_mib_members_is_what_the_kernel_gives(
    level: Level, members: int, chunk: int | None, kib: int
) -> None:
    assert usable_bytes(level, [500 * MIB] * members, chunk) == kib * KIB


def test_ppl_takes_one_mebibyte_of_each_member_and_a_bare_disk_is_used_whole() -> None:
    assert usable_bytes(Raid5(), [500 * MIB] * 3, has_ppl=True) == 1017856 * KIB
    assert usable_bytes(Single(), [500 * MIB]) == 500 * MIB


@given(st.integers(16 * MIB, 4 * 1024 * GIB), CHUNKS)
def test_the_data_offset_is_whole_mebibytes_of_at_most_130(device_bytes: int, chunk: int) -> None:
    offset = data_offset_bytes(device_bytes, chunk)
    assert offset % MIB == 0
    assert MIB <= offset <= 130 * MIB


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("5", LevelName.RAID5),
        ("raid5", LevelName.RAID5),
        ("RAID 5", LevelName.RAID5),
        ("RAID-6", LevelName.RAID6),
        ("mirror", LevelName.RAID1),
        ("stripe", LevelName.RAID0),
        ("1+0", LevelName.RAID10),
        ("single", LevelName.SINGLE),
        ("disk", LevelName.SINGLE),
    ],
)
def test_people_write_levels_in_many_ways(text: str, name: LevelName) -> None:
    assert parse_level(text).name is name


@pytest.mark.parametrize(("text", "guess"), [("raid55", "raid5"), ("miror", "raid1"), ("raid", "raid"), ("linear", "")])
def test_an_unknown_level_names_the_nearest_and_all_known(text: str, guess: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_level(text)
    assert guess in caught.value.message
    assert "raid10" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "number", "word"),
    [
        (LevelName.RAID5, 2, "left-symmetric"),
        (LevelName.RAID6, 18, "left-symmetric-6"),
        (LevelName.RAID5, 99, None),
        (LevelName.RAID10, 0x102, "n2"),
        (LevelName.RAID10, 0x201, "f2"),
        (LevelName.RAID10, 0x10201, "o2"),
        (LevelName.RAID10, 0x202, None),
        (LevelName.RAID1, 0, None),
    ],
)
def test_layout_numbers(name: LevelName, number: int, word: str | None) -> None:
    assert layout_name(name, number) == word


def test_layouts_are_checked_against_the_level() -> None:
    assert level_with_layout("10", "f3") == Raid10(Raid10Layout.FAR, 3)
    for level, layout in (("raid10", "x2"), ("raid10", "n1"), ("raid5", "n2"), ("raid1", "left-symmetric")):
        with pytest.raises(SpecError):
            level_with_layout(level, layout)
