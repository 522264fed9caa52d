"""Personalities of emulated drives, from personalities.toml."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from lab.tomlfile import unknown_word

# What nbdkit, the socket and the kernel's nbd driver add to each request: 0.38 to 0.45 ms at the median on the embedded
# kernel, for delays of 12 and 13 ms. Taken off the delay, so that a drive answers in the time that its table says.
TRANSPORT_MILLISECONDS = 0.4


class Personality(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A drive that answers each request after a constant time."""

    title: str
    service_milliseconds: float
    concurrent_requests: int
    is_rotational: bool = True
    """What the drive tells the kernel. md reads from the nearest head where drives rotate, else where least waits."""

    @property
    def service_seconds(self) -> float:
        """Time from a request to its answer on an idle drive."""
        return self.service_milliseconds / 1000

    @property
    def iops(self) -> float:
        """What the drive can do at best."""
        return self.concurrent_requests / self.service_seconds

    @property
    def delay_milliseconds(self) -> int:
        """The delay to ask nbdkit for, in whole milliseconds: nbdkit before 1.40 takes 12.9 for 12 without a word."""
        return max(0, round(self.service_milliseconds - TRANSPORT_MILLISECONDS))


@cache
def all_personalities() -> dict[str, Personality]:
    """Name -> personality."""
    text = Path(__file__).with_name("personalities.toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, Personality])


def find_personality(name: str) -> Personality:
    """Raises SpecError with the nearest name for an unknown one."""
    found = all_personalities().get(name)
    if found is None:
        raise unknown_word("disk personality", name, all_personalities())
    return found
