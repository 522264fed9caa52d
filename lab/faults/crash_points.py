"""Tries and judges crash points, which are the states that a power cut during a recorded history could have left.

A configuration consists of a level, a consistency policy, what md does when the power fails, and a load. Its history is
run on recorded drives. Machines then try the crash points in parallel: each state is restored to the drives, and the
array is started and compared with what md promises (promises.toml). One result per configuration is stored::

    STATE/faults/points/<id>.json

In real time, the same history never leads to the same requests twice, so a recording that shows something wrong is
stored completely, including what the drives held when it began. Its crash points can then be tried again on any
machine, whether or not its drives can record::

    STATE/faults/recordings/<id>.json
"""

from __future__ import annotations

import base64
import hashlib
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lab import __version__
from lab.arrays.levels import Level, level_with_layout
from lab.disks.attaching import DRIVES_CONTROL
from lab.errors import LabError, MachineLost, RunCancelled, SpecError, ToolMissing
from lab.faults.arrays import BLOCK_BYTES, DATA_OFFSET_BYTES, MD, NODE, BlockMap, array_spec
from lab.faults.guest.ledger import ALL, ALLOWED, EVERYTHING, FLUSHED, KINDS, Cut, Ledger, Record, chosen_cut, cut_of
from lab.faults.place import PLAYER, FaultPlace, open_place, run_program
from lab.gates.decoding import FormatVersion, Name
from lab.machine import Host, Machine, Target, TargetKind, parse_target
from lab.store import RecordFiles, stem
from lab.tomlfile import read_toml, unknown_word
from lab.units import KIB, MIB, SECTOR_BYTES

if TYPE_CHECKING:
    from lab.host.pool import ClusterCalls

CHUNK_BYTES = 16 * KIB
MEMBER_BYTES = 1 * MIB
"""Size of each member's data. The drives also have room for a partial parity log, which mdadm makes 1 MiB long."""
MEMBERS = {"raid1": 2, "raid4": 4, "raid5": 4, "raid6": 5, "raid10": 4}
LOADS = {
    "mixed": {"depth": 4, "flush": 8, "through": 16, "largest": 8, "whole": 8},
    "deep": {"depth": 16, "flush": 24, "through": 0, "largest": 4, "whole": 0},
    "careful": {"depth": 1, "flush": 2, "through": 2, "largest": 4, "whole": 4},
}
"""Name of a load -> parameters of the oracle's writer (guest/player.py)."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A consistency policy and what md promises for it; the fields are the keys of promises.toml."""

    name: str
    title: str
    levels: tuple[str, ...]
    whole: str
    degraded: str
    exempt: str
    is_refused: bool
    source: str
    has_journal: bool = False
    is_write_back: bool = False
    needs: str = ""


class CutMoment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What md is doing when the power fails."""

    name: str
    title: str


class CutCombinations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Combinations of levels, policies and moments; an empty list stands for all values."""

    levels: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()

    def covers(self, level: str, policy: str, moment: str) -> bool:
        known = ((level, self.levels), (policy, self.policies), (moment, self.moments))
        return all(not listed or word in listed for word, listed in known)


