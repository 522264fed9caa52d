"""Plans that create lab disks on a machine and remove them again. This module changes nothing itself.

The spindles of a virtual machine are backed by its lab disks, because they would not fit in memory, and would lose
their data there. In virtual time, the embedded kernel's spindles are provided by the lab's own driver
(provision/kernel/driver/lab_drive_kern.c, which documents its commands). On a stock kernel, a program on the machine
takes the driver's place (lab/disks/served_drives.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from lab.disks import pace_program
from lab.disks.guard import Guard
from lab.disks.inventory import read_devices
from lab.disks.kinds import TRANSPORT_MILLISECONDS, DiskKind, DiskSpec, DriveModel, LabDisk, Mechanics, find_drive_model
from lab.errors import LabError, SpecError
from lab.gates.decoding import MOST_DISKS
from lab.machine import RUN_FOLDER, GuestProgram, Machine
from lab.plans import Danger, Plan, Step, write_file_step
from lab.units import KIB, MIB

DRIVES_CONTROL = "/dev/lab-drives"
KERNEL_DRIVE_NODE = "/dev/drive"
SERVED_NODE = "/dev/nbd"
SERVED_BACKING = "drive server"
_CLASSES = {"/sys/class/misc": KERNEL_DRIVE_NODE, "/sys/class/cuse": SERVED_NODE}


def node_prefix(machine: Machine) -> str:
    """Return the prefix of the nodes of the lab's own drives, or "" if the machine has no driver for them."""
    if machine.facts.is_virtual_time:
        return KERNEL_DRIVE_NODE
    found = machine.list_dirs(list(_CLASSES)) if machine.facts.is_embedded else {}
    return next((prefix for folder, prefix in _CLASSES.items() if "lab-drives" in found.get(folder, ())), "")


def is_kernel_drive(disk: LabDisk) -> bool:
    """Whether a spindle is one of the lab's own drives."""
    return disk.node.startswith(KERNEL_DRIVE_NODE) or disk.backing == SERVED_BACKING


def kernel_pace_step(disk: LabDisk, seconds: float, why: str) -> Step:
    """Return a step after which the drive takes ``seconds`` for each request. 0 restores its own pace."""
    number = _number(disk.node)
    return _line(("pace", number, str(round(seconds * 1e9))), why, undo=f"pace {number} 0")


def kernel_power_step(disk: LabDisk, why: str) -> Step:
    """Return a step that interrupts the drive's power for an instant, which loses the data in its write cache."""
    return _line(("power", _number(disk.node)), why, danger=Danger.DATA, writes=disk.node)


def content_sums(machine: Machine, disks: Iterable[LabDisk]) -> dict[str, str]:
    """Map the name of each disk to the checksum of its contents.

    Only drivers in virtual time report checksums. Computing one takes no virtual time, but it takes one second of this
    computer's time for each 300 MiB of data.
    """
    found = {}
    for disk in disks if machine.facts.is_virtual_time else ():
        path = f"/sys/block/{disk.kernel_name}/content_sum"
        found[disk.name] = (machine.read([path])[path] or "").strip()
    return {name: text for name, text in found.items() if text}


def _number(node: str) -> str:
    return node.removeprefix(KERNEL_DRIVE_NODE).removeprefix(SERVED_NODE)


def _line(words: tuple[str, ...], why: str, *, undo: str = "", danger: Danger = Danger.NONE, writes: str = "") -> Step:
    step = write_file_step(DRIVES_CONTROL, " ".join(words), why)
    back = write_file_step(DRIVES_CONTROL, undo, "").argv if undo else ()
    return Step(step.argv, why, back, danger, (writes,) if writes else ())


def with_backing(machine: Machine, disks: Sequence[LabDisk], specs: Sequence[DiskSpec]) -> list[DiskSpec]:
    """Back each spindle that has no backing with a free virtio disk, the last disk first. Return all specs.

    Raises LabError if there are too few disks.
    """
    virtio = [disk for disk in disks if disk.kind is DiskKind.VIRTIO]
    if not virtio or not any(needs_backing(spec) for spec in specs):
        return list(specs)
    free = free_disks(machine, reversed(virtio))
    return [replace(spec, backing=take(free, spec).node) if needs_backing(spec) else spec for spec in specs]


def needs_backing(spec: DiskSpec) -> bool:
    """Whether the spec is a spindle without a backing."""
    return spec.kind is DiskKind.SPINDLE and not spec.backing


