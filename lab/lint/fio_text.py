"""fio job files as facts. Pure. Source: fio's HOWTO, "Job file format"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_READS = {"read", "randread"}
_WRITES = {"write", "randwrite", "trim", "randtrim"}


@dataclass(frozen=True, slots=True)
class Section:
    """One job with [global] applied; an option without value is ``1``."""

    name: str
    options: Mapping[str, str]
    after_wall: bool
    """Begins only when the sections before it are over."""

    def value(self, *names: str, default: str = "") -> str:
        return next((self.options[name] for name in names if name in self.options), default)

    @property
    def direction(self) -> str:
        """``read``, ``write`` or ``mix``."""
        word = self.value("rw", "readwrite", default="read").partition(":")[0]
        return "read" if word in _READS else "write" if word in _WRITES else "mix"


def parse_fio(text: str) -> tuple[Section, ...]:
    """The jobs of a file, in order."""
    shared: dict[str, str] = {}
    found: list[tuple[str, dict[str, str]]] = []
    target = shared
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in ";#":
            continue
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1].strip()
            if name == "global":
                target = shared
            else:
                target = dict(shared)
                found.append((name, target))
            continue
        key, _, value = line.partition("=")
        target[key.strip()] = value.strip() or "1"
    walls = ("stonewall", "wait_for_previous", "wait_for")
    return tuple(Section(name, options, any(wall in options for wall in walls)) for name, options in found)
