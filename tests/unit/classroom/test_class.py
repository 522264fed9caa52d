"""A class: every student counts once, copies and edited bundles are reported, and nothing is read twice."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import re
import shutil
import statistics
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from benchmarks.support.browser import Browser
from lab.classroom import folder as class_folder
from lab.classroom.bundle import load_signer, read_bundle, write_bundle
from lab.classroom.command import box
from lab.classroom.grading import grading_sheet
from lab.classroom.view import ClassRow, ClassView, CopiedWork, DrillStatistics, cautions, class_page, share, view_class
from lab.cli.main import run
from lab.drills.schema import catalogue, file_digest
from lab.errors import ExitCode, RequirementMissing, ResultError
from lab.lessons.course import built_in_course
from lab.report.collected import MOST_DETAILED, Loaded, collect
from lab.report.page.blocks import render_page
from lab.results.record import ResultRecord, encode_record
from lab.results.statistics import estimate
from tests.unit.classroom import students
from tests.unit.classroom.students import DRILL, Truth
from tests.unit.compare.platform_records import HDD, bundle, machine, measured_by, scaled
from tests.unit.compare.test_platforms import WRITES
from tests.unit.report.test_page import PLOTS, needs_browser, opened
from tests.unit.report.test_page import chromium as chromium
from tests.unit.results.records import with_figures

STUDENTS = 60


@dataclass(frozen=True)
class Class:
    folder: Path
    cache: Path
    truth: Truth
    view: ClassView

    @property
    def drill(self) -> DrillStatistics:
        (found,) = self.view.practice.drills
        return found


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Class:
    """A class with STUDENTS honest bundles, 5 with another student's work and 5 that were edited.

    One process alone does not read that many.
    """
    assert STUDENTS + 10 > class_folder._FEW
    folder, cache = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("cache")
    truth = students.hand_in(folder, STUDENTS)
    return Class(folder, cache, truth, view_class(folder, cache))


def sheet_of(found: ClassView) -> dict[str, dict[str, str]]:
    """File -> its line in the grading sheet."""
    return {line["file"]: line for line in csv.DictReader(io.StringIO(grading_sheet(found)))}


def test_every_student_counts_once(handed_in: Class) -> None:
    truth, drill = handed_in.truth, handed_in.drill
    assert handed_in.view.files == STUDENTS + 10
    assert (drill.drill, drill.tries) == (DRILL, truth.tries)
    first, best = drill.first, drill.best
    assert (first.saved.count, first.saved.of) == (truth.first_saved, STUDENTS)
    assert (best.saved.count, best.saved.of) == (truth.best_saved, STUDENTS)
    assert 0 < truth.first_saved < truth.best_saved < STUDENTS
    assert first.have_data.count == truth.first_saved
    assert first.wrote_first == sum(first.verdicts.values()) - truth.first_saved
    assert (dict(first.mistakes), dict(drill.mistakes)) == (dict(truth.first_mistakes), dict(truth.mistakes))
    counts = list(drill.mistakes.values())
    assert counts == sorted(counts, reverse=True)
    for figures, minutes in ((first, truth.first_minutes), (best, truth.best_minutes)):
        assert figures.all_minutes == tuple(sorted(minutes))
        assert figures.minutes == estimate(minutes)
        assert figures.minutes.median == pytest.approx(statistics.median(minutes))


def test_statistics_of_lessons_count_passes_and_help_by_step(handed_in: Class) -> None:
    truth = handed_in.truth
    lessons = {each.lesson: each for each in handed_in.view.practice.lessons}
    assert {name: each.passed.of for name, each in lessons.items()} == dict(truth.begun)
    assert {name: each.passed.count for name, each in lessons.items()} == dict(truth.passed)
    for counted, found in ((truth.all_hints, "all_hints"), (truth.by_lab, "by_lab")):
        reported = {(name, step): n for name, each in lessons.items() for step, n in getattr(each, found).items()}
        assert reported == {place: count for place, count in counted.items() if count}


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
    text = "\n".join(cautions(handed_in.view))
    assert "the same seed 'student-0' in 01-dropped-members" in text
    assert "the same work in 01-dropped-members (the figures differ, so at least one copy was edited): s004.zip" in text


def test_the_sheet_has_a_line_for_each_bundle(handed_in: Class) -> None:
    truth, lines = handed_in.truth, sheet_of(handed_in.view)
    assert len(lines) == STUDENTS + 10
    honest = [line for file, line in lines.items() if file.startswith("s")]
    assert sum(line[f"{DRILL} verdict"] == "saved" for line in honest) == truth.best_saved
    assert sum(int(line["lessons passed"]) for line in honest) == truth.passed.total()
    assert {line["lessons"] for line in lines.values()} == {str(len(built_in_course().ids))}
    assert all(f"{drill} minutes" in honest[0] for drill in catalogue())
    copy, whole, bad = lines["t0-copy.zip"], lines["s000.zip"], lines["u0-edited.zip"]
    assert copy["copies"].startswith(f"{DRILL} as in s000.zip")
    assert (copy[f"{DRILL} seed"], copy["key"] != whole["key"]) == ("student-0", True)
    assert "was edited" in bad["problems"]
    assert bad[f"{DRILL} verdict"] == ""


def test_a_repeated_submission_of_one_student_is_not_a_copy(bundles: Path, tmp_path: Path) -> None:
    own = students.practice(7)
    early = dict(sorted(own.items())[:1])
    (bundles / "week-3.zip").write_bytes(write_bundle({}, students.signer(7), early))
    (bundles / "week-8.zip").write_bytes(write_bundle({}, students.signer(7), own))
    found = view_class(bundles, tmp_path / "cache")
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
def test_the_page_is_drawn_and_the_console_is_silent(chromium: Browser, handed_in: Class, tmp_path: Path) -> None:
    opened(chromium, tmp_path / "class.html", render_page(class_page(handed_in.view, "A class")))
    # Saved, data at the end, minutes, mistakes, lessons.
    assert chromium.evaluate(PLOTS) == 5
    assert chromium.complaints == []


def test_the_command_writes_sheet_and_page(
    handed_in: Class, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet, page = tmp_path / "grades.csv", tmp_path / "class.html"
    words = ["class", str(handed_in.folder), "--grades", str(sheet), "--page", str(page)]
    assert run(words) == ExitCode.DONE
    output = capsys.readouterr()
    for title in ("first attempt", "best attempt", "Mistakes", "Lessons"):
        assert title in output.out
    assert handed_in.drill.first.saved.text() in output.out
    assert "u4-edited.zip" in output.err
    assert "t4-copy.zip" in output.err
    assert len(sheet.read_text().splitlines()) == STUDENTS + 11
    text = page.read_text()
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert found
    figures = json.loads(found[1])
    bars = [trace for figure in figures for trace in figure["traces"] if trace["name"] == "best attempt"]
    assert bars[0]["x"] == [pytest.approx(100 * handed_in.truth.best_saved / STUDENTS, rel=1e-3)]
    strokes = [trace for figure in figures for trace in figure["traces"] if trace["name"] == "each student"]
    assert len(strokes[0]["x"]) == STUDENTS
    # The page contains no names, because the class may see it.
    assert not re.search(r"[stu]\d+(-copy|-edited)?\.zip|student-\d", text)
    assert run(["--json", "class", str(handed_in.folder)]) == ExitCode.DONE
    printed = json.loads(capsys.readouterr().out)
    assert printed["practice"]["drills"][0]["first"]["saved"]["count"] == handed_in.truth.first_saved


def test_a_drill_of_another_file_is_named(bundles: Path, tmp_path: Path) -> None:
    easier = tmp_path / f"{DRILL}.toml"
    easier.write_text(catalogue()[DRILL].read_text().replace("count", "count "))
    digests = {"built-in": file_digest(catalogue()[DRILL]), "easier": file_digest(easier), "earlier": ""}
    for number, (name, digest) in enumerate(digests.items()):
        began = datetime(2026, 9, 1, tzinfo=UTC)
        try_ = students.outcome("overlays-first", random.Random(number), began=began, seed=name)
        work = {f"drills/{try_.id}.json": msgspec.json.encode(replace(try_, drill_file=digest))}
        (bundles / f"{name}.zip").write_bytes(write_bundle({}, students.signer(number + 1), work))
    found = view_class(bundles, tmp_path / "cache")
    assert list(cautions(found)) == [f"{DRILL} was run from a file other than this raidlab's: easier.zip"]
    lines = sheet_of(found)
    reported = {name: lines[f"{name}.zip"][f"{DRILL} file"] for name in digests}
    assert reported == {"built-in": "", "easier": "another file", "earlier": "not recorded"}


FACTORS = (0.98, 0.99, 1.0, 1.01, 1.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five students: RAID 0 reads 3.9 times as fast as their single disk, plus or minus 2 %."""
    made = tmp_path / "class"
    made.mkdir()
    for number, factor in enumerate(FACTORS):
        bundle(made / f"s{number}.zip", student(number, factor), tmp_path / f"key{number}.pem")
    return made


