"""Scenarios (TOML files with an array, steps and variants), and the facts that are compared with expectations.

A step is an action of lab.actions, or one that only the fault lab has. Actions on arrays are those of lessons and of
the command line, with the same names, arguments and command lines (lab.arrays.operations). The fault lab's own actions
are the oracle's writes and verdicts, layers below members, power cuts and measurements, which must happen on the
machine within microseconds. Each action is compiled to steps of the program on the machine. ``array`` contains the
arguments of ``array.create``. A variant runs the same steps on another array or with other ``values``: ``{name}`` in a
text stands for a value of the variant or one of ``built_in_values``.

The evidence of a step consists of the documents that the program on the machine sends for it. Facts are the individual
values in these documents:

    data, intact, old, new, torn, lost, corrupt, unreadable    the oracle's verdict as text, and counts of blocks
    corrupt_at, lost_at, unreadable_at, bad_at                 block numbers, compared with the level's arithmetic
    array_state, degraded, mismatch_cnt, md_level …            attributes of md in sysfs (md_level: its ``level``)
    member_2, errors_2, bad_blocks_2, slot_2, recovery_2       of the member on drive 2; ``gone`` if the array has none
    events_2                                                   the event count in the superblock of drive 2
    status, output, refused, text                              of a program, of a value that was written, of a file
    seconds and all other numbers that the step reports        see guest/scenario.py

An expectation is a value, a list of alternative values, ``~ TEXT`` (the fact contains TEXT), ``!~ TEXT`` (it does
not), or a comparison such as ``> 0``, ``<= 3`` or ``< 0.5 * full.read_sectors``, where ``full`` is the name under which
an earlier step kept its facts. For block numbers, ``= slots 0 1`` means exactly the blocks in these slots, and
``in blocks 4-7`` any subset of these blocks.
Expectations are not the checks of lessons (lab.checks): a check applies to the sampled state of an open lab, and has a
sentence for students; an expectation compares measured values with each other and with the level's arithmetic, after
the whole history has run.

If the steps of a scenario are generated, ``code`` names the function in this module that does so. ``random_histories``
generates long random runs from a seed, with a model of what each operation may do, as ZFS's ztest does. Damage is
bounded so that, by the arithmetic of the level, no data are lost.
"""

from __future__ import annotations

import operator
import random
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lab.actions import ACTIONS
from lab.actions.action import Action, OperationAction
from lab.actions.arrays import Add, Assemble, Create, Fail, PlugIn, Pull, Remove, Replace, Scrub, StopArray, Wait
from lab.actions.shell import ShellLine
from lab.arrays.kinds import kind_of_level
from lab.arrays.spec import ArraySpec
from lab.errors import ArrayError, LabError, SpecError
from lab.faults.arrays import (
    ARRAY,
    BLOCK_BYTES,
    CHUNK_BYTES,
    DATA_OFFSET_BYTES,
    MD,
    NODE,
    BlockMap,
    HistoryArrays,
    array_title,
    block_map,
    drives,
    numbers_in,
)
from lab.faults.guest.ledger import ALLOWED, CORRUPT, INTACT, KINDS, LOST, NEW, OLD, TORN, UNREADABLE
from lab.faults.place import DRIVES
from lab.gates.decoding import FormatVersion, Name, version_numbers
from lab.gates.text import shortened
from lab.tomlfile import (
    convert_tree,
    fill_tree,
    kinds_by_tag,
    make_tagged,
    nearest,
    read_toml,
    unknown_word,
    with_new_scenario_array,
    with_new_scenario_step,
)
from lab.units import MIB, SECTOR_BYTES

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
STEP_FACTS = (
    *("seconds", "failures", "operations", "blocks", "under_way", "fingerprint", "lasted", "rate", "each", "exposed"),
    *("most_degraded", "bad_in_flight", "reads", "read_sectors", "writes", "write_sectors", "flushes", "rounds"),
    *("points", "refused", "dead", "wrong_parity", "not_idle", "untouched_corrupt", "untouched_lost"),
    *("unreadable_points", "in_flight_corrupt", "outside_open_stripes", "untouched_elsewhere", "sets", "survived"),
    *("differing", "complaints", "unsettled", "torn_up", "data", "md_level", "status", "output", "text", "idle"),
    *("late", "fits", "culprits", "same"),
)
"""Values that steps report under these names."""
NUMBERED = re.compile(r"(member|errors|bad_blocks|slot|recovery|events|copy|reads|writes)_(\d+)")
KNOWN = (*VERDICT_FACTS, *BLOCK_FACTS, *MD_FACTS, *STEP_FACTS)
_COMPARISON = re.compile(r"(<=|>=|!=|<|>|=)\s*(-?[\d.]+)?\s*\*?\s*([a-z_][a-z0-9_-]*(?:\.[a-z_0-9]+)?)?\s*")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    **{"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq, "!=": operator.ne},
}
_LONGEST = 160


class FactCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation and the value found."""

    what: str
    wanted: str
    found: str
    is_met: bool


def facts_of(evidence: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return all facts of a step; ``more`` contains those specific to the step's class."""
    found: dict[str, Any] = {name: evidence[name] for name in STEP_FACTS if name in evidence}
    if isinstance(complaints := evidence.get("complaints"), list):
        found["complaints"] = len(complaints)
    if "verdicts" in evidence:
        found |= _of_verdicts(evidence)
    state = evidence.get("state", {})
    found |= {name: state[name] for name in MD_FACTS if name in state}
    if "state" in evidence and not state:
        found["array_state"] = "gone"
    if "level" in state:
        found["md_level"] = state["level"]
    for number, words in evidence.get("members", {}).items():
        if isinstance(words, Mapping):
            found |= {f"{fact}_{number}": words[file] for fact, file in MEMBER_FACTS.items() if file in words}
    if isinstance(events := evidence.get("events"), dict):
        found |= {f"events_{number}": count for number, count in events.items()}
    found |= {name: count for name, count in evidence.items() if NUMBERED.fullmatch(name)}
    return {**found, **more}


def _of_verdicts(evidence: Mapping[str, Any]) -> dict[str, Any]:
    verdicts, at = evidence["verdicts"], evidence.get("at", {})
    bad = {fact: word for fact, word in VERDICT_FACTS.items() if word not in ALLOWED}
    return {
        **{fact: verdicts.get(word, 0) for fact, word in VERDICT_FACTS.items()},
        "data": " and ".join(fact for fact, word in bad.items() if verdicts.get(word)) or "intact",
        **{f"{fact}_at": at.get(word, "") for fact, word in bad.items()},
        "bad_at": ",".join(at.values()),
    }


StoredFacts = Mapping[str, Mapping[str, Any]]
"""Name under which an earlier step stored its facts -> these facts."""


