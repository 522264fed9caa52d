"""Campaigns: every seed once, each finding stored first, shrunk by delta debugging, and continued after any end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.errors import MachineBusy, ResultError, SpecError
from lab.faults import campaign as campaigns
from lab.faults.campaign import (
    Arena,
    Campaign,
    CampaignHooks,
    CampaignJournal,
    CampaignSummary,
    Evidence,
    FindingRecord,
    FindingStore,
    KeptFinding,
    SeedDone,
    Shrinker,
    begun_campaign,
    history_of,
    plain_script,
    resumed_campaign,
    seen_lines,
)
from lab.faults.history import ActKind, FaultHistory, generated, parse_id
from lab.machine import Host
from lab.store import LATEST
from tests.unit.faults.played_histories import PlayedByRule, Rule, host_in

RECORD = FindingRecord(id="c1-7", kind="unreadable", text="2 blocks", title="RAID 5 of 4", act=1, differences=())


def test_what_is_kept_is_found_by_its_id_and_by_its_folder(tmp_path: Path) -> None:
    store, history = FindingStore(host_in(tmp_path)), generated(7)
    folder = store.keep(RECORD, history, {"kernel.log": b"all of it"})
    for word in ("c1-7", str(folder)):
        kept = store.find(word)
        assert kept is not None
        assert (kept.record, kept.history, kept.folder) == (RECORD, history, folder)
    assert (folder / "kernel.log").read_bytes() == b"all of it"
    assert store.find("c1-8") is None
    assert [each.record.id for each in store.all()] == ["c1-7"]
    store.remove("c1-7")
    assert store.all() == []


def test_a_finding_is_replaced_as_a_whole(tmp_path: Path) -> None:
    store = FindingStore(host_in(tmp_path))
    store.keep(RECORD, generated(7), {"old.txt": b"old"})
    folder = store.keep(RECORD, generated(7), {"new.txt": b"new"})
    assert {path.name for path in folder.iterdir()} == {"finding.json", "history.json", "new.txt"}
    assert [path.name for path in store.root.glob("[!.]*")] == ["c1-7"]


@pytest.mark.parametrize("is_new_there", [False, True])
def test_one_that_was_being_replaced_when_the_campaign_was_killed_is_still_there(
    tmp_path: Path, is_new_there: bool
) -> None:
    store = FindingStore(host_in(tmp_path))
    folder = store.keep(RECORD, generated(7), {"old.txt": b"old"})
    # Of a process that is gone for sure: the kernel gives out no such numbers.
    folder.rename(store.root / ".replacing-c1-7.999999999")
    if is_new_there:
        store.keep(RECORD, generated(7), {"new.txt": b"new"})
    (store.root / ".importing-c1-7.999999999").mkdir()
    store.remove_leftovers()
    assert [path.name for path in store.root.glob("[!.]*")] == ["c1-7"]
    assert [each.record.id for each in store.all()] == ["c1-7"]
    assert (folder / "old.txt").exists() != is_new_there


def test_one_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FindingStore(host_in(tmp_path))
    folder = store.keep(RECORD, generated(7), {"old.txt": b"old"})

    def refuse(*_: object) -> None:
        raise ResultError("no space left on device")

    monkeypatch.setattr("lab.store.write_file", refuse)
    with pytest.raises(ResultError):
        store.keep(RECORD, generated(7), {"new.txt": b"new"})
    assert (folder / "old.txt").read_bytes() == b"old"
    assert [path.name for path in store.root.glob("[!.]*")] == ["c1-7"]


def test_a_name_that_leads_elsewhere_and_a_damaged_record_are_refused(tmp_path: Path) -> None:
    store = FindingStore(host_in(tmp_path))
    with pytest.raises(SpecError):
        store.find("..")
    folder = store.keep(RECORD, generated(7), {})
    (folder / "finding.json").write_text("{", encoding="utf-8")
    with pytest.raises(ResultError):
        store.find("c1-7")
    assert store.all() == []


def test_every_history_is_a_script_that_the_shell_understands(tmp_path: Path) -> None:
    kinds = set()
    for seed in range(1, 120):
        history = generated(seed)
        kinds |= {act.kind for act in history.acts}
        script = tmp_path / f"{seed}.sh"
        script.write_text(plain_script(history, title="what\nwas seen", finding_id=f"c1-{seed}"), encoding="utf-8")
    assert kinds == set(ActKind)
    scripts = sorted(map(str, tmp_path.glob("*.sh")))
    check = 'for script; do bash -n "$script" || exit 1; done'
    done = subprocess.run(["bash", "-c", check, "check", *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_writes_what_the_history_writes() -> None:
    history = generated(1)
    lines = plain_script(history, title="t", finding_id="c1-1").splitlines()
    writes = [write for act in history.acts for write in act.writes]
    assert sum(line.startswith("w ") for line in lines) == sum(count > 0 for _, count, _ in writes) + -(
        -history.shape.block_map().blocks // 64
    )
    assert sum(line == "flush" for line in lines) == sum(count == 0 for _, count, _ in writes) + 1


def test_only_what_is_in_the_store_is_forgotten_and_by_its_folder(tmp_path: Path) -> None:
    store = FindingStore(host_in(tmp_path))
    folder = store.keep(RECORD, generated(7), {})
    copy = shutil.copytree(folder, tmp_path / "copy")
    elsewhere = store.find(str(copy))
    assert elsewhere is not None
    with pytest.raises(SpecError, match="is not in the lab's store"):
        store.forget(elsewhere)
    assert folder.is_dir()
    kept = store.find("c1-7")
    assert kept is not None
    store.forget(kept)
    assert not folder.exists()


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    store, told = FindingStore(host_in(tmp_path)), list[str]()
    folder = store.keep(RECORD, generated(7), {})
    shutil.copytree(folder, store.root / "c1-9")
    (shutil.copytree(folder, store.root / "c1-8") / "finding.json").write_text("{", encoding="utf-8")
    (store.root / "c1-6").mkdir()
    assert [each.record.id for each in store.all(told.append)] == ["c1-7"]
    assert [line.split(":")[0] for line in told] == [f"finding c1-{n} cannot be read" for n in (6, 8, 9)]


SHOWN = "silently corrupt"
LONG = next(
    history
    for seed in range(1, 500)
    if len((history := generated(seed)).acts) >= 11 and history.writes > 40 and not history.acts[-1].writes
)
WRITES = [write for act in LONG.acts for write in act.writes]
ONCE = [write for write in WRITES if WRITES.count(write) == 1]


def shrunk_by(
    rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_plays: int = 400
) -> tuple[Shrinker, PlayedByRule]:
    played = PlayedByRule(rule, host_in(tmp_path))
    monkeypatch.setattr(campaigns, "play", played.play)
    shrinker = Shrinker(played.arena, SHOWN, most_plays=most_plays)
    shrinker.shrink(LONG)
    return shrinker, played


def test_what_is_left_is_what_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last, needed = LONG.acts[-1], {ONCE[1], ONCE[9]}

    def rule(history: FaultHistory) -> str:
        written = {write for act in history.acts if act.kind is ActKind.LOAD for write in act.writes}
        return SHOWN if needed <= written and last in history.acts else ""

    shrinker, played = shrunk_by(rule, tmp_path, monkeypatch)
    smallest = shrinker.smallest
    assert {write for act in smallest.acts for write in act.writes if act.kind is ActKind.LOAD} == needed
    assert smallest.acts[-1] == last
    assert len(smallest.acts) <= 3
    assert [len(each.acts) for each in shrinker.steps] == sorted((len(s.acts) for s in shrinker.steps), reverse=True)
    assert all(rule(each) == SHOWN for each in shrinker.steps)
    assert len(played.played) < 200


def test_another_kind_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(history: FaultHistory) -> str:
        return SHOWN if len(history.acts) > 5 else "unreadable"

    shrinker, _ = shrunk_by(rule, tmp_path, monkeypatch)
    assert len(shrinker.smallest.acts) == 6


def test_what_every_history_shows_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrinker, played = shrunk_by(lambda _: SHOWN, tmp_path, monkeypatch)
    assert shrinker.smallest == msgspec.structs.replace(LONG, acts=())
    assert played.opened == 1


def test_it_ends_after_so_many_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrinker, played = shrunk_by(lambda _: "", tmp_path, monkeypatch, most_plays=7)
    assert shrinker.smallest == LONG
    assert len(played.played) == 7


def test_a_machine_that_is_lost_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = PlayedByRule(
        lambda history: SHOWN if len(history.acts) > 3 else "", host_in(tmp_path), ends_machine=frozenset({SHOWN})
    )
    monkeypatch.setattr(campaigns, "play", played.play)
    shrinker = Shrinker(played.arena, SHOWN)
    shrinker.shrink(LONG)
    assert len(shrinker.smallest.acts) == 4
    # Each time that it showed, it took the machine with it.
    shown = sum(len(history.acts) > 3 for history in played.played)
    assert played.opened in (shown, shown + 1)


KIND = "lost after acknowledgement"
CUT_SEEDS = [seed for seed in range(1, 60) if any(act.kind is ActKind.CUT for act in generated(seed).acts)]
ASKED: dict[str, Any] = {"first": 1, "seeds": 60, "seconds": 0.0}


def shows_cuts(history: FaultHistory) -> str:
    """A bug in what a power cut leaves, in seeds of which there are few."""
    is_cut = any(act.kind is ActKind.CUT for act in history.acts)
    return KIND if is_cut and history.seed in CUT_SEEDS[:2] else ""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_in(tmp_path)


@pytest.fixture
def played(host: Host, monkeypatch: pytest.MonkeyPatch) -> PlayedByRule:
    """All is played by a rule; ``shows_cuts`` unless a test sets another."""
    found = PlayedByRule(shows_cuts, host)
    monkeypatch.setattr(campaigns, "play", found.play)
    monkeypatch.setattr(campaigns, "replayed", found.replayed)

    def gathered(arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = ()) -> Evidence:
        outcome = found.replayed(arena, history, before)
        return Evidence(outcome, {"seen.jsonl": seen_lines(outcome), "kernel.log": b"nothing"})

    monkeypatch.setattr(campaigns, "gathered", gathered)
    return found


def run(played: PlayedByRule, *, resume: str = "", **more: Any) -> CampaignSummary:
    target = "uml:?time=virtual"
    opened = resumed_campaign(played.host, resume) if resume else begun_campaign(played.host, target, **ASKED)
    with opened as journal:
        return Campaign(journal, played.arena, **more).run()


def test_every_seed_is_played_and_what_has_its_explanation_is_counted(played: PlayedByRule) -> None:
    played.rule = lambda _: ""
    summary = run(played)
    assert sorted(history.seed for history in played.played) == list(range(1, 61))
    assert (summary.seeds, summary.findings, summary.is_complete) == (60, (), True)
    assert summary.explained == {"write hole": 60}


def test_a_finding_is_kept_shrunk_with_all_that_a_maintainer_needs(played: PlayedByRule) -> None:
    summary = run(played)
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
    # The finding as it was first seen is no longer there beside it.
    assert len(FindingStore(played.host).all()) == 2


def test_without_shrinking_it_is_kept_as_it_is(played: PlayedByRule) -> None:
    summary = run(played, shrinks=False)
    assert {record.status for record in summary.findings} == {"confirmed"}
    assert {record.id for record in summary.findings} == {f"c1-{seed}" for seed in CUT_SEEDS[:2]}


def test_what_needs_the_histories_before_it_is_replayed_behind_them(played: PlayedByRule) -> None:
    # Seen only where the machine had played the seed before.
    def rule(history: FaultHistory) -> str:
        return KIND if history.seed == 12 and played.played[-2:-1] == [generated(11)] else ""

    played.rule = rule
    summary = run(played, workers=1)
    assert [record.id for record in summary.findings] == ["c1-12-a11"]


def test_what_a_replay_does_not_show_is_kept_and_said_so(played: PlayedByRule) -> None:
    seen = []

    def rule(history: FaultHistory) -> str:
        seen.append(history.seed)
        return KIND if history.seed == 12 and seen.count(12) == 1 else ""

    played.rule = rule
    summary = run(played)
    assert [(record.id, record.status) for record in summary.findings] == [("c1-12", "unsteady")]


def test_a_lost_machine_is_a_finding_and_the_other_seeds_are_played_all_the_same(played: PlayedByRule) -> None:
    played.rule, played.ends_machine = (lambda h: "machine lost" if h.seed == 7 else ""), frozenset({"machine lost"})
    summary = run(played, shrinks=False)
    assert [record.kind for record in summary.findings] == ["machine lost"]
    assert summary.seeds == 60
    assert {history.seed for history in played.played} == set(range(1, 61))


def test_it_ends_with_the_first_finding_where_a_planted_bug_is_hunted(played: PlayedByRule) -> None:
    summary = run(played, stops_at_first=True, workers=1)
    assert len(summary.findings) == 1
    assert summary.seeds < 60
    assert summary.found_after_seconds is not None


def test_what_shows_without_the_planted_bug_is_no_find_and_the_hunt_goes_on(played: PlayedByRule) -> None:
    first, second = CUT_SEEDS[:2]
    played.planted = 3
    played.control = lambda history: KIND if history.seed == first else ""
    notices: list[str] = []
    summary = run(played, stops_at_first=True, workers=1, hooks=CampaignHooks(notices.append))
    assert [parse_id(record.id).seed for record in summary.findings] == [second]
    assert summary.explained["shows without the planted bug too"] == 1
    assert any(f"seed {first}: {KIND}: shows without the planted bug too" in text for text in notices)


def test_of_two_that_see_one_at_the_same_time_one_is_kept(played: PlayedByRule) -> None:
    both, waiting = threading.Barrier(2, timeout=30), {1, 21}
    played.planted, played.rule = 3, lambda _: KIND

    def control(_history: FaultHistory) -> str:
        # While the kernel without the bug is tried, the other worker has long seen its own.
        time.sleep(0.3)
        return ""

    def wait_once(history: FaultHistory) -> None:
        if history.seed in waiting:
            waiting.remove(history.seed)
            both.wait()

    played.control, played.on_history = control, wait_once
    summary = run(played, stops_at_first=True, workers=2, shrinks=False)
    assert len(summary.findings) == 1


def test_a_find_is_shrunk_only_as_far_as_it_needs_the_planted_bug(played: PlayedByRule) -> None:
    played.planted = 3
    # Alone, the power cut shows the same without the bug.
    played.control = lambda history: KIND if len(history.acts) < 2 else ""
    summary = run(played, stops_at_first=True, workers=1)
    assert [record.operations for record in summary.findings] != []
    assert all(record.operations >= 2 for record in summary.findings)


class Stop(BaseException):
    """As Ctrl-C."""


@pytest.mark.parametrize("at", [1, 9, 30, 59])
def test_an_interrupted_campaign_has_lost_nothing_and_goes_on(played: PlayedByRule, at: int) -> None:
    def stop(_: FaultHistory) -> None:
        if len(played.played) == at:
            played.on_history = lambda _: None
            raise Stop

    played.on_history = stop
    with pytest.raises(Stop):
        run(played)
    done = {history.seed for history in played.played}
    before = {each.record.id for each in FindingStore(played.host).all()}
    assert {parse_id(name).seed for name in before} >= done & set(CUT_SEEDS[:2]) - {played.played[-1].seed}
    summary = run(played, resume=LATEST)
    assert summary.seeds == 60
    assert sorted(parse_id(record.id).seed for record in summary.findings) == CUT_SEEDS[:2]
    assert {record.status for record in summary.findings} == {"shrunk"}


def interrupted_before_noting(played: PlayedByRule, monkeypatch: pytest.MonkeyPatch, **more: Any) -> list[str]:
    """A campaign that ends between keeping a finding and noting its seed; then what is told when it is gone on with."""
    told: list[str] = []

    def add(journal: CampaignJournal, line: SeedDone) -> None:
        if line.finding:
            raise Stop
        real(journal, line)

    real = CampaignJournal.add
    with monkeypatch.context() as patched:
        patched.setattr(CampaignJournal, "add", add)
        with pytest.raises(Stop):
            run(played, workers=1, **more)
    assert [each.record.status for each in FindingStore(played.host).all()] == ["found"]
    summary = run(played, resume=LATEST, workers=1, hooks=CampaignHooks(notice=told.append), **more)
    assert {record.status for record in summary.findings} == {"shrunk"}
    return told


def test_what_was_kept_and_not_noted_is_looked_into_and_not_played_again(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = f"c1-{CUT_SEEDS[0]}"
    told = interrupted_before_noting(played, monkeypatch)
    assert [words for words in told if words.startswith(f"stored as {first}-s")]
    assert not [words for words in told if words.startswith(f"{first}: {KIND}")]


def test_no_other_bug_is_looked_for_once_what_was_left_is_looked_into(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = interrupted_before_noting(played, monkeypatch, stops_at_first=True)
    assert [words for words in told if words.startswith("stored as ")]
    assert not [words for words in told if words.startswith(f"c1-{CUT_SEEDS[1]}")]


def test_what_is_left_over_is_listed_before_any_worker_begins(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    real = FindingStore.all

    def listing(store: FindingStore) -> list[KeptFinding]:
        listed.append(threading.current_thread().name)
        return real(store)

    monkeypatch.setattr(FindingStore, "all", listing)
    run(played)
    # Whoever lists later takes up what another worker has only just kept.
    assert not [name for name in listed if name.startswith("raidlab-campaign")]


def test_a_folder_that_takes_no_more_is_told_with_the_id_that_replays(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise ResultError("no space left on device", hint="free some")

    monkeypatch.setattr(FindingStore, "keep", full)
    with pytest.raises(ResultError) as caught:
        run(played)
    assert f"c1-{CUT_SEEDS[0]}" in caught.value.message or f"c1-{CUT_SEEDS[1]}" in caught.value.message
    assert "raidlab fault replay c1-" in caught.value.hint


def test_what_a_killed_campaign_left_half_made_is_swept(played: PlayedByRule) -> None:
    root = FindingStore(played.host).root
    played.host.state.make(root, what="the folder for findings")
    dead = root / ".importing-c1-3.999999"
    dead.mkdir()
    played.rule = lambda _: ""
    run(played)
    assert not dead.exists()


def test_a_torn_line_is_played_again(played: PlayedByRule) -> None:
    played.rule = lambda _: ""
    run(played)
    (journal,) = (played.host.state.root / "faults" / "campaigns").glob("*/done.jsonl")
    whole = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(whole[:40]) + whole[40][:5])
    played.played.clear()
    assert run(played, resume=LATEST).seeds == 60
    assert len(played.played) == 20


def test_only_one_goes_on_with_a_campaign_and_only_with_one_that_is_kept(played: PlayedByRule) -> None:
    with begun_campaign(played.host, "uml:", **ASKED) as journal:
        again = resumed_campaign(played.host, journal.run.id)
        with pytest.raises(MachineBusy):
            again.__enter__()
    with pytest.raises(ResultError, match="no campaign"), resumed_campaign(played.host, "20200101T000000Z"):
        pass


def test_a_signal_is_raised_only_when_no_worker_is_at_work_any_more(played: PlayedByRule) -> None:
    at_work = threading.Event()

    class Signalled(BaseException):
        pass

    def handle(*_: object) -> None:
        raise Signalled

    def rule(_: FaultHistory) -> str:
        # As a machine that takes a while to close.
        os.kill(os.getpid(), signal.SIGUSR1)
        at_work.set()
        time.sleep(0.5)
        at_work.clear()
        return ""

    played.rule = rule
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(Signalled):
            run(played, workers=1)
        assert not at_work.is_set()
        assert not [each for each in threading.enumerate() if each.name.startswith("raidlab-campaign")]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_planted_bug_that_was_found_is_not_looked_for_again(played: PlayedByRule) -> None:
    found = run(played, stops_at_first=True)
    count = len(played.played)
    assert run(played, resume=LATEST, stops_at_first=True).findings == found.findings
    assert len(played.played) == count


@pytest.mark.parametrize("change", [("id", "../evil"), ("id", "20200101T000000Z"), ("first", -1), ("seeds", -5)])
def test_a_campaign_that_somebody_has_written_anew_is_not_gone_on_with(
    played: PlayedByRule, change: tuple[str, object]
) -> None:
    played.rule = lambda _: ""
    name = run(played).run
    path = played.host.state.root / "faults" / "campaigns" / name / "campaign.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), change[0]: change[1]}))
    for word in (name, str(change[1])):
        with pytest.raises((SpecError, ResultError)), resumed_campaign(played.host, word):
            pass


def test_what_another_campaign_has_found_too_stays(played: PlayedByRule) -> None:
    first = run(played)
    second = run(played, shrinks=False)
    third = run(played)
    ids = {record.id for record in (*first.findings, *second.findings)}
    assert {each.record.id for each in FindingStore(played.host).all()} <= ids
    assert {record.id for record in third.findings} >= {record.id for record in first.findings}
    assert len(run(played, resume=first.run).findings) >= 2


def test_what_another_campaign_has_kept_meanwhile_is_not_removed(
    played: PlayedByRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, gather = FindingStore(played.host), vars(campaigns)["gathered"]

    def gathered(*words: Any) -> Evidence:
        for kept in store.all():
            if kept.record.status == "found":
                store.keep(msgspec.structs.replace(kept.record, run="another", status="confirmed"), kept.history, {})
        found: Evidence = gather(*words)
        return found

    monkeypatch.setattr(campaigns, "gathered", gathered)
    run(played, workers=1)
    kept = {each.record.id: each.record.run for each in store.all()}
    assert {kept.get(f"c1-{seed}") for seed in CUT_SEEDS[:2]} == {"another"}


def test_rules_are_heard() -> None:
    rule: Rule = shows_cuts
    assert rule(generated(CUT_SEEDS[0])) == KIND
