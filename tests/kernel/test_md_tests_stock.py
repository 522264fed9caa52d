"""mdadm's test suite on stock kernels in QEMU: outcomes, logs that survive a crash, and another mdadm.

With ``RAIDLAB_MDADM_CHECKOUT``, a folder in which mdadm is built, a few of the real tests run on each kernel.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lab.cli.main import run
from lab.machine.package_sources import is_version
from lab.machine.stock_kernels import stock_kernels
from tests.kernel.test_md_tests import (
    CHECKOUT_VARIABLE,
    FAIL,
    PASS,
    checkout_with,
    machines,
    mdadm,
    state,
    told,
)
from tests.unit.md_tests.checkouts import picture

__all__ = ["state"]

pytestmark = [pytest.mark.qemu, pytest.mark.wide, pytest.mark.timeout(3600)]

# A link in place of a log, a second mount of this computer's files, and a change of those.
INTRUDES = """mkdir /tmp/outside
ln -s CHECKOUT/mdadm.h /run/raidlab/suite-witness/02refused.log
if mount -t 9p -o trans=virtio,version=9p2000.L computer /tmp/outside; then exit 1; fi
if mount -o remount,rw / && touch CHECKOUT/tests/new; then exit 1; fi
"""
TESTS = {
    "00passes": PASS,
    "01intrudes": INTRUDES,
    "02refused": "true\n",
    "03fails": FAIL,
    "04crashes": "echo before the crash\necho c > /proc/sysrq-trigger\n",
}
REAL = {"00raid1": "passed", "10ddf-create": "passed", "00linear": "skipped itself"}
REAL_OF_KERNEL = {"6.1": {"00linear": "passed"}}
"""Outcomes on single kernels that differ: Linux 6.8 removed linear arrays."""


def test_outcomes_and_logs_are_as_on_the_embedded_kernel(
    tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkout = checkout_with(tmp_path / "mdadm", TESTS)
    before = picture(checkout)
    assert run(["--on", "qemu:", "--json", "md-tests", str(checkout)]) == 1
    assert picture(checkout) == before
    found = told(capfd)
    assert {name: result["outcome"] for name, result in found.items()} == {
        "00passes": "passed",
        "01intrudes": "passed",
        "02refused": "not started",
        "03fails": "failed",
        "04crashes": "machine lost",
    }
    assert found["03fails"]["why"] == "the array is nowhere"
    assert "before the crash" in found["04crashes"]["last_lines"]
    (kept,) = (state / "md-tests").iterdir()
    assert "sysrq: Trigger a crash" in (kept / "logs/04crashes.kernel.log").read_text()
    # On this computer the link is a file with its target's name.
    assert (kept / "logs/02refused.log").read_text() == f"{checkout}/mdadm.h"
    assert machines(state) == []


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
    assert told(capfd)["00which"]["outcome"] == "passed"
    assert machines(state) == []


@pytest.mark.skipif(CHECKOUT_VARIABLE not in os.environ, reason=f"needs mdadm's sources, built: {CHECKOUT_VARIABLE}")
@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.2"])
def test_a_few_of_the_real_ones(kernel: str, state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if not any(is_version(each.release, kernel) for each in stock_kernels()):
        pytest.skip(f"raidlab kernels get {kernel}")
    checkout = os.environ[CHECKOUT_VARIABLE]
    assert run(["--on", f"qemu:?kernel={kernel}", "--json", "md-tests", checkout, *REAL]) == 0
    outcomes = {name: result["outcome"] for name, result in told(capfd).items()}
    assert outcomes == {**REAL, **REAL_OF_KERNEL.get(kernel, {})}
    assert machines(state) == []
