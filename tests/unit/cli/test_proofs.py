"""A proof that cannot be carried out is reported with the others, which continue."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Generator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from lab.checks.proof import Proof
from lab.cli.lesson import Unproved, _attempt, _title, proved_on_worker
from lab.cli.main import run
from lab.drills.schema import catalogue
from lab.errors import LabError, LessonError, MachineLost, RequirementMissing, ToolMissing, UnfitVersion
from lab.lessons.course import built_in_course
from lab.lessons.proof import side_by_side
from tests.unit.cli.conftest import Typed
from tests.waiting import PATIENCE_SECONDS


def failing(error: LabError) -> Proof | Unproved:
    raise error


@pytest.mark.parametrize("kind", [RequirementMissing, ToolMissing])
def test_what_every_proof_lacks_ends_them_all(kind: type[LabError]) -> None:
    with pytest.raises(kind, match="no kernel"):
        _attempt("one", lambda: failing(kind("no kernel")))


LESSON = Proof(
    "lesson", "01-what-a-disk-promises", "anna", 9, 0, 1, 2, 3.5, ("step 3: its own solution does not pass",)
)
DRILL = Proof("drill", "wrong-order", "anna", 3, 0, 2, 3, 12.3, ("way a: it does not save",))


@pytest.mark.parametrize("proof", [LESSON, DRILL])
def test_a_proof_of_a_worker_is_the_same_as_one_of_here(proof: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.cli.lesson.prove_apart", lambda *_: LESSON)
    monkeypatch.setattr("lab.cli.lesson.drill_proof.prove", lambda *_: DRILL)
    found = on_worker(is_drill=proof is DRILL)
    assert found == proof
    assert msgspec.json.encode(found) == msgspec.json.encode(proof)


@pytest.mark.parametrize(
    ("error", "words", "failures"),
    [
        (UnfitVersion("it needs mdadm 4.5"), "not tried here: it needs mdadm 4.5", ()),
        (MachineLost("the machine was lost"), "not proved", ("the machine was lost",)),
        (LessonError("it cannot be made"), "not proved", ("it cannot be made",)),
    ],
)
def test_an_error_is_reported_with_the_other_proofs_here_and_of_a_worker(
    error: LabError, words: str, failures: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.cli.lesson.prove_apart", lambda *_: failing(error))
    name = _title(built_in_course().lessons[0].lesson.id, "anna")
    expected = Unproved(f"{name}: {words}", tuple(f"{name}: {each}" for each in failures))
    assert _attempt(name, lambda: failing(error)) == expected
    assert on_worker(is_drill=False) == expected


def on_worker(*, is_drill: bool) -> Proof | Unproved:
    """Prove the first drill or lesson as on a worker, which receives the call and returns the result as bytes."""
    known = catalogue() if is_drill else [each.lesson.id for each in built_in_course().lessons]
    asked = partial(proved_on_worker, next(iter(known)), "anna", "uml:", is_drill=is_drill)
    found: Proof | Unproved = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(asked))()))
    return found


@pytest.mark.parametrize("kind", ["drill", "lesson"])
def test_a_cluster_proves_what_its_workers_have(
    kind: str, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("lab.cli.lesson.prove_and_print", lambda *given: asked.append(given[-1]))
    own = next(iter(catalogue().values())) if kind == "drill" else built_in_course().lessons[0].path
    mine = tmp_path / own.name
    mine.write_text(own.read_text())
    cluster = ("--cluster", "local:2")
    assert run([kind, "verify", "--prove", *cluster, str(own)]) == 0
    assert asked == ["local:2"]
    refused = typed(kind, "verify", "--prove", *cluster, str(mine), status=2).err
    assert f"the workers of a cluster do not have '{mine}'" in refused
    assert "add --prove" in typed(kind, "verify", *cluster, status=2).err
    assert len(asked) == 1


def test_after_an_interruption_no_proof_begins_and_those_that_run_are_reported() -> None:
    begun, may_end = threading.Barrier(3), threading.Event()
    waited: list[int] = []

    def prove() -> int:
        begun.wait(PATIENCE_SECONDS)
        return int(may_end.wait(PATIENCE_SECONDS))

    def on_wait(running: int) -> None:
        waited.append(running)
        may_end.set()

    proofs = side_by_side([lambda: 0, *[prove] * 9], 2, on_wait=on_wait)
    assert isinstance(proofs, Generator)
    assert next(proofs) == 0
    begun.wait(PATIENCE_SECONDS)
    proofs.close()
    assert waited == [2]
