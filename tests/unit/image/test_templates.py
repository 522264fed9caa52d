"""The templates with real Packer: each wrong value has its own message. ``make check`` validates every image."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import everything_required
from tests.unit.image.conftest import REPOSITORY, run

# Other releases do not package Packer.
HAS_PACKAGE = "VERSION_CODENAME=bookworm" in Path("/etc/os-release").read_text(encoding="utf-8").splitlines()


@pytest.fixture(autouse=True)
def packer() -> None:
    if shutil.which("packer"):
        return
    reason = "packer is not installed; next: provision/host/packages.sh image (Debian 12)"
    if everything_required() and HAS_PACKAGE:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def validate(image: str, **variables: str) -> tuple[int, str]:
    """Return status and output without line breaks: Packer wraps lines at the terminal's width."""
    given = [argument for name, value in variables.items() for argument in ("-var", f"{name}={value}")]
    file = f"-var-file=packer/images/{image}.pkrvars.hcl"
    answer = run("packer", "validate", file, *given, "packer", cwd=REPOSITORY, environment={"CHECKPOINT_DISABLE": "1"})
    return answer.returncode, " ".join((answer.stdout + answer.stderr).split())


WRONG = [
    ("image_url", "/tmp/disk.qcow2", "The image_url must start with https:// or file://"),
    ("image_checksum", "md5:0", "The image_checksum must be sha256:HEX, sha512:HEX or file:https://"),
    ("architecture", "riscv64", "The architecture must be amd64 or arm64."),
    ("firmware", "QEMU_EFI.fd", "The firmware must be an absolute path without a comma"),
    ("base_builder", "../evil", "The base_builder must be the name of a script in packer/base"),
    ("disk_size_gib", "2", "The disk_size_gib must be a whole number from 4 to 64."),
    ("lab_disk_count", "17", "The lab_disk_count must be a whole number from 4"),
    ("cpus", "0", "The cpus must be a whole number from 1 to 16."),
    ("memory_mib", "256", "The memory_mib must be at least 768"),
    ("accelerator", "xen", "The accelerator must be kvm (hardware virtualisation) or tcg (emulation)."),
    ("boot_minutes", "0", "The boot_minutes must be at least 1."),
    ("work_dir", "relative", "The work_dir must be an absolute path without a comma"),
]
OTHERS = [("image_url", ""), ("image_checksum", "none"), ("disk_size_gib", "8.5"), ("work_dir", "/a,b")]


def test_each_wrong_value_has_its_own_sentence() -> None:
    sentences = {name: sentence for name, _, sentence in WRONG}
    for values in ({name: value for name, value, _ in WRONG}, dict(OTHERS)):
        status, words = validate("debian-12-local", **values)
        assert status != 0
        assert [name for name in values if sentences[name] not in words] == []


def test_every_variable_has_a_type_and_a_description_and_is_checked_or_free() -> None:
    text = (REPOSITORY / "packer/variables.pkr.hcl").read_text(encoding="utf-8")
    blocks = dict(re.findall(r'^variable "(\w+)" \{\n(.*?)^\}', text, re.MULTILINE | re.DOTALL))
    assert len(blocks) == text.count('variable "')
    for name, body in blocks.items():
        assert re.search(r"^  type +=", body, re.MULTILINE), name
        assert re.search(r'^  description = ".+\."$', body, re.MULTILINE), name
        # Only QEMU knows the names of processors.
        assert "validation {" in body or name == "cpu_model", name


@pytest.mark.parametrize("file", (REPOSITORY / "packer/images").glob("*.pkrvars.hcl"), ids=lambda file: file.name)
def test_the_variables_of_an_image_agree_about_its_architecture(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    named = re.findall(r'^architecture += "(.*)"$', text, re.MULTILINE) or ["amd64"]
    assert named == ["arm64" if "-arm64." in file.name else "amd64"]
    urls = "".join(re.findall(r"https://.*img|https://.*qcow2", text))
    assert set(re.findall(r"amd64|arm64", urls)) <= {*named}