def student(number: int, factor: float) -> ResultRecord:
    return measured_by(machine(f"s{number}", scaled(HDD, raid0=factor), WRITES, seed=number), number)


def row_of(rows: tuple[ClassRow, ...], array: str = "raid0") -> ClassRow:
    (row,) = [row for row in rows if (row.array, row.workload) == (array, "rand-read-4k")]
    return row


def test_every_student_counts_once_against_the_own_disk(folder: Path, tmp_path: Path) -> None:
    found = view_class(folder, tmp_path / "cache")
    row = row_of(found.rows)
    assert (found.files, found.results, found.problems, found.copies, found.left_out) == (5, 5, {}, (), ())
    assert len(found.keys) == 5
    assert row.baseline == "single"
    assert row.results == 5
    assert row.median == pytest.approx(3.9)
    assert list(row.values) == pytest.approx([3.9 * factor for factor in FACTORS])
    assert (row.lowest, row.highest) == (row.values[0], row.values[-1])
    assert row.first_quartile == pytest.approx(3.9 * 0.99)
    assert row.far == ()


def test_edited_truncated_and_newer_bundles_are_named_and_left_out(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "s0.zip").read_bytes()
    (folder / "s1.zip").write_bytes(whole[:1000])
    (folder / "s2.zip").write_bytes(whole[:600] + bytes([whole[600] ^ 1]) + whole[601:])
    newer = replace(machine("n", HDD, WRITES), schema_version=99)
    bundle(folder / "s3.zip", newer, tmp_path / "key3.pem")
    found = view_class(folder, tmp_path / "cache")
    assert row_of(found.rows).results == 2
    assert list(found.problems) == ["s1.zip", "s2.zip", "s3.zip"]
    assert all(name in problem for name, problem in found.problems.items())


