"""The steps of scenarios: actions of lab.actions, and those that only the fault lab has.

An action on an array is the one of lessons and of the command line, with the same name, arguments and command lines
(lab.arrays.operations). The fault lab's own are the oracle's writes and verdicts, layers below members, power cuts and
measurements, which must happen on the machine within microseconds. Each is compiled to steps of the program there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal, cast

import msgspec

from lab.actions.action import Action, PlanAction
from lab.actions.arrays import Assemble, PlugIn, Pull, Scrub, StopArray, Wait
from lab.arrays import operations
from lab.arrays.levels import LevelName
from lab.arrays.spec import Bitmap
from lab.errors import SpecError
from lab.faults.arrays import ARRAY, BLOCK_BYTES, DATA_OFFSET_BYTES, MD, NODE
from lab.faults.guest.record import KINDS
from lab.faults.stage import GuestSteps, OracleMemberPlace, Stage, numbers_in
from lab.gates.names import Name
from lab.plans import Plan
from lab.session.session import LabSession

IDLE_SECONDS = 300.0
Expectation = int | float | str | bool | list[int | float | str]


class SceneAction(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="act", omit_defaults=True
):
    """An action that only the fault lab has, and the base class of these."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        """The steps of the program on the machine: its method of this name, with the fields in order."""
        return [[str(self.__struct_config__.tag).replace("-", "_"), *msgspec.structs.astuple(self)]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        """Facts specific to this class, in addition to those of every step."""
        return {}


class SceneStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step: an action of the fault lab or of lab.actions, and what is expected after it."""

    does: Any
    """A SceneAction or an Action."""
    why: str = ""
    """A sentence for the user."""
    only: tuple[str, ...] = ()
    """Only in these variants; empty: in all."""
    expect: dict[str, Expectation] = {}
    """Fact -> expected value, for the evidence after this step (FACTS)."""
    is_timed: bool = False
    """Whether the expectations compare times; they are checked in virtual time only, independently of other load."""
    keep: str = ""
    """A name under which the facts are kept, for expectations of later steps and variants."""

    @property
    def word(self) -> str:
        """The name of the action in files."""
        return str(self.does.__struct_config__.tag)

    def guest_steps(self, stage: Stage) -> GuestSteps:
        """The steps of the program on the machine."""
        return _planned(self.does, stage) if isinstance(self.does, Action) else self.does.guest_steps(stage)

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        """Facts specific to the action, in addition to those of every step."""
        return {} if isinstance(self.does, Action) else self.does.facts(evidence, stage)


def _planned(action: Action, stage: Stage) -> GuestSteps:
    """The plan of an action of lab.actions, which the program on the machine runs."""
    if isinstance(action, Wait):
        return [["idle", IDLE_SECONDS]]
    if isinstance(action, Pull | PlugIn):
        # The machine's program tells the driver itself: requests that the drive has in flight fail.
        return [["line", f"{'pull' if isinstance(action, Pull) else 'plug'} {action.disk}"]]
    if not isinstance(action, PlanAction):
        raise SpecError(f"a scenario has no {action.words}", hint="choose an action that has a plan")
    # What a plan needs of a session are its arrays; those of a scenario are known to the program on the machine only.
    plan = action.plan(cast(LabSession, ScenarioArrays(stage)))
    steps = stage.closed() if isinstance(action, StopArray | RestartStep) else []
    steps += [["run", list(step.argv), step.timeout_seconds] for step in plan.steps]
    if isinstance(action, AssembleStep) and action.activates:
        # Here md starts arrays read-auto.
        steps.append(["activate"])
    return [*steps, ["idle", IDLE_SECONDS]] if isinstance(action, Scrub) and action.waits_for else steps


@dataclass(frozen=True)
class ScenarioArrays:
    """The arrays of a scenario, for the plans of actions."""

    stage: Stage

    def array(self, name: str) -> ScenarioArray:
        return ScenarioArray(name, self.stage)


