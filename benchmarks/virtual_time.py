"""How many seconds are simulated per second of this computer's time in virtual time and, for comparison, in real time.

The array is RAID 5 on six emulated drives, with a constant service time and with mechanics. Random 4 KiB writes at
depth 32 are followed by a rebuild that is throttled to 1 MB/s, a wait of two hours, and a start of fio. Then the cost
of an experiment's cell in addition to its simulated time is measured. The report shows bounds next to measured values.
The outcome is the smallest of all values of measured ÷ bound (for costs, bound ÷ measured).
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Annotated

from benchmarks.support.report import DRIVES_EXPERIMENT, asked, finish, private_state
from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.arrays.status import wait_until_idle
from lab.disks import DiskKind, Lab, open_lab, specs
from lab.experiments.run import RunRequest, run_experiment
from lab.experiments.schema import find_experiment
from lab.machine import Host, Target, parse_target
from lab.units import MIB

MEMBERS = 6
CONSTANT, MECHANICAL = "hdd-7200", "sata-7200"
MODELS = {"constant": CONSTANT, "mechanics": MECHANICAL}
DRIVE_BYTES = 64 * MIB
REBUILT_BYTES = 512 * MIB
REBUILD_KIB_PER_SECOND = 10**6 // 1024
TWO_HOURS = 7200.0
CELL_SPEED = 40.0
LEAST = {"constant": 40.0, "mechanics": 10.0, "rebuild": 1000.0, "wait": 1000.0}
"""Simulated seconds per second of the computer's time."""
MOST = {"fio_start_seconds": 0.2, "cell_seconds": 0.3}
"""Seconds of the computer's time."""


@dataclass(frozen=True, slots=True)
class Options:
    seconds: Annotated[float, "simulated seconds of each load"] = 120.0
    real_seconds: Annotated[float, "seconds of each load in real time"] = 10.0
    experiment: Annotated[str, "name or file of the experiment whose cells are timed"] = "louwrentius-quick"


SMOKE = Options(seconds=2.0, real_seconds=1.0, experiment=str(DRIVES_EXPERIMENT))


@dataclass(frozen=True, slots=True)
class Span:
    simulated_seconds: float
    computer_seconds: float

    @property
    def speed(self) -> float:
        return self.simulated_seconds / self.computer_seconds


def run(lab: Lab, argv: list[str]) -> Span:
    begin = time.monotonic()
    result = lab.machine.run(argv, timeout_seconds=10 * TWO_HOURS)
    return Span(result.duration_seconds, time.monotonic() - begin)


def fio(device: str, seconds: float) -> list[str]:
    options = ["--direct=1", "--ioengine=libaio", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--time_based"]
    return ["fio", "--name=speed", f"--filename={device}", *options, f"--runtime={seconds}", "--minimal"]


def created(lab: Lab) -> ArraySpec:
    spec = ArraySpec("raid5", tuple(disk.node for disk in lab.disks[:MEMBERS]), assume_clean=True)
    lab.execute(spec.creation())
    return spec


def load_speed(target: Target, model: str, seconds: float) -> Span:
    wanted = specs(MEMBERS, DiskKind.SPINDLE, size_bytes=DRIVE_BYTES, model=model)
    with open_lab(target, Host.real("benchmark"), wanted=wanted) as lab:
        return run(lab, fio(created(lab).device, seconds))


def waits(target: Target) -> dict[str, Span]:
    """Time a throttled rebuild, a wait of two hours, and a start of fio that ends immediately."""
    wanted = specs(MEMBERS + 1, DiskKind.SPINDLE, size_bytes=REBUILT_BYTES, model=CONSTANT)
    with open_lab(target, Host.real("benchmark"), wanted=wanted) as lab:
        machine, spec = lab.machine, created(lab)
        machine.write(f"/sys/block/{spec.name}/md/sync_speed_max", f"{REBUILD_KIB_PER_SECOND}\n")
        lab.execute(operations.fail(spec.name, spec.members[0]))
        lab.execute(operations.add(spec.name, lab.disks[MEMBERS].node))
        begin, began = time.monotonic(), machine.sleep(0)
        wait_until_idle(machine, spec.name)
        rebuild = Span(machine.sleep(0) - began, time.monotonic() - begin)
        begin = time.monotonic()
        machine.sleep(TWO_HOURS)
        wait = Span(TWO_HOURS, time.monotonic() - begin)
        start = run(lab, ["fio", "--name=start", "--ioengine=null", "--size=4k", "--minimal"])
    return {"rebuild": rebuild, "wait": wait, "fio_start": start}


def cell_overhead(experiment: str) -> float:
    """Return the computer's seconds per cell of an experiment, with the machine's start, minus simulated time ÷ 40."""
    request = RunRequest(parse_target("uml:?time=virtual"), Host.real("benchmark"))
    record = run_experiment(*find_experiment(experiment), request)
    times = record.timings
    return (times.total_seconds - times.simulated_seconds["total"] / CELL_SPEED) / len(record.cells)


def main() -> None:
    options = asked(SMOKE)
    virtual, real = parse_target("uml:?time=virtual"), parse_target("uml:?time=real")
    with private_state():
        spans = {
            "constant": load_speed(virtual, CONSTANT, options.seconds),
            "mechanics": load_speed(virtual, MECHANICAL, options.seconds),
            **waits(virtual),
        }
        beside = {name: load_speed(real, model, options.real_seconds) for name, model in MODELS.items()}
        costs = {
            "fio_start_seconds": spans.pop("fio_start").computer_seconds,
            "cell_seconds": cell_overhead(options.experiment),
        }
    rows = {
        name: {
            "simulated_seconds_per_second": round(span.speed, 1),
            "bound": f">= {LEAST[name]:g}",
            "in_real_time": round(beside[name].speed, 2) if name in beside else None,
            **asdict(span),
        }
        for name, span in spans.items()
    }
    more = {name: {"measured": round(cost, 3), "bound": f"<= {MOST[name]:g}"} for name, cost in costs.items()}
    shares = [span.speed / LEAST[name] for name, span in spans.items()] + [MOST[n] / cost for n, cost in costs.items()]
    finish(
        "the smallest ratio of a measured value to its bound",
        min(shares),
        ">=",
        1.0,
        speeds=rows,
        costs=more,
    )


if __name__ == "__main__":
    main()
