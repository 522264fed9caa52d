"""fio's IOPS with full sampling at 4 Hz, against fio alone: same guest, same array of nine members, in turn."""

from __future__ import annotations

import json
import statistics
import sys

from benchmarks.support.report import finish, private_state, spread
from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.arrays.waits import wait_until_idle
from lab.disks import DiskKind, Lab, open_lab, specs
from lab.machine import Host, parse_target
from lab.measure.recorder import Recorder
from lab.units import MIB

PAIRS = 9
SECONDS = 5
MEMBERS = 9
BOUND = 0.98


def fio_iops(lab: Lab, device: str) -> float:
    """Random 4K reads of written data, four at a time."""
    argv = [
        "fio",
        "--name=bench",
        f"--filename={device}",
        "--ioengine=libaio",
        "--direct=1",
        "--bs=4k",
        "--rw=randread",
    ]
    argv += ["--iodepth=4", f"--runtime={SECONDS}", "--time_based", "--ramp_time=1", "--output-format=json"]
    text = lab.machine.run(argv).stdout
    return float(json.loads(text[text.index("{") :])["jobs"][0]["read"]["iops"])


def main() -> None:
    """Measure the pairs, each in the other order than the one before, and report the median of their ratios."""
    disks = specs(MEMBERS, DiskKind.FILE, size_bytes=64 * MIB)
    with private_state(), open_lab(parse_target("uml:"), Host.real("benchmark"), wanted=disks) as lab:
        spec = ArraySpec(level="raid5", members=tuple(disk.node for disk in lab.disks))
        lab.execute(operations.create(spec))
        wait_until_idle(lab.machine, spec.name)
        lab.machine.run(("dd", "if=/dev/urandom", f"of={spec.device}", "bs=1M", "oflag=direct"), check=False)
        fio_iops(lab, spec.device)
        pairs = []
        for number in range(PAIRS):
            found = {}
            for is_sampled in (True, False) if number % 2 else (False, True):
                if is_sampled:
                    with Recorder(lab.machine, spec.name, [disk.kernel_name for disk in lab.disks], hertz=4.0):
                        found[is_sampled] = fio_iops(lab, spec.device)
                else:
                    found[is_sampled] = fio_iops(lab, spec.device)
            pairs.append((found[True], found[False]))
            print(f"pair {number + 1} of {PAIRS}: {found[True] / found[False]:.3f}", file=sys.stderr)
    finish(
        "sampling_overhead",
        "IOPS with 4 Hz sampling of array, nine members, threads and CPU ÷ IOPS of fio alone, median of pairs",
        statistics.median(sampled / bare for sampled, bare in pairs),
        BOUND,
        at_most=False,
        details={
            "pairs": PAIRS,
            "sampled_iops": spread([sampled for sampled, _ in pairs]),
            "bare_iops": spread([bare for _, bare in pairs]),
        },
    )


if __name__ == "__main__":
    main()
