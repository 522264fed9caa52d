"""What crash points are tried on.

Levels, how they keep their redundancy consistent, the moment of the cut, the load.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from lab.arrays.level_names import level_with_layout
from lab.arrays.levels import Level
from lab.faults.geometry import rows_of
from lab.gates.numbers import FormatVersion
from lab.tomlfile import read_toml, unknown_word
from lab.units import KIB, MIB

CHUNK_BYTES = 16 * KIB
MEMBER_BYTES = 1 * MIB
BLOCK_BYTES = 4 * KIB
DATA_OFFSET = "2M"
"""Of each member: room for a partial parity log, which mdadm makes a MiB long."""
MEMBERS = {"raid1": 2, "raid4": 4, "raid5": 4, "raid6": 5, "raid10": 4}
PARITY_LEVELS = ("raid4", "raid5", "raid6")
NODE = "/dev/md0"
LOADS = {
    "mixed": {"depth": 4, "flush": 8, "through": 16, "largest": 8, "whole": 8},
    "deep": {"depth": 16, "flush": 24, "through": 0, "largest": 4, "whole": 0},
    "careful": {"depth": 1, "flush": 2, "through": 2, "largest": 4, "whole": 4},
}
"""What the oracle's writer does meanwhile; see guest/writer.py."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an array keeps its redundancy consistent, and what md promises of that; words of promises.toml."""

    name: str
    title: str
    levels: tuple[str, ...]
    options: tuple[str, ...]
    whole: str
    degraded: str
    exempt: str
    is_refused: bool
    source: str
    has_journal: bool = False
    is_write_back: bool = False
    needs: str = ""


class CutMoment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What md does while the power fails."""

    name: str
    title: str


class Impossible(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What does not go together; an empty list stands for all."""

    why: str
    source: str
    levels: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()

    def covers(self, level: str, policy: str, moment: str) -> bool:
        return is_among((level, self.levels), (policy, self.policies), (moment, self.moments))


class KnownDefect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A defect of md that is described in docs/findings.md; an empty list stands for all."""

    finding: str
    what: tuple[str, ...]
    """``rows`` whose copies or parity do not fit, ``blocks`` with a verdict, the ``start`` of the array."""
    where: str
    """``stripe``: all of a stripe with a write that a drive might lose; ``written``: its blocks that were written;
    ``first rows``: what a reshape has overwritten and its recorded position does not cover; ``offsets differ``,
    ``shapes differ``: all, but only if superblocks differ in the data offset, or in the number of members.
    """
    why: str
    levels: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()

    def covers(self, configuration: CutConfiguration) -> bool:
        return is_among(
            (configuration.level, self.levels),
            (configuration.policy.name, self.policies),
            (configuration.moment, self.moments),
        )


def is_among(*asked: tuple[str, tuple[str, ...]]) -> bool:
    """Whether each word is in its list; an empty list has all."""
    return all(not known or word in known for word, known in asked)


class Promises(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """promises.toml."""

    format_version: FormatVersion
    policy: tuple[Policy, ...]
    moment: tuple[CutMoment, ...]
    impossible: tuple[Impossible, ...]
    known: tuple[KnownDefect, ...]


@cache
def promises() -> Promises:
    """What is written in promises.toml."""
    return read_toml(Path(__file__).with_name("promises.toml"), Promises)


@dataclass(frozen=True, slots=True)
class CutConfiguration:
    """One array at one moment under one load."""

    level: str
    policy: Policy
    moment: str
    load: str

    @property
    def name(self) -> str:
        """``raid5/ppl/rebuild/mixed``."""
        return f"{self.level}/{self.policy.name}/{self.moment}/{self.load}"

    @property
    def raid(self) -> Level:
        return level_with_layout(self.level, None)

    @property
    def members(self) -> int:
        return MEMBERS[self.level]

    @property
    def final_members(self) -> int:
        """Members of the array once what was under way is done."""
        return self.members + (self.moment == "reshape")

    @property
    def journal(self) -> int | None:
        """The number of the drive that is the journal."""
        return self.members if self.policy.has_journal else None

    @property
    def operations(self) -> int:
        """Of the load: until a write-back journal has written something out too."""
        return 240 if self.policy.is_write_back and self.moment == "idle" else 60

    @property
    def spare(self) -> int | None:
        """The number of the drive that is rebuilt on, or by which the array grows."""
        return self.members + self.policy.has_journal if self.moment in ("rebuild", "reshape") else None

    @property
    def drives(self) -> tuple[int, ...]:
        """All drives that are recorded, but for the one that was taken out before."""
        others = [each for each in (self.journal, self.spare) if each is not None]
        return tuple(each for each in (*range(self.members), *others) if each != self.removed)

    @property
    def removed(self) -> int | None:
        """The member that failed before the record began."""
        return 1 if self.moment == "rebuild" else None

    @property
    def may_be_lost(self) -> tuple[int, ...]:
        """Drives of which one may be lost with the power, since md can do without by the level's arithmetic."""
        data = [each for each in self.drives if each != self.journal]
        if self.moment == "reshape":
            # Stripes of two geometries: which of them were being written, the lab does not tell apart.
            return ()
        if self.removed is None:
            return tuple(data)
        return tuple(
            each
            for each in data
            if each == self.spare or self.raid.survives(frozenset({self.removed, each}), self.members)
        )

    def slot(self, drive: int) -> int:
        """The slot of a member's drive."""
        return self.removed if drive == self.spare and self.removed is not None else drive

    @property
    def data_blocks(self) -> int:
        """Blocks of 4 KiB of the array while it is written on."""
        return self.raid.capacity_bytes(self.members, MEMBER_BYTES, CHUNK_BYTES) // BLOCK_BYTES

    @property
    def geometry(self) -> dict[str, Any]:
        """What is compared on the members once all is done."""
        return rows_of(self.raid, None, self.final_members, MEMBER_BYTES, CHUNK_BYTES)

    @property
    def mix(self) -> dict[str, int]:
        stripe = self.raid.full_stripe_bytes(self.members, CHUNK_BYTES) // BLOCK_BYTES
        return {"first": 0, "count": self.data_blocks, "stripe": stripe, **LOADS[self.load]}

    def creation(self, nodes: tuple[str, ...]) -> list[str]:
        """Mdadm's command line."""
        chunk = [f"--chunk={CHUNK_BYTES // KIB}"] if self.raid.has_chunk else []
        journal = nodes[self.journal] if self.journal is not None else ""
        clean = ["--force"] if self.moment == "first-sync" else ["--assume-clean"]
        options = [each.format(journal=journal) for each in self.policy.options]
        return [
            *("mdadm", "--create", NODE, "--run", f"--level={self.level}", f"--raid-devices={self.members}", *chunk),
            *(f"--size={MEMBER_BYTES // KIB}", f"--data-offset={DATA_OFFSET}", *clean, *options),
            *nodes[: self.members],
        ]


