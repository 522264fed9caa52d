"""Practice in bundles is read back unchanged, and invented practice does no harm."""

from __future__ import annotations

import copy
import csv
import io
import random
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.classroom.bundle import (
    MOST_PRACTICE,
    Bundle,
    export_results,
    read_bundle,
    read_practice,
    write_bundle,
)
from lab.classroom.folder import decode_outcome, decode_progress, practice_of, read_all
from lab.classroom.grading import grading_sheet
from lab.classroom.view import view_class
from lab.cli.main import run
from lab.drills.case import DrillOutcome
from lab.errors import ExitCode, LabError, ResultError
from lab.lessons.engine import Progress
from lab.lessons.student import LessonStore, StudentState
from lab.machine import Host
from lab.results.store import ResultStore
from lab.units import counted
from tests.changed import change_tree
from tests.unit.classroom import students
from tests.unit.disks.machines import host_in
from tests.unit.drills.outcomes import put_outcome

OWN = students.practice(3)
DRILL_PLACE = next(place for place in OWN if place.startswith("drills/"))
LESSON_PLACE = next(place for place in OWN if place.startswith("lessons/"))
OUTCOME: dict[str, Any] = msgspec.json.decode(OWN[DRILL_PLACE])
PROGRESS: dict[str, Any] = msgspec.json.decode(OWN[LESSON_PLACE])


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """The host of a student with the practice of ``OWN`` and an open desk."""
    host = host_in(tmp_path / "state")
    lessons = LessonStore(host.state)
    for place, data in OWN.items():
        if place.startswith("drills/"):
            put_outcome(host, msgspec.json.decode(data, type=DrillOutcome))
        else:
            lessons.store_progress(msgspec.json.decode(data, type=Progress))
    lessons.store_desk(StudentState(seed="secret"))
    return host


def exported(host: Host, file: Path) -> Bundle:
    export_results(ResultStore(host.state.results), (), file, practice_of(host))
    return read_bundle(file)


def test_practice_comes_back_word_for_word(host: Host, tmp_path: Path) -> None:
    bundle = exported(host, tmp_path / "own.zip")
    assert bundle.ids == ()
    assert set(bundle.practice) == set(OWN)
    # The student's other state, such as the next seed, is not exported.
    found = {msgspec.json.encode(work) for work in read_all(bundle)}
    assert found == set(OWN.values())


def test_the_format_is_raised_only_where_practice_is_inside() -> None:
    for practice, version in (({}, 2), (OWN, 3)):
        with zipfile.ZipFile(io.BytesIO(write_bundle({}, students.signer(1), practice))) as archive:
            assert msgspec.json.decode(archive.read("manifest.json"))["format_version"] == version


def test_an_empty_practice_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no lessons or drills to hand in") as caught:
        practice_of(host_in(tmp_path))
    assert "raidlab drill" in caught.value.hint


def signed(file: Path, contents: Mapping[str, bytes]) -> Path:
    """Write a bundle of any files, with a valid manifest and signature."""
    file.write_bytes(write_bundle({}, students.signer(1), contents))
    return file


BAD_PLACES = (
    *("drills/../x.json", "drills/a/b.json", "drills/.json", "drills/x.txt", "lessons/-x.json", "drills/"),
    *(f"drills/{'x' * 200}.json", "Drills/x.json", "lessons/x\n.json", "/lessons/x.json"),
)


@pytest.mark.parametrize("place", BAD_PLACES)
def test_a_place_that_is_none_is_refused(place: str, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="does not belong to a result"):
        read_bundle(signed(tmp_path / "x.zip", {place: b"{}"}))


def test_practice_in_the_format_of_results_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.classroom.bundle.FORMAT_VERSION", 2)
    with pytest.raises(ResultError, match="does not belong to a result"):
        read_bundle(signed(tmp_path / "x.zip", OWN))


