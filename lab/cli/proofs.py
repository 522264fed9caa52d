"""Proofs of lessons and drills, side by side: a line each as they come, and at the end what could not be proved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Protocol

from lab.cli.context import Context
from lab.cli.output import out, out_json
from lab.drills import proof as drill_proof
from lab.drills.schema import Drill, ready
from lab.errors import LabError, LessonError, RequirementMissing, UnfitVersion
from lab.lessons.course import LessonFiles
from lab.lessons.proof import PROOF_SEEDS, prove_apart, side_by_side
from lab.machine.kernel_image import quickest


class AnyProof(Protocol):
    """Of a lesson or a drill."""

    @property
    def sentence(self) -> str: ...
    @property
    def failures(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class _NotProved:
    """What came to no end."""

    sentence: str
    failures: tuple[str, ...]


def _attempt(name: str, job: Callable[[], AnyProof]) -> AnyProof:
    """One that cannot be carried out is told with the others, which go on."""
    try:
        return job()
    except RequirementMissing:
        raise
    except UnfitVersion as error:
        return _NotProved(f"{name}: not tried here: {error.message}", ())
    except LabError as error:
        return _NotProved(f"{name}: not proved", (f"{name}: {error.message}",))


def prove_and_tell(
    context: Context, lessons: Sequence[LessonFiles], drills: Mapping[Path, Drill], seeds: Sequence[str] | None
) -> None:
    """All of them for each seed. Raises LessonError for what could not be proved."""
    words = seeds or PROOF_SEEDS
    target = quickest(context.target, context.host.processes, context.host.files)
    time = "virtual time" if target.is_virtual_time else "real time"
    context.narrator.notice(f"proved in {time}; another machine, or uml:?time=real, by --on")
    place = (target, context.host)
    jobs: list[tuple[str, Callable[[], AnyProof]]] = []
    for files, word in product(lessons, words):
        jobs.append((f"{files.lesson.id} ('{word}')", partial(prove_apart, files.ready(word), *place)))
    for (path, drill), word in product(drills.items(), words):
        jobs.append((f"{drill.id} ('{word}')", partial(drill_proof.prove, ready(drill, path, word), *place)))
    done: list[AnyProof] = []
    for proof in side_by_side(partial(_attempt, name, job) for name, job in jobs):
        done.append(proof)
        if not context.json:
            out(proof.sentence)
    if context.json:
        out_json(done)
    if failures := [failure for proof in done for failure in proof.failures]:
        listed = "".join(f"\n  - {failure}" for failure in failures)
        raise LessonError(f"not everything could be proved:{listed}", hint="fix the steps and ways named above")
