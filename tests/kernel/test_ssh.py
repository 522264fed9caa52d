"""``ssh:`` to a real sshd on loopback, and ``local:`` inside an embedded kernel."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import platformdirs
import pytest

from lab.errors import MachineLost, ToolMissing
from lab.machine import EmbeddedOptions, SampleRequest, open_machine, parse_target
from lab.machine.target import Target
from tests.cluster.keeper import children_of
from tests.cluster.ssh_rig import SSHD, SshRig, keygen, ssh_rig
from tests.kernel.place import disk_name, host_at, kernel_target
from tests.kernel.test_machine import REPOSITORY, sparse_disks
from tests.waiting import wait_until

pytestmark = pytest.mark.kernel

needs_sshd = pytest.mark.skipif(SSHD is None, reason="needs openssh-server; next: apt install openssh-server")


def target(server: SshRig, *, identity: str = "user_key", known_hosts: str = "known_hosts") -> Target:
    return parse_target(
        f"ssh:{server.user}@127.0.0.1?port={server.ports['server']}&config=/dev/null"
        f"&identity={server.folder / identity}&known_hosts={server.folder / known_hosts}"
    )


@pytest.fixture(scope="module")
def server() -> Iterator[SshRig]:
    with ssh_rig("server") as rig:
        keygen(rig.folder / "stranger_key")
        (rig.folder / "no_hosts").touch()
        other = (rig.folder / "stranger_key.pub").read_text()
        (rig.folder / "old_hosts").write_text(f"[127.0.0.1]:{rig.ports['server']} {other}")
        yield rig


@needs_sshd
@pytest.mark.root
def test_a_machine_behind_ssh_is_like_any_other(server: SshRig, tmp_path: Path) -> None:
    with open_machine(target(server), host_at(tmp_path / "state")) as machine:
        assert machine.facts.kernel_release == os.uname().release
        assert not machine.facts.is_embedded
        text = "long é " * 20_000
        machine.write(str(tmp_path / "file"), text)
        assert machine.read([str(tmp_path / "file")]) == {str(tmp_path / "file"): text}
        assert machine.run(["cat"], stdin_text=text).stdout == text
        samples = machine.sample(SampleRequest(0.01, files=("/proc/uptime",)))
        assert len([sample for sample, _ in zip(samples, range(3), strict=False)]) == 3
        samples.stop()
        with pytest.raises(ToolMissing, match="mdadm-of-tomorrow is not installed on ssh:"):
            machine.run(["mdadm-of-tomorrow"])
    assert not (tmp_path / "state").exists(), "a machine elsewhere needs no state folder"


@needs_sshd
@pytest.mark.root
def test_a_connection_that_breaks_is_a_lost_machine(server: SshRig, tmp_path: Path) -> None:
    with open_machine(target(server), host_at(tmp_path)) as machine:
        shell = machine.stream(["sh", "-c", "echo $$; exec sleep 1000"])
        pid = int(next(shell.chunks()))
        # The server has one child for each connection.
        for session in children_of(server.pids["server"]):
            os.kill(session, signal.SIGKILL)
        with pytest.raises(MachineLost, match=r"connection to .* failed|agent on .* ended") as lost:
            shell.result()
        assert lost.value.hint
        # The agent noticed the loss too and ended its command.
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), failure=lambda: "its command still runs")


@needs_sshd
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"known_hosts": "no_hosts"}, "has an unknown host key"),
        ({"known_hosts": "old_hosts"}, r"the host key of .* has changed"),
        ({"identity": "stranger_key"}, "does not let this user log in"),
    ],
)
def test_a_refused_connection_is_reported_with_its_cause(
    server: SshRig, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    with (
        pytest.raises(MachineLost, match=message) as lost,
        open_machine(target(server, **change), host_at(tmp_path)),
    ):
        pass
    assert "ssh " in lost.value.hint


def test_a_closed_port_is_reported_as_a_lost_machine(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = parse_target(f"ssh:127.0.0.1?port={closed.getsockname()[1]}&config=/dev/null")
        with (
            pytest.raises(MachineLost, match=r"connection to 127\.0\.0\.1 failed"),
            open_machine(nobody, host_at(tmp_path)),
        ):
            pass


LOCAL_CLIENT = """
import fcntl, json, os, sys
from lab.arrays.status import read_arrays
from lab.machine import Host, open_machine, parse_target
FOLDER, STOP_ARRAY = "/sys/block/md0/md", 0x932
with open_machine(parse_target("local:"), Host.real()) as machine:
    machine.run(["mdadm", "--create", "/dev/md0", "--run", "--assume-clean", "--level=1", "--raid-devices=2",
                 "--metadata=1.2", *sys.argv[1:]])
    state = machine.read([f"{FOLDER}/level", f"{FOLDER}/degraded", f"{FOLDER}/raid_disks"])
    running = [array.name for array in read_arrays(machine)]
    # Stopped as mdadm does it; as long as the node is open, md keeps the folder of what it stopped.
    node = os.open("/dev/md0", os.O_RDONLY)
    fcntl.ioctl(node, STOP_ARRAY)
    folder = machine.list_dirs([FOLDER])[FOLDER]
    stopped = [array.name for array in read_arrays(machine)]
    os.close(node)
    print(json.dumps({"state": list(state.values()), "facts": machine.facts.host_name, "running": running,
                      "folder": folder, "stopped": stopped}))
"""


@pytest.fixture
def sources() -> Iterator[Path]:
    """Packages that the client in the guest imports, in a folder that the guest sees: its /tmp and /run are its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        for source in (REPOSITORY / "lab", *(Path(str(module.__file__)).parent for module in (msgspec, platformdirs))):
            shutil.copytree(source, Path(name) / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(name)


def test_local_builds_a_mirror_on_a_computer_with_md(tmp_path: Path, sources: Path) -> None:
    environment = f"PYTHONPATH={sources}"
    # In a user namespace the system's files would seem to belong to another user, and be refused as programs.
    options = EmbeddedOptions(disks=sparse_disks(tmp_path, 2), shown=(sources,), layers=())
    with open_machine(kernel_target(), host_at(tmp_path / "state"), embedded=options) as machine:
        machine.run(["modprobe", "raid1"])
        # The guest has this computer's files, including its Python and its packages.
        python = str(Path(sys.executable).resolve())
        output = machine.run(
            [
                *("env", environment, "PYTHONDONTWRITEBYTECODE=1", "RAIDLAB_STATE=/run/state"),
                *(python, "-c", LOCAL_CLIENT, *(f"/dev/{disk_name(number)}" for number in range(2))),
            ],
            timeout_seconds=60,
        )
    answer = json.loads(output.stdout)
    assert [text.strip() for text in answer["state"]] == ["raid1", "0", "2"]
    assert answer["facts"] == "raidlab"
    assert answer["running"] == ["md0"]
    assert "array_state" in answer["folder"]
    assert answer["stopped"] == []