@dataclass(frozen=True)
class StepFacts:
    """The facts after a step, and what expectations may compare them with."""

    facts: Mapping[str, Any]
    stored: StoredFacts
    places: BlockMap

    def check(self, name: str, expected: Any) -> FactCheck:
        """Compare a fact with its expectation. Raises SpecError if the expectation is invalid."""
        match = NUMBERED.fullmatch(name)
        found = self.facts.get(name)
        if found is None and match and match[1] in MEMBER_FACTS and "array_state" in self.facts:
            found = "gone"
        text = "" if found is None else shortened(str(found), _LONGEST)
        shown = (f"blocks {text}" if text else "none") if name in BLOCK_FACTS else text or "nothing"
        options = expected if isinstance(expected, list) else [expected]
        is_met = found is not None and any(self._fits(name, each, found) for each in options)
        required = " or ".join(self._text_of(each) for each in options)
        return FactCheck(what=name, wanted=required, found=shown, is_met=is_met)

    def _text_of(self, expected: Any) -> str:
        """Return an expectation as text, followed by the number that a name in it stands for."""
        text = str(expected)
        parts = _COMPARISON.fullmatch(text)
        return f"{text} ({self._number(parts):g})" if parts and parts[3] else text

    def _fits(self, name: str, expected: Any, found: Any) -> bool:
        if isinstance(expected, bool) or isinstance(found, bool):
            return bool(found) is expected
        if not isinstance(expected, str):
            return _as_number(found) == float(expected)
        if name in BLOCK_FACTS:
            if expected.startswith("="):
                return numbers_in(str(found)) == self.places.meant(expected[1:])
            if expected.startswith("in "):
                return numbers_in(str(found)) <= self.places.meant(expected[3:])
            raise SpecError(f"'{expected}' does not compare blocks", hint="write '= slots 0 1', or 'in blocks 4-7'")
        if expected.startswith("~"):
            return expected[1:].strip() in str(found)
        if expected.startswith("!~"):
            return expected[2:].strip() not in str(found)
        parts = _COMPARISON.fullmatch(expected)
        if parts and (parts[2] or parts[3]):
            left, right = _as_number(found), self._number(parts)
            return left is not None and _COMPARE[parts[1]](left, right)
        if name.startswith("member_"):
            # The state is a comma-separated list to which md may add words (Documentation/admin-guide/md.rst).
            return expected in str(found).split(",")
        return str(found) == expected

    def _number(self, parts: re.Match[str]) -> float:
        factor = float(parts[2]) if parts[2] else 1.0
        if not parts[3]:
            return factor
        name, _, fact = parts[3].partition(".")
        number = _as_number(self.stored.get(name, {}).get(fact) if fact else self.facts.get(name))
        if number is None:
            raise SpecError(
                f"there is no number '{parts[3]}' to compare with", hint="let an earlier step store it with keep = NAME"
            )
        return factor * number


def _as_number(value: Any) -> float | None:
    try:
        return float(str(value).split()[0])
    except (ValueError, IndexError):
        return None


GuestSteps = list[list[Any]]
"""Steps of the program on the machine (guest/scenario.py)."""


@dataclass
class Stage:
    """The state of one variant while its steps are compiled."""

    array: ArraySpec
    seed: str
    is_open: bool = False
    """Whether the oracle's writer has the array open, in which case md cannot be stopped."""
    mix: dict[str, int] = field(default_factory=dict)
    path: str = NODE
    """What the writer writes to: the array, or a file on it."""
    blocks: int = 0
    """Number of blocks of the oracle's data; 0 means all blocks of the array."""
    arrays: HistoryArrays = field(init=False)

    def __post_init__(self) -> None:
        self.arrays = HistoryArrays(self.array)

    @property
    def places(self) -> BlockMap:
        return block_map(self.array)

    @property
    def members(self) -> list[int]:
        """The drives of the members, by slot."""
        return list(range(len(self.array.members)))

    @property
    def data_blocks(self) -> int:
        return self.blocks or self.places.blocks

    def opened(self, **mix: int) -> GuestSteps:
        """Return the steps that open the writer with these parameters; none if it is already open with them."""
        full_mix = {"first": 0, "count": self.data_blocks, "stripe": self.places.row_blocks, **mix}
        if self.is_open and full_mix == self.mix:
            return []
        steps = [*self.closed(), ["open", self.path, full_mix]]
        self.is_open, self.mix = True, full_mix
        return steps

    def closed(self) -> GuestSteps:
        """Return the steps that close the writer; none if it is not open."""
        steps: GuestSteps = [["close"]] if self.is_open else []
        self.is_open = False
        return steps


