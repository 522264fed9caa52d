"""Faults as plans: what to do to break something, what must follow, and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.arrays import create as array_plans
from lab.arrays import members as member_plans
from lab.arrays.names import array_device, is_device_node, kernel_name
from lab.errors import SpecError
from lab.plans import Danger, Plan, Step, write_file_step

CORRUPTION_BLOCK_BYTES = 4096
_SCSI_DISK = re.compile(r"sd[a-z]+")


class FaultKind(StrEnum):
    """Names of the faults."""

    FAIL_MEMBER = "fail-member"
    BREAK_ARRAY = "break-array"
    REMOVE_MEMBER = "remove-member"
    PULL_MEMBER = "pull-member"
    CORRUPT_MEMBER = "corrupt-member"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault on one member."""

    kind: FaultKind
    inject: Plan
    expected_effect: str
    repair: Plan


def fail_member(name: str, member: str, *, has_bitmap: bool = False) -> Fault:
    """The member stops answering, as after a write error: md marks it faulty.

    With a bitmap the repair is a re-add, which copies only what changed; without, a rebuild of the whole member.
    """
    return Fault(
        FaultKind.FAIL_MEMBER,
        member_plans.fail(name, member),
        f"{member} turns faulty; degraded rises by one; reads and writes go on if the level survives the loss.",
        Plan(f"Mend {name}", (*member_plans.remove(name, member).steps, *_return(name, member, has_bitmap).steps)),
    )


def break_array(name: str, member: str, devices: Sequence[str]) -> Fault:
    """One member too many fails; ``devices`` are all members, to start the array from again.

    The disks themselves are whole, so forced assembly brings the array back, degraded where md noticed the loss; the
    members that are still out must be added again. After a real loss nothing would bring it back.
    """
    back = (*array_plans.stop(name).steps, *array_plans.assemble(name, devices, force=True).steps)
    return Fault(
        FaultKind.BREAK_ARRAY,
        member_plans.fail(name, member, breaks_array=True),
        "raid0, raid1 and raid10 turn broken: md keeps the last copy readable and refuses writes; raid4, raid5 and "
        "raid6 lose the member and answer with I/O errors. No rebuild can start.",
        Plan(f"Force {name} together again", back),
    )


def remove_member(name: str, member: str, *, has_bitmap: bool = False) -> Fault:
    """The member fails and is taken out, as when an operator swaps a disk."""
    inject = (*member_plans.fail(name, member).steps, *member_plans.remove(name, member).steps)
    return Fault(
        FaultKind.REMOVE_MEMBER,
        Plan(f"Fail and remove {member} from {name}", inject),
        f"The slot of {member} is empty; degraded rises by one; a spare, if there is one, is rebuilt at once.",
        _return(name, member, has_bitmap),
    )


def pull_member(name: str, member: str) -> Fault:
    """The disk vanishes from the bus, as if its cable were pulled. Only SCSI disks (sdX) can be deleted in this way.

    Raises SpecError for a device of another kind.
    """
    if not is_scsi_disk(member):
        message = f"{member} cannot be pulled: only SCSI disks such as /dev/sdb can"
        raise SpecError(message, hint="fail the member instead")
    pull = replace(vanish_step(member), writes_devices=(array_device(name), member))
    rescan = rescan_step()
    detached = Step(
        ("mdadm", "--manage", array_device(name), "--remove", "detached"),
        "md lets go of members whose disk is gone.",
        writes_devices=(array_device(name),),
    )
    return Fault(
        FaultKind.PULL_MEMBER,
        Plan(f"Pull {member}", (pull,)),
        f"{member} is gone from /dev; md notices with the next I/O or at once, and degraded rises by one.",
        Plan(f"Plug {member} in again", (detached, rescan, *member_plans.add(name, member).steps)),
    )


def is_scsi_disk(node: str) -> bool:
    """Whether the kernel can delete this disk while it is in use."""
    return bool(_SCSI_DISK.fullmatch(kernel_name(node)))


def vanish_step(node: str) -> Step:
    """Have the kernel drop a SCSI disk."""
    why = "The kernel drops the disk, as if it had been unplugged while in use."
    return replace(write_file_step(f"/sys/block/{kernel_name(node)}/device/delete", "1", why), writes_devices=(node,))


def rescan_step() -> Step:
    """Look for SCSI disks again."""
    # Each SCSI host has a scan file; "- - -" means every channel, target and unit (kernel: scsi_mid_low_api).
    return Step(
        ("sh", "-c", 'for scan in /sys/class/scsi_host/host*/scan; do echo "- - -" > "$scan"; done'),
        "Every SCSI host looks for disks again; the disk may come back under another name.",
    )


def corrupt_member(
    name: str, member: str, *, data_offset_bytes: int, data_bytes: int, start_bytes: int, length_bytes: int
) -> Fault:
    """Random bytes over a region of the member's data, behind md's back.

    ``start_bytes`` counts from the start of the member's data, which lies ``data_offset_bytes`` into the device and is
    ``data_bytes`` long, so superblock and bitmap stay whole. Raises SpecError for a region that is not inside it, in
    4 KiB blocks.
    """
    _require_region(member, data_offset_bytes, data_bytes, start_bytes, length_bytes)
    block = CORRUPTION_BLOCK_BYTES
    inject = Step(
        argv=(
            "dd",
            "if=/dev/urandom",
            f"of={member}",
            f"bs={block}",
            f"seek={(data_offset_bytes + start_bytes) // block}",
            f"count={length_bytes // block}",
            "oflag=direct",
            "conv=notrunc,fsync",
            "status=none",
        ),
        why="WARNING: this overwrites data behind md's back; on a level without redundancy that data is lost.",
        danger=Danger.DATA,
        writes_devices=(member,),
    )
    repair = (*remove_member(name, member).inject.steps, *_return(name, member, False).steps)
    return Fault(
        FaultKind.CORRUPT_MEMBER,
        Plan(f"Corrupt {length_bytes} bytes of {member}", (inject,)),
        "No error, no degraded array: reads that meet the region return wrong data. A check counts mismatches; a "
        "repair only makes parity or mirrors agree, and may spread the wrong data. A rebuild of this member brings the "
        "right data back.",
        Plan(f"Rebuild {member} from the others", repair),
    )


def _return(name: str, member: str, has_bitmap: bool) -> Plan:
    return member_plans.re_add(name, member) if has_bitmap else member_plans.add(name, member, erase_first=True)


def _require_region(member: str, data_offset_bytes: int, data_bytes: int, start_bytes: int, length_bytes: int) -> None:
    problems = []
    if not is_device_node(member):
        problems.append(f"'{member}' is not a device node")
    if data_offset_bytes <= 0:
        problems.append("the data offset must be above 0: before the data lies the superblock")
    if start_bytes < 0 or length_bytes <= 0 or start_bytes + length_bytes > data_bytes:
        end_bytes = start_bytes + length_bytes
        problems.append(f"bytes {start_bytes} to {end_bytes} are not inside its {data_bytes} bytes of data")
    if any(value % CORRUPTION_BLOCK_BYTES for value in (data_offset_bytes, start_bytes, length_bytes)):
        problems.append(f"offsets and length must be multiples of {CORRUPTION_BLOCK_BYTES} bytes")
    if problems:
        message = f"{member} cannot be corrupted there: {'; '.join(problems)}"
        raise SpecError(message, hint="choose a region of the data")
