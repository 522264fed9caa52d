"""The wheels that a guest without network is given, and that its installation is whole or not there."""

from __future__ import annotations

import re

from lab import __version__
from tests.unit.image.conftest import REPOSITORY


def test_every_requirement_of_the_guest_is_locked_with_hashes() -> None:
    text = (REPOSITORY / "requirements/runtime.txt").read_text(encoding="utf-8")
    names = re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)
    assert {"msgspec", "textual", "cyclopts"} <= set(names)
    # Downloading for another Python evaluates markers for this one, so none may speak of versions or systems.
    markers = re.findall(r"^[a-z0-9-]+==[^;\\]*;([^\\\n]*)", text, re.MULTILINE)
    variables = set(re.findall(r"[a-z_]{4,}", " ".join(markers)))
    assert variables <= {"platform_python_implementation", "implementation_name"}
    assert __version__
