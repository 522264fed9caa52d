"""One array of an open lab, whatever it is made of: how it stands, and what can be done to it, each as a plan.

A kind of array is an ``ArrayKind`` and the ``Array`` that it makes; ``lab.arrays.kinds`` lists them. Verbs read, refuse
what cannot be with a hint, and touch nothing: what acts is the plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lab.arrays.discovery import FoundArray
from lab.arrays.levels import Level
from lab.arrays.preview import Spec
from lab.arrays.spec import Bitmap, CreateOptions
from lab.arrays.status import ArrayStatus
from lab.arrays.waits import wait_until_idle
from lab.disks import LabDisk
from lab.disks.inventory import kernel_names, read_devices
from lab.errors import ArrayError
from lab.machine.api import Machine
from lab.plans import Plan, Step

if TYPE_CHECKING:
    from lab.arrays.open_arrays import OpenArrays

SCRUB_ACTIONS = ("check", "repair", "stop")


class ArrayKind(ABC):
    """One way to make arrays: its levels and names, its arrays on disks and on a machine."""

    levels: ClassVar[tuple[str, ...]]
    nicknames: ClassVar[Mapping[str, str]] = {}
    """What people also call its levels."""
    makes: ClassVar[str] = ""
    """What its levels make, for somebody who names one where only md's own will do."""
    listed_as: ClassVar[str]
    """The key under which JSON lists its arrays."""
    default_chunk_bytes: ClassVar[int]
    head_bytes: ClassVar[int]
    """How much of the beginning of a disk tells its arrays."""

    @abstractmethod
    def is_name(self, word: str) -> bool:
        """Whether its arrays have such names."""

    @abstractmethod
    def name(self, number: int) -> str:
        """Its names, counted."""

    @abstractmethod
    def raid(self, level: str) -> Level:
        """The arithmetic of one of its levels, as far as that of equal disks tells it."""

    @abstractmethod
    def options(self, level: str) -> frozenset[str]:
        """Fields of ``CreateOptions`` that not every level has, and this one does."""

    @abstractmethod
    def member_count(self, level: str, free: int) -> int:
        """How many of the ``free`` disks to take where nobody says it."""

    def suits(self, disks: Sequence[LabDisk]) -> bool:
        """Whether these disks are what it is for."""
        return True

    @abstractmethod
    def spec(self, options: CreateOptions) -> Spec:
        """What these options ask for. Raises SpecError for one that it does not have."""

    @abstractmethod
    def discover(self, heads: Mapping[str, bytes], host_name: str) -> tuple[FoundArray, ...]:
        """Its arrays on these disks, by name, from ``head_bytes`` or more of each; the machine is ``host_name``."""

    @abstractmethod
    def running(self, machine: Machine, found: Sequence[FoundArray]) -> dict[str, str]:
        """UUID -> name of those that run."""

    @abstractmethod
    def gathered(self, arrays: OpenArrays, statuses: tuple[ArrayStatus, ...]) -> tuple[ArrayStatus, ...]:
        """``statuses`` with its own running arrays in place of the md arrays that they are made of."""

    @abstractmethod
    def array(self, arrays: OpenArrays, name: str) -> Array:
        """The array of this name, whether or not it runs."""


@dataclass(frozen=True, slots=True)
class ArrayText:
    """An array for people: ``name  value`` lines, then tables of headings, rows, and which columns align right."""

    facts: Mapping[str, object]
    tables: tuple[tuple[tuple[str, ...], Sequence[Sequence[object]], tuple[str, ...]], ...]


