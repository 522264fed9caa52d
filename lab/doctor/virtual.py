"""What the virtual machine of ``make vm`` needs of this computer: Vagrant, and libvirt that this user may use."""

from __future__ import annotations

from collections.abc import Iterator

from lab.doctor.programs import VAGRANT
from lab.doctor.report import Check, Outcome
from lab.machine.opening import Host

_ANSWER_SECONDS = 10.0


def check_virtual(host: Host) -> Iterator[Check]:
    """Vagrant, and libvirt where there is Vagrant to use it."""
    vagrant = _vagrant(host)
    yield vagrant
    if vagrant.outcome is Outcome.OK:
        yield _libvirt(host)


def _vagrant(host: Host) -> Check:
    """Whether Vagrant is installed; its version is not asked for, since that takes it a second or more."""
    found = host.processes.find("vagrant") or ""
    return Check(
        name="program-vagrant",
        title="vagrant",
        outcome=Outcome.OK if found else Outcome.MISSING,
        detail=found or "vagrant is not installed",
        mend="" if found else "make vm",
        required_for=(VAGRANT,),
    )


def _libvirt(host: Host) -> Check:
    """Whether libvirt's daemon answers this user."""
    virsh = host.processes.find("virsh")
    outcome, mend = Outcome.MISSING, "make vm"
    if not virsh:
        detail = "libvirt is not installed"
    else:
        answer = host.processes.run([virsh, "--connect", "qemu:///system", "uri"], timeout_seconds=_ANSWER_SECONDS)
        said = answer.stderr.strip().splitlines()
        detail = said[-1].removeprefix("error: ") if said else "libvirt's daemon answers"
        if answer.status == 0:
            outcome, mend = Outcome.OK, ""
        elif "denied" in answer.stderr or "authentication" in answer.stderr:
            mend = "sudo usermod -aG libvirt $USER, then log in again"
        else:
            mend = "start it: sudo systemctl start libvirtd"
    return Check(
        name="libvirt",
        title="libvirt",
        outcome=outcome,
        detail=detail,
        mend=mend,
        # A machine that runs is reached by ssh alone.
        useful_for=("the virtual machine: make vm",),
    )
