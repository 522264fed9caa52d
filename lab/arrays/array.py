"""The arrays of every kind in an open lab, and their operations as plans.

A kind of array consists of an ``ArrayKind`` and the ``Array`` objects that it creates; ``lab.arrays.kinds`` lists the
kinds. An operation reads the state of the machine, refuses an impossible request with a hint, and returns a plan. It
changes nothing itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from lab.arrays.discovery import DATA_FIRST, BroughtUp, FoundArray
from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import Level
from lab.arrays.spec import ArraySpec, Bitmap, Spec
from lab.arrays.status import ArrayStatus, read_arrays, wait_until_idle
from lab.disks import Lab, LabDisk
from lab.disks.inventory import DiskEnds, kernel_names, read_devices
from lab.errors import ArrayError, DeviceRefused, SpecError
from lab.gates.text import shortened, visible
from lab.machine import Machine
from lab.plans import Plan, Step
from lab.tables import Table


class ArrayKind(ABC):
    """A kind of array: its levels and names, and how to find its arrays on disks and on a machine."""

    levels: ClassVar[tuple[str, ...]]
    listed_as: ClassVar[str]
    """The key under which JSON lists its arrays."""
    default_chunk_bytes: ClassVar[int]
    head_bytes: ClassVar[int]
    """How many bytes at the beginning of a disk ``discover`` needs."""

    @abstractmethod
    def is_name(self, word: str) -> bool:
        """Whether ``word`` has the form of this kind's array names."""

    @abstractmethod
    def name(self, number: int) -> str:
        """Return the array name with this number, such as ``md0``."""

    @abstractmethod
    def raid(self, level: str) -> Level:
        """Return the arithmetic of one of the kind's levels, for disks of equal size."""

    @abstractmethod
    def options(self, level: str) -> frozenset[str]:
        """Return the fields of ``ArraySpec`` that this level supports, but some other levels do not."""

    @abstractmethod
    def member_count(self, level: str, free: int) -> int:
        """Return how many disks to use by default if ``free`` disks are available."""

    def suits(self, disks: Sequence[LabDisk]) -> bool:
        return True

    @abstractmethod
    def spec(self, asked: ArraySpec, disks: Sequence[LabDisk]) -> Spec:
        """Return the kind's own spec of an array on ``disks``. Raises SpecError if a field is not supported."""

    @abstractmethod
    def discover(self, ends: Mapping[str, DiskEnds], host_name: str) -> tuple[FoundArray, ...]:
        """Return the arrays found in the ends of disks. The ``first`` of each has at least ``head_bytes``."""

    @abstractmethod
    def running(self, machine: Machine, found: Sequence[FoundArray]) -> dict[str, str]:
        """Return the name of each running array among ``found``, by UUID."""

    def gathered(self, arrays: OpenArrays, statuses: tuple[ArrayStatus, ...]) -> tuple[ArrayStatus, ...]:
        """Return ``statuses`` with this kind's running arrays in place of the md arrays that they consist of."""
        return statuses

    @abstractmethod
    def array(self, arrays: OpenArrays, name: str) -> Array:
        """Return the array with this name, whether or not it is running."""


def kind_among(kinds: Iterable[ArrayKind], name: str) -> ArrayKind:
    """Return the kind whose arrays have names of this form. Raises SpecError if there is none."""
    for kind in kinds:
        if kind.is_name(name):
            return kind
    raise SpecError(
        f"'{shortened(visible(name))}' is not an array name",
        hint="write 'md' and a number below 1000, such as md0, or a name that 'raidlab array show' lists",
    )


