"""Root images: finding them, their initramfs, QEMU's command line for them, and what excludes them."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from lab.errors import SpecError, ToolMissing
from lab.gates.files import NotTrusted
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine import opening
from lab.machine.embedded import EmbeddedOptions, UbdDisk, agent_files
from lab.machine.qemu import accelerators, boot_on_image, qemu_arguments, startable_images
from lab.machine.root_images import AGENT_FOLDER, find_root_image, root_images, write_initramfs
from lab.machine.stock_kernels import cpio
from lab.machine.target import parse_target

FACTS = {"architecture": "aarch64", "release": "6.1.0-56-arm64", "system": "Debian 12", "format_version": 1}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which images are found by name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "raidlab/kernels"
    folder.mkdir(parents=True)
    return folder


def make_image(folder: Path, **facts: object) -> Path:
    folder.mkdir()
    for name, content in (
        ("vmlinuz", b"kernel"),
        ("root.squashfs", b"hsqs"),
        ("initramfs.gz", gzip.compress(cpio([("bin", 0o040755, b""), ("bin/busybox", 0o100755, b"busybox")]))),
        ("image.json", json.dumps({**FACTS, **facts}).encode()),
    ):
        (folder / name).write_bytes(content)
    return folder


def test_an_image_is_found_by_its_name_and_by_its_path(cache: Path, tmp_path: Path) -> None:
    make_image(cache / "root-arm64")
    elsewhere = make_image(tmp_path / "elsewhere", architecture="x86_64")
    assert find_root_image("arm64").facts.architecture == "aarch64"
    assert find_root_image(str(elsewhere)).facts.architecture == "x86_64"
    assert [image.name for image in root_images()] == ["arm64"]


def test_a_missing_image_names_the_command_that_builds_it(cache: Path) -> None:
    words = "build one: make root-image ARCH=arm64, or list the images: raidlab kernels images"
    with pytest.raises(ToolMissing, match=f"there is no root image 'arm64' .*\n  next: {words}$"):
        find_root_image("arm64")
    with pytest.raises(SpecError, match="not the name"):
        find_root_image("..")


def test_a_folder_of_something_else_is_not_to_be_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    tmp_path.chmod(0o777)
    with pytest.raises(ToolMissing, match="there is no root image") as raised:
        find_root_image(str(tmp_path))
    assert "remove" not in raised.value.hint
    image = make_image(tmp_path / "image")
    with pytest.raises(NotTrusted, match="other users may write") as distrusted:
        find_root_image(str(image))
    assert "remove" not in distrusted.value.hint


@pytest.mark.parametrize(
    "facts",
    [{"architecture": "riscv64"}, {"format_version": 2}, {"release": 6}, {"signed": True}],
)
def test_facts_that_this_raidlab_does_not_know_are_refused(cache: Path, facts: dict[str, object]) -> None:
    make_image(cache / "root-arm64", **facts)
    with pytest.raises(ToolMissing, match="is damaged"):
        find_root_image("arm64")
    assert list(root_images()) == []


@pytest.mark.parametrize("part", ["vmlinuz", "initramfs.gz", "root.squashfs"])
def test_an_image_without_a_part_is_refused(cache: Path, part: str) -> None:
    (make_image(cache / "root-arm64") / part).unlink()
    with pytest.raises(ToolMissing, match=f"lacks {part}"):
        find_root_image("arm64")


def test_an_image_that_others_may_write_is_refused(cache: Path) -> None:
    (make_image(cache / "root-arm64") / "root.squashfs").chmod(0o666)
    with pytest.raises(NotTrusted, match="other users may write"):
        find_root_image("arm64")


def test_init_and_agent_come_from_this_raidlab_in_an_archive_before_the_images_own(cache: Path, tmp_path: Path) -> None:
    make_image(cache / "root-arm64")
    archive = tmp_path / "initramfs"
    write_initramfs(find_root_image("arm64"), agent_files(AGENT_FOLDER, "/usr/bin/python3", ()), archive)
    data = archive.read_bytes()
    own, _, rest = data.partition(b"\x1f\x8b")
    # The kernel looks for the next archive at a multiple of four bytes.
    assert len(own) % 4 == 0
    folder = tmp_path / "unpacked"
    folder.mkdir()
    for part in (own, gzip.decompress(b"\x1f\x8b" + rest)):
        subprocess.run(["busybox", "cpio", "-id"], input=part, cwd=folder, check=True, capture_output=True)
    assert (folder / "init").read_text().startswith("#!/bin/busybox sh\n")
    assert (folder / "agent/init").read_text().startswith("#!/usr/bin/python3 -IS\n")
    assert (folder / "agent/agent.py").is_file()
    assert json.loads((folder / "agent/visible.json").read_text())["kept"] == []
    assert (folder / "bin/busybox").read_bytes() == b"busybox"


@pytest.mark.parametrize(
    ("architecture", "program_words"),
    [
        ("aarch64", ["virt,gic-version=max", "max,pauth-impdef=on", "console=ttyAMA0"]),
        ("x86_64", ["pc", "max", "console=ttyS0"]),
    ],
)
def test_qemus_command_line_follows_from_the_images_architecture(
    cache: Path, architecture: str, program_words: list[str]
) -> None:
    folder = make_image(cache / "root-it", architecture=architecture)
    boot = boot_on_image(find_root_image("it"), Path("/machine/initramfs"))
    options = EmbeddedOptions(disks=(UbdDisk(Path("/lab/disk01.img"), "RAIDLAB-01"),))
    words = qemu_arguments("qemu", options, 3, "tcg", boot, 9)
    board, processor, console = program_words
    assert words[words.index("-machine") + 1] == board
    assert words[words.index("-cpu") + 1] == processor
    assert words[words.index("-smp") + 1] == "3"
    assert console in words[words.index("-append") + 1].split()
    assert f"RAIDLAB_INIT={AGENT_FOLDER}/init" in words[words.index("-append") + 1].split()
    drives = [word for word in words if word.startswith("if=none")]
    assert ["readonly=on" in drive for drive in drives] == [False, True]
    assert f"file={folder}/root.squashfs" in drives[1]
    # No file of this computer, and the system's disk has no serial number of a lab disk.
    assert not any("9p" in word or word.endswith("serial=RAIDLAB-02") for word in words)
    assert boot.listable == ()


def test_kvm_runs_only_this_computers_architecture(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_image(cache / "root-it")
    monkeypatch.setattr("os.access", lambda *_: True)
    files, target = HostFiles(), parse_target("qemu:?root=it")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert accelerators(target, files) == ["tcg"]
    with pytest.raises(SpecError, match="KVM"):
        accelerators(target.with_option("accel", "kvm"), files)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert accelerators(target, files) == ["kvm", "tcg"]


def test_the_default_is_the_first_kind_of_machine_that_can_start(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_kernel(*_: object) -> None:
        raise ToolMissing("the embedded kernel is not installed")

    monkeypatch.setattr(opening, "find_kernel", find_kernel)
    monkeypatch.setattr(opening, "can_start", lambda *_: False)
    monkeypatch.setattr(Processes, "find", lambda _self, program: f"/usr/bin/{program}")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    make_image(cache / "root-a")
    make_image(cache / "root-b", architecture="x86_64")
    host = opening.Host.real()
    assert [image.name for image in startable_images(host.processes)] == ["b", "a"]
    assert opening.default_target(host) == "qemu:?root=b"
    monkeypatch.setattr(opening, "can_start", lambda *_: True)
    assert opening.default_target(host) == "qemu:"
    monkeypatch.setattr(opening, "can_start", lambda *_: False)
    monkeypatch.setattr(Processes, "find", lambda *_: None)
    # Its error names the package to install.
    assert opening.default_target(host) == "uml:"
    monkeypatch.setattr(opening, "can_start", lambda *_: True)
    monkeypatch.setattr(opening, "find_kernel", lambda *_: None)
    assert opening.default_target(host) == "uml:"
