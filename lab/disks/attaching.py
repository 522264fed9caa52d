"""Plans that bring lab disks into being on a machine and take them away again. Pure: nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.disks import kernel_drives
from lab.disks.drive_models import TRANSPORT_MILLISECONDS, DriveModel, Mechanics, find_drive_model
from lab.disks.kinds import DiskKind, DiskSpec, LabDisk
from lab.errors import SpecError
from lab.machine import RUN_FOLDER
from lab.plans import Danger, Plan, Step, write_file_step
from lab.units import KIB

LOOP_FOLDER = "/var/lib/raidlab/disks"
LOOP_FOLDER_EMBEDDED = f"{RUN_FOLDER}/disks"
DRIVE_PLUGIN = "/var/lib/raidlab/drive.so"
"""Where the lab puts the plugin of drives with mechanics when a step first calls it; not in /run, which is noexec."""
DRIVE_PLUGIN_EMBEDDED = f"{RUN_FOLDER}/drive.so"
MAX_NUMBERED = 64
"""How many loop and nbd devices the drivers are asked to offer."""


PACE_PROGRAM = f"{RUN_FOLDER}/pace-disk"
"""Where the lab puts pace_program.py on the machine when a step first calls it."""


def pid_file(disk_name: str) -> str:
    """Holds the number of a spindle's server."""
    return f"{RUN_FOLDER}/{disk_name}.pid"


def pause_socket(disk_name: str) -> str:
    """The control socket of a spindle's pause filter (nbdkit-pause-filter(1))."""
    return f"{RUN_FOLDER}/{disk_name}.pause"