@dataclass(frozen=True)
class ScenarioArray:
    """Plans the operations on an array as lab.arrays.md.MdArray does, but from the action alone.

    A whole history is planned before it runs, in one program on the machine, so no plan can depend on the current state
    of the array: a client that looked at it in between would determine the timing.
    """

    name: str
    stage: Stage

    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        return operations.fail(self.name, f"@{disk}", breaks_array=breaks_array)

    def remove(self, disk: str) -> Plan:
        return operations.remove(self.name, f"@{disk}")

    def add(self, disk: str) -> Plan:
        return operations.add(self.name, f"@{disk}")

    def re_add(self, disk: str) -> Plan:
        return operations.re_add(self.name, f"@{disk}")

    def replace(self, old: str, new: str) -> Plan:
        return operations.replace(self.name, f"@{old}", f"@{new}")

    def scrub(self, action: str) -> Plan:
        plans = {"check": operations.scrub_check, "repair": operations.scrub_repair, "stop": operations.scrub_stop}
        return plans[action](self.name)

    def speed(self, **limits: int | None) -> Plan:
        return operations.set_sync_speed(self.name, **limits)

    def bitmap(self, kind: Bitmap, *, chunk_bytes: int | None) -> Plan:
        return operations.set_bitmap(self.name, kind, chunk_bytes=chunk_bytes)

    def stop(self) -> Plan:
        return operations.stop(self.name)

    def grow(self, *, disks: Sequence[str], count: int | None, level: str | None) -> Plan:
        """Onto the drives that follow its members; those not in ``disks`` must be spares."""
        stage, added = self.stage, [f"@{disk}" for disk in disks]
        members, old = stage.members, stage.level
        if count is None:
            count = members + len(disks) + (level == LevelName.RAID6)
        spares = [f"@{number}" for number in range(members + len(disks), count)]
        stage.members, stage.level = count, level or old
        if level:
            return operations.grow_level(self.name, old, level, members, added, spares)
        return operations.grow_members(self.name, old, members, added, spares)


class CreateStep(SceneAction, frozen=True, kw_only=True, tag="array.create"):
    """Creates the variant's array on blank drives."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["run", stage.array.creation()]]


class ShellStep(SceneAction, frozen=True, kw_only=True, tag="shell"):
    """Runs a line of the shell; ``@2`` in it is drive 2 as md sees it, ``#2`` the bare drive."""

    line: str
    seconds: float = 60.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["run", ["sh", "-c", self.line], self.seconds]]


class AssembleStep(Assemble, frozen=True, kw_only=True, tag="array.assemble"):
    """Assembles the array from these drives."""

    array: Name = ARRAY
    disks: tuple[int, ...] = ()
    """Empty: all drives with which it was created."""
    options: tuple[str, ...] | None = None
    """Options of mdadm instead of the lab's own."""
    activates: bool = True
    """Whether to make it active at once: here md starts arrays read-auto."""

    def plan(self, session: LabSession) -> Plan:
        stage = cast(ScenarioArrays, session).stage
        disks = [f"@{disk}" for disk in self.disks or range(stage.array.drives)]
        return operations.assemble(self.array, disks, force=self.force, options=self.options)


class RestartStep(AssembleStep, frozen=True, kw_only=True, tag="restart"):
    """Stops and assembles the array, which discards md's state in memory."""

    def plan(self, session: LabSession) -> Plan:
        return StopArray(array=self.array).plan(session) + AssembleStep.plan(self, session)


class FillStep(SceneAction, frozen=True, kw_only=True, tag="fill"):
    """The oracle writes every block and flushes."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(), ["fill"]]


class WriteStep(SceneAction, frozen=True, kw_only=True, tag="write"):
    """The oracle writes at random places."""

    operations: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    first: int = 0
    count: int = 0
    """Number of blocks from ``first`` on; 0: all."""
    depth: Annotated[int, msgspec.Meta(ge=1, le=31)] = 4
    flush: int = 8
    """One operation in ``flush`` is a flush; one write in ``through`` is O_DSYNC, and one in ``whole`` a full stripe;
    0: none.
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
    """The oracle's verdict on all blocks, and the state of md."""

    settles: bool = False
    """Whether blocks with several allowed versions must keep the version found from then on."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["look"], *([["settle"]] if self.settles else [])]


class ParityStep(SceneAction, frozen=True, kw_only=True, tag="parity"):
    """Compares parity and copies on the members, without md."""

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {"wrong_parity": len(evidence.get("wrong", ()))}


class PauseStep(SceneAction, frozen=True, kw_only=True, tag="pause"):
    """Waits for a time."""

    seconds: float


class HoldStep(SceneAction, frozen=True, kw_only=True, tag="hold"):
    """Makes the next sync, rebuild, reshape or scrub stop at this percentage of a member; 100: removes the limit."""

    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["write", f"{MD}/sync_max", "max" if self.percent == 100 else str(held_at(stage, self.percent))]]


class ReachedStep(SceneAction, frozen=True, kw_only=True, tag="reached"):
    """Waits until the held operation has reached its limit."""

    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]
    seconds: float = 60.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["until", f"{MD}/sync_completed", [str(held_at(stage, self.percent))], self.seconds], ["state"]]


def held_at(stage: Stage, percent: float) -> int:
    """The position of a limit in sectors: whole chunks, at least one."""
    chunk = stage.array.chunk_bytes // 512
    sectors = stage.array.member_bytes // 512
    return max(1, min(round(sectors * percent / 100 / chunk), sectors // chunk - 1)) * chunk


class SetStep(SceneAction, frozen=True, kw_only=True, tag="set"):
    """Sets one of md's attributes, or another file given by its absolute path.

    ``dev-@2`` in the path is the folder of the member on drive 2.
    """

    file: str
    value: str | int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        path = self.file if self.file.startswith("/") else f"{MD}/{self.file}"
        return [["write", path, str(self.value)], ["state"]]


class GetStep(SceneAction, frozen=True, kw_only=True, tag="get"):
    """Reads one of md's attributes; its content is the fact ``text``."""

    file: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["read", self.file if self.file.startswith("/") else f"{MD}/{self.file}"]]


