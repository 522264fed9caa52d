"""Tests of the oracle itself: known damage that it must report, and planted bugs that must be detected.

Controls write bytes to members while the array is stopped, so that neither the members' state nor md's caches reflect
them. Two further controls check the arithmetic of ledgers and records against known results. Undamaged blocks must be
reported as intact.

Each planted bug is a change of the program that runs histories (oracle_bugs.toml). A bug that makes the oracle report
errors that do not exist shows as a finding of a campaign on a kernel without bugs; a bug that makes it overlook errors
shows as a control whose damage goes unreported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from lab.errors import LabError
from lab.faults.arrays import DATA_OFFSET_BYTES, NODE
from lab.faults.campaign import Arena
from lab.faults.guest.ledger import (
    ACKNOWLEDGED,
    CORRUPT,
    DRIVE_FLUSH,
    DRIVE_WRITE,
    FLUSH,
    INTACT,
    LOST,
    THROUGH,
    UNREADABLE,
    WRITE,
)
from lab.faults.history import (
    COMMAND_SECONDS,
    ArrayShape,
    FaultHistory,
    HistoryPolicy,
    geometries,
    job_of,
    node,
)
from lab.faults.place import DRIVES, run_program
from lab.gates.decoding import FormatVersion
from lab.machine import GuestProgram
from lab.machine.programs import Change, program_files
from lab.tomlfile import read_toml, unknown_word

CONTROLS = GuestProgram(Path(__file__).with_name("oracle_controls_program.py"), "fault-controls")


class OracleBug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bug planted in the oracle: ``find`` is replaced by ``replace``."""

    name: str
    title: str
    found_by: Literal["campaign", "controls"]
    find: str
    replace: str

    @property
    def change(self) -> Change:
        """The change that plants the bug. Raises LabError unless ``find`` occurs exactly once in the program."""
        count = sum(text.count(self.find) for text in program_files(CONTROLS).texts.values())
        if count != 1:
            raise LabError(
                f"the text of oracle bug '{self.name}' is {count} times in the program",
                hint="correct it in oracle_bugs.toml: the program has changed",
            )
        return lambda text: text.replace(self.find, self.replace)


class _OracleBugs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    bug: tuple[OracleBug, ...]


@cache
def oracle_bugs() -> tuple[OracleBug, ...]:
    return read_toml(Path(__file__).with_name("oracle_bugs.toml"), _OracleBugs).bug


def find_oracle_bug(name: str) -> OracleBug:
    known = {bug.name: bug for bug in oracle_bugs()}
    if name not in known:
        raise unknown_word("bug of the oracle", name, known)
    return known[name]


PAGE, SECTORS = 4096, 8
FILL_BLOCKS = 64
"""Blocks of each write of a fill; these writes have the generations 1, 2 and so on."""
LEAST_APART = 30
"""At least this many of 40 power cuts of two members with a dozen open writes each must leave the members different."""


@dataclass(frozen=True, slots=True)
class OracleControl:
    """A control. ``bad`` maps damaged blocks to their verdicts, all others are intact; None if no blocks are read."""

    name: str
    history: FaultHistory
    steps: list[list[Any]]
    bad: dict[int, str] | None = None
    rows: list[int] | None = None
    """The rows that the comparison of the members must report as inconsistent."""
    answer: dict[str, Any] = field(default_factory=dict)
    """The values that the last document must have."""

    def wrong(self, seen: list[dict[str, Any]]) -> str:
        """A description of the first result that is not as expected; empty if there is none."""
        broke = [each["broke"] for each in seen if "broke" in each]
        if broke:
            return f"{self.name}: {broke[0]}"
        if self.bad is not None:
            told = next(each for each in reversed(seen) if each.get("kind") == "check")
            found = {block: verdict for block, verdict, *_ in told["bad"]}
            expected = {INTACT: self.history.shape.block_map().blocks - len(self.bad)}
            intact = {word: count for word, count in told["verdicts"].items() if word == INTACT}
            if found != self.bad or intact != expected:
                return f"{self.name}: {len(found)} blocks are reported, {list(found.items())[:4]}, and {intact}"
        if self.rows is not None:
            told = next(each for each in reversed(seen) if each.get("kind") == "parity")
            if told["wrong"] != self.rows:
                return f"{self.name}: rows {told['wrong']}, and not {self.rows}"
        if self.answer:
            told = seen[-1]
            differing = [key for key, value in self.answer.items() if not _fits(told.get(key), value)]
            return f"{self.name}: {differing} is {[told.get(key) for key in differing]}" if differing else ""
        return ""


def _fits(told: Any, expected: Any) -> bool:
    """Whether a value is as expected; numbers in a mapping are minimum values."""
    if isinstance(expected, dict) and all(isinstance(value, int) for value in expected.values()):
        return isinstance(told, dict) and all(told.get(key, -1) >= value for key, value in expected.items())
    return bool(told == expected)


def _history(level: str = "5", members: int = 4) -> FaultHistory:
    return FaultHistory(1, ArrayShape(level=level, members=members, policy=HistoryPolicy.RESYNC, depth=1), ())


def _begin(history: FaultHistory, *steps: list[Any]) -> list[list[Any]]:
    """Create and fill the array, carry out the steps, which must stop it, then assemble and check it."""
    mix = {"first": 0, "count": history.shape.block_map().blocks}
    return [
        ["begin", list(range(DRIVES)), 0, ""],
        ["run", list(history.shape.spec.create_argv), COMMAND_SECONDS],
        *(["open", NODE, mix], ["fill"]),
        *steps,
        ["assemble", list(range(DRIVES)), False],
        ["check"],
        ["parity"],
        ["halt"],
    ]


