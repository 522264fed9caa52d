"""What becomes of a proof that cannot be carried out: it is told with the others, which go on."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lab.cli.proofs import AnyProof, _attempt
from lab.errors import LabError, LessonError, MachineLost, RequirementMissing, ToolMissing, UnfitVersion


@dataclass(frozen=True)
class Proved:
    sentence: str = "one: 3 right ways"
    failures: tuple[str, ...] = ("one: a wrong way saves all",)


def failing(error: LabError) -> AnyProof:
    raise error


def test_a_proof_is_handed_on_as_it_is() -> None:
    proof = Proved()
    assert _attempt("one", lambda: proof) is proof


@pytest.mark.parametrize("error", [MachineLost("the machine is gone"), LessonError("it cannot be made")])
def test_what_cannot_be_carried_out_counts_as_not_proved(error: LabError) -> None:
    proof = _attempt("one ('anna')", lambda: failing(error))
    assert proof.sentence == "one ('anna'): not proved"
    assert proof.failures == (f"one ('anna'): {error.message}",)


def test_what_needs_another_mdadm_is_no_failure() -> None:
    proof = _attempt("one", lambda: failing(UnfitVersion("one needs mdadm 4.5")))
    assert (proof.sentence, proof.failures) == ("one: not tried here: one needs mdadm 4.5", ())


@pytest.mark.parametrize("kind", [RequirementMissing, ToolMissing])
def test_what_every_proof_lacks_ends_them_all(kind: type[LabError]) -> None:
    with pytest.raises(kind, match="no kernel"):
        _attempt("one", lambda: failing(kind("no kernel")))
