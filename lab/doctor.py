"""The doctor checks this computer and a machine, and says which command installs each missing part.

All checks run even if some fail, so that one round of fixes is enough. The report is also published as JSON
(docs/doctor.schema.json). doctor.toml lists the programs, drivers and features that the doctor looks for.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from lab.errors import ExitCode, LabError, ToolMissing
from lab.gates.decoding import decode_json, version_numbers
from lab.machine.api import Machine, package_of
from lab.machine.embedded import CONFINEMENT, DEFAULT_MEMORY_BYTES
from lab.machine.kernel_image import find_kernel, guest_python, wide_registers
from lab.machine.opening import Host
from lab.machine.qemu import find_qemu, startable_images
from lab.machine.state_folder import STATE_VARIABLE, make_folder
from lab.machine.stock_kernels import static_busybox, stock_kernels
from lab.machine.target import parse_target
from lab.tomlfile import read_toml
from lab.units import GIB, human_bytes

SCHEMA_VERSION = 2


class Outcome(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    MISSING = "missing"
    LIMITED = "limited"
    """Present, but slow, scarce or partly unknown."""


class Subject(StrEnum):
    """The subject of a report."""

    COMPUTER = "computer"
    MACHINE = "machine"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was checked."""

    name: str
    """Stable name for programs, such as ``program-mdadm`` or ``kvm``."""
    title: str
    """Title for users, such as ``mdadm`` or ``hardware virtualisation (KVM)``."""
    outcome: Outcome
    detail: str
    fix: str = ""
    """The command or action that provides what is missing, or an empty string if nothing is."""
    packages: tuple[str, ...] = ()
    required_for: tuple[str, ...] = ()
    """Targets that do not work without it."""
    useful_for: tuple[str, ...] = ()
    """Descriptions of other functions that are limited without it."""

    def blocks(self, target: str) -> bool:
        return self.outcome is Outcome.MISSING and target in self.required_for


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """All checks of one computer or machine, with the verdict for one target."""

    schema_version: int = SCHEMA_VERSION
    subject: Subject
    name: str
    """``this computer``, or the machine's target."""
    target: str
    """The target that the verdict applies to: one of EVERY_TARGET."""
    is_ready: bool
    """Whether all requirements of the target are met."""
    install_command: str
    """One command that installs all missing packages, or an empty string if none is missing."""
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.DONE if self.is_ready else ExitCode.MISSING

    @property
    def missing(self) -> tuple[Check, ...]:
        """The failed checks, beginning with those that the target requires."""
        found = [check for check in self.checks if check.outcome is Outcome.MISSING]
        return tuple(sorted(found, key=lambda check: not check.blocks(self.target)))

    def ready_targets(self) -> tuple[str, ...]:
        """Return the targets for which nothing is missing, in the order of the checks."""
        named = dict.fromkeys(target for check in self.checks for target in check.required_for)
        return tuple(target for target in named if not any(check.blocks(target) for check in self.checks))


EVERY_TARGET = ("uml:", "qemu:", "qemu:?root=IMAGE", "local:", "ssh:", "vagrant:")
UML, QEMU, ON_IMAGE, LOCAL, SSH, VAGRANT = EVERY_TARGET
_OS_RELEASE = "/etc/os-release"
_VERSION_SECONDS = 5.0


class Program(msgspec.Struct, frozen=True):
    """A program, and the functions that need it."""

    name: str
    version_option: str = "--version"
    is_required: bool = False
    useful_for: tuple[str, ...] = ()


class Driver(msgspec.Struct, frozen=True):
    """A kernel module, and the function that needs it."""

    module: str
    brings: str
    is_required: bool = False
    also_in: tuple[str, ...] = ()
    """Names of the equivalent modules in other kernels."""


class Feature(msgspec.Struct, frozen=True):
    """An optional md feature, detected by a kernel function that exists only with this feature."""

    name: str
    brings: str
    function: str
    module: str
    option: str
    """The kernel configuration option, and the first version with the feature."""


class Kind(msgspec.Struct, frozen=True):
    """A kind of machine on this computer."""

    target: str
    starts_in: str
    shows: str
    does_not_show: str