def test_too_much_is_refused(host: Host, tmp_path: Path) -> None:
    many = {f"drills/x{number}.json": b"{}" for number in range(MOST_PRACTICE + 1)}
    with pytest.raises(ResultError, match="too many lessons and drills for an export"):
        read_bundle(signed(tmp_path / "x.zip", many))
    with pytest.raises(ResultError, match="a bundle holds at most"):
        export_results(ResultStore(host.state.results), (), tmp_path / "y.zip", many)
    with pytest.raises(ResultError, match="too large for a raidlab export"):
        read_bundle(signed(tmp_path / "z.zip", {"drills/x.json": b" " * (6 << 20)}))


def test_a_bundle_that_was_exchanged_meanwhile_is_noticed(tmp_path: Path) -> None:
    bundle = read_bundle(signed(tmp_path / "x.zip", OWN))
    signed(tmp_path / "x.zip", {place: data.replace(b"student-3", b"student-4") for place, data in OWN.items()})
    with pytest.raises(ResultError, match="was edited"):
        list(read_practice(bundle))


@pytest.mark.parametrize(
    "changes",
    [
        *({"id": "another"}, {"drill": "../x"}, {"drill": "=1+1"}, {"verdict": "brilliant"}, {"verdict": ""}),
        *({"saved_percent": 100.01}, {"saved_percent": -1}, {"begun_percent": 101.0}, {"minutes": -0.5}),
        *({"minutes": 1e300}, {"hints": -1}, {"changed": {"disk01": []}}, {"changed": {"disk01": [[0, 0]]}}),
        *({"hints": 10**12}, {"resets": 10**7}, {"touched_bytes": -1}, {"touched_bytes": 1 << 60}, {"seed": "x" * 999}),
        *({"blocks": {"kept": -1}}, {"mistakes": [{"id": "x" * 201, "explain": ""}]}, {"title": "x" * 201}),
        {"mistakes": [{"id": "zeroed", "explain": ""}] * 1001},
        *({"minutes": None}, {"minutes": "5"}, {"hints": 1.5}, {"commands": [[]]}, {"before": {"disk01": {}}}),
    ],
)
def test_an_outcome_that_no_raidlab_writes_is_refused(changes: dict[str, Any]) -> None:
    data = msgspec.json.encode({**OUTCOME, **changes})
    with pytest.raises(ResultError, match=r"raidlab never writes|is damaged"):
        decode_outcome(data, OUTCOME["id"], "x.zip")


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"\xff", b"null", b'{"minutes": 1e999}'])
def test_invalid_outcomes_are_refused(data: bytes) -> None:
    with pytest.raises(ResultError, match="is damaged"):
        decode_outcome(data, "x", "x.zip")
    with pytest.raises(ResultError, match="is damaged"):
        decode_progress(data, "x", "x.zip")


@pytest.mark.parametrize(
    "changes",
    [
        *({"lesson": "04-other"}, {"lesson": "../x"}, {"seed": "x" * 201}, {"steps": {"x" * 201: {"began_utc": ""}}}),
        *({"steps": {"build": {"began_utc": "", "hints": 4}}}, {"steps": {"build": {"began_utc": "", "hints": -1}}}),
        *({"steps": {"build": {"began_utc": "x" * 201}}}, {"steps": {"build": {}}}, {"steps": []}),
        {"steps": {f"s{number}": {"began_utc": ""} for number in range(1001)}},
    ],
)
def test_progress_that_no_raidlab_writes_is_refused(changes: dict[str, Any]) -> None:
    data = msgspec.json.encode({**PROGRESS, **changes})
    with pytest.raises(ResultError, match=r"raidlab never writes|is damaged"):
        decode_progress(data, PROGRESS["lesson"], "x.zip")


