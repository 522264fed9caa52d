"""Rosters, scales and sheets: the owner of each bundle, its points, and the files for gradebooks."""

from __future__ import annotations

import csv
import io
import random
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from lab.classroom.bundle import fingerprint, public_key_of, write_bundle
from lab.classroom.grading import BUILT_IN, TOTAL, Student, assign, counted, read_roster, read_scale
from lab.cli.main import run
from lab.drills.schema import catalogue
from lab.drills.verdict import DrillVerdict
from lab.errors import ExitCode, SpecError
from lab.lessons.course import built_in_course
from lab.lessons.engine import Progress, StepProgress
from tests.unit.classroom import students
from tests.unit.classroom.students import DRILL

HAND_WRITTEN = "Name,ID,E-mail\nÅsa Berg,1001,asa.b@example.org\nBo Ek,1002,bo@example.org\n"
SEMICOLONS = "\ufeffname;id\nÅsa Berg;1001\nBo Ek;1002\n"
MOODLE = (
    '"First name","Last name","ID number","Email address",Groups\n'
    "Åsa,Berg,1001,asa.b@example.org,\nBo,Ek,1002,bo@example.org,B\n"
)
CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Old work (7)\n    Points Possible,,,,,10\n"
    '"Berg, Åsa",71,1001,asab,RAID\n"Ek, Bo",72,1002,boe,RAID,9\n"Student, Test",73,,x,RAID\n'
)


def roster(folder: Path, text: str) -> tuple[Student, ...]:
    path = folder / "roster.csv"
    path.write_text(text)
    return read_roster(path)


@pytest.mark.parametrize("text", [HAND_WRITTEN, SEMICOLONS, MOODLE, CANVAS])
def test_lists_by_hand_and_of_platforms_are_read(tmp_path: Path, text: str) -> None:
    found = roster(tmp_path, text)
    assert [each.id for each in found] == ["1001", "1002"]
    assert {"Åsa", "Berg"} == set(found[0].name.replace(",", "").split())
    assert [each.canvas_id for each in found] == (["71", "72"] if text is CANVAS else ["", ""])


def test_a_guest_is_known_by_the_login_and_canvas_number_serves_as_an_id(tmp_path: Path) -> None:
    (guest,) = roster(tmp_path, "name,id,login,key\nA B,,guest,aa-bb\n")
    assert (guest.id, guest.key) == ("guest", "aa-bb")
    (student,) = roster(tmp_path, 'Student,ID,Section\n"Berg, Asa",71,S1\n')
    assert (student.id, student.canvas_id) == ("71", "71")


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "does not list any student"),
        ("name,id\n", "does not list any student"),
        ("who,what\nx,y\n", "no columns for names and ids"),
        ("name,id\na,1\nb,1\n", "has the id 1 twice"),
        ("name,id\na,1\nb,\n", "has no id for b"),
        ('name,id\n"a,1\n', "not a CSV file"),
        ("\x00\x01", "not text"),
    ],
)
def test_an_invalid_roster_is_refused(tmp_path: Path, text: str, because: str) -> None:
    with pytest.raises(SpecError, match=because) as caught:
        roster(tmp_path, text)
    assert caught.value.hint


ANN, ANN_LEE, BO, DI, CLEO = (
    Student("Ann Lee", "10", login="ann"),
    Student("Ann-Marie Lee", "11", login="ann-lee"),
    Student("Bo Ek", "12", key="aaaa-bbbb-cccc-dddd"),
    Student("Di Roe", "13", file="group7"),
    Student("Cl\u00e9o Roy", "14"),
)


@pytest.mark.parametrize(
    ("file", "key", "owner"),
    [
        ("10.zip", "k", ANN),
        ("week-3_10_practice.zip", "k", ANN),
        ("ann-lee-2.zip", "k", ANN_LEE),
        ("Ann.zip", "k", ANN),
        ("leeann_LATE_9_10_surname.zip", "k", ANN),
        ("anything.zip", "aaaa-bbbb-cccc-dddd", BO),
        ("group7-last.zip", "k", DI),
        ("my-group7.zip", "k", None),
        ("110.zip", "k", None),
        # A browser's number for a second download is not an id, and macOS writes names in decomposed form.
        ("cléo-roy (10).zip", "k", CLEO),
        ("Cle\u0301o_Roy.zip", "k", CLEO),
        ("lee.zip", "k", None),
    ],
)
def test_a_bundle_is_found_by_key_id_login_or_name(file: str, key: str, owner: Student | None) -> None:
    found = assign((ANN, ANN_LEE, BO, DI, CLEO), {file: key})
    assert found.owners.get(file) == owner
    assert bool(found.problems) is (owner is None)


