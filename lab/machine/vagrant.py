"""The ``vagrant:`` target: how ssh reaches the machine of a Vagrantfile, as ``vagrant ssh-config`` reports it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lab.errors import LabError, SpecError, ToolMissing
from lab.host.processes import Completed, Processes
from lab.machine.attached import SSH_OPTIONS
from lab.machine.target import Target

# Vagrant itself takes one to three seconds to start, more on a busy computer.
ANSWER_TIMEOUT_SECONDS = 120.0
_KEPT = frozenset(
    (
        *("hostname", "user", "port", "proxycommand", "proxyjump", "identityfile", "identitiesonly"),
        *("userknownhostsfile", "stricthostkeychecking"),
    )
)


@dataclass(frozen=True, slots=True)
class VagrantHost:
    """One machine as ssh reaches it: its name, and the options of ssh_config(5) as written."""

    name: str
    options: tuple[tuple[str, str], ...]

    def ssh_arguments(self) -> list[str]:
        """The ssh client's arguments without the remote command; never asks for a password."""
        # Vagrant's own LogLevel would hide why a connection failed. The user's configuration must not interfere.
        argv = [*SSH_OPTIONS, "-F", "/dev/null", "-o", "LogLevel=ERROR"]
        for key, value in self.options:
            if key.lower() in _KEPT:
                argv += ["-o", f"{key}={value}"]
        return [*argv, "--", self.name]


def parse_ssh_config(text: str) -> tuple[VagrantHost, ...]:
    """Parse the ``Host`` blocks that ``vagrant ssh-config`` prints, one for each machine; ignore all other lines."""
    hosts: list[VagrantHost] = []
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key == "Host" and value.strip():
            hosts.append(VagrantHost(value.strip(), ()))
        elif hosts and line.startswith((" ", "\t")) and value.strip():
            last = hosts.pop()
            hosts.append(VagrantHost(last.name, (*last.options, (key, value.strip()))))
    return tuple(hosts)


def find_host(target: Target, processes: Processes) -> VagrantHost:
    """Ask Vagrant how to reach the machine.

    Raises ToolMissing without Vagrant, SpecError if the Vagrantfile lacks the machine or the target fits several,
    LabError for a folder without a Vagrantfile and for a machine that is not running.
    """
    vagrant = processes.find("vagrant")
    if not vagrant:
        raise ToolMissing("vagrant is not installed", hint="run 'make vm' in raidlab's folder, which sets it up")
    argv = [vagrant, "ssh-config", *((target.host,) if target.host else ())]
    quiet = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}
    answer = processes.run(argv, timeout_seconds=ANSWER_TIMEOUT_SECONDS, extra_env=quiet)
    hosts = parse_ssh_config(answer.stdout)
    if answer.status != 0 and not (hosts and not target.host):
        raise refusal(target, answer)
    if not hosts:
        raise LabError(
            f"vagrant does not report how to reach {target}", hint="look at the output of 'vagrant ssh-config'"
        )
    if len(hosts) > 1:
        names = ", ".join(f"vagrant:{host.name}" for host in hosts)
        raise SpecError(f"'{target}' could be any of {len(hosts)} machines", hint=f"name one: {names}")
    return hosts[0]


def refusal(target: Target, answer: Completed) -> LabError:
    """Return the error for a failed ``vagrant ssh-config``, with a hint."""
    said = " ".join(answer.stderr.split()) or " ".join(answer.stdout.split())
    folder = os.path.abspath(os.environ.get("VAGRANT_CWD", "."))  # noqa: PTH100 - of this process, not of a path
    if "environment or target machine is required" in said:
        return LabError(f"there is no Vagrantfile in {folder}", hint="go to raidlab's folder, then try again")
    if "was not found configured" in said:
        return SpecError(
            f"'{target}': the Vagrantfile has no machine '{target.host}'", hint="'vagrant status' lists them"
        )
    if "not yet ready for SSH" in said:
        up = " ".join(("vagrant up", target.host)).strip()
        return LabError(f"the virtual machine of {folder} is not running", hint=f"start it: {up}")
    if answer.status == 124:
        return LabError(f"vagrant did not answer: {said}", hint="find out what delays 'vagrant status'")
    return LabError(
        f"vagrant refused: {said[-500:]}", hint="look at the output of 'vagrant status', and fix the problem"
    )
