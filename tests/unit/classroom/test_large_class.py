"""Several processes that read a class produce the same tables as one, and an interruption loses nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from lab.classroom import folder as class_folder
from lab.classroom.bundle import load_signer, read_bundle, write_bundle
from lab.classroom.folder import held
from lab.classroom.grading import grading_sheet
from lab.classroom.view import ClassView, class_page, view_class
from lab.errors import ResultError
from lab.report.page.blocks import render_page
from lab.results.record import encode_record
from tests.unit.classroom import students
from tests.unit.compare.platform_records import HDD, bundle, machine, measured_by, scaled
from tests.unit.compare.test_platforms import WRITES

REPOSITORY = Path(__file__).parents[3]
BUNDLES = 40


def measured(folder: Path, number: int, name: str = "") -> None:
    """Write a bundle with two results of a student."""
    factor = 1 + 0.37 * ((number * 7919) % 101 - 50) / 1000
    records = [
        machine(f"s{number}", scaled(HDD, raid0=factor, raid5=1 / factor), WRITES, seed=number % 6, experiment=each)
        for each in ("x", "y")
    ]
    records = [measured_by(each, number) for each in records]
    records[1] = msgspec.structs.replace(records[1], id=f"{records[1].id}-2")
    contents = {each.id: {"record.json": encode_record(each)} for each in records}
    signer = load_signer(folder.parent / f"key{number % 30}.pem")
    (folder / (name or f"s{number:03d}.zip")).write_bytes(write_bundle(contents, signer))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class") / "bundles"
    folder.mkdir()
    for number in range(BUNDLES):
        measured(folder, number)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "bundles"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder whose name DuckDB could mistake for a pattern."""
    return tmp_path / "cache [of] O'Neil*"


def only_folder_in(cache: Path) -> Path:
    (place,) = cache.iterdir()
    return place


def bundles_in(cache: Path) -> int:
    with duckdb.connect(str(only_folder_in(cache) / "class.duckdb"), read_only=True) as database:
        ((count,),) = database.execute("SELECT count(*) FROM files").fetchall()
    return int(count)


@pytest.mark.slow
def test_one_process_two_and_the_cache_give_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        work = students.practice(number)
        (folder / f"t{number:03d}.zip").write_bytes(write_bundle({}, students.signer(number), work))
    copied = write_bundle({}, students.signer(99), students.practice(3))
    (folder / "u0-copy.zip").write_bytes(copied)
    (folder / "u1-edited.zip").write_bytes(students.edited(copied))
    shutil.copy(folder / "s003.zip", folder / "u2-copy.zip")
    (folder / "u3-short.zip").write_bytes((folder / "s004.zip").read_bytes()[:-100])
    newer = msgspec.structs.replace(machine("n", HDD, WRITES), schema_version=99)
    bundle(folder / "u4-newer.zip", newer, tmp_path / "key.pem")
    alone = view_class(folder, tmp_path / "cache1")
    assert len(alone.rows) > 10
    assert len(alone.problems) == 3
    assert alone.copies == ()
    monkeypatch.setattr(class_folder, "_FEW", BUNDLES)
    monkeypatch.setattr(class_folder, "processors", lambda: 2)
    assert view_class(folder, tmp_path / "cache2") == alone
    cached = view_class(folder, tmp_path / "cache2")
    assert cached == alone
    assert render_page(class_page(cached, "x")) == render_page(class_page(alone, "x"))
    assert grading_sheet(cached) == grading_sheet(alone)