def test_a_key_is_one_students_and_a_second_owner_is_named() -> None:
    found = assign((ANN, BO), {"10.zip": "k1", "x.zip": "k1", "12.zip": "k2", "10-2.zip": "k2"})
    assert found.owners == {"10.zip": ANN, "x.zip": ANN, "12.zip": BO, "10-2.zip": ANN}
    assert "one key signed bundles of Ann Lee and Bo Ek" in found.problems
    assert "12.zip has Bo Ek's name, but was not signed with the key on the roster" in found.problems


def test_the_built_in_scale_knows_every_verdict() -> None:
    scale = read_scale(BUILT_IN)
    assert {*scale.drill.verdict} == {each.value for each in DrillVerdict}
    lessons, drills = built_in_course().ids, list(catalogue())
    assert list(counted(scale, lessons, drills)) == [*lessons, *drills]


@pytest.mark.parametrize(
    ("more", "because", "hint"),
    [
        ('[[work]]\nname = "drill 99"\n', "no lesson or drill 'drill 99'", "known: "),
        (f'[[work]]\nname = "drill 1"\n[[work]]\nname = "{DRILL}"\n', f"counts {DRILL} twice", "keep only one"),
        ('[[work]]\nname = "drill 1"\nweigth = 2\n', "did you mean 'weight'", "fix the keys"),
        ("[late]\nfactor = 2\n", "factor", "fix the keys"),
        ('"savd" = 4\n', "no verdict 'savd'", "did you mean 'saved'?"),
    ],
)
def test_a_scale_with_a_mistake_names_it(tmp_path: Path, more: str, because: str, hint: str) -> None:
    path = tmp_path / "scale.toml"
    path.write_text(f'format_version = 1\n[drill.verdict]\n"saved" = 4\n{more}')
    with pytest.raises(SpecError, match=because) as caught:
        counted(read_scale(str(path)), built_in_course().ids, list(catalogue()))
    assert hint in caught.value.hint


def progress(lesson: str, done_utc: str, *, hints: int = 0, by_lab: int = 0) -> Progress:
    """A lesson that was passed at this time."""
    names = [step.id for step in built_in_course().find(lesson).ready("").steps]
    steps = {
        name: StepProgress(began_utc=done_utc, done_utc=done_utc, hints=3 * (place < hints), by_lab=place < by_lab)
        for place, name in enumerate(names)
    }
    return Progress(format_version=2, lesson=lesson, seed="otter", began_utc=done_utc, steps=steps)


@pytest.fixture
def handed_in(bundles: Path) -> Path:
    """Åsa lost drill 1, then saved it; one of her two lessons was late. Bo handed in her work, and Cy nothing.

    The name of Di's bundle does not show that it is hers.
    """
    draw = random.Random(1)
    lost = students.outcome("create-over", draw, began=datetime(2026, 9, 1, tzinfo=UTC), seed="otter")
    saved = students.outcome("overlays-first", draw, began=datetime(2026, 9, 20, tzinfo=UTC), seed="otter")
    early = {f"drills/{lost.id}.json": msgspec.json.encode(lost)}
    lessons = {
        "lessons/02-striping.json": progress("02-striping", "2026-09-02T10:00:00Z"),
        "lessons/04-parity.json": progress("04-parity", "2026-10-09T10:00:00Z", hints=1, by_lab=1),
    }
    late = early | {f"drills/{saved.id}.json": msgspec.json.encode(saved)}
    late |= {place: msgspec.json.encode(each) for place, each in lessons.items()}
    (bundles / "1001-week1.zip").write_bytes(write_bundle({}, students.signer(1), early))
    (bundles / "final.zip").write_bytes(write_bundle({}, students.signer(1), late))
    (bundles / "bo.zip").write_bytes(write_bundle({}, students.signer(2), early))
    (bundles / "stranger.zip").write_bytes(write_bundle({}, students.signer(3), students.practice(5)))
    (bundles / "week2.zip").write_bytes(write_bundle({}, students.signer(4), students.practice(6)))
    (bundles / "cut.zip").write_bytes(b"PK")
    return bundles