class _Tables(msgspec.Struct, frozen=True):
    programs: tuple[Program, ...]
    drivers: tuple[Driver, ...]
    features: tuple[Feature, ...]
    kinds: tuple[Kind, ...]
    installers: dict[str, str]
    """Maps a family of distributions to the beginning of its install command."""
    families: dict[str, str]
    """Maps a derived distribution to its family."""
    packages: dict[str, dict[str, str]]
    """For each family, maps Debian's name of a package to the family's name."""


_HERE = Path(__file__)
TABLES = read_toml(_HERE.with_name("doctor.toml"), _Tables)
_SSH = Program("ssh", is_required=True)


def install_command(family: str, packages: Iterable[str], *, is_root: bool) -> str:
    """Return the command line that installs the packages, or "" if there are none. ``family`` may be empty."""
    listed = " ".join(dict.fromkeys(packages))
    if not listed:
        return ""
    installer = TABLES.installers.get(family)
    if not installer:
        return f"install with your distribution's tools: {listed}"
    return f"{'' if is_root else 'sudo '}{installer} {listed}"


def family_in(os_release: str) -> str:
    """Return the family of a distribution according to its ID or else its ID_LIKE, or "" if the family is unknown."""
    pairs = (line.partition("=") for line in os_release.splitlines())
    fields = {key: value.strip().strip("\"'") for key, _, value in pairs}
    words = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    families = [TABLES.families.get(word, word) for word in words]
    return next((family for family in families if family in TABLES.installers), "")


def program_checks(host: Host, family: str, *, is_root: bool) -> list[Check]:
    """Check each program on this computer."""

    def check(program: Program) -> Check:
        path = host.processes.find(program.name) or ""
        version = ask_version(host, path, program.version_option) if path else ""
        # Other machines use their own programs.
        return program_check(program, path, version, family, targets=(UML, QEMU, LOCAL), is_root=is_root)

    # The checks run in parallel, because each program takes a long time to start on an emulated processor.
    with ThreadPoolExecutor(len(TABLES.programs)) as pool:
        return list(pool.map(check, TABLES.programs))


def ask_version(host: Host, path: str, option: str) -> str:
    """Run a program with this option, and return the version that it prints, or "" if it prints none."""
    result = host.processes.run([path, option], timeout_seconds=_VERSION_SECONDS)
    return version_in(result.stdout + result.stderr)


def program_check(
    program: Program, found: str, version: str, family: str, *, targets: tuple[str, ...], is_root: bool
) -> Check:
    """Return the check of a program. ``found`` is its path, or empty if the program is missing."""
    debian = package_of(program.name)
    package = TABLES.packages.get(family, {}).get(debian, debian)
    result: Found = (Outcome.OK, f"{version} ({found})" if version else found, "")
    if not found:
        install = install_command(family, [package], is_root=is_root)
        result = Outcome.MISSING, f"{program.name} is not installed", install
    return _check(
        f"program-{program.name}",
        program.name,
        result,
        packages=() if found else (package,),
        required_for=targets if program.is_required else (),
        useful_for=program.useful_for,
    )


def version_in(text: str) -> str:
    """Return the first version number in a program's output, or "" if there is none."""
    found = re.search(r"(\d+(?:\.\d+)+(?:[-+~.\w]*\w)?)", text) or re.search(r"version (\d+)", text)
    return found[1] if found else ""


OLDEST_PYTHON = (3, 11)
# Enough for a few disks of 500 MB and the results of some experiments.
COMFORTABLE_SPACE_BYTES = 4 * GIB
LEAST_SPACE_BYTES = GIB // 2
_ANSWER_SECONDS = 10.0
_LAYERS = {"namespace": "mount namespace", "landlock": "Landlock", "seccomp": "filter of system calls"}
_VIRTUAL_MACHINE = ("the virtual machine: make vm",)
Found = tuple[Outcome, str, str]
"""The outcome of a check, its detail, and the fix."""


