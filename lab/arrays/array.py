"""One array of an open lab, of any kind: its status, and its operations, each as a plan.

A kind of array is an ``ArrayKind`` and the ``Array`` that it makes; ``lab.arrays.kinds`` lists them. Operations read
the machine, refuse an impossible request with a hint, and change nothing: only the execution of the plan does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lab.arrays.discovery import FoundArray
from lab.arrays.levels import Level
from lab.arrays.preview import Spec
from lab.arrays.spec import Bitmap, CreateOptions
from lab.arrays.status import ArrayStatus
from lab.arrays.waits import wait_until_idle
from lab.disks import LabDisk
from lab.disks.inventory import DiskEnds, kernel_names, read_devices
from lab.errors import ArrayError, SpecError
from lab.gates.text import shortened, visible
from lab.machine.api import Machine
from lab.plans import Plan, Step
from lab.tables import Table

if TYPE_CHECKING:
    from lab.arrays.open_arrays import OpenArrays

SCRUB_ACTIONS = ("check", "repair", "stop")


class ArrayKind(ABC):
    """A kind of array: its levels and names, and how to find its arrays on disks and on a machine."""

    levels: ClassVar[tuple[str, ...]]
    listed_as: ClassVar[str]
    """The key under which JSON lists its arrays."""
    default_chunk_bytes: ClassVar[int]
    head_bytes: ClassVar[int]
    """Bytes at the beginning of a disk that ``discover`` needs."""

    @abstractmethod
    def is_name(self, word: str) -> bool:
        """Whether ``word`` has the form of its arrays' names."""

    @abstractmethod
    def name(self, number: int) -> str:
        """The array name with this number, such as ``md0``."""

    @abstractmethod
    def raid(self, level: str) -> Level:
        """The arithmetic of one of its levels, as if its disks were equal."""

    @abstractmethod
    def options(self, level: str) -> frozenset[str]:
        """The fields of ``CreateOptions`` that only some levels support and this one does."""

    @abstractmethod
    def member_count(self, level: str, free: int) -> int:
        """How many of ``free`` disks to use by default."""

    def suits(self, disks: Sequence[LabDisk]) -> bool:
        """Whether this kind suits these disks."""
        return True

    @abstractmethod
    def spec(self, options: CreateOptions) -> Spec:
        """The spec for these options. Raises SpecError for an option that it does not support."""

    @abstractmethod
    def discover(self, ends: Mapping[str, DiskEnds], host_name: str) -> tuple[FoundArray, ...]:
        """Its arrays on these disks, sorted by name.

        ``ends``: node -> the disk's ends, with at least ``head_bytes`` of the beginning. ``host_name``: the machine's.
        """

    @abstractmethod
    def running(self, machine: Machine, found: Sequence[FoundArray]) -> dict[str, str]:
        """UUID -> name, for the running arrays among ``found``."""

    @abstractmethod
    def gathered(self, arrays: OpenArrays, statuses: tuple[ArrayStatus, ...]) -> tuple[ArrayStatus, ...]:
        """``statuses`` with its own running arrays in place of the md arrays that they consist of."""

    @abstractmethod
    def array(self, arrays: OpenArrays, name: str) -> Array:
        """The array of this name, whether or not it runs."""


def kind_among(kinds: Iterable[ArrayKind], name: str) -> ArrayKind:
    """The kind whose arrays have names of this form. Raises SpecError if there is none."""
    for kind in kinds:
        if kind.is_name(name):
            return kind
    raise SpecError(
        f"'{shortened(visible(name))}' is not an array name",
        hint="write md and a number below 1000, such as md0, or a name as 'raidlab array show' lists it",
    )


@dataclass(frozen=True, slots=True)
class ArrayText:
    """An array as text: ``name  value`` lines, then tables."""

    facts: Mapping[str, object]
    tables: tuple[Table, ...]


