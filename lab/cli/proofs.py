"""Proofs of lessons and drills as they come: a line each, and at the end what could not be proved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from lab.cli.context import Context
from lab.cli.output import out, out_json
from lab.errors import LessonError


class AnyProof(Protocol):
    """Of a lesson or a drill."""

    @property
    def sentence(self) -> str: ...
    @property
    def failures(self) -> tuple[str, ...]: ...


def tell_proofs(context: Context, proofs: Iterable[AnyProof]) -> None:
    """Raises LessonError for what could not be proved."""
    done: list[AnyProof] = []
    for proof in proofs:
        done.append(proof)
        if not context.json:
            out(proof.sentence)
    if context.json:
        out_json(done)
    if failures := [failure for proof in done for failure in proof.failures]:
        listed = "".join(f"\n  - {failure}" for failure in failures)
        raise LessonError(f"not everything could be proved:{listed}", hint="fix the steps and ways named above")
