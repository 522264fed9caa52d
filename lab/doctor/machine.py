"""Checks of an open machine of any target: its kernel, drivers, md features and programs."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lab.doctor.checks import (
    EVERY_TARGET,
    PROGRAMS,
    Check,
    Distribution,
    DoctorReport,
    Outcome,
    Subject,
    make_report,
    parse_distribution,
    program_check,
    version_in,
)
from lab.machine.api import Machine

_NOT_FOUND = "-"
_OS_RELEASE = "/etc/os-release"


@dataclass(frozen=True, slots=True)
class Driver:
    """A kernel module, and the function that needs it."""

    module: str
    brings: str
    is_required: bool = False
    also_in: tuple[str, ...] = ()
    """Equivalent modules in other kernels."""


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


@dataclass(frozen=True, slots=True)
class Feature:
    """An optional md feature, detected by a kernel function that only this feature has."""

    name: str
    title: str
    brings: str
    function: str
    module: str
    option: str
    """Its kernel configuration option, and the first version that has it."""


FEATURES = (
    Feature(
        *("ppl", "md: PPL", "closing the write hole of RAID 5 on its own members"),
        *("ppl_init_log", "raid456", "CONFIG_MD_RAID456, Linux 4.12"),
    ),
    Feature(
        *("journal", "md: journal", "closing the write hole of RAID 4, 5 and 6 by a device that holds the writes"),
        *("r5l_init_log", "raid456", "CONFIG_MD_RAID456, Linux 4.4"),
    ),
    Feature(
        *("llbitmap", "md: llbitmap", "a bitmap without locks (mdadm --bitmap=lockless, 4.5 or later)"),
        *("llbitmap_create", "md_mod", "CONFIG_MD_LLBITMAP, Linux 6.18"),
    ),
)
# A function that each of these modules always has: if it is not found, the module's functions are not visible.
_ALWAYS = {"raid456": "raid5_run", "md_mod": "md_run"}
# RAID 0, 1 and 10 pass the atomic writes of their members on (drivers/md/raid0.c: BLK_FEAT_ATOMIC_WRITES).
_ATOMIC_WRITES = (6, 13)

# One shell for all checks: starting a process takes 15 ms in the embedded kernel. The functions of a module that is
# not loaded are read from its file, without loading it.
_FIND_SCRIPT = """
for program in {programs}; do command -v "$program" || echo {not_found}; done
for module in {modules}; do modprobe -n -q "$module" && echo "module $module"; done
mdadm --version 2>&1; fio --version 2>&1
{{
  cat /proc/kallsyms
  for module in {with_features}; do
    [ ! -e "/sys/module/$module" ] || continue
    file=$(modprobe --show-depends "$module" | sed -nE 's/^insmod ([^ ]+).*/\\1/p' | tail -n 1)
    case $file in *.xz) xz -dc "$file" ;; *.zst) zstd -dcq "$file" ;; *.gz) gzip -dc "$file" ;; ?*) cat "$file" ;; esac
  done
}} 2>/dev/null | grep -aowE '{functions}' | sort -u | sed 's/^/function /'
for file in /sys/block/*/queue/atomic_write_unit_max_bytes; do [ -e "$file" ] && echo "atomic $(cat "$file")"; done
true
"""


def check_machine(machine: Machine) -> DoctorReport:
    """The report on an open machine: kernel, levels and disk drivers, programs."""
    distribution = parse_distribution(machine.read([_OS_RELEASE])[_OS_RELEASE] or "")
    modules = [name for driver in DRIVERS for name in (driver.module, *driver.also_in)]
    script = _FIND_SCRIPT.format(
        programs=" ".join(program.name for program in PROGRAMS),
        modules=" ".join(modules),
        not_found=_NOT_FOUND,
        with_features=" ".join(_ALWAYS),
        functions="|".join((*_ALWAYS.values(), *(feature.function for feature in FEATURES))),
    )
    lines = machine.run(["sh", "-c", script]).stdout.splitlines()
    found, rest = lines[: len(PROGRAMS)], lines[len(PROGRAMS) :]
    loadable = {line.removeprefix("module ") for line in rest if line.startswith("module ")}
    # Includes drivers that are built in, or loaded without module files.
    loadable |= set(machine.list_dirs(["/sys/module"])["/sys/module"])
    drivers = [_driver(driver, loadable) for driver in DRIVERS]
    functions = {line.removeprefix("function ") for line in rest if line.startswith("function ")}
    features = (*(_feature(feature, functions) for feature in FEATURES), _atomic_writes(machine, rest))
    checks = (_kernel(machine), *drivers, *features, *_programs(found, rest, distribution))
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


def _feature(feature: Feature, functions: AbstractSet[str]) -> Check:
    outcome, detail = Outcome.OK, feature.brings
    if feature.function not in functions:
        outcome, detail = Outcome.MISSING, f"the machine's kernel does not support this: {feature.brings}"
    if _ALWAYS[feature.module] not in functions:
        outcome, detail = (
            Outcome.LIMITED,
            f"unknown: neither /proc/kallsyms nor a file shows what is in {feature.module}",
        )
    return Check(
        name=f"md-{feature.name}",
        title=feature.title,
        outcome=outcome,
        detail=detail,
        fix=f"boot a kernel that has it ({feature.option})" if outcome is Outcome.MISSING else "",
        useful_for=(feature.brings,),
    )


def _atomic_writes(machine: Machine, lines: list[str]) -> Check:
    """Whether arrays support atomic writes: without an array on such disks, only the kernel's version shows it."""
    units = [int(line.removeprefix("atomic ")) for line in lines if re.fullmatch(r"atomic \d+", line)]
    version = tuple(map(int, re.findall(r"\d+", machine.facts.kernel_release)[:2]))
    is_there = bool(units) and version >= _ATOMIC_WRITES
    brings = "RAID 0, 1 and 10 with atomic writes, on disks that support them"
    disks = sum(unit > 0 for unit in units)
    return Check(
        name="md-atomic-writes",
        title="md: atomic writes",
        outcome=Outcome.OK if is_there else Outcome.MISSING,
        detail=f"{brings}; of its disks {disks} of {len(units)} can. Judged by the kernel's version"
        if is_there
        else f"the machine's kernel does not support this: {brings}",
        fix="" if is_there else "boot Linux {}.{} or later".format(*_ATOMIC_WRITES),
        useful_for=(brings,),
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