def check_computer(host: Host, *, target: str = UML, is_root: bool | None = None) -> DoctorReport:
    """Run all checks of this computer. The verdict is for ``target``."""
    root = os.geteuid() == 0 if is_root is None else is_root
    family = family_in(host.files.read(_OS_RELEASE) or "")
    checks = [
        _check("python", "Python", _python(), required_for=EVERY_TARGET),
        *program_checks(host, family, is_root=root),
        _search("embedded-kernel", "embedded kernel", lambda: _embedded_kernel(host), required_for=(UML,)),
        _search(
            "virtual-time",
            "embedded kernel with virtual time",
            lambda: find_kernel(host.processes, host.files, virtual_time=True).path,
            useful_for=("slow disks in a fraction of the time: --on 'uml:?time=virtual'",),
        ),
        _check(
            "guest-memory",
            "memory for the embedded kernel",
            _guest_memory(host),
            useful_for=("a fast embedded kernel",),
        ),
        _check(
            "confinement",
            "this computer's files in the embedded kernel",
            _confinement(host),
            useful_for=("an embedded kernel that can change nothing outside its disks",),
        ),
        # What is needed to start a distribution's kernel in QEMU.
        _search("program-qemu", "QEMU", lambda: find_qemu(host.processes), required_for=(QEMU,)),
        _search("program-busybox", "busybox", lambda: static_busybox(host.processes), required_for=(QEMU,)),
        _search("stock-kernel", "a distribution's kernel", lambda: _stock_kernel(host), required_for=(QEMU,)),
        _search("root-image", "a root image", lambda: _root_image(host), required_for=(ON_IMAGE,)),
        _check("state-folder", "state folder", _state_folder(host), required_for=EVERY_TARGET),
        _check("md-driver", "md in this computer's own kernel", _md_driver(host), required_for=(LOCAL,)),
        _check("privilege", "root on this computer", _privilege(host, is_root=root), required_for=(LOCAL,)),
        program_check(_SSH, host.processes.find("ssh") or "", "", family, targets=(SSH, VAGRANT), is_root=root),
        _check("kvm", "hardware virtualisation (KVM)", _kvm(host), useful_for=_VIRTUAL_MACHINE),
    ]
    # Vagrant's version is not queried, because that takes a second or more.
    vagrant = host.processes.find("vagrant")
    found = (Outcome.OK, vagrant, "") if vagrant else (Outcome.MISSING, "vagrant is not installed", "make vm")
    checks.append(_check("program-vagrant", "vagrant", found, required_for=(VAGRANT,)))
    if vagrant:
        # A running machine needs only ssh.
        checks.append(_check("libvirt", "libvirt", _libvirt(host), useful_for=_VIRTUAL_MACHINE))
    return make_report(Subject.COMPUTER, "this computer", target, checks, family, is_root=root)


def make_report(
    subject: Subject, name: str, target: str, checks: Iterable[Check], family: str, *, is_root: bool
) -> DoctorReport:
    """Make a report with a verdict from the outcomes of some checks."""
    listed = tuple(checks)
    # A machine on a root image needs none of the lab's programs on this computer.
    kind = ON_IMAGE if "root" in parse_target(target).options else target.partition(":")[0] + ":"
    packages = [package for check in listed for package in check.packages]
    return DoctorReport(
        subject=subject,
        name=name,
        target=kind,
        is_ready=not any(check.blocks(kind) for check in listed),
        install_command=install_command(family, packages, is_root=is_root),
        checks=listed,
    )


def machine_kinds(report: DoctorReport) -> list[tuple[Kind, bool]]:
    """Return all kinds of machine, and whether everything that each requires is present."""
    ready = set(report.ready_targets())
    has_time = any(check.name == "virtual-time" and check.outcome is Outcome.OK for check in report.checks)
    ready |= {f"{UML}?time=virtual"} if UML in ready and has_time else set()
    return [(kind, kind.target in ready) for kind in TABLES.kinds]


def _check(name: str, title: str, found: Found, **more: tuple[str, ...]) -> Check:
    outcome, detail, fix = found
    return Check(name=name, title=title, outcome=outcome, detail=detail, fix=fix, **more)


def _search(name: str, title: str, find: Callable[[], object], **more: tuple[str, ...]) -> Check:
    """Make a check from a function that returns the check's detail, or raises LabError if something is missing."""
    try:
        return _check(name, title, (Outcome.OK, str(find()), ""), **more)
    except LabError as error:
        fix = error.hint.partition(", or choose")[0]
        packages = (fix.removeprefix("apt install "),) if fix.startswith("apt install ") else ()
        return _check(name, title, (Outcome.MISSING, error.message, fix), packages=packages, **more)