def test_many_bundles_are_read_by_others_and_few_are_not(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[tuple[str, float]] = []

    def never(file: Path) -> Any:
        raise AssertionError(file)

    def view() -> ClassView:
        return view_class(folder, cache, lambda what, fraction: reported.append((what, fraction)))

    with monkeypatch.context() as patched:
        patched.setattr(class_folder, "_FEW", BUNDLES - 1)
        patched.setattr(class_folder, "processors", lambda: 2)
        patched.setattr("lab.classroom.folder.read_bundle", never)
        view()
    assert reported[-1] == (f"reading {BUNDLES} bundles", 1.0)
    measured(folder, BUNDLES)
    reported.clear()
    assert view().files == BUNDLES + 1
    assert reported == []


@pytest.mark.slow
def test_changed_new_and_removed_bundles_are_as_if_read_anew(folder: Path, cache: Path, tmp_path: Path) -> None:
    view_class(folder, cache)
    measured(folder, 77, "s001.zip")
    (folder / "s039.zip").unlink()
    measured(folder, 78)
    found = view_class(folder, cache)
    assert bundles_in(cache) == found.files == BUNDLES
    assert found == view_class(folder, tmp_path / "anew")
    for path in folder.iterdir():
        path.unlink()
    assert view_class(folder, cache).files == 0
    assert bundles_in(cache) == 0
    assert {path.name for path in only_folder_in(cache).iterdir()} == {"class.duckdb", "lock"}


READS = """
import os, signal, sys
from contextlib import contextmanager
from pathlib import Path
from lab.classroom import folder
from lab.host import signals
folder._STORE_AFTER = folder._AT_ONCE = folder._FEW = 5
folder.processors = lambda: 2
transaction = folder._transaction
begun = []
# A background process ignores SIGINT, so set its handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

@contextmanager
def transactions(database):
    with transaction(database):
        begun.append(1)
        yield
        if len(begun) == 4:
            os.kill(os.getpid(), int(sys.argv[3]))

folder._transaction = transactions
signals.install()
with folder.open_class(Path(sys.argv[1]), Path(sys.argv[2])):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_reading_interrupted_before_a_commit_resumes_from_the_cache(
    number: signal.Signals, folder: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = [sys.executable, "-c", READS, str(folder), str(cache), str(int(number))]
    ended = subprocess.run(argv, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert ended.returncode == (-number if number == signal.SIGKILL else 1), ended.stderr
    kept = bundles_in(cache)
    assert kept == 15
    (only_folder_in(cache) / "spill-1").mkdir()
    read: list[str] = []

    def note(file: Path) -> Any:
        read.append(file.name)
        return read_bundle(file)

    monkeypatch.setattr("lab.classroom.folder.read_bundle", note)
    found = view_class(folder, cache)
    assert len(read) == len(set(read)) == BUNDLES - kept
    assert found == view_class(folder, tmp_path / "anew")
    assert {path.name for path in only_folder_in(cache).iterdir()} == {"class.duckdb", "lock"}


@pytest.mark.slow
def test_two_calls_at_once_read_each_bundle_once(folder: Path, cache: Path, tmp_path: Path) -> None:
    program = """if True:
        import sys
        from pathlib import Path
        from lab.classroom.view import view_class
        view_class(Path(sys.argv[1]), Path(sys.argv[2]))
    """
    argv = [sys.executable, "-c", program, str(folder), str(cache)]
    calls = [subprocess.Popen(argv, cwd=REPOSITORY) for _ in range(2)]
    assert [call.wait() for call in calls] == [0, 0]
    assert bundles_in(cache) == BUNDLES
    assert view_class(folder, cache) == view_class(folder, tmp_path / "anew")


def test_waiting_for_a_lock_calls_back(tmp_path: Path) -> None:
    class Waiting(Exception):
        pass

    def on_wait() -> None:
        raise Waiting

    def hold(how: int) -> AbstractContextManager[None]:
        return held(tmp_path, how, on_wait)

    with hold(fcntl.LOCK_SH), hold(fcntl.LOCK_SH), pytest.raises(Waiting), hold(fcntl.LOCK_EX):
        raise AssertionError("a lock that others hold")


def test_a_full_disk_is_reported_and_loses_nothing(folder: Path, cache: Path, tmp_path: Path) -> None:
    view_class(folder, cache)
    before = {path.name for path in only_folder_in(cache).iterdir()}
    for number in range(BUNDLES, BUNDLES + 5):
        measured(folder, number)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A limit on file sizes has the same effect as a full disk, with EFBIG instead of ENOSPC.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ResultError, match=os.strerror(errno.EFBIG)) as caught:
            view_class(folder, cache)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot be cached" in caught.value.message
    assert "delete" not in caught.value.hint
    # An incomplete journal of DuckDB remains, and has no effect.
    assert {path.name for path in only_folder_in(cache).iterdir()} == before | {"class.duckdb.wal"}
    assert view_class(folder, cache) == view_class(folder, tmp_path / "anew")


def test_two_names_that_look_alike_are_two_bundles(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "bundles"
    folder.mkdir()
    measured(folder, 1, r"a\udcff.zip")
    measured(folder, 2)
    (folder / "s002.zip").rename(folder / os.fsdecode(b"a\xff.zip"))
    for _ in range(2):
        with class_folder.open_class(folder, cache) as database:
            names = database.execute("SELECT file FROM files ORDER BY file").fetchall()
        assert names == [(r"a\\udcff.zip",), (r"a\udcff.zip",)]