def test_a_measurement_submitted_again_is_not_a_copy(folder: Path, tmp_path: Path) -> None:
    bundle(folder / "s0-week-2.zip", student(0, FACTORS[0]), tmp_path / "key0.pem")
    assert view_class(folder, tmp_path / "cache").copies == ()


def without_base(record: ResultRecord, workload: str) -> ResultRecord:
    """The record without the measurements of the single disk under this load."""
    kept = (each for each in record.cells if (each.array, each.workload) != ("single", workload))
    return replace(record, cells=tuple(kept))


def test_a_load_not_measured_on_the_single_disk_is_reported_as_left_out(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (0, 1):
        lacking = without_base(student(number, FACTORS[number]), "rand-write-4k")
        bundle(folder / f"s{number}.zip", lacking, tmp_path / f"key{number}.pem")
    sentence = "left out: rand-write-4k, write, in 2 results: not measured on single, so there is no ratio"
    page = tmp_path / "class.html"
    assert run(["class", str(folder), "--page", str(page)]) == ExitCode.DONE
    assert f"\nx, {sentence}" in capsys.readouterr().out
    assert sentence in page.read_text()
    (left_out,) = view_class(folder, tmp_path / "cache").left_out
    assert (left_out.workload, left_out.results, left_out.words) == ("rand-write-4k", 2, sentence)
    # If the whole class measured nothing on single disks, there is nothing else to show.
    for number, factor in enumerate(FACTORS):
        lacking = without_base(without_base(student(number, factor), "rand-write-4k"), "rand-read-4k")
        bundle(folder / f"s{number}.zip", lacking, tmp_path / f"key{number}.pem")
    assert run(["class", str(folder), "--page", str(page)]) == ExitCode.DONE
    assert capsys.readouterr().out.count("in 5 results: not measured on single") == 2
    assert page.read_text().count("in 5 results: not measured on single") == 2


def with_other_figures(record: ResultRecord, cells: int, **figures: float) -> ResultRecord:
    """The record with these figures in its first cells."""
    changed = (with_figures(each, **figures) for each in record.cells[:cells])
    return replace(record, cells=(*changed, *record.cells[cells:]))


@pytest.mark.parametrize(
    "disguise", ["a space", "no line end", "another order", "names", "times", "one figure", "half"]
)
def test_a_disguised_copy_is_found(folder: Path, tmp_path: Path, disguise: str) -> None:
    record = student(1, FACTORS[1])
    text = encode_record(record)
    match disguise:
        case "a space":
            text += b" "
        case "no line end":
            text = text.rstrip()
        case "another order":
            text = msgspec.json.encode(dict(reversed(list(msgspec.json.decode(text).items()))))
        case "names":
            conditions = replace(record.conditions, host_name="mine", target="local:")
            text = encode_record(replace(record, conditions=conditions, stamps=("mine",)))
        case "times":
            cells = tuple(replace(each, started_utc="2026-11-22T10:00:00Z") for each in record.cells)
            text = encode_record(replace(record, created_utc="2026-11-22T10:00:00Z", cells=cells))
        case "one figure":
            text = encode_record(with_other_figures(record, 1, iops=111.0))
        case "half":
            half = with_other_figures(record, len(record.cells) // 2, iops=111.0, mean_seconds=0.9)
            text = encode_record(replace(half, created_utc="2026-11-22T10:00:00Z"))
    data = write_bundle({record.id: {"record.json": text}}, load_signer(tmp_path / "thief.pem"))
    (folder / "thief.zip").write_bytes(data)
    found = view_class(folder, tmp_path / "cache")
    (copy,) = found.copies
    assert copy.files == ("s1.zip", "thief.zip")
    assert copy.is_altered is (disguise not in ("a space", "no line end", "another order"))
    assert any("the same measurement in x" in caution and "thief.zip" in caution for caution in cautions(found))
    assert "a measurement (x) as in s1.zip" in grading_sheet(found)


def test_the_documents_of_fio_give_a_copy_away(bundles: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("honest", "thief", "other")):
        record = student(number, FACTORS[number])
        documents = {f"raw/{place:04d}.json.gz": {"iops": 7 if name != "other" else 8} for place in range(3)}
        named = zip(record.cells, [*documents, *[""] * len(record.cells)], strict=False)
        cells = tuple(replace(each, raw_file=raw) for each, raw in named)
        files = {"record.json": encode_record(replace(record, cells=cells))}
        # The thief's documents have different white space, and are not packed as an export packs them.
        gap = 3 if name == "thief" else 1
        for place, document in documents.items():
            text = msgspec.json.format(msgspec.json.encode(document), indent=gap)
            files[place] = gzip.compress(text, compresslevel=gap)
        signer = load_signer(tmp_path / f"{name}.pem")
        (bundles / f"{name}.zip").write_bytes(write_bundle({record.id: files}, signer))
    (copy,) = view_class(bundles, tmp_path / "cache").copies
    assert copy == CopiedWork("x", ("honest.zip", "thief.zip"), is_altered=True)


def test_equal_figures_in_virtual_time_are_no_copy(bundles: Path, tmp_path: Path) -> None:
    first = student(0, 1.0)
    for number in range(3):
        conditions = replace(first.conditions, is_virtual_time=True)
        timings = replace(first.timings, total_seconds=20.0 + number)
        record = replace(first, conditions=conditions, timings=timings)
        bundle(bundles / f"s{number}.zip", record, tmp_path / f"key{number}.pem")
    shutil.copy(bundles / "s0.zip", tmp_path / "s0.zip")
    assert view_class(bundles, tmp_path / "cache").copies == ()
    bundle(bundles / "thief.zip", read_bundle(tmp_path / "s0.zip").record(first.id), tmp_path / "thief.pem")
    (copy,) = view_class(bundles, tmp_path / "cache").copies
    assert copy.files == ("s0.zip", "thief.zip")


def test_a_value_far_from_the_others_is_named(folder: Path, tmp_path: Path) -> None:
    odd = machine("odd", scaled(HDD, raid0=0.4), WRITES, seed=5)
    bundle(folder / "odd.zip", odd, tmp_path / "key5.pem")
    assert row_of(view_class(folder, tmp_path / "cache").rows).far == ("odd.zip",)


def test_without_a_single_disk_the_first_array_is_the_baseline_as_in_reports(bundles: Path, tmp_path: Path) -> None:
    whole = machine("a", HDD, WRITES)
    arrays = tuple(each for each in reversed(whole.arrays) if each.name != "single")
    cells = tuple(each for each in whole.cells if each.array != "single")
    record = replace(whole, arrays=arrays, cells=cells)
    bundle(bundles / "a.zip", record, tmp_path / "key.pem")
    rows = view_class(bundles, tmp_path / "cache").rows
    assert {row.baseline for row in rows} == {"raid5"}
    assert row_of(rows).median == pytest.approx(390 / 290)
    many = (Loaded(replace(record, id=str(number)), "", (), str) for number in range(MOST_DETAILED + 1))
    in_report = collect(many).distributions["x"]
    assert {(each.array, each.baseline, each.workload) for each in in_report} == {
        (row.array, row.baseline, row.workload) for row in rows
    }


def test_irregular_files_and_odd_names_are_reported_and_others_still_read(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe.zip")
    (folder / "nowhere.zip").symlink_to(tmp_path / "nothing")
    (folder / "folder.zip").mkdir()
    (folder / os.fsdecode(b"\xff.zip")).write_bytes(b"no bundle")
    found = view_class(folder, tmp_path / "cache")
    assert found.results == 5
    assert len(found.problems) == 4


def test_an_empty_folder_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    assert view_class(tmp_path / "bundles", tmp_path / "cache").rows == ()
    with pytest.raises(ResultError, match="no folder"):
        view_class(tmp_path / "nowhere", tmp_path / "cache")


def test_a_damaged_cache_is_reported_with_what_to_delete(folder: Path, tmp_path: Path) -> None:
    view_class(folder, tmp_path / "cache")
    for file in (tmp_path / "cache").rglob("*.duckdb"):
        file.write_bytes(b"damaged")
    with pytest.raises(ResultError) as caught:
        view_class(folder, tmp_path / "cache")
    assert "delete '" in caught.value.hint


def test_without_duckdb_the_error_names_the_extra_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(RequirementMissing) as caught:
        view_class(folder, tmp_path / "cache")
    assert "raidlab[classroom]" in caught.value.hint


def test_a_box_plot_in_a_line() -> None:
    row = ClassRow("x", "a", "w", "read", "single", 5, 1.0, 2.0, 2.5, 3.0, 4.0, (), ())
    assert box(row, 4.0) == " " * 10 + "─" * 10 + "█████┃█████" + "─" * 9


def test_the_command_shows_one_table_and_the_distribution(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.zip").write_bytes(b"no bundle")
    assert run(["class", str(folder)]) == ExitCode.DONE
    output = capsys.readouterr()
    assert "5 results in 6 bundles, signed by 5 keys" in output.out
    assert "raid0 ÷ single" in output.out
    assert "┃" in output.out
    assert "bad.zip" in output.err
    assert run(["class", str(folder), "--json"]) == ExitCode.DONE
    assert '"baseline": "single"' in capsys.readouterr().out
