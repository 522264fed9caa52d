"""Campaigns: random histories, one per seed, run on several machines in parallel and judged.

::

    STATE/faults/campaigns/<run>/campaign.json   the options of the campaign
    STATE/faults/campaigns/<run>/done.jsonl      one seed per line, stored before the next, so a campaign can be resumed

Each finding is replayed alone and shrunk. Shrinking is delta debugging (Zeller and Hildebrandt, Simplifying and
Isolating Failure-Inducing Input, 2002): parts are removed, large ones first, as long as the remainder still shows the
same kind of difference. Acts are removed first, then the writes of each load. Every step is a real replay.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from lab.errors import LabError, ResultError
from lab.faults.findings import FindingRecord, FindingStore, gathered, record_of, script_of, seen_lines
from lab.faults.history import Act, ActKind, Bounds, FaultHistory, FindingId, generated, kept_word, parse_id, part_of
from lab.faults.history_play import Arena, HistoryOutcome, play, replayed
from lab.faults.place import FaultPlace, with_own_kernel
from lab.gates.decoding import FormatVersion, Seed, convert, decode_json
from lab.gates.text import Name
from lab.host.clock import utc_second_text
from lab.machine import Host, parse_target
from lab.store.runs import Journal, RunFolders

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
        """The smallest history found; ``outcome`` is the outcome of ``history``, if known."""
        self.steps = [history]
        with self._open:
            if outcome:
                last = next(each.act for each in outcome.differences if each.kind == self.kind)
                self._take_first([_with_acts(history, history.acts[: max(0, last) + 1])])
            while True:
                before = self.smallest
                self._reduce(self.smallest.acts, lambda acts: _with_acts(self.smallest, acts))
                self._reduce_writes()
                if self.smallest == before or self.left <= 0 or self._is_stopped():
                    return self.smallest

    @property
    def smallest(self) -> FaultHistory:
        return self.steps[-1]

    def _reduce_writes(self) -> None:
        for index in range(len(self.smallest.acts)):
            act = self.smallest.acts[index]
            if act.kind is ActKind.LOAD:
                self._reduce(act.writes, lambda writes, index=index: _with_writes(self.smallest, index, writes))  # type: ignore[misc]

    def _reduce(self, items: Sequence[T], made: Callable[[tuple[T, ...]], FaultHistory]) -> None:
        """Remove parts of these items, from halves down to single items."""
        items = tuple(items)
        size = max(1, len(items) // 2)
        while items:
            rests = [rest for rest in _without_parts(items, size) if rest != items]
            found = self._take_first([made(rest) for rest in rests])
            if found is not None:
                items = rests[found]
                size = min(size, max(1, len(items)))
            elif size == 1:
                return
            else:
                size = max(1, size // 2)

    def _take_first(self, candidates: list[FaultHistory]) -> int | None:
        """Run the candidates until one shows the difference, and make it the smallest; returns its index, or None."""
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
        """The outcomes of the candidates, on one machine for as long as it is usable."""
        if self._place is None:
            self._place = self._open.enter_context(self.arena.opened())
        for outcome in play(self._place, candidates, change=self.arena.change, is_stopped=self._is_stopped):
            if outcome.is_over:
                self._open.close()
                self._place = None
            yield outcome


def _without_parts(items: tuple[T, ...], size: int) -> Iterator[tuple[T, ...]]:
    """The items without one part of this size, for each position; last part first.

    Late items are the ones most often irrelevant.
    """
    for start in reversed(range(0, len(items), size)):
        yield items[:start] + items[start + size :]


def _with_acts(history: FaultHistory, acts: Sequence[Act]) -> FaultHistory:
    return msgspec.structs.replace(history, acts=tuple(acts))


def _with_writes(history: FaultHistory, index: int, writes: tuple[tuple[int, int, int], ...]) -> FaultHistory:
    act = msgspec.structs.replace(history.acts[index], writes=writes)
    return _with_acts(history, (*history.acts[:index], act, *history.acts[index + 1 :]))


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
    """Time limit in seconds; 0: none. ``seeds`` 0: no limit on the number of seeds."""
    level: str = ""
    policy: str = ""
    planted: Annotated[int, msgspec.Meta(ge=0)] = 0


class SeedDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of done.jsonl: a history that was run and judged."""

    seed: int
    finding: str = ""
    explained: dict[str, int] = {}


