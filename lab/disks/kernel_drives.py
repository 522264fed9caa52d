"""Plans for the lab's own drives, which can be recorded, pulled and slowed down: lines to their driver.

In the embedded kernel the driver is the lab's (provision/kernel/driver/lab_drive_kern.c, which documents each line). On
a stock kernel a program on the machine takes its place (lab/disks/served_drives.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.disks.drive_models import find_drive_model
from lab.disks.kinds import DiskSpec, LabDisk
from lab.machine import Machine
from lab.plans import Danger, Plan, Step, write_file_step

CONTROL = "/dev/lab-drives"
NODE = "/dev/drive"
SERVED_NODE = "/dev/nbd"
SERVED_BACKING = "drive server"
_CLASSES = {"/sys/class/misc": NODE, "/sys/class/cuse": SERVED_NODE}


def node_prefix(machine: Machine) -> str:
    """What the nodes of such drives begin with on the machine; empty if it has no driver for them."""
    if machine.facts.is_virtual_time:
        return NODE
    found = machine.list_dirs(list(_CLASSES)) if machine.facts.is_embedded else {}
    return next((prefix for folder, prefix in _CLASSES.items() if "lab-drives" in found.get(folder, ())), "")


def backing(prefix: str) -> str:
    """The backing of such drives, by the prefix of their nodes."""
    return SERVED_BACKING if prefix == SERVED_NODE else "memory"


def is_kernel_drive(disk: LabDisk) -> bool:
    """Whether a spindle is such a drive."""
    return disk.node.startswith(NODE) or disk.backing == SERVED_BACKING


def add_step(spec: DiskSpec, number: int) -> Step:
    """Create the drive. Raises SpecError for an unknown drive model."""
    model = find_drive_model(spec.model)
    service = round(model.service_milliseconds * 1e6)
    constant = (f"service={service}", f"concurrent={model.concurrent_requests}")
    words = model.mechanics.words if model.mechanics else constant
    why = f"A drive inside the kernel that answers like a {spec.model}: {model.title}."
    return _line(("add", str(number), str(spec.size_bytes), *words), why, undo=f"remove {number}")


def detachment(name: str, node: str) -> Plan:
    """Remove the drive."""
    why = "The kernel forgets the drive and its data."
    return Plan(f"Detach {name}", (_line(("remove", _number(node)), why, danger=Danger.DATA),))


def pull_step(disk: LabDisk, why: str) -> Step:
    """Make the drive vanish while in use; its medium keeps the data."""
    return _line(("pull", _number(disk.node)), why, undo=f"plug {_number(disk.node)}", writes=disk.node)


def plug_step(disk: LabDisk) -> Step:
    """Bring the drive back."""
    return _line(
        ("plug", _number(disk.node)), "The cable is plugged in again: the drive answers with the data on its medium."
    )


def pace_step(disk: LabDisk, seconds: float, why: str) -> Step:
    """Take ``seconds`` for each request from now on; 0: the drive's own pace."""
    number = _number(disk.node)
    return _line(("pace", number, str(round(seconds * 1e9))), why, undo=f"pace {number} 0")


def power_step(disk: LabDisk, why: str) -> Step:
    """Interrupt the drive's power for an instant."""
    return _line(("power", _number(disk.node)), why, danger=Danger.DATA, writes=disk.node)


def content_sums(machine: Machine, disks: Iterable[LabDisk]) -> dict[str, str]:
    """Name -> checksum of a disk's content, if its driver reports one (and documents how), at no cost in machine time.

    Takes this computer one second for each 300 MiB of data. Empty in real time.
    """
    found = {}
    for disk in disks if machine.facts.is_virtual_time else ():
        path = f"/sys/block/{disk.kernel_name}/content_sum"
        found[disk.name] = (machine.read([path])[path] or "").strip()
    return {name: text for name, text in found.items() if text}


def _number(node: str) -> str:
    return node.removeprefix(NODE).removeprefix(SERVED_NODE)


def _line(words: tuple[str, ...], why: str, *, undo: str = "", danger: Danger = Danger.NONE, writes: str = "") -> Step:
    step = write_file_step(CONTROL, " ".join(words), why)
    back = write_file_step(CONTROL, undo, "").argv if undo else ()
    return Step(step.argv, why, back, danger, (writes,) if writes else ())
