from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pictures.make import FOLDER, slim

SVG = """<svg xmlns="http://www.w3.org/2000/svg"><style>
@font-face { font-family: "Fira Code"; src: url("https://fonts.example/a.woff2") }
.terminal-123-r1 { fill: #ffffff }
</style><defs><clipPath id="terminal-123-clip"><rect x="0"/></clipPath></defs>
<text class="terminal-123-r1" x="12.200000001" y="20.0" textLength="97.6" clip-path="url(#terminal-123-line-0)">1.89k IOPS, 6.1.176</text>
</svg>"""  # noqa: E501


def test_a_slim_picture_has_the_same_text_and_loads_no_font() -> None:
    found = slim(SVG)
    assert "1.89k IOPS, 6.1.176" in found
    assert 'x="12.2" y="20" textLength="97.6"' in found
    assert "http://www.w3.org/2000/svg" in found
    for word in ("fonts.example", "clip", "terminal-123"):
        assert word not in found


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
