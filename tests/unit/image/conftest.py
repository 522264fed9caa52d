"""A copy of all inputs of a bake that tests may change."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PARTS = (
    "packer",
    "provision/guest",
    "provision/host",
    "provision/vagrant",
    "requirements",
    "lab",
    "tui",
    "pyproject.toml",
)


@dataclass(frozen=True, slots=True)
class Clone:
    """A copy of the repository without a box."""

    root: Path

    def run(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run(*argv, cwd=self.root, environment=environment)

    def status(self, image: str = "debian-12") -> str:
        answer = self.run("packer/bake.sh", "--status", image)
        assert (answer.returncode, answer.stderr) == (0, "")
        return answer.stdout.removesuffix("\n")

    def place_box(self, image: str = "debian-12") -> Path:
        """Create a box like a bake does, made from the clone's present contents."""
        made_from = self.run("packer/steps/status.sh", "--inputs", image).stdout.strip()
        folder = self.root / "packer" / "output" / image
        folder.mkdir(parents=True)
        (folder / f"raidlab-{image}.box").write_bytes(b"box")
        (folder / "manifest.json").write_text(
            f'{{\n"image": "{image}",\n"input_hash": "{made_from}",\n"kernel": "6.1"\n}}\n'
        )
        return folder


def run(*argv: str, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="session")
def archive() -> bytes:
    """The inputs, packed once, since Python takes several times as long to copy them one by one."""
    argv = ["tar", "-c", "--exclude=output*", "--exclude=__pycache__", *PARTS]
    packed = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, check=False)
    # tar exits with status 1 if a file changes while it is read.
    assert packed.returncode in (0, 1), packed.stderr
    return packed.stdout


def unpacked(root: Path, archive: bytes) -> Clone:
    root.mkdir()
    subprocess.run(["tar", "-x"], cwd=root, input=archive, check=True)
    return Clone(root)


@pytest.fixture
def clone(tmp_path: Path, archive: bytes) -> Clone:
    return unpacked(tmp_path / "clone", archive)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory, archive: bytes) -> Clone:
    """A clone for tests that change nothing in it."""
    return unpacked(tmp_path_factory.mktemp("unchanged") / "clone", archive)
