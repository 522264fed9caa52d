"""Runs campaigns of random histories, one per seed, on several machines in parallel, and judges the outcomes.

::

    STATE/faults/campaigns/<run>/campaign.json   the options of the campaign
    STATE/faults/campaigns/<run>/done.jsonl      one line per completed seed, so that a campaign can be resumed
    STATE/faults/findings/<id>/finding.json      what was found and where, and how to replay it
    STATE/faults/findings/<id>/history.json      the history
    STATE/faults/findings/<id>/commands.sh       the same history with plain mdadm, for root on any computer
    STATE/faults/findings/<id>/versions.json     kernel, mdadm, programs, raidlab
    STATE/faults/findings/<id>/seen.jsonl        the documents of the player, step by step
    STATE/faults/findings/<id>/...               kernel log, superblocks, /proc/mdstat, and the record of the drives

Histories run on a kernel with or without planted bugs, which are defects in md that campaigns must find. The planted
bugs are in a separate kernel, in which one of them at a time can be switched on at run time (planted.toml lists them;
their patches are in provision/kernel/planted). With none switched on, that kernel behaves like the usual one with
virtual time.

The folder of a finding is written under a temporary name and then renamed, so an interrupted campaign leaves either a
complete folder or none. commands.sh uses loop devices below device mapper. Only recorded drives can lose any subset of
their unflushed writes. The script's drives keep all completed writes after a power cut, as they would if only the
kernel had crashed; a comment in the script says so.

Each finding is replayed alone and shrunk. Shrinking is delta debugging (Zeller and Hildebrandt, Simplifying and
Isolating Failure-Inducing Input, 2002): parts are removed, large ones first, as long as the remainder still shows the
same kind of difference. Acts are removed first, then the writes of each load. Every step is a real replay.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from lab import __version__
from lab.errors import LabError, MachineLost, ResultError, SpecError, ToolMissing
from lab.faults.arrays import BLOCK_BYTES
from lab.faults.guest.ledger import ALL
from lab.faults.history import (
    Act,
    ActKind,
    Bounds,
    FaultHistory,
    FindingId,
    HistoryPolicy,
    PlannedStep,
    Write,
    commands,
    generated,
    job_of,
    node,
    parse_id,
    part_of,
    part_word,
    planned,
)
from lab.faults.judge import HistoryDifference, HistoryJudge
from lab.faults.place import (
    CAMPAIGN,
    DRIVES,
    LONGEST_SILENCE_SECONDS,
    FaultPlace,
    open_place,
    run_program,
    with_own_kernel,
)
from lab.gates.decoding import FormatVersion, Name, Seed, convert, read_own_json
from lab.gates.text import checked_name
from lab.host.clock import utc_second_text
from lab.machine import Host, Target, parse_target
from lab.machine.kernel_image import built_part, find_kernel
from lab.machine.programs import Change, unchanged
from lab.machine.watchdog import Watchdog
from lab.measure.job import read_conditions
from lab.store import Journal, RunFolders, stem
from lab.tomlfile import read_toml, unknown_word
from lab.units import MIB, counted

if TYPE_CHECKING:
    from lab.host.pool import ClusterCalls

PLANTED_FLAVOUR = "planted"
PLANTED_SWITCH = "/sys/module/md_mod/parameters/planted"


class PlantedBug(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planted md bug; the header of its patch describes it."""

    number: Annotated[int, msgspec.Meta(ge=1, le=99)]
    """The value that switches it on."""
    name: str
    title: str

    @property
    def patch(self) -> str:
        """Its file in provision/kernel/planted."""
        return f"{self.number:02d}-{self.name}.patch"


class _PlantedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    bug: tuple[PlantedBug, ...]


@cache
def planted_bugs() -> tuple[PlantedBug, ...]:
    """Return all planted bugs, sorted by number."""
    found = read_toml(Path(__file__).with_name("planted.toml"), _PlantedFile).bug
    return tuple(sorted(found, key=lambda bug: bug.number))


def find_planted_bug(word: str) -> PlantedBug:
    """Return the planted bug with this name or number. Raises SpecError, with the nearest name in its hint."""
    for bug in planted_bugs():
        if word in (bug.name, str(bug.number)):
            return bug
    raise unknown_word("planted bug", word, [bug.name for bug in planted_bugs()])


def on_planted_kernel(target: Target, host: Host) -> Target:
    """Return the target with the planted bugs' kernel and virtual time. Raises ToolMissing if it is not built."""
    path = built_part(PLANTED_FLAVOUR) / "linux"
    try:
        kernel = find_kernel(host.processes, host.files, virtual_time=True, chosen=str(path)).path
    except ToolMissing as error:
        reason = "the embedded kernel with planted bugs is not built, or only partly built"
        raise ToolMissing(reason, hint=f"remove {path.parent} if it exists, then run: make planted-kernel") from error
    for key, value in (("time", "virtual"), ("kernel", str(kernel))):
        if target.options.get(key) != value:
            target = target.with_option(key, value)
    return target


MACHINE_SEED = 1
"""The seed of all campaigns' machines, fixed so that a history's outcome does not depend on what else ran."""
LOST, STOOD_STILL = "machine lost", "stood still"


