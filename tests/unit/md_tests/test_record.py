"""Runs of mdadm's suite are kept result by result, and go on where they broke off."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from lab.errors import MachineBusy, ResultError, SpecError
from lab.host.processes import HostProcesses
from lab.machine import Host
from lab.machine.state_folder import StateFolder
from lab.md_tests.record import FOLDER, Suite, SuiteOutcome, SuiteResult, find_suite, new_run, resumed_run
from tests.unit.fakes import FakeClock
from tests.unit.md_tests.checkouts import PASSES, make_checkout

TESTS = ("00a", "00b", "01c")
TARGET = "uml:?time=virtual"
PASSED = SuiteResult(test="00a", outcome=SuiteOutcome.PASSED, machine_seconds=1.5, computer_seconds=9.0)
FAILED = SuiteResult(test="00b", outcome=SuiteOutcome.FAILED, why="no", last_lines=("+ false",), computer_seconds=1.0)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    program = shutil.which("true") or ""
    return find_suite(make_checkout(tmp_path / "mdadm", dict.fromkeys(TESTS, PASSES), program=program))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    processes, clock = HostProcesses(), FakeClock()
    real = Host.real("tests")
    return Host(processes, real.files, clock, StateFolder(tmp_path / "state", processes, clock))


def runs(host: Host) -> list[Path]:
    return [path for path in (host.state.root / FOLDER).iterdir() if path.is_dir()]


def interrupted(host: Host, suite: Suite, *results: SuiteResult) -> None:
    """A run that is ended by Ctrl-C after these."""
    with new_run(host, suite, TESTS, TARGET) as journal:
        journal.note_machine("mdadm - v4.6", "6.1.192")
        assert journal.left == TESTS
        for result in results:
            journal.add(result, {"log": "+ false\n" * (result is FAILED), "kernel.log": ""})
        raise KeyboardInterrupt


def test_a_run_that_broke_off_goes_on(host: Host, suite: Suite) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(host, suite, PASSED, FAILED)
    kept = msgspec.structs.replace(FAILED, logs=("00b.log",))
    with resumed_run(host, suite) as journal:
        assert journal.results == [PASSED, kept]
        assert journal.left == ("01c",)
        assert (journal.run.mdadm, journal.run.kernel, journal.run.target) == ("mdadm - v4.6", "6.1.192", TARGET)
        assert (journal.logs / "00b.log").read_text() == "+ false\n"
        assert (journal.copy / "tests/00a").read_text() == PASSES
        journal.add(SuiteResult(test="01c", outcome=SuiteOutcome.SKIPPED), {})
        journal.forget_copy()
    with resumed_run(host, suite) as journal:
        assert journal.left == ()
        assert not journal.copy.exists()
    assert len(runs(host)) == 1


def test_a_run_without_a_result_leaves_nothing(host: Host, suite: Suite) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(host, suite)
    assert runs(host) == []
    with pytest.raises(SpecError, match="no run of"), resumed_run(host, suite):
        pass


def test_the_latest_run_of_this_checkout_is_meant(host: Host, suite: Suite, tmp_path: Path) -> None:
    other = find_suite(shutil.copytree(suite.folder, tmp_path / "other"))
    for each, why in ((suite, "first"), (suite, "second"), (other, "other")):
        with new_run(host, each, TESTS, TARGET) as journal:
            journal.add(SuiteResult(test="00a", outcome=SuiteOutcome.FAILED, why=why), {})
    assert len({path.name for path in runs(host)}) == 3
    with resumed_run(host, suite) as journal:
        assert journal.results[0].why == "second"


def test_a_torn_line_is_cut_off_and_its_test_runs_again(host: Host, suite: Suite) -> None:
    with new_run(host, suite, TESTS, TARGET) as journal:
        journal.add(PASSED, {})
        journal.add(FAILED, {})
        path = journal.folder / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    with resumed_run(host, suite) as journal:
        assert journal.left == ("00b", "01c")
        journal.add(FAILED, {})
    with resumed_run(host, suite) as journal:
        assert journal.results == [PASSED, FAILED]


def test_damage_is_told(host: Host, suite: Suite) -> None:
    with new_run(host, suite, TESTS, TARGET) as journal:
        journal.add(PASSED, {})
        path = journal.folder / "results.jsonl"
    path.write_text('{"test": "00a", "outcome": "well"}\n')
    with pytest.raises(ResultError, match="damaged"), resumed_run(host, suite):
        pass


def test_another_checkout_kernel_or_mdadm_is_another_run(host: Host, suite: Suite) -> None:
    with new_run(host, suite, TESTS, TARGET) as journal:
        journal.note_machine("mdadm - v4.6", "6.1.192")
        journal.add(PASSED, {})
    with resumed_run(host, suite) as journal:
        journal.note_machine("mdadm - v4.6", "6.1.192")
        for mdadm, kernel in (("mdadm - v4.7", "6.1.192"), ("mdadm - v4.6", "7.2")):
            with pytest.raises(SpecError, match="the results so far are from"):
                journal.note_machine(mdadm, kernel)
    (suite.folder / "tests/01c").write_text("false\n")
    with pytest.raises(SpecError, match="has changed since"), resumed_run(host, suite):
        pass


def test_only_one_writes_a_run(host: Host, suite: Suite) -> None:
    with new_run(host, suite, TESTS, TARGET) as journal:
        journal.add(PASSED, {})
        with pytest.raises(MachineBusy, match="another raidlab is writing"), resumed_run(host, suite):
            pass


@pytest.mark.parametrize("outcome", list(SuiteOutcome))
def test_what_is_good(outcome: SuiteOutcome) -> None:
    is_good = outcome in (SuiteOutcome.PASSED, SuiteOutcome.KNOWN, SuiteOutcome.SKIPPED)
    assert SuiteResult(test="00a", outcome=outcome).is_good is is_good
    assert not SuiteResult(test="00a", outcome=outcome, kernel=("WARNING: CPU: 0",)).is_good