def built_in_values(array: ArraySpec) -> dict[str, int | str]:
    """Return the placeholders that every scenario can use, and their values.

    ``{new}`` is the first drive that is not in the array, ``{drives}`` the drives of the array, as ``@0 @1``, and
    ``{size}`` the data size of a member in sectors.
    """
    return {"new": len(array.devices), "drives": " ".join(array.devices), "size": (array.size_bytes or 0) // 512}


IDLE_SECONDS = 300.0
Expectation = int | float | str | bool | list[int | float | str]


class SceneAction(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="act", omit_defaults=True
):
    """Base class of the actions that only the fault lab has."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        """Return the steps of the program on the machine.

        By default, one step calls the method named after the action, with the action's fields as arguments.
        """
        return [[str(self.__struct_config__.tag).replace("-", "_"), *msgspec.structs.astuple(self)]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        """Return the facts specific to this class, in addition to those of every step."""
        return {}


class SceneStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step: an action of the fault lab or of lab.actions, and what is expected after it."""

    does: Any
    """A SceneAction or an Action."""
    why: str = ""
    only: tuple[str, ...] = ()
    """The variants in which the step runs; empty means all variants."""
    expect: dict[str, Expectation] = {}
    """Fact (in ``KNOWN``, or matched by ``NUMBERED``) -> expected value, for the evidence of this step."""
    is_timed: bool = False
    """Whether the expectations compare times. They are checked only in virtual time, where other load has no effect."""
    keep: str = ""
    """A name under which the facts are kept, for expectations of later steps and variants."""

    @property
    def word(self) -> str:
        return str(self.does.__struct_config__.tag)

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return _planned(self.does, stage) if isinstance(self.does, Action) else self.does.guest_steps(stage)

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {} if isinstance(self.does, Action) else self.does.facts(evidence, stage)


def _planned(action: Action, stage: Stage) -> GuestSteps:
    """Return the steps of an action of lab.actions: usually its plan, which the program on the machine runs."""
    match action:
        case OperationAction():
            steps: GuestSteps = [
                ["run", list(step.argv), step.timeout_seconds] for step in action.plan(stage.arrays).steps
            ]
            if isinstance(action, Assemble):
                # On these machines md starts arrays read-auto.
                steps.append(["activate"])
            before = stage.closed() if isinstance(action, StopArray) else []
            after = [["idle", IDLE_SECONDS]] if isinstance(action, Scrub) and action.waits_for else []
            return [*before, *steps, *after]
        case Wait():
            return [["idle", IDLE_SECONDS]]
        case Pull() | PlugIn():
            # The program on the machine controls the driver directly; requests that the drive has in flight fail.
            return [["line", f"{'pull' if isinstance(action, Pull) else 'plug'} {action.disk}"]]
        case ShellLine():
            return [["run", ["sh", "-c", action.line], 60.0]]
        case _:
            raise SpecError(f"scenarios do not have the action '{action.__struct_config__.tag}'", hint="leave it out")


_PLAIN: Mapping[str, Sequence[tuple[Any, ...]]] = {
    # Makes the array active if md has started it read-auto or read-only. It is for arrays that a ``shell`` step
    # assembles, because ``array.assemble`` and ``restart`` include it.
    "activate": (),
    "pause": (("seconds", float),),
    # Removes the device over a drive; an overlay's writes are discarded.
    "unlayer": (("disk", int),),
    # Compares the bare drives with their content at the first such step. The fact ``same`` is the result.
    "sum": (("disks", tuple[int, ...]),),
    # Suspends a device-mapper device, so that requests to it wait, until ``wake`` resumes it.
    "hang": (("disk", int),),
    "wake": (("disk", int),),
    # Starts counting the requests to the drives.
    "meter": (),
    # Reads single blocks, one after the other. The fact ``each`` is the mean time of a read in seconds.
    "reads": (("count", int),),
    # Waits until md is idle. The fact ``exposed`` is the number of seconds for which the array was degraded, and
    # ``most_degraded`` the largest number of members that were missing meanwhile.
    "exposure": (("seconds", float, 300.0),),
    # Ends a program that ``start`` started. The fact ``output`` is its output.
    "end": (("name", str),),
    # Mounts the array's ext4 file system at /run/raidlab/mnt/fault.
    "mount": (),
}
"""Actions that only call the method of the same name of the program on the machine -> their fields."""


class RestartStep(SceneAction, frozen=True, kw_only=True, tag="restart"):
    """Stops the array and assembles it from these drives, which discards md's state in memory."""

    disks: tuple[int, ...] = ()
    """Empty means all drives with which the array was created."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        assembled = Assemble(array=ARRAY, disks=",".join(map(str, self.disks)))
        return [*_planned(StopArray(), stage), *_planned(assembled, stage)]


class FillStep(SceneAction, frozen=True, kw_only=True, tag="fill"):
    """Makes the oracle write every block and flush."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(), ["fill"]]


class WriteStep(SceneAction, frozen=True, kw_only=True, tag="write"):
    """Makes the oracle write to random blocks."""

    operations: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    first: int = 0
    count: int = 0
    """Number of blocks from ``first`` on; 0 means as many as the oracle's data have."""
    depth: Annotated[int, msgspec.Meta(ge=1, le=31)] = 4
    flush: int = 8
    """One operation in ``flush`` is a flush, one write in ``through`` is O_DSYNC, and one in ``whole`` a full stripe;
    0 means none.
    """
    through: int = 16
    whole: int = 8
    largest: int = 8
    waits: bool = True
    """Whether to wait until no write is in flight."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        where = {"first": self.first, "count": self.count or stage.data_blocks}
        mix = {name: getattr(self, name) for name in ("depth", "flush", "through", "whole", "largest")}
        steps = [*stage.opened(**where, **mix), ["advance", self.operations]]
        return [*steps, ["drain"]] if self.waits else steps


class FlushStep(SceneAction, frozen=True, kw_only=True, tag="flush"):
    """Flushes all writes to the media."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(), ["flush"]]


class CloseStep(SceneAction, frozen=True, kw_only=True, tag="close"):
    """Closes the oracle's writer."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return stage.closed()


class CheckStep(SceneAction, frozen=True, kw_only=True, tag="check"):
    """Lets the oracle read and judge all blocks, and reads md's state."""

    settles: bool = False
    """Whether blocks with several allowed versions must keep the version found from then on."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["look"], *([["settle"]] if self.settles else [])]


class ParityStep(SceneAction, frozen=True, kw_only=True, tag="parity"):
    """Compares parity and copies on the members, without md."""

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {"wrong_parity": len(evidence.get("wrong", ()))}


class HoldStep(SceneAction, frozen=True, kw_only=True, tag="hold"):
    """Makes the next sync, rebuild, reshape or scrub stop at this percentage of a member; 100 removes the limit."""

    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["write", f"{MD}/sync_max", "max" if self.percent == 100 else str(held_at(stage, self.percent))]]


class ReachedStep(SceneAction, frozen=True, kw_only=True, tag="reached"):
    """Waits until the held operation has reached its limit."""

    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["until", f"{MD}/sync_completed", [], 60.0, held_at(stage, self.percent)], ["state"]]


def held_at(stage: Stage, percent: float) -> int:
    """Return the position of a limit in sectors: a whole number of chunks, and at least one chunk."""
    chunk, sectors = stage.places.chunk_bytes // 512, stage.places.member_bytes // 512
    return max(1, min(round(sectors * percent / 100 / chunk), sectors // chunk - 1)) * chunk


def md_file(name: str) -> str:
    """Return the path of one of md's attributes; an absolute path is returned unchanged."""
    return name if name.startswith("/") else f"{MD}/{name}"


class SetStep(SceneAction, frozen=True, kw_only=True, tag="set"):
    """Sets one of md's attributes, or another file given by its absolute path.

    ``dev-@2`` in the path is the folder of the member on drive 2.
    """

    file: str
    value: str | int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["write", md_file(self.file), str(self.value)], ["state"]]


class GetStep(SceneAction, frozen=True, kw_only=True, tag="get"):
    """Reads one of md's attributes; its content is the fact ``text``."""

    file: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["read", md_file(self.file)]]


class UntilStep(SceneAction, frozen=True, kw_only=True, tag="until"):
    """Waits until one of md's attributes is one of ``words``, or begins with a number that is at least ``at_least``."""

    file: str
    words: tuple[str, ...] = ()
    at_least: Annotated[int, msgspec.Meta(ge=0)] | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0)] = 60.0

    def __post_init__(self) -> None:
        if not self.words and self.at_least is None:
            raise ValueError("an 'until' step needs 'words' or 'at_least'")

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["until", md_file(self.file), list(self.words), self.seconds, self.at_least], ["state"]]


