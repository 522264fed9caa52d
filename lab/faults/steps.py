"""The steps of scenarios: arrays, the writer of the oracle, what is looked at, what is broken, and what is measured.

Each is a Struct with its arguments, and becomes steps of the program on the machine. A step that stands for a command
of mdadm is that command.
"""

from __future__ import annotations

import shlex
from itertools import combinations
from typing import Annotated, Any, Literal

import msgspec

from lab.errors import SpecError
from lab.faults.arrays import BLOCK_BYTES, DATA_OFFSET_BYTES, MD, NODE
from lab.faults.guest.record import KINDS
from lab.faults.stage import GuestSteps, OracleMemberPlace, Stage, numbers_in

Expectation = int | float | str | bool | list[int | float | str]
Drive = int | str
"""Its number, or ``{new}`` and the like, which are filled in before the steps are read."""


class SceneStep(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do", omit_defaults=True
):
    """What all steps have."""

    why: str = ""
    """A sentence for whoever watches."""
    only: tuple[str, ...] = ()
    """Only in these variants; empty: in all."""
    expect: dict[str, Expectation] = {}
    """Fact -> what it must be, of the evidence after this step (lab/faults/stage.py)."""
    is_timed: bool = False
    """Its expectations compare times, and hold in virtual time alone: a busy computer must not decide a verdict."""
    keep: str = ""
    """A name under which its facts are kept, for expectations of later steps and variants."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        """What the program on the machine does for it."""
        raise NotImplementedError

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        """What only this kind of step tells, beside what is read from any evidence."""
        return {}

    @property
    def word(self) -> str:
        """What it is called in a file."""
        return str(self.__struct_config__.tag)


class CreateStep(SceneStep, frozen=True, kw_only=True, tag="create"):
    """The variant's array is created on blank drives."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["run", stage.array.creation()]]


class CommandStep(SceneStep, frozen=True, kw_only=True, tag="run"):
    """A command; ``@2`` in it is drive 2 as md sees it, ``#2`` the bare drive."""

    command: str
    seconds: float = 60.0
    input: str = ""
    closes: bool = False
    """The oracle's writer lets go of the array first."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*(stage.closed() if self.closes else []), ["run", shlex.split(self.command), self.seconds, self.input]]


class ManageStep(SceneStep, frozen=True, kw_only=True):
    """``mdadm /dev/md0 --VERB``."""

    members: tuple[Drive, ...]

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["run", ["mdadm", NODE, f"--{self.word}", *(f"@{number}" for number in self.members)]]]


class FailStep(ManageStep, frozen=True, kw_only=True, tag="fail"):
    """md takes the members for broken."""


class RemoveStep(ManageStep, frozen=True, kw_only=True, tag="remove"):
    """md lets go of them."""


class AddStep(ManageStep, frozen=True, kw_only=True, tag="add"):
    """New ones, or old ones as new."""


class ReaddStep(ManageStep, frozen=True, kw_only=True, tag="re-add"):
    """Old ones as what they were."""


class ReplaceStep(SceneStep, frozen=True, kw_only=True, tag="replace"):
    """One member is copied to another drive while it stays in the array."""

    member: Drive
    by: Drive

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["run", ["mdadm", NODE, "--replace", f"@{self.member}", "--with", f"@{self.by}"]]]


class StopStep(SceneStep, frozen=True, kw_only=True, tag="stop"):
    """The array stops in good order."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["run", ["mdadm", "--stop", NODE]]]


class AssembleStep(SceneStep, frozen=True, kw_only=True, tag="assemble"):
    """The array starts from these drives."""

    members: tuple[Drive, ...] = ()
    """Empty: all it was made of."""
    options: tuple[str, ...] = ()
    activates: bool = True
    """It may be written on at once: md starts arrays as auto-read-only here."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        members = self.members or tuple(range(stage.array.drives))
        argv = ["mdadm", "--assemble", NODE, *self.options, *(f"@{number}" for number in members)]
        return [["run", argv], *([["activate"]] if self.activates else [])]


class RestartStep(AssembleStep, frozen=True, kw_only=True, tag="restart"):
    """It stops and starts again: what md kept in memory is gone."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["run", ["mdadm", "--stop", NODE]], *super().guest_steps(stage)]


