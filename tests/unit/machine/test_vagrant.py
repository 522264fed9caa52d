from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from lab.errors import LabError, SpecError, ToolMissing
from lab.host.processes import Completed, Processes
from lab.machine.target import parse_target
from lab.machine.vagrant import find_host

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


class Vagrant(Processes):
    """A vagrant that always gives the same answer."""

    def __init__(self, answer: Completed, *, is_there: bool = True) -> None:
        self.answer = answer
        self.is_there = is_there
        self.asked: list[Sequence[str]] = []

    def find(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if self.is_there else None

    def run(
        self, argv: Sequence[str], *, timeout_seconds: float = 30.0, extra_env: Mapping[str, str] | None = None
    ) -> Completed:
        self.asked.append(argv)
        return self.answer


def test_what_vagrant_tells_becomes_arguments_of_ssh() -> None:
    vagrant = Vagrant(Completed(0, CONFIG, ""))
    find_host(parse_target("vagrant:raidlab2"), vagrant)
    assert vagrant.asked.pop()[1:] == ["ssh-config", "raidlab2"]
    name, argv = find_host(parse_target("vagrant:"), vagrant)
    assert name == "raidlab"
    assert vagrant.asked == [["/usr/bin/vagrant", "ssh-config"]]
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
def test_a_refusal_says_what_to_do(
    target: str, answer: Completed, error: type[LabError], message: str, hint: str
) -> None:
    with pytest.raises(error) as refused:
        find_host(parse_target(target), Vagrant(answer))
    assert type(refused.value) is error
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_one_machine_of_a_class_that_runs_is_enough() -> None:
    # vagrant fails because of the others, after it has reported this one.
    vagrant = Vagrant(Completed(1, f"==> raidlab: a notice\n{CONFIG}", NOT_UP))
    assert find_host(parse_target("vagrant:"), vagrant)[0] == "raidlab"


def test_without_vagrant_the_set_up_is_named() -> None:
    with pytest.raises(ToolMissing, match="vagrant is not installed") as missing:
        find_host(parse_target("vagrant:"), Vagrant(Completed(127, "", ""), is_there=False))
    assert "make vm" in missing.value.hint
