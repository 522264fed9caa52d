"""Runs of mdadm's suite: the checkout and its tests, the outcome of a test, and the stored record.

The output of suite and kernel is captured: mdadm 4.6-11-gd1447022, ``./test --tests=NAME --save-logs``, on Linux
6.1.192 in virtual time and 6.1.176, November 2026; logs are cut to their ends.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from lab.errors import RequirementMissing, SpecError, ToolMissing
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine import Host
from lab.md_tests.record import (
    FOLDER,
    EndOfTest,
    LimitReached,
    Suite,
    SuiteOutcome,
    SuiteResult,
    chosen_tests,
    copy_suite,
    digest_of,
    find_suite,
    is_stale,
    judged,
    kernel_complaints,
    last_lines,
    new_run,
    reason_of_failure,
    require_built,
    require_tools,
    resumed_run,
)
from tests.unit.disks.machines import host_in
from tests.unit.md_tests.checkouts import PASSES, make_checkout, picture

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
    return host_in(tmp_path / "state")


def runs(host: Host) -> list[Path]:
    return [path for path in (host.state.root / FOLDER).iterdir() if path.is_dir()]


def interrupted(host: Host, suite: Suite, *results: SuiteResult) -> None:
    """Start a run that is interrupted after these results."""
    with new_run(host, suite, TESTS, TARGET) as journal:
        journal.note_machine("mdadm - v4.6", "6.1.192")
        assert journal.left == TESTS
        for result in results:
            journal.add(result, {"log": "+ false\n" * (result is FAILED), "kernel.log": ""})
        raise KeyboardInterrupt


def test_an_interrupted_run_can_be_resumed(host: Host, suite: Suite) -> None:
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


def test_another_checkout_kernel_or_mdadm_is_another_run(host: Host, suite: Suite) -> None:
    with suppress(KeyboardInterrupt):
        interrupted(host, suite, PASSED)
    with resumed_run(host, suite) as journal:
        journal.note_machine("mdadm - v4.6", "6.1.192")
        for mdadm, kernel in (("mdadm - v4.7", "6.1.192"), ("mdadm - v4.6", "7.2")):
            with pytest.raises(SpecError, match="the results so far are from"):
                journal.note_machine(mdadm, kernel)
    (suite.folder / "tests/01c").write_text("false\n")
    with pytest.raises(SpecError, match="has changed since"), resumed_run(host, suite):
        pass


NAMED = dict.fromkeys(("00raid0", "00raid10", "01r1fail", "10ddf-create"), PASSES)
BESIDE = dict.fromkeys(("func.d", "ToTest", "skiptests", "00raid0~", "01r1fail.inject_error", "0x", "00 blank"), "")
TRUE = shutil.which("true") or ""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    broken = {"01r1fail": "always fails\n\nFails with errors:\n", "09gone": "always fails\n"}
    return make_checkout(tmp_path / "mdadm", {**NAMED, **BESIDE}, broken=broken, program=TRUE)


def test_tests_and_what_upstream_knows_of_them(checkout: Path) -> None:
    (checkout / "tests/12templates").mkdir()
    suite = find_suite(checkout)
    assert suite.tests == tuple(NAMED)
    assert set(suite.broken) == {"01r1fail"}
    assert suite.broken["01r1fail"].startswith("always fails\n")
    assert suite.file_kib == (20000, 65536)
    (checkout / "tests/func.sh").write_text("size=$((4 * 5000))\nddfsize=65536\n")
    assert find_suite(checkout).file_kib is None


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ((), tuple(NAMED)),
        (("01r1fail", "00raid0"), ("00raid0", "01r1fail")),
        (("00*", "00raid0"), ("00raid0", "00raid10")),
        (("tests/10ddf-create",), ("10ddf-create",)),
        (("0[0-1]r*[0-9]",), ("00raid0", "00raid10")),
    ],
)
def test_tests_are_chosen(checkout: Path, words: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    assert chosen_tests(find_suite(checkout), words) == chosen


@pytest.mark.parametrize(
    ("word", "hint"), [("00raid01", "did you mean '00raid"), ("02*", "known: "), ("../test", "known: ")]
)
def test_an_unknown_test_is_refused_with_the_nearest(checkout: Path, word: str, hint: str) -> None:
    with pytest.raises(SpecError) as raised:
        chosen_tests(find_suite(checkout), ["00raid0", word])
    assert raised.value.hint.startswith(hint)


def test_a_folder_that_is_not_a_checkout_is_rejected(checkout: Path, tmp_path: Path) -> None:
    for name in ("mdadm.h", "tests/func.sh", "test"):
        (checkout / name).rename(tmp_path / "gone")
        with pytest.raises(SpecError, match=f"{name} is missing"):
            find_suite(checkout)
        (tmp_path / "gone").rename(checkout / name)
    with pytest.raises(SpecError, match="has no tests in"):
        find_suite(make_checkout(tmp_path / "empty", {}))
    with pytest.raises(SpecError, match="is not a folder"):
        find_suite(tmp_path / "nowhere")


def test_missing_binaries_are_reported_with_the_make_command(tmp_path: Path) -> None:
    suite = find_suite(make_checkout(tmp_path / "mdadm", NAMED))
    with pytest.raises(RequirementMissing, match="mdadm and mdmon must first be built") as raised:
        require_built(suite)
    assert raised.value.hint.startswith(f"make -C {tmp_path / 'mdadm'} mdadm mdmon ")
    shutil.copy(TRUE, suite.folder / "mdadm")
    with pytest.raises(RequirementMissing, match=r"^mdmon must first be built"):
        require_built(suite)
    shutil.copy(TRUE, suite.folder / "mdmon")
    require_built(suite)


def test_sources_that_are_newer_than_the_program(checkout: Path) -> None:
    os.utime(checkout / "mdadm.h", (1, 1))
    assert not is_stale(find_suite(checkout))
    later = (checkout / "mdadm").stat().st_mtime + 10
    os.utime(checkout / "mdadm.h", (later, later))
    assert is_stale(find_suite(checkout))


def test_a_copy_has_the_needed_files_and_leaves_the_checkout_unchanged(checkout: Path, tmp_path: Path) -> None:
    (checkout / "mdadm.o").write_bytes(b"\x7fELF")
    (checkout / "tests/.#00raid0").symlink_to("somebody@somewhere")
    before = picture(checkout)
    digest = copy_suite(find_suite(checkout), tmp_path / "copy")
    assert picture(checkout) == before
    assert digest == digest_of(find_suite(checkout))
    names = {path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*")}
    assert {"test", "tests/00raid0", "tests/01r1fail.broken", "tests/func.sh", "mdadm", "mdmon"} <= names
    assert not names & {"mdadm.o", "mdadm.h", "tests/.#00raid0"}
    rules = (tmp_path / "copy/udev-rules/63-md-raid-arrays.rules").read_text()
    assert rules == 'RUN+="/run/raidlab/bin/mdadm"\n'
    assert os.access(tmp_path / "copy/mdadm", os.X_OK)


def test_another_content_has_another_digest(checkout: Path) -> None:
    found = {digest_of(find_suite(checkout))}
    for changed in ("tests/00raid0", "tests/func.sh", "mdadm", "test"):
        with (checkout / changed).open("ab") as file:
            file.write(b"\n")
        found.add(digest_of(find_suite(checkout)))
    assert len(found) == 5


class Without(Processes):
    """A computer on which only one program is missing."""

    def __init__(self, program: str) -> None:
        self.program = program

    def find(self, program: str) -> str | None:
        return None if program == self.program else "/bin/true"


def test_a_tool_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="losetup") as raised:
        require_tools(Without("losetup"), HostFiles(tmp_path))
    assert raised.value.hint == "apt install mount"
    with pytest.raises(ToolMissing, match="udev's daemon") as raised:
        require_tools(Without(""), HostFiles(tmp_path))
    assert raised.value.hint == "apt install udev"
    daemon = tmp_path / "usr/lib/systemd/systemd-udevd"
    daemon.parent.mkdir(parents=True)
    shutil.copy(TRUE, daemon)
    assert require_tools(Without(""), HostFiles(tmp_path)) == "/usr/lib/systemd/systemd-udevd"


BEGINNING = (
    "\x1b[1;33mWarning! Tests are performed on system level mdadm!\n\x1b[0mIf you want to test local build, you need to"
    " install it first!\ntest: skipping tests for multipath, which is removed in upstream 6.8+ kernels\n"
    "Testing on linux-6.1.192-raidlab-vt kernel\nSaving logs to /run/raidlab/suite-logs\n"
)
ENDING = "Removed IMSM_NO_PLATFORM=1 from systemd environment.\n"
SUCCEEDED = "Execution time (seconds): 5 \x1b[0;32msucceeded\n\x1b[0m"
FAILING = "Execution time (seconds): 30 \x1b[0;31mFAILED\x1b[0m - see /run/a.log and /run/faila.log for details\n"
SKIPPED = "\x1b[1;33mskipping\x1b[0m - see /run/raidlab/suite-logs/07autodetect.log and x for details\n"
DIED = r"""++ check raid5
++ case $1 in
++ grep -sq 'active raid5 ' /proc/mdstat
++ die 'active raid5 not found'
++ echo -e '\n\tERROR: active raid5 not found \n'

	ERROR: active raid5 not found

