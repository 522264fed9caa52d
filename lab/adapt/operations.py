"""Operations on volumes of unequal disks, as plans or steps that run dmsetup and mdadm, and write labels.

``arrays`` maps windows to md names, and ``nodes`` maps the numbers of disks to their nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from lab.adapt.label import (
    LABEL_BYTES,
    Label,
    VolumeStage,
    copy_offset_bytes,
    encode,
    layout_of,
    new_uuid,
    slice_device,
    slice_name,
    slice_tables,
    slices_on,
    volume_device,
    volume_table,
)
from lab.arrays.levels import array_device, md_path
from lab.arrays.operations import ASSEMBLE_TIMEOUT_SECONDS
from lab.arrays.operations import add as add_member
from lab.arrays.operations import assemble as assemble_array
from lab.arrays.operations import fail as fail_member
from lab.arrays.operations import remove as remove_member
from lab.arrays.operations import scrub as scrub_array
from lab.arrays.operations import stop as stop_array
from lab.arrays.spec import ArraySpec, Bitmap
from lab.plans import Danger, Plan, Step
from lab.units import MIB

SYNC_TIMEOUT_SECONDS = 7 * 24 * 3600.0
CLEAN_AFTER_SECONDS = 5
"""Time without writes after which md marks an inner array clean. md's default is 0.2 s."""

# Standard input has two lines per disk. dd pads the copy of the label with zeros.
_WRITE_LABELS = (
    'at=$1; shift; for disk; do read -r head && read -r body && printf "%s\\n%s\\n" "$head" "$body" | '
    f'dd of="$disk" bs={LABEL_BYTES} count=1 seek="$at" oflag=seek_bytes iflag=fullblock '
    "conv=sync,fsync,notrunc status=none || exit 1; done"
)
# md is idle for a moment before a sync begins, so wait until no member is missing. Stop waiting if the rebuild has been
# interrupted or the array has lost another member.
_WAIT_FOR_REBUILD = (
    'until [ "$(cat "$1/degraded")" = 0 ]; do [ "$(cat "$1/degraded")" = 1 ] && grep -q spare "$1"/dev-*/state || '
    '{ sleep 0.3; [ "$(cat "$1/degraded")" = 0 ] && break; exit 1; }; mdadm --wait "$2" || sleep 0.1; done'
)
_WAIT_FOR_SCRUB = 'while [ "$(cat "$1/sync_action")" = "$3" ]; do mdadm --wait "$2" || sleep 0.1; done'


def create(
    label: Label, nodes: Mapping[int, str], arrays: Mapping[int, str], *, bitmap: Bitmap, assume_clean: bool
) -> Plan:
    """Create the volume that ``label`` describes.

    The label is written first with the stage "creating" and last with the stage "ready". An interrupted creation is
    recognised by the first stage, and the volume is refused.
    """
    ready = replace(label, sequence=label.sequence + 1, stage=VolumeStage.READY)
    steps = (
        _write_labels(
            label, nodes, "Records on each disk which volume it belongs to; it is no longer blank.", Danger.DATA
        ),
        *_cut(label, nodes),
        *(_create_window(label, number, name, bitmap, assume_clean) for number, name in arrays.items()),
        _mark_clean_later(arrays),
        _map_volume(label, arrays),
        _write_labels(ready, nodes, "Records on each disk that all arrays exist."),
    )
    return Plan(f"Create {label.name} as {label.rule}", steps)


def assemble(label: Label, nodes: Mapping[int, str], arrays: Mapping[int, str]) -> Plan:
    """Start a volume from its disks, except for those that have failed."""
    working = {disk: node for disk, node in nodes.items() if not label.disks[disk].is_failed}
    steps = [*_cut(label, working)]
    for number, name in arrays.items():
        window = layout_of(label).composition.windows[number]
        slices = [slice_device(label.name, disk, number) for disk in window.disks if disk in working]
        whole = assemble_array(name, slices).steps[0]
        # With --uuid, mdadm skips slices that have no superblock because their rebuild has not begun.
        argv = (*whole.argv[:2], f"--uuid={label.window_uuid(number)}", *whole.argv[2:])
        steps.append(dataclasses.replace(whole, argv=argv, timeout_seconds=ASSEMBLE_TIMEOUT_SECONDS))
    return Plan(f"Start {label.name} (assemble)", (*steps, _mark_clean_later(arrays), _map_volume(label, arrays)))


