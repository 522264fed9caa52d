"""Files that do not come with raidlab are announced before anything in them runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.drills.schema import catalogue, read_drill, shell_lines
from lab.experiments import schema as experiments
from lab.gates.files import FileKind, foreign_lines, foreign_note, is_foreign
from lab.lessons.course import built_in_course


def test_what_comes_with_raidlab_is_not_announced() -> None:
    paths = [*catalogue().values(), *(files.path for files in built_in_course().lessons)]
    paths += list(experiments.BUILT_IN_FOLDER.glob("*.toml"))
    assert not any(is_foreign(path) or foreign_note(path, FileKind.DRILL, ["ls"]) for path in paths)


@pytest.mark.parametrize("kind", FileKind)
def test_a_foreign_file_is_named_with_what_it_may_do(kind: FileKind) -> None:
    note = foreign_note(Path("/srv/x\x1b[2J.toml"), kind, ["mdadm --stop /dev/md0\nls", "true"])
    assert note.startswith("'/srv/x\\x1b[2J.toml' does not")
    assert f"does not come with raidlab: this {kind} " in note
    if kind in (FileKind.DRILL, FileKind.LESSON):
        assert "3 shell lines as root, in the embedded machine only" in note
        assert "read the system's files and write to the disks of this lab" in note


def test_a_long_path_of_a_foreign_file_is_shortened() -> None:
    path = f"/srv/{'long/' * 40}x.toml"
    assert foreign_note(Path(path), FileKind.FLEET).startswith(f"'{path[:79]}…' does not come with raidlab")


def test_a_link_in_the_catalogues_place_does_not_make_a_file_raidlabs_own(tmp_path: Path) -> None:
    own = next(iter(catalogue().values()))
    (tmp_path / "link.toml").symlink_to(own)
    (tmp_path / "copy.toml").write_bytes(own.read_bytes())
    assert not is_foreign(tmp_path / "link.toml")
    assert is_foreign(tmp_path / "copy.toml")


def test_the_lines_of_a_drill_are_all_that_runs_when_it_is_made() -> None:
    drill = read_drill(catalogue()["01-dropped-members"])
    lines = foreign_lines(shell_lines(drill))
    assert [line for line in drill.arrive.strip().splitlines() if line not in lines] == []
    assert sum("mdadm --create" in line for line in lines) == 1
    assert all(line.isprintable() for line in lines)
