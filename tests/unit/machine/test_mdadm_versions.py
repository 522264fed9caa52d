"""Another mdadm for a machine: finding it, its kernel parameter, and installing its packages."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from lab.errors import LabError, SpecError, ToolMissing
from lab.machine import mdadm_versions
from lab.machine.embedded import EmbeddedOptions, mdadm_parameter, shown_files
from lab.machine.mdadm_versions import find_mdadm, packaged_mdadms
from lab.machine.opening import embedded_options
from lab.machine.target import parse_target


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of fetched versions."""
    monkeypatch.setattr(mdadm_versions, "kernel_cache", lambda: tmp_path / "kernels")
    for version in ("4.2-5", "4.4-9", "4.4-11"):
        (tmp_path / "mdadm" / version).mkdir(parents=True)
        (tmp_path / "mdadm" / version / "mdadm").write_text("")
    return tmp_path / "mdadm"


def test_an_mdadm_is_named_by_the_beginning_of_its_version_or_by_its_folder(store: Path) -> None:
    assert find_mdadm("4.4") == store / "4.4-11"
    assert find_mdadm("4.4-9") == store / "4.4-9"
    assert find_mdadm(str(store / "4.2-5")) == store / "4.2-5"
    with pytest.raises(
        ToolMissing, match=r"no mdadm 4\.6 .*4\.4-11, 4\.4-9, 4\.2-5\)\n  next: raidlab mdadm get 4\.6$"
    ):
        find_mdadm("4.6")
    with pytest.raises(SpecError, match="there is no mdadm in 'nowhere'"):
        find_mdadm("./nowhere/")


def test_an_option_of_the_target_shares_its_folder_and_passes_it_to_init(store: Path) -> None:
    for text in ("uml:?mdadm=4.4", "qemu:?mdadm=4.4"):
        options = embedded_options(parse_target(text), EmbeddedOptions())
        assert mdadm_parameter(options) == [f"RAIDLAB_MDADM={store}/4.4-11"]
        assert shown_files(options) == [f"{store}/4.4-11"]
    assert mdadm_parameter(embedded_options(parse_target("uml:"), EmbeddedOptions())) == []


def fake_apt(*, has_loader: bool = True) -> Mock:
    """Packages with a program and libraries, as unpacked by dpkg-deb."""

    def unpack(_names: Sequence[str], tree: Path) -> None:
        libraries = tree / "usr/lib/x86_64-linux-gnu"
        (libraries / "gconv").mkdir(parents=True)
        (tree / "usr/sbin").mkdir()
        for name in ("libc.so.6", "gconv/IBM.so"):
            (libraries / name).write_text("")
        for name in ("mdadm", "mdmon"):
            (tree / "usr/sbin" / name).write_text(name)
        # In place of the loader, a program that prints its arguments.
        if has_loader:
            loader = libraries / "ld-linux-x86-64.so.2"
            loader.write_text('#!/bin/sh\necho "$@"\n')
            loader.chmod(0o755)

    return Mock(with_needs=lambda *names, fits: [*names, "libc6"], unpack=Mock(side_effect=unpack))


def test_the_programs_load_the_libraries_that_were_fetched_with_them(store: Path) -> None:
    work = store / ".fetch-1"
    work.mkdir()
    apt = fake_apt()
    packaged_mdadms().install(apt, "4.6-3", work)
    assert apt.unpack.call_args.args[0] == ["mdadm=4.6-3", "libc6"]
    place = store / "4.6-3"
    assert sorted(path.name for path in (place / "lib").iterdir()) == ["ld-linux-x86-64.so.2", "libc.so.6"]
    output = subprocess.run([place / "mdadm", "--version"], capture_output=True, text=True, check=True).stdout
    assert output == f"--library-path {place}/lib {place}/programs/mdadm --version\n"
    assert find_mdadm("4.6") == place


def test_packages_without_a_loader_are_refused(store: Path) -> None:
    work = store / ".fetch-1"
    work.mkdir()
    with pytest.raises(LabError, match="contains a dynamic loader"):
        packaged_mdadms().install(fake_apt(has_loader=False), "4.6-3", work)
    assert not (store / "4.6-3").exists()
