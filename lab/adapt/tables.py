"""Device-mapper tables (kernel: Documentation/admin-guide/device-mapper/linear.rst) of slices and volumes."""

from __future__ import annotations

from lab.adapt.windows import Composition

_PIECES = 1024
"""Of a slice: with so many, what the volume uses together lies within a hundredth of each disk."""


def piece_lines(composition: Composition) -> int:
    """Lines of the pieces into which slices are cut."""
    return max(8, max((window.lines for window in composition.windows), default=0) // _PIECES)