class Array(ABC):
    """One array of an open lab."""

    waits_itself: ClassVar[bool] = False
    """Whether its plans wait for syncs, step by step, so that nothing is left to wait for."""

    def __init__(self, arrays: OpenArrays, name: str) -> None:
        self.arrays = arrays
        self.name = name

    @property
    @abstractmethod
    def device(self) -> str:
        """Its node."""

    @property
    def found(self) -> FoundArray | None:
        """What the disks tell of it."""
        return self.arrays.found.array(self.name)

    def status(self) -> ArrayStatus:
        """How it stands. Raises ArrayError that says why it does not run."""
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
        """How it stands; None if it does not run."""
        return next((status for status in self.arrays.statuses() if status.name == self.name), None)

    @property
    @abstractmethod
    def refused_hint(self) -> str:
        """What can be done with one that cannot be started."""

    @abstractmethod
    def read(self) -> ArrayStatus:
        """Look at the machine. Raises ArrayError if it does not run there."""

    @property
    def mounted_on(self) -> tuple[str, ...]:
        """Where it is mounted."""
        machine = self.arrays.machine
        kernel = kernel_names(machine, [self.device]).get(self.device, "")
        device = read_devices(machine, [kernel]).get(kernel) if kernel else None
        return device.mounted_on if device else ()

    def wait(self, *, on_look: Callable[[ArrayStatus], None] | None = None) -> ArrayStatus:
        """Wait until nothing is synchronised any more. Raises WaitTimedOut if it does not get on.

        ``on_look`` is told how the md array stands that is waited for.
        """
        for name in [each.name for each in self.status().inner] or [self.name]:
            wait_until_idle(self.arrays.machine, name, on_look=on_look)
        return self.read()

    # What can be done to it.

    def awake(self, status: ArrayStatus) -> Plan:
        """Take a freshly assembled array out of read-auto: until then md writes no superblock, and forgets a failure.

        No steps where nothing waits, or where waking would begin what a plan must begin in its own order.
        """
        return Plan(f"Use {self.name}")

    def assemble(self, *, force: bool = False) -> Plan:
        """Start it; ``force`` also with members that disagree."""
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
        """Start one that was found and does not run."""

    @abstractmethod
    def stop(self) -> Plan:
        """Unmount what the lab has mounted, then stop."""

    @abstractmethod
    def destroy(self) -> Plan:
        """Stop it if it runs, and erase it from its disks, also from those that have left it."""

    @abstractmethod
    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        """Fail a disk; one that it cannot do without only when told so."""

    @abstractmethod
    def remove(self, disk: str) -> Plan:
        """Take out a faulty or spare disk; no steps, and a title that says so, for one that has left already."""

    @abstractmethod
    def add(self, disk: str) -> Plan:
        """Add a blank disk, or one that has left it."""

    @abstractmethod
    def scrub(self, action: str = "check") -> Plan:
        """Start a check or a repair of the whole array, or stop one."""

    @abstractmethod
    def speed(self, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
        """Limit its syncs, per second and member; None: the system's value."""

    def re_add(self, disk: str) -> Plan:
        """Put a former member back by its bitmap."""
        raise self.refusal("re-adding a disk")

    def replace(self, old: str, new: str) -> Plan:
        """Copy a working member to a spare or a blank disk."""
        raise self.refusal("replacing a working disk")

    def bitmap(self, kind: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
        """Add or remove the write-intent bitmap; with ``chunk_bytes`` one whose bits stand for so much."""
        raise self.refusal("changing the bitmap")

    def grow(self, *, disks: Sequence[str] = (), count: int | None = None, level: str | None = None) -> Plan:
        """Reshape: let ``disks`` join, or so many free ones that there are ``count``, perhaps at another level.

        With none of these: use all of each member.
        """
        raise self.refusal("growing")

    def refusal(self, what: str) -> ArrayError:
        """For what this kind does not have."""
        return ArrayError(
            f"{what} is not possible on {self.name}: it is made of several arrays in a fixed layout",
            hint="fail and add disks instead, or make a new array; "
            f"'raidlab array show {self.name}' shows what it consists of",
        )

    def unmounted(self, title: str) -> Plan:
        """Unmount it wherever it is mounted."""
        why = "Everything cached is written to the array, and the array can be stopped."
        return Plan.of(title, (Step(("umount", place), why) for place in self.mounted_on))

    # How it is shown.

    @abstractmethod
    def text(self, status: ArrayStatus) -> ArrayText:
        """All that is known of it, for people."""

    @abstractmethod
    def value(self, status: ArrayStatus) -> dict[str, Any]:
        """The same for JSON."""

    @abstractmethod
    def details(self) -> dict[str, str]:
        """What a result keeps of how it is made."""
