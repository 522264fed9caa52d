"""The arrays that were found on a lab's disks, by what became of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.arrays.discovery import FoundArray


@dataclass(frozen=True, slots=True)
class BroughtUp:
    """The arrays found on the disks, by outcome."""

    started: tuple[FoundArray, ...] = ()
    stopped: tuple[FoundArray, ...] = ()
    """Can be started, but are left stopped."""
    refused: tuple[FoundArray, ...] = ()
    """Cannot be started; ``refusal`` of each is the reason."""
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node -> types of the signatures on it, as blkid(8) names them; only of devices that carry some."""

    @property
    def all(self) -> tuple[FoundArray, ...]:
        return (*self.started, *self.stopped, *self.refused)

    def array(self, name: str) -> FoundArray | None:
        """The array of this name, preferably one that can be started; else by its superblocks' name or its UUID."""
        by_name = next((array for array in self.all if array.name == name), None)
        return by_name or next((array for array in self.all if array.is_called(name)), None)

    def word(self, array: FoundArray) -> str:
        """The word to type for it: its name, or its UUID if the name means another array or needs shell quoting."""
        is_plain = re.fullmatch(r"[\w.:+@-]+", array.name, re.ASCII) and not array.name.startswith("-")
        return array.name if is_plain and self.array(array.name) is array else array.uuid

    def holder_of(self, node: str) -> FoundArray | None:
        """The array to which the device belongs now."""
        return next((array for array in self.all if node in array.devices), None)

    def former_holder_of(self, node: str) -> FoundArray | None:
        """The array to which the device once belonged, and whose metadata it still carries."""
        return next((array for array in self.all if node in array.former_devices), None)
