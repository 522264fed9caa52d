"""mdadm's test suite in the embedded machine and on stock kernels in QEMU: all outcomes, and what a run may change.

A run changes nothing on this computer. The suite is a small one in the form of upstream's. With
``RAIDLAB_MDADM_CHECKOUT``, a folder in which mdadm is built, some of the real tests run too.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cli.context import OPTIONS, Options
from lab.cli.main import run
from lab.machine.package_sources import is_version
from lab.machine.stock_kernels import stock_kernels
from tests.kernel.place import real_time_target
from tests.unit.md_tests.checkouts import make_checkout, picture

pytestmark = pytest.mark.wide

REPOSITORY = Path(__file__).resolve().parents[2]
# A shell starts background jobs with SIGINT ignored, and child processes inherit that.
COMMAND = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from lab.cli.main import run; sys.exit(run())"
)
CHECKOUT_VARIABLE = "RAIDLAB_MDADM_CHECKOUT"
PATIENCE_SECONDS = 60.0
# The suite's files for loop devices, an array on two of them, and what /proc/mdstat says about it.
ARRAY = """mdadm -CR /dev/md0 -l1 -n2 --assume-clean /dev/loop0 /dev/loop1
grep -q 'active raid1' /proc/mdstat
"""
PASS = f"""{ARRAY}test $(blockdev --getsize64 /dev/loop0) = 20480000
test $(blockdev --getsize64 /dev/loop8) = 67108864
test $(stat -f -c %T /var/tmp) = ext2/ext3
test "$(which mdadm)" = /run/raidlab/bin/mdadm
cmp /usr/sbin/mdadm $PWD/mdadm
test ! -e /etc/mdadm/mdadm.conf
test -b "$(grep ' / ' /proc/mounts | cut -d' ' -f1)"
udevadm settle
mdadm -S /dev/md0
"""
FAIL = "echo begin\n[ -e /nowhere ] || { echo -e '\\n\\tERROR: the array is nowhere \\n'; exit 2; }\n"
SPIN = "echo going round\nset +x\nwhile :; do :; done\n"
# A member that no longer answers: its array can be neither written to nor stopped, and a waiting process not killed.
HANG = """size=$(blockdev --getsz /dev/loop0)
dmsetup create stuck --noudevsync --table "0 $size linear /dev/loop0 0"
mdadm -CR /dev/md0 -l1 -n2 --assume-clean --bitmap=none /dev/dm-0 /dev/loop1
dmsetup suspend --nolockfs --noudevsync stuck
dd if=/dev/zero of=/dev/md0 oflag=direct count=8
"""
WARNS = "echo 'WARNING: CPU: 0 PID: 7 at drivers/md/md.c:1 made_up+0x0/0x0' > /dev/kmsg\n"
# The computer's checkout, through a mount made by the test; and a link in place of a log.
INTRUDES = """mkdir /tmp/outside
LIBMOUNT_FORCE_MOUNT2=always mount -t hostfs -o CHECKOUT none /tmp/outside || true
if grep -q ddfsize /tmp/outside/tests/func.sh; then exit 1; fi
if echo in >> /tmp/outside/tests/func.sh; then exit 1; fi
if rm /tmp/outside/mdadm; then exit 1; fi
if touch /tmp/outside/tests/new; then exit 1; fi
echo in >> $PWD/tests/func.sh
ln -s CHECKOUT/mdadm.h /run/raidlab/suite-witness/09refused.log
"""
TESTS = {
    "00passes": PASS,
    "01fails": FAIL,
    "02known": FAIL,
    "03skips": "echo -e '\\n\\tSKIPPING, REASON: not here \\n'\nexit 3\n",
    "04hangs": HANG,
    "05crashes": "echo before the crash\necho c > /proc/sysrq-trigger\n",
    "06warns": WARNS,
    "07leaves": ARRAY,
    "08intrudes": INTRUDES,
    "09refused": "true\n",
    "10floods": "yes\n",
}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    yield tmp_path / "state"
    OPTIONS.set(Options())


def mdadm() -> str:
    return shutil.which("mdadm", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""


def checkout_with(folder: Path, tests: dict[str, str]) -> Path:
    texts = {name: text.replace("CHECKOUT", str(folder)) for name, text in tests.items()}
    broken = {name: "always fails\n\nFails with errors.\n" for name in tests if name == "02known"}
    return make_checkout(folder, texts, broken=broken, program=mdadm())


def machines(state: Path) -> list[Path]:
    return list((state / "machines").glob("[0-9]*"))


def results_by_test(capfd: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """Test -> result, from the output of --json."""
    return {each["test"]: each for each in json.loads(capfd.readouterr().out)["results"]}


@pytest.mark.kernel
@pytest.mark.virtual_time
def test_all_outcomes_are_distinguished(tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    checkout = checkout_with(tmp_path / "mdadm", TESTS)
    before = picture(checkout)
    assert run(["--on", "uml:?time=virtual", "--json", "md-tests", str(checkout), "--machine-limit", "3000"]) == 1
    assert picture(checkout) == before
    found = results_by_test(capfd)
    assert {name: result["outcome"] for name, result in found.items()} == {
        "00passes": "passed",
        "01fails": "failed",
        "02known": "failed, as upstream knows",
        "03skips": "skipped itself",
        "04hangs": "did not end",
        "05crashes": "machine lost",
        "06warns": "passed",
        "07leaves": "passed",
        # The suite would not have started with the leftover array, so the test got a fresh machine.
        "08intrudes": "passed",
        "09refused": "not started",
        "10floods": "did not end",
    }
    good = {name for name, result in found.items() if result["is_good"]}
    assert good == {"00passes", "02known", "03skips", "07leaves", "08intrudes"}
    assert found["01fails"]["why"] == "the array is nowhere"
    assert found["02known"]["upstream"] == "always fails"
    assert found["03skips"]["why"] == "not here"
    assert (
        found["04hangs"]["why"]
        == "not finished after 3000 s of the machine's time, at: dd if=/dev/zero of=/dev/md0 oflag=direct count=8"
    )
    # The machine's clock jumps to the end of the limit.
    assert found["04hangs"]["computer_seconds"] < 1500
    assert "Kernel panic" in found["05crashes"]["why"]
    assert "before the crash" in found["05crashes"]["last_lines"]
    assert found["06warns"]["kernel"] == ["WARNING: CPU: 0 PID: 7 at drivers/md/md.c:1 made_up+0x0/0x0"]
    assert all(found[name]["kernel"] == [] for name in found if name not in ("05crashes", "06warns"))
    assert found["09refused"]["why"] == "test: please run test suite without running RAIDs environment."
    assert found["10floods"]["why"] == "not finished after 64 MiB of log"
    (kept,) = (state / "md-tests").glob("[!.]*")
    assert "sysrq: Trigger a crash" in (kept / "logs/05crashes.kernel.log").read_text()
    assert "+ dd if=/dev/zero" in (kept / "logs/04hangs.log").read_text()
    assert re.search(r"Show Blocked State(.|\n)*task:dd ", (kept / "logs/04hangs.kernel.log").read_text())
    assert all("Personalities" in (kept / f"logs/{test}.state.log").read_text() for test in ("01fails", "04hangs"))
    # In place of its log there is a link to a file of the computer.
    assert not (kept / "logs/09refused.log").exists()
    assert not (kept / "suite").exists()
    assert machines(state) == []


@pytest.mark.kernel
def test_in_real_time_and_no_further_than_the_first_failure(
    tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkout = checkout_with(tmp_path / "mdadm", {"00passes": PASS, "01fails": FAIL, "02not": "true\n"})
    words = ["--on", real_time_target().text, "--json", "md-tests", str(checkout)]
    assert run([*words, "--stop-at-failure"]) == 1
    output = json.loads(capfd.readouterr().out)
    outcomes = [(each["test"], each["outcome"]) for each in output["results"]]
    assert outcomes == [("00passes", "passed"), ("01fails", "failed")]
    assert output["left"] == ["02not"]
    version = subprocess.run([mdadm(), "--version"], capture_output=True, text=True, check=True)
    assert output["mdadm"] == (version.stdout + version.stderr).strip()
    assert output["kernel"]
    assert machines(state) == []


@pytest.mark.kernel
@pytest.mark.virtual_time
@pytest.mark.timeout(1800)
def test_ctrl_c_loses_nothing_and_a_test_that_computes_without_end_is_ended(
    tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkout = checkout_with(tmp_path / "mdadm", {"00passes": PASS, "01spins": SPIN, "02passes": PASS})
    words = [sys.executable, "-c", COMMAND, "--on", "uml:?time=virtual", "md-tests", str(checkout)]
    with subprocess.Popen(words, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # When this line appears, the test is running or about to start: SIGINT must end it in both cases.
        before = [*itertools.takewhile(lambda line: not line.startswith("01spins"), process.stderr)]
        assert "raidlab: 00passes: passed\n" in before
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(PATIENCE_SECONDS) == 128 + signal.SIGINT
    assert "1 of 3 tests have a result; to continue: raidlab md-tests" in rest
    assert machines(state) == []
    # The resumed run uses virtual time too, as the first run did.
    resume = ["--json", "md-tests", str(checkout), "--resume"]
    assert run([*resume, "--stop-at-failure", "--computer-limit", "30"]) == 1
    assert set(results_by_test(capfd)) == {"00passes", "01spins"}
    table = tmp_path / "table.md"
    assert run([*resume, "--output", str(table)]) == 1
    found = results_by_test(capfd)
    outcomes = {name: result["outcome"] for name, result in found.items()}
    assert outcomes == {"00passes": "passed", "01spins": "did not end", "02passes": "passed"}
    assert found["01spins"]["why"].startswith("not finished after 30 s of this computer's time, at: ")
    assert "going round" in found["01spins"]["last_lines"]
    assert "| 01spins | did not end |" in table.read_text()
    assert machines(state) == []


# A link in place of a log, a second mount of this computer's files, and a change to them.
INTRUDES_IN_QEMU = """mkdir /tmp/outside
ln -s CHECKOUT/mdadm.h /run/raidlab/suite-witness/02refused.log
if mount -t 9p -o trans=virtio,version=9p2000.L computer /tmp/outside; then exit 1; fi
if mount -o remount,rw / && touch CHECKOUT/tests/new; then exit 1; fi
"""
IN_QEMU = {
    "00passes": PASS,
    "01intrudes": INTRUDES_IN_QEMU,
    "02refused": "true\n",
    "03fails": FAIL,
    "04crashes": "echo before the crash\necho c > /proc/sysrq-trigger\n",
}


@pytest.mark.qemu
@pytest.mark.timeout(3600)
def test_outcomes_and_logs_are_as_on_the_embedded_kernel(
    tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkout = checkout_with(tmp_path / "mdadm", IN_QEMU)
    before = picture(checkout)
    assert run(["--on", "qemu:", "--json", "md-tests", str(checkout)]) == 1
    assert picture(checkout) == before
    found = results_by_test(capfd)
    assert {name: result["outcome"] for name, result in found.items()} == {
        "00passes": "passed",
        "01intrudes": "passed",
        "02refused": "not started",
        "03fails": "failed",
        "04crashes": "machine lost",
    }
    assert found["03fails"]["why"] == "the array is nowhere"
    assert "before the crash" in found["04crashes"]["last_lines"]
    (kept,) = (state / "md-tests").glob("[!.]*")
    assert "sysrq: Trigger a crash" in (kept / "logs/04crashes.kernel.log").read_text()
    # On this computer the link is a file that contains the link's target.
    assert (kept / "logs/02refused.log").read_text() == f"{checkout}/mdadm.h"
    assert machines(state) == []


@pytest.mark.qemu
@pytest.mark.timeout(3600)
def test_the_mdadm_of_the_target_runs_instead_of_the_one_built_in_the_checkout(
    tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(mdadm(), other / "mdadm")
    checkout = checkout_with(tmp_path / "mdadm", {"00which": f'test "$(realpath "$(which mdadm)")" = {other}/mdadm\n'})
    for name in ("mdadm", "mdmon"):
        (checkout / name).unlink()
    assert run(["--on", f"qemu:?mdadm={other}", "--json", "md-tests", str(checkout)]) == 0
    assert results_by_test(capfd)["00which"]["outcome"] == "passed"
    assert machines(state) == []


STOCK = {"00raid1": "passed", "10ddf-create": "passed", "00linear": "skipped itself"}
REAL: dict[str, dict[str, str]] = {
    "uml:?time=virtual": {
        "00raid1": "passed",
        "00readonly": "passed",
        "07revert-shrink": "failed, as upstream knows",
        "24raid10deadlock": "",
    },
    # Linux 6.8 removed linear arrays.
    "qemu:?kernel=6.1": {**STOCK, "00linear": "passed"},
    "qemu:?kernel=6.12": STOCK,
    "qemu:?kernel=7.2": STOCK,
}
"""Outcomes of some of the real tests on each target. An empty string allows any outcome."""


@pytest.mark.skipif(CHECKOUT_VARIABLE not in os.environ, reason=f"needs mdadm's sources, built: {CHECKOUT_VARIABLE}")
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(each, marks=[pytest.mark.kernel, pytest.mark.virtual_time] if "uml" in each else pytest.mark.qemu)
        for each in REAL
    ],
)
def test_a_few_of_the_real_ones(target: str, state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernel = target.partition("kernel=")[2]
    if kernel and not any(is_version(each.release, kernel) for each in stock_kernels()):
        pytest.skip(f"raidlab kernels get {kernel}")
    checkout = Path(os.environ[CHECKOUT_VARIABLE])
    before = picture(checkout)
    assert run(["--on", target, "--json", "md-tests", str(checkout), *REAL[target]]) == 0
    assert picture(checkout) == before
    found = results_by_test(capfd)
    assert {name: found[name]["outcome"] for name, outcome in REAL[target].items() if outcome} == {
        name: outcome for name, outcome in REAL[target].items() if outcome
    }
    assert machines(state) == []