def _mark_clean_later(arrays: Mapping[int, str]) -> Step:
    """Raise safe_mode_delay of the arrays (kernel: Documentation/admin-guide/md.rst)."""
    return Step(
        ("tee", *(md_path(name, "safe_mode_delay") for name in arrays.values())),
        "md marks an array clean 0.2 s after a write, and must write all its superblocks before the next write. Each "
        f"array gets only some of the volume's writes, so it waits for {CLEAN_AFTER_SECONDS} s.",
        stdin_text=f"{CLEAN_AFTER_SECONDS}\n",
    )


def stop(label: Label, disks: Iterable[int], arrays: Mapping[int, str]) -> Plan:
    """Stop a volume. This removes its mapping, stops its arrays, and removes the slices of ``disks``."""
    device = volume_device(label.name)
    why = "After this nothing reads or writes the volume, so its arrays can be stopped."
    first = Step(("dmsetup", "remove", label.name), why, writes_devices=(device,))
    stopped = (stop_array(name).steps[0] for name in arrays.values())
    return Plan(f"Stop {label.name}", (first, *stopped, _remove_slices(label, disks)))


def erase(label: Label, nodes: Iterable[str]) -> Iterator[Step]:
    """Erase the labels and the superblocks of all slices of a stopped volume."""
    for node in nodes:
        why = f"Overwrites the label and the superblocks at the beginning of {node}, which then belongs to no volume."
        yield _erased(label, node, why)


def _erased(label: Label, node: str, why: str) -> Step:
    count = f"count={label.reserve_bytes // MIB}"
    argv = ("dd", "if=/dev/zero", f"of={node}", "bs=1M", count, "conv=fsync,notrunc", "status=none")
    return Step(argv, why, danger=Danger.DATA, writes_devices=(node,))


def fail(
    label: Label, nodes: Mapping[int, str], disk: int, arrays: Mapping[int, str], breaking: Iterable[int] = ()
) -> Iterator[Step]:
    """Mark a disk faulty in all of ``arrays``, and mark it failed in the labels of the other disks.

    ``breaking`` lists the windows that lose data without this disk.
    """
    fatal = frozenset(breaking)
    for number, name in arrays.items():
        yield from fail_member(name, slice_device(label.name, disk, number), breaks_array=number in fatal).steps
    others = {number: node for number, node in nodes.items() if number != disk and not label.disks[number].is_failed}
    why = "Records the failure on the other disks, so that the next start leaves the failed disk out of every array."
    yield _write_labels(without(label, disk), others, why)


def without(label: Label, disk: int) -> Label:
    """Return the next label, in which ``disk`` has failed."""
    return _changed(label, disk, replace(label.disks[disk], is_failed=True))


def remove(label: Label, disk: int, arrays: Mapping[int, str]) -> Iterator[Step]:
    """Remove a faulty disk from the windows in ``arrays``, and remove its slices."""
    for number, name in arrays.items():
        yield from remove_member(name, slice_device(label.name, disk, number)).steps
    yield _remove_slices(label, [disk])


def add(label: Label, nodes: Mapping[int, str], disk: int, node: str, arrays: Mapping[int, str]) -> Iterator[Step]:
    """Replace a failed disk with a blank one, and rebuild ``arrays`` onto it one after another.

    By itself, md would rebuild all arrays at the same time, because it does not know that their slices share a disk.
    """
    identity = replace(label.disks[disk], uuid=new_uuid(), is_failed=False)
    changed = _changed(label, disk, identity)
    working = {number: own for number, own in nodes.items() if not label.disks[number].is_failed} | {disk: node}
    yield _erased(label, node, "Erases what an earlier array may have left in the area for labels and superblocks.")
    why = f"Records on every disk that {node} takes the place of the failed one."
    yield _write_labels(changed, working, why)
    yield from _cut(changed, {disk: node})
    yield from rebuild(label, disk, arrays)


