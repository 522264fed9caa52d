"""A checkout of mdadm: found or refused, its tests chosen by name, and copied as it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lab.errors import RequirementMissing, SpecError, ToolMissing
from lab.host.files import HostFiles
from lab.host.processes import HostProcesses
from lab.md_tests.record import (
    chosen_tests,
    copy_suite,
    digest_of,
    find_suite,
    is_stale,
    require_built,
    require_tools,
)
from tests.unit.md_tests.checkouts import PASSES, make_checkout, picture

TESTS = dict.fromkeys(("00raid0", "00raid10", "01r1fail", "10ddf-create"), PASSES)
BESIDE = dict.fromkeys(("func.d", "ToTest", "skiptests", "00raid0~", "01r1fail.inject_error", "0x", "00 blank"), "")
TRUE = shutil.which("true") or ""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    broken = {"01r1fail": "always fails\n\nFails with errors:\n", "09gone": "always fails\n"}
    return make_checkout(tmp_path / "mdadm", {**TESTS, **BESIDE}, broken=broken, program=TRUE)


def test_tests_and_what_upstream_knows_of_them(checkout: Path) -> None:
    (checkout / "tests/12templates").mkdir()
    suite = find_suite(checkout)
    assert suite.tests == tuple(TESTS)
    assert set(suite.broken) == {"01r1fail"}
    assert suite.broken["01r1fail"].startswith("always fails\n")
    assert suite.file_kib == (20000, 65536)


def test_sizes_that_the_suite_does_not_tell(checkout: Path) -> None:
    (checkout / "tests/func.sh").write_text("size=$((4 * 5000))\nddfsize=65536\n")
    assert find_suite(checkout).file_kib is None


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ((), tuple(TESTS)),
        (("01r1fail", "00raid0"), ("00raid0", "01r1fail")),
        (("00*", "00raid0"), ("00raid0", "00raid10")),
        (("tests/10ddf-create",), ("10ddf-create",)),
        (("0[0-1]r*[0-9]",), ("00raid0", "00raid10")),
    ],
)
def test_tests_are_chosen(checkout: Path, words: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    assert chosen_tests(find_suite(checkout), words) == chosen


@pytest.mark.parametrize(
    ("word", "hint"), [("00raid01", "did you mean '00raid"), ("02*", "known: "), ("../test", "known: ")]
)
def test_an_unknown_test_is_refused_with_the_nearest(checkout: Path, word: str, hint: str) -> None:
    with pytest.raises(SpecError) as raised:
        chosen_tests(find_suite(checkout), ["00raid0", word])
    assert raised.value.hint.startswith(hint)


@pytest.mark.parametrize("gone", ["test", "tests/func.sh", "mdadm.h"])
def test_a_folder_that_is_no_checkout(checkout: Path, gone: str) -> None:
    (checkout / gone).unlink()
    with pytest.raises(SpecError, match=f"has no {gone}"):
        find_suite(checkout)


def test_a_folder_that_is_not_there_or_has_no_tests(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is not a folder"):
        find_suite(tmp_path / "nowhere")
    with pytest.raises(SpecError, match="has no test in"):
        find_suite(make_checkout(tmp_path / "empty", {}))


def test_what_is_not_built_is_named_with_the_command(tmp_path: Path) -> None:
    suite = find_suite(make_checkout(tmp_path / "mdadm", TESTS))
    with pytest.raises(RequirementMissing, match="mdadm and mdmon not built") as raised:
        require_built(suite)
    assert raised.value.hint.startswith(f"make -C {tmp_path / 'mdadm'} mdadm mdmon ")
    shutil.copy(TRUE, suite.folder / "mdadm")
    with pytest.raises(RequirementMissing, match=r"^mdmon not built"):
        require_built(suite)
    shutil.copy(TRUE, suite.folder / "mdmon")
    require_built(suite)


def test_sources_that_are_newer_than_the_program(checkout: Path) -> None:
    os.utime(checkout / "mdadm.h", (1, 1))
    assert not is_stale(find_suite(checkout))
    later = (checkout / "mdadm").stat().st_mtime + 10
    os.utime(checkout / "mdadm.h", (later, later))
    assert is_stale(find_suite(checkout))


def test_a_copy_has_what_is_needed_and_leaves_the_checkout_alone(checkout: Path, tmp_path: Path) -> None:
    (checkout / "mdadm.o").write_bytes(b"\x7fELF")
    (checkout / "tests/.#00raid0").symlink_to("somebody@somewhere")
    before = picture(checkout)
    digest = copy_suite(find_suite(checkout), tmp_path / "copy")
    assert picture(checkout) == before
    assert digest == digest_of(find_suite(checkout))
    names = {path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*")}
    assert {"test", "tests/00raid0", "tests/01r1fail.broken", "tests/func.sh", "mdadm", "mdmon"} <= names
    assert not names & {"mdadm.o", "mdadm.h", "tests/.#00raid0"}
    rules = (tmp_path / "copy/udev-rules/63-md-raid-arrays.rules").read_text()
    assert rules == 'RUN+="/run/raidlab/bin/mdadm"\n'
    assert os.access(tmp_path / "copy/mdadm", os.X_OK)


@pytest.mark.parametrize("changed", ["tests/00raid0", "tests/func.sh", "mdadm", "test"])
def test_another_content_has_another_digest(checkout: Path, changed: str) -> None:
    before = digest_of(find_suite(checkout))
    with (checkout / changed).open("ab") as file:
        file.write(b"\n")
    assert digest_of(find_suite(checkout)) != before


class Without(HostProcesses):
    """A computer on which one program is not installed."""

    def __init__(self, program: str) -> None:
        self.program = program

    def find(self, program: str) -> str | None:
        return None if program == self.program else "/bin/true"


def test_a_tool_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="losetup") as raised:
        require_tools(Without("losetup"), HostFiles(tmp_path))
    assert raised.value.hint == "apt install mount"
    with pytest.raises(ToolMissing, match="udev's daemon") as raised:
        require_tools(Without(""), HostFiles(tmp_path))
    assert raised.value.hint == "apt install udev"
    daemon = tmp_path / "usr/lib/systemd/systemd-udevd"
    daemon.parent.mkdir(parents=True)
    shutil.copy(TRUE, daemon)
    assert require_tools(Without(""), HostFiles(tmp_path)) == "/usr/lib/systemd/systemd-udevd"