def free_disks(machine: Machine, disks: Iterable[LabDisk]) -> list[LabDisk]:
    """Return the disks that neither an array nor a mount uses, and that carry no signatures.

    Therefore a member of a stopped array is not free, and neither is a disk with a file system that is not mounted.
    """
    devices = read_devices(machine)
    found = [(disk, devices.get(disk.kernel_name)) for disk in disks]
    free = [disk for disk, device in found if device and not device.holders and not device.mounted_on]
    carrying = Guard(machine, free).carried([disk.node for disk in free])
    return [disk for disk in free if disk.node not in carrying]


def take(free: list[LabDisk], spec: DiskSpec) -> LabDisk:
    """Remove the first disk that is large enough from ``free`` and return it. Raises LabError if there is none."""
    for disk in free:
        if disk.size_bytes >= spec.size_bytes:
            free.remove(disk)
            return disk
    raise LabError(
        f"no free lab disk is large enough for the spindle {spec.name}",
        hint="blank one with 'raidlab disks reset NAME' ('raidlab disks' lists them), or create the machine again with "
        "more disks: RAIDLAB_DISKS=16",
    )


LOOP_FOLDER = "/var/lib/raidlab/disks"
LOOP_FOLDER_EMBEDDED = f"{RUN_FOLDER}/disks"
DRIVE_PLUGIN = "/var/lib/raidlab/drive.so"
"""The plugin for drives with mechanics, installed when a step first uses it. It cannot be in /run, which is noexec."""
DRIVE_PLUGIN_EMBEDDED = f"{RUN_FOLDER}/drive.so"

PACE = GuestProgram(Path(pace_program.__file__), "pace-disk")
"""The program that changes a drive's pace, which the lab installs when a step first uses it."""


def spindle_file(disk_name: str, suffix: str) -> str:
    """Return the path of one of a spindle's files on the machine.

    ``sock`` is the socket of its server, ``pid`` the server's process ID, and ``pause`` the control socket of its pause
    filter (nbdkit-pause-filter(1)). ``pace`` contains the process ID and the drive model that set the spindle's pace,
    and does not exist if the spindle runs at its own pace.
    """
    return f"{RUN_FOLDER}/{disk_name}.{suffix}"


def loop_attachment(spec: DiskSpec, number: int, *, folder: str, direct: bool) -> tuple[LabDisk, Plan]:
    """Return a loop device over a sparse file in ``folder``, and the plan that attaches it."""
    file, node = f"{folder}/{spec.name}.img", f"/dev/loop{number}"
    option = ("--direct-io=on",) if direct else ()
    why = "The file becomes a block device. With direct I/O, it is not cached a second time."
    make = ("truncate", "--size", str(spec.size_bytes), file)
    steps = (
        Step(("mkdir", "-p", folder), "The folder for disk images is created."),
        Step(make, "A sparse file of exactly this size is created.", ("rm", file)),
        Step(("losetup", *option, node, file), why, ("losetup", "--detach", node)),
    )
    return spec.attached(node, file), Plan(f"Attach {spec.name}", steps)


def spindle_attachment(spec: DiskSpec, number: int, *, drive_plugin: str = DRIVE_PLUGIN) -> tuple[LabDisk, Plan]:
    """Return an emulated drive, and the plan that attaches it.

    nbdkit delays each reply, and the kernel's nbd client makes a block device of the server. The pause filter allows
    the drive to be slowed down later, and costs nothing until then (nbdkit(1), nbdkit-pause-filter(1), nbd-client(8)).
    """
    model = find_drive_model(spec.model)
    pid, node = spindle_file(spec.name, "pid"), f"/dev/nbd{number}"
    if model.mechanics:
        transport = f"transport={TRANSPORT_MILLISECONDS:g}"
        drive = _mechanical_drive(spec, model.mechanics, drive_plugin, transport)
    else:
        drive = _constant_drive(spec, model)
    control = f"pause-control={spindle_file(spec.name, 'pause')}"
    server = ("nbdkit", "--unix", spindle_file(spec.name, "sock"), "--pidfile", pid, *drive, control)
    why = f"The server emulates the drive model {spec.model}: {model.title}."
    writes = (spec.backing,) if spec.backing else ()
    start = Step(server, why, ("pkill", "-F", pid), writes_devices=writes)
    steps = (start, _connect(spec.name, node), _rotation_step(node, is_rotational=model.is_rotational))
    return spec.attached(node, spec.backing or "memory"), Plan(f"Attach {spec.name}", steps)


