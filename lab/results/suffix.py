"""The suffixes of files that hold results, which a result's own name must not have."""

from __future__ import annotations

from typing import NamedTuple


class ResultSuffix(NamedTuple):
    """Files with this suffix hold results."""

    suffix: str
    """The suffix in lowercase letters, for example ``.zip``."""
