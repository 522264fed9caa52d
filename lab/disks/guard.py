"""The guard: the one place that decides whether the lab may write on a device. What it does not know it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from lab.disks.inventory import MAPPER, BlockDevice, kernel_names, read_devices
from lab.disks.kinds import DiskKind, LabDisk
from lab.errors import DeviceRefused
from lab.gates.decoding import decode_json
from lab.machine import RUN_FOLDER, Machine
from lab.plans import Step

MOUNT_FOLDER = f"{RUN_FOLDER}/mnt"
"""Where the lab mounts file systems of its own."""
_RAID_SIGNATURE = "linux_raid_member"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A device that the lab does not write on, and why."""

    device: BlockDevice
    reasons: tuple[str, ...]


def reasons_against(
    device: BlockDevice, disks: Mapping[str, LabDisk], devices: Mapping[str, BlockDevice]
) -> tuple[str, ...]:
    """Why the lab may not write on ``device``; empty if it may.

    ``disks`` are the lab's disks and ``devices`` all devices of the machine, both by kernel name.
    """
    if device.members:
        return _reasons_against_array(device, disks, devices)
    disk = disks.get(device.name)
    found = [*_uses(device, devices, disks)]
    above = next((each.name for each in disks.values() if each.backing == device.node), None)
    if above:
        found.insert(0, f"the spindle {above} lies on it")
    elif disk is None:
        found.insert(0, "it is not a lab disk")
    elif device.size_bytes != disk.size_bytes and disk.kind is not DiskKind.PHYSICAL:
        found.insert(0, f"it has {device.size_bytes} bytes, and the lab's {disk.name} has {disk.size_bytes}")
    return tuple(found)


def _reasons_against_array(
    device: BlockDevice, disks: Mapping[str, LabDisk], devices: Mapping[str, BlockDevice]
) -> tuple[str, ...]:
    foreign = [name for name in _leaves(device, devices) if name not in disks]
    if foreign:
        what = "a mapping" if device.mapped_name else "an array"
        return (f"it is {what} with members that are not lab disks: {', '.join(foreign)}",)
    return ()


def _leaves(device: BlockDevice, devices: Mapping[str, BlockDevice]) -> Iterable[str]:
    """Kernel names of the devices on which this one lies in the end; what was not read counts as one."""
    found: dict[str, None] = {}
    for member in device.members:
        below = devices.get(member)
        found.update(dict.fromkeys(_leaves(below, devices) if below and below.members else (member,)))
    return tuple(found)


def _uses(device: BlockDevice, devices: Mapping[str, BlockDevice], disks: Mapping[str, LabDisk]) -> Iterable[str]:
    places = [place for place in device.mounted_on if not place.startswith(f"{MOUNT_FOLDER}/")]
    if places:
        yield f"it is mounted on {', '.join(places)}"
    if device.partitions:
        yield f"it has partitions: {', '.join(device.partitions)}"
    if device.is_swap:
        yield "it is used as swap"
    if device.is_read_only:
        yield "it is read-only"
    for holder in device.holders:
        holding = devices.get(holder)
        if holding is None or _reasons_against_array(holding, disks, devices):
            yield f"it is in use by {holder}"


class Guard:
    """Checks every step of a plan before it runs.

    Args:
        machine: where the devices are.
        disks: the lab's disks; replaced as a whole when disks are attached or detached.
        never_written: nodes of disks that nobody has written on since they were made, so that nothing is on them.
    """

    def __init__(self, machine: Machine, disks: Iterable[LabDisk], never_written: Iterable[str] = ()) -> None:
        self._machine = machine
        self._disks = {disk.kernel_name: disk for disk in disks}
        self._never_written = set(never_written)

    def set_disks(self, disks: Iterable[LabDisk]) -> None:
        """Make these, and no others, the disks that may be written on."""
        self._disks = {disk.kernel_name: disk for disk in disks}

    def check(self, step: Step) -> None:
        """Raises DeviceRefused, naming all devices of the step that are refused, each with its reasons."""
        if not step.writes_devices:
            return
        names = kernel_names(self._machine, step.writes_devices)
        devices = read_devices(self._machine, names.values())
        problems = []
        for node in step.writes_devices:
            device = devices.get(names.get(node, ""))
            # What the step itself is to make is not there yet; the devices that it lies on are named and checked.
            if device is None and node.startswith(("/dev/md", MAPPER)):
                continue
            reasons = ("there is no such device",) if device is None else reasons_against(device, self._disks, devices)
            if reasons:
                problems.append(f"{node}: {'; '.join(reasons)}")
        if problems:
            raise DeviceRefused(
                "the lab does not write on " + " | ".join(problems),
                hint="'raidlab disks' shows the disks that the lab may use, and why it refuses the others",
            )
        self._never_written.difference_update(step.writes_devices)

    def can_hold_data(self, node: str) -> bool:
        """False for a disk that was never written on since it was made: then there is nothing to look for."""
        return node not in self._never_written

    def expect_data(self) -> None:
        """Any disk may hold data from now on: someone worked on the machine past this lab."""
        self._never_written.clear()

    def refusals(self) -> tuple[Refusal, ...]:
        """Every device of the machine that is refused, with its reasons."""
        devices = read_devices(self._machine)
        judged = ((device, reasons_against(device, self._disks, devices)) for device in devices.values())
        return tuple(Refusal(device, reasons) for device, reasons in judged if reasons)

    def check_blank(self, nodes: Iterable[str]) -> None:
        """Raises DeviceRefused for disks in use, or with a signature other than that of a stopped array.

        Disks that were never written on need no look.
        """
        nodes = tuple(filter(self.can_hold_data, nodes))
        if not nodes:
            return
        devices = read_devices(self._machine, [node.removeprefix("/dev/") for node in nodes])
        problems = []
        for node in nodes:
            device = devices.get(node.removeprefix("/dev/"))
            if device and device.holders:
                problems.append(f"{node} is a member of {', '.join(device.holders)}")
            if device and device.mounted_on:
                problems.append(f"{node} is mounted on {', '.join(device.mounted_on)}")
        for node, kinds in self._signatures(nodes).items():
            if kinds:
                problems.append(f"{node} carries {', '.join(kinds)}")
        if problems:
            raise DeviceRefused(
                "; ".join(problems),
                hint="stop its array, choose other disks, or blank it with 'raidlab disks reset NAME'",
            )

    def _signatures(self, nodes: tuple[str, ...]) -> dict[str, list[str]]:
        result = self._machine.run(("wipefs", "--json", *nodes), check=False)
        try:
            listed = decode_json(result.stdout or '{"signatures":[]}', _Signatures).signatures
        except msgspec.MsgspecError:
            listed = None
        # wipefs that could not read a disk prints nothing, which must not pass for "no signatures".
        if listed is None or result.status != 0:
            said = result.stderr.strip() or f"wipefs ended with status {result.status}"
            raise DeviceRefused(
                f"the signatures on {', '.join(nodes)} cannot be read: {said}",
                hint="try 'wipefs' on them, and fix what it says",
            )
        found: dict[str, list[str]] = {}
        for signature in listed:
            if signature.type != _RAID_SIGNATURE:
                found.setdefault(f"/dev/{signature.device}", []).append(signature.type)
        return found


class _Signature(msgspec.Struct, frozen=True):
    device: str
    type: str


class _Signatures(msgspec.Struct, frozen=True):
    """What ``wipefs --json`` prints (wipefs(8))."""

    signatures: list[_Signature]
