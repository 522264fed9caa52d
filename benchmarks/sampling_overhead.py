"""fio's IOPS with full sampling at 4 Hz compared with fio alone, in alternating stretches of a single run of fio.

There is only one run, because two starts of fio differ by more than sampling costs.
"""

from __future__ import annotations

import time

from benchmarks.support.report import asked_one, finish_pairs, notice
from benchmarks.support.rig import drives, read_iops
from lab.arrays.spec import ArraySpec
from lab.arrays.status import wait_until_idle
from lab.disks import DiskKind, Lab, specs
from lab.measure.samples import Recorder
from lab.units import MIB

MEMBERS = 9
BOUND = 0.98


def stretch_iops(lab: Lab, array: str) -> float:
    return read_iops(lab, array, settle_seconds=0.3, seconds=2.5)


def sampled_iops(lab: Lab, array: str) -> float:
    with Recorder(lab.machine, array, [disk.kernel_name for disk in lab.disks], hertz=4.0):
        return stretch_iops(lab, array)


def main() -> None:
    rounds = asked_one("rounds", 24, "number of pairs of stretches", smoke=1)
    disks = specs(MEMBERS, DiskKind.FILE, size_bytes=64 * MIB)
    with drives("uml:", disks) as lab:
        spec = ArraySpec(level="raid5", members=tuple(disk.node for disk in lab.disks))
        lab.execute(spec.creation())
        wait_until_idle(lab.machine, spec.name)
        lab.machine.run(("dd", "if=/dev/urandom", f"of={spec.device}", "bs=1M", "oflag=direct"), check=False)
        # fio does random 4K reads of written data, with four in flight.
        argv = ["fio", "--name=bench", f"--filename={spec.device}", "--ioengine=libaio", "--direct=1", "--bs=4k"]
        argv += ["--rw=randread", "--iodepth=4", "--runtime=1000", "--time_based"]
        fio = lab.machine.stream(argv)
        time.sleep(4)
        pairs = []
        for number in range(rounds):
            if number % 2:
                sampled, bare = sampled_iops(lab, spec.name), stretch_iops(lab, spec.name)
            else:
                bare, sampled = stretch_iops(lab, spec.name), sampled_iops(lab, spec.name)
            pairs.append((sampled, bare))
            notice(f"pair {number + 1} of {rounds}: {sampled / bare:.3f}")
        fio.stop()
        fio.result()
    what = "IOPS with 4 Hz sampling of array, nine members, threads and CPU ÷ IOPS of fio alone"
    finish_pairs(what, pairs, ">=", BOUND, ("sampled_iops", "bare_iops"))


if __name__ == "__main__":
    main()