class UntilStep(SceneAction, frozen=True, kw_only=True, tag="until"):
    """Waits until one of md's attributes is one of these words, or a number not less than the first."""

    file: str
    words: tuple[str, ...]
    seconds: float = 60.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        path = self.file if self.file.startswith("/") else f"{MD}/{self.file}"
        return [["until", path, list(self.words), self.seconds], ["state"]]


class StateStep(SceneAction, frozen=True, kw_only=True, tag="look"):
    """Reads md's state but no data; ``events`` adds the event counts in the superblocks of these drives."""

    events: tuple[int, ...] = ()

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*([["events", list(self.events)]] if self.events else []), ["state"]]


_WHOLE_LAYERS = {
    "linear": "0 {size} linear #N 0",
    "dust": "0 {size} dust #N 0 512",
    "error": "0 {size} error",
    "flakey": "0 {size} flakey #N 0 ARGUMENTS",
    "delay": "0 {size} delay #N 0 ARGUMENTS",
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

    ``kind``: linear, dust, flakey, delay, error, integrity, snapshot (an overlay: ``arguments`` is the drive that
    receives the writes, such as ``#4``), shorter (by this many sectors) or loop (a loop device with sectors of this
    many bytes). ``arguments``: the arguments after the offset in its table (Documentation/admin-guide/device-mapper).
    """

    disk: int
    kind: str
    arguments: str = ""
    data_only: bool = False
    """Whether it begins at the member's data; the superblock and lists before them remain unaffected."""
    again: bool = False
    """Whether the device exists and its table is replaced."""

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
            raise SpecError(f"there is no layer '{self.kind}'", hint=f"known here: {', '.join(tables)}")
        table = tables[self.kind].replace("#N", f"#{self.disk}").replace("ARGUMENTS", self.arguments).rstrip()
        return [["table" if self.again else "layer", self.disk, table]]


class UnlayerStep(SceneAction, frozen=True, kw_only=True, tag="unlayer"):
    """Removes the device over a drive; an overlay's writes are discarded."""

    disk: int


class SumStep(SceneAction, frozen=True, kw_only=True, tag="sum"):
    """Whether the bare drives have the same content as at the first such step: fact ``same``."""

    disks: tuple[int, ...]


class ChangedWriteStep(SceneAction, frozen=True, kw_only=True, tag="changed-write"):
    """A write whose data the program changes while it is in flight."""

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
            place = place_on(stage, self.at_block, self.disk)
            text = f"{text} {stage.member_bytes_at(place.at_bytes) // 512}"
        return [["message", self.disk, text]]


class HangStep(SceneAction, frozen=True, kw_only=True, tag="hang"):
    """Suspends a device-mapper device, so that requests to it wait."""

    disk: int


class WakeStep(SceneAction, frozen=True, kw_only=True, tag="wake"):
    """Resumes a suspended device-mapper device."""

    disk: int


class SlowStep(SceneAction, frozen=True, kw_only=True, tag="slow"):
    """Delays each request of a drive by this time; 0: its normal speed."""

    disk: int
    milliseconds: float

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["line", f"pace {self.disk} {round(self.milliseconds * 1e6)}"]]


