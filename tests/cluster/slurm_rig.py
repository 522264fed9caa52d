"""A Slurm cluster on this computer: munged, a controller and its nodes on loopback, started by an ordinary user.

Slurm distinguishes several nodes on one computer by their ports (slurmd -N, slurm.conf(5)). All daemons and jobs run as
the user who runs the tests. Without root there are no cgroups and no accounting; Slurm finds the processes of a job in
/proc (proctrack/linuxproc).
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.keeper import SEARCH_PATH, Keeper, children_of, descendants_of, free_ports
from tests.waiting import PATIENCE_SECONDS, wait_until

NODES = ("node1", "node2")
PARTITION = "rig"
COMMAND_SECONDS = 90

CONFIGURATION = """\
ClusterName=rig
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# A job that is put back waits until its credential has expired: two minutes, were it not said.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
MailProg=/bin/true
# Listen on 127.0.0.1 alone.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# Nodes may promise more than this computer has, and a node that comes back is used again.
SlurmdParameters=config_overrides
ReturnToService=2
# A job is looked at when it comes, not half a minute later, and a node that is gone is missed soon.
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdTimeout=10
MessageTimeout=30
KillWait=2
PartitionName={partition} Nodes={nodes} Default=YES MaxTime=60 State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=4096\n"


@dataclass(frozen=True, slots=True)
class SlurmRig:
    """A running cluster. ``environment`` holds the variables that sbatch, squeue and the others need to find it."""

    keeper: Keeper
    environment: dict[str, str]
    node_pids: dict[str, int]

    @property
    def folder(self) -> Path:
        return self.keeper.folder

    def run(self, *argv: str) -> str:
        """Return the output of a Slurm command, which must succeed."""
        done = self._ask(argv)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}\n{self.tails()}"
        return done.stdout

    def submit(self, script: str, *options: str) -> int:
        return int(self.run("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap", script))

    def wait_until_it_runs(self, number: int) -> None:
        """Wait until a job runs. A controller that does not answer in time is asked again."""

        def runs() -> bool:
            return self._ask(("squeue", "--noheader", "--format=%T", f"--jobs={number}")).stdout.strip() == "RUNNING"

        wait_until(runs, COMMAND_SECONDS, lambda: f"job {number} does not run\n{self.tails()}")

    def states(self) -> dict[str, str]:
        """The states of the nodes: idle, mixed, allocated, down and so on; with an asterisk if one does not answer."""
        said = self._ask(("sinfo", "--noheader", "--Node", "--format=%N %T")).stdout
        return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)

    def wait_for_nodes(self) -> None:
        wait_until(
            lambda: all(self.states().get(node) == "idle" for node in NODES),
            PATIENCE_SECONDS,
            lambda: f"Slurm's nodes are {self.states()}\n{self.tails()}",
        )

    def start_node(self, name: str) -> None:
        """Start the daemon of a node, for the first time or after it was killed."""
        argv = ["slurmd", "-D", "-N", name]
        self.node_pids[name] = self.keeper.start(argv, f"{name}.log", self.environment)

    def lose_node(self, name: str) -> None:
        """Kill everything on a node at once, including its jobs, as if its computer had lost power."""
        steps = [pid for pid in children_of(self.keeper.pid) if pid not in self.node_pids.values()]
        families = [[pid, *descendants_of(pid)] for pid in steps]
        lost = [family for family in families if any(_runs_on(name, pid) for pid in family)]
        # The watcher of a job is killed before the job, so that it cannot report the job's end to the controller.
        watchers, jobs = [family[0] for family in lost], [pid for family in lost for pid in family[1:]]
        for pid in (self.node_pids[name], *watchers, *jobs):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def tails(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n" + "\n".join(self.keeper.log(log.name).splitlines()[-15:]) for log in logs)

    def _ask(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


def _runs_on(node: str, pid: int) -> bool:
    """Whether a process belongs to a job on the node; Slurm's own daemons do not have this variable."""
    try:
        return f"SLURMD_NODENAME={node}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


@contextmanager
def slurm_rig() -> Iterator[SlurmRig]:
    """A cluster of two idle nodes. When the block ends, nothing of the cluster is left, not even its jobs."""
    with Keeper("slurm") as keeper:
        folder = keeper.folder
        _write_configuration(folder)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        environment = kept | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": SEARCH_PATH}
        rig = SlurmRig(keeper, environment, {})
        _start_munge(keeper, environment)
        keeper.start(["slurmctld", "-D", "-i"], "slurmctld.log", environment)
        for name in NODES:
            rig.start_node(name)
        rig.wait_for_nodes()
        yield rig


def _write_configuration(folder: Path) -> None:
    host, ports = socket.gethostname().partition(".")[0], free_ports(1 + len(NODES))
    text = CONFIGURATION.format(
        host=host,
        port=ports[0],
        user=pwd.getpwuid(os.getuid()).pw_name,
        folder=folder,
        partition=PARTITION,
        nodes=",".join(NODES),
    )
    for name, port in zip(NODES, ports[1:], strict=True):
        text += NODE.format(name=name, host=host, port=port)
        (folder / f"spool.{name}").mkdir()
    (folder / "slurm.conf").write_text(text)
    # No cgroups are used. Newer Slurm must be told so. 22.05 has no such setting, and uses the fewest with version 1.
    older = _slurm_version() < (23, 2)
    no_cgroups = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no" if older else "CgroupPlugin=disabled"
    (folder / "cgroup.conf").write_text(f"{no_cgroups}\n")
    for name in ("state", "munge"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))


def _slurm_version() -> tuple[int, ...]:
    """Return year and month, parsed from a line such as "slurm-wlm 22.05.8"."""
    said = subprocess.check_output(
        ["slurmd", "-V"], env=os.environ | {"PATH": SEARCH_PATH}, text=True, timeout=PATIENCE_SECONDS
    )
    return tuple(int(word) for word in said.split()[-1].split(".")[:2])


def _start_munge(keeper: Keeper, environment: dict[str, str]) -> None:
    folder = keeper.folder / "munge"
    files = [f"--{name}-file={folder / name}" for name in ("key", "pid", "seed", "log")]
    # --force: munged wants a socket that all users can reach, but only one user can reach this socket.
    argv = ["munged", "--foreground", "--force", f"--socket={folder / 'socket'}", *files, "--num-threads=10"]
    keeper.start(argv, "munged.log", environment)
    ask = ["munge", "--no-input", f"--socket={folder / 'socket'}"]

    def answers() -> bool:
        return subprocess.run(ask, env=environment, capture_output=True, check=False).returncode == 0

    wait_until(answers, PATIENCE_SECONDS, lambda: f"munged does not answer: {keeper.log('munged.log')}")
