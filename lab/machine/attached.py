"""Open existing machines: this computer (``local:``), or another one over ssh (``ssh:HOST``, ``vagrant:``).

In both cases the agent is started as root, and the client communicates with it over its standard input and output.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from lab.errors import RUN_AGAIN, LabError, MachineLost, PrivilegeRefused, SpecError, ToolMissing
from lab.host.processes import Completed, Processes, RunningProcess
from lab.machine.channel import Channel
from lab.machine.kernel_image import guest_python
from lab.machine.target import Target

AGENT_FILE = Path(__file__).resolve().parent / "agent.py"
END_TIMEOUT_SECONDS = 5.0
_SSH_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15")
# Vagrant itself takes one to three seconds to start, more on a busy computer.
VAGRANT_TIMEOUT_SECONDS = 120.0
_COPIED_OPTIONS = {
    *("hostname", "user", "port", "proxycommand", "proxyjump", "identityfile", "identitiesonly"),
    *("userknownhostsfile", "stricthostkeychecking"),
}
_SSH_CANNOT_CONNECT = 255
_SHELL_NOT_FOUND = 127


class AgentProcess:
    """An agent's process, or the ssh client that connects to it. ``release`` ends it."""

    def __init__(self, process: RunningProcess, errors: IO[bytes], describe: Callable[[int, str], LabError]) -> None:
        self._process = process
        self._errors = errors
        self._describe = describe

    def release(self, has_left: bool) -> None:
        """Wait until the agent has ended, which it does when the channel is closed."""
        # sudo runs as root, so an ordinary user may not kill it. It ends when its input ends.
        with self._errors, contextlib.suppress(PermissionError):
            for _ in range(2):
                try:
                    self._process.wait(timeout=END_TIMEOUT_SECONDS)
                    return
                except Exception:  # every failure to end is handled the same way
                    self._process.kill()

    def waited_seconds(self) -> None:
        """Return None, because it is not known how long the machine waited for a processor."""

    def console_tail(self) -> str:
        """Return an empty string, because the machine's console is not recorded."""
        return ""

    def explain_loss(self) -> LabError:
        """Explain why the agent is gone, from its exit status and its error output (or those of sudo or ssh)."""
        try:
            status = self._process.wait(timeout=3)
        except Exception:  # a process that does not end counts as lost, too
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
            raise ToolMissing("sudo is not installed, and only root can control md", hint="run raidlab as root")
        argv = [sudo, "-n", *argv]
    return _start(processes, argv, _local_loss)


def _local_loss(status: int, output: str) -> LabError:
    if "password is required" in output or "not allowed" in output or "sudoers" in output:
        return PrivilegeRefused(
            f"sudo refused to start the lab's agent as root: {output.splitlines()[-1]}",
            hint="run 'sudo -v' first, allow your user in sudoers, or use the embedded kernel: --on uml:",
        )
    return MachineLost(
        f"the agent on this computer ended (status {status}): {output or 'it printed nothing'}", hint=RUN_AGAIN
    )


def ssh_arguments(target: Target) -> list[str]:
    """Return ssh's arguments without the remote command. With these arguments, ssh never asks for a password."""
    options = target.options
    argv = [*_SSH_OPTIONS, "-o", "ClearAllForwardings=yes"]
    for key, flag in (("config", "-F"), ("identity", "-i"), ("port", "-p")):
        if options.get(key):
            argv += [flag, options[key]]
    if options.get("identity"):
        # Otherwise ssh would first try the keys of a running ssh-agent, and servers hang up after a few wrong keys.
        argv += ["-o", "IdentitiesOnly=yes"]
    if options.get("known_hosts"):
        argv += ["-o", f"UserKnownHostsFile={options['known_hosts']}"]
    return [*argv, "--", target.host]


def _vagrant_arguments(config: str) -> dict[str, list[str]]:
    """Map each machine to its ssh arguments, from the ``Host`` blocks of ``vagrant ssh-config`` (ssh_config(5))."""
    hosts: dict[str, list[str]] = {}
    argv: list[str] = []
    for line in config.splitlines():
        key, _, value = line.strip().partition(" ")
        if key == "Host" and value.strip():
            # Vagrant's own LogLevel would hide why a connection failed. The user's configuration must not interfere.
            argv = hosts[value.strip()] = [*_SSH_OPTIONS, "-F", "/dev/null", "-o", "LogLevel=ERROR"]
        elif line.startswith((" ", "\t")) and value.strip() and key.lower() in _COPIED_OPTIONS:
            argv += ["-o", f"{key}={value.strip()}"]
    return {name: [*argv, "--", name] for name, argv in hosts.items()}


def find_vagrant_host(target: Target, processes: Processes) -> tuple[str, list[str]]:
    """Ask Vagrant how to reach the machine. Return the machine's name, and ssh's arguments without the remote command.

    Raises ToolMissing if Vagrant is not installed, SpecError if the Vagrantfile lacks the machine or the target matches
    several machines, and LabError if the folder contains no Vagrantfile or the machine is not running.
    """
    vagrant = processes.find("vagrant")
    if not vagrant:
        raise ToolMissing("vagrant is not installed", hint="run 'make vm' in raidlab's folder to install it")
    argv = [vagrant, "ssh-config", *((target.host,) if target.host else ())]
    quiet = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_NO_COLOR": "1"}
    answer = processes.run(argv, timeout_seconds=VAGRANT_TIMEOUT_SECONDS, extra_env=quiet)
    hosts = _vagrant_arguments(answer.stdout)
    if answer.status != 0 and not (hosts and not target.host):
        raise _vagrant_refusal(target, answer)
    if not hosts:
        raise LabError(
            f"vagrant does not report how to reach {target}", hint="look at the output of 'vagrant ssh-config'"
        )
    if len(hosts) > 1:
        names = ", ".join(f"vagrant:{name}" for name in hosts)
        raise SpecError(f"'{target}' could be any of {len(hosts)} machines", hint=f"choose one: {names}")
    return hosts.popitem()