def _python() -> Found:
    words = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= OLDEST_PYTHON:
        return Outcome.OK, words, ""
    return Outcome.MISSING, words, "install Python 3.11 or later, then set up the lab with it: make lab"


def _embedded_kernel(host: Host) -> str:
    image = find_kernel(host.processes, host.files)
    wide_registers(host.files)
    if release := ask_version(host, str(image.path), "--version"):
        return f"{release}, {'built here' if image.modules else 'packaged'} ({image.path})"
    raise ToolMissing(f"{image.path} does not start", hint="provision/kernel/build-uml.sh standard")


def _stock_kernel(host: Host) -> str:
    if releases := [kernel.release for kernel in stock_kernels(host.files)]:
        return f"{', '.join(releases[:3])}{' …' if len(releases) > 3 else ''}"
    raise ToolMissing("this user cannot read any distribution's kernel", hint="raidlab kernels get 6.12")


def _root_image(host: Host) -> str:
    if images := startable_images(host.processes):
        return ", ".join(f"{each.name} ({each.facts.release})" for each in images)
    raise ToolMissing("this user has no root image, or no QEMU for its architecture", hint="make root-image")


def _guest_memory(host: Host) -> Found:
    room = 0
    with suppress(OSError):
        room = shutil.disk_usage(host.files.path("/dev/shm")).free
    needed = human_bytes(DEFAULT_MEMORY_BYTES)
    detail = f"{human_bytes(room)} free in /dev/shm; the kernel needs {needed}"
    if room >= DEFAULT_MEMORY_BYTES:
        return Outcome.OK, detail, ""
    fix = f"remove files from /dev/shm, or as root: mount -o remount,size={needed} /dev/shm"
    return Outcome.LIMITED, f"{detail}, so its memory will be a file in the state folder, which is slower", fix


def _confinement(host: Host) -> Found:
    """Try each layer with lab/machine/confinement.py, which documents the layers and says which of them suffice."""
    result = host.processes.run(
        [guest_python(host.processes), "-IS", str(CONFINEMENT)], timeout_seconds=_ANSWER_SECONDS
    )
    with suppress(msgspec.DecodeError):
        reasons = decode_json(result.stdout, dict[str, str])
        missing = "".join(f"; no {_LAYERS[layer]}: {reason}" for layer, reason in reasons.items() if reason)
        there = [layer for layer, reason in reasons.items() if not reason]
        if "namespace" in there or {"landlock", "seccomp"} <= set(there):
            return Outcome.OK, f"read-only: {', '.join(_LAYERS[layer] for layer in there)}{missing}", ""
        detail = f"programs in it can write everything that this user can{missing}"
        return Outcome.LIMITED, detail, _namespace_switch(host)
    return Outcome.LIMITED, f"unknown: {(result.stderr or result.stdout).strip()}", "run 'raidlab doctor' once more"


def _namespace_switch(host: Host) -> str:
    """Return the sysctl that lets unprivileged users make mount namespaces, or another fix if no sysctl denies this."""
    for path, value, setting in (
        # Ubuntu has had the first since 23.10, Debian had the second up to release 10, and all distributions have the
        # third.
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
    ):
        if (host.files.read(f"/proc/sys/{path}") or "").strip() == value:
            return f"sudo sysctl -w {setting}"
    return "boot a kernel with Landlock (Linux 5.13 or later, 'landlock' in its lsm=), or work outside the container"


def _state_folder(host: Host) -> Found:
    try:
        folder = make_folder(host.state.root, what="the state folder")
        room = shutil.disk_usage(folder).free
    except LabError as error:
        return Outcome.MISSING, error.message, error.hint
    except OSError as error:
        detail = f"the state folder cannot be used: {error.strerror}"
        return Outcome.MISSING, detail, f"choose another: {STATE_VARIABLE}=FOLDER"
    detail = f"{folder}, {human_bytes(room)} free"
    if room >= COMFORTABLE_SPACE_BYTES:
        return Outcome.OK, detail, ""
    outcome = Outcome.MISSING if room < LEAST_SPACE_BYTES else Outcome.LIMITED
    return outcome, detail, f"free some space there, or choose another: {STATE_VARIABLE}=FOLDER"