class StateStep(SceneAction, frozen=True, kw_only=True, tag="look"):
    """Reads md's state but no data. ``events`` adds the event counts from the superblocks of these drives."""

    events: tuple[int, ...] = ()

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*([["events", list(self.events)]] if self.events else []), ["state"]]


_WHOLE_LAYERS = {
    "linear": "0 {size} linear #N 0",
    "dust": "0 {size} dust #N 0 512",
    "flakey": "0 {size} flakey #N 0 ARGUMENTS",
    "snapshot": "0 {size} snapshot #N ARGUMENTS N 8",
    "shorter": "0 {size-ARGUMENTS} linear #N 0",
}
_DATA_SECTORS = DATA_OFFSET_BYTES // 512
_DATA_LAYERS = {
    # The superblock and the bad-block list remain writable; the data do not.
    "flakey": (
        f"0 {_DATA_SECTORS} linear #N 0\n{_DATA_SECTORS} {{size-{_DATA_SECTORS}}} flakey #N {_DATA_SECTORS} ARGUMENTS"
    ),
}


class LayerStep(SceneAction, frozen=True, kw_only=True, tag="layer"):
    """Puts a device-mapper device between a drive and md, or replaces its table while it is in use (``again``).

    ``kind`` is linear, dust, flakey, integrity, snapshot (an overlay: ``arguments`` is the drive that receives the
    writes, such as ``#4``), shorter (by ``arguments`` sectors) or loop (a loop device with sectors of ``arguments``
    bytes). For the other kinds, ``arguments`` follow the offset in the table (Documentation/admin-guide/device-mapper).
    """

    disk: int
    kind: str
    arguments: str = ""
    data_only: bool = False
    """Whether it begins at the member's data, so that the superblock and the lists before them are unaffected."""
    again: bool = False
    """Whether the device already exists, and only its table is replaced."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The device-mapper targets that the machine must have, such as ``dm:dust``."""
        return () if self.kind == "loop" else (f"dm:{'linear' if self.kind == 'shorter' else self.kind}",)

    def guest_steps(self, stage: Stage) -> GuestSteps:
        if self.kind == "integrity" and not self.again:
            return [["integrity", self.disk]]
        if self.kind == "loop":
            return [["loop", self.disk, int(self.arguments)]]
        tables = _DATA_LAYERS if self.data_only else _WHOLE_LAYERS
        if self.kind not in tables:
            raise SpecError(f"there is no layer '{self.kind}'", hint=f"choose one of {', '.join(tables)}")
        table = tables[self.kind].replace("#N", f"#{self.disk}").replace("ARGUMENTS", self.arguments).rstrip()
        return [["table" if self.again else "layer", self.disk, table]]


class ChangedWriteStep(SceneAction, frozen=True, kw_only=True, tag="changed-write"):
    """Writes a block, and changes its data while the write is in flight."""

    block: int
    after_milliseconds: float

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["changed_write", self.block, self.after_milliseconds / 1000]]


class MessageStep(SceneAction, frozen=True, kw_only=True, tag="message"):
    """Sends a message to a device-mapper target, such as ``addbadblock 4096`` to dust."""

    disk: int
    text: str
    at_block: int | None = None
    """A block of the oracle whose sector on this member is appended to the text."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        text = self.text
        if self.at_block is not None:
            text = f"{text} {byte_on(stage, self.at_block, self.disk) // 512}"
        return [["message", self.disk, text]]


class SlowStep(SceneAction, frozen=True, kw_only=True, tag="slow"):
    """Makes each request to a drive take ``milliseconds``; 0 restores its normal time."""

    disk: int
    milliseconds: float

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["line", f"pace {self.disk} {round(self.milliseconds * 1e6)}"]]


class CorruptStep(SceneAction, frozen=True, kw_only=True, tag="corrupt"):
    """Inverts a sector of a block on a member without md's knowledge; ``on`` is data, copy 1, P or Q."""

    block: int
    on: str = "data"
    is_searched: bool = False
    """Whether to search the bare drive for the block's content, because a layer determines where it lies."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        slot, at = place_named(stage, self.block, self.on)
        if self.is_searched:
            return [["flip_found", slot, self.block, SECTOR_BYTES]]
        return [["flip", f"#{slot}", at, SECTOR_BYTES]]


class MisdirectStep(SceneAction, frozen=True, kw_only=True, tag="misdirect"):
    """Overwrites one block of a member with another of the same member, as a misdirected write would."""

    block: int
    over: int
    disk: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        source, target = (byte_on(stage, block, self.disk) for block in (self.block, self.over))
        return [["copy", f"#{self.disk}", source, target, BLOCK_BYTES]]


class AgeStep(SceneAction, frozen=True, kw_only=True, tag="age"):
    """Restores an earlier version of some sectors of a block on its member, as if the last write had been torn."""

    block: int
    generation: int
    sectors: tuple[int, int] = (0, 8)
    """First sector and number of sectors, of 512 bytes each."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        slot, at = place_named(stage, self.block, "data")
        return [["age", f"#{slot}", at, self.block, self.generation, list(self.sectors)]]