class CorruptStep(SceneAction, frozen=True, kw_only=True, tag="corrupt"):
    """Inverts bytes of a block on a member without md's knowledge; ``on``: data, copy 1, P or Q."""

    block: int
    on: str = "data"
    bytes: int = 512
    is_searched: bool = False
    """Whether to search the bare drive for the block's content, because a layer determines where it lies."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        place = place_named(stage, self.block, self.on)
        if self.is_searched:
            return [["flip_found", place.slot, self.block, self.bytes]]
        return [["flip", f"#{place.slot}", stage.member_bytes_at(place.at_bytes), self.bytes]]


class MisdirectStep(SceneAction, frozen=True, kw_only=True, tag="misdirect"):
    """Overwrites one block of a member with another of the same member, as a misdirected write does."""

    block: int
    over: int
    disk: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        source, target = (place_on(stage, block, self.disk).at_bytes for block in (self.block, self.over))
        at = stage.member_bytes_at
        return [["copy", f"#{self.disk}", at(source), at(target), BLOCK_BYTES]]


class AgeStep(SceneAction, frozen=True, kw_only=True, tag="age"):
    """Restores an earlier version of some sectors of a block on its member, as if the last write had been torn."""

    block: int
    generation: int
    sectors: tuple[int, int] = (0, 8)
    """First sector and number of sectors, of 512 bytes each."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        place = place_named(stage, self.block, "data")
        at = stage.member_bytes_at(place.at_bytes)
        return [["age", f"#{place.slot}", at, self.block, self.generation, list(self.sectors)]]


