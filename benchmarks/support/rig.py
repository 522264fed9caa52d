"""Loads on arrays and bare disks, counted by the kernel over a stretch in the middle of one run of fio.

fio leaves out I/Os that were in flight when its warm-up ended: at queue depth 64 that is a second's work of one drive.
All of it happens within one command on the machine, on the machine's clock: where time is virtual, an hour may pass
there between two commands while this computer is busy.
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
"""So many samples in a row must find new I/Os: a single one may come from a program that reads the superblock."""

# $1 the array's stat file, $2 its column to count by, $3 seconds to settle, $4 seconds to count, then fio's command.
# Columns: Documentation/block/stat.rst. Prints uptime and count twice, then fio's JSON.
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
    """What one run of fio showed; latencies are fio's own."""

    iops: float
    mean_seconds: float
    p95_seconds: float


def measure(lab: Lab, device: str, direction: str, depth: int, *, seconds: float, seed: int) -> Measured:
    """Random 4 KiB reads or writes with ``depth`` in flight; raises CommandFailed if fio ends too early."""
    # The last I/O of the warm-up has long been answered when counting starts.
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
    """A lab with these disks, and nothing of the user's."""
    with private_state(), open_lab(parse_target(target), Host.real("benchmark"), wanted=disks) as lab:
        yield lab


def read_iops(lab: Lab, array: str, *, settle_seconds: float, seconds: float) -> float:
    """Reads a second of an array in real time, from its own counter, while something else makes the load."""

    def reads_done() -> tuple[float, int]:
        text = lab.machine.read(["/proc/diskstats"])["/proc/diskstats"] or ""
        return time.monotonic(), parse_diskstats(text)[array].reads

    time.sleep(settle_seconds)
    begin, before = reads_done()
    time.sleep(seconds)
    end, after = reads_done()
    return (after - before) / (end - begin)


def destroy(spec: ArraySpec) -> Plan:
    """Stop the array and erase its superblock from every device; no steps for a single disk."""
    if not spec.is_array:
        return Plan("Release the bare disk")
    return operations.stop(spec.name) + operations.zero_superblocks(spec.devices)


def limit_speed(machine: Machine, member_bytes: int) -> None:
    """Make each rebuild of a member of this size take two seconds at least, which is twenty samples.

    A rebuild that is over between two samples is not seen. md averages over the seconds that have begun (md_do_sync in
    drivers/md/md.c): in the first a third may be copied, so the last third begins after two. An array with a minimum
    speed above the limit is not held back.
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
