"""A class's practice: over 200 made-up students the right counts, every copy and every edited bundle by its name."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from lab.classroom.bundle import Bundle, write_bundle
from lab.classroom.grading import grading_sheet
from lab.classroom.view import ClassView, DrillStanding, cautions, class_page, share, view_class
from lab.cli.main import run
from lab.drills.schema import catalogue, file_digest
from lab.errors import ExitCode
from lab.lessons.course import built_in_course
from lab.report.page.blocks import render_page
from lab.results.statistics import estimate
from tests.unit.classroom import students
from tests.unit.classroom.students import DRILL, Truth
from tests.unit.report.test_in_browser import needs_browser, opened


@dataclass(frozen=True)
class Class:
    folder: Path
    cache: Path
    truth: Truth
    view: ClassView

    @property
    def drill(self) -> DrillStanding:
        (found,) = self.view.practice.drills
        return found


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Class:
    """200 bundles: 190 honest, 5 with another's work, 5 edited."""
    folder, cache = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("cache")
    truth = students.hand_in(folder)
    return Class(folder, cache, truth, view_class(folder, cache))


def test_every_student_counts_once(handed_in: Class) -> None:
    truth, drill = handed_in.truth, handed_in.drill
    assert (truth.students, handed_in.view.files) == (190, 200)
    assert (drill.drill, drill.tries) == (DRILL, truth.tries)
    first, best = drill.first, drill.best
    assert (first.saved.count, first.saved.of) == (truth.first_saved, 190)
    assert (best.saved.count, best.saved.of) == (truth.best_saved, 190)
    assert 0 < truth.first_saved < truth.best_saved < 190
    assert first.have_data.count == truth.first_saved
    assert first.wrote_first == sum(first.verdicts.values()) - truth.first_saved


def test_mistakes_are_counted_by_student(handed_in: Class) -> None:
    assert dict(handed_in.drill.first.mistakes) == dict(handed_in.truth.first_mistakes)
    assert dict(handed_in.drill.mistakes) == dict(handed_in.truth.mistakes)
    counts = list(handed_in.drill.mistakes.values())
    assert counts == sorted(counts, reverse=True)


def test_times_are_those_of_the_students(handed_in: Class) -> None:
    truth = handed_in.truth
    for standing, minutes in ((handed_in.drill.first, truth.first_minutes), (handed_in.drill.best, truth.best_minutes)):
        assert standing.all_minutes == tuple(sorted(minutes))
        assert standing.minutes == estimate(minutes)
        assert standing.minutes.median == pytest.approx(statistics.median(minutes))


def test_lessons_tell_who_passed_and_where_they_needed_help(handed_in: Class) -> None:
    truth = handed_in.truth
    lessons = {each.lesson: each for each in handed_in.view.practice.lessons}
    assert {name: each.passed.of for name, each in lessons.items()} == dict(truth.begun)
    assert {name: each.passed.count for name, each in lessons.items()} == dict(truth.passed)
    for counted, found in ((truth.all_hints, "all_hints"), (truth.by_lab, "by_lab")):
        told = {(name, step): n for name, each in lessons.items() for step, n in getattr(each, found).items()}
        assert told == {place: count for place, count in counted.items() if count}


def test_copies_and_edited_bundles_are_named(handed_in: Class) -> None:
    copies = handed_in.view.practice.copies
    for number in range(5):
        names = (f"s{number:03d}.zip", f"t{number}-copy.zip")
        assert any(copy.files == names and copy.what == DRILL for copy in copies), number
        altered = {copy.is_altered for copy in copies if copy.files == names}
        assert altered == {number == 4}
    assert {name for copy in copies for name in copy.files if name.startswith("s")} == {f"s00{n}.zip" for n in range(5)}
    assert list(handed_in.view.problems) == [f"u{number}-edited.zip" for number in range(5)]
    assert all("was edited" in problem for problem in handed_in.view.problems.values())


def test_a_neighbours_seed_is_named(handed_in: Class) -> None:
    seeds = {(each.what, each.seed): each.files for each in handed_in.view.practice.seeds}
    assert seeds[DRILL, "student-0"] == ("s000.zip", "t0-copy.zip")
    assert {seed for _, seed in seeds} == {f"student-{number}" for number in range(5)}
    told = "\n".join(cautions(handed_in.view))
    assert "the same seed 'student-0' at 01-dropped-members" in told
    assert "the same work at 01-dropped-members (its figures differ, so somebody changed them): s004.zip" in told