++ save_log fail
++ status=fail
++ dmesg -c
+++ mdadm -Ds
\033[0;31mFAILED\033[0m++ echo ' - see /run/x for details'
 - see /run/x for details
++ exit 2
"""
STOPPED = """++ mdadm -A /dev/md0 --update=revert-reshape /dev/loop0 --backup-file=/tmp/md-backup
++ rm -f /var/tmp/stderr
++ /usr/sbin/mdadm -A /dev/md0 --update=revert-reshape /dev/loop0 --backup-file=/tmp/md-backup
++ rv=1
++ cat /var/tmp/stderr
mdadm: failed to RUN_ARRAY /dev/md0: Invalid argument
++ return 1
mdadm: failed to RUN_ARRAY /dev/md0: Invalid argument
"""
BARE = "+ mdadm -CR /dev/md0 -l5 -n3 /dev/loop0 /dev/loop1 /dev/loop2\n+ cmp -s -n 8192 /dev/md0 /tmp/RandFile\n"
UNDER_WAY = "+ mdadm -CR /dev/md0 -l1 -n2 /dev/loop0 /dev/loop1\n+ fio -filename=/dev/md0 -rw=randwrite\n"


def log_of(test: str, verdict: str) -> str:
    return f"{BEGINNING}/run/raidlab/suite/tests/{test}... {verdict}{ENDING}"


NOTHING = "+ '[' '' '!=' yes ']'\n+ echo -ne 'skipping... '\nskipping... + exit 0\n"
SKIPS = "+ skip 'fault injection is not enabled'\n\n\tSKIPPING, REASON: fault injection is not enabled \n\n"
REFUSES = "test: please run test suite without running RAIDs environment."
CRASH = "the embedded kernel crashed: Kernel panic - not syncing: sysrq triggered crash"


ANOTHER = log_of("00ab", SUCCEEDED)
KNOWN = f"{FAILING}  (KNOWN BROKEN TEST: always fails)\n"
PART = f"+ mdadm -CR /dev/md0 -l0 -n3 /dev/loop0\n{NOTHING}"


def ended(status: int, verdict: str, log: str = "") -> EndOfTest:
    return EndOfTest(status, log_of("00a", verdict), log)


ENDS: dict[str, tuple[EndOfTest, bool, str, str | None]] = {
    "passes": (ended(0, SUCCEEDED, BARE), False, "passed", ""),
    "passes, known as broken": (ended(0, SUCCEEDED), True, "passed", ""),
    "fails": (ended(1, FAILING, DIED), False, "failed", "active raid5 not found"),
    "fails, known as broken": (ended(1, KNOWN, DIED), True, "failed, as upstream knows", "active raid5 not found"),
    "succeeds with a status of failure": (ended(1, SUCCEEDED), False, "failed", None),
    "words of another test": (EndOfTest(1, ANOTHER), False, "not started", None),
    "skips itself": (ended(0, SKIPPED, SKIPS), False, "skipped itself", "fault injection is not enabled"),
    "skips itself silently": (ended(0, SKIPPED), False, "skipped itself", ""),
    # Upstream counts it as a success.
    "does nothing": (ended(0, SUCCEEDED, NOTHING), False, "skipped itself", None),
    "skips a part": (ended(0, SUCCEEDED, PART), False, "passed", "one part was skipped"),
    "lost": (EndOfTest(log=UNDER_WAY, loss=CRASH), True, "machine lost", CRASH),
    "lost when time was up": (EndOfTest(loss=CRASH, limit=LimitReached.COMPUTER), False, "machine lost", CRASH),
    "the suite refuses": (EndOfTest(1, f"{BEGINNING}{REFUSES}\n"), True, "not started", REFUSES),
    "the suite says nothing": (EndOfTest(9), False, "not started", "the suite exited with status 9"),
    "the suite breaks off": (ended(137, ""), False, "failed", "status 137"),
}


@pytest.mark.parametrize(("end", "is_broken", "outcome", "why"), ENDS.values(), ids=ENDS)
def test_what_became_of_a_test(end: EndOfTest, is_broken: bool, outcome: str, why: str | None) -> None:
    found = judged("00a", end, "always fails" if is_broken else None)
    assert found.outcome == outcome
    assert bool(found.last_lines) is (bool(end.log) and outcome not in ("passed", "skipped itself"))
    if why is not None:
        assert (why in found.why) if why else found.why == ""


@pytest.mark.parametrize("is_broken", [False, True])
@pytest.mark.parametrize("limit", list(LimitReached))
def test_a_test_that_does_not_end(limit: LimitReached, is_broken: bool) -> None:
    end = EndOfTest(log=UNDER_WAY, limit=limit, limit_number=900)
    found = judged("00a", end, "always fails" if is_broken else None)
    assert found.outcome is (SuiteOutcome.KNOWN if is_broken else SuiteOutcome.HUNG)
    assert found.why == f"not finished after 900 {limit}, at: fio -filename=/dev/md0 -rw=randwrite"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (DIED, "active raid5 not found"),
        (
            STOPPED,
            "mdadm: failed to RUN_ARRAY /dev/md0: Invalid argument"
            " (after: mdadm -A /dev/md0 --update=revert-reshape /dev/loop0 --backup-file=/tmp/md-backup)",
        ),
        (BARE, "cmp -s -n 8192 /dev/md0 /tmp/RandFile"),
        ("", ""),
        (
            "+ imsm_check member\n**Error**: Array size mismatch - expected 3072, actual 16384\n/dev/md/vol0 failed\n",
            "Array size mismatch - expected 3072, actual 16384",
        ),
        (
            "**Fatal** Correctly formed container not found\n+ cat /proc/mdstat\n",
            "Correctly formed container not found",
        ),
    ],
)
def test_the_reason_of_a_failure(log: str, reason: str) -> None:
    assert reason_of_failure(log) == reason


def test_the_last_lines_are_those_before_the_suite_saves_the_log() -> None:
    found = last_lines(DIED)
    assert (found[0], found[-1]) == ("++ check raid5", "\tERROR: active raid5 not found")


@pytest.mark.parametrize(
    ("line", "is_complaint"),
    [
        ("WARNING: CPU: 0 PID: 1123 at drivers/md/md.c:6334 md_stop+0x1b/0x20", True),
        ("[  812.123456] WARNING: CPU: 0 PID: 1 at fs/x.c:1 x+0x0/0x0", True),
        ("WARNING: possible circular locking dependency detected", True),
        ("BUG: kernel NULL pointer dereference, address: 0000000000000028", True),
        ("kernel BUG at drivers/md/raid5.c:5321!", True),
        ("Oops: 0000 [#1] PREEMPT SMP PTI", True),
        ("Kernel panic - not syncing: sysrq triggered crash", True),
        ("INFO: task md0_raid5:412 blocked for more than 120 seconds.", True),
        ("general protection fault, probably for non-canonical address 0xdead: 0000 [#1]", True),
        ("refcount_t: underflow; use-after-free.", True),
        ("list_del corruption. next->prev should be x", True),
        ("md/raid1:md0: Disk failure on loop1, disabling device.", False),
        ("md: md0: recovery done.", False),
        ("EXT4-fs (md0): warning: mounting unchecked fs", False),
        ("Buffer I/O error on dev md0, logical block 0, lost async page write", False),
        ("check_one_sigio failed, errno = 13", False),
        ("systemd-udevd[71]: WARNING: this is a word of a program", False),
    ],
)
def test_complaints_of_the_kernel(line: str, is_complaint: bool) -> None:
    console = f"md: md0 stopped.\n{line}\nmd: md1 stopped.\n{line}\n"
    assert bool(kernel_complaints(console)) is is_complaint
    assert len(kernel_complaints(console)) == is_complaint
