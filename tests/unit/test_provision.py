"""The scripts that set up a computer: what they never overwrite, and what an interruption leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.image.conftest import REPOSITORY, run


@pytest.mark.parametrize(
    ("command", "own"),
    [
        (("provision/host/wheelhouse.sh",), "raidlab-1-py3-none-any.whl"),
        (("provision/root-image/build.sh", "amd64"), "root.squashfs"),
    ],
)
def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path, command: tuple[str, ...], own: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in (own, "thesis.txt"):
        (folder / name).touch()
    answer = run(*command, str(folder), cwd=REPOSITORY, environment={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (answer.returncode, f"{folder} holds other files; next: name a new folder" in answer.stderr) == (2, True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(["mine", own, "thesis.txt"])


def test_a_folder_that_the_script_made_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.whl").touch()
    check = f"source provision/host/own-folder.sh; is_free_or_own '{tmp_path}' '*.whl'"
    assert run("bash", "-c", check, cwd=REPOSITORY, environment={}).returncode == 0
    (tmp_path / "folder.whl").mkdir()
    assert run("bash", "-c", check, cwd=REPOSITORY, environment={}).returncode == 1