class CampaignJournal:
    """The writer of one campaign."""

    def __init__(self, folder: Path, run: CampaignRun) -> None:
        self.folder, self.run = folder, run
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
        """The explained differences of all seeds, counted by explanation."""
        total: Counter[str] = Counter()
        for each in self.done.values():
            total.update(each.explained)
        return total

    @property
    def findings(self) -> list[str]:
        """The ids of all findings, in the order in which their seeds were stored."""
        return [each.finding for each in self.done.values() if each.finding]


def campaign_runs(host: Host) -> RunFolders:
    """The campaigns in the state folder."""
    return RunFolders(
        host.state.root / "faults" / "campaigns",
        "campaign",
        ("campaign.json",),
        begin_hint="begin one: raidlab fault campaign",
        list_hint="give 'latest', or leave --resume out for a new one",
        state_root=host.state.root,
    )


@contextmanager
def begun_campaign(host: Host, target: str, **asked: object) -> Iterator[CampaignJournal]:
    """Create a campaign and hold its lock for the duration of the context."""
    runs, created = campaign_runs(host), utc_second_text(host.clock)
    folder = runs.create(host.clock)
    run = convert({"id": folder.name, "created_utc": created, "target": target, **asked}, CampaignRun)
    with runs.held(run.id):
        runs.write_header(run, run.id)
        yield CampaignJournal(folder, run)


@contextmanager
def resumed_campaign(host: Host, word: str) -> Iterator[CampaignJournal]:
    """Open a stored campaign, given its id, a prefix of it, or ``latest``. Raises ResultError if there is none."""
    runs = campaign_runs(host)
    run_id = runs.find(word, lambda ids: max(runs.headers(CampaignRun, _is_good), default=ids[0]))
    run = runs.good_header(run_id, CampaignRun, _is_good)
    with runs.held(run_id):
        yield CampaignJournal(runs.path(run_id), run)


def _is_good(run_id: str, run: CampaignRun) -> bool:
    return run.format_version == FORMAT_VERSION and run.id == run_id


BATCH = 20
"""Maximum number of histories run on one machine."""
WORKERS = 2
JOIN_SECONDS = 0.2
Calls = Callable[[Callable[[bytes], bytes], bytes], bytes]
"""Calls a function of a module with bytes, in another process or on another computer, and returns its answer."""
WITHOUT_PLANTED = "shows without the planted bug too"


