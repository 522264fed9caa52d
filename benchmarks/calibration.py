"""How well calibration recovers the parameters of emulated drives, measured on the kernel with virtual time."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.support.report import asked, finish
from benchmarks.support.rig import drives
from lab.disks import DiskKind, specs
from lab.disks.kinds import Mechanics, find_drive_model
from lab.measure.calibration import calibrate, reader
from lab.units import MIB

DRIVES = ("sata-7200", "cheetah-4lp", "barracuda-4lp")
SIZE = 128 * MIB
SHARES = (0.05, 0.1, 0.2, 0.33, 0.5, 0.8, 0.95)
BOUND = 0.04


@dataclass(frozen=True, slots=True)
class Options:
    drives: tuple[str, ...] = DRIVES


SMOKE = Options(drives=DRIVES[:1])


def recovered(name: str) -> Mechanics:
    disks = specs(1, DiskKind.SPINDLE, size_bytes=SIZE, model=name)
    with drives("uml:?time=virtual", disks) as lab:
        found = calibrate(reader(lab.machine, lab.disks[0].node), SIZE, title=name, has_write_cache=False)
    assert found.model.mechanics is not None
    return found.model.mechanics


def errors(name: str) -> dict[str, float]:
    """Return the errors of calibrated values as shares of the true values, or in ms for seeks with overhead."""
    true, found = find_drive_model(name).mechanics, recovered(name)
    assert true is not None

    def reach(drive: Mechanics, share: float) -> float:
        return drive.overhead_ms + 1000 * drive.seek_seconds(share * drive.cylinders)

    def rate(drive: Mechanics, zone: int) -> float:
        return drive.sequential_bytes_per_second(drive.zones[zone])

    return {
        "rotation": abs(found.rpm / true.rpm - 1),
        "seek_and_overhead_ms": max(abs(reach(found, share) - reach(true, share)) for share in SHARES),
        "random_access": abs(found.mean_random_seconds / true.mean_random_seconds - 1),
        "outer_rate": abs(rate(found, 0) / rate(true, 0) - 1),
        "inner_rate": abs(rate(found, -1) / rate(true, -1) - 1),
    }


def main() -> None:
    found = {name: errors(name) for name in asked(SMOKE).drives}
    finish(
        "largest relative error of the mean random access time of a recovered drive",
        max(each["random_access"] for each in found.values()),
        "<=",
        BOUND,
        errors=found,
    )


if __name__ == "__main__":
    main()
