"""The verdict of a proof on right and wrong ways."""

from __future__ import annotations

import pytest

from lab.checks.proof import Prover, Way, WayEnd

RIGHT, WRONG = Way("right"), Way("wrong", "forced")


class Scripted(Prover):
    kind = "drill"

    def __init__(self, way: Way, end: WayEnd) -> None:
        super().__init__("01-trial", "ana", 2, [way])
        self._end = end

    def count_fresh(self) -> int:
        return 0

    def take(self, way: Way) -> WayEnd:
        return self._end


@pytest.mark.parametrize(
    ("way", "end", "problem"),
    [
        (RIGHT, WayEnd(True), ""),
        (RIGHT, WayEnd(False, details="lost, 0 %"), "way right: it does not pass (lost, 0 %)"),
        (WRONG, WayEnd(False, ("forced", "harmless")), ""),
        (WRONG, WayEnd(True, ("forced",)), "way wrong: a wrong way passes"),
        (
            WRONG,
            WayEnd(False, ("harmless", "forced")),
            "way wrong: mistake forced must be recognised first, but these were found: harmless, forced",
        ),
        (WRONG, WayEnd(False), "way wrong: mistake forced must be recognised first, but these were found: none"),
    ],
)
def test_a_way_counts_only_if_it_ends_as_it_must(way: Way, end: WayEnd, problem: str) -> None:
    proof = Scripted(way, end).prove()
    assert (proof.right, proof.wrong) == (int(way is RIGHT and not problem), int(way is WRONG and not problem))
    assert proof.failures == ((f"01-trial ('ana'), {problem}",) if problem else ())
    right = "1 right way" if proof.right else "0 right ways"
    wrong = "1 wrong way" if proof.wrong else "0 wrong ways"
    ways = f"{right} passed, {wrong} recognised, "
    assert proof.sentence.startswith(f"01-trial for 'ana': 0 of 2 checks hold at the start, {ways}")
