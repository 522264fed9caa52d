"""The ``vagrant:`` target: how ssh reaches the machine of a Vagrantfile, as ``vagrant ssh-config`` reports it."""

from __future__ import annotations

import os

from lab.errors import LabError, SpecError, ToolMissing
from lab.host.processes import Completed, Processes
from lab.machine.attached import SSH_OPTIONS
from lab.machine.target import Target

# Vagrant itself takes one to three seconds to start, more on a busy computer.
ANSWER_TIMEOUT_SECONDS = 120.0
_KEPT = {
    *("hostname", "user", "port", "proxycommand", "proxyjump", "identityfile", "identitiesonly"),
    *("userknownhostsfile", "stricthostkeychecking"),
}


def _ssh_arguments(config: str) -> dict[str, list[str]]:
    """Machine -> arguments of ssh, from the ``Host`` blocks that ``vagrant ssh-config`` prints (ssh_config(5))."""
    hosts: dict[str, list[str]] = {}
    argv: list[str] = []
    for line in config.splitlines():
        key, _, value = line.strip().partition(" ")
        if key == "Host" and value.strip():
            # Vagrant's own LogLevel would hide why a connection failed. The user's configuration must not interfere.
            argv = hosts[value.strip()] = [*SSH_OPTIONS, "-F", "/dev/null", "-o", "LogLevel=ERROR"]
        elif line.startswith((" ", "\t")) and value.strip() and key.lower() in _KEPT:
            argv += ["-o", f"{key}={value.strip()}"]
    return {name: [*argv, "--", name] for name, argv in hosts.items()}


def find_host(target: Target, processes: Processes) -> tuple[str, list[str]]:
    """Ask Vagrant how to reach the machine; returns its name, and the ssh client's arguments without the command.

    Raises ToolMissing without Vagrant, SpecError if the Vagrantfile lacks the machine or the target fits several,
    LabError for a folder without a Vagrantfile and for a machine that is not running.
    """
    vagrant = processes.find("vagrant")
    if not vagrant:
        raise ToolMissing("vagrant is not installed", hint="run 'make vm' in raidlab's folder, which sets it up")
    argv = [vagrant, "ssh-config", *((target.host,) if target.host else ())]
    quiet = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}
    answer = processes.run(argv, timeout_seconds=ANSWER_TIMEOUT_SECONDS, extra_env=quiet)
    hosts = _ssh_arguments(answer.stdout)
    if answer.status != 0 and not (hosts and not target.host):
        raise _refusal(target, answer)
    if not hosts:
        raise LabError(
            f"vagrant does not report how to reach {target}", hint="look at the output of 'vagrant ssh-config'"
        )
    if len(hosts) > 1:
        names = ", ".join(f"vagrant:{name}" for name in hosts)
        raise SpecError(f"'{target}' could be any of {len(hosts)} machines", hint=f"name one: {names}")
    return hosts.popitem()


def _refusal(target: Target, answer: Completed) -> LabError:
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