def pace_note(disk_name: str) -> str:
    """Holds a process and the drive model at whose pace a spindle runs; not there at its own pace."""
    return f"{RUN_FOLDER}/{disk_name}.pace"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A disk that is to be attached, the steps to it, and the steps back."""

    disk: LabDisk
    attach: Plan
    detach: Plan


def loop_attachment(spec: DiskSpec, number: int, *, folder: str, direct: bool) -> Attachment:
    """A loop device over a sparse file in ``folder``."""
    file, node = f"{folder}/{spec.name}.img", f"/dev/loop{number}"
    option = ("--direct-io=on",) if direct else ()
    attach = Plan(
        f"Attach {spec.name}",
        (
            Step(("mkdir", "-p", folder), "The folder for disk images."),
            Step(
                ("truncate", "--size", str(spec.size_bytes), file), "A sparse file of exactly this size.", ("rm", file)
            ),
            Step(
                ("losetup", *option, node, file),
                "The file becomes a block device; with direct I/O it is not cached a second time.",
                ("losetup", "--detach", node),
            ),
        ),
    )
    detach = Plan(
        f"Detach {spec.name}",
        (
            Step(("losetup", "--detach", node), "The loop device lets go of its file."),
            Step(("rm", "-f", file), "The image is removed.", danger=Danger.DATA),
        ),
    )
    disk = LabDisk(name=spec.name, kind=spec.kind, node=node, size_bytes=spec.size_bytes, backing=file)
    return Attachment(disk, attach, detach)


def spindle_attachment(
    spec: DiskSpec,
    number: int,
    *,
    drive_plugin: str = DRIVE_PLUGIN,
) -> Attachment:
    """An emulated drive: nbdkit waits before each answer, and the kernel's nbd client makes a block device of it.

    The pause filter costs nothing until it is used: it lets a drive be slowed down later.
    Sources: nbdkit(1), nbdkit-pause-filter(1), nbd-client(8).
    """
    model = find_drive_model(spec.model)
    socket, node = f"{RUN_FOLDER}/{spec.name}.sock", f"/dev/nbd{number}"
    if model.mechanics:
        transport = f"transport={TRANSPORT_MILLISECONDS:g}"
        drive = _mechanical_drive(spec, model.mechanics, drive_plugin, transport)
    else:
        drive = _constant_drive(spec, model)
    control = f"pause-control={pause_socket(spec.name)}"
    server = ("nbdkit", "--unix", socket, "--pidfile", pid_file(spec.name), *drive, control)
    attach = Plan(
        f"Attach {spec.name}",
        (
            Step(
                server,
                f"A server that answers like a {spec.model}: {model.title}.",
                ("pkill", "-F", pid_file(spec.name)),
                writes_devices=(spec.backing,) if spec.backing else (),
            ),
            _connect(spec.name, node),
            _rotation_step(node, is_rotational=model.is_rotational),
        ),
    )
    disk = LabDisk(
        name=spec.name,
        kind=spec.kind,
        node=node,
        size_bytes=spec.size_bytes,
        model=spec.model,
        backing=spec.backing or "memory",
    )
    return Attachment(disk, attach, _spindle_detachment(spec.name, node))


def kernel_drive_attachment(spec: DiskSpec, number: int) -> Attachment:
    """An emulated drive inside the embedded kernel, where time is virtual."""
    node = f"{kernel_drives.NODE}{number}"
    rotation = _rotation_step(node, is_rotational=find_drive_model(spec.model).is_rotational)
    attach = Plan(f"Attach {spec.name}", (kernel_drives.add_step(spec, number), rotation))
    disk = LabDisk(
        name=spec.name, kind=spec.kind, node=node, size_bytes=spec.size_bytes, model=spec.model, backing="memory"
    )
    return Attachment(disk, attach, kernel_drives.detachment(spec.name, node))


def _spindle_detachment(name: str, node: str) -> Plan:
    return Plan(
        f"Detach {name}",
        (
            Step(("nbd-client", "-d", node), "The block device lets go of the server."),
            Step(
                ("pkill", "-F", pid_file(name)),
                "The server ends; a spindle in memory forgets its data.",
                danger=Danger.DATA,
            ),
            Step(
                ("rm", "-f", f"{RUN_FOLDER}/{name}.sock", pid_file(name), pause_socket(name)), "Nothing stays behind."
            ),
        ),
    )


def _constant_drive(spec: DiskSpec, model: DriveModel) -> tuple[str, ...]:
    """Sources: nbdkit-delay-filter(1), nbdkit-noparallel-filter(1)."""
    delay = f"{model.delay_milliseconds}ms"
    is_single = model.concurrent_requests == 1
    filters = ("--filter=noparallel",) if is_single else ()
    threads = () if is_single else ("--threads", str(model.concurrent_requests))
    # The disk below may be larger than the drive is to be.
    cut = ("--filter=truncate",) if spec.backing else ()
    plugin = ("file", spec.backing, f"truncate={spec.size_bytes}") if spec.backing else ("memory", str(spec.size_bytes))
    serialize = ("serialize=all-requests",) if is_single else ()
    return (
        *(*threads, "--filter=pause", *filters, "--filter=delay", *cut, *plugin),
        *(f"rdelay={delay}", f"wdelay={delay}", *serialize),
    )


def _mechanical_drive(spec: DiskSpec, mechanics: Mechanics, plugin: str, transport: str) -> tuple[str, ...]:
    """Each request that the drive has, or that its cache will answer, waits on a thread of nbdkit's."""
    threads = str(max(16, 2 * mechanics.queue_depth))
    backing = (f"backing={spec.backing}",) if spec.backing else ()
    start = ("--threads", threads, "--filter=pause", plugin, f"size={spec.size_bytes}", *backing)
    return (*start, *mechanics.words, transport)


def _rotation_step(node: str, *, is_rotational: bool) -> Step:
    """The kernel takes every nbd device for solid-state (QUEUE_FLAG_NONROT in drivers/block/nbd.c of Linux 6.1)."""
    flag = f"/sys/block/{node.removeprefix('/dev/')}/queue/rotational"
    how = "md reads from the copy with the nearest head" if is_rotational else "md reads from the copy with least to do"
    word = "rotates" if is_rotational else "does not rotate"
    return write_file_step(flag, str(int(is_rotational)), f"The kernel learns that the drive {word}: {how}.")


def _connect(name: str, node: str) -> Step:
    return Step(
        ("nbd-client", "-unix", f"{RUN_FOLDER}/{name}.sock", node, "-b", "512"),
        "The kernel makes a block device of the server.",
        ("nbd-client", "-d", node),
    )


