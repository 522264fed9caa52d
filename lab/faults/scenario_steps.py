"""The words of a scenario's steps: arrays, the oracle's writer, and what is looked at.

What is broken: scenario_injections.py.

Each word is a Struct with its arguments, and becomes steps of the program on the machine. A word that stands for a
command of mdadm is that command.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

import msgspec

from lab.errors import SpecError
from lab.faults.stage import MD, NODE, GuestSteps, Stage

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
    """Fact -> what it must be, of the evidence after this step (lab/faults/facts.py)."""
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
