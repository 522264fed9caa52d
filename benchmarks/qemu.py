"""Boot, first array and a command on an open machine, for a distribution's kernel in QEMU and the embedded kernel."""

from __future__ import annotations

import operator
import re
import statistics
import time
from dataclasses import dataclass
from typing import Annotated

from benchmarks.support.report import asked, finish, private_state, spread
from lab.arrays.spec import ArraySpec
from lab.disks import open_lab
from lab.disks.kinds import DiskKind, specs
from lab.machine import Host, parse_target
from lab.machine.qemu import accelerators
from lab.machine.stock_kernels import find_stock_kernel
from lab.units import MIB

BOUND = 1.5
BOOT_BOUND_SECONDS, FIRST_ARRAY_BOUND_SECONDS = 6.0, 8.0


@dataclass(frozen=True, slots=True)
class Options:
    rounds: Annotated[int, "number of machines of each kind"] = 7
    commands: Annotated[int, "number of commands on each open machine"] = 200
    kernel: Annotated[str, "release for qemu:, or its beginning, by default the newest"] = ""


SMOKE = Options(rounds=1, commands=20)
_FIRST_PROGRAM = re.compile(r"^\[ *([0-9.]+)\] Run /init as init process", re.MULTILINE)


def measure(target: str, host: Host, commands: int) -> dict[str, float]:
    """Return the times that a machine with nine disks takes, in seconds.

    They are the times until its agent answers, until mdadm has created a RAID 5, and until the kernel has started its
    first program. The last is the median time of a command that reads a small file in a process.
    """
    begin = time.monotonic()
    booted: list[float] = []
    wanted = specs(9, DiskKind.FILE, size_bytes=64 * MIB)
    with open_lab(
        parse_target(target), host, wanted=wanted, on_machine=lambda _: booted.append(time.monotonic() - begin)
    ) as lab:
        nodes = tuple(disk.node for disk in lab.disks)
        lab.execute(ArraySpec("raid5", nodes[:4], assume_clean=True).creation())
        first_array = time.monotonic() - begin
        times = []
        for _ in range(commands):
            start = time.monotonic()
            lab.machine.run(("cat", "/proc/mdstat"))
            times.append(time.monotonic() - start)
        kernel = _FIRST_PROGRAM.search(lab.machine.run(("dmesg",)).stdout)
    return {
        "boot": booted[0],
        "kernel": float(kernel[1]) if kernel else 0.0,
        "first_array": first_array,
        "command": statistics.median(times),
    }


def main() -> None:
    options = asked(SMOKE)
    kernel = find_stock_kernel(options.kernel)
    qemu = f"qemu:?kernel={kernel.release}"
    found: dict[str, list[dict[str, float]]] = {"uml:": [], qemu: []}
    with private_state():
        host = Host.real("benchmark")
        # The first start makes the initramfs, and warms the caches.
        measure(qemu, host, 1)
        for _ in range(options.rounds):
            for target, opened in found.items():
                opened.append(measure(target, host, options.commands))
    ratios = [ours["command"] / base["command"] for ours, base in zip(found[qemu], found["uml:"], strict=True)]
    boots, arrays, kernels = ([each[name] for each in found[qemu]] for name in ("boot", "first_array", "kernel"))
    finish(
        "a command on an open machine, qemu: ÷ uml:, median of pairs",
        statistics.median(ratios),
        "<=",
        BOUND,
        kernel=kernel.release,
        accelerator=accelerators(parse_target("qemu:"), host.files)[0],
        is_boot_within_bound=statistics.median(boots) <= BOOT_BOUND_SECONDS,
        is_first_array_within_bound=statistics.median(arrays) <= FIRST_ARRAY_BOUND_SECONDS,
        # This is the part of the boot that raidlab cannot change, whether the computer is slow or fast.
        kernel_fraction=round(statistics.median(map(operator.truediv, kernels, boots)), 3),
        **{
            f"{name}_seconds": {
                target.partition(":")[0]: spread([each[name] for each in opened]) for target, opened in found.items()
            }
            for name in ("boot", "first_array", "command")
        },
    )


if __name__ == "__main__":
    main()
