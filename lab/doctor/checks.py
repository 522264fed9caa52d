"""What this computer can do: every check at once, so that one round of mending is enough."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable

from lab.doctor.distribution import Distribution, read_distribution
from lab.doctor.programs import EVERY_TARGET, LOCAL, SSH, UML, VAGRANT, ask_version, program_checks
from lab.doctor.report import Check, DoctorReport, Outcome, Subject
from lab.doctor.virtual import check_virtual
from lab.errors import LabError
from lab.machine.embedded import DEFAULT_MEMORY_BYTES, find_kernel
from lab.machine.opening import Host
from lab.machine.state_folder import STATE_VARIABLE, make_folder
from lab.units import GIB, human_bytes

OLDEST_PYTHON = (3, 11)
# A lab of a few disks of 500 MB and the results of some experiments.
COMFORTABLE_SPACE_BYTES = 4 * GIB
LEAST_SPACE_BYTES = GIB // 2


def check_computer(
    host: Host,
    *,
    target: str = UML,
    is_root: bool | None = None,
    python_version: tuple[int, ...] = tuple(sys.version_info[:3]),
) -> DoctorReport:
    """Look at everything. ``target`` is the one that the verdict is about."""
    root = os.geteuid() == 0 if is_root is None else is_root
    distribution = read_distribution(host.files)
    checks = (
        _python(python_version),
        *program_checks(host, distribution, is_root=root),
        _embedded_kernel(host),
        _virtual_time(host),
        _guest_memory(host),
        _state_folder(host),
        _md_driver(host),
        _privilege(host, is_root=root),
        _ssh(host, distribution, is_root=root),
        _kvm(host),
        *check_virtual(host),
    )
    return make_report(Subject.COMPUTER, "this computer", target, checks, distribution, is_root=root)


def make_report(
    subject: Subject, name: str, target: str, checks: Iterable[Check], distribution: Distribution, *, is_root: bool
) -> DoctorReport:
    """The verdict over some checks."""
    listed = tuple(checks)
    kind = target.partition(":")[0] + ":"
    packages = [package for check in listed for package in check.packages]
    return DoctorReport(
        subject=subject,
        name=name,
        target=kind,
        is_ready=not any(check.blocks(kind) for check in listed),
        install_command=distribution.install_command(packages, is_root=is_root),
        checks=listed,
    )


def _python(version: tuple[int, ...]) -> Check:
    is_enough = version >= OLDEST_PYTHON
    return Check(
        name="python",
        title="Python",
        outcome=Outcome.OK if is_enough else Outcome.MISSING,
        detail=".".join(map(str, version)),
        mend="" if is_enough else "install Python 3.11 or later and set the lab up with it: make lab",
        required_for=EVERY_TARGET,
    )


def _embedded_kernel(host: Host) -> Check:
    try:
        image = find_kernel(host.processes, host.files)
    except LabError as error:
        mend = error.hint.partition(", or choose")[0]
        packages = (mend.removeprefix("apt install "),) if mend.startswith("apt install ") else ()
        return Check(
            name="embedded-kernel",
            title="embedded kernel",
            outcome=Outcome.MISSING,
            detail=error.message,
            mend=mend,
            packages=packages,
            required_for=(UML,),
        )
    release = ask_version(host, str(image.path), "--version")
    if not release:
        return Check(
            name="embedded-kernel",
            title="embedded kernel",
            outcome=Outcome.MISSING,
            detail=f"{image.path} does not start",
            mend="provision/kernel/build-uml.sh standard",
            required_for=(UML,),
        )
    origin = "built here" if image.modules else "packaged"
    return Check(
        name="embedded-kernel",
        title="embedded kernel",
        outcome=Outcome.OK,
        detail=f"{release}, {origin} ({image.path})",
        required_for=(UML,),
    )


def _virtual_time(host: Host) -> Check:
    try:
        detail, outcome, mend = str(find_kernel(host.processes, host.files, virtual_time=True).path), Outcome.OK, ""
    except LabError as error:
        detail, outcome, mend = error.message, Outcome.MISSING, "make uml-kernel"
    return Check(
        name="virtual-time",
        title="embedded kernel with virtual time",
        outcome=outcome,
        detail=detail,
        mend=mend,
        useful_for=("slow disks in a fraction of the time: --on 'uml:?time=virtual'",),
    )


def _guest_memory(host: Host) -> Check:
    room = _free_bytes(host, "/dev/shm")
    is_enough = room >= DEFAULT_MEMORY_BYTES
    wanted = human_bytes(DEFAULT_MEMORY_BYTES)
    return Check(
        name="guest-memory",
        title="memory for the embedded kernel",
        outcome=Outcome.OK if is_enough else Outcome.LIMITED,
        detail=f"{human_bytes(room)} free in /dev/shm; the kernel takes {wanted}"
        + ("" if is_enough else ", so its memory will be a file in the state folder, which is slower"),
        mend=""
        if is_enough
        else f"free some: rm files in /dev/shm, or mount -o remount,size={wanted} /dev/shm as root",
        useful_for=("a fast embedded kernel",),
    )


def _free_bytes(host: Host, name: str) -> int:
    try:
        return shutil.disk_usage(host.files.path(name)).free
    except OSError:
        return 0


def _state_folder(host: Host) -> Check:
    folder = host.state.root
    try:
        room = shutil.disk_usage(make_folder(folder, what="the state folder")).free
    except LabError as error:
        outcome, detail, mend = Outcome.MISSING, error.message, error.hint
    except OSError as error:
        outcome, detail, mend = (
            Outcome.MISSING,
            f"{folder}: {error.strerror}",
            f"choose another: {STATE_VARIABLE}=FOLDER",
        )
    else:
        detail = f"{folder}, {human_bytes(room)} free"
        outcome = Outcome.OK if room >= COMFORTABLE_SPACE_BYTES else Outcome.LIMITED
        if room < LEAST_SPACE_BYTES:
            outcome = Outcome.MISSING
        mend = "" if outcome is Outcome.OK else f"free some space there, or choose another: {STATE_VARIABLE}=FOLDER"
    return Check(
        name="state-folder",
        title="state folder",
        outcome=outcome,
        detail=detail,
        mend=mend,
        required_for=EVERY_TARGET,
    )


def _md_driver(host: Host) -> Check:
    release = platform.release()
    mdstat = host.files.read("/proc/mdstat")
    if mdstat is not None:
        levels = mdstat.partition("\n")[0].partition(":")[2].strip() or "no level loaded yet"
        outcome, detail, mend = Outcome.OK, f"the md driver runs in this computer's kernel {release}: {levels}", ""
    elif (modinfo := host.processes.find("modinfo")) and host.processes.run([modinfo, "-n", "md_mod"]).status == 0:
        outcome, mend = Outcome.OK, ""
        detail = f"this computer's kernel {release} has the md driver as a module, and loads it when it is needed"
    else:
        outcome = Outcome.MISSING
        detail = f"this computer's kernel {release} has no md driver (as in many containers and cloud machines)"
        mend = "use the embedded kernel (--on uml:), or install a kernel with md and boot it"
    return Check(
        name="md-driver",
        title="md in this computer's own kernel",
        outcome=outcome,
        detail=detail,
        mend=mend,
        required_for=(LOCAL,),
    )


def _privilege(host: Host, *, is_root: bool) -> Check:
    sudo = host.processes.find("sudo")
    if is_root:
        outcome, detail = Outcome.OK, "this is root"
    elif not sudo:
        outcome, detail = Outcome.MISSING, "sudo is not installed, and only root can drive md on this computer"
    elif host.processes.run([sudo, "-n", "true"], timeout_seconds=10).status == 0:
        outcome, detail = Outcome.OK, "sudo works without a password"
    else:
        outcome, detail = Outcome.MISSING, "sudo asks for a password, which the lab's agent cannot type"
    return Check(
        name="privilege",
        title="root on this computer",
        outcome=outcome,
        detail=detail,
        mend=""
        if outcome is Outcome.OK
        else "run 'sudo -v' first, or run raidlab as root"
        if sudo
        else "apt install sudo",
        required_for=(LOCAL,),
    )


def _ssh(host: Host, distribution: Distribution, *, is_root: bool) -> Check:
    found = host.processes.find("ssh") or ""
    package = distribution.package("ssh")
    return Check(
        name="program-ssh",
        title="ssh",
        outcome=Outcome.OK if found else Outcome.MISSING,
        detail=found or "ssh is not installed",
        mend="" if found else distribution.install_command([package], is_root=is_root),
        packages=() if found else (package,),
        required_for=(SSH, VAGRANT),
    )


def _kvm(host: Host) -> Check:
    """By the processor's flags: a device file may be there, and even open, where guests then hang."""
    flags: set[str] = set()
    for line in (host.files.read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags.update(value.split())
    has_flag = bool(flags & {"vmx", "svm"})
    device = host.files.path("/dev/kvm")
    mend = ""
    if has_flag and os.access(device, os.R_OK | os.W_OK):
        outcome, detail = (
            Outcome.OK,
            "the processor virtualises and /dev/kvm can be used: virtual machines run at full speed",
        )
    elif has_flag and device.exists():
        outcome, detail = Outcome.MISSING, "the processor virtualises, but this user may not use /dev/kvm"
        mend = "sudo usermod -aG kvm $USER, then log in again"
    elif has_flag:
        outcome, detail = Outcome.MISSING, "the processor virtualises, but there is no /dev/kvm"
        mend = "sudo modprobe -a kvm_intel kvm_amd; if that fails, switch virtualisation on in the firmware"
    else:
        outcome = Outcome.LIMITED
        detail = "the processor shows neither vmx nor svm, so a virtual machine is emulated, some ten times slower"
        detail += " (/dev/kvm is there, but guests would hang on it)" if device.exists() else ""
        mend = "use the embedded kernel (--on uml:), or switch virtualisation on in the firmware or the outer machine"
    return Check(
        name="kvm",
        title="hardware virtualisation (KVM)",
        outcome=outcome,
        detail=detail,
        mend=mend,
        useful_for=("the virtual machine: make vm",),
    )