class Impossible(CutCombinations, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Combinations that md does not support."""

    why: str
    source: str


class KnownDefect(CutCombinations, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A defect in md that is described in docs/findings.md."""

    finding: str
    what: tuple[str, ...]
    """What it can spoil: ``rows`` whose copies or parity are inconsistent, ``blocks`` with a bad verdict, or the
    ``start`` of the array.
    """
    where: str
    """Where it applies.

    ``stripe``: stripes with a write that a drive could lose; ``rebuilt stripe``: such stripes below a member's recovery
    offset; ``written``: the written blocks of stripes with a write that a drive could lose; ``first rows``: blocks that
    a reshape has overwritten and that its recorded position does not cover; ``offsets differ``, ``shapes differ``:
    everywhere, but only if the superblocks differ in the data offset or in the number of members.
    """
    why: str


class Promises(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of promises.toml."""

    format_version: FormatVersion
    policy: tuple[Policy, ...]
    moment: tuple[CutMoment, ...]
    impossible: tuple[Impossible, ...]
    known: tuple[KnownDefect, ...]


@cache
def promises() -> Promises:
    """Read the promises in promises.toml."""
    return read_toml(Path(__file__).with_name("promises.toml"), Promises)


@dataclass(frozen=True, slots=True)
class CutConfiguration:
    """A level, a policy, a moment and a load."""

    level: str
    policy: Policy
    moment: str
    load: str

    @property
    def name(self) -> str:
        return f"{self.level}/{self.policy.name}/{self.moment}/{self.load}"

    @property
    def file_name(self) -> str:
        return self.name.replace("-", "").replace("/", "-")

    @property
    def raid(self) -> Level:
        return level_with_layout(self.level, None)

    @property
    def members(self) -> int:
        return MEMBERS[self.level]

    @property
    def final_members(self) -> int:
        return self.members + (self.moment == "reshape")

    @property
    def journal(self) -> int | None:
        """The number of the journal's drive; None if there is no journal."""
        return self.members if self.policy.has_journal else None

    @property
    def operations(self) -> int:
        """Number of operations of the load; a write-back journal needs more, so that some data reach the members."""
        return 240 if self.policy.is_write_back and self.moment == "idle" else 60

    @property
    def spare(self) -> int | None:
        """The number of the drive onto which a member is rebuilt, or that the reshape adds."""
        return self.members + self.policy.has_journal if self.moment in ("rebuild", "reshape") else None

    @property
    def drives(self) -> tuple[int, ...]:
        """The recorded drives: all but the removed member."""
        others = [each for each in (self.journal, self.spare) if each is not None]
        return tuple(each for each in (*range(self.members), *others) if each != self.removed)

    @property
    def removed(self) -> int | None:
        """The member that failed before the recording began."""
        return 1 if self.moment == "rebuild" else None

    @property
    def may_be_lost(self) -> tuple[int, ...]:
        """The drives of which one may also be lost in the power cut, because the level survives its loss."""
        if self.moment == "reshape":
            # Stripes of two geometries exist, and the lab does not determine which of them were being written.
            return ()
        data = tuple(each for each in self.drives if each != self.journal)
        removed = self.removed
        if removed is None:
            return data
        survives = self.raid.survives
        return tuple(each for each in data if each == self.spare or survives(frozenset({removed, each}), self.members))

    def slot(self, drive: int) -> int:
        """Return the slot of a member's drive; a spare takes the slot of the removed member."""
        return self.removed if drive == self.spare and self.removed is not None else drive

    @property
    def map(self) -> BlockMap:
        """The layout of the blocks before any reshape."""
        return BlockMap(self.raid, self.members, MEMBER_BYTES, CHUNK_BYTES)

    @property
    def final_map(self) -> BlockMap:
        """The layout that is compared on the members at the end."""
        return BlockMap(self.raid, self.final_members, MEMBER_BYTES, CHUNK_BYTES)

    @property
    def mix(self) -> dict[str, int]:
        stripe = self.raid.full_stripe_bytes(self.members, CHUNK_BYTES) // BLOCK_BYTES
        return {"first": 0, "count": self.map.blocks, "stripe": stripe, **LOADS[self.load]}

    def creation(self, nodes: tuple[str, ...]) -> list[str]:
        return list(
            array_spec(
                self.level,
                nodes[: self.members],
                self.policy.name,
                size_bytes=MEMBER_BYTES,
                chunk_bytes=CHUNK_BYTES,
                journal_device=nodes[self.journal] if self.journal is not None else None,
                assume_clean=self.moment != "first-sync",
                forces_resync=self.moment == "first-sync",
            ).create_argv
        )


def impossible(level: str, policy: str, moment: str) -> Impossible | None:
    """Return why md does not support a combination, or None if it does."""
    return next((each for each in promises().impossible if each.covers(level, policy, moment)), None)


def all_configurations() -> tuple[CutConfiguration, ...]:
    """Return every supported combination: idle RAID 1 and 5 with each load, and all others with the mixed load."""
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
    """Return the configuration with this name.

    Raises SpecError if there is none; the hint gives the nearest name, or says why md does not support the combination.
    """
    known = {each.name: each for each in all_configurations()}
    if name in known:
        return known[name]
    error = unknown_word("configuration", name, known)
    level, policy, moment = [*name.split("/"), "", ""][:3] if name.count("/") else ("", "", "")
    if level and (reason := impossible(level, policy, moment)):
        error.hint = f"{reason.why} ({reason.source})"
    raise error


def steps_of(configuration: CutConfiguration, nodes: tuple[str, ...], operations: int) -> list[list[Any]]:
    """Return the steps of the history that is recorded."""
    drives, steps = list(configuration.drives), list[list[Any]]()
    if configuration.journal is not None:
        # md of Linux 6.1 and 7.2 may hang when it stops an array whose journal supports discards.
        journal = nodes[configuration.journal].rpartition("/")[2]
        steps.append(["write", f"/sys/block/{journal}/queue/discard_max_bytes", "0"])
    steps.append(["run", configuration.creation(nodes)])
    if configuration.policy.is_write_back:
        steps.append(["write", f"{MD}/journal_mode", "write-back"])
    held = configuration.moment in ("first-sync", "rebuild", "check", "reshape")
    if configuration.moment == "first-sync":
        steps.append(["write", f"{MD}/sync_max", "0"])
    steps += [["open", NODE, configuration.mix], ["fill"], ["pause", 0.5]]
    if configuration.removed is not None and configuration.spare is not None:
        removed, new = nodes[configuration.removed], nodes[configuration.spare]
        steps += [["run", ["mdadm", NODE, "--fail", removed, "--remove", removed]], ["write", f"{MD}/sync_max", "0"]]
        steps += [["run", ["mdadm", NODE, "--add", new]], ["until", f"{MD}/sync_action", ["recover"], 10]]
        # Wait until the rebuild has stopped at its limit, because a drive with requests in flight cannot be recorded.
        steps.append(["pause", 0.5])
    if configuration.moment == "check":
        steps += [["write", f"{MD}/sync_max", "0"], ["write", f"{MD}/sync_action", "check"]]
    if configuration.moment == "reshape" and configuration.spare is not None:
        steps += [["run", ["mdadm", NODE, "--add", nodes[configuration.spare]]], ["pause", 0.5]]
    steps.append(["record", drives])
    if configuration.moment == "reshape":
        grow = ["mdadm", "--grow", NODE, f"--raid-devices={configuration.final_members}"]
        steps += [["write", f"{MD}/sync_speed_max", "400"], ["run", grow], ["pause", 0.2]]
    elif held:
        # Sync in windows of 128 KiB with a wait after each, so that the load makes progress in between (md_do_sync() in
        # drivers/md/md.c).
        steps += [["write", f"{MD}/sync_speed_max", "300"], ["write", f"{MD}/sync_speed_min", "300"]]
        steps.append(["write", f"{MD}/sync_max", "max"])
    for _ in range(8) if held else ():
        steps += [["advance", max(1, operations // 8)], ["pause", 0.4]]
    steps += [] if held else [["advance", operations]]
    steps += [["still", drives], ["check"], ["state"], ["close"], ["run", ["mdadm", "--stop", NODE]]]
    return steps


RECORDING_FORMAT = 1


class DriveImages(msgspec.Struct, frozen=True, kw_only=True):
    """The data that are needed, besides the record, to compute the drives' states; all are compressed with gzip."""

    data: bytes
    """The data of the recorded writes, as in /dev/lab-record-data."""
    bases: dict[str, bytes]
    """Number of a drive -> what it held when the recording began."""

    def job(self, record: bytes) -> dict[str, Any]:
        """Return these data and the record in base64, as programs on machines expect them (guest/player.py)."""
        return {**msgspec.to_builtins(self), "record": msgspec.to_builtins(record)}


class StoredRecording(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a recording's file."""

    format_version: FormatVersion = RECORDING_FORMAT
    id: Name
    target: str
    configuration: str
    seed: str
    cuts: tuple[str, ...]
    """The crash points that showed something wrong."""
    events: list[list[Any]]
    record: bytes
    images: DriveImages


def images_of(place: FaultPlace, drives: Sequence[int]) -> DriveImages:
    """Read the images from drives that have been recorded. Afterwards, each drive holds its base again."""

    def packed(command: str) -> bytes:
        return base64.b64decode(place.lab.machine.run(("sh", "-c", f"{command} | gzip -1nc | base64 -w0")).stdout)

    data, bases = packed("cat /dev/lab-record-data"), {}
    for drive in drives:
        place.lab.machine.write(DRIVES_CONTROL, f"restore {drive}")
        bases[str(drive)] = packed(f"dd if={place.nodes[drive]} bs=1M iflag=direct status=none")
    return DriveImages(data=data, bases=bases)


MOST_TRIED_BY_ALL = 4
"""If a moment has at most this many open writes, every subset of them is tried."""


@dataclass(frozen=True)
class DriveRecording:
    """A recorded history; ``events`` are the ledger's."""

    configuration: CutConfiguration
    seed: str
    events: list[list[Any]]
    encoded: bytes
    """The record as the driver returned it."""
    images: DriveImages | None = None
    """Present only in real time, where the history cannot be recorded again."""

    @cached_property
    def record(self) -> Record:
        return Record(self.encoded)

    @property
    def fingerprint(self) -> str:
        """A SHA-256 digest of the record and the ledger; in virtual time it is the same on every machine."""
        return hashlib.sha256(self.encoded + repr(self.events).encode()).hexdigest()

    def cuts(self, count: int | None) -> list[Cut]:
        """Return ``count`` crash points chosen by the seed, or all crash points if it is None.

        If the count is None, a moment with few open writes has a crash point for every subset of them. Any other moment
        has crash points for none of its open writes, those that have ended, all of them, and some other subsets. Each
        subset is combined with all members present, and with the loss of each member that may be lost.
        """
        if count is None:
            return list(self._every_cut())
        chance = random.Random(f"cuts:{self.seed}:{self.configuration.name}")
        moments = self.record.moments()
        losses = [(), *((drive,) for drive in self.configuration.may_be_lost)]
        found = []
        for _ in range(count):
            at, kind = chance.choice(moments), chance.choice(KINDS)
            units = chance.choice((1, 8))
            found.append(chosen_cut(self.record, at, kind, chance, chance.choice(losses), units))
        return found

    def require(self, cut: Cut) -> None:
        """Raise SpecError unless the cut is a crash point of this recording."""
        moments = self.record.moments()
        wrong = "" if moments and moments[0] <= cut.at <= moments[-1] else f"it has no event {cut.at}"
        counts: dict[int, int] = {}
        for drive, indices in cut.retained.items():
            open_ = {each.index: each.count for each in self.record.split(drive, cut.at)[1]}
            counts |= open_
            for index in indices:
                if index not in open_:
                    wrong = f"after event {cut.at} drive {drive} has no open write {index}"
        for index, (first, last) in cut.torn.items():
            if not 0 <= first <= last < counts.get(index, 0):
                wrong = f"write {index} has no sectors {first} to {last}"
        if len(cut.missing) > 1 or not set(cut.missing) <= set(self.configuration.may_be_lost):
            wrong = f"drives {', '.join(map(str, cut.missing))} may not be lost in it"
        if wrong:
            raise SpecError(
                f"'{cut.word()[:60]}' is not a crash point of this recording: {wrong}",
                hint="use the same --seed, --operations and kernel as the run that printed it; in real time, use "
                "--recording",
            )

    def _every_cut(self) -> Iterator[Cut]:
        chance = random.Random(self.seed)
        for at in self.record.moments():
            open_ = [each for drive in self.record.drives for each in self.record.split(drive, at)[1]]
            if len(open_) <= MOST_TRIED_BY_ALL:
                subsets = (chosen for size in range(len(open_) + 1) for chosen in combinations(open_, size))
                choices = [
                    {drive: [each.index for each in chosen if each.drive == drive] for drive in self.record.drives}
                    for chosen in subsets
                ]
            else:
                choices = [chosen_cut(self.record, at, kind, chance).retained for kind in (ALL, FLUSHED, EVERYTHING)]
                choices += [chosen_cut(self.record, at, kind, chance).retained for kind in KINDS[3:5] for _ in range(4)]
            for each in choices:
                yield Cut(at, each, {})
                for drive in self.configuration.may_be_lost:
                    yield Cut(at, each, {}, (drive,))


def make_recording(
    place: FaultPlace, configuration: CutConfiguration, seed: str, *, operations: int | None = None
) -> DriveRecording:
    """Run the configuration's history on blank drives, and return the recording. Raises LabError if a step fails."""
    steps = steps_of(configuration, place.nodes, operations or configuration.operations)
    events: list[list[Any]] = []
    job = {"seed": seed, "steps": steps, "geometry": configuration.final_map.geometry(), "wants_ledger": True}
    for seen in run_program(place.lab.machine, PLAYER, {"histories": [job]}):
        if "end" in seen:
            events = seen["ledger"]
        elif (reason := went_wrong(seen)) is not None:
            raise LabError(
                f"{configuration.name} could not be recorded: step {seen['step']} ({steps[seen['step']]}): {reason}",
                hint="'raidlab fault points --list' shows which configurations can be recorded",
            )
    encoded = place.lab.machine.run(("base64", "-w0", "/dev/lab-record")).stdout
    images = None if place.lab.machine.facts.is_virtual_time else images_of(place, configuration.drives)
    return DriveRecording(configuration, seed, events, base64.b64decode(encoded), images)


def _recording_files(host: Host) -> RecordFiles[StoredRecording]:
    root = host.state.root / "faults" / "recordings"
    return RecordFiles(root, "recording", StoredRecording, state_root=host.state.root)


def store_recording(host: Host, target: str, recording: DriveRecording, cuts: Sequence[str]) -> StoredRecording:
    """Store a recording made on this target, with its images. Raises LabError if the state folder cannot be used."""
    images = recording.images
    assert images
    return _recording_files(host).add(
        f"{stem(host.clock.utc_now())}{recording.configuration.file_name}",
        lambda record_id: StoredRecording(
            id=record_id,
            target=target,
            configuration=recording.configuration.name,
            seed=recording.seed,
            cuts=tuple(cuts),
            events=recording.events,
            record=recording.encoded,
            images=images,
        ),
    )


def find_recording(host: Host, word: str) -> StoredRecording:
    """Return the stored recording with this id.

    Raises SpecError, which suggests the nearest id, if there is no such recording, and LabError if its format is not
    supported.
    """
    known = {record_id: each for record_id, each in _recording_files(host).read() if each.id == record_id}
    if word not in known:
        raise unknown_word("recording", word, known)
    found = known[word]
    if found.format_version != RECORDING_FORMAT:
        raise LabError(
            f"the recording '{word}' has format {found.format_version}, but this raidlab reads {RECORDING_FORMAT}",
            hint="read it with the raidlab version that made it",
        )
    return found


def recording_of(stored: StoredRecording) -> DriveRecording:
    """Convert a stored recording so that its crash points can be tried again.

    Raises SpecError if this version does not know its configuration.
    """
    configuration = find_configuration(stored.configuration)
    return DriveRecording(configuration, stored.seed, stored.events, stored.record, stored.images)


def went_wrong(seen: dict[str, Any]) -> str | None:
    """Return why a step makes the recording invalid, or None if it does not."""
    if "broke" in seen:
        return str(seen["broke"])
    if seen["kind"] == "run" and seen["status"] != 0:
        return f"status {seen['status']}: {seen['output'].strip()[-300:]}"
    if seen.get("failures"):
        return f"{seen['failures']} writes failed"
    if seen.get("bad"):
        return f"the running array returns wrong data: {seen['bad'][:3]}"
    return None


def judge_points(
    place: FaultPlace,
    recording: DriveRecording,
    cuts: list[Cut],
    *,
    by_mdadm: bool = False,
    images: DriveImages | None = None,
) -> Iterator[dict[str, Any]]:
    """Try the cuts in order, and yield a document of guest/player.py for each.

    Without ``images`` the machine's drives must still hold the recording.
    """
    configuration = recording.configuration
    job = {
        "seed": recording.seed,
        "ledger": recording.events,
        "members": {drive: place.nodes[drive] for drive in configuration.drives},
        "geometry": configuration.final_map.geometry(),
        "by_mdadm": by_mdadm,
        # A read at the current position of a reshape spins until the reshape continues, and in virtual time no other
        # task would run meanwhile (raid5_make_request() in drivers/md/raid5.c).
        "looks_first": configuration.moment != "reshape",
        "tells_labels": configuration.moment in ("rebuild", "reshape"),
        "cuts": [cut.word() for cut in cuts],
        "images": images.job(recording.encoded) if images else None,
    }
    for seen in run_program(place.lab.machine, PLAYER, job):
        if "cut" in seen:
            yield seen


_BLOCKS_PER_CHUNK = CHUNK_BYTES // BLOCK_BYTES


class PointJudgement(StrEnum):
    """The judgement of one crash point."""

    KEPT = "kept"
    MORE = "more than promised"
    """Nothing was promised for some blocks, but they are correct."""
    EXEMPT = "lost as the promise allows"
    """Wrong or unreadable data where the promise makes an exception, such as the write hole."""
    KNOWN = "a known defect of md"
    """A promise is broken in exactly the way that docs/findings.md describes."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class PointVerdict:
    """One crash point and its judgement; ``reasons`` describe what was found."""

    cut: str
    judgement: PointJudgement
    reasons: tuple[str, ...]
    seen: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Excuse:
    """The blocks and rows whose differences a known defect explains at one cut."""

    defect: KnownDefect
    blocks: set[int]
    rows: set[int]
    is_start: bool
    """Whether md may refuse to start the array, even if forced."""


@dataclass
class Tally:
    """The counts of a configuration's crash points."""

    points: int = 0
    judgements: Counter[PointJudgement] = field(default_factory=Counter)
    refused: int = 0
    broken: list[PointVerdict] = field(default_factory=list)

    def add(self, verdict: PointVerdict) -> None:
        self.points += 1
        self.judgements[verdict.judgement] += 1
        self.refused += "refused" in verdict.seen
        if verdict.judgement is PointJudgement.BROKEN:
            self.broken.append(verdict)


class Judge:
    """Judges what was found at the cuts of one recording."""

    def __init__(self, recording: DriveRecording) -> None:
        self.recording = recording
        self.configuration: CutConfiguration = recording.configuration
        self.ledger = Ledger(recording.events)
        combination = (self.configuration.level, self.configuration.policy.name, self.configuration.moment)
        self._final_map = self.configuration.final_map
        self._known_defects = [each for each in promises().known if each.covers(*combination)]

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Block -> (slot, page of the member's data), before any reshape; for levels with parity only."""
        found = self.configuration.map
        return {block: found.places(block)[-1] for block in range(found.blocks)}

    def verdict(self, seen: Mapping[str, Any]) -> PointVerdict:
        cut = cut_of(seen["cut"])
        if "broke" in seen:
            return PointVerdict(seen["cut"], PointJudgement.BROKEN, (f"could not be tried: {seen['broke']}",), seen)
        exempt, excuses = self._exempt(cut), [*self._excuses(cut, seen)]
        reasons = []
        if "dead" in seen:
            reasons.append(f"could not be started, even when forced: {seen['dead']}")
        elif "refused" in seen and not (self.configuration.policy.is_refused and self._lacks_a_member(cut)):
            # md may refuse an array that is dirty and degraded (md(4), start_dirty_degraded).
            reasons.append(f"was refused: {seen['refused']}")
        used = [each for each in excuses if reasons and each.is_start]
        reasons = [] if used else reasons
        was_exempt = False
        for stage in ("started", "settled"):
            checked = seen.get(stage, {})
            wrong = [each for each in checked.get("bad", ()) if each[0] not in exempt]
            bad = sum(count for word, count in checked.get("verdicts", {}).items() if word not in ALLOWED)
            was_exempt = was_exempt or len(wrong) < bad
            rows = list(checked.get("wrong_rows", ()))
            for each in excuses:
                if any(one[0] in each.blocks for one in wrong) or any(row in each.rows for row in rows):
                    used.append(each)
                    wrong = [one for one in wrong if one[0] not in each.blocks]
                    rows = [row for row in rows if row not in each.rows]
            reasons += [f"{stage}: block {b} is {v} ({f}; allowed {a})" for b, v, f, a in wrong[:4]]
            if rows:
                reasons.append(f"{stage}: parity or copies do not match in rows {rows[:8]}")
        if seen.get("idle") is False:
            reasons.append("md did not become idle")
        if reasons:
            return PointVerdict(seen["cut"], PointJudgement.BROKEN, tuple(reasons), seen)
        if used:
            why = dict.fromkeys(f"{each.defect.why} (docs/findings.md, {each.defect.finding})" for each in used)
            return PointVerdict(seen["cut"], PointJudgement.KNOWN, tuple(why), seen)
        if was_exempt:
            return PointVerdict(seen["cut"], PointJudgement.EXEMPT, (), seen)
        return PointVerdict(seen["cut"], PointJudgement.MORE if exempt else PointJudgement.KEPT, (), seen)

    def _excuses(self, cut: Cut, seen: Mapping[str, Any]) -> Iterator[Excuse]:
        """Yield what each known defect of this configuration explains at this cut."""
        labels = seen.get("labels", ())
        for defect in self._known_defects:
            pages = {page for _, page in self._places(cut)}
            rows = self._final_map.rows(pages, (), ())
            blocks = {block for block, (_, page) in self.places.items() if page in pages}
            is_start = "start" in defect.what
            match defect.where:
                case "written":
                    written = self._places(cut, only_open=False)
                    blocks = {block for block in blocks if self.places[block] in written}
                case "rebuilt stripe":
                    checkpoint = max((each["recovery_offset"] for each in labels), default=0)
                    rebuilt = [page for page in pages if page * BLOCK_BYTES < checkpoint * SECTOR_BYTES]
                    rows = self._final_map.rows(rebuilt, (), ())
                case "first rows":
                    blocks = self._overwritten(cut, labels)
                case "offsets differ":
                    if len({each["data_offset"] for each in labels}) < 2:
                        continue
                    blocks, rows = set(self.places), set(range(self._final_map.row_count))
                case "shapes differ":
                    is_start = len({each["raid_disks"] for each in labels}) > 1
            what = defect.what
            yield Excuse(defect, blocks if "blocks" in what else set(), rows if "rows" in what else set(), is_start)

    def _overwritten(self, cut: Cut, labels: Sequence[Mapping[str, Any]]) -> set[int]:
        """Return the blocks that a reshape may have overwritten but will read again when it continues after the cut.

        These are the written blocks from its recorded position up to the point at which it reads so far ahead of its
        writes that it records its position before it overwrites those data (reshape_request() in drivers/md/raid5.c).
        """
        if not labels or labels[0]["reshape_position"] is None:
            return set()
        raid, before, after = self.configuration.raid, self.configuration.members, self.configuration.final_members
        few, many = (members - raid.parity_members for members in (before, after))
        first = labels[0]["reshape_position"] * SECTOR_BYTES // BLOCK_BYTES
        end = 2 * _BLOCKS_PER_CHUNK * few * many // (many - few)
        written = self._places(cut, only_open=False)
        return {block for block, place in self.places.items() if first <= block < end and place in written}

    def _lacks_a_member(self, cut: Cut) -> bool:
        """Whether a member is missing at a level with parity."""
        is_degraded = bool(cut.missing) or self.configuration.removed is not None
        return self.configuration.map.has_parity and is_degraded

    def _exempt(self, cut: Cut) -> frozenset[int]:
        """Return the blocks for which nothing is promised at this cut."""
        configuration = self.configuration
        if not self._lacks_a_member(cut) or configuration.policy.exempt == "none":
            return frozenset()
        lost = {configuration.slot(each) for each in cut.missing}
        if configuration.removed is not None:
            lost.add(configuration.removed)
        if configuration.moment == "first-sync":
            # The first resync has not yet written parity beyond its position.
            return frozenset(block for block, (slot, _) in self.places.items() if slot in lost)
        written = self._written_blocks(cut)
        if configuration.policy.exempt == "written":
            return frozenset(block for block in written if self.places[block][0] in lost)
        pages = {self.places[block][1] for block in written} | {page for _, page in self._places(cut)}
        return frozenset(block for block, (_, page) in self.places.items() if page in pages)

    def _written_blocks(self, cut: Cut) -> set[int]:
        """Return the blocks with a write that was not certain to be on the media."""
        event = self.recording.record.ledger_event(cut.at)
        allowed = self.ledger.allowed(event, is_power_cut=True)
        return {block for block, generations in allowed.items() if len(generations) > 1 and block in self.places}

    def _places(self, cut: Cut, *, only_open: bool = True) -> set[tuple[int, int]]:
        """Return (slot, page of the member's data) of all writes, or only of those that a drive could lose."""
        places: set[tuple[int, int]] = set()
        for drive in self.recording.record.drives:
            if drive == self.configuration.journal:
                continue
            slot = self.configuration.slot(drive)
            sure, open_ = self.recording.record.split(drive, cut.at)
            for each in open_ if only_open else (*sure, *open_):
                start = each.sector * SECTOR_BYTES - DATA_OFFSET_BYTES
                end = start + each.count * SECTOR_BYTES
                pages = range(max(0, start) // BLOCK_BYTES, -(-end // BLOCK_BYTES)) if end > 0 else ()
                places.update((slot, page) for page in pages)
        return places


ANSWER_SECONDS = 10.0
MACHINES = 2
"""Number of machines that run in parallel on this computer."""


@dataclass(frozen=True, slots=True)
class Explored:
    """The result for a configuration whose crash points were tried."""

    configuration: CutConfiguration
    seed: str
    fingerprint: str
    """The fingerprint of the recording; in virtual time, it is the same on every machine."""
    tally: Tally
    seconds: float
    """Duration in seconds, by this computer's clock."""
    error: LabError | None = None
    """Why the configuration could not be tried, or not completely."""
    last: str = ""
    """The crash point that was being tried when the error occurred."""
    recording: str = ""
    """The id of the stored recording, if there is one."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """How configurations are tried, and where."""

    target: Target
    host: Host
    points: int | None
    """The number of crash points of a configuration; None means all, which is feasible only for a short recording."""
    operations: int | None = None
    on_point: Callable[[PointVerdict], None] = lambda _: None
    is_stopped: Callable[[], bool] = lambda: False
    on_notice: Callable[[str], None] = lambda _: None
    on_machine: Callable[[Machine], None] = lambda _: None
    calls: ClusterCalls | None = None
    """If given, the configurations are tried on a cluster's workers, and the callbacks are not called."""

    def store_one(self, configuration: CutConfiguration, seed: str) -> Explored:
        """Try a configuration, and store the result.

        Raises RunCancelled if ``is_stopped`` returned True, and LabError if no machine can be opened or the machine is
        lost. In these cases, only a recording that shows something wrong is stored.
        """
        explored = self.one(configuration, seed)
        if self.is_stopped():
            raise RunCancelled("cancelled")
        if explored.error:
            raise explored.error
        store_points(self.host, explored)
        return explored

    def one(self, configuration: CutConfiguration, seed: str, machine: _MachineHolder | None = None) -> Explored:
        """Try a configuration, on a separate machine unless ``machine`` is given.

        An error, such as the loss of the machine, affects only this configuration and is part of the result.
        """
        machine = machine or _MachineHolder(self, stays_open=False)
        began = time.monotonic()
        try:
            if self.calls:
                asked = (configuration.name, seed, self.points, self.operations, str(self.target))
                return self.calls(explored_on_worker, *asked)
            with machine.place() as place:
                return self.explore(place, configuration, seed)
        except LabError as error:
            return Explored(configuration, seed, "", Tally(), time.monotonic() - began, error)

    def explore(self, place: FaultPlace, configuration: CutConfiguration, seed: str) -> Explored:
        """Record a configuration on an open machine, and try its crash points.

        If the machine is lost, the result contains the points that were tried before. Raises LabError if recording
        fails.
        """
        started, tally = time.monotonic(), Tally()
        recording = make_recording(place, configuration, seed, operations=self.operations)
        judge, cuts, failure = Judge(recording), recording.cuts(self.points), None
        try:
            for seen in judge_points(place, recording, cuts):
                verdict = judge.verdict(seen)
                tally.add(verdict)
                self.on_point(verdict)
                if self.is_stopped():
                    break
        except MachineLost as error:
            failure = error
        last = cuts[tally.points].word() if failure and tally.points < len(cuts) else ""
        shown, stored = [*(each.cut for each in tally.broken), *([last] if last else [])], ""
        if shown and recording.images:
            stored = store_recording(place.lab.host, place.lab.machine.facts.target, recording, shown).id
        seconds = time.monotonic() - started
        return Explored(configuration, seed, recording.fingerprint, tally, seconds, failure, last, stored)


class _MachineHolder:
    """A machine, which stays open for the next configuration if ``stays_open``.

    In virtual time, only a newly started machine makes the same recording each time.
    """

    def __init__(self, exploration: Exploration, *, stays_open: bool) -> None:
        self._exploration, self._stays_open = exploration, stays_open
        self._open = ExitStack()
        self._place: FaultPlace | None = None

    @contextmanager
    def place(self) -> Iterator[FaultPlace]:
        """Provide the machine with blank drives; it is closed if the context raises an error or the machine is lost."""
        try:
            if self._place is None:
                asked = self._exploration
                opened = open_place(asked.target, asked.host, on_notice=asked.on_notice)
                self._place = self._open.enter_context(opened)
                asked.on_machine(self._place.lab.machine)
            else:
                self._place.blank()
            yield self._place
        except BaseException:
            self.close()
            raise
        if not self._stays_open or not self._place.lab.machine.is_answering(ANSWER_SECONDS):
            self.close()

    def close(self) -> None:
        self._place = None
        self._open.close()


def explored_on_worker(
    configuration: str, seed: str, points: int | None, operations: int | None, target: str
) -> Explored:
    """Try one configuration on a cluster's worker, as requested by another computer."""
    exploration = Exploration(parse_target(target), Host.real("raidlab fault points"), points, operations)
    found = exploration.one(find_configuration(configuration), seed)
    if found.error and not isinstance(found.error, MachineLost):
        # Not every subclass of LabError can be pickled and unpickled.
        return replace(found, error=LabError(found.error.message, hint=found.error.hint))
    return found


def explore_all(
    exploration: Exploration,
    work: Sequence[tuple[CutConfiguration, str]],
    *,
    machines: int = MACHINES,
    on_rest: Callable[[Explored], object] = lambda _: None,
) -> Generator[Explored, None, None]:
    """Yield the result of each configuration and seed, in the order in which they finish.

    ``on_point`` is called on the machines' threads. Closing the iterator stops all work; ``on_rest`` then receives the
    partial results. Raises ToolMissing if this computer cannot start the machine.
    """
    missing: list[ToolMissing] = []
    todo: queue.SimpleQueue[tuple[CutConfiguration, str]] = queue.SimpleQueue()
    done: queue.SimpleQueue[Explored | None] = queue.SimpleQueue()
    ended = threading.Event()
    for each in work:
        todo.put(each)
    stoppable = replace(exploration, is_stopped=lambda: ended.is_set() or exploration.is_stopped())

    def work_on() -> None:
        machine = _MachineHolder(exploration, stays_open=exploration.target.kind is not TargetKind.UML)
        try:
            while not stoppable.is_stopped():
                found = stoppable.one(*todo.get_nowait(), machine)
                if isinstance(found.error, ToolMissing):
                    missing.append(found.error)
                    ended.set()
                else:
                    done.put(found)
        except queue.Empty:
            pass
        finally:
            try:
                machine.close()
            finally:
                done.put(None)

    threads = [threading.Thread(target=work_on, name=f"crash points {number}") for number in range(machines)]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            found = done.get()
            if found is None:
                left -= 1
            else:
                yield found
    finally:
        ended.set()
        while left:
            if (found := done.get()) is None:
                left -= 1
            else:
                on_rest(found)
    if missing:
        raise missing[0]


FORMAT_VERSION = 1


class StoredPoints(msgspec.Struct, frozen=True, kw_only=True):
    """The stored result of a configuration."""

    format_version: FormatVersion = FORMAT_VERSION
    id: Name
    created_utc: str
    """When the last crash point was tried."""
    configuration: str
    seed: str
    points: int
    judgements: dict[PointJudgement, int]
    refused: int
    """Number of crash points at which md started the array only by force."""
    is_whole: bool
    """Whether all requested crash points were tried."""
    raidlab: str = __version__


def _files(host: Host) -> RecordFiles[StoredPoints]:
    root = host.state.root / "faults" / "points"
    return RecordFiles(root, "outcome of crash points", StoredPoints, state_root=host.state.root)


def store_points(host: Host, explored: Explored) -> StoredPoints:
    """Store the result of a configuration. Raises LabError if the state folder cannot be used."""
    tally, now = explored.tally, host.clock.utc_now()
    return _files(host).add(
        f"{stem(now)}{explored.configuration.file_name}",
        lambda record_id: StoredPoints(
            id=record_id,
            created_utc=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            configuration=explored.configuration.name,
            seed=explored.seed,
            points=tally.points,
            judgements={word: tally.judgements[word] for word in PointJudgement},
            refused=tally.refused,
            is_whole=explored.error is None,
        ),
    )


def stored_points(host: Host) -> tuple[StoredPoints, ...]:
    """Return all readable results, newest first."""
    read = _files(host).read()
    found = [each for record_id, each in read if (each.format_version, each.id) == (FORMAT_VERSION, record_id)]
    return tuple(sorted(found, key=lambda each: (each.created_utc, each.id), reverse=True))