def kernel_drive_attachment(spec: DiskSpec, number: int, prefix: str) -> tuple[LabDisk, Plan]:
    """Return one of the lab's own drives, and the plan that attaches it. ``prefix`` comes from ``node_prefix``.

    Raises SpecError if the drive model is unknown.
    """
    node, model = f"{prefix}{number}", find_drive_model(spec.model)
    service = round(model.service_milliseconds * 1e6)
    constant = (f"service={service}", f"concurrent={model.concurrent_requests}")
    words = model.mechanics.words if model.mechanics else constant
    why = f"The kernel adds a drive of the model {spec.model}: {model.title}."
    add = _line(("add", str(number), str(spec.size_bytes), *words), why, undo=f"remove {number}")
    attach = Plan(f"Attach {spec.name}", (add, _rotation_step(node, is_rotational=model.is_rotational)))
    return spec.attached(node, SERVED_BACKING if prefix == SERVED_NODE else "memory"), attach


def _constant_drive(spec: DiskSpec, model: DriveModel) -> tuple[str, ...]:
    """Return nbdkit's arguments (nbdkit-delay-filter(1), nbdkit-noparallel-filter(1))."""
    delay = f"{model.delay_milliseconds}ms"
    is_single = model.concurrent_requests == 1
    filters = ("--filter=noparallel",) if is_single else ()
    threads = () if is_single else ("--threads", str(model.concurrent_requests))
    # The backing disk may be larger than the drive.
    cut = ("--filter=truncate",) if spec.backing else ()
    plugin = ("file", spec.backing, f"truncate={spec.size_bytes}") if spec.backing else ("memory", str(spec.size_bytes))
    serialize = ("serialize=all-requests",) if is_single else ()
    return (
        *(*threads, "--filter=pause", *filters, "--filter=delay", *cut, *plugin),
        *(f"rdelay={delay}", f"wdelay={delay}", *serialize),
    )


def _mechanical_drive(spec: DiskSpec, mechanics: Mechanics, plugin: str, transport: str) -> tuple[str, ...]:
    """Return nbdkit's arguments. Each request that is in the drive's queue or answered by its cache uses a thread."""
    threads = str(max(16, 2 * mechanics.queue_depth))
    backing = (f"backing={spec.backing}",) if spec.backing else ()
    start = ("--threads", threads, "--filter=pause", plugin, f"size={spec.size_bytes}", *backing)
    return (*start, *mechanics.words, transport)


def _rotation_step(node: str, *, is_rotational: bool) -> Step:
    """Return the step that tells the kernel whether the drive rotates.

    Without this step, the kernel treats every nbd device as solid-state (QUEUE_FLAG_NONROT in drivers/block/nbd.c of
    Linux 6.1).
    """
    flag = f"/sys/block/{node.removeprefix('/dev/')}/queue/rotational"
    how = "md reads from the copy with the nearest head" if is_rotational else "md reads from the least busy copy"
    word = "rotates" if is_rotational else "does not rotate"
    return write_file_step(flag, str(int(is_rotational)), f"The kernel learns that the drive {word}, so {how}.")


def _connect(name: str, node: str) -> Step:
    argv = ("nbd-client", "-unix", spindle_file(name, "sock"), node, "-b", "512")
    return Step(argv, "The kernel turns the server into a block device.", ("nbd-client", "-d", node))


def connect_steps(disk: LabDisk) -> tuple[Step, ...]:
    """Return the steps that reconnect a spindle's server, which has continued to run, to its device."""
    if is_kernel_drive(disk):
        why = "The cable is plugged in again, and the drive returns with the data on its medium."
        return (_line(("plug", _number(disk.node)), why),)
    is_rotational = find_drive_model(disk.model).is_rotational
    return _connect(disk.name, disk.node), _rotation_step(disk.node, is_rotational=is_rotational)


def disconnect_step(disk: LabDisk, why: str) -> Step:
    """Return the step that disconnects the device, even while it is in use. The server keeps the data."""
    if is_kernel_drive(disk):
        number = _number(disk.node)
        return _line(("pull", number), why, undo=f"plug {number}", writes=disk.node)
    return Step(("nbd-client", "-d", disk.node), why, _connect(disk.name, disk.node).argv, writes_devices=(disk.node,))


def ram_attachments(wanted: Sequence[DiskSpec]) -> tuple[tuple[LabDisk, ...], Plan]:
    """Return all ram disks of a lab, and the plan that creates them. Raises SpecError if their sizes differ."""
    sizes = {spec.size_bytes for spec in wanted}
    if len(sizes) > 1:
        raise SpecError("ram disks of different sizes are not possible", hint="use equal sizes, or use loop disks")
    disks = tuple(spec.attached(f"/dev/ram{number}") for number, spec in enumerate(wanted))
    size_kib = sizes.pop() // KIB
    argv = ("modprobe", "brd", f"rd_nr={len(disks)}", f"rd_size={size_kib}")
    step = Step(argv, "The brd driver makes block devices from kernel memory.", ("modprobe", "-r", "brd"))
    return disks, Plan("Make ram disks", (step,))


