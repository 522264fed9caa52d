"""The arrays of an open lab, of every kind: those on its disks, those that run, and the disks free for another."""

from __future__ import annotations

from collections.abc import Sequence

from lab.arrays.array import Array, ArrayKind, kind_among
from lab.arrays.discovery import DATA_FIRST, BroughtUp
from lab.arrays.filesystem import FileSystem
from lab.arrays.preview import Spec
from lab.arrays.state import read_arrays
from lab.arrays.status import ArrayStatus
from lab.disks import Lab, LabDisk
from lab.disks.kinds import with_full_names
from lab.errors import ArrayError, DeviceRefused
from lab.machine import Machine
from lab.plans import Plan


class OpenArrays:
    """The arrays on a lab's disks, running or not. Reading is allowed on any thread."""

    def __init__(self, lab: Lab, kinds: Sequence[ArrayKind], found: BroughtUp | None = None) -> None:
        """``kinds``: md's own first (``lab.arrays.kinds``)."""
        self.lab = lab
        self._kinds = kinds
        self.found = found or BroughtUp()
        """Replaced as a whole when the disks are examined again."""

    @property
    def machine(self) -> Machine:
        """The lab's machine."""
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

    def named(self, plan: Plan) -> Plan:
        """The plan with disks as ``disk02 (/dev/ubdb)`` in its title and reasons; commands are unchanged."""
        return plan.reworded(
            lambda text: with_full_names(text, self.disks), lambda text: with_full_names(text, self.disks, most=2)
        )

    def array(self, name: str) -> Array:
        """The array of this name, with its operations. Raises SpecError for a word that is not an array name.

        An array that was found has all names that ``FoundArray.is_called`` accepts.
        """
        found = self.found.array(name)
        if found is None:
            return kind_among(self._kinds, name).array(self, name)
        kind = next((each for each in self._kinds if each.is_name(found.name)), self._kinds[0])
        return kind.array(self, self.found.word(found))

    def statuses(self) -> tuple[ArrayStatus, ...]:
        """Every running array; one that consists of md arrays is listed as a whole, without its parts."""
        statuses = read_arrays(self.machine)
        for kind in self._kinds:
            statuses = kind.gathered(self, statuses)
        return statuses

    def names(self) -> tuple[str, ...]:
        """Names in use, by running arrays and by others on the disks."""
        return (*(status.name for status in self.statuses()), *(array.name for array in self.found.all))

    def used_nodes(self) -> frozenset[str]:
        """Nodes of the disks that belong, or once belonged, to an array."""
        used = {member.device for status in self.statuses() for member in status.members}
        used |= {node for array in self.found.all for node in (*array.devices, *array.former_devices)}
        return frozenset(used)

    def free_disks(self) -> tuple[LabDisk, ...]:
        """The disks that carried nothing when last examined, by name (see ``check_free``)."""
        used = self.used_nodes()
        return tuple(disk for disk in self.disks if disk.node not in used and disk.node not in self.found.carried)

    def creation(self, spec: Spec, file_system: FileSystem = FileSystem.RAW, *, checks_disks: bool = True) -> Plan:
        """Create the array that ``spec`` describes, and the file system on it.

        Raises LabError if it cannot be created; with ``checks_disks`` also for disks in use.
        """
        if spec.name in self.names():
            raise ArrayError(
                f"there is already an array {spec.name}",
                hint=f"choose another name, or remove it with 'raidlab array destroy {spec.name}'",
            )
        taken = self.machine.list_dirs(["/sys/block"])["/sys/block"]
        plan = spec.creation(self.disks, file_system, taken)
        if not checks_disks:
            return plan
        self.check_free(spec.devices)
        return plan.on_blank_disks()

    def check_free(self, nodes: Sequence[str], *, besides: str = "") -> None:
        """Raises DeviceRefused for disks that are in use, carry anything, or belong or once belonged to an array.

        ``besides`` names an array whose former members are free.
        """
        own = []
        for array in self.found.all:
            held = [self.disk_name(node) for node in nodes if node in array.devices]
            if held and array not in self.found.started and array.name != besides:
                raise DeviceRefused(
                    f"{', '.join(held)} belongs to array {array.name}, which is not running",
                    hint=f"remove it for good with 'raidlab array destroy {self.found.word(array)}', "
                    "or choose other disks",
                )
            former = [node for node in nodes if node in array.former_devices]
            if former and array.name != besides:
                names = [self.disk_name(node) for node in former]
                raise DeviceRefused(
                    f"{', '.join(names)} once belonged to array {array.name}, and still carries its metadata",
                    hint=f"blank it with 'raidlab disks reset {' '.join(names)}', or choose other disks",
                )
            own += [(node, array.metadata_version) for node in former]
        # If the data begin at the device's first sector, the device shows the array's content, such as a file system.
        mirrors = [node for node, version in own if version in DATA_FIRST]
        self.lab.guard.check_unused(mirrors)
        self.lab.guard.check_blank([node for node in nodes if node not in mirrors], members=[node for node, _ in own])
