"""The arrays of an open lab, of every kind: those on its disks, those that run, and what is free for another."""

from __future__ import annotations

from collections.abc import Sequence

from lab.arrays.array import Array
from lab.arrays.bring_up import BroughtUp
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import kind_of_name, kinds
from lab.arrays.preview import Spec
from lab.arrays.state import read_arrays
from lab.arrays.status import ArrayStatus
from lab.disks import Lab, LabDisk
from lab.errors import ArrayError, DeviceRefused
from lab.machine import Machine
from lab.plans import Plan


class OpenArrays:
    """What lies on a lab's disks and what runs of it. Reading is allowed on any thread."""

    def __init__(self, lab: Lab, found: BroughtUp | None = None) -> None:
        self.lab = lab
        self.found = found or BroughtUp()
        """Replaced as a whole when somebody looks at the disks anew."""

    @property
    def machine(self) -> Machine:
        """Where everything happens."""
        return self.lab.machine

    @property
    def disks(self) -> tuple[LabDisk, ...]:
        """The lab's disks, by name."""
        return self.lab.disks

    def node(self, disk_word: str) -> str:
        """The device behind a disk's name, serial or node. Raises SpecError for one that is no lab disk."""
        return self.lab.disk(disk_word.strip()).node

    def disk_name(self, node: str) -> str:
        """The lab's name of a device, or the node itself."""
        return next((disk.name for disk in self.lab.disks if disk.node == node), node)

    def array(self, name: str) -> Array:
        """The array of this name, with everything that can be done to it. Raises SpecError for what names none."""
        return kind_of_name(name).array(self, name)

    def statuses(self) -> tuple[ArrayStatus, ...]:
        """Every running array; of one that is made of md arrays the whole, and not its parts."""
        statuses = read_arrays(self.machine)
        for kind in kinds():
            statuses = kind.gathered(self, statuses)
        return statuses

    def names(self) -> tuple[str, ...]:
        """Names that are taken, by arrays that run and by those that do not."""
        return (*(status.name for status in self.statuses()), *(array.name for array in self.found.all))

    def used_nodes(self) -> frozenset[str]:
        """Nodes of the disks that belong, or once belonged, to an array."""
        used = {member.device for status in self.statuses() for member in status.members}
        used |= {node for array in self.found.all for node in (*array.devices, *array.former_devices)}
        return frozenset(used)

    def free_disks(self) -> tuple[LabDisk, ...]:
        """The disks that no array needs, by name; they may still carry a file system (see ``check_free``)."""
        used = self.used_nodes()
        return tuple(disk for disk in self.disks if disk.node not in used)

    def creation(self, spec: Spec, file_system: FileSystem = FileSystem.RAW, *, checks_disks: bool = True) -> Plan:
        """Create the array that ``spec`` describes, and the file system on it.

        Raises LabError for one that cannot be; with ``checks_disks`` also for disks that are in use.
        """
        if spec.name in self.names():
            raise ArrayError(
                f"there is already an array {spec.name}",
                hint=f"choose another name, or remove it with 'raidlab array destroy {spec.name}'",
            )
        taken = self.machine.list_dirs(["/sys/block"])["/sys/block"]
        plan = spec.creation(self.disks, file_system, taken)
        if checks_disks:
            self.check_free(spec.devices)
        return plan

    def check_free(self, nodes: Sequence[str], *, besides: str = "") -> None:
        """Raises DeviceRefused for disks in use, signed, or of an array that does not run.

        ``besides`` names an array whose former members are free.
        """
        for array in self.found.all:
            held = [self.disk_name(node) for node in nodes if node in array.devices]
            if held and array not in self.found.started and array.name != besides:
                raise DeviceRefused(
                    f"{', '.join(held)} belongs to array {array.name}, which is not running",
                    hint=f"remove it for good with 'raidlab array destroy {array.name}', or choose other disks",
                )
        self.lab.guard.check_blank(nodes)