def _vagrant_refusal(target: Target, answer: Completed) -> LabError:
    output = " ".join(answer.stderr.split()) or " ".join(answer.stdout.split())
    folder = os.path.abspath(os.environ.get("VAGRANT_CWD", "."))  # noqa: PTH100 - of this process, not of a path
    if "environment or target machine is required" in output:
        return LabError(f"there is no Vagrantfile in {folder}", hint="change to raidlab's folder, then try again")
    if "was not found configured" in output:
        return SpecError(
            f"'{target}': the Vagrantfile has no machine '{target.host}'", hint="choose one that 'vagrant status' lists"
        )
    if "not yet ready for SSH" in output:
        up = " ".join(("vagrant up", target.host)).strip()
        return LabError(f"the virtual machine defined in {folder} is not running", hint=f"start it: {up}")
    if answer.status == 124:
        return LabError(f"vagrant did not answer: {output}", hint="find out what delays 'vagrant status'")
    return LabError(
        f"vagrant refused: {output[-500:]}", hint="look at the output of 'vagrant status', and fix the problem"
    )


def remote_command(agent_bytes: int) -> str:
    """Return a shell line that reads the agent's source from standard input and runs it as root.

    It uses os.read to read exactly the bytes of the source, because requests follow on the same pipe. It prints an
    empty line to end any output of a login script. The user's login shell may be any shell, so the line starts ``sh``.
    """
    code = (
        f"import os,sys;n={agent_bytes};b=b''\n"
        "if sys.version_info<(3,9): sys.exit('raidlab: python3 here is older than 3.9')\n"
        "while len(b)<n:\n c=os.read(0,n-len(b))\n if not c:raise SystemExit(1)\n b+=c\n"
        "exec(compile(b,'raidlab-agent','exec'))"
    )
    python = f'python3 -IS -c "{code}"'
    script = (
        "command -v python3 >/dev/null || { echo 'raidlab: python3 not found' >&2; exit 127; }; echo; "
        f'if [ "$(id -u)" = 0 ]; then exec {python}; else exec sudo -n {python}; fi'
    )
    return f"exec sh -c {shlex.quote(script)}"


def start_ssh(
    name: str, arguments: Sequence[str], processes: Processes, *, by_hand: str = ""
) -> tuple[AgentProcess, Channel]:
    """Start the agent on another computer. Nothing is installed there, and nothing is left behind.

    ``name`` identifies the computer in errors. ``arguments`` are the ssh client's, including the destination.
    ``by_hand`` is the command with which users connect, if that is not ``ssh NAME``.
    """
    ssh = processes.find("ssh")
    if not ssh:
        raise ToolMissing("ssh is not installed", hint="apt install openssh-client")
    source = AGENT_FILE.read_bytes()
    argv = [ssh, *arguments, remote_command(len(source))]
    return _start(processes, argv, lambda status, output: _ssh_loss(name, status, output, by_hand), first_input=source)


def _ssh_loss(host: str, status: int, output: str, by_hand: str = "") -> LabError:
    last = output.splitlines()[-1] if output else "it printed nothing"
    fix = f"try '{by_hand or f'ssh {host} true'}' and fix what it reports"
    if "Permission denied" in output:
        return MachineLost(f"{host} does not let this user log in: {last}", hint=fix)
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in output:
        return MachineLost(
            f"the host key of {host} has changed",
            hint=f"if it was reinstalled, run 'ssh-keygen -R {host.split('@')[-1]}', then connect by hand: ssh {host}",
        )
    if "Host key verification failed" in output:
        return MachineLost(f"{host} has an unknown host key", hint=f"connect once by hand: ssh {host}")
    if status == _SSH_CANNOT_CONNECT:
        return MachineLost(f"the connection to {host} failed: {last}", hint=fix)
    if status == _SHELL_NOT_FOUND or "raidlab: python3" in output:
        return ToolMissing(
            f"python3 (3.9 or later) or sudo is not installed on {host}: {last}",
            hint="on that computer: apt install python3 sudo",
        )
    if "password is required" in output or "sudoers" in output:
        return PrivilegeRefused(
            f"sudo on {host} refused to start the lab's agent: {last}",
            hint=f"log in as root: --on ssh:root@{host.split('@')[-1]}",
        )
    return MachineLost(f"the agent on {host} ended (status {status}): {last}", hint=RUN_AGAIN)


def _start(
    processes: Processes,
    argv: Sequence[str],
    describe: Callable[[int, str], LabError],
    *,
    first_input: bytes = b"",
) -> tuple[AgentProcess, Channel]:
    with contextlib.ExitStack() as undo:
        errors = undo.enter_context(tempfile.TemporaryFile())
        process = processes.start(argv, stderr_fd=errors.fileno())
        agent = AgentProcess(process, errors, describe)
        undo.callback(agent.release, has_left=False)
        assert process.stdin is not None
        assert process.stdout is not None
        undo.enter_context(process.stdin)
        undo.enter_context(process.stdout)
        with contextlib.suppress(OSError):
            # If the process has already ended, the channel detects and explains this.
            while first_input:
                first_input = first_input[process.stdin.write(first_input) or 0 :]
        read_fd = os.dup(process.stdout.fileno())
        undo.callback(os.close, read_fd)
        channel = Channel(read_fd, os.dup(process.stdin.fileno()), agent.explain_loss)
        undo.pop_all()
    process.stdin.close()
    process.stdout.close()
    return agent, channel
