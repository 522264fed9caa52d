"""Real root images: built by an ordinary user and booted on both architectures, with an array that loses a disk."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.arrays.spec import ArraySpec
from lab.doctor import check_machine
from lab.errors import SpecError
from lab.machine import EmbeddedOptions, open_machine, parse_target
from lab.session.session import Client, open_session
from lab.units import MIB
from tests.kernel.place import host_at
from tests.kernel.test_machine import REPOSITORY, processes_of, sparse_disks
from tests.waiting import wait_until

pytestmark = [pytest.mark.kernel, pytest.mark.root_image, pytest.mark.timeout(1800), pytest.mark.wide]

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@pytest.fixture(scope="module", params=MACHINES)
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image in a folder named after its architecture."""
    folder = tmp_path_factory.mktemp("images") / str(request.param)
    build(str(request.param), folder)
    return folder


def build(architecture: str, folder: Path) -> None:
    script = REPOSITORY / "provision/root-image/build.sh"
    done = subprocess.run([script, architecture, folder], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr


def test_an_array_loses_a_disk_and_is_rebuilt(image: Path, tmp_path: Path) -> None:
    with open_session(Client(parse_target(f"qemu:?root={image}"), host_at(tmp_path))) as session:
        assert session.machine.facts.architecture == MACHINES[image.name]
        nodes = tuple(disk.node for disk in session.disks)
        session.run(ArraySpec("raid5", nodes[:4], size_bytes=16 * MIB, assume_clean=True).creation())
        session.machine.run(
            ["sh", "-c", "head -c 8M /dev/urandom >/tmp/data; dd if=/tmp/data of=/dev/md0 bs=1M oflag=direct"]
        )
        array = session.array("md0")
        session.run(array.fail(session.disks[1].name))
        assert array.status().is_degraded
        session.machine.run(["cmp", "-n", str(8 * MIB), "/tmp/data", "/dev/md0"])
        session.run(array.add(session.disks[4].name))
        wait_until(lambda: not array.status().is_degraded, 120)
        session.machine.run(["cmp", "-n", str(8 * MIB), "/tmp/data", "/dev/md0"])
        report = check_machine(session.machine)
        assert report.is_ready
        missing = [check.name for check in report.missing if check.name.startswith(("program-", "module-"))]
        # Debian's kernel for arm64 does not have this driver.
        assert missing == (["module-scsi_debug"] if image.name == "arm64" else [])


def test_the_machine_has_none_of_this_computers_files_and_cannot_change_the_image(image: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a key")
    before = (image / "root.squashfs").read_bytes()
    options = EmbeddedOptions(disks=sparse_disks(tmp_path, 1))
    with open_machine(parse_target(f"qemu:?root={image}"), host_at(tmp_path / "state"), embedded=options) as machine:
        assert machine.run(["cat", str(secret)], check=False).status != 0
        serials = machine.run(["sh", "-c", "for f in /sys/block/vd*/serial; do cat $f; echo; done"]).stdout.split()
        assert sorted(re.sub(r"\d+$", "", each) for each in serials) == ["RAIDLAB-", "ROOT"]
        script = "for disk in /dev/vd?; do dd if=/dev/urandom of=$disk bs=1M count=1 oflag=direct; done"
        assert "not permitted" in machine.run(["sh", "-c", script], check=False).stderr
    assert (image / "root.squashfs").read_bytes() == before
    assert processes_of(tmp_path / "state") == []
    shown = EmbeddedOptions(shown=(secret,))
    with (
        pytest.raises(SpecError, match="cannot see this computer's files"),
        open_machine(parse_target(f"qemu:?root={image}"), host_at(tmp_path / "state"), embedded=shown),
    ):
        pass