class Array(ABC):
    """One array of an open lab."""

    waits_itself: ClassVar[bool] = False
    """Whether its plans themselves wait for syncs, so that the caller need not wait."""

    def __init__(self, arrays: OpenArrays, name: str) -> None:
        self.arrays = arrays
        self.name = name

    @property
    @abstractmethod
    def device(self) -> str:
        """Its device node."""

    @property
    def found(self) -> FoundArray | None:
        """The array as discovered on the disks; None if it was not."""
        return self.arrays.found.array(self.name)

    def status(self) -> ArrayStatus:
        """Its current state. Raises ArrayError with the reason if it does not run."""
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
        """Its current state; None if it does not run."""
        return next((status for status in self.arrays.statuses() if status.name == self.name), None)

    @property
    @abstractmethod
    def refused_hint(self) -> str:
        """The hint for an array that cannot be started."""

    @abstractmethod
    def read(self) -> ArrayStatus:
        """Read its state from the machine. Raises ArrayError if it does not run there."""

    @property
    def mounted_on(self) -> tuple[str, ...]:
        """Its mount points."""
        machine = self.arrays.machine
        kernel = kernel_names(machine, [self.device]).get(self.device, "")
        device = read_devices(machine, [kernel]).get(kernel) if kernel else None
        return device.mounted_on if device else ()

    def wait(self, *, on_look: Callable[[ArrayStatus], None] | None = None) -> ArrayStatus:
        """Wait until no sync runs or is due. Raises WaitTimedOut if a sync makes no progress.

        ``on_look`` is called with each status read of the md array that the wait is for.
        """
        for name in [each.name for each in self.status().inner] or [self.name]:
            wait_until_idle(self.arrays.machine, name, on_look=on_look)
        return self.read()

    # Operations.

    def awake(self, status: ArrayStatus) -> Plan:
        """Take a freshly assembled array out of read-auto: until then md writes no superblock, and records no failure.

        No steps if nothing is pending, or if leaving read-auto would start syncs before a plan can order them.
        """
        return Plan(f"Use {self.name}")

    def assemble(self, *, force: bool = False) -> Plan:
        """Start it; ``force``: also with members that are out of date."""
        found, every = self.found, self.arrays.found
        if found in every.started if found else self.status_now:
            raise ArrayError(f"array {self.name} is already running", hint=f"'raidlab array show {self.name}' shows it")
        if found is None:
            raise ArrayError(
                f"there is no array {self.name} on the lab's disks", hint="'raidlab array show' lists the arrays"
            )
        return self.start(found, force=force)

    @abstractmethod
    def start(self, found: FoundArray, *, force: bool) -> Plan:
        """Start an array that was found and does not run."""

    @abstractmethod
    def stop(self) -> Plan:
        """Unmount what the lab has mounted, then stop."""

    @abstractmethod
    def destroy(self) -> Plan:
        """Stop it if it runs, and erase its metadata from its disks, former members included."""

    @abstractmethod
    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        """Fail a disk; one without which it would lose data only with ``breaks_array``."""

    @abstractmethod
    def remove(self, disk: str) -> Plan:
        """Remove a faulty or spare disk; for one that is already out, a plan without steps whose title says so."""

    @abstractmethod
    def add(self, disk: str) -> Plan:
        """Add a blank disk or a former member."""

    @abstractmethod
    def scrub(self, action: str = "check") -> Plan:
        """Start a check or a repair of the whole array, or stop one."""

    @abstractmethod
    def speed(self, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
        """Limit the speed of its syncs, in KiB/s per member; None: the system's value."""

    def re_add(self, disk: str) -> Plan:
        """Put a former member back by its bitmap."""
        raise self.refusal("re-adding a disk")

    def replace(self, old: str, new: str) -> Plan:
        """Copy a working member to a spare or a blank disk."""
        raise self.refusal("replacing a working disk")

    def bitmap(self, kind: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
        """Add or remove the write-intent bitmap; ``chunk_bytes``: bytes that one bit covers."""
        raise self.refusal("changing the bitmap")

    def grow(self, *, disks: Sequence[str] = (), count: int | None = None, level: str | None = None) -> Plan:
        """Reshape: add ``disks``, or enough free disks for ``count`` members; ``level``: change to this level.

        Without any of these: use the whole size of each member.
        """
        raise self.refusal("growing")

    def refusal(self, what: str) -> ArrayError:
        """The error for an operation that this kind does not support."""
        return ArrayError(
            f"{what} is not possible on {self.name}: it is made of several arrays in a fixed layout",
            hint="fail and add disks instead, or make a new array; "
            f"'raidlab array show {self.name}' shows what it consists of",
        )

    def unmounted(self, title: str) -> Plan:
        """Unmount it wherever it is mounted."""
        why = "Everything cached is written to the array, and the array can be stopped."
        return Plan.of(title, (Step(("umount", place), why) for place in self.mounted_on))

    # Output.

    @abstractmethod
    def text(self, status: ArrayStatus) -> ArrayText:
        """All facts about it, as text."""

    @abstractmethod
    def value(self, status: ArrayStatus) -> dict[str, Any]:
        """The same for JSON."""

    @abstractmethod
    def details(self) -> dict[str, str]:
        """The details of its configuration that a result records."""
