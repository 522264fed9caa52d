"""What a test needs of this computer: missing things skip it and say the cure, or fail it where all must be there.

And how the tests are shared among workers: how many there are, and in which order they take the files.
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

# An example may take long where the computer is busy with other things, and that is no defect.
hypothesis.settings.register_profile("raidlab", deadline=None)
hypothesis.settings.load_profile("raidlab")

# Windows of terminals are closed in tests, and the command obeys whoever ignores that, as nohup(1) does: the tests may
# run under it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))

MOST_WORKERS = 12
# Files whose figures the work of other tests disturbs. They come first, side by side: drives make them wait most of the
# time, and nothing else wants the processors then.
MEASURING = ("test_lessons_measured", "test_steady_flight", "test_mechanical_drives", "test_cli", "test_app_lessons")
# Files of which each test goes to whichever worker is free: they take a minute each, or minutes together.
SHARED = ("kernel/test_lessons", "test_drill_proofs", "test_benchmarks")
# Files of the embedded kernel that take longest, longest first.
LONGEST = (
    *("test_exact_repeat", "test_lessons", "test_kills", "test_filesystem_and_workloads", "test_drill_proofs"),
    *("test_app_kills", "test_rebuild", "test_adapt", "test_microscope_writes", "test_drills", "test_verdicts"),
    *("test_app_drills", "test_virtual_time", "test_stand_still", "test_soak", "test_session", "test_breaking"),
)
# The last of all: a bug shows in the tests of its own story first, and a slow computer has no time for these.
LAST = ("test_benchmarks",)
# Files whose tests take more than a second of a processor's time each: marked slow as a whole.
SLOW = (
    *("hardening/test_fuzz.py", "unit/cli/test_traps.py", "tui/test_build_screen.py"),
    *("tui/test_lesson_places.py", "tui/test_lessons.py", "tui/test_pictures.py", "tui/test_results_screen.py"),
    *("tui/test_run_screen.py", "tui/test_stripe_screen.py", "tui/test_volumes.py", "unit/adapt/test_volumes.py"),
    *("unit/fleet/test_engine.py", "unit/results/test_verdicts.py", "unit/sweep/test_sweep_in_browser.py"),
)

# Tests of what only the embedded kernel has: left out with --on qemu:.
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
    """The one that provision/kernel/build-uml.sh has made for this user."""
    built = platformdirs.user_cache_path("raidlab") / "kernels" / flavour / "linux"
    return built if os.access(built, os.X_OK) else None


def everything_required() -> bool:
    """In continuous integration a skipped tier would pass for a tested one."""
    return os.environ.get("RAIDLAB_REQUIRE") == "1" or os.environ.get("CI", "").lower() in ("1", "true")


def pytest_xdist_auto_num_workers() -> int:
    """Three for two processors: now and then a test waits for a drive, a sync or a screen.

    With four the whole takes as long, since the processors are busy then, and loads in real time are starved.
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
    """A file of tests by one worker, but each test of the SHARED ones by whichever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if any(stem in nodeid for stem in SHARED) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Shares | None:
    return Shares(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that measure, then those of the embedded kernel, longest first, and between them the others.

    So no worker is left alone with a long file in the end, and no more kernels run at a time than must.
    """
    if kernel_target().kind is not TargetKind.UML:
        left_out = [item for item in items if any(map(item.get_closest_marker, EMBEDDED_ONLY))]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if "long_run" in getattr(item, "fixturenames", ()):
            # Longer than any wait of theirs, so that what hangs is reported as a hang.
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
    """Garbage is looked for seldom, and not among modules: it took a third of the app tests' time."""
    settle_collector()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        # Also where all is required: .ci/run runs these as root.
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
    """For tests that can last for hours; their usual time if ``seconds`` is None."""

    seconds: float | None
    seed: int


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> LongRun:
    return LongRun(request.config.getoption("seconds"), request.config.getoption("seed"))


@pytest.fixture(scope="session", autouse=True)
def private_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Labs and results of the tests never mix with the user's own; shared by machines that outlive one test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDLAB_STATE", str(tmp_path_factory.mktemp("state")))
        for variable in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            patch.delenv(variable, raising=False)
        yield
