"""What a scenario's steps are compiled against.

The array of a variant, its drives by number, and what is open just now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from lab.arrays.level_names import level_with_layout
from lab.arrays.levels import Level
from lab.errors import SpecError
from lab.faults.expected import OraclePlaces, places_of
from lab.faults.geometry import rows_of
from lab.units import KIB, MIB

NODE = "/dev/md0"
MD = "/sys/block/md0/md"
DATA_OFFSET_BYTES = 2 * MIB
"""Of each member: room for a partial parity log, which mdadm makes a MiB long, and for a reshape."""
POLICIES = {
    "resync": (),
    "bitmap": ("--bitmap=internal", "--bitmap-chunk=64K"),
    "ppl": ("--consistency-policy=ppl",),
    "journal": ("--write-journal=@{journal}",),
}

GuestSteps = list[list[Any]]
"""Steps of the program on the machine (guest/scenario.py)."""


class SceneArray(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array as a scenario's file says it.

    Its members are the drives from 0 on, then the journal if there is one, then its spares.
    """

    level: str = "raid5"
    members: Annotated[int, msgspec.Meta(ge=1, le=16)] = 4
    layout: str = ""
    """RAID 10's, such as f2; empty: mdadm's own choice."""
    chunk_bytes: int = 16 * KIB
    member_bytes: int = MIB
    policy: str = "resync"
    options: tuple[str, ...] = ()
    """Further ones of ``mdadm --create``."""
    spares: int = 0
    is_clean: bool = True
    """Created with ``--assume-clean``, on drives that are blank, so that parity and copies agree."""

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise SpecError(f"there is no policy '{self.policy}'", hint=f"known: {', '.join(POLICIES)}")
        if self.layout and self.level != "raid10":
            raise SpecError(f"a layout is chosen for RAID 10 alone here, not for {self.level}", hint="leave it out")
        _ = self.raid

    @property
    def raid(self) -> Level:
        """The level, with RAID 10's layout."""
        return level_with_layout(self.level, self.layout or None)

    @property
    def places(self) -> OraclePlaces:
        """Where its blocks lie."""
        return places_of(self.raid, self.members, self.member_bytes, self.chunk_bytes)

    @property
    def told(self) -> str:
        """In words."""
        chunk = f", chunks of {self.chunk_bytes // KIB} KiB" if self.raid.has_chunk else ""
        layout = f" {self.layout}" if self.layout else ""
        return f"{self.level}{layout} of {self.members}{chunk}, {self.policy}"

    @property
    def journal(self) -> int | None:
        """The drive that is the journal."""
        return self.members if self.policy == "journal" else None

    @property
    def drives(self) -> int:
        """How many drives it has at the start."""
        return self.members + (self.journal is not None) + self.spares

    def creation(self) -> list[str]:
        """The command line of mdadm, with drives as ``@0``."""
        level = self.raid
        chunk = [f"--chunk={self.chunk_bytes // KIB}"] if level.has_chunk else []
        layout = [f"--layout={self.layout}"] if self.layout else []
        policy = [word.format(journal=self.journal) for word in POLICIES[self.policy]]
        # Newer versions of mdadm ask whether there is to be a bitmap, where nothing is said of it.
        no_bitmap = ["--bitmap=none"] if self.policy in ("resync", "journal") and level.is_redundant else []
        clean = ["--assume-clean"] if self.is_clean and level.is_redundant else []
        spares = [f"--spare-devices={self.spares}"] if self.spares else []
        first_spare = self.drives - self.spares
        return [
            *("mdadm", "--create", NODE, "--run", *clean, f"--level={self.level}", f"--raid-devices={self.members}"),
            *(*chunk, *layout, f"--size={self.member_bytes // KIB}", f"--data-offset={DATA_OFFSET_BYTES // MIB}M"),
            *(*no_bitmap, *policy, *spares, *self.options, *(f"@{number}" for number in range(self.members))),
            *(f"@{number}" for number in range(first_spare, self.drives)),
        ]


@dataclass
class Stage:
    """One variant while its steps are compiled."""

    array: SceneArray
    seed: str
    drives: int
    is_open: bool = False
    """Whether the oracle's writer has the array open: then md cannot be stopped."""
    mix: dict[str, int] = field(default_factory=dict)
    path: str = NODE
    """What the writer writes to: the array, or a file on it."""
    blocks: int = 0
    """Of the data that the oracle keeps; 0: of the whole array."""

    @property
    def data_blocks(self) -> int:
        return self.blocks or self.array.places.blocks

    def opened(self, **mix: int) -> GuestSteps:
        """The writer is open, and works as the mix says."""
        wanted = {"first": 0, "count": self.data_blocks, "stripe": self.array.places.row_blocks, **mix}
        if self.is_open and wanted == self.mix:
            return []
        steps = [*self.closed(), ["open", self.path, wanted]]
        self.is_open, self.mix = True, wanted
        return steps

    def closed(self) -> GuestSteps:
        """The writer has nothing open."""
        steps: GuestSteps = [["close"]] if self.is_open else []
        self.is_open = False
        return steps

    def member_bytes_at(self, at_bytes: int) -> int:
        """Where on a drive a place of a member's data lies."""
        return DATA_OFFSET_BYTES + at_bytes

    def job(self, nodes: tuple[str, ...], *, has_record: bool) -> dict[str, Any]:
        """What a history of this array needs besides its steps."""
        array = self.array
        return {
            "seed": self.seed,
            "geometry": rows_of(array.raid, None, array.members, array.member_bytes, array.chunk_bytes),
            "slots": [[slot, slot, DATA_OFFSET_BYTES] for slot in range(array.members)],
            "stripe_blocks": array.places.row_blocks,
            "nodes": list(nodes),
            "has_record": has_record,
        }


def built_in_values(array: SceneArray, seed: int) -> dict[str, int]:
    """Numbers that every scenario's words may name.

    ``{new}`` is the first drive that no array has, ``{last}`` the last member.
    """
    return {
        "new": array.drives,
        "newer": array.drives + 1,
        "last": array.members - 1,
        "members": array.members,
        "more": array.members + 1,
        "blocks": array.places.blocks,
        "stripe": array.places.row_blocks,
        "journal": array.members,
        "seed": seed,
        "size": array.member_bytes // 512,
    }
