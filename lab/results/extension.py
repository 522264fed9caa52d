"""What plugins can add to results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from lab.results.store import ResultFiles, ResultStore


class ResultFormat(NamedTuple):
    """A file format for results. Its suffix is a separate extension, ``ResultSuffix``."""

    suffix: str
    read: Callable[[Path], ResultFiles]
    """Raises ResultError, including for a file in another format."""
    write: Callable[[ResultStore, Sequence[str], Path], object]
    """Writes the results with these names to a file. Raises ResultError."""