def _md_driver(host: Host) -> Found:
    release = platform.release()
    mdstat = host.files.read("/proc/mdstat")
    if mdstat is not None:
        levels = mdstat.partition("\n")[0].partition(":")[2].strip() or "no level is loaded yet"
        return Outcome.OK, f"the md driver runs in this computer's kernel {release}: {levels}", ""
    if (modinfo := host.processes.find("modinfo")) and host.processes.run([modinfo, "-n", "md_mod"]).status == 0:
        detail = f"this computer's kernel {release} has the md driver as a module, and loads it when it is needed"
        return Outcome.OK, detail, ""
    detail = f"this computer's kernel {release} has no md driver (as in many containers and cloud machines)"
    return Outcome.MISSING, detail, "use the embedded kernel (--on uml:), or install a kernel with md and boot it"


def _privilege(host: Host, *, is_root: bool) -> Found:
    sudo = host.processes.find("sudo")
    if is_root:
        return Outcome.OK, "raidlab runs as root", ""
    if not sudo:
        detail = "sudo is not installed, and only root can manage arrays on this computer"
        return Outcome.MISSING, detail, "apt install sudo"
    if host.processes.run([sudo, "-n", "true"], timeout_seconds=_ANSWER_SECONDS).status == 0:
        return Outcome.OK, "sudo works without a password", ""
    detail = "sudo asks for a password, which the lab's agent cannot type"
    return Outcome.MISSING, detail, "run 'sudo -v' first, or run raidlab as root"


