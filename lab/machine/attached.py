"""Machines that are there already: this computer (``local:``) and another one (``ssh:HOST``).

Both start the agent as root and speak to it on its standard input and output.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from lab.errors import LabError, MachineLost, PrivilegeRefused, ToolMissing
from lab.machine.channel import Channel
from lab.machine.embedded import guest_python
from lab.machine.target import Target
from lab.seams.processes import Processes, RunningProcess

AGENT_FILE = Path(__file__).resolve().parent / "agent.py"
_SSH_CANNOT_CONNECT = 255
_SHELL_NOT_FOUND = 127


class AgentProcess:
    """An agent's process (or the ssh that leads to it); ``release`` ends it."""

    def __init__(self, process: RunningProcess, errors: IO[bytes], describe: Callable[[int, str], LabError]) -> None:
        self._process = process
        self._errors = errors
        self._describe = describe

    def release(self) -> None:
        """Wait for the agent's end, which follows from the closed channel."""
        try:
            self._process.wait(timeout=5)
        except Exception:  # noqa: BLE001 - any refusal to end is answered in the same way
            self._process.kill()
            self._process.wait(timeout=5)
        self._errors.close()

    def explain_loss(self) -> LabError:
        """Why the agent is gone, from its exit status and what it (or sudo, or ssh) said."""
        try:
            status = self._process.wait(timeout=3)
        except Exception:  # noqa: BLE001 - a process that will not end is as lost as one that did
            status = -1
        self._errors.seek(0)
        return self._describe(status, self._errors.read().decode("utf-8", "replace").strip()[-2000:])


def start_local(processes: Processes) -> tuple[AgentProcess, Channel]:
    """Start the agent on this computer, through ``sudo -n`` unless this process is root already."""
    python = guest_python(processes)
    argv = [python, "-IS", str(AGENT_FILE)]
    if os.geteuid() != 0:
        sudo = processes.find("sudo")
        if not sudo:
            raise ToolMissing("sudo is not installed, and only root can drive md", hint="run raidlab as root")
        argv = [sudo, "-n", *argv]
    return _start(processes, argv, lambda status, said: _local_loss(status, said))


def _local_loss(status: int, said: str) -> LabError:
    if "password is required" in said or "not allowed" in said or "sudoers" in said:
        return PrivilegeRefused(
            f"sudo refused to start the lab's agent as root: {said.splitlines()[-1]}",
            hint="run 'sudo -v' first, allow your user in sudoers, or use the embedded kernel: --on uml:",
        )
    return MachineLost(f"the agent on this computer ended (status {status}): {said or 'it said nothing'}", hint="run the command again")


def ssh_arguments(target: Target) -> list[str]:
    """The ssh client's arguments without the remote command; never asks for a password."""
    options = target.options
    argv = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15"]
    for key, flag in (("config", "-F"), ("identity", "-i"), ("port", "-p")):
        if options.get(key):
            argv += [flag, options[key]]
    if options.get("known_hosts"):
        argv += ["-o", f"UserKnownHostsFile={options['known_hosts']}"]
    return [*argv, target.host]


def remote_command(agent_bytes: int) -> str:
    """A shell line that reads the agent's source from standard input and runs it as root.

    The source is read by os.read to the last byte and no further, since what follows on the same pipe are requests.
    """
    code = (
        f"import os;n={agent_bytes};b=b''\n"
        "while len(b)<n:\n c=os.read(0,n-len(b))\n if not c:raise SystemExit(1)\n b+=c\n"
        "exec(compile(b,'raidlab-agent','exec'))"
    )
    python = f'python3 -IS -c "{code}"'
    return (
        "command -v python3 >/dev/null || { echo 'raidlab: python3 not found' >&2; exit 127; }; "
        f'if [ "$(id -u)" = 0 ]; then exec {python}; else exec sudo -n {python}; fi'
    )


def start_ssh(target: Target, processes: Processes) -> tuple[AgentProcess, Channel]:
    """Start the agent on another computer; nothing is installed there and nothing stays."""
    ssh = processes.find("ssh")
    if not ssh:
        raise ToolMissing("ssh is not installed", hint="apt install openssh-client")
    source = AGENT_FILE.read_bytes()
    argv = [ssh, *ssh_arguments(target), remote_command(len(source))]
    return _start(processes, argv, lambda status, said: _ssh_loss(target.host, status, said), first_input=source)


def _ssh_loss(host: str, status: int, said: str) -> LabError:
    last = said.splitlines()[-1] if said else "it said nothing"
    if "Permission denied" in said:
        return MachineLost(f"{host} does not let this user in: {last}", hint=f"try 'ssh {host} true' and mend what it says")
    if "Host key verification failed" in said:
        return MachineLost(f"{host} has an unknown host key", hint=f"connect once by hand: ssh {host}")
    if status == _SSH_CANNOT_CONNECT:
        return MachineLost(f"the connection to {host} failed: {last}", hint=f"try 'ssh {host} true' and mend what it says")
    if status == _SHELL_NOT_FOUND:
        return ToolMissing(f"python3 or sudo is not installed on {host}: {last}", hint="apt install python3 sudo, on that computer")
    if "password is required" in said or "sudoers" in said:
        return PrivilegeRefused(
            f"sudo on {host} refused to start the lab's agent: {last}", hint=f"log in as root: --on ssh:root@{host.split('@')[-1]}"
        )
    return MachineLost(f"the agent on {host} ended (status {status}): {last}", hint="run the command again")


def _start(
    processes: Processes, argv: Sequence[str], describe: Callable[[int, str], LabError], *, first_input: bytes = b""
) -> tuple[AgentProcess, Channel]:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the agent and is closed by release()
    process = processes.start(argv, stderr_fd=errors.fileno())
    assert process.stdin is not None
    assert process.stdout is not None
    agent = AgentProcess(process, errors, describe)
    try:
        process.stdin.write(first_input)
    except OSError:
        # The channel finds out by itself and explains.
        pass
    read_fd, write_fd = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
    process.stdout.close()
    process.stdin.close()
    return agent, Channel(read_fd, write_fd, agent.explain_loss)
