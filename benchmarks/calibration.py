"""How well calibration recovers emulated drives through a real kernel, on the kernel with virtual time."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.support.report import asked, finish, private_state
from lab.disks import DiskKind, open_lab, specs
from lab.disks.kinds import Mechanics, find_drive_model
from lab.machine import Host, parse_target
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
    """Calibrate one emulated drive."""
    disks = specs(1, DiskKind.SPINDLE, size_bytes=SIZE, model=name)
    with open_lab(parse_target("uml:?time=virtual"), Host.real("benchmark"), wanted=disks) as lab:
        found = calibrate(reader(lab.machine, lab.disks[0].node), SIZE, title=name, has_write_cache=False)
    return mechanics_of(found.model.mechanics)


def mechanics_of(found: Mechanics | None) -> Mechanics:
    """Not None."""
    if found is None:
        raise SystemExit("no mechanics")
    return found


def errors(true: Mechanics, found: Mechanics) -> dict[str, float]:
    """By how much it is off: shares of the true value, seeks with the overhead in milliseconds."""

    def reach(drive: Mechanics, share: float) -> float:
        return drive.overhead_ms + 1000 * drive.seek_seconds(share * drive.cylinders)

    return {
        "rotation": abs(found.rpm / true.rpm - 1),
        "seek_and_overhead_ms": max(abs(reach(found, share) - reach(true, share)) for share in SHARES),
        "random_access": abs(found.mean_random_seconds / true.mean_random_seconds - 1),
        "outer_rate": abs(
            found.sequential_bytes_per_second(found.zones[0]) / true.sequential_bytes_per_second(true.zones[0]) - 1
        ),
        "inner_rate": abs(
            found.sequential_bytes_per_second(found.zones[-1]) / true.sequential_bytes_per_second(true.zones[-1]) - 1
        ),
    }


def main() -> None:
    """Calibrate each drive and report."""
    options = asked(SMOKE)
    with private_state():
        found = {
            name: errors(mechanics_of(find_drive_model(name).mechanics), recovered(name)) for name in options.drives
        }
    finish(
        "calibration",
        "largest relative error of the mean random access time of a recovered drive",
        max(each["random_access"] for each in found.values()),
        BOUND,
        at_most=True,
        details={"errors": found},
    )


if __name__ == "__main__":
    main()