class ArrayOperations(ABC):
    """The operations on one array, as plans: an array of an open lab, or one on which a fault history will run."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def assemble(self, *, force: bool = False, disks: Sequence[str] = ()) -> Plan:
        """Start the array from all its disks or only from ``disks``; ``force`` also accepts out-of-date members."""

    @abstractmethod
    def stop(self) -> Plan:
        """Unmount what the lab has mounted, then stop the array."""

    @abstractmethod
    def destroy(self) -> Plan:
        """Stop the array if it is running, and erase its metadata from its disks, former members included."""

    @abstractmethod
    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        """Fail a disk; ``breaks_array`` is required if the array would lose data without it."""

    @abstractmethod
    def remove(self, disk: str) -> Plan:
        """Remove a faulty or spare disk. If it has already left, the plan has no steps and its title says so."""

    @abstractmethod
    def add(self, disk: str) -> Plan:
        """Add a blank disk or a former member."""

    @abstractmethod
    def scrub(self, action: str = "check") -> Plan:
        """Start a check or a repair of the whole array, or stop a running scrub."""

    @abstractmethod
    def speed(self, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
        """Limit the speed of the array's syncs, in KiB/s per member; None means the system-wide limit."""

    def re_add(self, disk: str) -> Plan:
        """Re-add a former member, using the bitmap."""
        raise self.refusal("re-adding a disk")

    def replace(self, old: str, new: str) -> Plan:
        """Copy a working member to a spare or a blank disk."""
        raise self.refusal("replacing a working disk")

    def bitmap(self, kind: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
        """Add or remove the write-intent bitmap, of which one bit covers ``chunk_bytes``."""
        raise self.refusal("changing the bitmap")

    def grow(self, *, disks: Sequence[str] = (), count: int | None = None, level: str | None = None) -> Plan:
        """Add ``disks``, grow to ``count`` members, change to ``level`` or, by default, use all space on members."""
        raise self.refusal("growing")

    def refusal(self, what: str) -> ArrayError:
        return ArrayError(
            f"{what} is not possible on {self.name}, which consists of several arrays in a fixed layout",
            hint="fail and add disks instead, or make a new array; "
            f"'raidlab array show {self.name}' shows what it consists of",
        )


class ArraysToPlan(Protocol):
    """The arrays for which operations make their plans: those of an open lab, or those of a fault history."""

    @property
    def disks(self) -> tuple[LabDisk, ...]:
        """All disks."""

    def free_disks(self) -> tuple[LabDisk, ...]:
        """Return the disks that can be used for a new array."""

    def names(self) -> tuple[str, ...]:
        """Return the names that a new array cannot have."""

    def array(self, name: str) -> ArrayOperations:
        """Return the array with this name."""

    def creation(self, spec: Spec, file_system: FileSystem = FileSystem.RAW) -> Plan:
        """Return a plan that creates the array and its file system."""

    def start_stopped(self) -> Plan:
        """Return a plan that starts every stopped array."""


def require_free_name(name: str, taken: Collection[str]) -> None:
    """Raise ArrayError if the name is among those in use."""
    if name in taken:
        hint = f"choose a different name, or remove that array with 'raidlab array destroy {name}'"
        raise ArrayError(f"an array named {name} already exists", hint=hint)


class Array(ArrayOperations):
    """One array of an open lab."""

    waits_itself: ClassVar[bool] = False
    """Whether the plans themselves wait for syncs, so that the caller need not."""

    def __init__(self, arrays: OpenArrays, name: str) -> None:
        super().__init__(name)
        self.arrays = arrays

    @property
    @abstractmethod
    def device(self) -> str:
        """The array's device node."""

    @property
    def found(self) -> FoundArray | None:
        return self.arrays.found.array(self.name)

    def status(self) -> ArrayStatus:
        """Return the array's current state. Raises ArrayError with the reason if the array is not running."""
        found, every = self.found, self.arrays.found
        if found and found in every.stopped:
            raise ArrayError(
                f"array {self.name} is stopped", hint=f"start it with 'raidlab array assemble {self.name}'"
            )
        if found and found in every.refused:
            raise ArrayError(f"array {self.name} is not running: {found.refusal}", hint=self.refused_hint)
        return self.read()

    @property
    def status_now(self) -> ArrayStatus | None:
        return next((status for status in self.arrays.statuses() if status.name == self.name), None)

    @property
    @abstractmethod
    def refused_hint(self) -> str:
        """The hint for an array that cannot be started."""

    @abstractmethod
    def read(self) -> ArrayStatus:
        """Read the array's state from the machine. Raises ArrayError if the array is not running there."""

    @property
    def mounted_on(self) -> tuple[str, ...]:
        machine = self.arrays.machine
        kernel = kernel_names(machine, [self.device]).get(self.device, "")
        device = read_devices(machine, [kernel]).get(kernel) if kernel else None
        return device.mounted_on if device else ()

    def wait(self, *, on_status: Callable[[ArrayStatus], None] | None = None) -> ArrayStatus:
        """Wait until no sync is running or due; ``on_status`` is called with each status. Raises WaitTimedOut."""
        for name in [each.name for each in self.status().inner] or [self.name]:
            wait_until_idle(self.arrays.machine, name, on_status=on_status)
        return self.read()

    def awake(self, status: ArrayStatus) -> Plan:
        """Take the array out of read-auto, in which md neither writes superblocks nor records failures.

        The plan has no steps if the array is not read-auto, or if leaving read-auto would start syncs too early.
        """
        return Plan(f"Use {self.name}")

    def awake_first(self, status: ArrayStatus, plan: Plan) -> Plan:
        """Return ``plan`` preceded by ``awake``, for a change that md ignores while the array is read-auto."""
        return Plan(plan.title, (*self.awake(status).steps, *plan.steps))

    def assemble(self, *, force: bool = False, disks: Sequence[str] = ()) -> Plan:
        found, every = self.found, self.arrays.found
        if found in every.started if found else self.status_now:
            raise ArrayError(
                f"array {self.name} is already running", hint=f"look at it with 'raidlab array show {self.name}'"
            )
        if found is None:
            raise ArrayError(
                f"there is no array {self.name} on the lab's disks", hint="'raidlab array show' lists the arrays"
            )
        nodes = tuple(self.arrays.node(disk) for disk in disks)
        for disk, node in zip(disks, nodes, strict=True):
            if node not in (*found.devices, *found.former_devices):
                raise ArrayError(f"{disk} does not belong to {self.name}", hint="'raidlab disks' shows what uses it")
        return self.start(found, force=force, nodes=nodes)

    @abstractmethod
    def start(self, found: FoundArray, *, force: bool, nodes: tuple[str, ...]) -> Plan:
        """Start an array that was found but is not running, from these nodes if there are any."""

    def unmounted(self, title: str) -> Plan:
        why = "All cached data are written to the array, which can then be stopped."
        return Plan.of(title, (Step(("umount", place), why) for place in self.mounted_on))

    # Output.

    @abstractmethod
    def text(self, status: ArrayStatus) -> tuple[Mapping[str, object], Sequence[Table]]:
        """Return all facts about the array: values by name, and tables."""

    @abstractmethod
    def value(self, status: ArrayStatus) -> dict[str, Any]:
        """Return all facts about the array, for JSON."""

    @abstractmethod
    def details(self) -> dict[str, str]:
        """Return the details of the array's configuration that a result records."""


class OpenArrays:
    """The arrays on a lab's disks, running or not. Any thread may read them."""

    def __init__(self, lab: Lab, kinds: Sequence[ArrayKind], found: BroughtUp | None = None) -> None:
        """The first of ``kinds`` is md's own (``lab.arrays.kinds``)."""
        self.lab = lab
        self._kinds = kinds
        self.found = found or BroughtUp()
        """The arrays found on the disks; this is replaced as a whole when the disks are examined again."""

    @property
    def machine(self) -> Machine:
        return self.lab.machine

    @property
    def disks(self) -> tuple[LabDisk, ...]:
        return self.lab.disks

    def node(self, disk_word: str) -> str:
        """Return a disk's node from its name, serial number or node. Raises SpecError if it is not a lab disk."""
        return self.lab.disk(disk_word.strip()).node

    def disk_name(self, node: str) -> str:
        """Return the lab's name for a device, or the node itself if it has none."""
        return next((disk.name for disk in self.lab.disks if disk.node == node), node)

    def array(self, name: str) -> Array:
        """Return the array with a name that its kind or ``FoundArray.is_called`` accepts. Raises SpecError."""
        found = self.found.array(name)
        if found is None:
            return kind_among(self._kinds, name).array(self, name)
        kind = next((each for each in self._kinds if each.is_name(found.name)), self._kinds[0])
        return kind.array(self, self.found.word(found))

    def statuses(self) -> tuple[ArrayStatus, ...]:
        """Return every running array; one that consists of md arrays is listed as a whole, without its parts."""
        statuses = read_arrays(self.machine)
        for kind in self._kinds:
            statuses = kind.gathered(self, statuses)
        return statuses

    def names(self) -> tuple[str, ...]:
        """Return the names in use, which are those of running arrays and of the other arrays on the disks."""
        return (*(status.name for status in self.statuses()), *(array.name for array in self.found.all))

    def used_nodes(self) -> frozenset[str]:
        """Return the nodes of the disks that belong, or once belonged, to an array."""
        used = {member.device for status in self.statuses() for member in status.members}
        used |= {node for array in self.found.all for node in (*array.devices, *array.former_devices)}
        return frozenset(used)

    def free_disks(self) -> tuple[LabDisk, ...]:
        """Return the disks that were blank when last examined; ``check_free`` examines disks again."""
        used = self.used_nodes()
        return tuple(disk for disk in self.disks if disk.node not in used and disk.node not in self.found.carried)

    def start_stopped(self) -> Plan:
        steps = (step for array in self.found.stopped for step in array.start_plan(self.machine).steps)
        return Plan.of("Start all arrays", steps)

    def creation(self, spec: Spec, file_system: FileSystem = FileSystem.RAW) -> Plan:
        """Return a plan that creates the array and its file system. Raises LabError if its name or a disk is in use."""
        require_free_name(spec.name, self.names())
        plan = spec.creation(self.disks, file_system, self.block_names())
        self.check_free(spec.devices)
        return plan.on_blank_disks()

    def block_names(self) -> Sequence[str]:
        """Return the kernel names of all block devices, which include arrays that are being stopped."""
        return self.machine.list_dirs(["/sys/block"])["/sys/block"]

    def check_free(self, nodes: Sequence[str], *, besides: str = "") -> None:
        """Raise DeviceRefused if a disk is in use or not blank. Former members of array ``besides`` are accepted."""
        own = []
        for array in self.found.all:
            held = [self.disk_name(node) for node in nodes if node in array.devices]
            if held and array not in self.found.started and array.name != besides:
                belong = "belongs" if len(held) == 1 else "belong"
                raise DeviceRefused(
                    f"{', '.join(held)} {belong} to array {array.name}, which is not running",
                    hint=f"remove it permanently with 'raidlab array destroy {self.found.word(array)}', "
                    "or choose other disks",
                )
            former = [node for node in nodes if node in array.former_devices]
            if array.name == besides:
                # These may include a failed disk of a running array, if no superblock has been written since. Members
                # are refused, because they are in use.
                former += [node for node in nodes if node in array.devices]
            if former and array.name != besides:
                names = [self.disk_name(node) for node in former]
                was, contain, it = (
                    ("was a member", "contains", "it") if len(names) == 1 else ("were members", "contain", "them")
                )
                raise DeviceRefused(
                    f"{', '.join(names)} {was} of array {array.name}, and still {contain} its metadata",
                    hint=f"blank {it} with 'raidlab disks reset {' '.join(names)}', or choose other disks",
                )
            own += [(node, array.metadata_version) for node in former]
        # If the data begin at the device's first sector, the device shows the array's content, such as a file system.
        mirrors = [node for node, version in own if version in DATA_FIRST]
        self.lab.guard.check_unused(mirrors)
        self.lab.guard.check_blank([node for node in nodes if node not in mirrors], members=[node for node, _ in own])
