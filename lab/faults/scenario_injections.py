"""The words of a scenario's steps that break something: layers below md, drives, bytes behind md's back, power."""

from __future__ import annotations

from typing import Any

from lab.errors import SpecError
from lab.faults.block_map import BLOCK_BYTES
from lab.faults.expected import OracleMemberPlace
from lab.faults.guest.record import KINDS
from lab.faults.scenario_steps import Drive, SceneStep
from lab.faults.stage import DATA_OFFSET_BYTES, GuestSteps, Stage

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