class FillStep(SceneStep, frozen=True, kw_only=True, tag="fill"):
    """The oracle writes every block, and flushes."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(), ["fill"]]


class WriteStep(SceneStep, frozen=True, kw_only=True, tag="write"):
    """The oracle writes here and there."""

    operations: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    first: int = 0
    count: int = 0
    """Blocks that are written to; 0: all."""
    depth: Annotated[int, msgspec.Meta(ge=1, le=31)] = 4
    flush: int = 8
    """One operation in so many is a flush; 0: none.

    The same of ``through``, a write past all caches, and of ``whole``, a full stripe.
    """
    through: int = 16
    whole: int = 8
    largest: int = 8
    waits: bool = True
    """For what is under way."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        where = {"first": self.first, "count": self.count or stage.data_blocks}
        mix = {name: getattr(self, name) for name in ("depth", "flush", "through", "whole", "largest")}
        steps = [*stage.opened(**where, **mix), ["advance", self.operations]]
        return [*steps, ["drain"]] if self.waits else steps


class FlushStep(SceneStep, frozen=True, kw_only=True, tag="flush"):
    """All that was written is on the media."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(), ["flush"]]


class CloseStep(SceneStep, frozen=True, kw_only=True, tag="close"):
    """The oracle's writer lets go of the array."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return stage.closed()


class CheckStep(SceneStep, frozen=True, kw_only=True, tag="check"):
    """The oracle's verdict on what can be read, with md's words."""

    settles: bool = False
    """What blocks hold now, of which several versions were allowed, is what they must hold from now on."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["look"], *([["settle"]] if self.settles else [])]


class ScrubStep(SceneStep, frozen=True, kw_only=True, tag="scrub"):
    """md reads all members and compares; ``repair`` also rewrites what does not fit."""

    action: Literal["check", "repair"] = "check"
    waits: bool = True

    def guest_steps(self, stage: Stage) -> GuestSteps:
        begun: GuestSteps = [["write", f"{MD}/sync_action", self.action]]
        return [*begun, ["idle", 300]] if self.waits else begun


class ParityStep(SceneStep, frozen=True, kw_only=True, tag="parity"):
    """Parity and copies compared on the members themselves, without md."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["parity"]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {"wrong_parity": len(evidence.get("wrong", ()))}


class IdleStep(SceneStep, frozen=True, kw_only=True, tag="wait"):
    """Until md has nothing to do."""

    seconds: float = 300.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["idle", self.seconds]]


class PauseStep(SceneStep, frozen=True, kw_only=True, tag="pause"):
    """Time passes."""

    seconds: float

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["pause", self.seconds]]


class HoldStep(SceneStep, frozen=True, kw_only=True, tag="hold"):
    """The next sync, rebuild, reshape or scrub stops at this part of a member and waits there; 100: it is let go."""

    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["write", f"{MD}/sync_max", "max" if self.percent == 100 else str(held_at(stage, self.percent))]]


class ReachedStep(SceneStep, frozen=True, kw_only=True, tag="reached"):
    """Until what is held has come to where it is held."""

    percent: Annotated[float, msgspec.Meta(ge=0, le=100)]
    seconds: float = 60.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["until", f"{MD}/sync_completed", [str(held_at(stage, self.percent))], self.seconds], ["state"]]


