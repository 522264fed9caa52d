"""Parallel proofs of lessons and drills: one line each on completion, and the failures at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import msgspec

from lab.checks.proof import Proof
from lab.cli.context import Context, calls_on
from lab.cli.extension import ClusterCalls
from lab.cli.output import out, out_json
from lab.drills import proof as drill_proof
from lab.drills.schema import Drill, find_drill, read_drill, ready
from lab.errors import LabError, LessonError, RequirementMissing, UnfitVersion
from lab.gates.decoding import decode_json
from lab.lessons.course import LessonFiles
from lab.lessons.proof import PROOF_SEEDS, prove_apart, side_by_side
from lab.lessons.student import Student
from lab.machine import Host, Target, parse_target
from lab.machine.kernel_image import quickest


@dataclass(frozen=True, slots=True)
class Unproved:
    """A proof that was not completed."""

    sentence: str
    failures: tuple[str, ...]


def _attempt(name: str, job: Callable[[], Proof | Unproved]) -> Proof | Unproved:
    """A failed proof is reported with the others, which continue."""
    try:
        return job()
    except RequirementMissing:
        raise
    except UnfitVersion as error:
        return Unproved(f"{name}: not tried here: {error.message}", ())
    except LabError as error:
        return Unproved(f"{name}: not proved", (f"{name}: {error.message}",))


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a proof, sent to a cluster's worker, which has the same course and drills."""

    id: str
    is_drill: bool
    word: str
    target: str

    @property
    def name(self) -> str:
        return f"{self.id} ('{self.word}')"


class _Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result from a worker: one complete proof, reported in the same way as a local one."""

    proof: Proof | None = None
    unproved: Unproved | None = None


def prove_asked(payload: bytes) -> bytes:
    """On a worker: carry out the proof, and return the result."""
    asked = decode_json(payload, _Asked)
    host = Host.real("raidlab lesson verify")
    place = (parse_target(asked.target), host)

    def prove() -> Proof | Unproved:
        if asked.is_drill:
            path = find_drill(asked.id)
            return drill_proof.prove(ready(read_drill(path), path, asked.word), *place)
        return prove_apart(Student(host).course.find(asked.id).ready(asked.word), *place)

    found = _attempt(asked.name, prove)
    answer = _Answer(proof=found) if isinstance(found, Proof) else _Answer(unproved=found)
    return msgspec.json.encode(answer)


def _called(calls: ClusterCalls, asked: _Asked) -> Proof | Unproved:
    answer = decode_json(calls(prove_asked, msgspec.json.encode(asked)), _Answer)
    found = answer.proof or answer.unproved
    if found is None:
        raise LabError("a worker gave no proof", hint="install the same raidlab there")
    return found


def prove_and_tell(
    context: Context,
    lessons: Sequence[LessonFiles],
    drills: Mapping[Path, Drill],
    seeds: Sequence[str] | None,
    cluster: str = "",
) -> None:
    """Run all of them for each seed. Raises LessonError for failed proofs."""
    words = seeds or PROOF_SEEDS
    target = quickest(context.target, context.host.processes, context.host.files)
    time = "virtual time" if target.is_virtual_time else "real time"
    context.narrator.notice(f"proved in {time}; another machine, or uml:?time=real, by --on")
    done: list[Proof | Unproved] = []
    with calls_on(cluster, context) as calls:
        for proof in side_by_side(_jobs(context, target, lessons, drills, words, calls), calls.workers if calls else 0):
            done.append(proof)
            if not context.json:
                out(proof.sentence)
    if context.json:
        out_json(done)
    if failures := [failure for proof in done for failure in proof.failures]:
        listed = "".join(f"\n  - {failure}" for failure in failures)
        raise LessonError(f"not everything could be proved:{listed}", hint="fix the steps and ways named above")


def _jobs(
    context: Context,
    target: Target,
    lessons: Sequence[LessonFiles],
    drills: Mapping[Path, Drill],
    words: Sequence[str],
    calls: ClusterCalls | None,
) -> Iterator[Callable[[], Proof | Unproved]]:
    place = (target, context.host)
    for files, word in product(lessons, words):
        here: Callable[[], Proof | Unproved] = partial(prove_apart, files.ready(word), *place)
        asked = _Asked(id=files.lesson.id, is_drill=False, word=word, target=str(target))
        yield partial(_attempt, asked.name, partial(_called, calls, asked) if calls else here)
    for (path, drill), word in product(drills.items(), words):
        here = partial(drill_proof.prove, ready(drill, path, word), *place)
        asked = _Asked(id=drill.id, is_drill=True, word=word, target=str(target))
        yield partial(_attempt, asked.name, partial(_called, calls, asked) if calls else here)
