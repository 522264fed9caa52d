"""When a box is missing, stale or current; wrong arguments of bake.sh; the guest's requirements."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.host.clock import HostClock, wait_for
from tests.unit.image.conftest import REPOSITORY, Clone
from tests.waiting import PATIENCE_SECONDS

MADE_FROM = [
    "packer/build.pkr.hcl",
    "packer/images/debian-12.pkrvars.hcl",
    "packer/box/Vagrantfile",
    "provision/guest/seal.sh",
    "provision/guest/packages/common.txt",
    "provision/vagrant/lab_vm.rb",
    "provision/vagrant/lab-vm.yml",
    "lab/__init__.py",
    "lab/machine/agent.py",
    "tui/__init__.py",
    "requirements/runtime.txt",
    "pyproject.toml",
]


def test_a_box_is_missing_or_current(clone: Clone) -> None:
    assert clone.status() == "missing"
    clone.place_box("debian-12")
    assert clone.status("debian-12") == "current"
    assert clone.status("ubuntu-24.04") == "missing"


@pytest.mark.slow
def test_every_input_of_a_bake_makes_the_box_stale(clone: Clone) -> None:
    clone.place_box()
    for name in MADE_FROM:
        path = clone.root / name
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        assert clone.status() == "stale", name
        path.write_bytes(before)
    assert clone.status() == "current"


def test_a_new_or_renamed_input_makes_the_box_stale(clone: Clone) -> None:
    clone.place_box()
    extra = clone.root / "lab" / "new.py"
    extra.write_text("")
    assert clone.status() == "stale"
    extra.unlink()
    (clone.root / "provision/guest/motd.sh").rename(clone.root / "provision/guest/welcome.sh")
    assert clone.status() == "stale"


def test_changes_outside_the_box_leave_it_current(clone: Clone) -> None:
    clone.place_box()
    (clone.root / "packer/images/ubuntu-22.04.pkrvars.hcl").write_text("# another image's\n")
    (clone.root / "lab/__pycache__").mkdir()
    (clone.root / "lab/__pycache__/units.cpython-311.pyc").write_bytes(b"compiled")
    (clone.root / "packer/output/debian-12.log").write_text("of the last bake\n")
    (clone.root / "README.md").write_text("words\n")
    assert clone.status() == "current"


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("manifest.json", "", "missing"),
        ("raidlab-debian-12.box", "", "missing"),
        ("manifest.json", '{"image": "debian', "stale"),
    ],
)
def test_a_part_that_is_lost_or_damaged(clone: Clone, name: str, text: str, status: str) -> None:
    part = clone.place_box() / name
    part.unlink()
    if text:
        part.write_text(text)
    assert clone.status() == status


def test_a_current_box_is_not_baked_again(clone: Clone) -> None:
    box = clone.place_box() / "raidlab-debian-12.box"
    answer = clone.run("packer/bake.sh", "debian-12")
    assert answer.returncode == 0
    assert answer.stderr.splitlines() == [f"image: debian-12 is current: {box}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            (),
            "which image? next: bake.sh IMAGE, one of debian-12 debian-12-arm64 debian-12-local debian-13 ",
        ),
        (("debain",), "there is no image 'debain'; there are debian-12 debian-12-arm64"),
        (("debian-12", "ubuntu-24.04"), "one image at a time: debian-12 or ubuntu-24.04"),
        (("debian-12", "--fast"), "no such option: --fast"),
        (("debian-12", "--accelerator", "xen"), "the accelerator is kvm, tcg or auto, not 'xen'"),
        (("debian-12", "--accelerator"), "the accelerator is kvm, tcg or auto, not ''"),
        (("../output/x",), "there is no image '../output/x'"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_done(
    unchanged: Clone, arguments: tuple[str, ...], words: str
) -> None:
    answer = unchanged.run("packer/bake.sh", *arguments)
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"image: {words}")
    assert answer.stdout == ""
    assert not (unchanged.root / "packer/output").exists()


def test_missing_programs_are_named_at_once_with_the_next_action(clone: Clone, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    needed = "bash env sed find sort xargs sha256sum cut dirname basename mkdir flock grep paste"
    for name in needed.split():
        found = shutil.which(name)
        assert found, name
        (programs / name).symlink_to(found)
    # /usr/sbin is always searched too, but does not contain packer and the other programs.
    for image, qemu in (("debian-12-arm64", "qemu-system-aarch64"), ("debian-12", "qemu-system-x86_64")):
        answer = clone.run("packer/bake.sh", image, PATH=str(programs))
        assert answer.returncode == 3
        assert f"packer {qemu} qemu-img ssh-keygen python3" in answer.stderr
        assert "next: provision/host/packages.sh image" in answer.stderr
    assert clone.status() == "missing"


class TestRecovery:
    def test_the_rest_of_an_unfinished_bake_is_removed(self, clone: Clone) -> None:
        folder = clone.root / "packer/output/.bake-debian-12.abc"
        (folder / "machine").mkdir(parents=True)
        (folder / "machine/lab.qcow2").write_bytes(b"half")
        assert clone.run("packer/steps/recover.sh").returncode == 0
        assert not folder.exists()

    def test_a_bake_cut_off_between_its_two_renames_gets_the_old_box_back(self, clone: Clone) -> None:
        folder = clone.place_box()
        folder.rename(folder.with_name(".old-debian-12"))
        assert clone.status() == "missing"
        assert clone.run("packer/steps/recover.sh").returncode == 0
        assert clone.status() == "current"

    def test_an_old_box_is_removed_once_the_new_one_is_in_place(self, clone: Clone) -> None:
        folder = clone.place_box()
        shutil.copytree(folder, folder.with_name(".old-debian-12"))
        assert clone.run("packer/steps/recover.sh").returncode == 0
        assert not folder.with_name(".old-debian-12").exists()
        assert clone.status() == "current"

    def test_the_machine_of_a_killed_bake_is_ended(self, clone: Clone, tmp_path: Path) -> None:
        folder = clone.root / "packer/output/.bake-debian-12.abc"
        folder.mkdir(parents=True)
        # A process named like QEMU with a file of the folder on its command line, and one without.
        program = tmp_path / "qemu-system-x86_64"
        shutil.copy2("/bin/sleep", program)
        script = 'exec -a "$0 -drive $1" "$0" 600'
        ours = subprocess.Popen(["bash", "-c", script, str(program), f"{folder}/machine/lab.qcow2"])
        other = subprocess.Popen([str(program), "600"])
        try:
            name = Path(f"/proc/{ours.pid}/comm")
            wait_for(
                name.read_text,
                lambda name: "qemu" in name,
                what="its name",
                timeout_seconds=PATIENCE_SECONDS,
                clock=HostClock(),
            )
            assert clone.run("packer/steps/recover.sh").returncode == 0
            assert ours.wait(PATIENCE_SECONDS) != 0
            assert other.poll() is None
        finally:
            for process in (ours, other):
                process.kill()
                process.wait()
        assert not folder.exists()


def test_every_requirement_of_the_guest_is_locked_with_hashes() -> None:
    text = (REPOSITORY / "requirements/runtime.txt").read_text(encoding="utf-8")
    names = re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)
    assert {"msgspec", "textual", "cyclopts"} <= set(names)
    # pip evaluates markers for the running Python, so none may depend on versions or systems.
    markers = re.findall(r"^[a-z0-9-]+==[^;\\]*;([^\\\n]*)", text, re.MULTILINE)
    variables = set(re.findall(r"[a-z_]{4,}", " ".join(markers)))
    assert variables <= {"platform_python_implementation", "implementation_name"}


def test_status_takes_little_time(clone: Clone) -> None:
    """Vagrant asks for the status before every start."""
    clone.place_box()
    before = os.times()
    clone.status()
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 3.0