def held_at(stage: Stage, percent: float) -> int:
    """Sectors of a member, in whole chunks, and at least one."""
    chunk = stage.array.chunk_bytes // 512
    sectors = stage.array.member_bytes // 512
    return max(1, min(round(sectors * percent / 100 / chunk), sectors // chunk - 1)) * chunk


class SetStep(SceneStep, frozen=True, kw_only=True, tag="set"):
    """A value for one of md's attributes, or for another file if its whole path is given.

    ``dev-@2`` is a member's folder.
    """

    file: str
    value: str | int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        path = self.file if self.file.startswith("/") else f"{MD}/{self.file}"
        return [["write", path, str(self.value)], ["state"]]


class GetStep(SceneStep, frozen=True, kw_only=True, tag="get"):
    """One of md's attributes, as the fact ``text``."""

    file: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["read", self.file if self.file.startswith("/") else f"{MD}/{self.file}"]]


class UntilStep(SceneStep, frozen=True, kw_only=True, tag="until"):
    """Until one of md's attributes says one of these words, or a number of at least the first."""

    file: str
    words: tuple[str, ...]
    seconds: float = 60.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        path = self.file if self.file.startswith("/") else f"{MD}/{self.file}"
        return [["until", path, list(self.words), self.seconds], ["state"]]


class StateStep(SceneStep, frozen=True, kw_only=True, tag="look"):
    """What md says, without a read of the data; with the event counts of the superblocks of these drives."""

    events: tuple[Drive, ...] = ()

    def guest_steps(self, stage: Stage) -> GuestSteps:
        if any(not isinstance(each, int) for each in self.events):
            raise SpecError("event counts are of drives by number", hint="write such as events = [0, 1]")
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
    # Superblock and bad-block list stay writable; the data do not.
    "flakey": (
        f"0 {_DATA_SECTORS} linear #N 0\n{_DATA_SECTORS} {{size-{_DATA_SECTORS}}} flakey #N {_DATA_SECTORS} ARGUMENTS"
    ),
}


class LayerStep(SceneStep, frozen=True, kw_only=True, tag="layer"):
    """A device of the mapper between a drive and md; if there is one already, another table for it, in use.

    ``kind``: linear, dust, flakey, delay, error, integrity, snapshot (an overlay: ``arguments`` is the drive that
    takes what is written, such as ``#4``), shorter (by so many sectors) or loop
    (sectors of so many bytes); ``arguments``: what follows the place in its table (Documentation/admin-guide/device-
    mapper).
    """

    member: Drive
    kind: str
    arguments: str = ""
    data_only: bool = False
    """From where the member's data begin: superblock and lists before it stay as they are."""
    again: bool = False
    """It is there, and gets another table."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of the device mapper that the machine must have, as ``dm:dust``."""
        return () if self.kind == "loop" else (f"dm:{'linear' if self.kind == 'shorter' else self.kind}",)

    def guest_steps(self, stage: Stage) -> GuestSteps:
        if self.kind == "integrity" and not self.again:
            return [["integrity", int(self.member)]]
        if self.kind == "loop":
            return [["loop", int(self.member), int(self.arguments)]]
        tables = _DATA_LAYERS if self.data_only else _WHOLE_LAYERS
        if self.kind not in tables:
            raise SpecError(f"there is no layer '{self.kind}'", hint=f"known here: {', '.join(tables)}")
        table = tables[self.kind].replace("#N", f"#{self.member}").replace("ARGUMENTS", self.arguments).rstrip()
        return [["table" if self.again else "layer", int(self.member), table]]


class UnlayerStep(SceneStep, frozen=True, kw_only=True, tag="unlayer"):
    """The bare drive again; what an overlay took is forgotten."""

    member: Drive

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["unlayer", int(self.member)]]


class SumStep(SceneStep, frozen=True, kw_only=True, tag="sum"):
    """Whether bare drives still hold what they held when this was first asked: fact ``same``."""

    members: tuple[int, ...]

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["sum", list(self.members)]]


class ChangedWriteStep(SceneStep, frozen=True, kw_only=True, tag="changed-write"):
    """A write whose data the writing program changes while it is under way."""

    block: int
    after_milliseconds: float

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["changed_write", self.block, self.after_milliseconds / 1000]]


