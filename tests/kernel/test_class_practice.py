"""Students who really play a drill, hand it in, and are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.classroom.bundle import export_results
from lab.classroom.folder import practice_of
from lab.classroom.view import view_class
from lab.results.store import ResultStore
from tests.kernel.drill_students import play, student

pytestmark = [pytest.mark.kernel, pytest.mark.wide]
PLAYED = (
    ("anna", ("overlays-first",)),
    ("bert", ("force-the-stale", "read-only-look")),
    ("cleo", ("zero-the-late-one",)),
)


def test_who_saved_the_data_and_who_did_not(tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    for name, ways in PLAYED:
        host = student(tmp_path / name)
        for way in ways:
            play(host, "1", way, seed=name, hints=len(ways))
        export_results(ResultStore(host.state.results), (), folder / f"{name}.zip", practice_of(host))
    found = view_class(folder, tmp_path / "cache")
    assert (found.problems, found.practice.copies, found.practice.seeds) == ({}, (), ())
    (drill,) = found.practice.drills
    assert (drill.drill, drill.tries) == ("01-dropped-members", 4)
    assert (drill.first.saved.count, drill.best.saved.count, drill.best.saved.of) == (1, 2, 3)
    assert drill.first.wrote_first == 2
    assert drill.first.hints == pytest.approx(4 / 3)
    assert drill.mistakes["stale-forced"] == drill.mistakes["zeroed"] == 1
    saved = {each.file: each.saved_percent for each in found.practice.tries if each.verdict == "saved"}
    assert saved == {"anna.zip": 100, "bert.zip": 100}
