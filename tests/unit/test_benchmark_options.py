"""Options of the scripts in benchmarks/: default values, those of ``--smoke``, and single values instead of either."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from benchmarks.support.report import asked


@dataclass(frozen=True, slots=True)
class Options:
    seconds: Annotated[float, "of a load"] = 60.0
    real_rounds: int = 7
    levels: tuple[str, ...] = ("raid0", "raid5")
    depths: tuple[int, ...] = (1, 4)
    keep: Annotated[Path | None, "100 % of it"] = None


SMOKE = Options(seconds=0.5, levels=("raid1",))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Options()),
        (["--smoke"], SMOKE),
        (["--smoke", "--seconds", "2"], Options(seconds=2.0, levels=("raid1",))),
        (["--levels", "raid6,raid10", "--depths", "8"], Options(levels=("raid6", "raid10"), depths=(8,))),
        (
            ["--levels", "", "--real-rounds", "2", "--keep", "there"],
            Options(levels=(), real_rounds=2, keep=Path("there")),
        ),
    ],
)
def test_values_are_usual_or_small_unless_they_are_asked_for(words: list[str], expected: Options) -> None:
    assert asked(SMOKE, words) == expected


@pytest.mark.parametrize(
    "words", [["--seconds", "0"], ["--seconds", "inf"], ["--seconds", "nan"], ["--depths", "1,x"], ["--rounds", "1.5"]]
)
def test_what_cannot_be_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        asked(SMOKE, words)
    assert "error: " in capsys.readouterr().err