class MessageStep(SceneStep, frozen=True, kw_only=True, tag="message"):
    """A layer is told something, such as dust ``addbadblock 4096``."""

    member: Drive
    text: str
    at_block: int | str = ""
    """Where a block of the oracle lies on this member, in sectors, is put behind the text."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        text = self.text
        if self.at_block != "":
            place = place_on(stage, int(self.at_block), int(self.member))
            text = f"{text} {stage.member_bytes_at(place.at_bytes) // 512}"
        return [["message", int(self.member), text]]


class HangStep(SceneStep, frozen=True, kw_only=True, tag="hang"):
    """A layer keeps all requests waiting."""

    member: Drive

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["hang", int(self.member)]]


class WakeStep(SceneStep, frozen=True, kw_only=True, tag="wake"):
    """They go on."""

    member: Drive

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["wake", int(self.member)]]


class DriveStep(SceneStep, frozen=True, kw_only=True):
    """A line to the lab's own drives."""

    member: Drive

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["line", f"{self.word} {self.member}"]]


class PullStep(DriveStep, frozen=True, kw_only=True, tag="pull"):
    """The drive vanishes while in use."""


class PlugStep(DriveStep, frozen=True, kw_only=True, tag="plug"):
    """It is back, with what was on its medium."""


class SlowStep(SceneStep, frozen=True, kw_only=True, tag="slow"):
    """So long for each request of a drive; 0: its own pace."""

    member: Drive
    milliseconds: float

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["line", f"pace {self.member} {round(self.milliseconds * 1e6)}"]]


class CorruptStep(SceneStep, frozen=True, kw_only=True, tag="corrupt"):
    """Bytes of one place of a block are turned over on its member, behind md's back. ``on``: data, copy 1, P or Q."""

    block: int | str
    on: str = "data"
    bytes: int = 512
    is_searched: bool = False
    """For its content, on the bare drive: where a layer decides where that lies."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        place = place_named(stage, int(self.block), self.on)
        if self.is_searched:
            return [["flip_found", place.slot, int(self.block), self.bytes]]
        return [["flip", f"#{place.slot}", stage.member_bytes_at(place.at_bytes), self.bytes]]


class MisdirectStep(SceneStep, frozen=True, kw_only=True, tag="misdirect"):
    """What a member holds of one block is written over what it holds of another, as by a write that went astray."""

    block: int
    over: int
    member: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        source, target = (place_on(stage, block, self.member).at_bytes for block in (self.block, self.over))
        at = stage.member_bytes_at
        return [["copy", f"#{self.member}", at(source), at(target), BLOCK_BYTES]]


class AgeStep(SceneStep, frozen=True, kw_only=True, tag="age"):
    """Some sectors of a block on its member are again as an earlier version had them.

    The rest of the last write never came.
    """

    block: int
    generation: int
    sectors: tuple[int, int] = (0, 8)
    """The first, and how many, of 512 bytes."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        place = place_named(stage, self.block, "data")
        at = stage.member_bytes_at(place.at_bytes)
        return [["age", f"#{place.slot}", at, self.block, self.generation, list(self.sectors)]]


class CulpritsStep(SceneStep, frozen=True, kw_only=True, tag="locate"):
    """Which chunk of each row of a RAID 6 is wrong, from P and Q; ``mends``: and it is written anew."""

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


class CopiesStep(SceneStep, frozen=True, kw_only=True, tag="copies"):
    """What each member of a mirror itself holds of a block: facts ``copy_0`` and so on."""

    block: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["copies", [self.block]]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {f"copy_{slot}": words[0] for slot, words in evidence.get("copies", {}).items()}


