"""Features of stock kernels in QEMU only. For everything else, run the embedded kernel's tests with ``--on qemu:``."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind
from lab.errors import MachineLost
from lab.machine import EmbeddedOptions, SampleRequest, open_machine, parse_target
from lab.session import breaking
from lab.session.session import Client, LabSession, open_session
from lab.units import MIB
from tests.kernel.place import host_at, record_of
from tests.kernel.test_machine import processes_of, sparse_disks
from tests.waiting import wait_until

pytestmark = [pytest.mark.qemu, pytest.mark.timeout(600)]

TARGET = parse_target("qemu:")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSession]:
    """A named lab with an array on its first four disks."""
    host = host_at(tmp_path_factory.mktemp("state"))
    with open_session(Client(TARGET, host)) as opened:
        nodes = tuple(disk.node for disk in opened.disks)
        opened.run(ArraySpec("raid5", nodes[:4], size_bytes=32 * MIB, assume_clean=True).creation())
        yield opened


def test_the_machine_is_a_stock_kernel_with_two_processors(session: LabSession) -> None:
    facts = session.machine.facts
    assert facts.is_embedded
    assert facts.cpu_count == 2
    assert {disk.kind for disk in session.disks} == {DiskKind.FILE}
    assert "uml" not in session.machine.run(["uname", "-a"]).stdout.lower()
    assert session.machine.waited_seconds() is not None


def test_a_disk_is_unplugged_while_in_use_and_comes_back_with_its_data(session: LabSession) -> None:
    array, disk = session.array("md0"), session.disks[1]
    session.machine.run(
        ["sh", "-c", "head -c 8M /dev/urandom >/tmp/data; dd if=/tmp/data of=/dev/md0 bs=1M oflag=direct"]
    )
    # In this state mdadm makes the array read-auto when the disk disappears, and no superblock records the failure.
    wait_until(lambda: array.status().state.value == "clean", 60)
    session.run(breaking.pull(session, disk.name))
    assert session.machine.list_dirs(["/sys/block"])["/sys/block"].count(disk.kernel_name) == 0
    assert array.status().is_degraded
    session.machine.run(["cmp", "-n", str(8 * MIB), "/tmp/data", "/dev/md0"])
    session.run(breaking.plug_in(session, disk.name))
    assert not breaking.is_pulled(session, disk)
    session.run(array.add(disk.name))
    wait_until(lambda: not array.status().is_degraded, 60)
    session.machine.run(["cmp", "-n", str(8 * MIB), "/tmp/data", "/dev/md0"])


@pytest.mark.parametrize("layers", [("namespace", "landlock"), ("landlock",)])
def test_the_guests_root_changes_no_file_and_reads_none_of_the_user(layers: tuple[str, ...], tmp_path: Path) -> None:
    """Also tested as on computers that forbid namespaces to users (Ubuntu's AppArmor)."""
    secret = tmp_path / "secret"
    secret.write_text("a key")
    options = EmbeddedOptions(disks=sparse_disks(tmp_path, 1), layers=layers)
    with open_machine(TARGET, host_at(tmp_path / "state"), embedded=options) as machine:
        assert record_of(tmp_path / "state")["confined_by"] == list(layers)
        read = machine.run(["cat", str(secret)], check=False)
        assert read.status != 0
        if "namespace" in layers:
            # What QEMU itself can open. The guest cannot ask for more, since a 9p tag can be mounted only once.
            assert not Path(f"/proc/{record_of(tmp_path / 'state')['kernel_group']}/root{secret}").exists()
        machine.run(["sh", "-c", f"mount -o remount,rw /; echo changed >{secret}"], check=False)
        machine.run(["sh", "-c", "dd if=/dev/urandom of=/dev/vda bs=1M count=1 oflag=direct"])
    assert secret.read_text() == "a key"
    assert not (tmp_path / "new").exists()


def test_nothing_survives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with open_machine(TARGET, host_at(tmp_path)) as machine:
        os.kill(record_of(tmp_path)["supervisor"], signal.SIGKILL)
        with pytest.raises(MachineLost):
            machine.run(["sleep", "1000"], timeout_seconds=2000)
    wait_until(lambda: not processes_of(tmp_path), 20)


def test_an_array_outlives_its_machine(tmp_path: Path) -> None:
    host = host_at(tmp_path)
    with open_session(Client(TARGET, host)) as session:
        session.run(ArraySpec("raid1", (session.disks[0].node, session.disks[1].node), size_bytes=16 * MIB).creation())
        session.machine.run(["sh", "-c", "echo known | dd of=/dev/md0 conv=fsync"])
    with open_session(Client(TARGET, host)) as session:
        assert session.machine.run(["head", "-c", "5", "/dev/md0"]).stdout == "known"


def test_samples_come_at_the_interval(session: LabSession) -> None:
    stream = session.machine.sample(SampleRequest(0.1, files=("/proc/uptime",), block_devices=("md0",)))
    times = [sample.time_seconds for _, sample in zip(range(30), stream, strict=False)]
    stream.stop()
    # On a busy computer every sample may be late, so only the smallest gap has an upper limit. No sample comes before
    # its time, and only those after a late first one may follow it sooner.
    assert times[-1] - times[0] > (len(times) - 3) * 0.1
    assert min(after - before for before, after in itertools.pairwise(times)) < 0.3
