"""The guard alone decides whether the lab may write to a device. It refuses unknown devices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from lab.disks.inventory import (
    ARRAY_METADATA,
    FIRST_BYTES,
    MAPPER,
    BlockDevice,
    kernel_names,
    read_devices,
    read_ends,
    signatures_in,
)
from lab.disks.kinds import DiskKind, LabDisk
from lab.errors import DeviceRefused, ToolMissing
from lab.gates.decoding import decode_json
from lab.machine import RUN_FOLDER, Machine
from lab.plans import Step

MOUNT_FOLDER = f"{RUN_FOLDER}/mnt"
_CHOOSE_OTHERS = "choose different disks ('raidlab disks' shows what uses each), or first stop what uses them"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A device to which the lab does not write, and the reasons."""

    device: BlockDevice
    reasons: tuple[str, ...]


def reasons_against(
    device: BlockDevice,
    disks: Mapping[str, LabDisk],
    devices: Mapping[str, BlockDevice],
    *,
    ignores_partitions: bool = False,
) -> tuple[str, ...]:
    """Return the reasons why the lab may not write to ``device``, or none if it may.

    ``disks`` are the lab's disks, and ``devices`` are all devices of the machine, both by kernel name. With
    ``ignores_partitions``, partitions are allowed if they are unused (see ``Step``).
    """
    if device.members:
        return _reasons_against_array(device, disks, devices)
    disk = disks.get(device.name)
    found = [*_uses(device, devices, disks, ignores_partitions)]
    above = next((each.name for each in disks.values() if each.backing == device.node), None)
    if above:
        found.insert(0, f"it backs the spindle {above}")
    elif disk is None:
        found.insert(0, "it is not a lab disk")
    elif device.size_bytes != disk.size_bytes:
        found.insert(0, f"it has {device.size_bytes} bytes, but the lab's {disk.name} has {disk.size_bytes}")
    elif disk.kind is DiskKind.PHYSICAL and device.serial != disk.serial:
        # When real disks are plugged in again, they may swap their nodes.
        found.insert(0, f"it has the serial '{device.serial}', but the lab's {disk.name} has '{disk.serial}'")
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
    """Return the kernel names at the bottom of this device's stack. These include devices missing from ``devices``."""
    found: dict[str, None] = {}
    for member in device.members:
        below = devices.get(member)
        found.update(dict.fromkeys(_leaves(below, devices) if below and below.members else (member,)))
    return tuple(found)


