"""The words of a scenario's steps that try something in every way, measure what it costs, or go on beside it."""

from __future__ import annotations

import shlex
from itertools import combinations
from typing import Any, Literal

from lab.errors import SpecError
from lab.faults.expected import numbers_in
from lab.faults.scenario_injections import require_kinds
from lab.faults.scenario_steps import SceneStep
from lab.faults.stage import NODE, GuestSteps, Stage


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
