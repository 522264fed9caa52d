from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest

from lab.errors import RUN_AGAIN, LabError, MachineLost, PrivilegeRefused, SpecError, ToolMissing
from lab.host.processes import Completed
from lab.machine.attached import AGENT_FILE, _local_loss, _ssh_loss, find_vagrant_host, remote_command, ssh_arguments
from lab.machine.target import parse_target
from tests.unit.fakes import Installed
from tests.waiting import PATIENCE_SECONDS


def test_ssh_never_asks_and_takes_the_targets_options() -> None:
    argv = ssh_arguments(parse_target("ssh:root@lab1?port=2222&identity=/k&known_hosts=/h&config=/c"))
    assert argv[-2:] == ["--", "root@lab1"]
    assert "BatchMode=yes" in argv
    for flag, value in (("-p", "2222"), ("-i", "/k"), ("-F", "/c"), ("-o", "UserKnownHostsFile=/h")):
        assert value in [follower for first, follower in pairwise(argv) if first == flag]
    assert "IdentitiesOnly=yes" in argv
    assert "IdentitiesOnly=yes" not in ssh_arguments(parse_target("ssh:lab1"))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_remote_command_runs_the_agent_it_is_sent(shell: str, tmp_path: Path) -> None:
    # A fake id, first in PATH, pretends that the user is root.
    (tmp_path / "id").write_text("#!/bin/sh\necho 0\n")
    (tmp_path / "id").chmod(0o755)
    source = AGENT_FILE.read_bytes()
    request = b'{"id":1,"verb":"run","argv":["echo","hello"]}\n'
    done = subprocess.run(
        [shell, "-c", remote_command(len(source))],
        input=source + request + b'{"id":2,"verb":"list","paths":["/nowhere"]}\n',
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    first, *messages = done.stdout.splitlines()
    assert first == b""
    answers = [json.loads(line) for line in messages]
    assert answers[0]["event"] == "hello"
    assert {"id": 2, "done": True, "names": {"/nowhere": []}} in answers


def test_a_truncated_agent_source_is_not_executed() -> None:
    line = remote_command(100).replace("sudo -n ", "")
    assert (
        subprocess.run(
            ["sh", "-c", line], input=b"x", capture_output=True, timeout=PATIENCE_SECONDS, check=False
        ).returncode
        == 1
    )


@pytest.mark.parametrize(
    ("status", "words", "error", "message", "hint"),
    [
        (
            *(255, "me@lab1: Permission denied (publickey)."),
            *(MachineLost, "does not let this user log in", "'ssh me@lab1 true'"),
        ),
        (
            *(255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."),
            *(MachineLost, "has changed", "run 'ssh-keygen -R lab1',"),
        ),
        (
            *(255, "No ED25519 host key is known\nHost key verification failed."),
            *(MachineLost, "unknown host key", "by hand: ssh me@lab1"),
        ),
        (
            *(255, "ssh: connect to host lab1 port 22: Connection refused"),
            *(MachineLost, "the connection to me@lab1 failed", "'ssh me@lab1 true'"),
        ),
        (127, "raidlab: python3 not found", ToolMissing, "python3", "apt install python3"),
        (1, "raidlab: python3 here is older than 3.9", ToolMissing, "3.9 or later", "apt install python3"),
        (1, "sudo: a password is required", PrivilegeRefused, "sudo on me@lab1 refused", "ssh:root@lab1"),
        (1, "", MachineLost, "it printed nothing", RUN_AGAIN),
    ],
)
def test_error_output_of_ssh_becomes_an_error_with_a_hint(
    status: int, words: str, error: type[LabError], message: str, hint: str
) -> None:
    loss = _ssh_loss("me@lab1", status, words)
    assert type(loss) is error
    assert message in loss.message
    assert hint in loss.hint


def test_losses_of_virtual_machines_and_of_this_computer() -> None:
    assert "vagrant ssh raidlab" in _ssh_loss("vagrant:", 255, "No route to host", "vagrant ssh raidlab").hint
    assert isinstance(_local_loss(1, "sudo: a password is required"), PrivilegeRefused)
    assert isinstance(_local_loss(-9, ""), MachineLost)


# vagrant 2.3.4 with vagrant-libvirt 0.11.2: vagrant ssh-config
CONFIG = """Host raidlab
  HostName 192.168.121.101
  User vagrant
  Port 22
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  PasswordAuthentication no
  IdentityFile "/home/a user/raidlab/.vagrant/machines/raidlab/libvirt/private_key"
  IdentitiesOnly yes
  LogLevel FATAL

"""
NOT_UP = """The provider for this Vagrant-managed machine is reporting that it
is not yet ready for SSH. Depending on your provider this can carry
different meanings. Make sure your machine is created and running and
try again."""
NO_FILE = "A Vagrant environment or target machine is required to run this\ncommand. Run `vagrant init` to create"
NO_NODE = "The machine with the name 'raidlab9' was not found configured for\nthis Vagrant environment."


def vagrant(answer: Completed) -> Mock:
    """Processes with a vagrant that always gives the same answer."""
    return Mock(find=lambda program: f"/usr/bin/{program}", run=Mock(return_value=answer))


def test_the_ssh_config_of_vagrant_becomes_arguments_of_ssh() -> None:
    processes = vagrant(Completed(0, CONFIG, ""))
    find_vagrant_host(parse_target("vagrant:raidlab2"), processes)
    name, argv = find_vagrant_host(parse_target("vagrant:"), processes)
    assert name == "raidlab"
    asked = [call.args[0] for call in processes.run.call_args_list]
    assert asked == [["/usr/bin/vagrant", "ssh-config", "raidlab2"], ["/usr/bin/vagrant", "ssh-config"]]
    assert argv[-2:] == ["--", "raidlab"]
    assert "HostName=192.168.121.101" in argv
    assert 'IdentityFile="/home/a user/raidlab/.vagrant/machines/raidlab/libvirt/private_key"' in argv
    assert "UserKnownHostsFile=/dev/null" in argv
    assert "LogLevel=ERROR" in argv
    assert not any("FATAL" in word for word in argv)


@pytest.mark.parametrize(
    ("target", "answer", "error", "message", "hint"),
    [
        ("vagrant:", Completed(1, "", NOT_UP), LabError, "is not running", "vagrant up"),
        ("vagrant:raidlab2", Completed(1, "", NOT_UP), LabError, "is not running", "vagrant up raidlab2"),
        ("vagrant:", Completed(1, "", NO_FILE), LabError, "no Vagrantfile in /", "raidlab's folder"),
        ("vagrant:raidlab9", Completed(1, "", NO_NODE), SpecError, "no machine 'raidlab9'", "vagrant status"),
        (
            "vagrant:",
            Completed(0, CONFIG + CONFIG.replace("Host r", "Host x"), ""),
            SpecError,
            "2 machines",
            "vagrant:r",
        ),
        ("vagrant:", Completed(124, "", "no answer within 120 s"), LabError, "did not answer", "vagrant status"),
        ("vagrant:", Completed(1, "", "RAIDLAB_DISKS is '0'; it must"), LabError, "RAIDLAB_DISKS is '0'", "fix"),
        ("vagrant:", Completed(0, "", ""), LabError, "does not report how to reach", "vagrant ssh-config"),
    ],
)
def test_failures_of_vagrant_are_reported_with_a_hint(
    target: str, answer: Completed, error: type[LabError], message: str, hint: str
) -> None:
    with pytest.raises(error, match=f"{message}.*\n.*{hint}") as refused:
        find_vagrant_host(parse_target(target), vagrant(answer))
    assert type(refused.value) is error


def test_one_machine_of_a_class_that_runs_is_enough() -> None:
    # vagrant fails because of the others, after it has reported this one.
    processes = vagrant(Completed(1, f"==> raidlab: a notice\n{CONFIG}", NOT_UP))
    assert find_vagrant_host(parse_target("vagrant:"), processes)[0] == "raidlab"


def test_without_vagrant_the_set_up_is_named() -> None:
    with pytest.raises(ToolMissing, match=r"vagrant is not installed\n.*make vm"):
        find_vagrant_host(parse_target("vagrant:"), Installed())