def test_bundles_are_read_once(handed_in: Class, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(file: Path) -> Bundle:
        raise AssertionError(file)

    monkeypatch.setattr("lab.classroom.folder.read_bundle", never)
    assert view_class(handed_in.folder, handed_in.cache) == handed_in.view


def test_the_sheet_has_a_line_for_each_bundle(handed_in: Class) -> None:
    lines = list(csv.DictReader(io.StringIO(grading_sheet(handed_in.view))))
    assert len(lines) == 200
    by_file = {line["file"]: line for line in lines}
    assert sum(line[f"{DRILL} verdict"] == "saved" for line in lines if line["file"].startswith("s")) == (
        handed_in.truth.best_saved
    )
    assert sum(int(line["lessons passed"]) for line in lines if line["file"].startswith("s")) == (
        handed_in.truth.passed.total()
    )
    assert {line["lessons"] for line in lines} == {str(len(built_in_course().ids))}
    assert all(f"{drill} minutes" in lines[0] for drill in catalogue())
    copy, whole, bad = by_file["t0-copy.zip"], by_file["s000.zip"], by_file["u0-edited.zip"]
    assert copy["copies"].startswith(f"{DRILL} as in s000.zip")
    assert (copy[f"{DRILL} seed"], copy["key"] != whole["key"]) == ("student-0", True)
    assert "was edited" in bad["problems"]
    assert bad[f"{DRILL} verdict"] == ""


def test_what_a_student_hands_in_again_is_no_copy(tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    own = students.practice(7)
    early = dict(sorted(own.items())[:1])
    (folder / "week-3.zip").write_bytes(write_bundle({}, students.signer(7), early))
    (folder / "week-8.zip").write_bytes(write_bundle({}, students.signer(7), own))
    found = view_class(folder, tmp_path / "cache")
    assert (found.practice.copies, found.practice.seeds) == ((), ())
    assert found.practice.drills[0].first.saved.of == 1
    assert list(cautions(found)) == ["one key signed: week-3.zip, week-8.zip"]


def test_a_share_has_wilsons_interval() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), 857-872, table I, method 3.
    for count, of, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        found = share(count, of)
        assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)
    assert share(12, 40).text() == "12 of 40: 30 % [18–45]"


@needs_browser
def test_the_page_is_drawn_and_the_console_is_silent(handed_in: Class, tmp_path: Path) -> None:
    page = tmp_path / "class.html"
    page.write_text(render_page(class_page(handed_in.view, "A class")))
    elements, complaints = opened(page, tmp_path / "profile")
    assert complaints == []
    # Saved, data at the end, minutes, mistakes, lessons.
    assert len(re.findall(r'class="canvas js-plotly-plot"', elements)) == 5


def test_the_command_writes_sheet_and_page(
    handed_in: Class, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    sheet, page = tmp_path / "grades.csv", tmp_path / "class.html"
    words = ["class", str(handed_in.folder), "--grades", str(sheet), "--page", str(page)]
    assert run(words) == ExitCode.DONE
    said = capsys.readouterr()
    for title in ("first try", "best try", "Mistakes", "Lessons"):
        assert title in said.out
    assert handed_in.drill.first.saved.text() in said.out
    assert "u4-edited.zip" in said.err
    assert "t4-copy.zip" in said.err
    assert len(sheet.read_text().splitlines()) == 201
    text = page.read_text()
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert found
    figures = json.loads(found[1])
    bars = [trace for figure in figures for trace in figure["traces"] if trace["name"] == "best try"]
    assert bars[0]["x"] == [pytest.approx(100 * handed_in.truth.best_saved / 190, rel=1e-3)]
    strokes = [trace for figure in figures for trace in figure["traces"] if trace["name"] == "each student"]
    assert len(strokes[0]["x"]) == 190
    # It may be shown to the class.
    assert not re.search(r"[stu]\d+(-copy|-edited)?\.zip|student-\d", text)
    assert run(["--json", "class", str(handed_in.folder)]) == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["practice"]["drills"][0]["first"]["saved"]["count"] == handed_in.truth.first_saved


def test_a_drill_of_another_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    easier = tmp_path / f"{DRILL}.toml"
    easier.write_text(catalogue()[DRILL].read_text().replace("count", "count "))
    digests = {"built-in": file_digest(catalogue()[DRILL]), "easier": file_digest(easier), "earlier": ""}
    for number, (name, digest) in enumerate(digests.items()):
        began = datetime(2026, 9, 1, tzinfo=UTC)
        try_ = students.outcome("overlays-first", random.Random(number), began=began, seed=name)
        work = {f"drills/{try_.id}.json": msgspec.json.encode(msgspec.structs.replace(try_, drill_file=digest))}
        (folder / f"{name}.zip").write_bytes(write_bundle({}, students.signer(number + 1), work))
    found = view_class(folder, tmp_path / "cache")
    assert list(cautions(found)) == [f"a file other than this raidlab's was played as {DRILL}: easier.zip"]
    lines = {line["file"]: line for line in csv.DictReader(io.StringIO(grading_sheet(found)))}
    told = {name: lines[f"{name}.zip"][f"{DRILL} file"] for name in digests}
    assert told == {"built-in": "", "easier": "another file", "earlier": "not recorded"}
