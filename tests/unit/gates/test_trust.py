"""Files that other users may have written are not used."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.gates import files
from lab.gates.files import NotTrusted, require_trusted
from lab.host.files import HostFiles
from lab.machine.kernel_image import find_kernel, guest_python
from tests.unit.fakes import Installed


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in nested folders of this user."""
    made = tmp_path / "cache" / "kernels" / "linux"
    made.parent.mkdir(parents=True)
    made.write_bytes(b"#!/bin/sh\n")
    for place, mode in ((made, 0o755), (made.parent, 0o755), (made.parents[1], 0o755), (tmp_path, 0o755)):
        place.chmod(mode)
    return made


def test_what_only_this_user_and_root_can_write_is_trusted(program: Path) -> None:
    require_trusted(program, "it")
    require_trusted(Path("/bin/sh"), "it")
    require_trusted(program.parent, "it", has_tree=True)
    require_trusted(program.parent / "missing" / "more", "it")


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o702])
@pytest.mark.parametrize("level", ["kernels/linux", "kernels", ""])
def test_a_file_and_all_folders_above_are_closed_to_others(program: Path, mode: int, level: str) -> None:
    place = program.parents[1] / level
    place.chmod(mode)
    with pytest.raises(NotTrusted, match=f"other users may write to {place}\n.*chmod go-w '{place}'"):
        require_trusted(program, "the program")
    place.chmod(0o755)
    require_trusted(program, "the program")


def test_a_shared_folder_with_the_sticky_bit_is_trusted_for_own_files(program: Path) -> None:
    program.parent.chmod(0o1777)
    require_trusted(program, "it")
    program.chmod(0o777)
    with pytest.raises(NotTrusted):
        require_trusted(program, "it")


def test_what_belongs_to_another_user_is_refused_wherever_it_lies(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    if os.getuid() == 0:
        os.chown(program, 1000, 1000)
    with pytest.raises(NotTrusted, match=f"{program} belongs to another user.*\n.*then make it$"):
        require_trusted(program, "it", again="make it")
    require_trusted(Path("/bin/sh"), "it")


def test_symbolic_links_on_the_path_are_checked_with_their_targets(program: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    program.parent.rename(tmp_path / "open" / "kernels")
    program.parent.symlink_to("../second")
    (tmp_path / "second").symlink_to(tmp_path / "open" / "kernels")
    require_trusted(program, "it")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NotTrusted, match=f"other users may write to {tmp_path}/open"):
        require_trusted(program, "it")


def test_links_in_a_circle_and_a_relative_path_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").symlink_to("b")
    Path("b").symlink_to("a")
    require_trusted(Path("a"), "it")
    Path("file").touch(0o666)
    Path("file").chmod(0o666)
    with pytest.raises(NotTrusted):
        require_trusted(Path("file"), "it")


def test_everything_in_a_folder_counts(program: Path) -> None:
    (program.parent / "modules" / "md").mkdir(parents=True)
    driver = program.parent / "modules" / "md" / "raid456.ko"
    driver.touch()
    driver.chmod(0o666)
    require_trusted(program, "it")
    with pytest.raises(NotTrusted, match=str(driver)):
        require_trusted(program.parent / "modules", "it", has_tree=True)


@pytest.mark.parametrize(
    ("name", "members", "is_trusted"),
    [("me", [], True), ("me", ["me"], True), ("me", ["friend"], False), ("students", [], False)],
)
def test_the_private_group_of_a_user_may_write_if_it_has_no_other_member(
    program: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], is_trusted: bool
) -> None:
    """Typical with umask 002, the default with private groups on Debian and Ubuntu."""
    found = program.stat()
    monkeypatch.setattr(grp, "getgrgid", lambda number: SimpleNamespace(gr_name=name, gr_gid=number, gr_mem=members))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="me", pw_gid=found.st_gid))
    monkeypatch.setattr(files, "_FIRST_FREE_GROUP", -1)
    program.parent.chmod(0o775)
    if is_trusted:
        require_trusted(program, "it")
    else:
        with pytest.raises(NotTrusted, match="other users may write to"):
            require_trusted(program, "it")
    # An ACL may grant access to others; the group bits are then its mask.
    monkeypatch.setattr(os, "getxattr", lambda *_, **__: b"list")
    with pytest.raises(NotTrusted):
        require_trusted(program, "it")


def test_permissions_of_a_kernel_its_files_and_the_interpreter_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built = tmp_path / "cache" / "raidlab" / "kernels" / "virtual-time"
    (built / "modules").mkdir(parents=True)
    (built / "fio").mkdir()
    for name in ("linux", "release", "quick_clock.so", "modules/md.ko", "fio/librbd.so.1"):
        (built / name).write_bytes(b"#!/bin/sh\n")
        (built / name).chmod(0o755)

    def find() -> object:
        return find_kernel(Installed(), HostFiles(tmp_path), virtual_time=True)

    find()
    for place in (*built.rglob("*"), *built.parents[:3], built):
        mode = stat.S_IMODE(place.stat().st_mode)
        place.chmod(mode | 0o002)
        with pytest.raises(NotTrusted, match="other users may write") as refused:
            find()
        assert "make uml-kernel" in refused.value.hint, place
        place.chmod(mode)
    find()
    (tmp_path / "python3").touch(0o755)
    (tmp_path / "python3").chmod(0o777)
    monkeypatch.setattr(os, "access", lambda path, _: path == str(tmp_path / "python3"))
    with pytest.raises(NotTrusted, match="the interpreter"):
        guest_python(Installed(python3=str(tmp_path / "python3")))