class CulpritsStep(SceneAction, frozen=True, kw_only=True, tag="locate"):
    """Uses P and Q to locate the wrong chunk of each inconsistent RAID 6 row; ``mends`` also rewrites that chunk."""

    mends: bool = False

    def guest_steps(self, stage: Stage) -> GuestSteps:
        rows = stage.places.geometry()["rows"]
        if stage.array.level != "raid6":
            raise SpecError("the wrong chunk can be located only on RAID 6", hint="use level raid6")
        return [["culprits", [row[1:] for row in rows], *([True] if self.mends else [])]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        culprits = [f"{what.split()[0]} on member {slot}" for _, what, slot in evidence.get("culprits", ())]
        return {"culprits": ", ".join(culprits) or "none"}


class CopiesStep(SceneAction, frozen=True, kw_only=True, tag="copies"):
    """Judges each copy of a block in a mirror; the facts are ``copy_0`` and so on."""

    block: int

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {f"copy_{slot}": verdict for slot, verdict in evidence.get("copies", {}).items()}


class RecordStep(SceneAction, frozen=True, kw_only=True, tag="record"):
    """Starts recording all drives."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        settled: GuestSteps = [["drain"]] if stage.is_open else []
        # The content of a drive with requests in flight is not defined, so a recording could not start from it.
        return [*settled, ["pause", 0.5], ["record", list(range(DRIVES))]]


class PowerCutStep(SceneAction, frozen=True, kw_only=True, tag="power-cut"):
    """Cuts the power. The array is gone, and each drive independently holds a state that the cut could have left.

    ``kind`` is ended (a crash of the kernel only), flushed, come, prefix, subset or torn (guest/ledger.py).
    """

    kind: str = "subset"
    seed: int | str = 1

    def guest_steps(self, stage: Stage) -> GuestSteps:
        require_kinds([self.kind])
        stage.is_open = False
        return [["cut", list(range(DRIVES)), self.kind, f"{stage.seed}:{self.seed}"]]


def place_named(stage: Stage, block: int, on: str) -> tuple[int, int]:
    """Return the slot of a block's ``data``, ``copy N``, ``P`` or ``Q``, and its offset on the drive in bytes.

    Raises SpecError if the block has no such copy or parity.
    """
    places = stage.places
    known = {f"copy {number}": place for number, place in enumerate(places.places(block))}
    found = (known | places.parity_places(block)).get("copy 0" if on == "data" else on)
    if found is None:
        raise SpecError(
            f"block {block} has no {on} on a {stage.array.level}", hint="write 'data', 'copy 1', 'P' or 'Q'"
        )
    return found[0], DATA_OFFSET_BYTES + found[1] * BLOCK_BYTES


def byte_on(stage: Stage, block: int, member: int) -> int:
    """Return the offset in bytes at which a member's drive holds a block's data, copy or parity.

    Raises SpecError if the drive holds none of them.
    """
    places = stage.places
    for slot, page in (*places.places(block), *places.parity_places(block).values()):
        if slot == member:
            return DATA_OFFSET_BYTES + page * BLOCK_BYTES
    raise SpecError(f"member {member} holds neither data nor parity of block {block}", hint=places.described(block))


def require_kinds(kinds: list[str] | tuple[str, ...]) -> None:
    """Raise SpecError if one of these is not a kind of power cut."""
    for kind in kinds:
        if kind not in KINDS:
            raise SpecError(f"'{kind}' is not a kind of power cut", hint=f"choose one of {', '.join(KINDS)}")


class PointsStep(SceneAction, frozen=True, kw_only=True, tag="crash-points"):
    """Tries the states that a power cut during the recording could have left.

    The writer is closed and the array is stopped; then the array is started, recovered and judged in each state.
    """

    kinds: tuple[str, ...]
    losses: tuple[str, ...] = ("none",)
    """The drives that are lost in the same cut: ``none``, ``each`` member in turn, or drives such as ``4``."""
    moments: int = 0
    """Number of moments, evenly distributed; 0 means all of them."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        require_kinds(self.kinds)
        members = [*stage.members, *([len(stage.members)] if stage.array.journal_device else [])]
        losses: list[list[int]] = []
        for word in self.losses:
            if word == "each":
                losses += [[number] for number in stage.members]
            else:
                losses.append([] if word == "none" else sorted(numbers_in(word.replace("+", " "))))
        still: GuestSteps = [["drain"], ["pause", 0.3], ["still", list(range(DRIVES))]]
        stopped = [*still, *stage.closed(), ["run", ["mdadm", "--stop", NODE]]]
        return [*stopped, ["points", members, losses, list(self.kinds), self.moments]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        """Return in ``untouched_elsewhere`` how many lost blocks were on present members and had no write in flight."""
        elsewhere = 0
        for missing, blocks in evidence.get("untouched_at", {}).items():
            slots = numbers_in(missing.replace("+", " "))
            elsewhere += len(numbers_in(blocks) - stage.places.on_slots(slots))
        return {"untouched_elsewhere": elsewhere}


class SetsStep(SceneAction, frozen=True, kw_only=True, tag="lose-every"):
    """Loses each set of ``count`` members, which first fail in the running array and are then missing at its start.

    The facts are ``sets``, ``survived`` and ``differing``.
    """

    count: int = 2

    def sets(self, stage: Stage) -> list[tuple[int, ...]]:
        return list(combinations(stage.members, self.count))

    def guest_steps(self, stage: Stage) -> GuestSteps:
        stopped: GuestSteps = [*stage.closed(), ["run", ["mdadm", "--stop", NODE]]]
        return [*stopped, ["sets", stage.members, [list(each) for each in self.sets(stage)]]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        sets, differing, survived = self.sets(stage), [], 0
        tried = {tuple(each["failed"]): each for each in evidence.get("sets", ())}
        for failed in sets:
            reason = difference(tried[failed], stage) if failed in tried else "not tried"
            differing += [f"{failed}: {reason}"] if reason else []
            # Count what was observed, not what was expected.
            seen = tried.get(failed)
            survived += seen is not None and not seen["restart_refused"] and set(seen["verdicts"]) == {"intact"}
        return {"sets": len(sets), "survived": survived, "differing": len(differing), "differences": differing}


def difference(seen: dict[str, Any], stage: Stage) -> str:
    """Describe how md and the oracle differ from the level's arithmetic for one set of lost members, if they do."""
    failed = frozenset(seen["failed"])
    survives = stage.array.raid.survives(failed, len(stage.members))
    lost = stage.places.unreadable(failed)
    verdicts = seen.get("verdicts", {})
    unreadable = numbers_in(seen.get("at", {}).get("unreadable", ""))
    if seen["refused"]:
        return f"the whole array did not start: {seen['refused']}"
    if set(verdicts) - {"intact", "unreadable"}:
        return f"wrong data: {verdicts}"
    if unreadable != lost:
        return f"{len(unreadable)} blocks cannot be read, but {len(lost)} should be lost"
    if survives and seen["degraded"] != str(len(failed)):
        return f"degraded is {seen['degraded']}"
    if survives == bool(seen["restart_refused"]):
        return "it starts without them" if not survives else f"it does not start: {seen['restart_refused']}"
    if survives and set(seen["restarted"]["verdicts"]) != {"intact"}:
        return f"started without them: {seen['restarted']['verdicts']}"
    return ""


class MeteredStep(SceneAction, frozen=True, kw_only=True, tag="metered"):
    """Reports reads, read_sectors, writes, write_sectors and flushes since ``meter``, and ``lasted`` in seconds."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["metered"], ["state"]]


class WriteOnStep(SceneAction, frozen=True, kw_only=True, tag="write-on"):
    """Makes the oracle write for ``seconds``, or until md's ``sync_action`` is one of ``until``.

    The fact ``rate`` is the number of operations per second.
    """

    seconds: float
    until: tuple[str, ...] = ()

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(depth=4), ["load", self.seconds, list(self.until)], ["drain"], ["state"]]


class UnderStep(SceneAction, frozen=True, kw_only=True, tag="under-load"):
    """Runs a command while the oracle writes."""

    command: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(depth=8), ["under", shlex.split(self.command)]]


class StartStep(SceneAction, frozen=True, kw_only=True, tag="start"):
    """Starts a program that runs until ``end``."""

    name: str
    command: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["start", self.name, shlex.split(self.command)]]


class FileStep(SceneAction, frozen=True, kw_only=True, tag="file"):
    """Creates a file on the machine below /run/raidlab/fault, which is empty when a scenario starts."""

    path: str
    text: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        if not self.path.startswith("/run/raidlab/fault/") or ".." in self.path:
            raise SpecError(
                f"'{self.path}' is not below /run/raidlab/fault", hint="use a path such as /run/raidlab/fault/conf"
            )
        return [["file", self.path, self.text]]


class WorldStep(SceneAction, frozen=True, kw_only=True, tag="world"):
    """Saves the oracle's ledger under a name (``keep``) or restores it (``take``).

    With ``which``, the fact ``fits`` contains the names of all saved ledgers that match the data.
    """

    verb: Literal["keep", "take", "which"]
    name: str = ""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*(stage.closed() if self.verb == "take" else []), ["world", self.verb, self.name]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {"fits": " ".join(evidence["fits"]) or "none"} if "fits" in evidence else {}


class FingerprintStep(SceneAction, frozen=True, kw_only=True, tag="fingerprint"):
    """Computes the fact ``fingerprint`` from all writes in their order and from the content of the array."""


class RaceStep(SceneAction, frozen=True, kw_only=True, tag="race"):
    """Repeatedly stops the array while all its members are announced to ``mdadm --incremental``."""

    rounds: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["race", stage.members, self.rounds]]


class UnmountStep(SceneAction, frozen=True, kw_only=True, tag="unmount"):
    """Unmounts the array's file system."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["unmount"]]


class OracleOnStep(SceneAction, frozen=True, kw_only=True, tag="oracle-on"):
    """Moves the oracle's data to a file on the mounted file system; ``blocks`` is the number of its blocks."""

    path: str
    blocks: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        steps = stage.closed()
        stage.path, stage.blocks = self.path, self.blocks
        return [*steps, ["run", ["sh", "-c", f"> {shlex.quote(self.path)}"]], ["data", self.path]]


class LogStep(SceneAction, frozen=True, kw_only=True, tag="log"):
    """Reads the kernel log. The fact ``complaints`` is the number of warnings, bugs and hung tasks in it."""


FORMAT_VERSION = 3
FORMAT_VERSIONS = range(1, FORMAT_VERSION + 1)
"""Formats that can be read. lab.tomlfile translates the names that earlier formats used."""
FOLDER = Path(__file__).with_name("scenarios")
NEEDS = {
    "record": "drives that can be recorded: those of the lab's own kernel (make uml-kernel)",
    "lab-drives": "the lab's own drives, which can be pulled and slowed down (make uml-kernel)",
    "late-data": "drives that read a write's data only at its end: those of the lab's own kernel (make uml-kernel)",
}
"""Optional property of a machine -> description. Device-mapper targets, such as ``dm:dust``, are not listed."""
_NEEDED_BY = {
    **dict.fromkeys(("record", "power-cut", "crash-points"), "record"),
    **dict.fromkeys(("array.pull", "array.plug-in", "slow"), "lab-drives"),
    # The network block device copies the data into a socket when a write starts.
    "changed-write": "late-data",
}


Does = SceneStep | SceneAction | Action
"""A step, or an action from which nothing is expected."""


def expecting(does: SceneAction | Action, **expect: Expectation) -> SceneStep:
    """Return a step with these expectations."""
    return SceneStep(does=does, expect=expect)


NO_COMPLAINTS = expecting(LogStep(), complaints=0)


class KernelRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A range of Linux versions."""

    since: str = ""
    """The first version; empty means any."""
    before: str = ""
    """The first later version that behaves differently; empty if there is none."""

    def includes(self, kernel_release: str) -> bool:
        version = version_numbers(kernel_release)
        is_later = not self.since or version >= version_numbers(self.since)
        return is_later and (not self.before or version < version_numbers(self.before))


class KernelDefect(KernelRange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A defect of md that makes a variant end differently on the kernels that have it."""

    finding: Annotated[int, msgspec.Meta(ge=1)]
    """Its number in docs/findings.md."""
    since: str
    """The first version that has it, or on which it was first seen."""
    hangs: bool = False
    """Whether the machine can no longer be used afterwards, because a request to the array never completes."""
    facts: tuple[str, ...] = ()
    """The facts that may then differ from what is expected. The defect explains neither other differences nor a step
    that cannot be carried out.
    """


class SceneVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs the steps on another array, or with other values."""

    name: str
    array: dict[str, Any] = {}
    """Changes to the arguments of ``array.create``."""
    member_bytes: int = 0
    """The size of the data on each member; 0 means the scenario's."""
    values: dict[str, int | float | str | list[int | str]] = {}
    defect: KernelDefect | None = None
    kernels: KernelRange = KernelRange()
    """The kernels on which md behaves as the variant expects; another variant covers the other kernels."""


class ScenarioText(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a scenario, which its outcome repeats."""

    number: Annotated[int, msgspec.Meta(ge=1, le=99)]
    id: Name
    title: str
    model: str
    """The fault model: what is lost, and what is not."""
    must: tuple[str, ...]
    """The required results, as sentences."""
    sources: tuple[str, ...]
    """Manual pages, kernel documents or functions from which the requirements follow."""
    notes: tuple[str, ...] = ()
    """Remarks, such as where and why md differs from its documentation, and what the scenario does not test."""


class Scenario(ScenarioText, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault, how it is injected, and what must hold."""

    format_version: FormatVersion
    is_first: bool = False
    """Whether it is one of the scenarios to run first."""
    code: Literal["", "random_histories"] = ""
    """The function in this module that generates the variants, if a table cannot express them."""
    array: dict[str, Any] = {}
    """Arguments of ``array.create``, where they differ from those that ``create_action`` supplies."""
    member_bytes: int = MIB
    """The size of the data on each member."""
    variants: tuple[SceneVariant, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.format_version not in FORMAT_VERSIONS:
            raise ValueError(f"format_version is {self.format_version}; this raidlab reads up to {FORMAT_VERSION}")

    def ready(self, seed: int) -> Iterator[ReadyVariant]:
        """Yield the variants with all placeholders replaced. Raises LabError if a value is invalid."""
        if self.code:
            yield from random_histories(self, seed)
            return
        for variant in self.variants or (SceneVariant(name=""),):
            arguments = with_new_scenario_array({**self.array, **variant.array}, self.format_version)
            member_bytes = arguments.pop("member_bytes", 0) or variant.member_bytes or self.member_bytes
            create = create_action(arguments, f"{self.id}: the array of {variant.name or 'the scenario'}")
            array = array_of(create, member_bytes)
            built_in = built_in_values(array)
            its_drives = str(built_in["drives"])
            values = {**built_in, **fill_tree(variant.values, built_in)}
            defect = variant.defect
            if defect:
                defect = msgspec.structs.replace(defect, facts=tuple(fill_tree(defect.facts, values)))
            steps = [
                step for tree in self.steps for step in with_new_scenario_step(tree, self.format_version, its_drives)
            ]
            listed = tuple(
                step_of(fill_tree(tree, values), f"{self.id}: step {number}", create)
                for number, tree in enumerate(steps, 1)
                if not tree.get("only") or variant.name in tree["only"]
            )
            # In every scenario, the kernel must not log any complaint.
            last = () if listed and listed[-1].word == "log" else (NO_COMPLAINTS,)
            yield ReadyVariant(
                name=variant.name,
                array=array,
                steps=(*listed, *last),
                seed=f"{seed}:{self.id}",
                defect=defect,
                kernels=variant.kernels,
            )


class ReadyVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that is ready to run, with an array and steps without placeholders."""

    name: str
    array: ArraySpec
    steps: tuple[SceneStep, ...]
    seed: str
    is_apart: bool = False
    """Whether to run it on a separate machine if possible, so that two runs can be compared write by write."""
    defect: KernelDefect | None = None
    kernels: KernelRange = KernelRange()

    @property
    def needs(self) -> tuple[str, ...]:
        """What the machine must provide, as keys of NEEDS."""
        layers = {target for step in self.steps if isinstance(step.does, LayerStep) for target in step.does.targets}
        return tuple(sorted(layers | {_NEEDED_BY[step.word] for step in self.steps if step.word in _NEEDED_BY}))

    def stage(self) -> Stage:
        return Stage(self.array, self.seed)


@cache
def words() -> Mapping[str, type[SceneAction | Action]]:
    """Return the classes of the actions by their names in files."""
    shared = [kind for kind in ACTIONS if issubclass(kind, OperationAction | Wait | Pull | PlugIn)]
    plain = {
        word: msgspec.defstruct(word, fields, bases=(SceneAction,), frozen=True, kw_only=True, tag=word)
        for word, fields in _PLAIN.items()
    }
    own: dict[str, Any] = {**kinds_by_tag("act", globals()), **plain}
    return {**{str(kind.__struct_config__.tag): kind for kind in (*shared, ShellLine)}, **own}


def create_action(arguments: Mapping[str, Any], source: str = "array") -> Create:
    """Return the action that creates an array: by default a RAID 5 of 4 drives, created as clean, with small chunks.

    The drives are blank, so parity and copies are consistent. ``chunk`` is ignored at levels without chunks, and
    ``assume_clean`` and ``bitmap_chunk`` are ignored at levels without redundancy, so that the variants of a scenario
    can share them. Raises SpecError if an argument is invalid.
    """
    level = kind_of_level(name := str(arguments.get("level", "raid5"))).raid(name)
    usual: dict[str, Any] = {"level": name, "disks": 4, "assume_clean": True, "chunk": str(CHUNK_BYTES)}
    ignored = set() if level.has_chunk else {"chunk"}
    ignored |= set() if level.is_redundant else {"assume_clean", "bitmap_chunk"}
    used = {key: value for key, value in {**usual, **arguments}.items() if key not in ignored}
    return convert_tree(_with_names(used), Create, source=source)


def array_of(create: Create, member_bytes: int = MIB) -> ArraySpec:
    """Return the array that ``array.create`` creates on the drives. Raises SpecError if the drives are too few."""
    try:
        spec = create.spec(drives(), drives())
    except ArrayError as error:
        raise SpecError(error.message, hint=f"a scenario has {DRIVES} drives, so request fewer disks") from None
    if not isinstance(spec, ArraySpec):
        raise SpecError(f"scenarios do not create arrays of level {create.level}", hint="choose one of md's levels")
    spec = replace(spec, size_bytes=member_bytes, data_offset_bytes=DATA_OFFSET_BYTES)
    block_map(spec)
    return spec


def _with_names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an action of lab.actions, which expects names of disks where scenarios use numbers."""
    names = {key: [value] for key, value in arguments.items() if type(value) is int}
    names |= {key: value for key, value in arguments.items() if isinstance(value, list)}
    return {**arguments, **{key: ",".join(map(str, value)) for key, value in names.items()}}


def step_of(tree: Mapping[str, Any], source: str, create: Create | None = None) -> SceneStep:
    """Return the step that a table describes; ``create`` is what ``array.create`` without arguments stands for.

    Raises SpecError, with the nearest name in its hint, if a name, an argument or a fact is unknown.
    """
    # All fields but ``does``, which is the rest of the table.
    framing = {key: tree[key] for key in SceneStep.__struct_fields__[1:] if key in tree}
    written = {key: value for key, value in tree.items() if key not in framing}
    kind = words().get(str(tree.get("act")), SceneAction)
    if issubclass(kind, Action):
        written = _with_names(written)
    if create and kind is Create and len(written) == 1:
        written |= msgspec.to_builtins(create)
    does = make_tagged(written, words(), what="step", key="act", where=source)
    step = convert_tree({**framing, "does": does}, SceneStep, source=source)
    for name in step.expect:
        if name not in KNOWN and not NUMBERED.fullmatch(name):
            near = nearest(name, (*KNOWN, *(f"{each}_0" for each in (*MEMBER_FACTS, "events", "copy"))))
            hint = f"did you mean '{near}'?" if near else "lab/faults/scenario.py lists them"
            raise SpecError(f"{source} ({step.word}): there is no fact '{name}'", hint=hint)
    return step


def read_scenario(path: Path) -> Scenario:
    """Read the scenario in a file. Raises SpecError if the file or one of its steps is invalid."""
    scenario = read_toml(path, Scenario)
    name = f"{scenario.number:02d}-{scenario.id}"
    if path.stem != name:
        raise SpecError(f"'{path.name}' is not named after its number and id", hint=f"name it {name}.toml")
    for variant in scenario.ready(1):
        stage = variant.stage()
        for step in variant.steps:
            try:
                step.guest_steps(stage)
            except (LabError, ValueError, KeyError) as error:
                raise SpecError(f"{path.name}: {variant.name}: {step.word}: {error}", hint="fix that step") from None
    return scenario


@cache
def all_scenarios() -> tuple[Scenario, ...]:
    """Return the catalogue, sorted by number."""
    return tuple(sorted(map(read_scenario, FOLDER.glob("*.toml")), key=lambda each: each.number))


def find_scenario(word: str) -> Scenario:
    """Return the scenario with this number or id. Raises SpecError, with the nearest id in its hint."""
    known = {each.id: each for each in all_scenarios()} | {str(each.number): each for each in all_scenarios()}
    key = word.lstrip("0") if word.isdigit() else word
    if key not in known:
        raise unknown_word("scenario", word, [name for name in known if not name.isdigit()])
    return known[key]


ARRAYS = tuple(
    create_action(arguments)
    for arguments in (
        {"level": "raid5", "disks": 4},
        {"level": "raid6", "disks": 5},
        {"level": "raid1", "disks": 3},
        {"level": "raid10", "disks": 4},
        {"level": "raid5", "disks": 4, "bitmap_chunk": "64K"},
        {"level": "raid5", "disks": 4, "policy": "ppl"},
    )
)
OPERATIONS = 14
"""Number of operations in one history; each is followed by a check."""


@dataclass
class ArrayModel:
    """The expected state of the array: the drive in each slot (None if vacant), the faulty drives and the free ones."""

    array: ArraySpec
    chance: random.Random
    slots: dict[int, int | None] = field(default_factory=dict)
    faulty: list[int] = field(default_factory=list)
    """Drives that md lists as faulty. After a restart, md no longer lists them, but their stale superblocks remain."""
    free: list[int] = field(default_factory=list)
    has_moved: bool = False

    def __post_init__(self) -> None:
        self.slots = {slot: slot for slot in range(len(self.array.members))}
        self.free = list(range(len(self.array.members), DRIVES))

    @property
    def missing(self) -> frozenset[int]:
        return frozenset(slot for slot, drive in self.slots.items() if drive is None)

    @property
    def drives(self) -> tuple[int, ...]:
        return tuple(drive for drive in self.slots.values() if drive is not None)

    def can_lose(self) -> list[int]:
        """Return the slots that, by the level's arithmetic, may fail too."""
        return [
            slot
            for slot, drive in self.slots.items()
            if drive is not None and self.array.raid.survives(self.missing | {slot}, len(self.array.members))
        ]

    def seen(self, *, settles: bool = False) -> SceneStep:
        return expecting(CheckStep(settles=settles), data="intact", degraded=len(self.missing))

    def write(self) -> list[Does]:
        return [WriteStep(operations=self.chance.randint(5, 40), depth=self.chance.choice((1, 4, 16))), self.seen()]

    def fail(self) -> list[Does]:
        """During writes, fail a member whose loss the level survives."""
        if not (possible := self.can_lose()):
            return self.write()
        slot = self.chance.choice(possible)
        drive = self.slots[slot]
        assert drive is not None
        self.slots[slot] = None
        self.faulty.append(drive)
        before = WriteStep(operations=self.chance.randint(4, 12), waits=False)
        return [before, Fail(disk=str(drive)), WriteStep(operations=8), self.seen()]

    def rebuild(self) -> list[Does]:
        """During writes, remove the failed members and rebuild onto new drives."""
        if not self.missing or len(self.free) < len(self.missing):
            return self.write()
        done: list[Does] = [Remove(disk=str(drive)) for drive in self.faulty]
        if self.faulty:
            names = " ".join(f"@{drive}" for drive in self.faulty)
            done.append(ShellLine(line=f"mdadm --zero-superblock {names}"))
        new = [self.free.pop(0) for _ in self.missing]
        for slot, drive in zip(sorted(self.missing), new, strict=True):
            self.slots[slot] = drive
        self.free += self.faulty
        self.faulty, self.has_moved = [], True
        load = WriteStep(operations=10)
        return [*done, *(Add(disk=str(drive)) for drive in new), load, Wait(), self.seen()]

    def replace(self) -> list[Does]:
        if self.missing or self.faulty or not self.free:
            return self.write()
        slot = self.chance.choice(sorted(self.slots))
        old, new = self.slots[slot], self.free.pop(0)
        assert old is not None
        self.slots[slot], self.has_moved = new, True
        self.faulty.append(old)
        copied = Replace(disk=str(old), new=str(new))
        return [copied, WriteStep(operations=10), Wait(), self.seen()]

    def scrub(self) -> list[Does]:
        return [expecting(Scrub(), mismatch_cnt=0), self.seen()]

    def assembly(self) -> Assemble:
        return Assemble(array=ARRAY, disks=",".join(map(str, self.drives)))

    def restart(self) -> list[Does]:
        """Stop the array cleanly and start it from the remaining members."""
        self.faulty = []
        return [StopArray(), self.assembly(), self.seen()]

    def crash(self) -> list[Does]:
        """Crash the kernel during writes; a degraded parity array is restarted instead, because of the write hole."""
        if self.missing and self.array.raid.parity_members:
            return self.restart()
        self.faulty = []
        return [
            RecordStep(),
            WriteStep(operations=self.chance.randint(5, 30), waits=False),
            PowerCutStep(kind="ended", seed=self.chance.randrange(1 << 30)),
            *(self.assembly(), Wait(), self.seen(settles=True)),
        ]

    def corrupt(self) -> list[Does]:
        """Corrupt a block and repair it immediately, before any later operation depends on it.

        This is done only on a complete RAID 6, because no other level can locate the wrong chunk.
        """
        if self.missing or self.has_moved or self.array.level != "raid6":
            return self.write()
        block = self.chance.randrange(block_map(self.array).blocks)
        self.faulty = []
        bad = expecting(CheckStep(), data="corrupt", corrupt_at=f"= blocks {block}")
        return [
            *(StopArray(), CorruptStep(block=block), self.assembly()),
            *(bad, CulpritsStep(mends=True)),
            *(RestartStep(disks=self.drives), self.seen()),
        ]


def random_histories(scenario: Scenario, seed: int) -> Iterator[ReadyVariant]:
    """Yield one history per array, then the first one again on another machine, where all writes must be the same."""
    for number, create in enumerate((*ARRAYS, ARRAYS[0])):
        is_again, array = number == len(ARRAYS), array_of(create)
        word = f"{seed}:{scenario.id}:{0 if is_again else number}"
        model = ArrayModel(array, random.Random(word))
        done: list[Does] = [create, FillStep()]
        operations = (
            *(model.write, model.fail, model.fail, model.rebuild, model.rebuild, model.replace),
            *(model.scrub, model.restart, model.crash, model.corrupt),
        )
        for _ in range(OPERATIONS):
            done += model.chance.choice(operations)()
        done += [*model.rebuild(), expecting(Scrub(), mismatch_cnt=0), FlushStep()]
        expect: dict[str, Expectation] = {"fingerprint": "= first.fingerprint"} if is_again else {}
        keep = "first" if not number else ""
        done.append(SceneStep(does=FingerprintStep(), keep=keep, expect=expect, is_timed=is_again))
        done.append(NO_COMPLAINTS)
        name = f"{array_title(array)}{', again' if is_again else ''}"
        is_apart = is_again or not number
        steps = tuple(each if isinstance(each, SceneStep) else SceneStep(does=each) for each in done)
        yield ReadyVariant(name=name, array=array, steps=steps, seed=word, is_apart=is_apart)
