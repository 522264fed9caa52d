"""A variant's steps as a history for the machine, and what it tells of them as outcomes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from lab.errors import SpecError
from lab.faults.expected import OraclePlaces
from lab.faults.facts import FactCheck, facts_of, judge
from lab.faults.place import FaultPlace
from lab.faults.scenario import ReadyVariant
from lab.faults.scenario_steps import SceneStep
from lab.faults.stage import GuestSteps
from lab.faults.verdict import StepOutcome
from lab.gates.text import shortened

Kept = Mapping[str, Mapping[str, Any]]
_EVIDENCE = (
    *("verdicts", "at", "bad", "bad_in_flight", "state", "members", "events", "output", "status", "refused", "text"),
    *("complaints", "told", "culprits", "copies", "fits", "untouched_at", "examples", "cut", "stop", "wrong"),
    *("right_after", "settled", "idle", "late", "heard"),
)
"""What is kept of what the machine tells."""
_LONGEST_OUTPUT = 600
_WRITING = ("fill", "write", "flush", "load", "under-load")


class PlayedVariant:
    """One variant: its history, and which of its documents belong to which step."""

    def __init__(self, variant: ReadyVariant, *, is_virtual: bool) -> None:
        self.variant = variant
        self.is_virtual = is_virtual
        self.stage = variant.stage()
        self._is_over = False
        self._made: list[tuple[SceneStep, GuestSteps]] = [
            (step, step.guest_steps(self.stage)) for step in variant.steps
        ]

    def history(self, place: FaultPlace) -> dict[str, Any]:
        """For the program on the machine."""
        steps = [each for _, made in self._made for each in made]
        return {**self.stage.job(place.nodes, has_record=place.has_record), "steps": steps}

    def evidence(self, documents: Iterator[dict[str, Any]]) -> Iterator[tuple[SceneStep, dict[str, Any], list[str]]]:
        """Each step with all that was told of it, and its commands; the last is one that could not be carried out."""
        for step, made in self._made:
            found: dict[str, Any] = {"seconds": 0.0}
            lines: list[str] = []
            for each in made:
                told = next(documents, {"broke": "the machine told no more"})
                lines += shell_lines(each, told)
                if told.get("status") and found.get("status"):
                    told = {**told, "status": found["status"]}
                found = {**found, **told, "seconds": found["seconds"] + told.get("seconds", 0.0)}
                if "broke" in told:
                    break
            yield step, found, lines
            if "broke" in found:
                break
        self.drain(documents)

    def drain(self, documents: Iterator[dict[str, Any]]) -> None:
        """To the end of this variant's history."""
        for told in () if self._is_over else documents:
            if "end" in told:
                self._is_over = True
                return


def shell_lines(made: list[Any], told: Mapping[str, Any]) -> list[str]:
    """A step of the machine's program as a person would type it; nothing for what only the oracle does."""
    match made[0]:
        case "run" | "start" | "under":
            return [shlex.join(told.get("argv", made[-1] if made[0] != "run" else made[1]))]
        case "write":
            return [f"echo {shlex.quote(made[2])} > {made[1]}"]
        case "line":
            return [f"echo {shlex.quote(made[1])} > /dev/lab-drives"]
        case "layer" | "table":
            verb = "create" if made[0] == "layer" else "reload"
            return [f"dmsetup {verb} fault-{made[1]} <<< {shlex.quote(made[2])}"]
        case "message":
            return [f"dmsetup message fault-{made[1]} 0 {made[2]}"]
        case "hang" | "wake":
            return [f"dmsetup {'suspend' if made[0] == 'hang' else 'resume'} fault-{made[1]}"]
        case "flip":
            return [f"(turn over {made[3]} bytes of {told.get('node', made[1])} at byte {made[2]})"]
        case "cut":
            return [f"(cut the power: {told.get('cut', made[2])})"]
    return []


def judged_step(
    step: SceneStep, evidence: dict[str, Any], lines: list[str], played: PlayedVariant, kept: Kept
) -> tuple[StepOutcome, dict[str, Any]]:
    """One step's outcome, and its facts."""
    own = step.facts(evidence, played.stage)
    facts = facts_of(evidence, own)
    expect = step.expect if played.is_virtual or not step.is_timed else {}
    checks = tuple(_checked(name, wanted, facts, kept, played.stage.array.places) for name, wanted in expect.items())
    known = {name: evidence[name] for name in _EVIDENCE if name in evidence} if step.expect else {}
    if "output" in known:
        known["output"] = shortened(str(known["output"]).strip(), _LONGEST_OUTPUT)
    outcome = StepOutcome(
        do=step.word,
        lines=tuple(lines),
        why=step.why,
        seconds=evidence["seconds"],
        checks=checks,
        blocks=tuple(_told_block(each, played.stage.array.places) for each in evidence.get("bad", ())),
        evidence={**known, **({"facts": own} if own and step.expect else {})},
        problem=problem_of(step, evidence),
    )
    return outcome, facts


def _checked(name: str, wanted: Any, facts: Mapping[str, Any], kept: Kept, places: OraclePlaces) -> FactCheck:
    try:
        return judge(name, wanted, facts, kept, places)
    except SpecError as error:
        return FactCheck(what=name, wanted=str(wanted), found=error.message, is_met=False)


def problem_of(step: SceneStep, evidence: Mapping[str, Any]) -> str:
    """Why a step did not go as any step must, unless its expectations speak of that."""
    if "broke" in evidence:
        return str(evidence["broke"])
    expected = step.expect
    if evidence.get("status", 0) != 0 and not {"status", "output"} & expected.keys():
        return f"status {evidence['status']}: {str(evidence.get('output', '')).strip()[-_LONGEST_OUTPUT:]}"
    if isinstance(evidence.get("refused"), str) and evidence["refused"] and "refused" not in expected:
        return f"refused: {evidence['refused']}"
    if evidence.get("late") and "late" not in expected:
        return f"what was waited for did not come; last: '{evidence.get('text', '')}'"
    if evidence.get("idle") is False and "idle" not in expected:
        return "md did not come to rest in time"
    if step.word in _WRITING and evidence.get("failures") and "failures" not in expected:
        return f"{evidence['failures']} writes failed"
    return ""


def _told_block(bad: list[Any], places: OraclePlaces) -> str:
    block, verdict, held, allowed = bad
    versions = " or ".join(str(each) for each in allowed)
    holds = f"holds {', '.join(dict.fromkeys(str(each) for each in held))}" if held else "cannot be read"
    return f"{places.described(block)}: {verdict}: {holds}, must hold version {versions}"
