from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pictures.make import FOLDER


@pytest.mark.parametrize("page", ["README.md", "docs/student.md"])
def test_every_picture_of_the_docs_is_there(page: str) -> None:
    root = FOLDER.parents[1]
    links = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (root / page).read_text())
    assert links
    assert all(((root / page).parent / link).is_file() for link in links)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.svg")), ids=lambda file: file.stem)
def test_pictures_are_small_and_name_no_place_elsewhere(file: Path) -> None:
    text = file.read_text()
    assert len(text) < 160_000
    assert re.findall(r"https?://[^\"' )]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"/(home|root|tmp|work)/", text)
