"""IOPS through a device-mapper table of the maximum length of volumes, compared with IOPS of the md array below it.

The table maps every block to itself, with the maximum number of targets that a volume gets, so the array does the same
work both times. Two runs of fio exist at the same time and take turns. Both are restarted several times, because two
starts of fio differ by more than the table costs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.support.report import asked_one, finish_pairs, notice
from benchmarks.support.rig import drives, read_iops
from lab.adapt.layout import COMFORTABLE_TARGETS
from lab.adapt.spec import VolumeSpec
from lab.arrays.filesystem import FileSystem
from lab.disks import DiskKind, Lab, specs
from lab.plans import Plan, Step
from lab.units import MIB, SECTOR_BYTES

STARTS = 5
# This is short, so that other work of the computer affects both stretches of a pair alike.
STRETCH_SECONDS = 0.5
DISKS = 9
ARRAY = "md100"
BOUND = 0.97


@contextmanager
def reading(lab: Lab, name: str, device: str) -> Iterator[str]:
    """Start random 4K reads with four in flight, suspend the process, and yield its process ID."""
    argv = ["fio", "--name=bench", f"--filename={device}", "--ioengine=libaio", "--direct=1", "--bs=4k", "--thread"]
    argv += ["--rw=randread", "--iodepth=4", "--runtime=1000", "--time_based"]
    fio = lab.machine.stream(["sh", "-c", f'echo $$ > /run/{name}.pid; exec "$@"', "start", *argv])
    time.sleep(3)
    number = lab.machine.run(("cat", f"/run/{name}.pid")).stdout.strip()
    lab.machine.run(("kill", "-STOP", number))
    try:
        yield number
    finally:
        lab.machine.run(("kill", "-CONT", number))
        fio.stop()
        fio.result()


def stretch_iops(lab: Lab, process: str) -> float:
    lab.machine.run(("kill", "-CONT", process))
    iops = read_iops(lab, ARRAY, settle_seconds=0.1, seconds=STRETCH_SECONDS)
    lab.machine.run(("kill", "-STOP", process))
    time.sleep(0.05)
    return iops


def identity_table(size_bytes: int) -> str:
    """Return a table that maps every block to itself, in pieces of a whole number of 4K blocks."""
    sectors = size_bytes // SECTOR_BYTES
    piece = -(-sectors // COMFORTABLE_TARGETS // 8) * 8
    return "".join(
        f"{start} {min(piece, sectors - start)} linear /dev/{ARRAY} {start}\n" for start in range(0, sectors, piece)
    )


def pairs_of(lab: Lab, mapped: str, count: int, *, is_swapped: bool) -> list[tuple[float, float]]:
    """Return pairs of mapped and bare IOPS. Each pair is measured in the reverse order of the previous one."""
    with ExitStack() as running:
        devices = {"mapped": mapped, "bare": f"/dev/{ARRAY}"}
        names = sorted(devices, reverse=is_swapped)
        process = {name: running.enter_context(reading(lab, name, devices[name])) for name in names}
        found = []
        for number in range(count):
            order = ("mapped", "bare") if number % 2 else ("bare", "mapped")
            iops = {name: stretch_iops(lab, process[name]) for name in order}
            found.append((iops["mapped"], iops["bare"]))
            notice(f"pair {number + 1} of {count}: {iops['mapped'] / iops['bare']:.3f}")
        return found


def main() -> None:
    rounds = asked_one("rounds", 24, "number of pairs with each start of fio, and of starts if this is fewer", smoke=1)
    starts = min(STARTS, rounds)
    disks = specs(DISKS, DiskKind.FILE, size_bytes=64 * MIB)
    with drives("uml:", disks) as lab:
        spec = VolumeSpec(lab.disks, assume_clean=True)
        lab.execute(spec.creation((), FileSystem.RAW))
        lab.machine.run(("dd", "if=/dev/urandom", f"of={spec.device}", "bs=1M", "oflag=direct"), check=False)
        size = int(lab.machine.run(("blockdev", "--getsize64", f"/dev/{ARRAY}")).stdout)
        # The array belongs to the volume. A second table needs an array that is free.
        lab.machine.run(("dmsetup", "remove", spec.name))
        table = identity_table(size)
        create = ("dmsetup", "--verifyudev", "create", "long")
        lab.execute(
            Plan("Map it", (Step(create, "Maps the array.", writes_devices=(f"/dev/{ARRAY}",), stdin_text=table),))
        )
        pairs = [
            pair
            for start in range(starts)
            for pair in pairs_of(lab, "/dev/mapper/long", rounds, is_swapped=start % 2 == 1)
        ]
    finish_pairs(
        "IOPS through a table of the maximum length of volumes ÷ IOPS of the same array without it",
        pairs,
        ">=",
        BOUND,
        ("mapped_iops", "bare_iops"),
        starts=starts,
        targets=len(table.splitlines()),
    )


if __name__ == "__main__":
    main()
