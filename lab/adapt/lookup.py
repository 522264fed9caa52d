"""Many look-ups at once with numpy, which is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lab.adapt.pattern import Pattern
from lab.errors import RequirementMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class Addresses(NamedTuple):
    """As ``Address``, one value for each block that was asked for."""

    disk: NDArray[np.int64]
    line: NDArray[np.int64]
    parity_disk: NDArray[np.int64]
    parity_line: NDArray[np.int64]


class Lookup:
    """The pattern's table as arrays: built once, then constant time for each block.

    Raises RequirementMissing without numpy; ``Pattern.locate`` does the same for one block and needs nothing.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._np = _numpy()
        np = self._np
        stripes = pattern.stripes
        self._disk = np.array([disk for disk, _, _ in pattern.table], dtype=np.int64)
        self._line = np.array([line for _, line, _ in pattern.table], dtype=np.int64)
        self._parity_disk = np.array([stripes[number].parity for *_, number in pattern.table], dtype=np.int64)
        self._parity_line = np.array([stripes[number].parity_line for *_, number in pattern.table], dtype=np.int64)
        lines = np.array(pattern.lines, dtype=np.int64)
        self._step = lines[self._disk]
        self._parity_step = lines[self._parity_disk]

    def locate(self, blocks: ArrayLike) -> Addresses:
        """Where these logical blocks are, as ``Pattern.locate`` tells of one."""
        repeat, offset = self._np.divmod(self._np.asarray(blocks, dtype=self._np.int64), len(self._disk))
        return Addresses(
            self._disk[offset],
            repeat * self._step[offset] + self._line[offset],
            self._parity_disk[offset],
            repeat * self._parity_step[offset] + self._parity_line[offset],
        )


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise RequirementMissing(
            "looking up many blocks at once needs numpy", hint="install it: pip install numpy"
        ) from None
    return numpy
