"""The real container image: built by an ordinary user, with arrays on both machines, without root and KVM."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab import __version__
from tests.kernel.test_machine import REPOSITORY

pytestmark = [pytest.mark.kernel, pytest.mark.wide, pytest.mark.oci_image, pytest.mark.timeout(1800)]

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
# There is no embedded kernel for arm64.
MACHINES = ("uml:", "qemu:") if ARCHITECTURE == "amd64" else ("qemu:",)
USER, HOME = "1000:1000", "/home/student"


def output_of(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Container:
    """The image's files as a root directory, with the user, folder and variables from its configuration.

    As in Docker's containers by default, its processes have no capabilities and cannot create namespaces.
    """

    def __init__(self, root: Path, config: dict[str, Any]) -> None:
        uid, gid = config["User"].split(":")
        variables = [word for each in config["Env"] for word in ("--setenv", *each.split("=", 1))]
        self._start = [
            *("bwrap", "--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--clearenv"),
            *("--as-pid-1", "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
            *("--die-with-parent", "--uid", uid, "--gid", gid),
            *(*variables, "--setenv", "HOME", HOME, "--chdir", config["WorkingDir"], *config["Entrypoint"]),
        ]

    def run(self, *words: str) -> str:
        """Return the output of a program."""
        return output_of(*self._start, *words)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("image") / "raidlab.tar"
    output_of(REPOSITORY / "provision/oci-image/build.sh", ARCHITECTURE, file)
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    return file


def config_of(archive: Path, kind: str) -> dict[str, Any]:
    """The image's configuration, as podman and docker read it."""
    facts: dict[str, Any] = json.loads(output_of("skopeo", "inspect", "--config", f"{kind}:{archive}"))
    return facts


@pytest.fixture(scope="module")
def container(archive: Path) -> Container:
    layout, bundle = archive.with_name("layout"), archive.with_name("bundle")
    layout.mkdir()
    output_of("tar", "-C", layout, "-xf", archive)
    output_of("umoci", "unpack", "--rootless", "--image", f"{layout}:localhost/raidlab:latest", bundle)
    return Container(bundle / "rootfs", config_of(archive, "oci-archive")["config"])


def test_podman_and_docker_read_the_same_image(archive: Path) -> None:
    oci = config_of(archive, "oci-archive")
    # docker load reads this form unless it uses containerd's image store.
    assert config_of(archive, "docker-archive") == oci
    assert json.loads(output_of("skopeo", "inspect", f"docker-archive:{archive}"))["Layers"]
    assert oci["architecture"] == ARCHITECTURE
    config = oci["config"]
    assert (config["User"], config["WorkingDir"]) == (USER, HOME)
    assert (config["Entrypoint"], config["Cmd"]) == (["/usr/bin/tini", "--"], ["raidlab"])


def test_raidlab_is_an_ordinary_user_and_misses_nothing_for_its_machines(container: Container) -> None:
    assert __version__ in container.run("tini", "--", "raidlab", "--version")
    assert container.run("id", "-un").strip() == "student"
    assert "CapEff:\t0000000000000000" in container.run("cat", "/proc/self/status")
    for machine in MACHINES:
        reports = json.loads(container.run("raidlab", "--json", "--on", machine, "doctor", "--machine"))
        assert [report["subject"] for report in reports if report["is_ready"]] == ["computer", "machine"], reports


@pytest.mark.parametrize("machine", MACHINES)
def test_an_array_loses_a_disk_and_is_rebuilt_in_the_container(container: Container, machine: str) -> None:
    def raidlab(*words: str) -> str:
        return container.run("raidlab", "--on", f"{machine}?name={machine.strip(':')}", *words)

    raidlab("disks", "add", "--kind", "file", "--count", "5", "--size", "40M")
    raidlab("array", "create", "--level", "5", "--disks", "disk10,disk11,disk12,disk13", "--wait")
    raidlab("array", "mark", "md0")
    raidlab("array", "fail", "md0", "disk11")
    raidlab("array", "add", "md0", "disk14", "--wait")
    assert "4 of 4 in sync" in raidlab("array", "show")
    assert "INTACT" in raidlab("array", "verify", "md0")