def rebuild(label: Label, disk: int, arrays: Mapping[int, str], present: Collection[int] = ()) -> Iterator[Step]:
    """Rebuild these windows on the slices of a disk, one after another.

    The slices in ``present`` are already members of their arrays, and md continues their rebuild by itself.
    """
    for number, name in arrays.items():
        if number not in present:
            yield from add_member(name, slice_device(label.name, disk, number)).steps
        yield Step(
            ("sh", "-c", _WAIT_FOR_REBUILD, "wait", md_path(name), array_device(name)),
            "The arrays share this disk, so the next rebuild begins when this one is complete.",
            timeout_seconds=SYNC_TIMEOUT_SECONDS,
            only_waits=True,
        )


def scrub(arrays: Mapping[int, str], action: str) -> Iterator[Step]:
    """Check or repair all arrays one after another, because they share disks, or stop a running scrub."""
    for name in arrays.values():
        yield from scrub_array(name, action).steps
        if action != "stop":
            argv = ("sh", "-c", _WAIT_FOR_SCRUB, "wait", md_path(name), array_device(name), action)
            why = "The arrays share disks, so the next one is read when this one is done."
            yield Step(argv, why, timeout_seconds=SYNC_TIMEOUT_SECONDS, only_waits=True)


def _changed(label: Label, disk: int, identity: object) -> Label:
    disks = tuple(identity if number == disk else own for number, own in enumerate(label.disks))
    return replace(label, disks=disks, sequence=label.sequence + 1)


def _write_labels(label: Label, nodes: Mapping[int, str], why: str, danger: Danger = Danger.NONE) -> Step:
    copies = "".join(encode(replace(label, own_uuid=label.disks[disk].uuid)) for disk in nodes)
    argv = ("sh", "-c", _WRITE_LABELS, "write-labels", str(copy_offset_bytes(label.sequence)), *nodes.values())
    return Step(argv, why, (), danger, tuple(nodes.values()), stdin_text=copies)


def _cut(label: Label, nodes: Mapping[int, str]) -> Iterator[Step]:
    yield Step(("modprobe", "dm-mod"), "The device mapper builds devices from pieces of others.")
    for made in slice_tables(label, nodes):
        yield Step(
            # Without udev, dmsetup itself creates the nodes in /dev/mapper.
            ("dmsetup", "--verifyudev", "create", *made.arguments),
            "Cuts disks into slices, one for each array that a disk is in. Pieces used together are placed together.",
            ("dmsetup", "remove", *made.names),
            writes_devices=tuple(nodes.values()),
            stdin_text=made.text,
        )


def _remove_slices(label: Label, disks: Iterable[int]) -> Step:
    slices = [slice_name(label.name, disk, window) for disk in disks for window in slices_on(label, disk)]
    return Step(("dmsetup", "remove", *slices), "Removes the slices. What was written to them stays on the disks.")


def _create_window(label: Label, number: int, name: str, bitmap: Bitmap, assume_clean: bool) -> Step:
    window = layout_of(label).composition.windows[number]
    slices = tuple(slice_device(label.name, disk, number) for disk in window.disks)
    array = ArraySpec(
        "raid5",
        slices,
        name,
        chunk_bytes=label.chunk_bytes,
        bitmap=bitmap,
        assume_clean=assume_clean,
        size_bytes=window.lines * label.chunk_bytes,
        data_offset_bytes=label.slice_header_bytes,
        uuid=label.window_uuid(number),
    )
    first = "the disks are blank, so the parity is correct" if assume_clean else "md first computes the parity"
    why = f"A RAID 5 over {len(slices)} slices, with {window.width} data blocks in each stripe; {first}."
    return Step(array.create_argv, why, ("mdadm", "--stop", array.device), Danger.DATA, slices)


def _map_volume(label: Label, arrays: Mapping[int, str]) -> Step:
    return Step(
        ("dmsetup", "--verifyudev", "create", label.name, "--uuid", f"raidlab-{label.uuid}"),
        "One device over all arrays, in the order that keeps every aligned full stripe whole.",
        ("dmsetup", "remove", label.name),
        writes_devices=tuple(array_device(name) for name in arrays.values()),
        stdin_text=volume_table(label, arrays),
    )
