"""Levels (capacity, fault tolerance, cost of a small write, data offset, layouts) and array names, without any I/O."""

from __future__ import annotations

import difflib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from lab.errors import SpecError
from lab.plugins import extensions
from lab.units import KIB, MIB, SECTOR_BYTES

_ARRAY = re.compile(r"md(?:0|[1-9][0-9]{0,2})")
_NODE = re.compile(r"/dev/[A-Za-z0-9][A-Za-z0-9._/:+-]*")


def is_array_name(name: str) -> bool:
    """Whether ``name`` has the form of an array's kernel name, such as md0, which /dev, sysfs and diskstats use."""
    return bool(_ARRAY.fullmatch(name))


def is_device_node(node: str) -> bool:
    """Whether ``node`` is an absolute path under /dev without anything that a shell or mdadm could misread."""
    return bool(_NODE.fullmatch(node)) and "/../" not in node


def _require_array_name(name: str) -> str:
    if not is_array_name(name):
        raise SpecError(f"'{name}' is not an array name", hint="write 'md' and a number below 1000, such as md0")
    return name


def array_device(name: str) -> str:
    """Return the device node of an array, such as ``/dev/md0`` for ``md0``."""
    return f"/dev/{_require_array_name(name)}"


def md_path(name: str, attribute: str = "") -> str:
    """Return the path of an attribute in the array's md folder (Documentation/admin-guide/md.rst in the kernel)."""
    folder = f"/sys/block/{_require_array_name(name)}/md"
    return f"{folder}/{attribute}" if attribute else folder


def node_of(kernel_name: str) -> str:
    """Return the device node for a kernel name; sysfs writes ``!`` where the node has ``/``."""
    return f"/dev/{kernel_name.replace('!', '/')}"


def kernel_name(node: str) -> str:
    """Return the kernel name of a device node, such as ``sdb`` for ``/dev/sdb``."""
    return node.removeprefix("/dev/").replace("/", "!")


DEFAULT_CHUNK_BYTES = 512 * KIB
"""mdadm's default (mdadm(8), --chunk)."""


class LevelName(StrEnum):
    """The levels that the lab builds, spelled as in mdadm and sysfs; ``single`` is a bare disk, the baseline."""

    SINGLE = "single"
    RAID0 = "raid0"
    RAID1 = "raid1"
    RAID4 = "raid4"
    RAID5 = "raid5"
    RAID6 = "raid6"
    RAID10 = "raid10"


@dataclass(frozen=True, slots=True)
class SmallWrite:
    """The member I/Os that md issues for one write smaller than a chunk on a healthy array, with nothing cached."""

    reads: int
    writes: int
    modifies: bool = False
    """Whether md reads the old data and parity (read-modify-write) and not the other data of the stripe, if any."""

    @property
    def ios(self) -> int:
        return self.reads + self.writes