@dataclass(frozen=True, slots=True)
class Arena:
    """Where histories run.

    ``planted`` is the number of the planted bug that is switched on (0: none); ``change`` modifies the oracle's
    program.
    """

    target: Target
    host: Host
    planted: int = 0
    change: Change = unchanged
    is_control: bool = False
    """Whether to run on the kernel with planted bugs, but with none of them switched on."""

    @contextmanager
    def opened(self) -> Iterator[FaultPlace]:
        """Open a newly started machine with blank drives."""
        target = on_planted_kernel(self.target, self.host) if self.planted else self.target
        with open_place(target, self.host, seed=MACHINE_SEED) as place:
            if self.planted and not self.is_control:
                place.lab.machine.write(PLANTED_SWITCH, str(find_planted_bug(str(self.planted)).number))
            yield place


@dataclass(frozen=True)
class HistoryOutcome:
    """The outcome of one history; ``documents`` are the player's, each with its step."""

    history: FaultHistory
    differences: tuple[HistoryDifference, ...]
    explained: Counter[str]
    rejected: Counter[str] = field(default_factory=Counter)
    documents: tuple[tuple[PlannedStep, dict[str, Any]], ...] = ()
    is_over: bool = False
    """Whether the machine can no longer be used."""
    is_reached: bool = True
    """Whether this history was run; False if the machine became unusable during an earlier one."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(each.kind for each in self.differences)


def play(
    place: FaultPlace,
    histories: Sequence[FaultHistory],
    *,
    change: Change = unchanged,
    is_stopped: Callable[[], bool] = lambda: False,
    has_evidence: bool = False,
    **more: Any,
) -> Iterator[HistoryOutcome]:
    """Run histories one after the other in one process, and yield the outcome of each when it ends.

    If the machine is lost or hangs, that is the outcome of the current history. This outcome, like any other after
    which the machine cannot be trusted, is the last one. Once ``is_stopped`` returns True, nothing more is yielded.
    """
    plans = [planned(history, has_evidence=has_evidence) for history in histories]
    jobs = [job_of(history, plan, **more) for history, plan in zip(histories, plans, strict=True)]
    number, judge, documents = 0, HistoryJudge(histories[0]), list[tuple[PlannedStep, dict[str, Any]]]()

    def outcome(*, is_over: bool) -> HistoryOutcome:
        steps, differences = tuple(documents), tuple(judge.differences)
        return HistoryOutcome(judge.history, differences, judge.explained, judge.rejected, steps, is_over)

    with Watchdog(place.lab.machine, LONGEST_SILENCE_SECONDS) as watchdog:
        try:
            for seen in run_program(place.lab.machine, CAMPAIGN, {"histories": jobs}, change=change):
                watchdog.feed()
                if is_stopped():
                    return
                if "end" not in seen:
                    step = plans[number][seen["step"]]
                    documents.append((step, seen))
                    judge.hear(step, seen)
                    continue
                is_over = bool({each.kind for each in judge.differences} & SPOILING)
                yield outcome(is_over=is_over)
                if is_over:
                    return
                number, documents = number + 1, []
                if number < len(histories):
                    judge = HistoryJudge(histories[number])
        except LabError as error:
            if is_stopped() or number == len(histories):
                raise
            step = documents[-1][0] if documents else plans[number][0]
            is_hung = watchdog.has_closed or not isinstance(error, MachineLost)
            judge.differ(STOOD_STILL if is_hung else LOST, step, f"{error.message} after {step.step[0]}")
            yield outcome(is_over=True)


SPOILING = frozenset(
    {STOOD_STILL, LOST, "could not be played", "could not be stopped", "kernel complained", "not created"}
)
"""Kinds of differences after which the machine may be in an unknown state."""


def replayed(arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = (), **more: Any) -> HistoryOutcome:
    """Run a history on a separate machine, after the histories ``before``, and return its outcome."""
    with arena.opened() as place:
        return played_after(place, history, before, change=arena.change, **more)


def played_after(
    place: FaultPlace, history: FaultHistory, before: Sequence[FaultHistory], **more: Any
) -> HistoryOutcome:
    """Run a history after the histories ``before``, and return its outcome.

    If the machine becomes unusable during one of those, ``documents`` are the documents of that one.
    """
    outcomes = list(play(place, [*before, history], **more))
    if len(outcomes) > len(before):
        return outcomes[-1]
    return replace(unreached(history), documents=outcomes[-1].documents if outcomes else ())


def unreached(history: FaultHistory) -> HistoryOutcome:
    """Return the outcome of a run that ended before the history began, which shows nothing about the history."""
    return HistoryOutcome(history, (), Counter(), is_over=True, is_reached=False)


@dataclass(frozen=True, slots=True)
class Repeats:
    """A history that was run many times in real time, where its requests and their order differ each time."""

    outcomes: tuple[HistoryOutcome, ...]
    cpu_count: int
    kernel_release: str

    def seen(self, kind: str) -> int:
        """Return the number of runs that showed a difference of this kind, or any difference if ``kind`` is empty."""
        return sum(kind in each.kinds if kind else bool(each.differences) for each in self.outcomes)

    def verdict(self, kind: str) -> str:
        where = f"with {counted(self.cpu_count, 'CPU')} on Linux {self.kernel_release}"
        reached = sum(each.is_reached for each in self.outcomes)
        others = len(self.outcomes) - reached
        if not reached:
            return f"the history was never reached in {counted(others, 'run')} {where}"
        more = f"; {counted(others, 'more run')} did not reach the history" if others else ""
        if found := self.seen(kind):
            return f"confirmed {where}: {found} of {counted(reached, 'run')}{more}"
        return f"not seen in {counted(reached, 'run')} {where}{more}"


def repeated(
    arena: Arena,
    history: FaultHistory,
    times: int,
    before: Sequence[FaultHistory] = (),
    *,
    on_played: Callable[[int], object] = lambda _: None,
) -> Repeats:
    """Run a history this many times, each time after ``before``, on one machine as long as it remains usable."""
    outcomes: list[HistoryOutcome] = []
    cpu_count, release = 0, ""
    while len(outcomes) < times:
        with arena.opened() as place:
            facts = place.lab.machine.facts
            cpu_count, release = facts.cpu_count, facts.kernel_release
            batch = [*before, history] * (times - len(outcomes))
            for number, outcome in enumerate(play(place, batch, change=arena.change), 1):
                is_before = number % (len(before) + 1) != 0
                if not is_before or outcome.is_over:
                    outcomes.append(unreached(history) if is_before else outcome)
                    on_played(len(outcomes))
    return Repeats(tuple(outcomes), cpu_count, release)


FINDING_FORMAT = 2
FINDING_FORMATS = range(1, FINDING_FORMAT + 1)
"""Formats that can be read. In format 1, some acts have other names (``ActKind``)."""
_FINDING, _HISTORY = "finding.json", "history.json"


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of finding.json."""

    format_version: FormatVersion = FINDING_FORMAT
    id: str
    kind: str
    text: str
    """A description of the first difference of this kind."""
    title: str
    act: int
    differences: tuple[tuple[str, int, str], ...]
    """All differences: kind, index of the act, description."""
    explained: dict[str, int] = {}
    status: str = "found"
    """``found``: as the campaign found it; ``shrunk``: also shown by fewer acts and writes; ``confirmed``: replayed as
    it is; ``unsteady``: not reproducible.
    """
    shrunk_from: str = ""
    run: str = ""
    target: str = ""
    planted: int = 0
    is_virtual_time: bool = True
    operations: int = 0
    writes: int = 0
    replays: int = 0
    """Number of replays, each on a separate machine, that showed the difference."""
    created_utc: str = ""


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A finding in the store."""

    record: FindingRecord
    history: FaultHistory
    folder: Path


class FindingStore:
    """The stored findings."""

    def __init__(self, host: Host) -> None:
        self.runs = RunFolders(
            host.state.root / "faults" / "findings",
            "finding",
            (_FINDING,),
            begin_hint="search for one: raidlab fault campaign",
            list_hint="'raidlab fault findings' lists them",
            state_root=host.state.root,
        )

    def put(self, record: FindingRecord, history: FaultHistory, files: Mapping[str, bytes]) -> Path:
        """Store a finding in place of any with the same id. If this raises ResultError, the old one remains."""
        own = {
            _FINDING: msgspec.json.format(msgspec.json.encode(record), indent=1),
            _HISTORY: msgspec.json.format(msgspec.json.encode(history), indent=1),
        }
        return self.runs.put(record.id, {**files, **own}.items(), replaces=True)

    def all(self, on_damage: Callable[[str], object] = lambda _: None) -> list[StoredFinding]:
        """Return all readable findings, sorted by id; ``on_damage`` receives a message for each unreadable one."""
        found = []
        for folder in sorted(self.runs.root.glob("[!.]*")):
            try:
                finding = self._read(folder)
            except ResultError as error:
                on_damage(f"finding {folder.name} cannot be read: {error.message}")
            except OSError as error:
                on_damage(f"finding {folder.name} cannot be read: {error.strerror}")
            else:
                if finding.record.id == folder.name:
                    found.append(finding)
                else:
                    on_damage(f"finding {folder.name} cannot be read: its record belongs to a different finding")
        return found

    def find(self, word: str) -> StoredFinding | None:
        """Return the finding with this id or in this folder, or None. Raises ResultError if it is damaged."""
        folder = Path(word) if "/" in word else self.runs.root / checked_name(word, "finding", error=SpecError)
        return self._read(folder) if (folder / _FINDING).is_file() else None

    def forget(self, finding: StoredFinding) -> None:
        """Remove a finding. Raises SpecError if it is not in the store, and MachineBusy or ResultError on failure."""
        if finding.folder.parent.resolve() != self.runs.root.resolve():
            raise SpecError(f"'{finding.folder}' is not in the lab's store", hint="remove the folder yourself")
        self.runs.delete(finding.folder.name)

    def _read(self, folder: Path) -> StoredFinding:
        record = read_own_json(folder / _FINDING, FindingRecord)
        if record.format_version not in FINDING_FORMATS:
            raise ResultError(
                f"'{folder}' has format {record.format_version}, but this raidlab reads up to {FINDING_FORMAT}",
                hint="read it with the raidlab version that made it",
            )
        return StoredFinding(record, read_own_json(folder / _HISTORY, FaultHistory), folder)


_SCRIPT = Path(__file__).with_name("commands.sh.in")
"""The script of a finding; ``@name@`` stands for a value (``plain_script``)."""


def plain_script(record: FindingRecord, history: FaultHistory) -> bytes:
    """Return the contents of commands.sh."""
    shape, blocks = history.shape, history.shape.block_map().blocks
    words = [word.replace("/dev/drive", "/dev/mapper/drive") for word in shape.spec.create_argv]
    lines = [
        *(shlex.join(words), *_started(history)),
        *(f"# Write one generation of every block ({BLOCK_BYTES} bytes each).",),
        *(f"w {first} {min(64, blocks - first)}" for first in range(0, blocks, 64)),
        "flush",
    ]
    for number, act in enumerate(history.acts):
        lines += ["", f"# {number}: {act.title()}", *_lines(act, history)]
    pulled = {act.drive for act in history.acts if act.kind in (ActKind.PULL, ActKind.SLOW)}
    noise, blank = 'head -c 8M /dev/urandom >"$work/drive$drive"', 'truncate -s 8M "$work/drive$drive"'
    values = {
        "title": f"{record.kind}: {record.text}".replace("\n", " "),
        "finding_id": record.id,
        "shape": shape.title(),
        "drives": str(DRIVES),
        "last_drive": str(DRIVES - 1),
        "blocks": str(blocks),
        "fill": noise if shape.has_junk else blank,
        "started": "\n".join(f"  {line}" for line in _started(history)) or "  :",
        "acts": "\n".join(lines),
        "plugged": "\n".join(f'table {drive} "$(linear {drive})"' for drive in sorted(pulled)),
    }
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], _SCRIPT.read_text(encoding="utf-8")).encode()


def _started(history: FaultHistory) -> list[str]:
    shape, lines = history.shape, []
    if shape.sync_kib:
        lines += [f"echo {shape.sync_kib} >/sys/block/md0/md/sync_speed_{end}" for end in ("min", "max")]
    if shape.policy is HistoryPolicy.WRITE_BACK:
        lines.append("echo write-back >/sys/block/md0/md/journal_mode")
    return lines


def _lines(act: Act, history: FaultHistory) -> Iterator[str]:
    simple = {
        ActKind.SCRUB: f"echo {act.word} >/sys/block/md0/md/sync_action; idle; cat /sys/block/md0/md/mismatch_cnt",
        ActKind.PULL: f"table {act.drive} error; look",
        ActKind.PLUG_IN: f'table {act.drive} "$(linear {act.drive})"',
        ActKind.PAUSE: f"sleep {act.number / 1000}",
        ActKind.IDLE: "wait; idle; look",
        ActKind.CHECK: "look",
        ActKind.RESTART: "wait; mdadm --stop /dev/md0; start; look",
        ActKind.FORCE: "wait; mdadm --stop /dev/md0; start; look",
    }
    if act.kind is ActKind.WRITES:
        depth = history.shape.depth
        if depth > 1:
            yield f"# In raidlab, up to {depth} of these are in flight together, some until after the next step begins."
        for first, count, is_through in act.writes:
            yield f"w {first} {count}{' dsync' * is_through}" if count else "flush"
    elif act.kind is ActKind.SLOW:
        yield f'table {act.drive} "delay ${{loop[{act.drive}]}} 0 {act.number}"'
    elif act.kind is ActKind.SPOIL:
        yield from _corruption(act)
    elif act.kind is ActKind.CUT:
        yield from _power_cut(act)
    elif act.kind in simple:
        yield simple[act.kind]
    else:
        yield from map(shlex.join, commands(act, history.shape, "/dev/mapper/drive{}".format))


def _corruption(act: Act) -> Iterator[str]:
    yield "wait; idle"
    yield f"offset=$(($(cat /sys/block/md0/md/dev-dm-*/offset | head -n 1) * 512 + {act.at}))"
    yield "mdadm --stop /dev/md0"
    taken = f'dd if="$work/drive{act.drive}" bs=1 skip=$offset count={act.number} status=none'
    yield f'{taken} | tr "\\000-\\377" "\\200-\\377\\000-\\177" >"$work/spoiled"'
    yield f'dd if="$work/spoiled" of="$work/drive{act.drive}" bs=1 seek=$offset conv=notrunc status=none'
    yield f'blockdev --flushbufs "${{loop[{act.drive}]}}"; start; look'
    yield "echo check >/sys/block/md0/md/sync_action; idle; cat /sys/block/md0/md/mismatch_cnt"
    yield "echo repair >/sys/block/md0/md/sync_action; idle; look"


def _power_cut(act: Act) -> Iterator[str]:
    if act.word != ALL:
        yield f"# In raidlab, each drive also loses unflushed writes ('{act.word}') or keeps writes in flight;"
        yield "# these drives keep all completed writes."
    yield "cut"
    if act.drive >= 0:
        yield f"table {act.drive} error"
    yield "start; look"
    if not act.is_hasty:
        yield "idle; look"
    if act.drive >= 0:
        yield f'table {act.drive} "$(linear {act.drive})"'


MOST_RECORD_BYTES = 16 * MIB
"""Maximum size of the stored record of the drives, and of its data; a longer one is truncated and marked as such."""
_RECORDS = {"record.bin.gz": "/dev/lab-record", "record-data.bin.gz": "/dev/lab-record-data"}


def gathered(
    arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = ()
) -> tuple[HistoryOutcome, dict[str, bytes]]:
    """Replay a history on a separate machine, and return the outcome and the files that document it."""
    files: dict[str, bytes] = {}
    with arena.opened() as place:
        more: dict[str, Any] = {"has_evidence": True, "wants_log": True, "wants_ledger": True}
        outcome = played_after(place, history, before, change=arena.change, **more)
        if not outcome.is_over:
            files |= _from_machine(place)
    files["seen.jsonl"] = seen_lines(outcome)
    logs = [seen["log"] for _, seen in outcome.documents if "log" in seen]
    files["kernel.log"] = "\n".join(logs[-1] if logs else ["the kernel's log could not be read"]).encode()
    runs = [(step.step[1], seen) for step, seen in outcome.documents if step.step[0] == "run"]
    files["mdstat.txt"] = "\n".join(seen["output"] for argv, seen in runs if "/proc/mdstat" in argv).encode()
    return outcome, files


def seen_lines(outcome: HistoryOutcome) -> bytes:
    """Return the documents of the player, one step per line."""
    lines = [
        {"act": step.act, "for": step.purpose.value, "did": step.step, "told": seen} for step, seen in outcome.documents
    ]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()


def _from_machine(place: FaultPlace) -> dict[str, bytes]:
    """Read the superblocks, versions and the record of the drives, as far as the machine still responds."""
    machine, files = place.lab.machine, {}
    try:
        results = [machine.run(("mdadm", "--examine", node(drive)), check=False) for drive in range(DRIVES)]
        files["superblocks.txt"] = "\n".join(each.stdout + each.stderr for each in results).encode()
        conditions = msgspec.structs.asdict(read_conditions(place.lab))
        names = ("kernel_release", "mdadm_version", "architecture", "depends_on", "is_virtual_time")
        versions = {name: conditions[name] for name in names} | {"raidlab_version": __version__}
        files["versions.json"] = msgspec.json.format(msgspec.json.encode(versions), indent=1)
        for name, path in _RECORDS.items() if place.has_record else ():
            packed = machine.run(("sh", "-c", f"head -c {MOST_RECORD_BYTES} {path} | gzip -nc | base64 -w0")).stdout
            data = base64.b64decode(packed)
            if len(gzip.decompress(data)) >= MOST_RECORD_BYTES:
                files[f"{name}.cut-off"] = f"only the first {MOST_RECORD_BYTES} bytes\n".encode()
            files[name] = data
    except LabError as error:
        files["not-gathered.txt"] = f"{error.message}\n".encode()
    return files


def record_of(finding_id: FindingId, outcome: HistoryOutcome, kind: str, arena: Arena, **more: object) -> FindingRecord:
    """Return the contents of finding.json for the first difference of this kind; ``more`` are other fields."""
    history = outcome.history
    first = next(each for each in outcome.differences if each.kind == kind)
    fields = {
        "id": str(finding_id),
        "kind": kind,
        "text": first.text,
        "title": history.shape.title(),
        "act": first.act,
        "differences": [(each.kind, each.act, each.text) for each in outcome.differences],
        "explained": dict(outcome.explained),
        "target": str(arena.target),
        "planted": arena.planted,
        "is_virtual_time": arena.target.is_virtual_time,
        "operations": history.operations,
        "writes": history.writes,
        "created_utc": utc_second_text(arena.host.clock),
        **more,
    }
    return convert(fields, FindingRecord)


T = TypeVar("T")
MOST_PLAYS = 400
"""Maximum number of histories run to shrink one finding; the smallest found by then is the result."""


class Shrinker:
    """Shrinks one history; each smaller history must still show a difference of the given ``kind``."""

    def __init__(
        self,
        arena: Arena,
        kind: str,
        *,
        most_plays: int = MOST_PLAYS,
        is_stopped: Callable[[], bool] = lambda: False,
        on_progress: Callable[[FaultHistory], None] = lambda _: None,
    ) -> None:
        self.arena, self.kind, self.left = arena, kind, most_plays
        self._is_stopped, self._on_progress = is_stopped, on_progress
        self._open = ExitStack()
        self._place: FaultPlace | None = None
        self.steps: list[FaultHistory] = []
        """The histories that showed the difference so far, each smaller than the one before."""

    def shrink(self, history: FaultHistory, outcome: HistoryOutcome | None = None) -> FaultHistory:
        """Shrink a history, and return the smallest one found; ``outcome`` is the history's, if known."""
        self.steps = [history]
        with self._open:
            if outcome:
                last = next(each.act for each in outcome.differences if each.kind == self.kind)
                self._take_first([msgspec.structs.replace(history, acts=history.acts[: max(0, last) + 1])])
            while True:
                before = self.smallest
                self._reduce(self.smallest.acts, lambda acts: msgspec.structs.replace(self.smallest, acts=acts))
                for index in range(len(self.smallest.acts)):
                    if self.smallest.acts[index].kind is ActKind.WRITES:
                        self._reduce(self.smallest.acts[index].writes, partial(self._with_writes, index))
                if self.smallest == before or self.left <= 0 or self._is_stopped():
                    return self.smallest

    @property
    def smallest(self) -> FaultHistory:
        return self.steps[-1]

    def _with_writes(self, index: int, writes: tuple[Write, ...]) -> FaultHistory:
        acts = list(self.smallest.acts)
        acts[index] = msgspec.structs.replace(acts[index], writes=writes)
        return msgspec.structs.replace(self.smallest, acts=tuple(acts))

    def _reduce(self, items: Sequence[T], made: Callable[[tuple[T, ...]], FaultHistory]) -> None:
        """Remove parts of these items, from halves down to single items."""
        items = tuple(items)
        size = max(1, len(items) // 2)
        while items:
            # Each candidate lacks one part of this size, the last part first, as late items are most likely irrelevant.
            rests = [items[:start] + items[start + size :] for start in reversed(range(0, len(items), size))]
            found = self._take_first([made(rest) for rest in rests])
            if found is not None:
                items = rests[found]
                size = min(size, max(1, len(items)))
            elif size == 1:
                return
            else:
                size = max(1, size // 2)

    def _take_first(self, candidates: list[FaultHistory]) -> int | None:
        """Run the candidates until one shows the difference and becomes ``smallest``. Return its index, or None."""
        number = 0
        while number < len(candidates) and self.left > 0 and not self._is_stopped():
            for outcome in self._played(candidates[number : number + self.left]):
                self.left -= 1
                if self.kind in outcome.kinds:
                    self.steps.append(candidates[number])
                    self._on_progress(self.smallest)
                    return number
                number += 1
        return None

    def _played(self, candidates: list[FaultHistory]) -> Iterator[HistoryOutcome]:
        """Run the candidates on one machine as long as it remains usable, and yield their outcomes."""
        if self._place is None:
            self._place = self._open.enter_context(self.arena.opened())
        for outcome in play(self._place, candidates, change=self.arena.change, is_stopped=self._is_stopped):
            if outcome.is_over:
                self._open.close()
                self._place = None
            yield outcome


FORMAT_VERSION = 1


class CampaignRun(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of campaign.json."""

    format_version: FormatVersion = FORMAT_VERSION
    id: Name
    created_utc: str
    target: str
    first: Seed
    seeds: Seed
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    """Time limit in seconds; 0 means none. If ``seeds`` is 0, the number of seeds is not limited."""
    level: str = ""
    policy: str = ""
    planted: Annotated[int, msgspec.Meta(ge=0)] = 0


class SeedDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of done.jsonl: a history that was run and judged."""

    seed: int
    finding: str = ""
    explained: dict[str, int] = {}


class CampaignJournal:
    """Writes the progress of one campaign to its folder."""

    def __init__(self, folder: Path, run: CampaignRun) -> None:
        self.run = run
        # If a line is damaged, its seed is run again.
        self._journal = Journal[SeedDone](folder / "done.jsonl", SeedDone, skips_damaged=True)
        self._journal.repair()
        self.done = {each.seed: each for each in self._journal.read()}

    def add(self, line: SeedDone) -> None:
        """Store a line durably. Raises ResultError."""
        self._journal.append(line)
        self.done[line.seed] = line

    @property
    def explained(self) -> Counter[str]:
        return sum((Counter(each.explained) for each in self.done.values()), Counter[str]())

    @property
    def findings(self) -> list[str]:
        return [each.finding for each in self.done.values() if each.finding]


def campaign_runs(host: Host) -> RunFolders:
    """Return the campaigns in the state folder."""
    return RunFolders(
        host.state.root / "faults" / "campaigns",
        "campaign",
        ("campaign.json",),
        begin_hint="begin one: raidlab fault campaign",
        list_hint="use 'latest', or omit --resume to begin a new one",
        state_root=host.state.root,
    )


@contextmanager
def begun_campaign(host: Host, target: str, **asked: object) -> Iterator[CampaignJournal]:
    """Create a campaign and hold its lock for the duration of the context."""
    runs, created = campaign_runs(host), utc_second_text(host.clock)
    with runs.begin(stem(host.clock.utc_now())) as folder:
        try:
            run = convert({"id": folder.name, "created_utc": created, "target": target, **asked}, CampaignRun)
            runs.write_header(run, run.id)
            journal = CampaignJournal(folder, run)
        except BaseException:
            with suppress(LabError):
                runs.delete(folder.name, is_held=True)
            raise
        yield journal


@contextmanager
def resumed_campaign(host: Host, word: str) -> Iterator[CampaignJournal]:
    """Open a stored campaign, given its id, a prefix of it, or ``latest``. Raises ResultError if there is none."""
    runs = campaign_runs(host)
    run_id = runs.find(word, lambda ids: max(runs.headers(CampaignRun, FORMAT_VERSION), default=ids[0]))
    run = runs.good_header(run_id, CampaignRun, FORMAT_VERSION)
    with runs.held(run_id):
        yield CampaignJournal(runs.path(run_id), run)


BATCH = 20
"""Maximum number of histories run on one machine."""
WORKERS = 2
JOIN_SECONDS = 0.2
WITHOUT_PLANTED = "also shown without the planted bug"


class CampaignSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a campaign so far."""

    run: str
    seeds: int
    seconds: float
    histories_per_second: float
    explained: dict[str, int]
    said_no: dict[str, int]
    findings: tuple[FindingRecord, ...]
    found_after_seconds: float | None = None
    """Seconds from the start to the first finding."""
    is_complete: bool = True


@dataclass
class Campaign:
    """Runs a campaign until its seeds or its time run out or, with ``stops_at_first``, until the first finding."""

    journal: CampaignJournal
    arena: Arena
    notice: Callable[[str], None] = lambda _: None
    """Receives messages for the user."""
    progress: Callable[[int, int], None] = lambda _done, _seeds: None
    """Receives the number of completed seeds and the number of all seeds (0 if unlimited)."""
    workers: int = WORKERS
    shrinks: bool = True
    stops_at_first: bool = False
    most_plays: int = MOST_PLAYS
    calls: ClusterCalls | None = None
    """Runs batches of histories elsewhere; if None, they run in this process. Findings are always investigated in this
    process.
    """

    def __post_init__(self) -> None:
        run = self.journal.run
        self.bounds = Bounds(run.level, run.policy)
        self.store = FindingStore(self.arena.host)
        self.rejected: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._hunt = threading.Lock()
        seeds = range(run.first, run.first + run.seeds) if run.seeds else count(run.first)
        self._seeds: Iterator[int] = (seed for seed in seeds if seed not in self.journal.done)
        self._over, self._stopped = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._began = 0.0
        self._played = 0
        self._left: list[FindingRecord] = []
        self._found_after: float | None = None

    def run(self) -> CampaignSummary:
        """Run the campaign to its end. Raises the error that ended it early; the findings up to then remain stored."""
        self._began = time.monotonic()
        # Killed campaigns may have left incomplete findings, and findings that they were about to replace.
        self.store.runs.remove_leftovers()
        self._left = self._left_by_an_earlier_part()
        if self.stops_at_first and self.journal.findings:
            self._over.set()
        # Thread.join() is not used, because CPython 3.11 marks a running thread as ended if a signal handler raises an
        # error inside join().
        begun: list[tuple[threading.Thread, threading.Event]] = []
        try:
            for number in range(self.workers):
                is_over = threading.Event()
                thread = threading.Thread(target=self._work, args=(is_over,), name=f"raidlab-campaign-{number}")
                begun.append((thread, is_over))
                thread.start()
            for _, is_over in begun:
                while not is_over.wait(JOIN_SECONDS):
                    limit = self.journal.run.seconds
                    if limit and time.monotonic() - self._began > limit:
                        self._over.set()
        finally:
            self._stopped.set()
            for thread, is_over in begun:
                # A thread that could not be started never sets its event.
                if thread.ident is not None:
                    is_over.wait()
        if self._failure:
            raise self._failure
        return self.summary()

    def summary(self) -> CampaignSummary:
        seconds = time.monotonic() - self._began
        mine = set(self.journal.findings)
        stored = [each.record for each in self.store.all()]
        seeds = self.journal.run.seeds
        return CampaignSummary(
            run=self.journal.run.id,
            seeds=len(self.journal.done),
            seconds=round(seconds, 1),
            histories_per_second=round(self._played / seconds, 2) if seconds else 0.0,
            explained=dict(sorted(self.journal.explained.items())),
            said_no={str(word): count for word, count in sorted(self.rejected.items())},
            findings=tuple(each for each in stored if each.id in mine or each.shrunk_from in mine),
            found_after_seconds=self._found_after,
            is_complete=not seeds or len(self.journal.done) >= seeds,
        )

    def _is_over(self) -> bool:
        """Whether the campaign starts no more histories; findings already made are still investigated."""
        return self._over.is_set() or self._stopped.is_set()

    def _work(self, is_over: threading.Event) -> None:
        try:
            while not self._stopped.is_set() and (rest := self._take_left()):
                self._investigate(rest)
            while not self._is_over() and (seeds := self._next_batch()):
                for record, before in self._play_batch(seeds):
                    if not self._stopped.is_set():
                        self._investigate(record, before)
        except BaseException as error:  # the waiting thread raises it again
            self._failure = self._failure or error
            self._stopped.set()
        finally:
            is_over.set()

    def _left_by_an_earlier_part(self) -> list[FindingRecord]:
        """Return the findings that an earlier part of this campaign stored but did not investigate.

        Their seeds are recorded as done, so that no worker runs one of them during the investigation.
        """
        run = self.journal.run.id
        left = [each for each in self.store.all() if each.record.run == run and each.record.status == "found"]
        for each in left:
            if each.history.seed not in self.journal.done:
                self.journal.add(SeedDone(each.history.seed, each.record.id, dict(each.record.explained)))
        return [each.record for each in left]

    def _take_left(self) -> FindingRecord | None:
        with self._lock:
            return self._left.pop() if self._left else None

    def _next_batch(self) -> list[int]:
        """Return consecutive seeds, so that an id can identify the histories that ran before on the same machine."""
        with self._lock:
            batch: list[int] = []
            for seed in self._seeds:
                if batch and seed != batch[-1] + 1:
                    self._seeds = chain([seed], self._seeds)
                    break
                batch.append(seed)
                if len(batch) == BATCH:
                    break
            return batch

    def _play_batch(self, seeds: list[int]) -> list[tuple[FindingRecord, int]]:
        """Run these seeds, and return each finding with the number of histories that ran before it on its machine."""
        if self.calls:
            run = self.journal.run
            asked = (str(self.arena.target), run.level, run.policy, run.planted, seeds)
            played: Iterable[tuple[int, HistoryOutcome]] = self.calls(played_on_worker, *asked)
        else:
            played = played_batch(self.arena, self.bounds, seeds, self._is_over)
        return [(record, before) for before, outcome in played if (record := self._judged(outcome))]

    def _judged(self, outcome: HistoryOutcome) -> FindingRecord | None:
        """Store the result of a history. When the campaign stops at the first finding, only the first one is stored."""
        if not (self.stops_at_first and outcome.differences):
            return self._store_outcome(self._due_to_the_planted(outcome))
        with self._hunt:
            if self._over.is_set():
                return None
            record = self._store_outcome(self._due_to_the_planted(outcome))
            if record:
                self._over.set()
            return record

    def _due_to_the_planted(self, outcome: HistoryOutcome) -> HistoryOutcome:
        """Return the outcome without the differences that the history also shows while no bug is switched on."""
        if not (self.arena.planted and outcome.differences):
            return outcome
        shown = self._shown_without_planted(outcome.history)
        due = tuple(each for each in outcome.differences if each.kind not in shown)
        if len(due) == len(outcome.differences):
            return outcome
        kinds = ", ".join(sorted(outcome.kinds & shown))
        self.notice(f"seed {outcome.history.seed}: {kinds}: {WITHOUT_PLANTED}, so it does not count")
        explained = outcome.explained + Counter({WITHOUT_PLANTED: len(outcome.differences) - len(due)})
        return replace(outcome, differences=due, explained=explained)

    def _shown_without_planted(self, history: FaultHistory, earlier: Sequence[FaultHistory] = ()) -> frozenset[str]:
        """Return the kinds of differences that a history shows on the same kernel with no bug switched on."""
        return replayed(replace(self.arena, is_control=True), history, earlier).kinds

    def _store_outcome(self, outcome: HistoryOutcome) -> FindingRecord | None:
        """Store a history as done, after storing its finding if it has one."""
        seed, record = outcome.history.seed, None
        if outcome.differences:
            finding_id = FindingId(self.bounds, seed, self.arena.planted)
            kind = outcome.differences[0].kind
            record = record_of(finding_id, outcome, kind, self.arena, status="found", run=self.journal.run.id)
            self._store(record, outcome.history, {"seen.jsonl": seen_lines(outcome)})
            self.notice(f"{record.id}: {record.kind}: {record.text}")
        with self._lock:
            if record and self._found_after is None:
                self._found_after = round(time.monotonic() - self._began, 1)
            self.journal.add(SeedDone(seed, record.id if record else "", dict(outcome.explained)))
            self.rejected.update(outcome.rejected)
            self._played += 1
            self.progress(len(self.journal.done), self.journal.run.seeds)
        return record

    def _store(self, record: FindingRecord, history: FaultHistory, files: dict[str, bytes]) -> None:
        try:
            self.store.put(record, history, {**files, "commands.sh": plain_script(record, history)})
        except ResultError as error:
            raise ResultError(
                f"{error.message}; the finding {record.id} ('{record.kind}') is not stored, but can be replayed",
                hint=f"{error.hint}; then: raidlab fault replay {record.id}",
            ) from error

    def _investigate(self, record: FindingRecord, before: int = 0) -> None:
        """Replay a finding alone, shrink it, and replace it with the smallest history and all evidence."""
        whole = generated(parse_id(record.id).seed, self.bounds)
        try:
            outcome = replayed(self.arena, whole)
            earlier: list[FaultHistory] = []
            if record.kind not in outcome.kinds and before:
                earlier = [generated(seed, self.bounds) for seed in range(whole.seed - before, whole.seed)]
                outcome = replayed(self.arena, whole, earlier)
            if record.kind not in outcome.kinds:
                unsteady = msgspec.structs.replace(record, status="unsteady")
                self._store(unsteady, whole, {"seen.jsonl": seen_lines(outcome)})
                self.notice(f"{record.id}: not reproducible")
                return
            steps = [whole] if earlier or not self.shrinks else self._shrunk(record, whole, outcome)
            if not self._stopped.is_set():
                self._store_smallest(record, whole, steps, earlier)
        except LabError as error:
            if isinstance(error, ResultError) or self._stopped.is_set():
                raise
            self.notice(f"{record.id} could not be examined: {error.message}")

    def _shrunk(self, record: FindingRecord, whole: FaultHistory, outcome: HistoryOutcome) -> list[FaultHistory]:
        def report(history: FaultHistory) -> None:
            self.notice(f"{record.id}: also shown by {history.operations} operations and {history.writes} writes")

        stopped = self._stopped.is_set
        shrinker = Shrinker(self.arena, record.kind, most_plays=self.most_plays, is_stopped=stopped, on_progress=report)
        shrinker.shrink(whole, outcome)
        return shrinker.steps

    def _store_smallest(
        self, record: FindingRecord, whole: FaultHistory, steps: list[FaultHistory], earlier: list[FaultHistory]
    ) -> None:
        for history in reversed(steps):
            outcome, files = gathered(self.arena, history, earlier)
            is_shown = record.kind in outcome.kinds
            if is_shown and self.arena.planted and history != whole:
                # A shrunk history may show the same kind of difference for another reason.
                is_shown = record.kind not in self._shown_without_planted(history, earlier)
            if is_shown:
                part = part_word(whole, history) if history != whole else ""
                finding_id = FindingId(self.bounds, whole.seed, self.arena.planted, len(earlier), part)
                status = "shrunk" if part else "confirmed"
                origin = "" if str(finding_id) == record.id else record.id
                more = {"status": status, "run": record.run, "replays": 2, "shrunk_from": origin}
                final = record_of(finding_id, outcome, record.kind, self.arena, **more)
                self._store(final, history, files)
                original = self.store.find(record.id)
                # Another campaign may have found the same difference.
                if final.id != record.id and original and original.record.run == self.journal.run.id:
                    try:
                        self.store.forget(original)
                    except LabError as error:
                        self.notice(f"{record.id} remains in the store beside {final.id}: {error.message}")
                self.notice(f"stored as {final.id}: {final.operations} operations, {final.writes} writes")
                return


def played_batch(
    arena: Arena, bounds: Bounds, seeds: list[int], is_over: Callable[[], bool]
) -> Iterator[tuple[int, HistoryOutcome]]:
    """Run these seeds on as many machines as needed.

    Yield each outcome with the number of histories that ran before it on its machine.
    """
    while seeds and not is_over():
        with arena.opened() as place:
            histories, done = [generated(seed, bounds) for seed in seeds], 0
            for outcome in play(place, histories, change=arena.change, is_stopped=is_over):
                yield done, outcome
                done += 1
        if not done:
            break
        seeds = seeds[done:]


def played_on_worker(
    target: str, level: str, policy: str, planted: int, seeds: list[int]
) -> list[tuple[int, HistoryOutcome]]:
    """Run a batch on a cluster's worker, as requested by a campaign on another computer."""
    host = Host.real("raidlab fault campaign")
    arena = Arena(with_own_kernel(parse_target(target), host), host, planted)
    outcomes = played_batch(arena, Bounds(level, policy), seeds, lambda: False)
    # The documents of a history without differences are never read.
    return [(done, each if each.differences else replace(each, documents=())) for done, each in outcomes]


def history_of(finding_id: FindingId) -> tuple[FaultHistory, list[FaultHistory]]:
    """Return the history that an id denotes, and the histories that the machine runs before it."""
    whole = generated(finding_id.seed, finding_id.bounds)
    earlier = [generated(whole.seed - each, finding_id.bounds) for each in range(finding_id.before, 0, -1)]
    return (part_of(whole, finding_id.part) if finding_id.part else whole), earlier
