"""Resident memory of client and agent during a run with nine members, as shares of their limits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import lab.cli.run
from benchmarks.support.report import finish, private_state
from lab.experiments.array_plans import ArrayPlan, DiskPlan
from lab.experiments.progress import RunProgress
from lab.experiments.schema import Experiment, JobPlan, RebuildPlan, check
from lab.experiments.service import RunRequest, run_experiment
from lab.machine import Host, Machine, parse_target
from lab.units import MIB

CLIENT_LIMIT_BYTES = 120 * MIB
AGENT_LIMIT_BYTES = 40 * MIB


def peak_bytes(status: str) -> int:
    """The highest resident memory so far (proc(5): VmHWM)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


class Watcher:
    """Reads the agent's memory after each cell; the agent is process 1 of the embedded kernel."""

    def __init__(self) -> None:
        self.machine: Machine | None = None
        self.agent_bytes = 0
        self._label, self._done_count = "", 0

    def see(self, machine: Machine) -> None:
        """Keep the machine of the run."""
        self.machine = machine

    def __call__(self, progress: RunProgress) -> None:
        """Say what is done, as the command does, and look whenever a cell is over."""
        if progress.label != self._label:
            self._label = progress.label
            print(progress.label, file=sys.stderr)
        if progress.done_count > self._done_count and self.machine is not None:
            self._done_count = progress.done_count
            status = self.machine.read(["/proc/1/status"])["/proc/1/status"] or ""
            self.agent_bytes = max(self.agent_bytes, peak_bytes(status))


def main() -> None:
    """Run a small experiment on nine members in this process, command-line modules included."""
    assert lab.cli.run is not None
    experiment = Experiment(
        format_version=2,
        id="memory",
        title="nine members",
        question="How much memory do client and agent take?",
        repeats=2,
        sampling_hertz=20.0,
        disks=DiskPlan(size_bytes=100 * MIB),
        arrays=(ArrayPlan(id="raid6", level="raid6", members=9),),
        jobs=(
            JobPlan(workload="rand-read-4k", runtime_seconds=10.0, warmup_seconds=1.0, file_bytes=64 * MIB),
            JobPlan(workload="rand-write-4k", runtime_seconds=10.0, warmup_seconds=1.0, file_bytes=64 * MIB),
        ),
        rebuild=RebuildPlan(arrays=("raid6",)),
    )
    check(experiment)
    watcher = Watcher()
    with private_state():
        request = RunRequest(parse_target("uml:"), Host.real("benchmark"), watcher, print, watcher.see)
        run_experiment(experiment, "", request)
    client_bytes = peak_bytes(Path("/proc/self/status").read_text(encoding="ascii"))
    finish(
        "memory",
        "highest resident memory ÷ its limit, the worse of client (120 MiB) and agent (40 MiB), nine members at 20 Hz",
        max(client_bytes / CLIENT_LIMIT_BYTES, watcher.agent_bytes / AGENT_LIMIT_BYTES),
        1.0,
        at_most=True,
        details={"client_mib": round(client_bytes / MIB, 1), "agent_mib": round(watcher.agent_bytes / MIB, 1)},
    )


if __name__ == "__main__":
    main()
