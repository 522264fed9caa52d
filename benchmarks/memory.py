"""The resident memory of client and agent during a run with nine members, as shares of their limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import lab.cli.run
from benchmarks.support.report import asked, finish, notice, private_state
from benchmarks.support.rig import ProgressPrinter, limit_speed
from lab.experiments.run import RunRequest, run_experiment
from lab.experiments.schedule import RunProgress
from lab.experiments.schema import ArrayPlan, DiskPlan, Experiment, JobPlan, RebuildPlan, check
from lab.machine import Host, Machine, parse_target
from lab.units import MIB

CLIENT_LIMIT_BYTES = 120 * MIB
AGENT_LIMIT_BYTES = 40 * MIB


@dataclass(frozen=True, slots=True)
class Options:
    seconds: Annotated[float, "duration of each job of fio"] = 10.0
    mebibytes: Annotated[int, "size of each disk"] = 100
    repeats: int = 2


SMOKE = Options(seconds=1.0, mebibytes=16, repeats=1)


def peak_bytes(status: str) -> int:
    """Return the highest resident memory so far (proc(5): VmHWM)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


class Watcher(ProgressPrinter):
    """Reads the memory of the agent, process 1 of the embedded kernel, after each cell."""

    def __init__(self, disk_bytes: int) -> None:
        super().__init__()
        self.machine: Machine | None = None
        self._disk_bytes = disk_bytes
        self.agent_bytes = 0
        self._done_count = 0

    def see(self, machine: Machine) -> None:
        self.machine = machine
        limit_speed(machine, self._disk_bytes)

    def __call__(self, progress: RunProgress) -> None:
        super().__call__(progress)
        if progress.done_count > self._done_count and self.machine is not None:
            self._done_count = progress.done_count
            status = self.machine.read(["/proc/1/status"])["/proc/1/status"] or ""
            self.agent_bytes = max(self.agent_bytes, peak_bytes(status))


def main() -> None:
    assert lab.cli.run is not None
    options = asked(SMOKE)
    # The files of four jobs fit on the array.
    job = partial(
        JobPlan,
        runtime_seconds=options.seconds,
        warmup_seconds=1.0,
        file_bytes=options.mebibytes * 64 // 100 * MIB,
    )
    experiment = Experiment(
        format_version=2,
        id="memory",
        title="nine members",
        question="How much memory do client and agent take?",
        repeats=options.repeats,
        sampling_hertz=20.0,
        disks=DiskPlan(size_bytes=options.mebibytes * MIB),
        arrays=(ArrayPlan(id="raid6", level="raid6", members=9),),
        jobs=(job(workload="rand-read-4k"), job(workload="rand-write-4k")),
        rebuild=RebuildPlan(arrays=("raid6",)),
    )
    check(experiment)
    watcher = Watcher(options.mebibytes * MIB)
    with private_state():
        request = RunRequest(parse_target("uml:"), Host.real("benchmark"), watcher, notice, watcher.see)
        record = run_experiment(experiment, "", request)
    client_bytes = peak_bytes(Path("/proc/self/status").read_text(encoding="ascii"))
    finish(
        "highest resident memory ÷ its limit, the larger of client (120 MiB) and agent (40 MiB), nine members at 20 Hz",
        max(client_bytes / CLIENT_LIMIT_BYTES, watcher.agent_bytes / AGENT_LIMIT_BYTES),
        "<=",
        1.0,
        client_mib=round(client_bytes / MIB, 1),
        agent_mib=round(watcher.agent_bytes / MIB, 1),
        rebuild_seconds=[round(each.rebuild_seconds, 2) for each in record.rebuilds],
    )


if __name__ == "__main__":
    main()
