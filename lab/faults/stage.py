"""The context in which steps of a scenario are compiled, and the facts with which expectations are compared.

The arithmetic of the levels determines which blocks are lost with certain members, which blocks an expectation denotes,
and where the parity of a block lies. The stage is the array of a variant, its drives by number, and what is open.

Evidence is the documents of a step from the program on the machine. Facts are the single values in it:

    data, intact, old, new, torn, lost, corrupt, unreadable    the oracle's verdict as text, and counts of blocks
    corrupt_at, lost_at, unreadable_at, bad_at                 block numbers, compared with the level's arithmetic
    array_state, degraded, mismatch_cnt, level …               attributes of md in sysfs
    member_2, errors_2, bad_blocks_2, slot_2, recovery_2       of the member on drive 2; ``gone`` if the array has none
    events_2                                                   the event count in the superblock of drive 2
    status, output, refused, text                              of a program, of a value that was written, of a file
    seconds and all other numbers that the step reports        see guest/scenario.py

An expectation is a value; a list of alternative values; ``~ TEXT``: the fact contains TEXT; ``!~ TEXT``: it does not;
or a comparison such as ``> 0``, ``<= 3``, ``< 0.5 * full.read_sectors``, where ``full`` is the name under which an
earlier step kept its facts. For block numbers: ``= slots 0 1`` means exactly these blocks, ``in row of 5`` a subset.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from lab.arrays.geometry import ChunkKind, stripe_rows
from lab.arrays.levels import Level, level_with_layout
from lab.errors import SpecError
from lab.faults.arrays import BLOCK_BYTES, DATA_OFFSET_BYTES, NODE, POLICIES, BlockMap, array_spec
from lab.faults.guest.ledger import ALLOWED, CORRUPT, INTACT, LOST, NEW, OLD, TORN, UNREADABLE
from lab.gates.text import shortened
from lab.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class OracleMemberPlace:
    """A place of a block on a member: its slot, and the offset in bytes from the start of the member's data."""

    slot: int
    at_bytes: int


