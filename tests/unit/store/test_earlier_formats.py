"""State folders of earlier raidlab versions are read as they were written.

``data/earlier`` is a state folder that raidlab 0.1.0 wrote before the stores were unified: two results, the second of a
run that was killed, a sweep, a drill with its ledger, an outcome, an exam, a scenario, a campaign, crash points, a
finding, and a run of mdadm's tests. Its functions made the finding, the exam and that run without a machine; the typed
commands are two lines written by hand. Locks, disks and logs are left out, and the checkout has another name.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from lab.drills.case import DrillCase, DrillStore, begin_exam
from lab.errors import DrillError
from lab.faults.campaign import FindingStore, SeedDone, resumed_campaign
from lab.faults.crash_points import stored_points
from lab.faults.history import generated
from lab.faults.oracle import read_ledger
from lab.faults.scenario_run import FaultVerdict, load_run, stored_runs
from lab.machine import Host
from lab.md_tests.record import SuiteJournal, SuiteOutcome, SuiteRun, suite_runs
from lab.results.record import RunStatus
from lab.results.store import ResultStore
from lab.store import LATEST
from lab.sweep.cells import SweepStore
from tests.unit.disks.machines import host_in

EARLIER = Path(__file__).with_name("data") / "earlier"
WHOLE, BROKEN_OFF = "20261127T034600Z-tiny", "20261127T034626Z-tiny"
TORN = b'{"torn'


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """An earlier state folder, in which each journal ends with a line that a power failure truncated."""
    shutil.copytree(EARLIER, tmp_path / "state", copy_function=shutil.copyfile)
    for path in [tmp_path / "state", *(tmp_path / "state").rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
        if path.suffix == ".jsonl":
            path.write_bytes(path.read_bytes() + TORN)
    return host_in(tmp_path / "state")


def journals(host: Host) -> list[Path]:
    return [path for path in host.state.root.rglob("*.jsonl") if path.read_bytes().endswith(TORN)]


def test_results(host: Host) -> None:
    store = ResultStore(host.state.results)
    assert store.ids() == (BROKEN_OFF, WHOLE)
    whole, broken_off = store.load(WHOLE), store.load(LATEST)
    assert (whole.status, len(whole.cells)) == (RunStatus.COMPLETE, 2)
    assert (broken_off.id, broken_off.status, len(broken_off.cells)) == (BROKEN_OFF, RunStatus.INCOMPLETE, 1)
    assert all(store.raw_json(each.id, name) for each in (whole, broken_off) for name in each.files)
    with store.resume(BROKEN_OFF) as journal:
        assert len(journal.record.missing_keys) == 1
        journal.add(msgspec.structs.replace(broken_off.cells[0], repeat=1))
        assert journal.finish().status is RunStatus.COMPLETE
    assert len(store.load(BROKEN_OFF).cells) == 2


def test_sweeps(host: Host) -> None:
    store = SweepStore(host)
    (sweep_id,) = store.ids()
    folder = store.find(LATEST)
    assert (folder.id, folder.state_words()) == (sweep_id, ("2 of 2", "complete"))
    assert sorted(round(row.iops) for row in folder.result().rows) == [75, 150]
    assert store.of_id("tiny-sweep") is not None


def test_scenarios_and_crash_points(host: Host) -> None:
    (run,) = stored_runs(host)
    (outcome,) = load_run(host).outcomes
    assert (run.asked, outcome.verdict) == ((outcome.id,), FaultVerdict.AS_EXPECTED)
    assert load_run(host, run.id[:9]).is_expected
    (points,) = stored_points(host)
    assert points.points == sum(points.judgements.values())


def test_campaigns_go_on(host: Host) -> None:
    with resumed_campaign(host, LATEST) as journal:
        assert sorted(journal.done) == [1, 2]
        journal.add(SeedDone(3))
    with resumed_campaign(host, journal.run.id) as again:
        assert sorted(again.done) == [1, 2, 3]


def test_findings(host: Host) -> None:
    (kept,) = FindingStore(host).all()
    assert (kept.record.id, kept.history) == ("c1-7", generated(7))
    assert FindingStore(host).find("c1-7") == kept


def test_runs_of_mdadms_tests(host: Host) -> None:
    runs = suite_runs(host)
    run = runs.read_header(runs.find(LATEST), SuiteRun)
    journal = SuiteJournal(runs, run)
    assert [each.outcome for each in journal.results] == [SuiteOutcome.PASSED, SuiteOutcome.FAILED]
    assert journal.left == ("01c",)
    assert (journal.logs / journal.results[1].logs[0]).read_text() == "+ false\n"


def test_drills_and_exams(host: Host) -> None:
    (outcome,) = DrillStore(host).all()
    assert outcome.drill == "01-dropped-members"
    case = DrillCase.find(host.state.lab_folder("default"))
    assert case is not None
    assert [each.line for each in case.commands()] == ["mdadm --examine /dev/ubdb", "raidlab disks"]
    with pytest.raises(DrillError, match="the first attempt"):
        begin_exam(host, "11-second-error", seed="", minutes=45, again=False)
    assert begin_exam(host, "11-second-error", seed="", minutes=45, again=True).attempt == 2


def test_the_ledger_of_an_oracle(host: Host) -> None:
    (file,) = host.state.lab_folder("default").glob("drill/oracle-*.jsonl")
    region, events = read_ledger(file)
    assert region.fills == 1
    assert len(events) > 100


def test_every_journal_of_the_folder_is_read_above(host: Host) -> None:
    assert sorted(path.name for path in journals(host)) == [
        *("cells.jsonl", "commands.jsonl", "done.jsonl", "exams.jsonl", "oracle-run-raidlab-mnt-drill.jsonl"),
        *("outcomes.jsonl", "results.jsonl"),
    ]