class Level(ABC):
    """The properties of a level, for any number of equal members."""

    __slots__ = ()

    name: ClassVar[LevelName]
    minimum_members: ClassVar[int]
    has_chunk: ClassVar[bool] = True
    is_redundant: ClassVar[bool] = True
    has_zones: ClassVar[bool] = False
    """Whether md uses all of each member even if their sizes differ, in zones with fewer and fewer members."""
    parity_members: ClassVar[int] = 0
    """The number of parity chunks in each stripe."""

    @property
    @abstractmethod
    def write_penalty(self) -> int:
        """The number of member I/Os that textbooks count for one small random write."""

    def data_members(self, members: int) -> Fraction:
        """Return how many members' worth of data the array holds, which may be a fraction in RAID 10."""
        return Fraction(members - self.parity_members)

    def minimum_failures_survived(self, members: int) -> int:
        """Return the number of members that can fail without loss of data, no matter which ones fail."""
        return self.parity_members

    def maximum_failures_survived(self, members: int) -> int:
        """Return the largest number of members that can fail without loss of data, if the right ones fail."""
        return self.minimum_failures_survived(members)

    def survives(self, failed: frozenset[int], members: int) -> bool:
        """Whether all data can still be read if exactly the members in the slots ``failed`` have failed."""
        return len({slot for slot in failed if 0 <= slot < members}) <= self.minimum_failures_survived(members)

    def failures_survived_without(self, failed: frozenset[int], members: int) -> tuple[int, int]:
        """Return how many more members can fail after ``failed``, at worst and at best. Both are 0 if data are lost."""
        missing = len({slot for slot in failed if 0 <= slot < members})
        least, most = self.minimum_failures_survived(members), self.maximum_failures_survived(members)
        return max(0, least - missing), max(0, most - missing)

    def small_write(self, members: int) -> SmallWrite:
        return SmallWrite(0, self.write_penalty)

    def member_used_bytes(self, member_bytes: int, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> int:
        """Return how many bytes of each member hold data or redundancy, in whole chunks if the level has chunks."""
        return member_bytes - member_bytes % chunk_bytes if self.has_chunk else member_bytes

    def capacity_bytes(self, members: int, member_bytes: int, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> int:
        return int(self.data_members(members) * self.member_used_bytes(member_bytes, chunk_bytes))

    def capacity_of(self, member_bytes: Sequence[int], chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> int:
        """Return the capacity of an array whose members may differ in size; the smallest decides, except in RAID 0."""
        return self.capacity_bytes(len(member_bytes), min(member_bytes), chunk_bytes)

    def full_stripe_bytes(self, members: int, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> int:
        """Return the bytes of data in one full stripe, or 0 for a level without stripes."""
        return int(self.data_members(members) * chunk_bytes) if self.has_chunk else 0

    def sequential_read_members(self, members: int, *, is_rotational: bool = True) -> Fraction:
        """Return the best throughput of one sequential reader, as a multiple of one member's."""
        return self.data_members(members)


@dataclass(frozen=True, slots=True)
class Single(Level):
    """One bare disk without md, which is the baseline of every comparison."""

    name = LevelName.SINGLE
    minimum_members = 1
    has_chunk = False
    is_redundant = False
    write_penalty = 1

    def data_members(self, members: int) -> Fraction:
        return Fraction(1)


@dataclass(frozen=True, slots=True)
class Raid0(Level):
    """Stripes without redundancy."""

    name = LevelName.RAID0
    minimum_members = 2
    is_redundant = False
    has_zones = True
    write_penalty = 1

    def capacity_of(self, member_bytes: Sequence[int], chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> int:
        # create_strip_zones() in drivers/md/raid0.c uses whole chunks of every member.
        return sum(self.member_used_bytes(each, chunk_bytes) for each in member_bytes)


@dataclass(frozen=True, slots=True)
class Raid1(Level):
    """Every member holds all data."""

    name = LevelName.RAID1
    minimum_members = 2
    has_chunk = False
    write_penalty = 2

    def data_members(self, members: int) -> Fraction:
        return Fraction(1)

    def minimum_failures_survived(self, members: int) -> int:
        return members - 1

    def small_write(self, members: int) -> SmallWrite:
        return SmallWrite(0, members)


class _Parity(Level):
    """Stripes with ``parity_members`` parity chunks each."""

    __slots__ = ()

    @property
    def write_penalty(self) -> int:
        # Read the old data and each old parity, then write the new data and parities.
        return 2 * (1 + self.parity_members)

    def small_write(self, members: int) -> SmallWrite:
        # handle_stripe_dirtying() in drivers/md/raid5.c counts the reads of both methods, and chooses read-modify-write
        # only if it needs fewer. Reconstruct-write reads the other data chunks, so it touches every member once.
        written = 1 + self.parity_members
        modify, reconstruct = written, members - written
        return SmallWrite(min(modify, reconstruct), written, modifies=modify < reconstruct)


@dataclass(frozen=True, slots=True)
class Raid4(_Parity):
    """Parity on a dedicated member, which is the last one."""

    name = LevelName.RAID4
    minimum_members = 3
    parity_members = 1


@dataclass(frozen=True, slots=True)
class Raid5(_Parity):
    """One parity chunk per stripe, on each member in turn. The lab requires three members, although md accepts two."""

    name = LevelName.RAID5
    minimum_members = 3
    parity_members = 1


@dataclass(frozen=True, slots=True)
class Raid6(_Parity):
    """Two different parity chunks per stripe."""

    name = LevelName.RAID6
    minimum_members = 4
    parity_members = 2


class Raid10Layout(StrEnum):
    """Where RAID 10 puts the copies of a chunk (md(4), RAID10); the values are mdadm's letters."""

    NEAR = "n"
    FAR = "f"
    OFFSET = "o"


@dataclass(frozen=True, slots=True)
class Raid10(Level):
    """Stripes of mirrored chunks on two or more members; the number of members may be odd."""

    layout: Raid10Layout = Raid10Layout.NEAR
    copies: int = 2

    name = LevelName.RAID10
    minimum_members = 2

    @property
    def layout_word(self) -> str:
        """The argument of mdadm's ``--layout``, for example ``n2``."""
        return f"{self.layout.value}{self.copies}"

    @property
    def write_penalty(self) -> int:
        return self.copies

    def copy_sets(self, members: int) -> frozenset[frozenset[int]]:
        """Return each set of slots that together hold all copies of some chunk, as in _enough() in drivers/md/raid10.c.

        Near copies fill the slots one after the other, so the sets start ``copies`` slots apart and may wrap around;
        far and offset copies are shifted by one slot.
        """
        step = self.copies if self.layout is Raid10Layout.NEAR else 1
        starts = range(0, members * step, step)
        return frozenset(frozenset((start + copy) % members for copy in range(self.copies)) for start in starts)

    def data_members(self, members: int) -> Fraction:
        return Fraction(members, self.copies)

    def minimum_failures_survived(self, members: int) -> int:
        return self.copies - 1

    def maximum_failures_survived(self, members: int) -> int:
        # One survivor in every window of ``copies`` neighbouring slots is enough.
        return members - math.ceil(members / self.copies)

    def survives(self, failed: frozenset[int], members: int) -> bool:
        return not any(copies <= failed for copies in self.copy_sets(members))

    def failures_survived_without(self, failed: frozenset[int], members: int) -> tuple[int, int]:
        left = [copies - failed for copies in self.copy_sets(members)]
        if not all(left):
            return 0, 0
        alive = members - len({slot for slot in failed if 0 <= slot < members})
        return min(map(len, left)) - 1, alive - self._fewest_that_hold_all(left, members)

    def _fewest_that_hold_all(self, left: Sequence[frozenset[int]], members: int) -> int:
        """Return the size of the smallest set of slots that holds a copy of everything.

        Copies lie on neighbouring slots of a ring. Each slot of the smallest copy set is tried as the first choice.
        This choice cuts the ring into a line, on which it is optimal to choose the last slot of each set that is not
        covered yet.
        """

        def taking(first: int) -> int:
            further = ([(slot - first) % members for slot in copies] for copies in left if first not in copies)
            taken = [0]
            for places in sorted(further, key=max):
                if taken[-1] < min(places):
                    taken.append(max(places))
            return len(taken)

        return min(taking(slot) for slot in min(left, key=lambda copies: len(copies)))

    def capacity_bytes(self, members: int, member_bytes: int, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> int:
        # raid10_size() in drivers/md/raid10.c divides the member by far copies, the array by near copies, in chunks.
        far, near = (1, self.copies) if self.layout is Raid10Layout.NEAR else (self.copies, 1)
        return member_bytes // chunk_bytes // far * members // near * chunk_bytes

    def member_used_bytes(self, member_bytes: int, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> int:
        # Far and offset copies split the member into ``copies`` equal parts.
        parts = 1 if self.layout is Raid10Layout.NEAR else self.copies
        return parts * chunk_bytes * (member_bytes // chunk_bytes // parts)

    def sequential_read_members(self, members: int, *, is_rotational: bool = True) -> Fraction:
        # The far layout has one whole copy striped like RAID 0 on the outer half (md(4)). Among non-rotational members
        # read_balance() in drivers/md/raid10.c chooses the one with the fewest requests, so all share the stream.
        if self.layout is Raid10Layout.FAR or not is_rotational:
            return Fraction(members)
        return self.data_members(members)


_SUPERBLOCK_AREA_SECTORS = 12 * 2
_PPL_AREA_SECTORS = MIB // SECTOR_BYTES


def data_offset_bytes(device_bytes: int, chunk_bytes: int | None, *, has_ppl: bool = False) -> int:
    """Return the expected offset of the data on a member of ``device_bytes`` with 1.2 metadata.

    As in validate_geometry1() in mdadm's super1.c, it is the sum of superblock, bitmap space, headroom for a reshape
    (about 0.1 %, at least two chunks) and 1 MiB for a PPL, rounded up to 1 MiB. The real value, which may differ, comes
    from sysfs.
    """
    sectors = device_bytes // SECTOR_BYTES
    headroom = 128 * MIB // SECTOR_BYTES
    smallest = 0 if chunk_bytes is None else 2 * chunk_bytes // SECTOR_BYTES
    while (headroom << 10) > sectors and (chunk_bytes is None or headroom > smallest):
        headroom >>= 1
    needed = _SUPERBLOCK_AREA_SECTORS + _bitmap_space_sectors(sectors) + headroom + has_ppl * _PPL_AREA_SECTORS
    return -(-needed * SECTOR_BYTES // MIB) * MIB


def usable_bytes(
    level: Level, device_bytes: Sequence[int], chunk_bytes: int | None = None, *, has_ppl: bool = False
) -> int:
    """Return the expected capacity of an array on disks of these sizes, without the space for metadata."""
    if level.minimum_members == 1:
        return min(device_bytes)
    chunk = (chunk_bytes or DEFAULT_CHUNK_BYTES) if level.has_chunk else None
    rooms = [each - data_offset_bytes(each, chunk, has_ppl=has_ppl) for each in device_bytes]
    return level.capacity_of(rooms, chunk or DEFAULT_CHUNK_BYTES)


def _bitmap_space_sectors(sectors: int) -> int:
    """Return 0, 4, 64 or 128 KiB in sectors, depending on the device's size (choose_bm_space() in mdadm's super1.c)."""
    kib = KIB // SECTOR_BYTES
    if sectors < 64 * kib:
        return 0
    if sectors - 64 * kib >= 200 * MIB * kib:
        return 128 * kib
    return 64 * kib if sectors - 4 * kib > 8 * MIB * kib else 4 * kib


class AddedKind(NamedTuple):
    """A kind of array that a plugin adds, with the names of its levels; the kind itself contains their arithmetic."""

    load: Callable[[], Any]
    """The function that imports the kind, which is an ``ArrayKind`` (``lab.arrays.array``)."""
    levels: tuple[str, ...]
    makes: str
    """What these levels make, for the error message where only md's own levels are accepted."""
    nicknames: Mapping[str, str] = MappingProxyType({})
    """Maps other common names to the levels that they stand for."""


_LEVELS = {level.name: level for level in (Single(), Raid0(), Raid1(), Raid4(), Raid5(), Raid6(), Raid10())}
_NICKNAMES = {
    "disk": LevelName.SINGLE,
    "none": LevelName.SINGLE,
    "jbod": LevelName.SINGLE,
    "stripe": LevelName.RAID0,
    "mirror": LevelName.RAID1,
    "1+0": LevelName.RAID10,
    "raid1+0": LevelName.RAID10,
}
_WORDS = (
    {name.value: name for name in LevelName}
    | _NICKNAMES
    | {name.value.removeprefix("raid"): name for name in LevelName}
)
_RAID10_LAYOUT = re.compile(r"([nfo])(\d+)")

ROTATIONS = ("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric")
"""The parity rotations of RAID 5 and 6, in the order in which the lab offers them; the first is mdadm's default."""


def parse_level(text: str) -> Level:
    """Return the level for a word such as ``5``, ``RAID 5`` or ``mirror``; RAID 10 gets layout n2. Raises SpecError."""
    word = re.sub(r"[\s_-]", "", text).lower()
    if word in _WORDS:
        return _LEVELS[_WORDS[word]]
    added = extensions(AddedKind)
    others = {level: each.makes for each in added for level in each.levels}
    if word in others:
        raise SpecError(
            f"level {word} is not supported here, because it makes {others[word]}",
            hint=f"use 'raidlab array create --level {word}' to create one",
        )
    titles = {**_WORDS, **{level: level for level in others}}
    titles |= {nickname: level for each in added for nickname, level in each.nicknames.items()}
    near = difflib.get_close_matches(word, (name for name in titles if not name.isdecimal()), n=1, cutoff=0.5)
    guess = f"; did you mean {titles[near[0]]}?" if near else ""
    more = f"; for disks of different sizes: {', '.join(others)}" if others else ""
    raise SpecError(f"unknown level '{text}'{guess}", hint=f"choose one of {', '.join(LevelName)}{more}")


def layout_words(level: LevelName) -> tuple[str, ...]:
    """Return mdadm's names for the layouts that a level offers, or none if there is no choice."""
    if level in (LevelName.RAID5, LevelName.RAID6):
        return ROTATIONS
    return ("n2", "f2", "o2") if level is LevelName.RAID10 else ()


def level_with_layout(text: str, layout: str | None) -> Level:
    """Return the level with this layout, which changes only the arithmetic of RAID 10. Raises SpecError if unknown."""
    level = parse_level(text)
    if layout is None:
        return level
    if isinstance(level, Raid10):
        match = _RAID10_LAYOUT.fullmatch(layout)
        if match and int(match[2]) >= 2:
            return Raid10(Raid10Layout(match[1]), int(match[2]))
        raise SpecError(
            f"'{layout}' is not a layout of raid10",
            hint="write n, f or o (near, far, offset) and the number of copies, such as n2",
        )
    words = layout_words(level.name)
    if layout not in words:
        hint = f"choose one of {', '.join(words)}" if words else f"omit the layout for {level.name.value}"
        raise SpecError(f"'{layout}' is not a layout of {level.name.value}", hint=hint)
    return level


def layout_name(level: LevelName, number: int) -> str | None:
    """Return mdadm's name for the number in md/layout, or None if the level has no layouts or the number is unknown.

    The numbers are those of ALGORITHM_* in drivers/md/raid5.h. For RAID 10, the low byte is the number of near copies,
    the next byte that of far copies, and bit 16 is set for offset copies (setup_geo in raid10.c).
    """
    if level in (LevelName.RAID5, LevelName.RAID6):
        return ROTATION_NUMBERS.get(number)
    if level is not LevelName.RAID10 or number <= 0:
        return None
    near, far, is_offset = number & 0xFF, number >> 8 & 0xFF, bool(number >> 16 & 1)
    if far > 1 and near > 1:
        return None
    return f"{'o' if is_offset else 'f'}{far}" if far > 1 else f"n{near}"


ROTATION_NUMBERS = {
    0: "left-asymmetric",
    1: "right-asymmetric",
    2: "left-symmetric",
    3: "right-symmetric",
    4: "parity-first",
    5: "parity-last",
    16: "left-asymmetric-6",
    17: "right-asymmetric-6",
    18: "left-symmetric-6",
    19: "right-symmetric-6",
    20: "parity-first-6",
}
"""mdadm's name for each of md's numbers of a parity layout (drivers/md/raid5.h)."""
