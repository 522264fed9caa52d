"""Whether two results were measured under equal conditions, and which difference may be allowed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from lab.errors import ResultError
from lab.results.record import Conditions, ResultRecord
from lab.tomlfile import unknown_word
from lab.units import human_bytes

ALL = "all"
_MEMORY_SLACK = 0.05
"""Part of the memory by which equal machines may differ."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One condition in which two results differ."""

    condition: str
    """The word that allows it."""
    sentence: str


class UnlikeRuns(ResultError):
    """Two results that must not be compared as they are; ``differences`` tells why."""

    def __init__(self, message: str, *, hint: str, differences: tuple[Difference, ...]) -> None:
        super().__init__(message, hint=hint)
        self.differences = differences


_Reader = Callable[[ResultRecord], str]


def _disks(conditions: Conditions) -> str:
    kinds: dict[str, int] = {}
    for disk in conditions.disks:
        word = f"{disk.kind} {disk.personality}".strip() + f" of {human_bytes(disk.size_bytes)}"
        kinds[word] = kinds.get(word, 0) + 1
    return ", ".join(f"{count} x {word}" for word, count in sorted(kinds.items())) or "none"


def _tunables(conditions: Conditions) -> str:
    return ", ".join(f"{path.rpartition('/')[2]}={value}" for path, value in sorted(conditions.tunables.items()))


_CONDITIONS: dict[str, tuple[tuple[str, _Reader], ...]] = {
    "experiment": (("experiment", lambda r: r.experiment), ("experiment file", lambda r: r.experiment_toml)),
    "host": (("host", lambda r: r.conditions.host_name), ("processor", lambda r: r.conditions.cpu_model)),
    "machine": (
        ("architecture", lambda r: r.conditions.architecture),
        ("kernel in a process", lambda r: "yes" if r.conditions.is_embedded else "no"),
        ("virtual time", lambda r: "yes" if r.conditions.is_virtual_time else "no"),
    ),
    "cpus": (("processors", lambda r: str(r.conditions.cpu_count)),),
    "memory": (("memory", lambda r: human_bytes(r.conditions.memory_bytes)),),
    "kernel": (("kernel", lambda r: r.conditions.kernel_release),),
    "tools": (
        ("mdadm", lambda r: r.conditions.mdadm_version),
        ("fio", lambda r: r.conditions.fio_version),
        ("nbdkit", lambda r: r.conditions.nbdkit_version),
    ),
    "disks": (("disks", lambda r: _disks(r.conditions)),),
    "tunables": (("tunables", lambda r: _tunables(r.conditions)),),
    "raidlab": (("raidlab", lambda r: r.raidlab_version),),
}
CONDITIONS = tuple(_CONDITIONS)
"""The words that allow a difference."""


def differences(first: ResultRecord, second: ResultRecord) -> tuple[Difference, ...]:
    """Every condition in which two results differ."""
    return tuple(_differences(first, second))


def _differences(first: ResultRecord, second: ResultRecord) -> Iterator[Difference]:
    for condition, readers in _CONDITIONS.items():
        for name, read in readers:
            before, after = read(first), read(second)
            if before == after or (condition == "memory" and _is_as_much_memory(first.conditions, second.conditions)):
                continue
            both = "differs" if "\n" in before + after else f"'{before}' and '{after}'"
            yield Difference(condition, f"{name}: {both}")


def _is_as_much_memory(first: Conditions, second: Conditions) -> bool:
    """What a kernel takes for itself differs by some MiB between two starts of one machine."""
    least, most = sorted((first.memory_bytes, second.memory_bytes))
    return most - least <= _MEMORY_SLACK * most


def require_alike(first: ResultRecord, second: ResultRecord, allowed: Collection[str] = ()) -> tuple[Difference, ...]:
    """The differences that were allowed.

    Raises UnlikeRuns that names every other one with the word that allows it, SpecError for an unknown word.
    """
    for word in allowed:
        if word not in (*CONDITIONS, ALL):
            raise unknown_word("condition", word, (*CONDITIONS, ALL))
    found = differences(first, second)
    if ALL in allowed:
        return found
    refused = tuple(each for each in found if each.condition not in allowed)
    if refused:
        lines = "".join(f"\n  - {each.sentence} (--allow {each.condition})" for each in refused)
        words = " ".join(f"--allow {word}" for word in dict.fromkeys(each.condition for each in refused))
        raise UnlikeRuns(
            f"{first.id} and {second.id} were not measured under equal conditions:{lines}",
            hint=f"if this difference is what you want to measure: {words}",
            differences=refused,
        )
    return found
