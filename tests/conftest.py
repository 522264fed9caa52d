"""What a test needs of this computer: missing things skip it and say the cure, or fail it where all must be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import platformdirs
import pytest

# An example may take long where the computer is busy with other things, and that is no defect.
hypothesis.settings.register_profile("raidlab", deadline=None)
hypothesis.settings.load_profile("raidlab")

SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))

# Marker -> programs that its tests start.
PROGRAMS = {
    "kernel": ("mdadm", "dmsetup", "fio", "modprobe", "mkfs.ext4", "nbdkit", "nbd-client"),
    "vm": ("packer", "vagrant", "libvirtd", "virsh", "qemu-img", "dnsmasq", "dbus-daemon", "slirp4netns", "unshare"),
}
CURE = {
    "kernel": "provision/host/setup.sh test",
    "vm": "provision/host/setup.sh test-vm",
}


def missing_for(marker: str) -> list[str]:
    """What tests with this marker lack on this computer."""
    missing = [program for program in PROGRAMS.get(marker, ()) if not shutil.which(program, path=SEARCH_PATH)]
    if marker == "kernel" and not embedded_kernel():
        missing.append("linux.uml")
    return missing


def embedded_kernel() -> Path | None:
    """The packaged embedded kernel, or the one that was built here."""
    packaged = shutil.which("linux.uml", path=SEARCH_PATH)
    built = platformdirs.user_cache_path("raidlab") / "kernels" / "standard" / "linux"
    return Path(packaged) if packaged else built if os.access(built, os.X_OK) else None


def everything_required() -> bool:
    """In continuous integration a skipped tier would pass for a tested one."""
    return os.environ.get("RAIDLAB_REQUIRE") == "1" or os.environ.get("CI", "").lower() in ("1", "true")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
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


@pytest.fixture(scope="session", autouse=True)
def private_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Labs and results of the tests never mix with the user's own; shared by machines that outlive one test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAIDLAB_STATE", str(tmp_path_factory.mktemp("state")))
        for variable in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            patch.delenv(variable, raising=False)
        yield