SCALE = """
format_version = 1
[lesson]
passed = 2
every_hint = 0.25
by_lab = 0.5
[drill]
try = "first"
[drill.verdict]
"saved" = 4
"lost" = 0.5
[late]
factor = 0.5
[[work]]
name = "lesson 2"
[[work]]
name = "04-parity"
due = 2026-10-08
[[work]]
name = "drill 1"
try = "best"
weight = 3
"""


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_the_sheet_names_students_dates_and_points(
    handed_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "roster.csv").write_text(
        "name,id,email,seed,login,key\nÅsa Berg,1001,asa@example.org,otter,,\nBo Ek,1002,,fox,bo,\nCy Li,1003,,,,\n"
        f"Di Roe,1004,,,,{fingerprint(public_key_of(students.signer(4)))}\n"
    )
    (tmp_path / "scale.toml").write_text(SCALE)
    sheets = {name: tmp_path / f"{name}.csv" for name in ("grades", "moodle", "canvas")}
    words = ["class", str(handed_in), "--roster", str(tmp_path / "roster.csv")]
    words += ["--points", str(tmp_path / "scale.toml")]
    assert run([*words, *(word for name, path in sheets.items() for word in (f"--{name}", str(path)))]) == ExitCode.DONE
    output = capsys.readouterr().err
    assert "stranger.zip matches no student" in output
    asa, bo, cy, di, *others = rows(sheets["grades"])
    assert [each["name"] for each in (asa, bo, cy, di)] == ["Åsa Berg", "Bo Ek", "Cy Li", "Di Roe"]
    assert {each["file"] for each in others} == {"stranger.zip", "cut.zip"}
    # The name of the second bundle contains neither her name nor her id; its key identifies her.
    assert asa["file"] == "1001-week1.zip, final.zip"
    assert asa["last work UTC"] == "2026-10-09T10:00:00Z"
    assert (asa["02-striping points"], asa["04-parity points"], asa[f"{DRILL} points"]) == ("2.0", "0.625", "12.0")
    assert (asa["points"], asa["points possible"]) == ("14.625", "16.0")
    assert asa["late"] == "04-parity after 2026-10-08"
    assert asa["04-parity done UTC"] == "2026-10-09T10:00:00Z"
    assert (asa[f"{DRILL} tries"], asa["problems"]) == ("2", "")
    assert asa["copies"].startswith(f"{DRILL} as in")
    assert "bo.zip" in asa["copies"]
    assert f"a seed other than 'fox': {DRILL}" in bo["problems"]
    assert (bo[f"{DRILL} points"], bo["points"]) == ("1.5", "1.5")
    assert cy["problems"] == "nothing was handed in"
    assert di["file"] == "week2.zip"
    moodle = rows(sheets["moodle"])
    assert [each["ID number"] for each in moodle] == ["1001", "1002", "1003", "1004"]
    assert [each[TOTAL] for each in moodle][:3] == ["14.625", "1.5", "0"]
    canvas = list(csv.reader(io.StringIO(sheets["canvas"].read_text())))
    assert canvas[0][:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert canvas[1] == ["    Points Possible", "", "", "", "", "2.0", "2.0", "12.0", "16.0"]
    assert canvas[2][-1] == "14.625"


def test_options_that_lead_nowhere_are_refused_before_anything_is_read(
    handed_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--moodle", "m.csv"], ["--canvas", "c.csv"], ["--points", "standard"], ["--roster", "r.csv"]):
        assert run(["class", str(handed_in), *words]) == ExitCode.USAGE
        assert "next:" in capsys.readouterr().err
    missing = ["--grades", str(tmp_path / "g.csv"), "--roster", str(tmp_path / "none.csv")]
    assert run(["class", str(handed_in), *missing]) == ExitCode.USAGE
    assert not (tmp_path / "g.csv").exists()