def detach_plan(disks: Iterable[LabDisk]) -> Plan:
    """Return the plan that detaches disks in this order, then all ram disks. No step is needed for other kinds."""
    disks = tuple(disks)
    steps = [step for disk in disks for step in _detach_steps(disk)]
    if any(disk.kind is DiskKind.RAM for disk in disks):
        # A driver that is built into the kernel has no such file, and cannot be removed.
        unload = "[ ! -e /sys/module/brd/initstate ] || modprobe -r brd"
        steps.append(Step(("sh", "-c", unload), "The memory is freed, unless the driver is built into the kernel."))
    return Plan.of(f"Detach {', '.join(disk.name for disk in disks)}", steps)


def _detach_steps(disk: LabDisk) -> Iterator[Step]:
    if disk.kind is DiskKind.LOOP:
        yield Step(("losetup", "--detach", disk.node), "The loop device releases its file.")
        yield Step(("rm", "-f", disk.backing), "The image is removed.", danger=Danger.DATA)
    elif is_kernel_drive(disk):
        why = "The kernel removes the drive, and its data are lost."
        yield _line(("remove", _number(disk.node)), why, danger=Danger.DATA)
    elif disk.kind is DiskKind.SPINDLE:
        yield Step(("nbd-client", "-d", disk.node), "The block device is disconnected from its server.")
        why = "The server exits, and a spindle in memory loses its data."
        files = [spindle_file(disk.name, suffix) for suffix in ("sock", "pid", "pause")]
        yield Step(("pkill", "-F", files[1]), why, danger=Danger.DATA)
        yield Step(("rm", "-f", *files), "The server's files are removed.")


def reset_plan(disk: LabDisk, *, has_partitions: bool = False, is_blank: bool = False) -> Plan:
    """Return the plan that makes a disk blank by discarding its content, so that a sparse disk is sparse again.

    With ``is_blank``, the plan counts as harmless, because the disk is not known to hold data. On a physical disk, only
    the signatures are erased, because discarding a whole real disk may take hours.
    """
    seen = "The disk looks blank. " if is_blank else ""
    why = f"{seen}The whole disk is discarded and reads as zeros."
    if disk.kind is DiskKind.PHYSICAL:
        argv: tuple[str, ...] = ("wipefs", "--all", disk.node)
        why = "Signatures of arrays and file systems are erased."
    elif disk.kind is DiskKind.RAM:
        argv = ("blkdiscard", "--force", "--zeroout", disk.node)
    else:
        argv = ("blkdiscard", "--force", disk.node)
    commands = [(argv, why)]
    if disk.kind in (DiskKind.PHYSICAL, DiskKind.VIRTIO) or disk.backing.startswith("/dev/"):
        # A discard may leave metadata there.
        zero = ("blkdiscard", "--force", "--zeroout", "--length", str(MIB), "--offset")
        for which, at in (("first", 0), ("last", disk.size_bytes - MIB)):
            why = f"Zeros are written to the {which} MiB, where metadata of arrays and partition tables may lie."
            commands.append(((*zero, str(at), disk.node), why))
    if has_partitions:
        forget = ("blockdev", "--rereadpt", disk.node)
        commands.append((forget, "The kernel reads the partition table again, and finds none."))
    danger = Danger.NONE if is_blank else Danger.DATA
    steps = (Step(each, text, (), danger, (disk.node,), ignores_partitions=True) for each, text in commands)
    return Plan.of(f"Reset {disk.name}", steps)


def require_time_of(kind: DiskKind) -> None:
    """Raise SpecError if disks have no service time, because a load on them would never end in virtual time."""
    if kind in (DiskKind.RAM, DiskKind.LOOP):
        raise SpecError(
            f"{kind} disks have no service time, so in virtual time a load on them would never end",
            hint="use spindle disks ('raidlab disks remove NAME' removes others), or --on 'uml:?time=real'",
        )


def driver_plan(kind: DiskKind, *, has_kernel_drives: bool = False) -> Plan:
    """Return the plan that loads the driver for a kind of disk, with enough devices."""
    arguments = {
        DiskKind.LOOP: ("loop", f"max_loop={MOST_DISKS}"),
        DiskKind.SPINDLE: ("nbd", f"nbds_max={MOST_DISKS}"),
    }
    if kind not in arguments or (has_kernel_drives and kind is DiskKind.SPINDLE):
        return Plan("No driver to load")
    step = Step(("modprobe", *arguments[kind]), "The driver creates the devices.")
    return Plan(f"Load the driver for {kind} disks", (step,))
