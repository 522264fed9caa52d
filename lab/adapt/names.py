"""Names of volumes, of their slices, and of the md arrays inside them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lab.arrays.names import require_array_name
from lab.disks.inventory import MAPPER
from lab.errors import SpecError

_VOLUME = re.compile(r"adapt(?:0|[1-9]\d?)")
_SLICE = re.compile(r"(adapt\d+)-d(\d+)w(\d+)")
FIRST_INNER_NUMBER = 100
"""Arrays inside volumes are md100 and so on, out of the way of those that users number from md0."""


def is_volume_name(name: str) -> bool:
    """Whether this names a volume of unequal disks, such as adapt0."""
    return bool(_VOLUME.fullmatch(name))


def require_volume_name(name: str) -> str:
    """``name`` itself; raises SpecError unless it is one that the lab uses."""
    if not is_volume_name(name):
        raise SpecError(f"'{name}' is not the name of a volume", hint="write adapt and a number below 100: adapt0")
    return name


def require_any_name(name: str) -> str:
    """``name`` itself; raises SpecError unless an array or a volume can have it."""
    return name if is_volume_name(name) else require_array_name(name)


def volume_device(name: str) -> str:
    """``/dev/mapper/adapt0`` for ``adapt0``."""
    return f"{MAPPER}{require_volume_name(name)}"


def slice_name(name: str, disk: int, window: int) -> str:
    """The slice of disk ``disk`` that is a member of window ``window``: ``adapt0-d03w01``."""
    return f"{name}-d{disk:02d}w{window:02d}"


def slice_device(name: str, disk: int, window: int) -> str:
    """Its node."""
    return f"{MAPPER}{slice_name(name, disk, window)}"


def parse_slice_name(text: str) -> tuple[str, int, int] | None:
    """Volume, disk and window; None for anything else."""
    match = _SLICE.fullmatch(text)
    return (match[1], int(match[2]), int(match[3])) if match else None


def is_slice(node: str) -> bool:
    """Whether a node under /dev/mapper is a slice of a volume's disk."""
    return node.startswith(MAPPER) and parse_slice_name(node.removeprefix(MAPPER)) is not None


def free_volume_name(taken: Collection[str]) -> str:
    """The first of adapt0, adapt1, … that is not taken."""
    return next(f"adapt{number}" for number in range(100) if f"adapt{number}" not in taken)


def inner_names(taken: Collection[str]) -> Iterator[str]:
    """Names for the arrays inside a volume. Raises SpecError when none is left."""
    for number in range(FIRST_INNER_NUMBER, 1000):
        if f"md{number}" not in taken:
            yield f"md{number}"
    raise SpecError("no md name is left for the arrays inside the volume", hint="stop other volumes first")