def impossible(level: str, policy: str, moment: str) -> Impossible | None:
    """Why a combination cannot be, if so."""
    return next((each for each in promises().impossible if each.covers(level, policy, moment)), None)


def all_configurations() -> tuple[CutConfiguration, ...]:
    """Every possible combination, each under one load; of those on an array in sync, all loads."""
    found = []
    for policy in promises().policy:
        for level in policy.levels:
            for moment in promises().moment:
                if policy.needs or impossible(level, policy.name, moment.name):
                    continue
                loads = tuple(LOADS) if moment.name == "idle" and level in ("raid1", "raid5") else ("mixed",)
                found += [CutConfiguration(level, policy, moment.name, load) for load in loads]
    return tuple(found)


def find_configuration(name: str) -> CutConfiguration:
    """One by its name. Raises SpecError with the nearest, or with the reason why it cannot be."""
    known = {each.name: each for each in all_configurations()}
    if name in known:
        return known[name]
    error = unknown_word("configuration", name, known)
    level, policy, moment = [*name.split("/"), "", ""][:3] if name.count("/") else ("", "", "")
    if level and (reason := impossible(level, policy, moment)):
        error.hint = f"{reason.why} ({reason.source})"
    raise error


def steps_of(configuration: CutConfiguration, nodes: tuple[str, ...], operations: int) -> list[list[Any]]:
    """The history that is recorded."""
    drives, md = list(configuration.drives), "/sys/block/md0/md"
    steps: list[list[Any]] = []
    if configuration.journal is not None:
        # md of Linux 6.1 and 7.2 may stand still for ever when it stops an array whose journal takes discards.
        journal = nodes[configuration.journal].rpartition("/")[2]
        steps.append(["write", f"/sys/block/{journal}/queue/discard_max_bytes", "0"])
    steps.append(["run", configuration.creation(nodes)])
    if configuration.policy.is_write_back:
        steps.append(["write", f"{md}/journal_mode", "write-back"])
    held = configuration.moment in ("first-sync", "rebuild", "check", "reshape")
    if configuration.moment == "first-sync":
        steps.append(["write", f"{md}/sync_max", "0"])
    steps += [["open", NODE, configuration.mix], ["fill"], ["pause", 0.5]]
    if configuration.removed is not None and configuration.spare is not None:
        gone, new = nodes[configuration.removed], nodes[configuration.spare]
        steps += [["run", ["mdadm", NODE, "--fail", gone, "--remove", gone]], ["write", f"{md}/sync_max", "0"]]
        steps += [["run", ["mdadm", NODE, "--add", new]], ["until", f"{md}/sync_action", ["recover"], 10]]
        # Until it stands still at its bound: a drive that has requests under way cannot be recorded from.
        steps.append(["pause", 0.5])
    if configuration.moment == "check":
        steps += [["write", f"{md}/sync_max", "0"], ["write", f"{md}/sync_action", "check"]]
    if configuration.moment == "reshape" and configuration.spare is not None:
        steps += [["run", ["mdadm", NODE, "--add", nodes[configuration.spare]]], ["pause", 0.5]]
    steps.append(["record", drives])
    if configuration.moment == "reshape":
        grow = ["mdadm", "--grow", NODE, f"--raid-devices={configuration.final_members}"]
        steps += [["write", f"{md}/sync_speed_max", "400"], ["run", grow], ["pause", 0.2]]
    elif held:
        # In windows of 128 KiB, with a wait behind each: the load goes on between (md_do_sync() in drivers/md/md.c).
        steps += [["write", f"{md}/sync_speed_max", "300"], ["write", f"{md}/sync_speed_min", "300"]]
        steps.append(["write", f"{md}/sync_max", "max"])
    for _ in range(8) if held else ():
        steps += [["advance", max(1, operations // 8)], ["pause", 0.4]]
    steps += [] if held else [["advance", operations]]
    steps += [["still", drives], ["check"], ["state"], ["close"], ["run", ["mdadm", "--stop", NODE]]]
    return steps