def _kvm(host: Host) -> Found:
    """Check an x86 processor's flags, because on some computers /dev/kvm can be opened but guests then hang."""
    flags: set[str] = set()
    for line in (host.files.read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags.update(value.split())
    device = host.files.path("/dev/kvm")
    emulated = "so a virtual machine is emulated, about ten times slower"
    fix = "enable virtualisation in the firmware or in the outer machine"
    is_x86 = platform.machine() == "x86_64"
    if is_x86 and not flags & {"vmx", "svm"}:
        detail = f"the processor has neither vmx nor svm, {emulated}"
        detail += " (/dev/kvm exists, but guests would hang with it)" if device.exists() else ""
        return Outcome.LIMITED, detail, f"use the embedded kernel (--on uml:), or {fix}"
    if os.access(device, os.R_OK | os.W_OK):
        detail = "the processor supports virtualisation and /dev/kvm works: virtual machines run at full speed"
        return Outcome.OK, detail, ""
    if device.exists():
        detail = "the processor supports virtualisation, but this user may not use /dev/kvm"
        return Outcome.MISSING, detail, "sudo usermod -aG kvm $USER, then log in again"
    if not is_x86:
        return Outcome.LIMITED, f"there is no /dev/kvm, {emulated}", fix
    fix = "sudo modprobe -a kvm_intel kvm_amd; if that fails, enable virtualisation in the firmware"
    return Outcome.MISSING, "the processor supports virtualisation, but there is no /dev/kvm", fix


def _libvirt(host: Host) -> Found:
    virsh = host.processes.find("virsh")
    if not virsh:
        return Outcome.MISSING, "libvirt is not installed", "make vm"
    answer = host.processes.run([virsh, "--connect", "qemu:///system", "uri"], timeout_seconds=_ANSWER_SECONDS)
    lines = answer.stderr.strip().splitlines()
    detail = lines[-1].removeprefix("error: ") if lines else "libvirt's daemon answers"
    if answer.status == 0:
        return Outcome.OK, detail, ""
    if "denied" in answer.stderr or "authentication" in answer.stderr:
        return Outcome.MISSING, detail, "sudo usermod -aG libvirt $USER, then log in again"
    return Outcome.MISSING, detail, "start it: sudo systemctl start libvirtd"


# --- an open machine: its kernel, drivers, md features and programs

# A function that each of these modules always has. If that function is not found, the module's functions are hidden.
_ALWAYS = {"raid456": "raid5_run", "md_mod": "md_run"}
# From this version on, RAID 0, 1 and 10 pass atomic writes on to their members (drivers/md/raid0.c:
# BLK_FEAT_ATOMIC_WRITES).
_ATOMIC_WRITES = (6, 13)


def check_machine(machine: Machine) -> DoctorReport:
    """Check the kernel, levels, disk drivers and programs of an open machine."""
    family = family_in(machine.read([_OS_RELEASE])[_OS_RELEASE] or "")
    modules = [name for driver in TABLES.drivers for name in (driver.module, *driver.also_in)]
    programs = [program.name for program in TABLES.programs]
    functions = [*_ALWAYS.values(), *(feature.function for feature in TABLES.features)]
    script = _HERE.with_name("doctor.sh").read_text("utf-8")
    words = (" ".join(programs), " ".join(modules), " ".join(_ALWAYS), "|".join(functions))
    found: dict[str, list[str]] = {"program": [], "module": [], "version": [], "function": [], "atomic": []}
    for line in machine.run(["sh", "-c", script, "doctor", *words]).stdout.splitlines():
        kind, _, value = line.partition(" ")
        if kind in found:
            found[kind].append(value)
    # This includes drivers that are built in or were loaded without module files.
    loadable = {*found["module"], *machine.list_dirs(["/sys/module"])["/sys/module"]}
    drivers = [_driver(driver, loadable) for driver in TABLES.drivers]
    features = [_feature(feature, {*found["function"]}) for feature in TABLES.features]
    paths, greetings = _by_name(found["program"]), _by_name(found["version"])
    tools = [
        program_check(
            program,
            paths.get(program.name, ""),
            version_in(greetings.get(program.name, "")),
            family,
            targets=EVERY_TARGET,
            is_root=True,
        )
        for program in TABLES.programs
    ]
    facts = machine.facts
    kind = "embedded, so its times are not those of a physical machine" if facts.is_embedded else facts.architecture
    kernel = Outcome.OK, f"Linux {facts.kernel_release}, {facts.cpu_count} CPU, {kind}", ""
    checks = (_check("kernel", "kernel", kernel), *drivers, *features, _atomic_writes(machine, found["atomic"]), *tools)
    return make_report(Subject.MACHINE, machine.facts.target, machine.facts.target, checks, family, is_root=True)


def _by_name(lines: Iterable[str]) -> dict[str, str]:
    """Map the first word of each line to the rest of that line."""
    return {name: rest for name, _, rest in (line.partition(" ") for line in lines)}


def _driver(driver: Driver, loadable: set[str]) -> Check:
    found: Found = (Outcome.OK, driver.brings, "")
    if not loadable & {driver.module, *driver.also_in}:
        what = "md level" if driver.brings.startswith("RAID") else "driver"
        detail = f"the machine's kernel has no {what} {driver.module}: {driver.brings}"
        fix = f"boot a kernel that has it (see: modinfo {driver.module}), or choose another target"
        found = Outcome.MISSING, detail, fix
    return _check(
        *(f"module-{driver.module}", driver.module, found),
        required_for=EVERY_TARGET if driver.is_required else (),
        useful_for=() if driver.is_required else (driver.brings,),
    )


def _feature(feature: Feature, functions: AbstractSet[str]) -> Check:
    found: Found = (Outcome.OK, feature.brings, "")
    if _ALWAYS[feature.module] not in functions:
        detail = f"unknown: neither /proc/kallsyms nor a module file shows the functions of {feature.module}"
        found = Outcome.LIMITED, detail, ""
    elif feature.function not in functions:
        detail = f"the machine's kernel does not support this: {feature.brings}"
        found = Outcome.MISSING, detail, f"boot a kernel that has it ({feature.option})"
    return _check(f"md-{feature.name.lower()}", f"md: {feature.name}", found, useful_for=(feature.brings,))


def _atomic_writes(machine: Machine, largest: list[str]) -> Check:
    """Judge md's support by the kernel's version. A stricter check would need arrays on disks with atomic writes."""
    units = [int(text) for text in largest if text.isdecimal()]
    brings = "RAID 0, 1 and 10 with atomic writes, on disks that support them"
    disks = sum(unit > 0 for unit in units)
    detail = f"{brings}; {disks} of the machine's {len(units)} disks do. md's support is judged by the kernel's version"
    found: Found = (Outcome.OK, detail, "")
    if not units or version_numbers(machine.facts.kernel_release) < _ATOMIC_WRITES:
        fix = "boot Linux {}.{} or later".format(*_ATOMIC_WRITES)
        found = Outcome.MISSING, f"the machine's kernel does not support this: {brings}", fix
    return _check("md-atomic-writes", "md: atomic writes", found, useful_for=(brings,))