@dataclass(frozen=True, slots=True)
class CampaignHooks:
    """Callbacks: a message for the user, and the number of seeds done and wanted (0: no limit)."""

    notice: Callable[[str], None] = lambda _: None
    progress: Callable[[int, int], None] = lambda _done, _wanted: None


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
    """A campaign, which ends with its seeds or its time or, with ``stops_at_first``, with the first finding."""

    journal: CampaignJournal
    arena: Arena
    hooks: CampaignHooks = field(default_factory=CampaignHooks)
    workers: int = WORKERS
    shrinks: bool = True
    stops_at_first: bool = False
    most_plays: int = MOST_PLAYS
    calls: Calls | None = None
    """Runs batches of histories elsewhere; None: they run in this process. Findings are always investigated in this
    process.
    """

    def __post_init__(self) -> None:
        run = self.journal.run
        self.bounds = Bounds(run.level, run.policy)
        self.store = FindingStore(self.arena.host)
        self.said_no: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._hunt = threading.Lock()
        self._seeds = self._undone()
        self._over, self._stopped = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._began = 0.0
        self._played = 0
        self._left: list[FindingRecord] = []
        self._found_after: float | None = None

    def _undone(self) -> Iterator[int]:
        run = self.journal.run
        seed = run.first
        while not run.seeds or seed < run.first + run.seeds:
            if seed not in self.journal.done:
                yield seed
            seed += 1

    def run(self) -> CampaignSummary:
        """Run the campaign to its end. Raises the error that ended it early; findings up to then remain stored."""
        self._began = time.monotonic()
        self.store.remove_leftovers()
        self._left = self._left_by_an_earlier_part()
        if self.stops_at_first and self.journal.findings:
            self._over.set()
        # Not Thread.join(): if a signal handler raises inside it, CPython 3.11 marks a running thread as ended.
        begun: list[threading.Event] = []
        try:
            for number in range(self.workers):
                is_over = threading.Event()
                thread = threading.Thread(target=self._work, args=(is_over,), name=f"raidlab-campaign-{number}")
                begun.append(is_over)
                thread.start()
            for is_over in begun:
                while not is_over.wait(JOIN_SECONDS):
                    self._look_at_time()
        finally:
            self._stopped.set()
            for is_over in begun:
                is_over.wait()
        if self._failure:
            raise self._failure
        return self.summary()

    def summary(self) -> CampaignSummary:
        """The results so far."""
        seconds = time.monotonic() - self._began
        mine = set(self.journal.findings)
        kept = {
            each.record.id: each.record
            for each in self.store.all()
            if each.record.id in mine or each.record.shrunk_from in mine
        }
        wanted = self.journal.run.seeds
        return CampaignSummary(
            run=self.journal.run.id,
            seeds=len(self.journal.done),
            seconds=round(seconds, 1),
            histories_per_second=round(self._played / seconds, 2) if seconds else 0.0,
            explained=dict(sorted(self.journal.explained.items())),
            said_no={str(word): count for word, count in sorted(self.said_no.items())},
            findings=tuple(kept.values()),
            found_after_seconds=self._found_after,
            is_complete=not wanted or len(self.journal.done) >= wanted,
        )

    def _look_at_time(self) -> None:
        limit = self.journal.run.seconds
        if limit and time.monotonic() - self._began > limit:
            self._over.set()

    def _is_over(self) -> bool:
        """Whether to start no more histories; findings already made are still investigated."""
        return self._over.is_set() or self._stopped.is_set()

    def _work(self, is_over: threading.Event) -> None:
        try:
            while not self._stopped.is_set() and (rest := self._take_left()):
                self._investigate(rest)
            while not self._is_over() and (seeds := self._next_batch()):
                found = self._play_batch(seeds)
                for record, before in found:
                    if not self._stopped.is_set():
                        self._investigate(record, before)
        except BaseException as error:  # the waiting thread raises it again
            self._failure = self._failure or error
            self._stopped.set()
        finally:
            is_over.set()

    def _left_by_an_earlier_part(self) -> list[FindingRecord]:
        """Findings that an earlier part of this campaign stored but did not investigate.

        Their seeds are recorded as done, so that no worker runs one of them during the investigation.
        """
        left = []
        for each in self.store.all():
            if each.record.run == self.journal.run.id and each.record.status == "found":
                left.append(each.record)
                if each.history.seed not in self.journal.done:
                    self.journal.add(SeedDone(each.history.seed, each.record.id, dict(each.record.explained)))
        return left

    def _is_mine(self, finding_id: str) -> bool:
        """Whether the stored finding belongs to this campaign: another one may have found the same."""
        kept = self.store.find(finding_id)
        return kept is not None and kept.record.run == self.journal.run.id

    def _take_left(self) -> FindingRecord | None:
        with self._lock:
            return self._left.pop() if self._left else None

    def _next_batch(self) -> list[int]:
        """Consecutive seeds, so that an id can name the histories that ran before it on the same machine."""
        with self._lock:
            batch: list[int] = []
            for seed in self._seeds:
                if batch and seed != batch[-1] + 1:
                    self._seeds = _and_then(seed, self._seeds)
                    break
                batch.append(seed)
                if len(batch) == BATCH:
                    break
            return batch

    def _play_batch(self, seeds: list[int]) -> list[tuple[FindingRecord, int]]:
        """Run these seeds on as many machines as needed.

        Returns each finding with the number of histories that ran before it on its machine.
        """
        found: list[tuple[FindingRecord, int]] = []
        for before, outcome in self._played_elsewhere(seeds) if self.calls else self._played_here(seeds):
            if record := self._judged(outcome):
                found.append((record, before))
        return found

    def _judged(self, outcome: HistoryOutcome) -> FindingRecord | None:
        """Store the result of a history. When the campaign stops at the first finding, only the first one is stored."""
        if not (self.stops_at_first and outcome.differences):
            return self._keep(self._due_to_the_planted(outcome))
        with self._hunt:
            if self._over.is_set():
                return None
            record = self._keep(self._due_to_the_planted(outcome))
            if record:
                self._over.set()
            return record

    def _played_here(self, seeds: list[int]) -> Iterator[tuple[int, HistoryOutcome]]:
        return played_batch(self.arena, self.bounds, seeds, self._is_over)

    def _played_elsewhere(self, seeds: list[int]) -> list[tuple[int, HistoryOutcome]]:
        assert self.calls is not None
        run = self.journal.run
        asked = _BatchAsked(
            target=str(self.arena.target), level=run.level, policy=run.policy, planted=run.planted, seeds=seeds
        )
        # Unpickling is safe: the answer comes from a worker that runs this same program.
        answer: list[tuple[int, HistoryOutcome]] = pickle.loads(self.calls(play_asked, msgspec.json.encode(asked)))
        return answer

    def _due_to_the_planted(self, outcome: HistoryOutcome) -> HistoryOutcome:
        """The outcome without the differences that the same history also shows while no planted bug is switched on."""
        if not (self.arena.planted and outcome.differences):
            return outcome
        shown = self._shown_without_planted(outcome.history)
        due = tuple(each for each in outcome.differences if each.kind not in shown)
        if len(due) == len(outcome.differences):
            return outcome
        kinds = ", ".join(sorted(outcome.kinds & shown))
        self.hooks.notice(f"seed {outcome.history.seed}: {kinds}: {WITHOUT_PLANTED}, and does not count")
        explained = outcome.explained + Counter({WITHOUT_PLANTED: len(outcome.differences) - len(due)})
        return replace(outcome, differences=due, explained=explained)

    def _shown_without_planted(self, history: FaultHistory, earlier: Sequence[FaultHistory] = ()) -> frozenset[str]:
        """The kinds of differences that a history shows on the same kernel with no bug switched on."""
        return replayed(replace(self.arena, is_control=True), history, earlier).kinds

    def _keep(self, outcome: HistoryOutcome) -> FindingRecord | None:
        """Store a history as done, after storing its finding if it has one."""
        seed, record = outcome.history.seed, None
        if outcome.differences:
            finding_id = FindingId(self.bounds, seed, self.arena.planted)
            kind = outcome.differences[0].kind
            record = record_of(finding_id, outcome, kind, self.arena, status="found", run=self.journal.run.id)
            self._store(record, outcome.history, {"seen.jsonl": seen_lines(outcome)})
            self.hooks.notice(f"{record.id}: {record.kind}: {record.text}")
        with self._lock:
            if record and self._found_after is None:
                self._found_after = round(time.monotonic() - self._began, 1)
            self.journal.add(SeedDone(seed, record.id if record else "", dict(outcome.explained)))
            self.said_no.update(outcome.said_no)
            self._played += 1
            self.hooks.progress(len(self.journal.done), self.journal.run.seeds)
        return record

    def _store(self, record: FindingRecord, history: FaultHistory, files: dict[str, bytes]) -> None:
        try:
            self.store.keep(record, history, {**files, "commands.sh": script_of(record, history)})
        except ResultError as error:
            raise ResultError(
                f"{error.message}; it was '{record.kind}' of {record.id}, which replays without being kept",
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
                self._store(
                    msgspec.structs.replace(record, status="unsteady"), whole, {"seen.jsonl": seen_lines(outcome)}
                )
                self.hooks.notice(f"{record.id}: not reproducible")
                return
            steps = [whole] if earlier or not self.shrinks else self._shrunk(record, whole, outcome)
            if not self._stopped.is_set():
                self._keep_smallest(record, whole, steps, earlier)
        except LabError as error:
            if isinstance(error, ResultError) or self._stopped.is_set():
                raise
            self.hooks.notice(f"{record.id} could not be looked into: {error.message}")

    def _shrunk(self, record: FindingRecord, whole: FaultHistory, outcome: HistoryOutcome) -> list[FaultHistory]:
        def tell(history: FaultHistory) -> None:
            self.hooks.notice(f"{record.id}: {history.operations} operations, {history.writes} writes show it too")

        stopped = self._stopped.is_set
        shrinker = Shrinker(self.arena, record.kind, most_plays=self.most_plays, is_stopped=stopped, on_progress=tell)
        shrinker.shrink(whole, outcome)
        return shrinker.steps

    def _keep_smallest(
        self, record: FindingRecord, whole: FaultHistory, steps: list[FaultHistory], earlier: list[FaultHistory]
    ) -> None:
        """Store the smallest history that also shows the difference on a machine of its own."""
        for history in reversed(steps):
            evidence = gathered(self.arena, history, earlier)
            is_shown = record.kind in evidence.outcome.kinds
            if is_shown and self.arena.planted and history != whole:
                # A shrunk history may show the same kind of difference for another reason.
                is_shown = record.kind not in self._shown_without_planted(history, earlier)
            if is_shown:
                kept = kept_word(whole, history) if history != whole else ""
                finding_id = FindingId(self.bounds, whole.seed, self.arena.planted, len(earlier), kept)
                status = "shrunk" if kept else "confirmed"
                more = {
                    "run": record.run,
                    "replays": 2,
                    "shrunk_from": "" if str(finding_id) == record.id else record.id,
                }
                final = record_of(finding_id, evidence.outcome, record.kind, self.arena, status=status, **more)
                self._store(final, history, evidence.files)
                if final.id != record.id and self._is_mine(record.id):
                    self.store.remove(record.id)
                self.hooks.notice(f"kept as {final.id}: {final.operations} operations, {final.writes} writes")
                return


def played_batch(
    arena: Arena, bounds: Bounds, seeds: list[int], is_over: Callable[[], bool]
) -> Iterator[tuple[int, HistoryOutcome]]:
    """Run these seeds on as many machines as needed.

    Yields each outcome with the number of histories that ran before it on its machine.
    """
    while seeds and not is_over():
        with arena.opened() as place:
            histories = [generated(seed, bounds) for seed in seeds]
            done = 0
            for outcome in play(place, histories, change=arena.change, is_stopped=is_over):
                yield done, outcome
                done += 1
        if not done:
            break
        seeds = seeds[done:]


class _BatchAsked(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    level: str
    policy: str
    planted: int
    seeds: list[int]


def play_asked(payload: bytes) -> bytes:
    """Run a batch on a worker of a cluster, as requested by a campaign on another computer."""
    asked = decode_json(payload, _BatchAsked)
    host = Host.real("raidlab fault campaign")
    arena = Arena(with_own_kernel(parse_target(asked.target), host), host, asked.planted)
    outcomes = played_batch(arena, Bounds(asked.level, asked.policy), asked.seeds, lambda: False)
    # The documents of a history without differences are never read.
    return pickle.dumps([(done, each if each.differences else replace(each, documents=())) for done, each in outcomes])


def history_of(finding_id: FindingId) -> tuple[FaultHistory, list[FaultHistory]]:
    """The history that an id denotes, and the histories that the machine runs before it."""
    whole = generated(finding_id.seed, finding_id.bounds)
    earlier = [generated(whole.seed - each, finding_id.bounds) for each in range(finding_id.before, 0, -1)]
    return (part_of(whole, finding_id.kept) if finding_id.kept else whole), earlier


def _and_then(seed: int, rest: Iterator[int]) -> Iterator[int]:
    yield seed
    yield from rest