def _at(history: FaultHistory, block: int) -> tuple[str, int]:
    """The member that holds a block, and the byte offset on that member."""
    ((slot, page),) = history.shape.block_map().places(block)
    return node(slot), DATA_OFFSET_BYTES + page * PAGE


def _older(block: int) -> int:
    return block // FILL_BLOCKS + 1


def _data() -> Iterator[OracleControl]:
    h = _history()
    last = h.shape.block_map().blocks - 1
    yield OracleControl("as it was written", h, _begin(h, ["rewrite", [0, 100, last]], ["halt"]), bad={}, rows=[])
    for name, block, step, verdict in (
        ("a lost write", 100, ["plant", *_at(h, 100), 100, _older(100), 0, SECTORS], LOST),
        ("half of a write lost", 101, ["plant", *_at(h, 101), 101, _older(101), 4, 4], LOST),
        ("a write that went astray", 102, ["plant", *_at(h, 102), 300, _older(300), 0, SECTORS], CORRUPT),
        ("a byte inverted in the first block", 0, ["flip", _at(h, 0)[0], _at(h, 0)[1] + 700, 1], CORRUPT),
        ("a byte inverted in the last block", last, ["flip", _at(h, last)[0], _at(h, last)[1] + 4095, 1], CORRUPT),
    ):
        yield OracleControl(name, h, _begin(h, ["rewrite", [block]], ["halt"], step), bad={block: verdict})
    lost = {block for block in range(last + 1) if h.shape.block_map().places(block)[0][0] in (0, 1)}
    pulled = [["line", "pull 0"], ["line", "pull 1"], ["check"], ["line", "plug 0"], ["line", "plug 1"]]
    steps = [*_begin(h, ["halt"])[:-3], *pulled, ["halt"]]
    yield OracleControl("two members too many are gone", h, steps, bad=dict.fromkeys(sorted(lost), UNREADABLE))


def _redundancy() -> Iterator[OracleControl]:
    for level, members, flips in (
        # (slot, row). The parity of RAID 5 is on slot 3 - row % 4; RAID 6 has P on slot 4 - row % 5, and Q on the slot
        # after it.
        ("5", 4, [(3, 0), (0, 31), (0, 63)]),
        ("6", 5, [(4, 0), (0, 0), (1, 4), (2, 63)]),
        ("1", 2, [(1, 0), (0, 128), (1, 255)]),
    ):
        h = _history(level, members)
        chunk = h.shape.block_map().chunk_bytes
        steps = [["flip", node(slot), DATA_OFFSET_BYTES + row * chunk + 5, 3] for slot, row in flips]
        rows = sorted({row for _, row in flips})
        yield OracleControl(f"RAID {level}: bytes inverted on members", h, _begin(h, ["halt"], *steps), rows=rows)


def _record(came: int, ended: int, sector: int, drive: int, kind: int = DRIVE_WRITE, flags: int = 0) -> list[int]:
    return [came, ended, sector, 0, 8 if kind == DRIVE_WRITE else 0, drive, kind, flags]


def _arithmetic() -> Iterator[OracleControl]:
    h = _history()
    begin = [["begin", list(range(DRIVES)), 0, ""]]
    record = [
        *(_record(1, 2, 0, 0), _record(3, 9, 8, 0)),
        # A flush covers the writes that had ended when it was submitted. The next flush has not ended when the power
        # fails.
        *(_record(4, 5, 0, 0, DRIVE_FLUSH), _record(6, 7, 16, 0)),
        *(_record(8, 0, 0, 0, DRIVE_FLUSH), _record(10, 11, 24, 0, flags=THROUGH), _record(12, 0, 32, 0)),
    ]
    parts = {"0": [[0, 5], [3, 1, 6]]}
    yield OracleControl("the sure writes of a record", h, [*begin, ["split", record, 12]], answer={"parts": parts})
    both = [_record(1 + each, 101 + each, 8 * (each // 2), each % 2) for each in range(24)]
    apart = {"prefix": LEAST_APART, "subset": LEAST_APART}
    yield OracleControl("members are cut independently", h, [*begin, ["split", both, 200]], answer={"apart": apart})
    events = [
        *([WRITE, 1, 0, 2, 0], [ACKNOWLEDGED, 1], [FLUSH, 2], [ACKNOWLEDGED, 2]),
        *([WRITE, 3, 0, 1, 0], [ACKNOWLEDGED, 3], [WRITE, 4, 1, 1, 1], [ACKNOWLEDGED, 4], [WRITE, 5, 2, 1, 0]),
        [FLUSH, 6],
    ]
    answer = {
        "running": {"0": [3], "1": [4], "2": [0, 5]},
        "cut": {"0": [1, 3], "1": [4], "2": [0, 5]},
    }
    yield OracleControl("what a ledger allows", h, [*begin, ["allowed", events]], answer=answer)


def all_controls() -> list[OracleControl]:
    return [*_data(), *_redundancy(), *_arithmetic()]


def failed_controls(arena: Arena) -> list[str]:
    """The wrong results of the oracle under test, one message each; a fresh machine runs the controls."""
    controls = all_controls()
    jobs = [
        {**job_of(each.history, []), "steps": each.steps, "geometries": geometries(each.history)} for each in controls
    ]
    failed: list[str] = []
    seen: list[dict[str, Any]] = []
    number = 0
    with arena.opened() as place:
        for document in run_program(place.lab.machine, CONTROLS, {"histories": jobs}, change=arena.change):
            if "end" not in document:
                seen.append(document)
                continue
            if wrong := controls[number].wrong(seen):
                failed.append(wrong)
            number, seen = number + 1, []
    return failed
