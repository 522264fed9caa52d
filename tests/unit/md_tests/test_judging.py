"""What became of a test: outcomes, reasons, and the kernel's complaints.

What suite and kernel say is captured: mdadm 4.6-11-gd1447022, ``./test --tests=NAME --save-logs``, on Linux 6.1.192 in
virtual time and 6.1.176, November 2026; logs are cut to their ends.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.md_tests.record import (
    EndOfTest,
    LimitReached,
    SuiteOutcome,
    judged,
    kernel_complaints,
    last_lines,
    reason_of_failure,
)

BEGINNING = (
    "\x1b[1;33mWarning! Tests are performed on system level mdadm!\n\x1b[0mIf you want to test local build, you need to"
    " install it first!\ntest: skipping tests for multipath, which is removed in upstream 6.8+ kernels\n"
    "Testing on linux-6.1.192-raidlab-vt kernel\nSaving logs to /run/raidlab/suite-logs\n"
)
ENDING = "Removed IMSM_NO_PLATFORM=1 from systemd environment.\n"
SUCCEEDED = "Execution time (seconds): 5 \x1b[0;32msucceeded\n\x1b[0m"
FAILED = "Execution time (seconds): 30 \x1b[0;31mFAILED\x1b[0m - see /run/a.log and /run/faila.log for details\n"
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


def said(test: str, verdict: str) -> str:
    return f"{BEGINNING}/run/raidlab/suite/tests/{test}... {verdict}{ENDING}"


def outcome(end: EndOfTest, *, test: str = "00a", is_broken: bool = False) -> tuple[SuiteOutcome, str]:
    found = judged(test, end, is_broken=is_broken)
    return found.outcome, found.why


def test_a_test_that_passes() -> None:
    passed = EndOfTest(0, said("00a", SUCCEEDED))
    assert outcome(passed) == (SuiteOutcome.PASSED, "")
    assert outcome(passed, is_broken=True) == (SuiteOutcome.PASSED, "")
    assert judged("00a", replace(passed, log=BARE), is_broken=False).last_lines == ()


def test_success_counts_only_with_the_suites_own_status() -> None:
    assert outcome(EndOfTest(1, said("00a", SUCCEEDED)))[0] is SuiteOutcome.FAILED


def test_a_test_that_fails_and_one_of_which_upstream_knows() -> None:
    failed = EndOfTest(1, said("00a", FAILED), DIED)
    assert outcome(failed) == (SuiteOutcome.FAILED, "active raid5 not found")
    known = replace(failed, status=1, said=said("00a", FAILED + "  (KNOWN BROKEN TEST: always fails)\n"))
    assert outcome(known, is_broken=True) == (SuiteOutcome.KNOWN, "active raid5 not found")


def test_the_words_of_another_test_count_for_nothing() -> None:
    end = EndOfTest(1, said("00ab", SUCCEEDED))
    assert outcome(end, test="00a")[0] is SuiteOutcome.UNSTARTED


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (
            "+ skip 'fault injection is not enabled'\n\n\tSKIPPING, REASON: fault injection is not enabled \n\n",
            "fault injection is not enabled",
        ),
        ("", ""),
    ],
)
def test_a_test_that_skips_itself(log: str, found: str) -> None:
    assert outcome(EndOfTest(0, said("00a", SKIPPED), log)) == (SuiteOutcome.SKIPPED, found)


def test_a_test_that_ends_well_since_the_kernel_lacks_something() -> None:
    """Upstream counts it as a success."""
    nothing = "+ '[' '' '!=' yes ']'\n+ echo -ne 'skipping... '\nskipping... + exit 0\n"
    assert outcome(EndOfTest(0, said("00a", SUCCEEDED), nothing))[0] is SuiteOutcome.SKIPPED
    part = f"+ mdadm -CR /dev/md0 -l0 -n3 /dev/loop0\n{nothing}"
    found, why = outcome(EndOfTest(0, said("00a", SUCCEEDED), part))
    assert found is SuiteOutcome.PASSED
    assert "skipped a part" in why


@pytest.mark.parametrize("is_broken", [False, True])
@pytest.mark.parametrize("limit", list(LimitReached))
def test_a_test_that_does_not_end(limit: LimitReached, is_broken: bool) -> None:
    end = EndOfTest(log=UNDER_WAY, limit=limit, limit_number=900)
    found, why = outcome(end, is_broken=is_broken)
    assert found is (SuiteOutcome.KNOWN if is_broken else SuiteOutcome.HUNG)
    assert why == f"not finished after 900 {limit}, at: fio -filename=/dev/md0 -rw=randwrite"


def test_a_lost_machine_is_known_to_nobody() -> None:
    loss = "the embedded kernel crashed: Kernel panic - not syncing: sysrq triggered crash"
    assert outcome(EndOfTest(log=UNDER_WAY, loss=loss), is_broken=True) == (SuiteOutcome.LOST, loss)
    # Also where its time was up at the same moment.
    assert outcome(EndOfTest(loss=loss, limit=LimitReached.COMPUTER))[0] is SuiteOutcome.LOST


def test_a_suite_that_does_not_come_to_the_test() -> None:
    words = f"{BEGINNING}test: please run test suite without running RAIDs environment.\n"
    found, why = outcome(EndOfTest(1, words), is_broken=True)
    assert found is SuiteOutcome.UNSTARTED
    assert why == "test: please run test suite without running RAIDs environment."
    assert outcome(EndOfTest(9)) == (SuiteOutcome.UNSTARTED, "the suite exited with status 9")


def test_a_suite_that_breaks_off() -> None:
    found, why = outcome(EndOfTest(137, said("00a", "")))
    assert found is SuiteOutcome.FAILED
    assert "status 137" in why


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


def test_the_last_lines_are_the_tests_and_not_those_of_saving_its_log() -> None:
    found = last_lines(DIED)
    assert found[-1] == "\tERROR: active raid5 not found"
    assert found[0] == "++ check raid5"


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