class RecordStep(SceneStep, frozen=True, kw_only=True, tag="record"):
    """From here on all drives are recorded."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        settled: GuestSteps = [["drain"]] if stage.is_open else []
        # A drive that has requests under way has no base to record from.
        return [*settled, ["pause", 0.5], ["record", list(range(stage.drives))]]


class PowerCutStep(SceneStep, frozen=True, kw_only=True, tag="power-cut"):
    """The power fails: the array is gone, and each drive holds what it might then hold, of its own.

    ``kind``: ended (the kernel alone crashed), flushed, come, prefix, subset or torn (guest/record.py).
    """

    kind: str = "subset"
    seed: int | str = 1

    def guest_steps(self, stage: Stage) -> GuestSteps:
        require_kinds([self.kind])
        stage.is_open = False
        return [["cut", list(range(stage.drives)), self.kind, f"{stage.seed}:{self.seed}"]]


def place_named(stage: Stage, block: int, on: str) -> OracleMemberPlace:
    """``data`` and ``copy N`` of a block, or the parity over it. Raises SpecError."""
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
    """What a member has of a block: data, a copy, or parity over it. Raises SpecError if it has nothing."""
    places = stage.array.places
    known = [*places.places(block)]
    if stage.array.raid.parity_members:
        known += places.parity_places(block).values()
    found = next((place for place in known if place.slot == member), None)
    if found is None:
        raise SpecError(f"member {member} has nothing of block {block}", hint=places.described(block))
    return found


def require_kinds(kinds: list[str] | tuple[str, ...]) -> None:
    """Raises SpecError for a kind of cut that is not known."""
    for kind in kinds:
        if kind not in KINDS:
            raise SpecError(f"there is no power cut of the kind '{kind}'", hint=f"known: {', '.join(KINDS)}")


class PointsStep(SceneStep, frozen=True, kw_only=True, tag="crash-points"):
    """Every state that a power cut could have left while recorded: started, settled, judged.

    The writer lets go of the array, which stops.
    """

    kinds: tuple[str, ...] = ("ended", "flushed", "come", "prefix", "subset", "torn")
    losses: tuple[str, ...] = ("none",)
    """What is gone at the same time: ``none``, ``each`` member in turn, or drives such as ``4``."""
    moments: int = 0
    """So many of the moments, evenly; 0: all of them."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        require_kinds(self.kinds)
        members = list(range(stage.array.members + (stage.array.journal is not None)))
        still: GuestSteps = [["drain"], ["pause", 0.3], ["still", list(range(stage.drives))]]
        stopped = [*still, *stage.closed(), ["run", ["mdadm", "--stop", NODE]]]
        return [*stopped, ["points", members, losses_of(self.losses, stage), list(self.kinds), self.moments]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        """``untouched_elsewhere``: blocks that nobody wrote to, lost though no member that had them was missing."""
        elsewhere = 0
        for missing, blocks in evidence.get("untouched_at", {}).items():
            slots = numbers_in(missing.replace("+", " "))
            elsewhere += len(numbers_in(blocks) - stage.array.places.on_slots(slots))
        return {"untouched_elsewhere": elsewhere}


class SetsStep(SceneStep, frozen=True, kw_only=True, tag="lose-every"):
    """Every set of so many members is lost in turn: failed in the running array, and missing when it starts.

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
            # By what was seen, not by what should be.
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
    """How md and the oracle differ from the level's arithmetic on one set of lost members; empty if they do not."""
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


class MeterStep(SceneStep, frozen=True, kw_only=True, tag="meter"):
    """What the drives do is counted from here on."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["meter"]]


class MeteredStep(SceneStep, frozen=True, kw_only=True, tag="metered"):
    """What they have done since: reads, read_sectors, writes, write_sectors, flushes, and ``lasted``."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["metered"], ["state"]]


class ReadsStep(SceneStep, frozen=True, kw_only=True, tag="reads"):
    """Single reads, one after the other: ``each`` is the mean time of one."""

    count: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["reads", self.count]]


class ExposureStep(SceneStep, frozen=True, kw_only=True, tag="exposure"):
    """Until md has nothing to do.

    For how long the array was degraded meanwhile (``exposed``), and by how many (``most_degraded``).
    """

    seconds: float = 300.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["exposure", self.seconds]]


class LoadStep(SceneStep, frozen=True, kw_only=True, tag="load"):
    """The oracle writes on and on, for so long, or until md is doing one of these: ``rate`` operations a second."""

    seconds: float
    until: tuple[str, ...] = ()
    depth: int = 4

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(depth=self.depth), ["load", self.seconds, list(self.until)], ["drain"], ["state"]]


