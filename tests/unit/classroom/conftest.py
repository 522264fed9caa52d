from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    """A folder for the bundles of a class."""
    folder = tmp_path / "class"
    folder.mkdir()
    return folder
