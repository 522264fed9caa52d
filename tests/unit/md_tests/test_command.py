"""``raidlab md-tests`` without a machine: lists, refusals, tables, and the choice of the machine."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.context import OPTIONS, Options
from lab.cli.main import run
from lab.errors import MachineLost, SpecError
from lab.machine import Host, parse_target
from lab.md_tests.record import (
    EndOfTest,
    LimitReached,
    SuiteJournal,
    SuiteOutcome,
    SuiteResult,
    SuiteRun,
    as_value,
    csv_text,
    result_line,
    result_table,
    suite_runs,
)
from lab.md_tests.runner import MOST_LIVE_LOG_BYTES, SuiteLimits, SuiteMachine, Witness, suite_target
from tests.unit.disks.machines import host_in
from tests.unit.fakes import FakeMachine, as_machine
from tests.unit.md_tests.checkouts import PASSES, make_checkout
from tests.waiting import PATIENCE_SECONDS

RESULTS = (
    SuiteResult(test="00a", outcome=SuiteOutcome.PASSED, machine_seconds=0.5, computer_seconds=9.0),
    SuiteResult(
        test="00b",
        outcome=SuiteOutcome.KNOWN,
        why="active raid5 not found",
        upstream="always fails",
        machine_seconds=61.0,
        computer_seconds=10.0,
        logs=("00b.log",),
    ),
    SuiteResult(test="00c", outcome=SuiteOutcome.PASSED, upstream="Sometimes", machine_seconds=1.0),
    SuiteResult(test="00d", outcome=SuiteOutcome.LOST, why="crashed", kernel=("Kernel panic - not syncing: x",)),
)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("RAIDLAB_ON", raising=False)
    OPTIONS.set(Options())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    tests = dict.fromkeys(("00a", "00b", "01c"), PASSES)
    return make_checkout(tmp_path / "mdadm", tests, broken={"00b": "always fails\n\nFails with errors"})


@pytest.fixture
def journal(tmp_path: Path) -> SuiteJournal:
    run = SuiteRun(
        id="20261124T080000Z",
        created_utc="2026-11-24T08:00:00Z",
        checkout="/home/mdadm",
        digest="0" * 64,
        target="uml:?time=virtual",
        tests=("00a", "00b", "00c", "00d", "00e"),
        mdadm="mdadm - v4.6",
        kernel="6.1.192",
    )
    host = host_in(tmp_path)
    (suite_runs(host).root / run.id).mkdir(parents=True, mode=0o700)
    journal = SuiteJournal(suite_runs(host), run)
    journal.results = list(RESULTS)
    return journal


def test_tests_are_listed_without_anything_built(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["md-tests", str(checkout), "00*", "--list"]) == 0
    printed = capfd.readouterr().out
    assert "always fails" in printed
    assert "01c" not in printed
    assert run(["--json", "md-tests", str(checkout), "--list"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert [each["test"] for each in listed] == ["00a", "00b", "01c"]
    assert listed[1]["upstream"] == "always fails\n\nFails with errors"


@pytest.mark.parametrize(
    ("target", "words", "status", "message"),
    [
        ("uml:", ["00a"], 3, "mdadm and mdmon must first be built in"),
        ("uml:", ["00aa"], 2, "did you mean '00a'?"),
        ("uml:", ["00a", "--resume"], 2, "so it takes no tests"),
        ("uml:", ["--output", "nowhere/at/all.md"], 2, "there is no folder"),
        ("uml:", ["--computer-limit", "0"], 2, "--computer-limit"),
        # With another mdadm, nothing needs to be built.
        ("qemu:?mdadm=/missing", ["00a"], 2, "there is no mdadm in"),
        ("ssh:root@somewhere", ["00a"], 2, "do not run on ssh:root@somewhere"),
    ],
)
def test_what_cannot_be_is_refused_and_no_other_machine_is_touched(
    checkout: Path, target: str, words: list[str], status: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["--on", target, "md-tests", str(checkout), *words]) == status
    assert message in capfd.readouterr().err


def test_which_time_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host.real("tests")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not suite_target(parse_target("uml:"), host, is_chosen=False).is_virtual_time
    built = tmp_path / "raidlab/kernels/virtual-time"
    built.mkdir(parents=True)
    for name in ("linux", "release", "quick_clock.so"):
        (built / name).write_text("#!/bin/sh\n")
        (built / name).chmod(0o700)
    assert suite_target(parse_target("uml:?mem=1G"), host, is_chosen=True).is_virtual_time
    # local: is the default on a computer with lab disks, so the user did not choose it.
    assert str(suite_target(parse_target("local:"), host, is_chosen=False)) == "uml:?time=virtual"
    assert not suite_target(parse_target("uml:?time=real"), host, is_chosen=True).is_virtual_time
    with pytest.raises(SpecError, match="do not run on"):
        suite_target(parse_target("local:"), host, is_chosen=True)
    for text in ("qemu:", "qemu:?kernel=6.12&mdadm=4.4"):
        assert str(suite_target(parse_target(text), host, is_chosen=True)) == text


def test_the_results_as_a_table_for_programs_and_as_progress(journal: SuiteJournal) -> None:
    text = result_table(journal).as_text()
    assert text.startswith("Tests of mdadm's suite: mdadm - v4.6 on Linux 6.1.192 in virtual time\n")
    assert "2 passed, 1 failed, as upstream knows, 1 machine lost, 1 with kernel complaints" in text
    assert "passed, although marked as broken upstream: 00c" in text
    assert "not run yet: 1 test" in text
    (line,) = [line for line in text.splitlines() if line.startswith("00b")]
    assert line.split("  ")[-1] == "active raid5 not found; upstream: always fails"
    assert "1:01 min" in line
    value = as_value(journal)
    assert value["left"] == ["00e"]
    assert [each["is_good"] for each in value["results"]] == [True, True, True, False]
    rows = list(csv.DictReader(io.StringIO(csv_text(journal))))
    assert [row["outcome"] for row in rows] == [result.outcome for result in RESULTS]
    assert rows[3]["machine_seconds"] == ""
    assert rows[3]["kernel"] == "Kernel panic - not syncing: x"
    assert result_line(RESULTS[0]) == "00a: passed"
    assert result_line(RESULTS[3]) == "00d: machine lost (kernel: Kernel panic - not syncing: x; crashed)"


@pytest.mark.parametrize(
    ("seconds", "log_bytes", "reached"),
    [
        (0.05, 0, LimitReached.COMPUTER),
        (1000, MOST_LIVE_LOG_BYTES + 1, LimitReached.LOG),
        (1000, MOST_LIVE_LOG_BYTES, None),
    ],
)
def test_a_limit_of_the_computer_closes_the_machine(
    seconds: float, log_bytes: int, reached: LimitReached | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeMachine()
    closed = threading.Event()
    console, log = tmp_path / "console", tmp_path / "00a.log"
    console.write_text("")

    def close() -> None:
        # A machine's files are removed with it.
        console.unlink()
        log.unlink()
        closed.set()

    def run(*_: object) -> tuple[EndOfTest, str]:
        console.write_text("last words")
        log.touch()
        os.truncate(log, log_bytes)
        assert not reached or closed.wait(PATIENCE_SECONDS)
        raise MachineLost("the machine has ended")

    fake.close = close  # type: ignore[method-assign]
    monkeypatch.setattr(SuiteMachine, "_run", run)
    lab: Any = SimpleNamespace(machine=as_machine(fake), host=host_in(tmp_path))
    machine = SuiteMachine(lab, Witness(console, tmp_path, ("none", "hostfs", "")), None)
    end, logs = machine.run("00a", SuiteLimits(3600.0, seconds))
    assert end.limit is reached
    assert end.loss == ("" if reached else "the machine has ended")
    assert logs["kernel.log"] == "last words"
    assert closed.is_set() is bool(reached)