class CulpritsStep(SceneAction, frozen=True, kw_only=True, tag="locate"):
    """Locates the wrong chunk of each inconsistent RAID 6 row from P and Q; ``mends`` also rewrites it."""

    mends: bool = False

    def guest_steps(self, stage: Stage) -> GuestSteps:
        array = stage.array
        rows = stage.job((), has_record=False)["geometry"]["rows"]
        if array.level != "raid6":
            raise SpecError("only RAID 6 can tell which chunk is wrong", hint="take level raid6")
        return [["culprits", [row[1:] for row in rows], *([True] if self.mends else [])]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        told = [f"{what.split()[0]} on member {slot}" for _, what, slot in evidence.get("culprits", ())]
        return {"culprits": ", ".join(told) or "none"}


class CopiesStep(SceneAction, frozen=True, kw_only=True, tag="copies"):
    """The verdict on a block on each member of a mirror: facts ``copy_0`` and so on."""

    block: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["copies", [self.block]]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {f"copy_{slot}": words[0] for slot, words in evidence.get("copies", {}).items()}


class RecordStep(SceneAction, frozen=True, kw_only=True, tag="record"):
    """Starts recording all drives."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        settled: GuestSteps = [["drain"]] if stage.is_open else []
        # A drive with requests in flight has no defined content from which a recording could start.
        return [*settled, ["pause", 0.5], ["record", list(range(stage.drives))]]


class PowerCutStep(SceneAction, frozen=True, kw_only=True, tag="power-cut"):
    """A power cut: the array is gone, and each drive independently holds a state that the cut could have left.

    ``kind``: ended (a crash of the kernel only), flushed, come, prefix, subset or torn (guest/record.py).
    """

    kind: str = "subset"
    seed: int | str = 1

    def guest_steps(self, stage: Stage) -> GuestSteps:
        require_kinds([self.kind])
        stage.is_open = False
        return [["cut", list(range(stage.drives)), self.kind, f"{stage.seed}:{self.seed}"]]


def place_named(stage: Stage, block: int, on: str) -> OracleMemberPlace:
    """The place of a block's ``data``, ``copy N``, ``P`` or ``Q``. Raises SpecError if there is none."""
    places = stage.array.places
    if on in ("P", "Q"):
        parity = places.parity_places(block)
        if on in parity:
            return parity[on]
    else:
        copy = 0 if on == "data" else int(on.removeprefix("copy "))
        copies = places.places(block)
        if copy < len(copies):
            return copies[copy]
    raise SpecError(f"block {block} has no {on} on a {stage.array.level}", hint="write data, copy 1, P or Q")


def place_on(stage: Stage, block: int, member: int) -> OracleMemberPlace:
    """The place of a block's data, copy or parity on a member. Raises SpecError if there is none."""
    places = stage.array.places
    known = [*places.places(block)]
    if stage.array.raid.parity_members:
        known += places.parity_places(block).values()
    found = next((place for place in known if place.slot == member), None)
    if found is None:
        raise SpecError(f"member {member} has nothing of block {block}", hint=places.described(block))
    return found


def require_kinds(kinds: list[str] | tuple[str, ...]) -> None:
    """Raises SpecError for an unknown kind of power cut."""
    for kind in kinds:
        if kind not in KINDS:
            raise SpecError(f"there is no power cut of the kind '{kind}'", hint=f"known: {', '.join(KINDS)}")


class PointsStep(SceneAction, frozen=True, kw_only=True, tag="crash-points"):
    """Tries the states that a power cut during the recording could have left: each is started, recovered and judged.

    The writer closes the array, which is stopped first.
    """

    kinds: tuple[str, ...] = ("ended", "flushed", "come", "prefix", "subset", "torn")
    losses: tuple[str, ...] = ("none",)
    """The drives lost in the same cut: ``none``, ``each`` member in turn, or drives such as ``4``."""
    moments: int = 0
    """Number of moments, evenly distributed; 0: all of them."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        require_kinds(self.kinds)
        members = list(range(stage.array.members + (stage.array.journal is not None)))
        still: GuestSteps = [["drain"], ["pause", 0.3], ["still", list(range(stage.drives))]]
        stopped = [*still, *stage.closed(), ["run", ["mdadm", "--stop", NODE]]]
        return [*stopped, ["points", members, losses_of(self.losses, stage), list(self.kinds), self.moments]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        """``untouched_elsewhere``: lost blocks without a write in flight that no missing member held."""
        elsewhere = 0
        for missing, blocks in evidence.get("untouched_at", {}).items():
            slots = numbers_in(missing.replace("+", " "))
            elsewhere += len(numbers_in(blocks) - stage.array.places.on_slots(slots))
        return {"untouched_elsewhere": elsewhere}


class SetsStep(SceneAction, frozen=True, kw_only=True, tag="lose-every"):
    """Loses each set of ``count`` members: they fail in the running array, then they are missing at its start.

    Facts: ``sets``, ``survived``, ``differing``.
    """

    count: int = 2

    def sets(self, stage: Stage) -> list[tuple[int, ...]]:
        return list(combinations(range(stage.array.members), self.count))

    def guest_steps(self, stage: Stage) -> GuestSteps:
        stopped: GuestSteps = [*stage.closed(), ["run", ["mdadm", "--stop", NODE]]]
        return [*stopped, ["sets", list(range(stage.array.members)), [list(each) for each in self.sets(stage)]]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        differing, survived = [], 0
        told = {tuple(each["failed"]): each for each in evidence.get("sets", ())}
        for failed in self.sets(stage):
            # Counted by what was observed, not by what is expected.
            seen = told.get(failed, {"restart_refused": "not tried"})
            survived += not seen["restart_refused"] and set(seen["verdicts"]) == {"intact"}
            if failed not in told or (reason := difference(told[failed], stage)):
                differing.append(f"{failed}: {reason if failed in told else 'not tried'}")
        return {
            "sets": len(self.sets(stage)),
            "survived": survived,
            "differing": len(differing),
            "differences": differing,
        }


def difference(seen: dict[str, Any], stage: Stage) -> str:
    """How md and the oracle differ from the level's arithmetic for one set of lost members; empty if they do not."""
    array, failed = stage.array, frozenset(seen["failed"])
    survives = array.raid.survives(failed, array.members)
    lost = array.places.unreadable(failed)
    verdicts = seen.get("verdicts", {})
    unreadable = numbers_in(seen.get("at", {}).get("unreadable", ""))
    if seen["refused"]:
        return f"the whole array did not start: {seen['refused']}"
    if set(verdicts) - {"intact", "unreadable"}:
        return f"invented data: {verdicts}"
    if unreadable != lost:
        return f"{len(unreadable)} blocks cannot be read, and {len(lost)} should be lost"
    if survives and seen["degraded"] != str(len(failed)):
        return f"degraded says {seen['degraded']}"
    if survives == bool(seen["restart_refused"]):
        return "it starts without them" if not survives else f"it does not start: {seen['restart_refused']}"
    if survives and set(seen["restarted"]["verdicts"]) != {"intact"}:
        return f"started without them: {seen['restarted']['verdicts']}"
    return ""


class MeterStep(SceneAction, frozen=True, kw_only=True, tag="meter"):
    """Starts counting the requests to the drives."""


class MeteredStep(SceneAction, frozen=True, kw_only=True, tag="metered"):
    """The counts since ``meter``: reads, read_sectors, writes, write_sectors, flushes; and ``lasted``, the seconds."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["metered"], ["state"]]


class ReadsStep(SceneAction, frozen=True, kw_only=True, tag="reads"):
    """Single reads, one after the other; the fact ``each`` is the mean time of a read in seconds."""

    count: int


class ExposureStep(SceneAction, frozen=True, kw_only=True, tag="exposure"):
    """Waits until md is idle.

    Facts: the seconds for which the array was degraded (``exposed``), and by how many members (``most_degraded``).
    """

    seconds: float = 300.0


class LoadStep(SceneAction, frozen=True, kw_only=True, tag="load"):
    """The oracle writes for a time, or until md's action is in ``until``.

    Fact ``rate``: operations per second.
    """

    seconds: float
    until: tuple[str, ...] = ()
    depth: int = 4

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(depth=self.depth), ["load", self.seconds, list(self.until)], ["drain"], ["state"]]


class UnderStep(SceneAction, frozen=True, kw_only=True, tag="under-load"):
    """Runs a command while the oracle writes."""

    command: str
    depth: int = 8

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(depth=self.depth), ["under", shlex.split(self.command)]]


class StartStep(SceneAction, frozen=True, kw_only=True, tag="start"):
    """Starts a program that runs until ``end``."""

    name: str
    command: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["start", self.name, shlex.split(self.command)]]


class HearsStep(SceneAction, frozen=True, kw_only=True, tag="hears"):
    """Waits until a started program has printed a text."""

    name: str
    text: str
    seconds: float = 60.0


class EndStep(SceneAction, frozen=True, kw_only=True, tag="end"):
    """Ends a started program; the fact ``output`` is its output."""

    name: str


class FileStep(SceneAction, frozen=True, kw_only=True, tag="file"):
    """Creates a file on the machine below /run/raidlab/fault, which is empty at the start of a scenario."""

    path: str
    text: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        if not self.path.startswith("/run/raidlab/fault/") or ".." in self.path:
            raise SpecError(
                f"'{self.path}' is not below /run/raidlab/fault", hint="write such as /run/raidlab/fault/conf"
            )
        return [["file", self.path, self.text]]


class WorldStep(SceneAction, frozen=True, kw_only=True, tag="world"):
    """Saves the oracle's ledger under a name (``keep``) or restores it (``take``).

    ``which``: the fact ``fits`` has the names of all saved ledgers that match the data.
    """

    verb: Literal["keep", "take", "which"]
    name: str = ""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*(stage.closed() if self.verb == "take" else []), ["world", self.verb, self.name]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {"fits": " ".join(evidence["fits"]) or "none"} if "fits" in evidence else {}


class FingerprintStep(SceneAction, frozen=True, kw_only=True, tag="fingerprint"):
    """The fact ``fingerprint``: a number derived from all writes in their order and from the content of the array."""


class RaceStep(SceneAction, frozen=True, kw_only=True, tag="race"):
    """Stops the array while all its members are announced to ``mdadm --incremental``, repeatedly."""

    rounds: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["race", list(range(stage.array.members)), self.rounds]]


class MountStep(SceneAction, frozen=True, kw_only=True, tag="mount"):
    """Mounts the array's file system at /run/raidlab/mnt/fault."""

    file_system: str = "ext4"

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["mount", self.file_system, NODE]]


class UnmountStep(SceneAction, frozen=True, kw_only=True, tag="unmount"):
    """Unmounts the array's file system."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["unmount"]]


class OracleOnStep(SceneAction, frozen=True, kw_only=True, tag="oracle-on"):
    """Moves the oracle's data to a file of the mounted file system, of this many blocks."""

    path: str
    blocks: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        steps = stage.closed()
        stage.path, stage.blocks = self.path, self.blocks
        return [*steps, ["run", ["sh", "-c", f"> {shlex.quote(self.path)}"]], ["data", self.path]]


class LogStep(SceneAction, frozen=True, kw_only=True, tag="log"):
    """Reads the kernel log; the fact ``complaints`` is the number of warnings, bugs and hung tasks."""


def losses_of(words: tuple[str, ...], stage: Stage) -> list[list[int]]:
    """The lists of lost drives that these words denote."""
    found: list[list[int]] = []
    for word in words:
        if word == "each":
            found += [[number] for number in range(stage.array.members)]
        else:
            found.append([] if word == "none" else sorted(numbers_in(word.replace("+", " "))))
    return found
