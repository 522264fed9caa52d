"""Campaigns: every seed runs once, each finding is stored first, then shrunk; their commands; planted bugs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.cli import fault as fault_commands
from lab.cli.context import OPTIONS, Options
from lab.cli.main import run
from lab.errors import ExitCode, MachineBusy, ResultError, SpecError, ToolMissing
from lab.faults import campaign as campaigns
from lab.faults.campaign import (
    Arena,
    Campaign,
    CampaignJournal,
    CampaignSummary,
    FindingRecord,
    FindingStore,
    HistoryOutcome,
    PlantedBug,
    Repeats,
    SeedDone,
    Shrinker,
    StoredFinding,
    begun_campaign,
    campaign_runs,
    history_of,
    on_planted_kernel,
    plain_script,
    planted_bugs,
    resumed_campaign,
    seen_lines,
)
from lab.faults.history import ActKind, Bounds, FaultHistory, generated, parse_id
from lab.faults.judge import HistoryDifference
from lab.host.clock import HostClock
from lab.host.files import ALONE, locked
from lab.machine import Host, parse_target
from lab.store import LATEST, LOCK_NAME, Journal, RunFolders
from tests.unit.disks import machines
from tests.waiting import PATIENCE_SECONDS, wait_until

Rule = Callable[[FaultHistory], str]
"""Returns the kind of difference that a history shows, empty for none."""


def outcome_of(history: FaultHistory, kind: str, *, is_over: bool = False) -> HistoryOutcome:
    shown = (HistoryDifference(kind, len(history.acts) - 1, f"{kind}, as the rule says"),) if kind else ()
    return HistoryOutcome(history, shown, Counter({"write hole": 1}), is_over=is_over)


@dataclass
class PlayedByRule:
    """Replaces ``play``. Records which machines were opened, which histories were played, and what ends a machine."""

    rule: Rule
    host: Host
    opened: int = 0
    played: list[FaultHistory] = field(default_factory=list)
    ends_machine: frozenset[str] = frozenset()
    on_history: Callable[[FaultHistory], None] = lambda _: None
    planted: int = 0
    control: Rule = lambda _: ""
    """The result of a history while no bug is planted, in a search for a planted bug."""

    @property
    def arena(self) -> Arena:
        return _RuledArena(parse_target("uml:?time=virtual"), self.host, self.planted, played=self)

    def play(self, _place: object, histories: Sequence[FaultHistory], **more: Any) -> Iterator[HistoryOutcome]:
        is_stopped = more.get("is_stopped", lambda: False)
        for history in histories:
            if is_stopped():
                return
            self.on_history(history)
            self.played.append(history)
            kind = self.rule(history)
            is_over = kind in self.ends_machine
            yield outcome_of(history, kind, is_over=is_over)
            if is_over:
                return

    def replayed(self, arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = ()) -> HistoryOutcome:
        if arena.is_control:
            return outcome_of(history, self.control(history))
        return list(self.play(None, [*before, history]))[-1]


@dataclass(frozen=True)
class _RuledArena(Arena):
    played: PlayedByRule = None  # type: ignore[assignment]

    @contextmanager
    def opened(self) -> Iterator[Any]:
        self.played.opened += 1
        yield object()


generated_once = cache(generated)
"""Generating the histories takes longer than anything else here."""
Gathered = tuple[HistoryOutcome, dict[str, bytes]]
RECORD = FindingRecord(
    id="c1-7",
    kind="unreadable",
    text="2 blocks",
    title="RAID 5 of 4",
    act=1,
    differences=(("unreadable", 1, "2 blocks"),),
    operations=5,
    writes=12,
)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("RAIDLAB_ON", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fault_commands, "with_own_kernel", lambda target, _host: target)
    OPTIONS.set(Options())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return machines.host_in(tmp_path / "state", HostClock())


@pytest.fixture
def played(host: Host, monkeypatch: pytest.MonkeyPatch) -> PlayedByRule:
    """Plays everything by a rule, ``shows_cuts`` unless a test sets another one."""
    found = PlayedByRule(shows_cuts, host)
    monkeypatch.setattr(campaigns, "generated", generated_once)
    monkeypatch.setattr(campaigns, "play", found.play)
    monkeypatch.setattr(campaigns, "replayed", found.replayed)

    def gathered(arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = ()) -> Gathered:
        outcome = found.replayed(arena, history, before)
        return outcome, {"seen.jsonl": seen_lines(outcome), "kernel.log": b"nothing"}

    monkeypatch.setattr(campaigns, "gathered", gathered)
    return found


def test_a_stored_finding_is_found_by_id_and_by_folder_until_it_is_forgotten(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.store._POLL_SECONDS", 0.1)
    store, history = FindingStore(host), generated(7)
    folder = store.put(RECORD, history, {"kernel.log": b"all of it"})
    assert store.find("c1-7") == store.find(str(folder)) == StoredFinding(RECORD, history, folder)
    assert (folder / "kernel.log").read_bytes() == b"all of it"
    assert store.find("c1-8") is None
    elsewhere = store.find(str(shutil.copytree(folder, tmp_path / "copy")))
    assert elsewhere is not None
    with pytest.raises(SpecError, match="is not in the lab's store"):
        store.forget(elsewhere)
    assert [each.record.id for each in store.all()] == ["c1-7"]
    with locked(folder / LOCK_NAME, ALONE), pytest.raises(MachineBusy):
        store.forget(StoredFinding(RECORD, history, folder))
    store.forget(StoredFinding(RECORD, history, folder))
    assert store.all() == []


def test_every_history_is_a_script_that_the_shell_understands(tmp_path: Path) -> None:
    kinds = set()
    for seed in range(1, 120):
        history = generated(seed)
        kinds |= {act.kind for act in history.acts}
        script = tmp_path / f"{seed}.sh"
        script.write_bytes(plain_script(msgspec.structs.replace(RECORD, text="what\nwas seen"), history))
    assert kinds == set(ActKind)
    scripts = sorted(map(str, tmp_path.glob("*.sh")))
    check = 'for script; do bash -n "$script" || exit 1; done'
    done = subprocess.run(["bash", "-c", check, "check", *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_writes_what_the_history_writes() -> None:
    history = generated(1)
    lines = plain_script(RECORD, history).decode().splitlines()
    writes = [write for act in history.acts for write in act.writes]
    assert sum(line.startswith("w ") for line in lines) == sum(count > 0 for _, count, _ in writes) + -(
        -history.shape.block_map().blocks // 64
    )
    assert sum(line == "flush" for line in lines) == sum(count == 0 for _, count, _ in writes) + 1


def test_unreadable_findings_are_reported(host: Host) -> None:
    store, reported = FindingStore(host), list[str]()
    folder = store.put(RECORD, generated(7), {})
    shutil.copytree(folder, store.runs.root / "c1-9")
    (shutil.copytree(folder, store.runs.root / "c1-8") / "finding.json").write_text("{", encoding="utf-8")
    (store.runs.root / "c1-6").mkdir()
    assert [each.record.id for each in store.all(reported.append)] == ["c1-7"]
    assert [line.split(":")[0] for line in reported] == [f"finding c1-{n} cannot be read" for n in (6, 8, 9)]
    with pytest.raises(ResultError):
        store.find("c1-8")
    with pytest.raises(SpecError):
        store.find("..")


SHOWN = "silently corrupt"
LONG = next(
    history
    for seed in range(1, 500)
    if len((history := generated(seed)).acts) >= 11 and history.writes > 40 and not history.acts[-1].writes
)
WRITES = [write for act in LONG.acts for write in act.writes]
ONCE = [write for write in WRITES if WRITES.count(write) == 1]


def shrunk_by(
    played: PlayedByRule, rule: Rule, most_plays: int = 400, ends_machine: frozenset[str] = frozenset()
) -> Shrinker:
    played.rule, played.ends_machine = rule, ends_machine
    shrinker = Shrinker(played.arena, SHOWN, most_plays=most_plays)
    shrinker.shrink(LONG)
    return shrinker


def test_shrinking_leaves_only_the_writes_and_acts_that_reproduce_it(played: PlayedByRule) -> None:
    last, needed = LONG.acts[-1], {ONCE[1], ONCE[9]}

    def rule(history: FaultHistory) -> str:
        written = {write for act in history.acts if act.kind is ActKind.WRITES for write in act.writes}
        return SHOWN if needed <= written and last in history.acts else "unreadable"

    shrinker = shrunk_by(played, rule)
    smallest = shrinker.smallest
    assert {write for act in smallest.acts for write in act.writes if act.kind is ActKind.WRITES} == needed
    assert smallest.acts[-1] == last
    assert len(smallest.acts) <= 3
    assert [len(each.acts) for each in shrinker.steps] == sorted((len(s.acts) for s in shrinker.steps), reverse=True)
    assert all(rule(each) == SHOWN for each in shrinker.steps)
    assert len(played.played) < 200


def test_what_every_history_shows_needs_none(played: PlayedByRule) -> None:
    assert shrunk_by(played, lambda _: SHOWN).smallest == msgspec.structs.replace(LONG, acts=())
    assert played.opened == 1


def test_it_ends_after_so_many_plays(played: PlayedByRule) -> None:
    assert shrunk_by(played, lambda _: "", most_plays=7).smallest == LONG
    assert len(played.played) == 7


def test_a_machine_that_is_lost_is_replaced(played: PlayedByRule) -> None:
    shrinker = shrunk_by(
        played, lambda history: SHOWN if len(history.acts) > 3 else "", ends_machine=frozenset({SHOWN})
    )
    assert len(shrinker.smallest.acts) == 4
    # Each history that showed the difference also ended its machine.
    shown = sum(len(history.acts) > 3 for history in played.played)
    assert played.opened in (shown, shown + 1)


KIND = "lost after acknowledgement"
SEEDS = 40
"""Two batches of seeds."""
CUT_SEEDS = [seed for seed in range(1, SEEDS) if any(act.kind is ActKind.CUT for act in generated_once(seed).acts)]
ASKED: dict[str, Any] = {"first": 1, "seeds": SEEDS, "seconds": 0.0}


def shows_cuts(history: FaultHistory) -> str:
    """A bug in the state after a power cut, in a few seeds only."""
    is_cut = any(act.kind is ActKind.CUT for act in history.acts)
    return KIND if is_cut and history.seed in CUT_SEEDS[:2] else ""


def campaign(played: PlayedByRule, *, resume: str = "", **more: Any) -> CampaignSummary:
    target = "uml:?time=virtual"
    opened = resumed_campaign(played.host, resume) if resume else begun_campaign(played.host, target, **ASKED)
    with opened as journal:
        return Campaign(journal, played.arena, **more).run()


def test_every_seed_is_played_and_what_has_its_explanation_is_counted(played: PlayedByRule) -> None:
    half_made = FindingStore(played.host).runs.root / ".importing-c1-3.999999"
    played.host.state.make(half_made, what="what a killed campaign left")
    played.rule = lambda _: ""
    summary = campaign(played)
    assert not half_made.exists()
    assert sorted(history.seed for history in played.played) == list(range(1, SEEDS + 1))
    assert (summary.seeds, summary.findings, summary.is_complete) == (SEEDS, (), True)
    assert summary.explained == {"write hole": SEEDS}


def test_a_finding_is_stored_shrunk_with_all_files_for_a_maintainer(played: PlayedByRule) -> None:
    summary = campaign(played)
    assert sorted(parse_id(record.id).seed for record in summary.findings) == CUT_SEEDS[:2]
    for record in summary.findings:
        assert (record.kind, record.status, record.operations, record.writes) == (KIND, "shrunk", 1, 0)
        history, earlier = history_of(parse_id(record.id))
        assert [act.kind for act in history.acts] == [ActKind.CUT]
        assert earlier == []
        kept = FindingStore(played.host).find(record.id)
        assert kept is not None
        assert kept.history == history
        assert {path.name for path in kept.folder.iterdir()} == {
            *("finding.json", "history.json", "commands.sh", "seen.jsonl", "kernel.log"),
        }
    # The finding as it was first seen has been replaced.
    assert len(FindingStore(played.host).all()) == 2


def test_what_needs_the_histories_before_it_is_replayed_behind_them(played: PlayedByRule) -> None:
    # Shows only if the machine played the previous seed before.
    played.rule = lambda h: KIND if h.seed == 12 and played.played[-2:-1] == [generated(11)] else ""
    summary = campaign(played, workers=1)
    assert [record.id for record in summary.findings] == ["c1-12-a11"]


def test_a_finding_that_a_replay_does_not_reproduce_is_stored_as_unsteady(played: PlayedByRule) -> None:
    played.rule = lambda h: KIND if h.seed == 12 and [each.seed for each in played.played].count(12) == 1 else ""
    summary = campaign(played)
    assert [(record.id, record.status) for record in summary.findings] == [("c1-12", "unsteady")]


def test_a_lost_machine_is_a_finding_and_the_other_seeds_are_played_all_the_same(played: PlayedByRule) -> None:
    played.rule, played.ends_machine = (lambda h: "machine lost" if h.seed == 7 else ""), frozenset({"machine lost"})
    summary = campaign(played, shrinks=False)
    assert [record.kind for record in summary.findings] == ["machine lost"]
    assert summary.seeds == SEEDS
    assert {history.seed for history in played.played} == set(range(1, SEEDS + 1))


def test_a_failure_without_the_planted_bug_is_no_find_and_the_hunt_continues(played: PlayedByRule) -> None:
    first, second = CUT_SEEDS[:2]
    played.planted = 3
    played.control = lambda history: KIND if history.seed == first else ""
    notices: list[str] = []
    summary = campaign(played, stops_at_first=True, workers=1, notice=notices.append)
    assert [parse_id(record.id).seed for record in summary.findings] == [second]
    assert summary.explained["also shown without the planted bug"] == 1
    assert summary.seeds < SEEDS
    assert summary.found_after_seconds is not None
    assert any(f"seed {first}: {KIND}: also shown without the planted bug" in text for text in notices)


class NotedLock:
    """A lock that says whether a thread has had to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.has_made_wait = False

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.has_made_wait = True
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_of_two_simultaneous_findings_of_workers_one_is_stored(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, waiting = threading.Barrier(2, timeout=PATIENCE_SECONDS), {1, 21}
    played.planted, played.rule = 3, lambda _: KIND
    hunt, tried = NotedLock(), []
    complete = Campaign.__post_init__

    def with_noted_lock(self: Campaign) -> None:
        complete(self)
        self._hunt = hunt  # type: ignore[assignment]

    monkeypatch.setattr(Campaign, "__post_init__", with_noted_lock)

    def control(history: FaultHistory) -> str:
        # While the kernel without the bug is tried, the other worker has found its own, and waits or tries it too.
        tried.append(history.seed)
        wait_until(lambda: hunt.has_made_wait or len(tried) == 2)
        return ""

    def wait_once(history: FaultHistory) -> None:
        if history.seed in waiting:
            waiting.remove(history.seed)
            both.wait()

    played.control, played.on_history = control, wait_once
    summary = campaign(played, stops_at_first=True, workers=2, shrinks=False)
    assert len(summary.findings) == 1


def test_a_find_is_shrunk_only_as_far_as_it_needs_the_planted_bug(played: PlayedByRule) -> None:
    played.planted = 3
    # On its own, the power cut shows the same difference without the bug.
    played.control = lambda history: KIND if len(history.acts) < 2 else ""
    summary = campaign(played, stops_at_first=True, workers=1)
    assert [record.operations for record in summary.findings] != []
    assert all(record.operations >= 2 for record in summary.findings)


class Stop(BaseException):
    """Like Ctrl-C."""


@pytest.mark.parametrize("at", [1, 9, 39])
def test_an_interrupted_campaign_loses_nothing_and_can_be_resumed(played: PlayedByRule, at: int) -> None:
    def stop(_: FaultHistory) -> None:
        if len(played.played) == at:
            played.on_history = lambda _: None
            raise Stop

    played.on_history = stop
    with pytest.raises(Stop):
        campaign(played)
    done = {history.seed for history in played.played}
    before = {each.record.id for each in FindingStore(played.host).all()}
    assert {parse_id(name).seed for name in before} >= done & set(CUT_SEEDS[:2]) - {played.played[-1].seed}
    summary = campaign(played, resume=LATEST)
    assert summary.seeds == SEEDS
    assert sorted(parse_id(record.id).seed for record in summary.findings) == CUT_SEEDS[:2]
    assert {record.status for record in summary.findings} == {"shrunk"}


@pytest.mark.parametrize("is_hunt", [False, True])
def test_a_finding_stored_but_not_noted_in_the_journal_is_shrunk_first(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch, is_hunt: bool
) -> None:
    """A campaign ends between storing a finding and recording its seed; the seed is not played again when resumed."""
    real, first = CampaignJournal.add, f"c1-{CUT_SEEDS[0]}"
    reported: list[str] = []

    def add(journal: CampaignJournal, line: SeedDone) -> None:
        if line.finding:
            raise Stop
        real(journal, line)

    with monkeypatch.context() as patched:
        patched.setattr(CampaignJournal, "add", add)
        with pytest.raises(Stop):
            campaign(played, workers=1, stops_at_first=is_hunt)
    assert [each.record.status for each in FindingStore(played.host).all()] == ["found"]
    summary = campaign(played, resume=LATEST, workers=1, notice=reported.append, stops_at_first=is_hunt)
    assert {record.status for record in summary.findings} == {"shrunk"}
    assert [words for words in reported if words.startswith(f"stored as {first}-s")]
    assert not [words for words in reported if words.startswith(f"{first}: {KIND}")]
    # A hunt for a planted bug ends with this finding.
    assert is_hunt != any(words.startswith(f"c1-{CUT_SEEDS[1]}") for words in reported)


def test_leftover_findings_are_listed_before_any_worker_starts(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    real = FindingStore.all

    def listing(store: FindingStore) -> list[StoredFinding]:
        listed.append(threading.current_thread().name)
        return real(store)

    monkeypatch.setattr(FindingStore, "all", listing)
    campaign(played)
    # A worker that lists later would take up a finding that another worker has just stored.
    assert not [name for name in listed if name.startswith("raidlab-campaign")]


def test_a_full_folder_is_reported_with_the_id_for_a_replay(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise ResultError("no space left on device", hint="free some")

    monkeypatch.setattr(FindingStore, "put", full)
    with pytest.raises(ResultError) as caught:
        campaign(played)
    assert f"c1-{CUT_SEEDS[0]}" in caught.value.message or f"c1-{CUT_SEEDS[1]}" in caught.value.message
    assert "raidlab fault replay c1-" in caught.value.hint


def test_only_one_process_resumes_a_campaign(played: PlayedByRule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.store._POLL_SECONDS", 0.1)
    with (
        begun_campaign(played.host, "uml:", **ASKED) as journal,
        pytest.raises(MachineBusy),
        resumed_campaign(played.host, journal.run.id),
    ):
        pass


@pytest.mark.parametrize("fails", [(RunFolders, "write_header"), (Journal, "read")])
def test_a_campaign_that_cannot_be_begun_leaves_nothing(
    played: PlayedByRule, fails: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stop

    monkeypatch.setattr(*fails, stop)
    with pytest.raises(Stop), begun_campaign(played.host, "uml:", **ASKED):
        pass
    assert list(campaign_runs(played.host).root.glob("[!.]*")) == []


def test_a_new_campaign_removes_what_a_killed_one_left_but_not_one_that_just_begins(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, held = campaign_runs(played.host), RunFolders.held
    remains = runs.root / ".deleting-20260101T000000Z.999999"
    played.host.state.make(remains, what="what a killed campaign left")

    def beside_another(runs: RunFolders, run_id: str) -> AbstractContextManager[None]:
        # Another campaign begins between the creation of the folder and its lock.
        assert runs.remove_leftovers() == []
        return held(runs, run_id)

    monkeypatch.setattr(RunFolders, "held", beside_another)
    with begun_campaign(played.host, "uml:", **ASKED) as journal:
        assert [path.name for path in runs.root.iterdir() if path.is_dir()] == [journal.run.id]


def test_a_signal_is_raised_only_when_no_worker_is_at_work_any_more(played: PlayedByRule) -> None:
    at_work = threading.Event()

    def handle(*_: object) -> None:
        raise Stop

    def rule(_: FaultHistory) -> str:
        # Like a machine that takes a while to close.
        os.kill(os.getpid(), signal.SIGUSR1)
        at_work.set()
        time.sleep(0.5)
        at_work.clear()
        return ""

    played.rule = rule
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(Stop):
            campaign(played, workers=1)
        assert not at_work.is_set()
        assert not [each for each in threading.enumerate() if each.name.startswith("raidlab-campaign")]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_planted_bug_that_was_found_is_not_searched_again(played: PlayedByRule) -> None:
    found = campaign(played, stops_at_first=True)
    count = len(played.played)
    assert campaign(played, resume=LATEST, stops_at_first=True).findings == found.findings
    assert len(played.played) == count


@pytest.mark.parametrize("change", [("id", "../evil"), ("id", "20200101T000000Z"), ("first", -1), ("seeds", -5)])
def test_a_campaign_file_with_altered_values_is_not_resumed(played: PlayedByRule, change: tuple[str, object]) -> None:
    played.rule = lambda _: ""
    name = campaign(played).run
    path = played.host.state.root / "faults" / "campaigns" / name / "campaign.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), change[0]: change[1]}))
    for word in (name, str(change[1])):
        with pytest.raises((SpecError, ResultError)), resumed_campaign(played.host, word):
            pass


def test_findings_that_another_campaign_stored_meanwhile_are_not_removed(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, gather = FindingStore(played.host), vars(campaigns)["gathered"]

    def gathered(*words: Any) -> Gathered:
        for kept in store.all():
            if kept.record.status == "found":
                store.put(msgspec.structs.replace(kept.record, run="another", status="confirmed"), kept.history, {})
        found: Gathered = gather(*words)
        return found

    monkeypatch.setattr(campaigns, "gathered", gathered)
    campaign(played, workers=1)
    kept = {each.record.id: each.record.run for each in store.all()}
    assert {kept.get(f"c1-{seed}") for seed in CUT_SEEDS[:2]} == {"another"}


def test_a_finding_that_cannot_be_removed_after_shrinking_is_reported(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_store: FindingStore, finding: StoredFinding) -> None:
        raise MachineBusy(f"another raidlab is writing finding {finding.record.id}")

    monkeypatch.setattr(FindingStore, "forget", busy)
    notices: list[str] = []
    campaign(played, notice=notices.append)
    for seed in CUT_SEEDS[:2]:
        assert [text for text in notices if f"another raidlab is writing finding c1-{seed}" in text]


def fault(*words: str) -> int:
    return run(["--quiet", "fault", *words])


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("campaign", "--level", "7"), "choose one of 1, 4, 5, 6, 10"),
        (("campaign", "--policy", "raid"), "resync, bitmap, ppl"),
        (("campaign", "--level", "1", "--policy", "ppl"), "PPL needs RAID 5"),
        (("campaign", "--planted", "parity-not-writen"), "parity-not-written"),
        (("campaign", "--resume", "latest", "--seeds", "5"), "use --resume alone"),
        (("campaign", "--resume", "latest"), "there is no campaign in"),
        (("campaign", "--seeds", "0"), "seeds"),
        (("replay", "c9-7"), "version 9"),
        (("findings", "c1-8"), "no finding 'c1-8' is stored"),
        (("findings", "--forget"), "give its id"),
    ],
)
def test_what_cannot_be_is_refused_before_any_machine(
    words: Sequence[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fault(*words) != ExitCode.DONE
    assert what in capsys.readouterr().err


def test_findings_can_be_listed_shown_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    assert fault("findings") == ExitCode.DONE
    assert capsys.readouterr().out == "no findings are stored\n"
    FindingStore(Host.real("tests")).put(RECORD, generated(7), {})
    fault("findings")
    listed = capsys.readouterr().out
    assert "c1-7" in listed
    assert "unreadable" in listed
    fault("findings", "c1-7")
    printed = capsys.readouterr().out
    assert all(act.title() in printed for act in generated(7).acts)
    assert "act 1: unreadable: 2 blocks" in printed
    run(["--json", "fault", "findings", "c1-7"])
    assert json.loads(capsys.readouterr().out)["finding"]["operations"] == 5
    fault("findings", "c1-7", "--forget")
    assert FindingStore(Host.real("tests")).all() == []


def test_a_replay_uses_the_history_of_the_id_or_of_the_stored_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[FaultHistory, list[FaultHistory], int]] = []

    def replayed(arena: Arena, history: FaultHistory, before: list[FaultHistory]) -> HistoryOutcome:
        asked.append((history, before, arena.planted))
        return outcome_of(history, "unreadable" if len(asked) < 4 else "")

    monkeypatch.setattr(campaigns, "replayed", replayed)
    assert fault("replay", "c1-l5-ppl-p7-9-a2", "--times", "3") == ExitCode.FAILED
    bounds = Bounds("5", "ppl")
    assert asked == [(generated(9, bounds), [generated(7, bounds), generated(8, bounds)], 7)] * 3
    assert "3 replays: the same verdict each time" in capsys.readouterr().out
    assert fault("replay", "c1-9") == ExitCode.DONE
    assert "nothing else is wrong" in capsys.readouterr().out
    # As if an earlier version had stored it: the seed no longer generates this history.
    folder = FindingStore(Host.real("tests")).put(RECORD, generated(8), {})
    for word in ("c1-7", str(folder)):
        fault("replay", word)
    assert asked[4:] == [(generated(8), [], 0)] * 2


@pytest.mark.parametrize("is_reached", [True, False])
def test_runs_that_did_not_reach_the_history_are_not_counted(
    is_reached: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    history = generated(9)
    unreached = replace(outcome_of(history, ""), is_reached=False)
    wrong = [outcome_of(history, "unreadable")] if is_reached else []
    monkeypatch.setattr(campaigns, "repeated", lambda *_, **__: Repeats((unreached, *wrong), 2, "7.2"))
    words = ("fault", "replay", "c1-9", "--times", str(1 + len(wrong)))
    assert run(["--quiet", "--on", "qemu:", *words]) == (ExitCode.FAILED if is_reached else ExitCode.MACHINE_LOST)
    *_, line, verdict = capsys.readouterr().out.splitlines()
    assert line.endswith("unreadable: unreadable, as the rule says (1 of 1 run)") is is_reached
    run(["--json", "--on", "qemu:", *words])
    seen = json.loads(capsys.readouterr().out)
    assert (seen["replays"], seen["verdicts"], seen["seen"], len(seen["differences"])) == (is_reached,) * 4
    assert seen["verdict"] == verdict
    monkeypatch.setattr(campaigns, "replayed", lambda *_: unreached)
    assert run(["--quiet", "fault", "replay", "c1-9"]) == ExitCode.MACHINE_LOST
    assert capsys.readouterr().out.endswith(
        "the history was never reached, because the machine became unusable before that\n"
    )


def test_the_summary_of_a_campaign_is_printed_and_sets_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[int, int, float, str, int]] = []
    figures: dict[str, Any] = {"seeds": 3, "seconds": 2.0, "histories_per_second": 1.5, "said_no": {}}
    summaries = [
        CampaignSummary(run="20260101T000000Z", **figures, explained={"write hole": 2}, findings=findings)
        for findings in ((), (RECORD,), (RECORD,), (msgspec.structs.replace(RECORD, planted=5),))
    ]

    def campaign_run(self: Campaign) -> CampaignSummary:
        run = self.journal.run
        asked.append((run.first, run.seeds, run.seconds, run.level, run.planted))
        return summaries.pop(0)

    monkeypatch.setattr(Campaign, "run", campaign_run)
    assert fault("campaign") == ExitCode.DONE
    assert "explained: write hole  2" in capsys.readouterr().out
    assert fault("campaign", "--minutes", "2", "--level", "5", "--first", "30") == ExitCode.FAILED
    printed = capsys.readouterr().out
    assert "c1-7" in printed
    assert run(["--json", "fault", "campaign", "--seeds", "3"]) == ExitCode.FAILED
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "c1-7"
    # A planted bug is meant to be found.
    assert fault("campaign", "--planted", "5") == ExitCode.DONE
    assert asked == [(1, 1000, 0.0, "", 0), (30, 0, 120.0, "5", 0), (1, 3, 0.0, "", 0), (1, 0, 0.0, "", 5)]


PATCHES = Path(__file__).resolve().parents[3] / "provision/kernel/planted"
SWITCH_PATCH = "00-switch.patch"


def test_every_patch_is_in_the_list_and_every_bug_has_its_patch() -> None:
    assert [bug.number for bug in planted_bugs()] == list(range(1, len(planted_bugs()) + 1))
    assert len({bug.name for bug in planted_bugs()}) == len(planted_bugs()) >= 12
    found = {path.name for path in PATCHES.iterdir()}
    assert found == {SWITCH_PATCH, *(bug.patch for bug in planted_bugs())}


@pytest.mark.parametrize("bug", planted_bugs(), ids=lambda bug: bug.name)
def test_a_patch_is_described_and_changes_nothing_unless_its_bug_is_enabled(bug: PlantedBug) -> None:
    header, _, hunks = (PATCHES / bug.patch).read_text(encoding="ascii").partition("\n--- a/")
    assert header.startswith(f"Planted bug {bug.number}: ")
    for word in ("\nShows: ", "romise"):
        assert word in header
    added = "\n".join(line for line in hunks.splitlines() if line.startswith("+"))
    assert {int(number) for number in re.findall(r"\bmd_planted\W+(\d+)", added)} == {bug.number}


def place_kernel(tmp_path: Path, *beside: str) -> Path:
    folder = tmp_path / "raidlab/kernels/planted"
    folder.mkdir(parents=True)
    for name in ("linux", *beside):
        (folder / name).write_text("#!/bin/sh\n", encoding="ascii")
        (folder / name).chmod(0o755)
    return folder / "linux"


def test_a_machine_with_them_runs_their_kernel_in_virtual_time(host: Host, tmp_path: Path) -> None:
    path = place_kernel(tmp_path, "release", "quick_clock.so")
    assert str(on_planted_kernel(parse_target("uml:?mem=1G"), host)) == f"uml:?mem=1G&time=virtual&kernel={path}"
    once = on_planted_kernel(parse_target("uml:?time=virtual"), host)
    assert on_planted_kernel(once, host) == once == parse_target(str(once))


@pytest.mark.parametrize("is_half_there", [False, True])
def test_without_the_kernel_with_planted_bugs_the_error_names_the_build_command(
    host: Host, tmp_path: Path, is_half_there: bool
) -> None:
    if is_half_there:
        place_kernel(tmp_path)
    with pytest.raises(ToolMissing, match="planted bugs is not built") as missing:
        on_planted_kernel(parse_target("uml:"), host)
    assert "make planted-kernel" in missing.value.hint


def test_a_thread_that_cannot_be_started_is_not_waited_for(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="start new thread"):
        campaign(played, workers=2)
