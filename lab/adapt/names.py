"""The names of volumes, of their slices, and of the md arrays inside them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lab.disks.inventory import MAPPER
from lab.errors import SpecError

_VOLUME = re.compile(r"adapt(?:0|[1-9]\d?)")
_SLICE = re.compile(r"(adapt\d+)-d(\d+)w(\d+)")
FIRST_INNER_NUMBER = 100
"""Arrays inside volumes are named md100 and up, so that md0 and up are free for the user's arrays."""


def names_volume(name: str) -> bool:
    """Whether this is a valid name of a volume, such as adapt0."""
    return bool(_VOLUME.fullmatch(name))


def require_volume_name(name: str) -> str:
    """Returns ``name``. Raises SpecError unless it is a valid name of a volume."""
    if not names_volume(name):
        raise SpecError(f"'{name}' is not the name of a volume", hint="write adapt and a number below 100: adapt0")
    return name


def volume_device(name: str) -> str:
    """The node of a volume: ``/dev/mapper/adapt0`` for ``adapt0``."""
    return f"{MAPPER}{require_volume_name(name)}"


def slice_name(name: str, disk: int, window: int) -> str:
    """The name of the slice of ``disk`` in ``window``: ``adapt0-d03w01``."""
    return f"{name}-d{disk:02d}w{window:02d}"


def slice_device(name: str, disk: int, window: int) -> str:
    """The node of a slice."""
    return f"{MAPPER}{slice_name(name, disk, window)}"


def parse_slice_name(text: str) -> tuple[str, int, int] | None:
    """The volume, disk and window in the name of a slice; None for any other text."""
    match = _SLICE.fullmatch(text)
    return (match[1], int(match[2]), int(match[3])) if match else None


def inner_names(taken: Collection[str]) -> Iterator[str]:
    """Unused names for the arrays inside a volume. Raises SpecError if there are not enough."""
    for number in range(FIRST_INNER_NUMBER, 1000):
        if f"md{number}" not in taken:
            yield f"md{number}"
    raise SpecError("no md name is left for the arrays inside the volume", hint="stop other volumes first")
