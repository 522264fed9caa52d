"""What plugins can add to arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.arrays.array import ArrayKind


class AddedKind(NamedTuple):
    """A kind of array. The words for its levels are a separate extension, ``lab.arrays.levels.AddedLevels``."""

    load: Callable[[], ArrayKind]