def test_files_of_a_newer_raidlab_are_reported_with_their_format(tmp_path: Path) -> None:
    contents = {
        DRILL_PLACE: msgspec.json.encode({**OUTCOME, "format_version": 99}),
        LESSON_PLACE: msgspec.json.encode({**PROGRESS, "format_version": 99}),
    }
    found = list(read_all(read_bundle(signed(tmp_path / "x.zip", contents))))
    assert [isinstance(each, str) and "format 99" in each for each in found] == [True, True]


def test_one_that_is_bad_hides_no_other(bundles: Path, tmp_path: Path) -> None:
    signed(bundles / "x.zip", {"drills/bad.json": b"{}", **OWN})
    found = view_class(bundles, tmp_path / "cache")
    assert found.practice.drills[0].tries + len(found.practice.lessons) == len(OWN)
    assert "drills/bad.json" in found.problems["x.zip"]


def test_mistakes_of_a_drill_of_somebodys_own_may_have_any_name(bundles: Path, tmp_path: Path) -> None:
    mistakes = [{"id": "wrong disk, twice", "explain": ""}, {"id": "né\n", "explain": ""}]
    signed(bundles / "x.zip", {DRILL_PLACE: msgspec.json.encode({**OUTCOME, "mistakes": mistakes})})
    found = view_class(bundles, tmp_path / "cache")
    assert found.problems == {}
    assert list(found.practice.drills[0].mistakes) == ["né\\x0a", "wrong disk; twice"]


def test_foreign_text_cannot_forge_a_line_or_a_formula(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, seed in enumerate(("=cmd|'/c calc'!A1\nraidlab: all is well\x1b[2J",) * 2):
        outcome = {**OUTCOME, "seed": seed, "minutes": number + 1.0, "began_utc": f"2026-09-0{number + 1}T08:00:00Z"}
        contents = {DRILL_PLACE: msgspec.json.encode(outcome)}
        (bundles / f"{number}.zip").write_bytes(write_bundle({}, students.signer(number + 1), contents))
    assert run(["class", str(bundles), "--grades", str(tmp_path / "g.csv")]) == ExitCode.DONE
    output = capsys.readouterr()
    assert "\nraidlab: all is well" not in output.err
    assert "\x1b" not in output.out + output.err
    (first, _) = csv.DictReader(io.StringIO((tmp_path / "g.csv").read_text()))
    assert first[f"{students.DRILL} seed"].startswith("'=cmd")
    assert "\\x1b" in grading_sheet(view_class(bundles, tmp_path / "cache"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_whatever_was_changed_is_read_or_refused(seed: int) -> None:
    draw = random.Random(seed)
    for tree, decode, name in (
        (OUTCOME, decode_outcome, OUTCOME["id"]),
        (PROGRESS, decode_progress, PROGRESS["lesson"]),
    ):
        changed = copy.deepcopy(tree)
        for _ in range(draw.randint(1, 3)):
            change_tree(changed, draw)
        try:
            work = decode(msgspec.json.encode(changed), name, "x.zip")
        except LabError:
            continue
        assert not set("".join(texts_in(msgspec.to_builtins(work)))) & {"\x1b", "\x9b", "\u202e"}


def texts_in(tree: Any) -> Iterator[str]:
    """All texts and keys. In JSON, a control character is written as an escape and would not be found."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for key, each in tree.items():
            yield from (key, *texts_in(each))
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from texts_in(each)


def test_the_command_hands_practice_in(
    host: Host, bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "--practice", "--to", str(bundles / "own.zip")]) == ExitCode.DONE
    drills = sum(place.startswith("drills/") for place in OWN)
    assert f"{counted(len(OWN) - drills, 'lesson')} and {counted(drills, 'finished drill')}" in capsys.readouterr().out
    assert run(["class", str(bundles)]) == ExitCode.DONE
    assert students.DRILL in capsys.readouterr().out
    assert run(["export", "--practice", "--fio-plot", "--to", str(tmp_path / "x")]) == ExitCode.USAGE
    assert run(["export", "--to", str(tmp_path / "x.zip")]) == ExitCode.FAILED
    assert "--practice" in capsys.readouterr().err
