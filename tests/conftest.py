"""What tests need on this computer: a test whose requirements are missing is skipped, or fails if all are required.

The message says what to install. This module also decides how many workers run the tests, and in which order.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hypothesis
import platformdirs
import pytest
from xdist.scheduler import LoadFileScheduling

from lab.machine.stock_kernels import stock_kernels
from lab.machine.target import TargetKind
from tests.kernel.place import VARIABLE, kernel_target
from tui.base_app import settle_collector

# On a busy computer an example may take long, which is not a defect.
hypothesis.settings.register_profile("raidlab", deadline=None)
hypothesis.settings.load_profile("raidlab")

# Tests close terminal windows, which sends SIGHUP. A command ignores SIGHUP if its parent does, and the tests may run
# under nohup(1).
signal.signal(signal.SIGHUP, signal.SIG_DFL)

SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))

MOST_WORKERS = 12
# Files whose measurements other tests would disturb. They come first, in parallel: they mostly wait for drives, and
# nothing else needs the processors then.
MEASURING = ("test_lessons_measured", "test_steady_flight", "test_mechanical_drives", "test_cli", "test_app_lessons")
# Files whose tests are distributed one by one to any free worker: each takes a minute, or they take minutes together.
SHARED = ("kernel/test_lessons", "test_drill_proofs", "test_benchmarks")
# The files for the embedded kernel that take longest, longest first.
LONGEST = (
    *("test_exact_repeat", "test_lessons", "test_kills", "test_filesystem_and_workloads", "test_drill_proofs"),
    *("test_app_kills", "test_rebuild", "test_adapt", "test_microscope_writes", "test_drills", "test_verdicts"),
    *("test_app_drills", "test_virtual_time", "test_stand_still", "test_soak", "test_session", "test_breaking"),
)
# These run last: a bug shows first in the tests written for it, and a slow computer has no time for these.
LAST = ("test_benchmarks",)
# Files whose tests each take more than a second of processor time: all of their tests are marked slow.
SLOW = (
    *("hardening/test_fuzz.py", "unit/cli/test_traps.py", "tui/test_build_screen.py"),
    *("tui/test_lesson_places.py", "tui/test_lessons.py", "tui/test_pictures.py", "tui/test_results_screen.py"),
    *("tui/test_run_screen.py", "tui/test_stripe_screen.py", "tui/test_volumes.py", "unit/adapt/test_volumes.py"),
    *("unit/fleet/test_engine.py", "unit/results/test_verdicts.py", "unit/sweep/test_sweep_in_browser.py"),
)

# Markers of tests that need the embedded kernel; --on qemu: leaves these tests out.
EMBEDDED_ONLY = ("virtual_time", "planted", "uml")

# Marker -> programs that its tests start.
PROGRAMS = {
    "kernel": ("mdadm", "dmsetup", "fio", "modprobe", "mkfs.ext4", "nbdkit", "nbd-client"),
    "cluster": ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sshd", "ssh", "ssh-keygen"),
    "virtual_time": (),
    "planted": (),
    "qemu": ("qemu-system-x86_64", "mdadm", "fio", "modprobe"),
    "oci_image": ("mmdebstrap", "newuidmap", "umoci", "skopeo", "bwrap"),
    "root_image": ("mmdebstrap", "newuidmap", "sqfstar", "depmod", "qemu-system-x86_64", "qemu-system-aarch64"),
    "vm": ("packer", "vagrant", "libvirtd", "virsh", "qemu-img", "dnsmasq", "dbus-daemon", "slirp4netns", "unshare"),
}
CURE = {
    "kernel": "provision/host/setup.sh test",
    "cluster": "provision/host/setup.sh test",
    "virtual_time": "make uml-kernel",
    "planted": "make planted-kernel",
    "qemu": "provision/host/setup.sh test, then .venv/bin/raidlab kernels get 6.12",
    "oci_image": "provision/host/packages.sh root-image oci-image oci-image-test",
    "root_image": "provision/host/packages.sh root-image qemu-x86_64 qemu-aarch64",
    "vm": "provision/host/setup.sh test-vm",
}


def missing_for(marker: str) -> list[str]:
    missing = [program for program in PROGRAMS.get(marker, ()) if not shutil.which(program, path=SEARCH_PATH)]
    kind = kernel_target().kind
    if marker == "kernel" and kind is TargetKind.UML and not embedded_kernel():
        missing.append("linux.uml")
    if marker == "virtual_time" and not built_kernel("virtual-time"):
        missing.append("the embedded kernel with virtual time")
    if marker == "planted" and not built_kernel("planted"):
        missing.append("the embedded kernel with planted bugs")
    if (marker == "qemu" or (marker == "kernel" and kind is TargetKind.QEMU)) and not stock_kernels():
        missing.append("a distribution's kernel that this user can read")
    return missing


def embedded_kernel() -> Path | None:
    packaged = shutil.which("linux.uml", path=SEARCH_PATH)
    return Path(packaged) if packaged else built_kernel("standard")


def built_kernel(flavour: str) -> Path | None:
    """The kernel that provision/kernel/build-uml.sh has built for this user, None if it has not."""
    built = platformdirs.user_cache_path("raidlab") / "kernels" / flavour / "linux"
    return built if os.access(built, os.X_OK) else None


def everything_required() -> bool:
    """Whether missing requirements are failures: in CI a skipped tier would look like a passed one."""
    return os.environ.get("RAIDLAB_REQUIRE") == "1" or os.environ.get("CI", "").lower() in ("1", "true")


def pytest_xdist_auto_num_workers() -> int:
    """Three workers for two processors, since a test sometimes waits for a drive, a sync or a screen.

    Four would take as long, since the processors are busy by then, and would starve loads that run in real time.
    """
    return min(MOST_WORKERS, (os.cpu_count() or 1) * 3 // 2)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--on", metavar="TARGET", help="the machine of the kernel tests: uml: (the default) or qemu:")
    parser.addoption("--seconds", type=float, help="how long the tests last that can last for hours")
    parser.addoption("--seed", type=int, default=13, help="of what these tests choose at random")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("on"):
        os.environ[VARIABLE] = config.getoption("on")


class Shares(LoadFileScheduling):  # type: ignore[misc] # it comes without types
    """One worker runs all tests of a file, but each test of the SHARED files goes to whichever worker is free."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if any(stem in nodeid for stem in SHARED) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Shares | None:
    return Shares(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files that measure first, then those for the embedded kernel, longest first, with the others in between.

    As a result no worker is left alone with a long file at the end, and few kernels run at the same time.
    """
    if kernel_target().kind is not TargetKind.UML:
        left_out = [item for item in items if any(map(item.get_closest_marker, EMBEDDED_ONLY))]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if "long_run" in getattr(item, "fixturenames", ()):
            # Longer than any timeout in these tests, so that they report a hang themselves.
            item.add_marker(pytest.mark.timeout((config.getoption("seconds") or 0.0) + 1800.0))
        if item.path.as_posix().endswith(SLOW):
            item.add_marker(pytest.mark.slow)
        files.setdefault(item.path, []).append(item)
    measuring = [file for file in files if file.stem in MEASURING]
    places: dict[Path, float] = {file: MEASURING.index(file.stem) - len(MEASURING) for file in measuring}
    kernel = [file for file in files if file not in measuring and files[file][0].get_closest_marker("kernel")]
    kernel.sort(key=_rank)
    others = [file for file in files if file not in measuring and file not in kernel]
    places |= {file: (index + 0.5) / len(kernel) for index, file in enumerate(kernel)}
    places |= {file: (index + 1) / len(others) for index, file in enumerate(others)}
    items[:] = [item for file in sorted(files, key=lambda file: places[file]) for item in files[file]]


def _rank(file: Path) -> int:
    return LONGEST.index(file.stem) if file.stem in LONGEST else len(LONGEST) + (file.stem in LAST)


def pytest_collection_finish() -> None:
    """Collect garbage seldom, and ignore loaded modules: collection took a third of the time of the app's tests."""
    settle_collector()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        # Skipped even if everything is required: .ci/run runs these tests as root.
        pytest.skip("only root can do this; next, as root: .venv/bin/pytest -m 'kernel and root' tests/kernel")
    for marker in PROGRAMS:
        if item.get_closest_marker(marker) is None:
            continue
        missing = missing_for(marker)
        if not missing:
            continue
        reason = f"{marker} tests need {', '.join(missing)}; next: {CURE[marker]}"
        if everything_required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


class LongRun(NamedTuple):
    """Options of tests that can run for hours. ``seconds`` is None if they are to take their usual time."""

    seconds: float | None
    seed: int


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> LongRun:
    return LongRun(request.config.getoption("seconds"), request.config.getoption("seed"))


@pytest.fixture(scope="session", autouse=True)
def private_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep labs and results of the tests apart from the user's. Machines that outlive one test share this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDLAB_STATE", str(tmp_path_factory.mktemp("state")))
        for variable in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            patch.delenv(variable, raising=False)
        yield
