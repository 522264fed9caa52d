"""Finds the volumes on the lab's disks by their labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice

from lab.adapt import operations, tables
from lab.adapt.label import LABEL_AREA_BYTES, Label, VolumeStage, copies_in, newest
from lab.adapt.names import inner_names
from lab.adapt.stack import Stack, read_stack
from lab.arrays.discovery import FoundArray
from lab.errors import ArrayError
from lab.machine.api import Machine
from lab.plans import Plan


@dataclass(frozen=True, slots=True)
class FoundVolume(FoundArray):
    """A volume on the disks: its newest label, and the nodes of its disks by number."""

    label: Label | None = None
    nodes: tuple[tuple[int, str], ...] = ()
    former_nodes: tuple[tuple[int, str], ...] = ()
    """Number and node of failed disks that have not been replaced; they are attached but not used."""

    @property
    def description(self) -> Label:
        """The label, which every volume found on disks has."""
        assert self.label is not None
        return self.label

    @property
    def nodes_by_disk(self) -> dict[int, str]:
        return dict(self.nodes)

    def start_plan(self, machine: Machine) -> Plan:
        taken = machine.list_dirs(["/sys/block"])["/sys/block"]
        return operations.assemble(self.description, self.nodes_by_disk, windows_named(self.description, taken))

    def clear_away(self, machine: Machine) -> None:
        for step in self.stop_plan(read_stack(machine)).steps:
            machine.run(step.argv, check=False)

    def stop_plan(self, stack: Stack) -> Plan:
        """The plan that stops the parts of the volume that ``stack`` contains."""
        cut = stack.disks_cut(self.name)
        whole = operations.stop(self.description, cut, stack.arrays.get(self.name, {}))
        steps = whole.steps if self.name in stack.volumes else whole.steps[1:]
        return Plan(whole.title, steps if cut else steps[:-1])


def windows_named(label: Label, taken: Collection[str]) -> dict[int, str]:
    """Window -> free md name, for a volume that is to be started."""
    windows = tables.layout_of(label).composition.windows
    names = list(islice(inner_names(taken), len(windows)))
    return {window.number: name for window, name in zip(windows, names, strict=True)}


def labels_in(heads: Mapping[str, bytes]) -> dict[str, Label]:
    """Node -> newest label, for disks with a label in the first ``LABEL_AREA_BYTES``."""
    found = {node: newest(copies_in(head[:LABEL_AREA_BYTES])) for node, head in heads.items()}
    return {node: label for node, label in found.items() if label}


def volumes_in(labels: Mapping[str, Label]) -> tuple[FoundVolume, ...]:
    """The volumes that the labels describe. Of several with one name, only that with the lowest UUID can be started."""
    by_volume: dict[str, dict[str, Label]] = {}
    for node, label in labels.items():
        by_volume.setdefault(label.uuid, {})[node] = label
    found: list[FoundVolume] = []
    for uuid in sorted(by_volume):
        volume = _volume(by_volume[uuid])
        if not volume.refusal and any(other.name == volume.name and not other.refusal for other in found):
            volume = _volume(by_volume[uuid], f"another volume has the name {volume.name}")
        found.append(volume)
    return tuple(sorted(found, key=lambda volume: (len(volume.name), volume.name, volume.refusal)))


def _volume(labels: Mapping[str, Label], refusal: str = "") -> FoundVolume:
    label = max(labels.values(), key=lambda each: each.sequence)
    present: dict[int, str] = {}
    former = []
    failed: dict[int, str] = {}
    for node, own in sorted(labels.items()):
        disk = label.disk_of(own.own_uuid)
        if disk is None or label.disks[disk].is_failed or disk in present:
            former.append(node)
            if disk is not None and label.disks[disk].is_failed:
                failed[disk] = node
        else:
            present[disk] = node
    return FoundVolume(
        name=label.name,
        uuid=label.uuid,
        level=label.rule.value,
        slot_count=len(label.disks),
        working_slots=tuple(sorted(present)),
        devices=tuple(present[disk] for disk in sorted(present)),
        former_devices=tuple(former),
        updated_seconds=0,
        refusal=refusal or _refusal(label, present),
        label=label,
        nodes=tuple(sorted(present.items())),
        former_nodes=tuple(sorted(failed.items())),
    )


def _refusal(label: Label, present: Mapping[int, str]) -> str:
    if label.stage is not VolumeStage.READY:
        return "its creation was interrupted; there are no data on it yet"
    try:
        composition = tables.layout_of(label).composition
    except ArrayError as error:
        return error.message
    missing = frozenset(range(len(label.disks))) - frozenset(present)
    lost = composition.lost_windows(missing)
    if lost:
        gone = ", ".join(str(disk) for disk in sorted(missing))
        arrays = f"{len(lost)} of its {len(composition.windows)} arrays"
        return f"disks {gone} are missing or failed, more than {arrays} survive"
    return ""