@dataclass(frozen=True, slots=True)
class OraclePlaces:
    """The places of the oracle's blocks on an array of equal members."""

    map: BlockMap

    @property
    def blocks(self) -> int:
        """Number of data blocks of the array."""
        return self.map.blocks

    @property
    def row_blocks(self) -> int:
        """Data blocks of a full stripe; for mirrors, of a row of chunks."""
        stripe = self.map.level.full_stripe_bytes(self.map.members, self.map.chunk_bytes)
        return max(1, stripe // BLOCK_BYTES)

    def places(self, block: int) -> tuple[OracleMemberPlace, ...]:
        """The places of a block and its copies; the first one is that of the data."""
        return tuple(OracleMemberPlace(slot, page * BLOCK_BYTES) for slot, page in self.map.places(block))

    def parity_places(self, block: int) -> dict[str, OracleMemberPlace]:
        """``P`` and ``Q`` -> place of the parity of a block; empty for mirrors."""
        if not self.map.has_parity:
            return {}
        level, chunk = self.map.level, self.map.chunk_bytes
        place = self.places(block)[0]
        row = stripe_rows(level, None, self.map.members, place.at_bytes // chunk + 1)[-1]
        kinds = {each.kind: slot for slot, each in enumerate(row.chunks)}
        parities = [kind for kind in (ChunkKind.P, ChunkKind.Q) if kind in kinds]
        return {kind.value: OracleMemberPlace(kinds[kind], place.at_bytes) for kind in parities}

    def unreadable(self, failed: Collection[int]) -> frozenset[int]:
        """Blocks that cannot be read or reconstructed if exactly these slots are missing."""
        return frozenset(block for block in range(self.blocks) if not self.map.is_readable(block, failed))

    def on_slots(self, slots: Collection[int]) -> frozenset[int]:
        """Data blocks of which a member in these slots holds the data or a copy."""
        return frozenset(
            block for block in range(self.blocks) if any(each.slot in slots for each in self.places(block))
        )

    def row_of(self, block: int) -> frozenset[int]:
        """The blocks that share their parity bytes with a block, including itself; without parity, the block alone."""
        if not self.map.has_parity:
            return frozenset({block})
        first = block // self.row_blocks * self.row_blocks
        return frozenset(
            each
            for each in range(first, first + self.row_blocks)
            if self.map.strips([each]) == self.map.strips([block])
        )

    def described(self, block: int) -> str:
        """Such as ``block 5: stripe 0, member 1 at KiB 4``."""
        where = " and ".join(f"member {each.slot} at KiB {each.at_bytes // KIB}" for each in self.places(block))
        return f"block {block}: stripe {block // self.row_blocks}, {where}" if where else f"block {block}"

    def meant(self, words: str) -> frozenset[int]:
        """The blocks that ``slots 0 1``, ``lost with 0 1``, ``stripes 2-4``, ``blocks 5`` or ``row of 5`` denotes.

        ``slots``: data blocks on these members; ``lost with``: blocks that cannot be read without them; ``row of``:
        blocks that share their parity bytes with the block. Raises SpecError for any other text.
        """
        found = re.fullmatch(r"\s*([a-z ]*[a-z])\s+([\d, -]+)", words)
        kind, numbers = (found[1], numbers_in(found[2])) if found else ("", frozenset())
        match kind:
            case "slots":
                return self.on_slots(numbers)
            case "lost with":
                return self.unreadable(numbers)
            case "stripes":
                return frozenset(each for each in range(self.blocks) if each // self.row_blocks in numbers)
            case "blocks":
                return frozenset(numbers)
            case "row of":
                return frozenset(other for block in numbers for other in self.row_of(block))
            case _:
                raise SpecError(
                    f"'{words}' names no blocks",
                    hint="write slots, lost with, stripes, blocks or row of, and numbers such as 0 3-5",
                )


@lru_cache(maxsize=64)
def places_of(level: Level, members: int, member_bytes: int, chunk_bytes: int) -> OraclePlaces:
    """The block places of an array, in mdadm's default layout unless the level specifies another."""
    return OraclePlaces(BlockMap(level, members, member_bytes, chunk_bytes))


def numbers_in(text: str) -> frozenset[int]:
    """The numbers in a text such as ``0 3-5,8``. Raises SpecError for an invalid text."""
    found: set[int] = set()
    for part in filter(None, re.split(r"[\s,]+", text.strip())):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SpecError(f"'{part}' is no number", hint="write numbers and ranges, such as 0 3-5")
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)


VERDICT_FACTS = {
    "intact": INTACT,
    "old": OLD,
    "new": NEW,
    "torn": TORN,
    "lost": LOST,
    "corrupt": CORRUPT,
    "unreadable": UNREADABLE,
}
BLOCK_FACTS = ("corrupt_at", "lost_at", "unreadable_at", "bad_at")
MD_FACTS = (
    *("array_state", "degraded", "sync_action", "mismatch_cnt", "raid_disks", "resync_start", "consistency_policy"),
    *("reshape_position", "journal_mode"),
)
MEMBER_FACTS = {
    "member": "state",
    "errors": "errors",
    "bad_blocks": "bad_blocks",
    "slot": "slot",
    "recovery": "recovery_start",
}
NUMBER_FACTS = (
    *(
        "seconds",
        "failures",
        "operations",
        "blocks",
        "under_way",
        "fingerprint",
        "lasted",
        "rate",
        "each",
        "exposed",
        "most_degraded",
        "bad_in_flight",
    ),
    *("reads", "read_sectors", "writes", "write_sectors", "flushes", "rounds"),
    *(
        "points",
        "refused",
        "dead",
        "wrong_parity",
        "not_idle",
        "untouched_corrupt",
        "untouched_lost",
        "unreadable_points",
    ),
    *(
        "in_flight_corrupt",
        "outside_open_stripes",
        "untouched_elsewhere",
        "sets",
        "survived",
        "differing",
        "complaints",
    ),
    *("unsettled", "torn_up"),
)
OTHER_FACTS = (
    *("data", "md_level", "status", "output", "text", "idle", "heard", "late", "fits", "culprits", "broke"),
    *("right_after", "settled", "stop_status", "findings", "seeds", "same"),
)
NUMBERED = re.compile(r"(member|errors|bad_blocks|slot|recovery|events|copy|reads|writes)_(\d+)")
KNOWN = (*VERDICT_FACTS, *BLOCK_FACTS, *MD_FACTS, *NUMBER_FACTS, *OTHER_FACTS)
_COMPARISON = re.compile(r"(<=|>=|!=|<|>|=)\s*(-?[\d.]+)?\s*\*?\s*([a-z_][a-z0-9_-]*(?:\.[a-z_0-9]+)?)?\s*")
_LONGEST = 160


class FactCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation and the value found."""

    what: str
    wanted: str
    found: str
    is_met: bool


def is_fact(name: str) -> bool:
    """Whether a fact of this name exists."""
    return name in KNOWN or NUMBERED.fullmatch(name) is not None


def facts_of(evidence: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """All facts of a step; ``more`` are those specific to its class."""
    found: dict[str, Any] = {name: evidence[name] for name in (*NUMBER_FACTS, *OTHER_FACTS) if name in evidence}
    if isinstance(complaints := evidence.get("complaints"), list):
        found["complaints"] = len(complaints)
    if "verdicts" in evidence:
        found |= _of_verdicts(evidence)
    for name in MD_FACTS:
        if name in evidence.get("state", {}):
            found[name] = evidence["state"][name]
    if "state" in evidence and not evidence["state"]:
        found["array_state"] = "gone"
    if "level" in evidence.get("state", {}):
        found["md_level"] = evidence["state"]["level"]
    for number, words in evidence.get("members", {}).items():
        if isinstance(words, Mapping):
            found |= {f"{fact}_{number}": words[file] for fact, file in MEMBER_FACTS.items() if file in words}
    if isinstance(events := evidence.get("events"), dict):
        found |= {f"events_{number}": count for number, count in events.items()}
    found |= {name: count for name, count in evidence.items() if NUMBERED.fullmatch(name)}
    if "stop" in evidence:
        found["stop_status"] = evidence["stop"]["status"]
    return {**found, **more}


def _of_verdicts(evidence: Mapping[str, Any]) -> dict[str, Any]:
    verdicts: Mapping[str, int] = evidence["verdicts"]
    found: dict[str, Any] = {fact: verdicts.get(word, 0) for fact, word in VERDICT_FACTS.items()}
    bad = [fact for fact, word in VERDICT_FACTS.items() if word not in ALLOWED and verdicts.get(word)]
    found["data"] = " and ".join(bad) or "intact"
    at: Mapping[str, str] = evidence.get("at", {})
    for fact, word in VERDICT_FACTS.items():
        if word not in ALLOWED:
            found[f"{fact}_at"] = at.get(word, "")
    found["bad_at"] = ",".join(at.values())
    return found


def judge(
    name: str, wanted: Any, facts: Mapping[str, Any], kept: Mapping[str, Mapping[str, Any]], places: OraclePlaces
) -> FactCheck:
    """Compare a fact with its expectation. Raises SpecError for an invalid expectation."""
    match = NUMBERED.fullmatch(name)
    found = facts.get(name)
    if found is None and match and match[1] in MEMBER_FACTS and "array_state" in facts:
        found = "gone"
    told = "" if found is None else str(found)
    options = wanted if isinstance(wanted, list) else [wanted]
    is_met = found is not None and any(_fits(name, each, found, facts, kept, places) for each in options)
    said = " or ".join(_said(each, kept, facts) for each in options)
    return (
        FactCheck(what=name, wanted=said, found=shortened(told, _LONGEST) if told else "nothing", is_met=is_met)
        if name not in BLOCK_FACTS
        else FactCheck(
            what=name, wanted=said, found=f"blocks {shortened(told, _LONGEST)}" if told else "none", is_met=is_met
        )
    )


def _said(wanted: Any, kept: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """An expectation as text, with the number for which a name stands."""
    text = str(wanted)
    parts = _COMPARISON.fullmatch(text)
    if parts and parts[3]:
        return f"{text} ({_number(parts, kept, facts):g})"
    return text


def _fits(
    name: str,
    wanted: Any,
    found: Any,
    facts: Mapping[str, Any],
    kept: Mapping[str, Mapping[str, Any]],
    places: OraclePlaces,
) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return bool(found) is wanted
    if not isinstance(wanted, str):
        return _as_number(found) == float(wanted)
    if name in BLOCK_FACTS:
        return _fits_blocks(wanted, numbers_in(str(found)), places)
    if wanted.startswith("~"):
        return wanted[1:].strip() in str(found)
    if wanted.startswith("!~"):
        return wanted[2:].strip() not in str(found)
    parts = _COMPARISON.fullmatch(wanted)
    if parts and (parts[2] or parts[3]):
        left, right = _as_number(found), _number(parts, kept, facts)
        return (
            left is not None
            and {
                "<": left < right,
                ">": left > right,
                "<=": left <= right,
                ">=": left >= right,
                "=": left == right,
                "!=": left != right,
            }[parts[1]]
        )
    if name.startswith("member_"):
        # The state is a comma-separated list to which md may add words (Documentation/admin-guide/md.rst).
        return wanted in str(found).split(",")
    return str(found) == wanted


def _fits_blocks(wanted: str, found: frozenset[int], places: OraclePlaces) -> bool:
    if wanted.startswith("="):
        return found == places.meant(wanted[1:])
    if wanted.startswith("in "):
        return found <= places.meant(wanted[3:])
    raise SpecError(f"'{wanted}' compares no blocks", hint="write '= slots 0 1', or 'in row of 5'")


def _number(parts: re.Match[str], kept: Mapping[str, Mapping[str, Any]], facts: Mapping[str, Any]) -> float:
    factor = float(parts[2]) if parts[2] else 1.0
    if not parts[3]:
        return factor
    name, _, fact = parts[3].partition(".")
    value = kept.get(name, {}).get(fact) if fact else facts.get(name)
    number = _as_number(value)
    if number is None:
        raise SpecError(
            f"there is no number '{parts[3]}' to compare with", hint="an earlier step keeps it: keep = NAME"
        )
    return factor * number


def _as_number(value: Any) -> float | None:
    try:
        return float(str(value).split()[0])
    except (ValueError, IndexError):
        return None


GuestSteps = list[list[Any]]
"""Steps of the program on the machine (guest/scenario.py)."""


class SceneArray(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array as specified in a scenario's file.

    Its members are the drives from 0 on, followed by the journal, if any, and the spares.
    """

    level: str = "raid5"
    members: Annotated[int, msgspec.Meta(ge=1, le=16)] = 4
    layout: str = ""
    """Layout of RAID 10, such as f2; empty: mdadm's default."""
    chunk_bytes: int = 16 * KIB
    member_bytes: int = MIB
    policy: str = "resync"
    options: tuple[str, ...] = ()
    """Further options of ``mdadm --create``."""
    spares: int = 0
    is_clean: bool = True
    """Whether it is created with ``--assume-clean``; the drives are blank, so parity and copies are consistent."""

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise SpecError(f"there is no policy '{self.policy}'", hint=f"known: {', '.join(POLICIES)}")
        if self.layout and self.level != "raid10":
            raise SpecError(f"a layout is chosen for RAID 10 alone here, not for {self.level}", hint="leave it out")
        _ = self.raid

    @property
    def raid(self) -> Level:
        """The level, including the layout of RAID 10."""
        return level_with_layout(self.level, self.layout or None)

    @property
    def places(self) -> OraclePlaces:
        """The places of its blocks."""
        return places_of(self.raid, self.members, self.member_bytes, self.chunk_bytes)

    @property
    def told(self) -> str:
        """A description for messages."""
        chunk = f", chunks of {self.chunk_bytes // KIB} KiB" if self.raid.has_chunk else ""
        layout = f" {self.layout}" if self.layout else ""
        return f"{self.level}{layout} of {self.members}{chunk}, {self.policy}"

    @property
    def journal(self) -> int | None:
        """The number of the journal's drive; None without a journal."""
        return self.members if self.policy == "journal" else None

    @property
    def drives(self) -> int:
        """Number of drives at creation."""
        return self.members + (self.journal is not None) + self.spares

    def creation(self) -> list[str]:
        """The command line of mdadm that creates the array, with drives as ``@0``."""
        spec = array_spec(
            self.level,
            [f"@{number}" for number in range(self.members)],
            self.policy,
            size_bytes=self.member_bytes,
            chunk_bytes=self.chunk_bytes,
            layout=self.layout or None,
            spares=tuple(f"@{number}" for number in range(self.drives - self.spares, self.drives)),
            journal_device=None if self.journal is None else f"@{self.journal}",
            assume_clean=self.is_clean,
            options=self.options,
        )
        return list(spec.create_argv)


@dataclass
class Stage:
    """The state of one variant while its steps are compiled."""

    array: SceneArray
    seed: str
    drives: int
    is_open: bool = False
    """Whether the oracle's writer has the array open, in which case md cannot be stopped."""
    mix: dict[str, int] = field(default_factory=dict)
    path: str = NODE
    """What the writer writes to: the array, or a file on it."""
    blocks: int = 0
    """Number of blocks of the oracle's data; 0: all blocks of the array."""

    @property
    def data_blocks(self) -> int:
        return self.blocks or self.array.places.blocks

    def opened(self, **mix: int) -> GuestSteps:
        """The steps after which the writer is open with these parameters."""
        wanted = {"first": 0, "count": self.data_blocks, "stripe": self.array.places.row_blocks, **mix}
        if self.is_open and wanted == self.mix:
            return []
        steps = [*self.closed(), ["open", self.path, wanted]]
        self.is_open, self.mix = True, wanted
        return steps

    def closed(self) -> GuestSteps:
        """The steps after which the writer is closed."""
        steps: GuestSteps = [["close"]] if self.is_open else []
        self.is_open = False
        return steps

    def member_bytes_at(self, at_bytes: int) -> int:
        """The byte offset on a drive of an offset in the member's data."""
        return DATA_OFFSET_BYTES + at_bytes

    def job(self, nodes: tuple[str, ...], *, has_record: bool) -> dict[str, Any]:
        """The parameters of a history on this array, without its steps."""
        array = self.array
        return {
            "seed": self.seed,
            "geometry": array.places.map.geometry(),
            "slots": [[slot, slot, DATA_OFFSET_BYTES] for slot in range(array.members)],
            "stripe_blocks": array.places.row_blocks,
            "nodes": list(nodes),
            "has_record": has_record,
        }


def built_in_values(array: SceneArray, seed: int) -> dict[str, int]:
    """The placeholders that every scenario can use.

    ``{new}`` is the first drive that is not in the array, ``{last}`` the last member.
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