def connect_steps(disk: LabDisk) -> tuple[Step, ...]:
    """Connect a spindle's server, which kept running, with its device again."""
    if kernel_drives.is_kernel_drive(disk):
        return (kernel_drives.plug_step(disk),)
    is_rotational = find_drive_model(disk.model).is_rotational
    return _connect(disk.name, disk.node), _rotation_step(disk.node, is_rotational=is_rotational)


def disconnect_step(disk: LabDisk, why: str) -> Step:
    """Take the connection away while the device is in use; the server keeps the data."""
    if kernel_drives.is_kernel_drive(disk):
        return kernel_drives.pull_step(disk, why)
    return Step(("nbd-client", "-d", disk.node), why, _connect(disk.name, disk.node).argv, writes_devices=(disk.node,))


def ram_attachments(wanted: Sequence[DiskSpec]) -> tuple[tuple[LabDisk, ...], Plan]:
    """All ram disks of a lab and the one plan that makes them, since brd gives all its disks one size.

    Raises SpecError for unequal sizes.
    """
    sizes = {spec.size_bytes for spec in wanted}
    if len(sizes) > 1:
        raise SpecError("ram disks of different sizes are not possible", hint="make them equal, or use loop disks")
    disks = tuple(
        LabDisk(name=spec.name, kind=spec.kind, node=f"/dev/ram{number}", size_bytes=spec.size_bytes)
        for number, spec in enumerate(wanted)
    )
    size_kib = sizes.pop() // KIB
    step = Step(
        ("modprobe", "brd", f"rd_nr={len(disks)}", f"rd_size={size_kib}"),
        "The brd driver makes block devices of kernel memory.",
        ("modprobe", "-r", "brd"),
    )
    return disks, Plan("Make ram disks", (step,))


def detach_plan(disk: LabDisk) -> Plan:
    """Take away one disk that an earlier command attached; no steps for kinds that are not detached one by one."""
    if disk.kind is DiskKind.LOOP:
        spec = DiskSpec(name=disk.name, kind=disk.kind, size_bytes=disk.size_bytes)
        folder = disk.backing.rpartition("/")[0]
        return loop_attachment(spec, int(disk.node.removeprefix("/dev/loop")), folder=folder, direct=False).detach
    if kernel_drives.is_kernel_drive(disk):
        return kernel_drives.detachment(disk.name, disk.node)
    if disk.kind is DiskKind.SPINDLE:
        return _spindle_detachment(disk.name, disk.node)
    return Plan(f"Release {disk.name}")


def reset_plan(disk: LabDisk) -> Plan:
    """Make a disk blank at once: what was written is dropped, so a sparse disk is sparse again.

    A physical disk only loses its signatures, since discarding a whole real disk may take hours.
    """
    why = "The whole disk is discarded and reads as zeros."
    if disk.kind is DiskKind.PHYSICAL:
        argv: tuple[str, ...] = ("wipefs", "--all", disk.node)
        why = "Signatures of arrays and file systems are erased."
    elif disk.kind is DiskKind.RAM:
        argv = ("blkdiscard", "--force", "--zeroout", disk.node)
    else:
        argv = ("blkdiscard", "--force", disk.node)
    return Plan(f"Reset {disk.name}", (Step(argv, why, danger=Danger.DATA, writes_devices=(disk.node,)),))


def require_time_of(kind: DiskKind) -> None:
    """Raises SpecError for disks that answer at once: in virtual time a load on them would never end."""
    if kind in (DiskKind.RAM, DiskKind.LOOP):
        raise SpecError(
            f"{kind} disks take no time, and in virtual time a load on them would never end",
            hint="use spindle disks ('raidlab disks remove NAME' takes others off the lab), or --on 'uml:?time=real'",
        )


def driver_plan(kind: DiskKind, *, has_kernel_drives: bool = False) -> Plan:
    """Load the driver behind a kind of disk, with enough devices."""
    arguments = {
        DiskKind.LOOP: ("loop", f"max_loop={MAX_NUMBERED}"),
        DiskKind.SPINDLE: ("nbd", f"nbds_max={MAX_NUMBERED}"),
    }
    if kind not in arguments or (has_kernel_drives and kind is DiskKind.SPINDLE):
        return Plan("No driver to load")
    return Plan(
        f"Load the driver for {kind} disks", (Step(("modprobe", *arguments[kind]), "The driver makes the devices."),)
    )
