"""Loads on arrays and bare disks, whose I/Os the kernel counts over a stretch in the middle of one run of fio.

fio does not count I/Os that were in flight when its warm-up ended. At queue depth 64, they take one drive about a
second. The whole measurement happens within one command on the machine, on the machine's clock. In virtual time, an
hour of that clock may pass between two commands while this computer is busy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.support.report import notice, private_state
from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.disks import DiskSpec, Lab, open_lab
from lab.experiments.run import RunRequest, run_experiment
from lab.experiments.schedule import RunProgress
from lab.experiments.schema import Experiment
from lab.machine import Host, Machine, parse_target
from lab.measure.samples import parse_diskstats
from lab.plans import Plan
from lab.results.record import ResultRecord
from lab.tomlfile import decode_toml
from lab.units import KIB

SETTLE_SECONDS = 3
STEADY_SAMPLES = 4
"""This many consecutive samples must find new I/Os. A single I/O may come from a program that reads the superblock."""

# $1 is the array's stat file, $2 the column to count, $3 the seconds to settle, $4 the seconds to count, the rest fio's
# command. Documentation/block/stat.rst describes the columns. Prints uptime and count twice, then fio's JSON.
_SCRIPT = f"""
stat=$1 column=$2 settle=$3 seconds=$4
shift 4
output=$(mktemp)
"$@" >"$output" &
count() {{ cut -d' ' -f1 /proc/uptime; awk "{{print \\$$column}}" "$stat"; }}
risen=0 last=$(awk "{{print \\$$column}}" "$stat")
while [ $risen -lt {STEADY_SAMPLES} ]; do
  sleep 0.25
  kill -0 $! || exit 1
  now=$(awk "{{print \\$$column}}" "$stat")
  if [ "$now" -gt "$last" ]; then risen=$((risen + 1)); else risen=0; fi
  last=$now
done
sleep "$settle"
count
sleep "$seconds"
kill -0 $! || exit 1
count
wait $! || exit 1
cat "$output"
rm "$output"
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one run of fio. Latencies are fio's own."""

    iops: float
    mean_seconds: float
    p95_seconds: float


def measure(lab: Lab, device: str, direction: str, depth: int, *, seconds: float, seed: int) -> Measured:
    """Measure random 4 KiB reads or writes with ``depth`` in flight. Raises CommandFailed if fio ends too early."""
    # When counting starts, the last I/O of the warm-up was answered long ago.
    settle = SETTLE_SECONDS + depth // 10
    argv = ["fio", "--name=point", f"--filename={device}", "--ioengine=libaio", "--direct=1", "--bs=4k"]
    argv += [f"--rw=rand{direction}", f"--iodepth={depth}", f"--runtime={seconds + settle + 2}", "--randrepeat=0"]
    argv += ["--time_based", f"--ramp_time={settle}", "--output-format=json", "--lat_percentiles=1"]
    argv += ["--percentile_list=95", "--random_generator=tausworthe64", f"--randseed={seed}"]
    if lab.machine.facts.is_virtual_time:
        argv.append("--clocksource=clock_gettime")
    stat = f"/sys/block/{device.removeprefix('/dev/')}/stat"
    column = "1" if direction == "read" else "5"
    script = ("sh", "-c", _SCRIPT, "measure", stat, column, str(settle), str(seconds), *argv)
    begin, before, end, after, fio = lab.machine.run(script, timeout_seconds=3600).stdout.split("\n", 4)
    latency = json.loads(fio)["jobs"][0][direction]["lat_ns"]
    iops = (int(after) - int(before)) / (float(end) - float(begin))
    return Measured(iops, latency["mean"] / 1e9, latency["percentile"]["95.000000"] / 1e9)


@contextmanager
def drives(target: str, disks: Sequence[DiskSpec]) -> Iterator[Lab]:
    """Open a lab with these disks and without any of the user's data."""
    with private_state(), open_lab(parse_target(target), Host.real("benchmark"), wanted=disks) as lab:
        yield lab


def read_iops(lab: Lab, array: str, *, settle_seconds: float, seconds: float) -> float:
    """Return an array's reads per second in real time, from its own counter, while another program makes the load."""

    def reads_done() -> tuple[float, int]:
        text = lab.machine.read(["/proc/diskstats"])["/proc/diskstats"] or ""
        return time.monotonic(), parse_diskstats(text)[array].reads

    time.sleep(settle_seconds)
    begin, before = reads_done()
    time.sleep(seconds)
    end, after = reads_done()
    return (after - before) / (end - begin)


class OneArray:
    """One array at a time, on the first disks of a lab. It is built again if its level changes."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._spec: ArraySpec | None = None

    def of(self, level: str, members: int, *, assume_clean: bool) -> ArraySpec:
        if self._spec is None or self._spec.level != level:
            if self._spec:
                self.lab.execute(destroy(self._spec))
            nodes = tuple(disk.node for disk in self.lab.disks[:members])
            self._spec = ArraySpec(level, nodes, assume_clean=assume_clean)
            self.lab.execute(self._spec.creation())
        return self._spec


def destroy(spec: ArraySpec) -> Plan:
    """Return a plan that stops the array and erases its superblocks. For a bare disk, the plan has no steps."""
    if not spec.is_array:
        return Plan("Release the bare disk")
    return operations.stop(spec.name) + operations.zero_superblocks(spec.devices)


def limit_speed(machine: Machine, member_bytes: int) -> None:
    """Make each rebuild of a member of this size take at least two seconds, which gives twenty samples.

    A rebuild that ends between two samples is not seen. md averages over the seconds that have begun (md_do_sync in
    drivers/md/md.c). In the first second, a third may be copied, so the last third begins after two seconds. An array
    whose minimum speed is above the limit is not slowed down.
    """
    machine.run(("modprobe", "md_mod"))
    machine.write("/proc/sys/dev/raid/speed_limit_max", str(member_bytes // KIB // 3))


class ProgressPrinter:
    def __init__(self) -> None:
        self._label = ""

    def __call__(self, progress: RunProgress) -> None:
        if progress.label != self._label:
            self._label = progress.label
            notice(progress.label)


def run_toml(text: str, target: str) -> ResultRecord:
    request = RunRequest(parse_target(target), Host.real("benchmark"), on_progress=ProgressPrinter(), on_notice=notice)
    return run_experiment(decode_toml(text, Experiment, source="benchmark"), text, request)