class UnderStep(SceneStep, frozen=True, kw_only=True, tag="under-load"):
    """A command, while the oracle goes on writing."""

    command: str
    depth: int = 8

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.opened(depth=self.depth), ["under", shlex.split(self.command)]]


class StartStep(SceneStep, frozen=True, kw_only=True, tag="start"):
    """A program that goes on until ``end``."""

    name: str
    command: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["start", self.name, shlex.split(self.command)]]


class HearsStep(SceneStep, frozen=True, kw_only=True, tag="hears"):
    """Until it has said a text."""

    name: str
    text: str
    seconds: float = 60.0

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["hears", self.name, self.text, self.seconds]]


class EndStep(SceneStep, frozen=True, kw_only=True, tag="end"):
    """It is ended; ``output`` is what it said."""

    name: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["end", self.name]]


class FileStep(SceneStep, frozen=True, kw_only=True, tag="file"):
    """A file on the machine, below /run/raidlab/fault: that folder is empty when a scenario begins."""

    path: str
    text: str

    def guest_steps(self, stage: Stage) -> GuestSteps:
        if not self.path.startswith("/run/raidlab/fault/") or ".." in self.path:
            raise SpecError(
                f"'{self.path}' is not below /run/raidlab/fault", hint="write such as /run/raidlab/fault/conf"
            )
        return [["file", self.path, self.text]]


class WorldStep(SceneStep, frozen=True, kw_only=True, tag="world"):
    """What the oracle knows is kept under a name, taken up again.

    Or all such are compared with the data (fact ``fits``).
    """

    verb: Literal["keep", "take", "which"]
    name: str = ""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*(stage.closed() if self.verb == "take" else []), ["world", self.verb, self.name]]

    def facts(self, evidence: dict[str, Any], stage: Stage) -> dict[str, Any]:
        return {"fits": " ".join(evidence["fits"]) or "none"} if "fits" in evidence else {}


class FingerprintStep(SceneStep, frozen=True, kw_only=True, tag="fingerprint"):
    """One number for all writes in their order, and for all that the array holds."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["fingerprint"]]


class RaceStep(SceneStep, frozen=True, kw_only=True, tag="race"):
    """The array is stopped while all its members are announced to ``mdadm --incremental``, again and again."""

    rounds: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["race", list(range(stage.array.members)), self.rounds]]


class MountStep(SceneStep, frozen=True, kw_only=True, tag="mount"):
    """The array's file system is mounted at /run/raidlab/mnt/fault."""

    file_system: str = "ext4"

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["mount", self.file_system, NODE]]


class UnmountStep(SceneStep, frozen=True, kw_only=True, tag="unmount"):
    """It is not any more."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [*stage.closed(), ["unmount"]]


class OracleOnStep(SceneStep, frozen=True, kw_only=True, tag="oracle-on"):
    """The oracle's data are in a file of that file system from here on: so many blocks."""

    path: str
    blocks: int

    def guest_steps(self, stage: Stage) -> GuestSteps:
        steps = stage.closed()
        stage.path, stage.blocks = self.path, self.blocks
        return [*steps, ["run", ["sh", "-c", f"> {shlex.quote(self.path)}"]], ["data", self.path]]


class LogStep(SceneStep, frozen=True, kw_only=True, tag="log"):
    """The kernel's log so far: ``complaints`` counts warnings, bugs and hung tasks."""

    def guest_steps(self, stage: Stage) -> GuestSteps:
        return [["log"]]


def losses_of(words: tuple[str, ...], stage: Stage) -> list[list[int]]:
    """Lists of drives that are gone."""
    found: list[list[int]] = []
    for word in words:
        if word == "each":
            found += [[number] for number in range(stage.array.members)]
        else:
            found.append([] if word == "none" else sorted(numbers_in(word.replace("+", " "))))
    return found