def _uses(
    device: BlockDevice, devices: Mapping[str, BlockDevice], disks: Mapping[str, LabDisk], ignores_partitions: bool
) -> Iterable[str]:
    places = [place for place in device.mounted_on if not place.startswith(f"{MOUNT_FOLDER}/")]
    if places:
        yield f"it is mounted on {', '.join(places)}"
    # On a member of a running array with metadata at the end, partitions are part of the array's data.
    if device.partitions and not device.holders and not ignores_partitions:
        yield f"it has partitions: {', '.join(device.partitions)}"
    elif device.partition_users:
        yield f"its partitions are used by {', '.join(device.partition_users)}"
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

    ``disks`` is replaced as a whole when disks are attached or detached. ``never_written`` contains the nodes of disks
    that have not been written to since their creation, and are therefore blank.
    """

    def __init__(self, machine: Machine, disks: Iterable[LabDisk], never_written: Iterable[str] = ()) -> None:
        self._machine = machine
        self._disks = {disk.kernel_name: disk for disk in disks}
        self._never_written = set(never_written)

    def set_disks(self, disks: Iterable[LabDisk]) -> None:
        self._disks = {disk.kernel_name: disk for disk in disks}

    def check(self, step: Step) -> None:
        """Raise DeviceRefused if a device of the step is refused. The error names all refused devices and says why."""
        if not step.writes_devices:
            return
        names = kernel_names(self._machine, step.writes_devices)
        devices = read_devices(self._machine, names.values())
        problems = []
        for node in step.writes_devices:
            device = devices.get(names.get(node, ""))
            # The array or mapping that the step creates does not exist yet, but the devices below it are checked.
            if device is None and node.startswith(("/dev/md", MAPPER)):
                continue
            reasons = (
                reasons_against(device, self._disks, devices, ignores_partitions=step.ignores_partitions)
                if device
                else ("there is no such device",)
            )
            if reasons:
                problems.append(f"{node}: {'; '.join(reasons)}")
        if problems:
            raise DeviceRefused(
                "the lab does not write to " + " | ".join(problems),
                hint="'raidlab disks' shows the disks that the lab may use, and why it refuses the others",
            )
        self._never_written.difference_update(step.writes_devices)

    def can_hold_data(self, node: str) -> bool:
        """Whether the disk may hold data. A disk that was never written to need not be searched for data."""
        return node not in self._never_written

    def expect_data(self) -> None:
        """Assume from now on that any disk may hold data, because the machine was used without this lab's knowledge."""
        self._never_written.clear()

    def refusals(self) -> tuple[Refusal, ...]:
        devices = read_devices(self._machine)
        judged = ((device, reasons_against(device, self._disks, devices)) for device in devices.values())
        return tuple(Refusal(device, reasons) for device, reasons in judged if reasons)

    def check_blank(self, nodes: Iterable[str], *, members: Collection[str] = ()) -> None:
        """Raise DeviceRefused if disks are in use or carry any signature (see ``carried``).

        Disks that were never written to are not examined. On ``members``, the metadata of an array is allowed.
        """
        nodes = tuple(filter(self.can_hold_data, nodes))
        if not nodes:
            return
        in_use = self._in_use(nodes)
        carried = {
            node: unexpected
            for node, types in self.carried([node for node in nodes if node not in in_use]).items()
            if (unexpected := [each for each in types if each not in ARRAY_METADATA or node not in members])
        }
        if not in_use and not carried:
            return
        # 'disks reset' refuses disks that are in use, so it is suggested only for disks that are not.
        own = [disk.name for disk in self._disks.values() if disk.node in carried]
        reset = f"blank {' '.join(own)} with 'raidlab disks reset {' '.join(own)}'"
        hint = f"choose other disks, or {reset}" if own and not in_use else _CHOOSE_OTHERS
        shown = self._shown
        contents = [
            *in_use.values(),
            *(f"{shown.get(node, node)} carries {', '.join(types)}" for node, types in carried.items()),
        ]
        raise DeviceRefused("; ".join(contents), hint=hint)

    def check_unused(self, nodes: Iterable[str], *, hint: str = _CHOOSE_OTHERS) -> None:
        """Raise DeviceRefused if disks are in use, regardless of their content."""
        if in_use := self._in_use(tuple(nodes)):
            raise DeviceRefused("; ".join(in_use.values()), hint=hint)

    @property
    def _shown(self) -> dict[str, str]:
        """Maps the node of each of the lab's disks to its full name."""
        return {disk.node: disk.full_name for disk in self._disks.values()}

    def _in_use(self, nodes: tuple[str, ...]) -> dict[str, str]:
        """Map each node that is in use to a description of its users."""
        names = kernel_names(self._machine, nodes)
        devices = read_devices(self._machine, names.values())
        found = {node: device for node, name in names.items() if (device := devices.get(name))}
        shown = self._shown
        described = {node: "; ".join(_users(shown.get(node, node), device)) for node, device in found.items()}
        return {node: users for node, users in described.items() if users}

    def carried(self, nodes: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Map each node that carries signatures to their types, as found by wipefs or by the lab itself.

        Raises DeviceRefused if a disk cannot be examined. wipefs knows more types than the lab, but does not find the
        backup GPT of a disk whose primary GPT is gone.
        """
        if not nodes:
            return {}
        ends = read_ends(self._machine, nodes, FIRST_BYTES)
        found = self._found_by_wipefs(tuple(nodes))
        types = {node: {*found.get(node, ()), *signatures_in(ends[node])} for node in nodes}
        # The protective MBR is part of a GPT.
        return {
            node: tuple(sorted(each - ({"PMBR"} if "gpt" in each else set()))) for node, each in types.items() if each
        }

    def _found_by_wipefs(self, nodes: tuple[str, ...]) -> dict[str, list[str]]:
        try:
            result = self._machine.run(("wipefs", "--json", *nodes), check=False)
        except ToolMissing:
            return {}
        try:
            listed = decode_json(result.stdout or '{"signatures":[]}', _Signatures).signatures
        except msgspec.MsgspecError:
            listed = None
        # If wipefs cannot read a disk, it prints nothing. This must not count as "no signatures".
        if listed is None or result.status != 0:
            message = result.stderr.strip() or f"wipefs exited with status {result.status}"
            raise DeviceRefused(
                f"the signatures on {', '.join(nodes)} cannot be read: {message}",
                hint="run 'wipefs' on them, and fix what it reports",
            )
        found: dict[str, list[str]] = {}
        for signature in listed:
            found.setdefault(f"/dev/{signature.device}", []).append(signature.type)
        return found


def _users(shown: str, device: BlockDevice) -> Iterable[str]:
    if device.holders:
        yield f"{shown} is a member of {', '.join(device.holders)}"
    if device.mounted_on:
        yield f"{shown} is mounted on {', '.join(device.mounted_on)}"
    if device.is_swap:
        yield f"{shown} is used as swap"
    if device.partition_users:
        yield f"the partitions of {shown} are used by {', '.join(device.partition_users)}"


class _Signature(msgspec.Struct, frozen=True):
    device: str
    type: str


class _Signatures(msgspec.Struct, frozen=True):
    """The output of ``wipefs --json`` (wipefs(8))."""

    signatures: list[_Signature]
