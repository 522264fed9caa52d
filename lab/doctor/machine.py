"""What an open machine can do, whatever its target: its kernel, its drivers, its programs."""

from __future__ import annotations

from dataclasses import dataclass

from lab.doctor.checks import make_report
from lab.doctor.programs import EVERY_TARGET, PROGRAMS, Distribution, parse_distribution, program_check, version_in
from lab.doctor.report import Check, DoctorReport, Outcome, Subject
from lab.machine.api import Machine

_NOT_FOUND = "-"
_OS_RELEASE = "/etc/os-release"


@dataclass(frozen=True, slots=True)
class Driver:
    """A kernel module, and what does not work without it."""

    module: str
    brings: str
    is_required: bool = False
    also_in: tuple[str, ...] = ()
    """Modules of other kernels that bring the same."""


DRIVERS = (
    Driver("raid0", "RAID 0", is_required=True),
    Driver("raid1", "RAID 1", is_required=True),
    Driver("raid10", "RAID 10", is_required=True),
    Driver("raid456", "RAID 4, 5 and 6", is_required=True),
    Driver("linear", "linear arrays (Linux 6.8 dropped them)", also_in=("md_linear",)),
    Driver("faulty", "arrays that fail on demand"),
    Driver("nbd", "spindle disks"),
    Driver("loop", "loop disks"),
    Driver("brd", "ram disks"),
    Driver("scsi_debug", "disks that can be pulled"),
    Driver("null_blk", "disks in virtual time"),
)

# One shell for all questions: starting a process takes 15 ms in the embedded kernel.
_FIND_SCRIPT = """
for program in {programs}; do command -v "$program" || echo {not_found}; done
for module in {modules}; do modprobe -n -q "$module" && echo "module $module"; done
mdadm --version 2>&1; fio --version 2>&1; true
"""


def check_machine(machine: Machine) -> DoctorReport:
    """The report on an open machine: kernel, levels and disk drivers, programs."""
    distribution = parse_distribution(machine.read([_OS_RELEASE])[_OS_RELEASE] or "")
    modules = [name for driver in DRIVERS for name in (driver.module, *driver.also_in)]
    script = _FIND_SCRIPT.format(
        programs=" ".join(program.name for program in PROGRAMS), modules=" ".join(modules), not_found=_NOT_FOUND
    )
    lines = machine.run(["sh", "-c", script]).stdout.splitlines()
    found, rest = lines[: len(PROGRAMS)], lines[len(PROGRAMS) :]
    loadable = {line.removeprefix("module ") for line in rest if line.startswith("module ")}
    # A driver that is built in, or loaded where there are no module files, is there too.
    loadable |= set(machine.list_dirs(["/sys/module"])["/sys/module"])
    drivers = [_driver(driver, loadable) for driver in DRIVERS]
    checks = (_kernel(machine), *drivers, *_programs(found, rest, distribution))
    return make_report(Subject.MACHINE, machine.facts.target, machine.facts.target, checks, distribution, is_root=True)


def _kernel(machine: Machine) -> Check:
    facts = machine.facts
    return Check(
        name="kernel",
        title="kernel",
        outcome=Outcome.OK,
        detail=f"Linux {facts.kernel_release}, {facts.cpu_count} CPU, "
        + ("embedded: no times of a physical machine" if facts.is_embedded else facts.architecture),
    )


def _driver(driver: Driver, loadable: set[str]) -> Check:
    is_there = bool(loadable & {driver.module, *driver.also_in})
    what = "md level" if driver.brings.startswith("RAID") else "driver"
    return Check(
        name=f"module-{driver.module}",
        title=driver.module,
        outcome=Outcome.OK if is_there else Outcome.MISSING,
        detail=driver.brings if is_there else f"the machine's kernel has no {what} {driver.module}: {driver.brings}",
        fix="" if is_there else f"boot a kernel that has it (see: modinfo {driver.module}), or choose another target",
        required_for=EVERY_TARGET if driver.is_required else (),
        useful_for=() if driver.is_required else (driver.brings,),
    )


def _programs(found: list[str], greetings: list[str], distribution: Distribution) -> list[Check]:
    versions = {"mdadm": "", "fio": ""}
    for line in greetings:
        for name in versions:
            if line.startswith((f"{name} -", f"{name}-")):
                versions[name] = version_in(line)
    return [
        program_check(
            program,
            "" if path == _NOT_FOUND else path,
            versions.get(program.name, ""),
            distribution,
            targets=EVERY_TARGET,
            is_root=True,
        )
        for program, path in zip(PROGRAMS, found, strict=False)
    ]
