"""A lab consists of an open machine, its lab disks, and the guard that checks every step.

A persistent lab of the embedded kernel keeps its disks in image files. On other machines the disks stay attached, and
the lab stores a list of them. Disks that exist for one command only are removed when the lab closes.
"""

from __future__ import annotations

import base64
import gzip
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol, Self

import msgspec
from msgspec.structs import replace

from lab.disks.attaching import (
    DRIVE_PLUGIN,
    DRIVE_PLUGIN_EMBEDDED,
    KERNEL_DRIVE_NODE,
    LOOP_FOLDER,
    LOOP_FOLDER_EMBEDDED,
    PACE,
    detach_plan,
    driver_plan,
    free_disks,
    kernel_drive_attachment,
    loop_attachment,
    needs_backing,
    node_prefix,
    ram_attachments,
    require_time_of,
    reset_plan,
    spindle_attachment,
    take,
    with_backing,
)
from lab.disks.guard import MOUNT_FOLDER, Guard
from lab.disks.inventory import absent, read_devices, resolve_node
from lab.disks.kinds import (
    DEFAULT_COUNT,
    SERIAL_PREFIX,
    DiskKind,
    DiskSpec,
    LabDisk,
    check_specs,
    checked_disk_name,
    find_disk,
    find_drive_model,
    install_drive,
    serial_of,
    specs,
)
from lab.errors import CommandFailed, DeviceRefused, LabError, ModuleMissing, SpecError
from lab.gates.decoding import MOST_DISKS, decoded_json, digits, read_own_json
from lab.gates.files import check_own_folder, make_own_folder, open_plain
from lab.host import signals
from lab.host.files import storage_error, write_file
from lab.machine import RUN_FOLDER, EmbeddedOptions, Host, Machine, Target, TargetKind, UbdDisk, open_machine
from lab.machine.embedded import DEFAULT_MEMORY_BYTES
from lab.machine.kernel_image import quickest
from lab.machine.programs import program_files
from lab.machine.state_folder import FolderLock, StateFolder
from lab.plans import Plan, Step
from lab.tomlfile import with_new_keys
from lab.units import MIB, counted, human_bytes

_SUFFIX = ".img"
_ELSEWHERE = "or put the state folder elsewhere with RAIDLAB_STATE=FOLDER"


class DiskImages:
    """The disk images below ``lab_folder``, each named after its disk."""

    def __init__(self, lab_folder: Path) -> None:
        self._folder = lab_folder / "disks"

    def path(self, name: str) -> Path:
        """Return the path of the disk's image, which need not exist. Raises SpecError if the name is invalid."""
        return self._folder / f"{checked_disk_name(name)}{_SUFFIX}"

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Return a file descriptor of the image. Raises OSError, and LabError if the file is not the lab's own."""
        check_own_folder(self._folder, "the folder for disk images")
        return open_plain(self.path(name), flags, is_own=True, error=LabError)

    def find(self, name: str) -> os.stat_result | None:
        """Return the image's stat(2) result, or None if there is no image. Raises LabError if it cannot be opened."""
        try:
            with open(self.open(name), "rb") as image:
                return os.fstat(image.fileno())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(f"the image {self.path(name)} cannot be opened", error) from None

    def is_never_written(self, name: str) -> bool:
        """Whether the image has no allocated blocks, so that the disk is blank (stat(2), st_blocks)."""
        found = self.find(name)
        return found is not None and found.st_blocks == 0

    def make(self, wanted: Sequence[DiskSpec]) -> None:
        """Create missing images, sparse and of the exact size.

        If an image cannot be created, remove the new ones and raise LabError.
        """
        try:
            make_own_folder(self._folder, "the folder for disk images")
        except OSError as error:
            raise storage_error(f"no disk image can be created in {self._folder}", error) from None
        missing = [spec for spec in wanted if not self.check(spec)]
        self._require_room(sum(spec.size_bytes for spec in missing))
        made: list[str] = []
        for spec in missing:
            try:
                with open(self.open(spec.name, os.O_RDWR | os.O_CREAT | os.O_EXCL), "rb") as image:
                    made.append(spec.name)
                    os.ftruncate(image.fileno(), spec.size_bytes)
            except OSError as error:
                for name in made:
                    self.remove(name)
                what = f"an image of {human_bytes(spec.size_bytes)} cannot be created in {self._folder}"
                raise LabError(f"{what}: {error.strerror}", hint=f"ask for smaller disks, {_ELSEWHERE}") from None

    def check(self, spec: DiskSpec) -> bool:
        """Whether the disk has an image. Raises LabError if its size shows that the lab did not create it."""
        found = self.find(spec.name)
        if found and found.st_size != spec.size_bytes:
            raise LabError(
                f"the image {self.path(spec.name)} has {found.st_size} bytes instead of {spec.size_bytes}",
                hint="move the file elsewhere to keep its data; the disk is then created again, blank",
            )
        return found is not None

    def remove(self, name: str) -> None:
        """Remove the image if it exists. Raises LabError if the file is not an image, or cannot be removed."""
        if self.find(name) is None:
            return
        try:
            self.path(name).unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(f"the image {self.path(name)} cannot be removed", error) from None

    def listed(self) -> tuple[DiskSpec, ...]:
        """Return the disks that have an image, sorted by name. Raises LabError if a file is not the lab's own."""
        names = sorted(path.stem for path in self._folder.glob(f"*{_SUFFIX}"))
        found = {name: self.find(name) for name in names}
        return tuple(
            DiskSpec(name=name, kind=DiskKind.FILE, size_bytes=image.st_size) for name, image in found.items() if image
        )

    def flush(self, name: str, *, forgets: bool = False) -> None:
        """Flush an image to this computer's disk. ``forgets`` also drops it from the page cache (posix_fadvise(2))."""
        with open(self.open(name, os.O_RDWR), "rb") as image:
            os.fdatasync(image.fileno())
            if forgets:
                os.posix_fadvise(image.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _require_room(self, needed_bytes: int) -> None:
        room = os.statvfs(self._folder)
        available = room.f_bavail * room.f_frsize
        if needed_bytes > available:
            raise LabError(
                f"the disks need up to {human_bytes(needed_bytes)}, but {self._folder} has "
                f"{human_bytes(available)} left",
                hint=f"free some space, ask for smaller or fewer disks, {_ELSEWHERE}",
            )


REGISTRY = f"{RUN_FOLDER}/lab.json"
_LAB_FILE = "lab.json"
_KINDS_TO_LIST = (DiskKind.FILE, DiskKind.LOOP, DiskKind.SPINDLE, DiskKind.RAM)


class LabFolder:
    """A locked folder with the image files of one lab. A scratch folder is removed when it is closed."""

    def __init__(self, lock: FolderLock, disk_specs: Sequence[DiskSpec], *, is_scratch: bool) -> None:
        self.lock = lock
        self.path = lock.folder
        self.images = DiskImages(self.path)
        self.specs = tuple(disk_specs)
        self._is_scratch = is_scratch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_scratch:
            shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()

    def add(self, further: Sequence[DiskSpec]) -> None:
        """Add disks to the list for the next start. If this is impossible, raise LabError and change nothing."""
        files = [spec.name for spec in further if spec.kind is DiskKind.FILE]
        # A blank image that is not in the list was left by a killed command.
        for name in filter(self.images.is_never_written, files):
            self.images.remove(name)
        before = {name for name in files if self.images.find(name)}
        if before:
            raise LabError(
                f"there is already an image {self.images.path(min(before))}, which is not in the lab's list of disks",
                hint="move it elsewhere to keep its data",
            )
        self.images.make([spec for spec in further if spec.kind is DiskKind.FILE])
        try:
            self.save((*self.specs, *further))
        except BaseException:
            for name in files:
                self.images.remove(name)
            raise

    def save(self, disk_specs: Sequence[DiskSpec]) -> None:
        """Replace the list for the next start, and remove the images of dropped disks. Raises LabError."""
        check_specs(disk_specs)
        names = {spec.name for spec in disk_specs if spec.kind is DiskKind.FILE}
        dropped = [spec for spec in self.specs if spec.kind is DiskKind.FILE and spec.name not in names]
        for spec in dropped:
            self.images.check(spec)
        write_file(self.path / _LAB_FILE, msgspec.json.format(msgspec.json.encode(tuple(disk_specs)), indent=1))
        for spec in dropped:
            self.images.remove(spec.name)
        self.specs = tuple(disk_specs)

    def lab_disks(self, file_specs: Sequence[DiskSpec], nodes: Mapping[str, str] = {}) -> tuple[LabDisk, ...]:
        """Return the file disks. Those whose serial ``nodes`` lacks get User Mode Linux's nodes, such as /dev/ubda."""
        return tuple(
            spec.attached(
                nodes.get(serial_of(number + 1), f"/dev/ubd{chr(ord('a') + number)}"),
                str(self.images.path(spec.name)),
                serial_of(number + 1),
            )
            for number, spec in enumerate(file_specs)
        )


def lab_folder(state: StateFolder, name: str) -> LabFolder:
    """Lock the lab's folder and return it. Without a list the lab has the disks with images, or else nine new disks.

    Raises LabError if the list is invalid.
    """
    lock = state.lock_lab(name)
    path = lock.folder / _LAB_FILE
    try:
        if path.is_symlink() or path.exists():
            return LabFolder(lock, _read_list(path), is_scratch=False)
        listed = DiskImages(lock.folder).listed() or specs(DEFAULT_COUNT, DiskKind.FILE)
        folder = LabFolder(lock, listed, is_scratch=False)
        folder.save(listed)
        return folder
    except BaseException:
        lock.close()
        raise


def _read_list(path: Path) -> tuple[DiskSpec, ...]:
    try:
        listed = read_own_json(path, tuple[DiskSpec, ...], converted=with_new_keys, error=LabError)
        check_specs(listed)
        odd = next((spec for spec in listed if spec.kind not in _KINDS_TO_LIST or spec.backing), None)
        if odd:
            raise SpecError(f"disk {odd.name} cannot be a disk of the embedded kernel")
        return listed
    except LabError as error:
        message = error.message if str(path) in error.message else f"'{path}' is damaged: {error.message}"
        hint = "move that file elsewhere; the lab then lists the disks whose images exist"
        raise LabError(f"the list of disks {message}", hint=hint) from None


def scratch_folder(state: StateFolder, wanted: Sequence[DiskSpec]) -> LabFolder:
    """Return a folder for disks that exist for one command only."""
    check_specs(wanted)
    return LabFolder(state.new_instance(), wanted, is_scratch=True)


def virtio_disks(machine: Machine) -> tuple[LabDisk, ...]:
    """Return a virtual machine's extra disks, which are whole disks with a serial RAIDLAB-NN. They are named diskNN."""
    found = [device for device in read_devices(machine).values() if device.serial.startswith(SERIAL_PREFIX)]
    return tuple(
        LabDisk(
            name=f"disk{device.serial.removeprefix(SERIAL_PREFIX)}",
            kind=DiskKind.VIRTIO,
            node=device.node,
            size_bytes=device.size_bytes,
            serial=device.serial,
        )
        for device in sorted(found, key=lambda device: device.serial)
    )


def read_registry(machine: Machine) -> tuple[LabDisk, ...]:
    """Return the disks that earlier commands attached on this machine and that still match their devices."""
    text = machine.read([REGISTRY])[REGISTRY]
    if not text:
        return ()
    try:
        listed = decoded_json(text, tuple[LabDisk, ...], converted=with_new_keys)
        for disk in listed:
            disk.validate()
        if len({disk.name for disk in listed}) < len(listed):
            raise SpecError("several disks have the same name")
    except (ValueError, SpecError) as error:
        message = error.message if isinstance(error, SpecError) else error
        raise LabError(
            f"the list of disks {REGISTRY} on {machine.facts.target} is damaged: {message}",
            hint="remove that file there; the disks that it listed stay attached until you detach them by hand "
            "(losetup --list) or restart the machine",
        ) from None
    devices = read_devices(machine)

    def is_same(disk: LabDisk) -> bool:
        device = devices.get(disk.kernel_name)
        if device is None or device.size_bytes != disk.size_bytes:
            return False
        if disk.kind is DiskKind.PHYSICAL:
            return device.serial == disk.serial
        return disk.kind is not DiskKind.LOOP or device.loop_file == disk.backing

    return tuple(filter(is_same, listed))


def write_registry(machine: Machine, disks: Sequence[LabDisk]) -> None:
    """Store the list of attached disks on the machine, where it disappears with them at the next boot."""
    machine.write(REGISTRY, msgspec.json.encode(tuple(disks)).decode())


_LONG_INPUT_BYTES = 8192


class Lab:
    """Runs plans on a machine. ``folder`` contains an embedded kernel's disk images; it is None on other machines."""

    def __init__(
        self, machine: Machine, host: Host, disks: Iterable[LabDisk], *, folder: LabFolder | None = None
    ) -> None:
        self.machine = machine
        self.host = host
        self.disks = tuple(disks)
        self._attached: list[LabDisk] = []
        self.folder = folder
        files = [spec for spec in folder.specs if spec.kind is DiskKind.FILE] if folder else []
        blank = {spec.name for spec in files if folder and folder.images.is_never_written(spec.name)}
        self.guard = Guard(machine, self.disks, [disk.node for disk in self.disks if disk.name in blank])

    def disk(self, word: str) -> LabDisk:
        """Return a disk by name, serial or node. Raises SpecError, with the nearest name, if there is none."""
        return find_disk(word, self.disks)

    def execute(self, plan: Plan, *, before_step: Callable[[Step], None] | None = None) -> None:
        """Run a plan. The guard checks each step. The first step that fails ends the plan, and its error is raised."""
        for step in plan.steps:
            if before_step:
                before_step(step)
            self.guard.check(step)
            # Install the lab's own programs, unless they are already on the machine.
            for plugin in {DRIVE_PLUGIN, DRIVE_PLUGIN_EMBEDDED} & {*step.argv}:
                install_drive(self.machine, plugin)
            if program_files(PACE).start in step.argv:
                self.machine.install(PACE)
            try:
                argv, text = packed(step.argv, step.stdin_text)
                self.machine.run(argv, timeout_seconds=step.timeout_seconds, stdin_text=text)
            except CommandFailed as error:
                raise explain(error, self.machine.facts.target) from error

    def attach(self, specs: Sequence[DiskSpec]) -> tuple[LabDisk, ...]:
        """Attach more disks. After a failure, the disks that this call attached are detached again."""
        check_specs(specs, [disk.name for disk in self.disks])
        specs = with_backing(self.machine, self.disks, specs)
        self._require_room(specs)
        before = len(self._attached)
        made: list[LabDisk] = []
        try:
            for kind in dict.fromkeys(spec.kind for spec in specs):
                made += self._attach_kind(kind, [spec for spec in specs if spec.kind is kind])
        except BaseException:
            self.release(before)
            raise
        covered = {disk.backing for disk in made if disk.kind is DiskKind.SPINDLE}
        self.use([*(disk for disk in self.disks if disk.node not in covered), *made])
        return tuple(made)

    def _require_room(self, specs: Sequence[DiskSpec]) -> None:
        """Raise SpecError if the machine has no room for the disks. Embedded kernels are started with enough memory."""
        if self.machine.facts.is_embedded:
            return
        in_memory = [spec.size_bytes for spec in specs if spec.kind is DiskKind.RAM or needs_backing(spec)]
        there = [disk.size_bytes for disk in self.disks if disk.kind is DiskKind.RAM or disk.backing == "memory"]
        rooms = {"memory": (self.machine.facts.memory_bytes, sum(in_memory) and sum(in_memory) + sum(there))}
        if loops := sum(spec.size_bytes for spec in specs if spec.kind is DiskKind.LOOP):
            # Ask df(1) about /var/lib, because the lab's own folder may not exist yet.
            free = self.machine.run(("df", "--output=avail", "--block-size=1", "/var/lib"), check=False).stdout.split()
            if free and (room := digits(free[-1])) is not None:
                rooms["space in /var/lib"] = (room, loops)
        for what, (most, needed) in rooms.items():
            if needed > most:
                raise SpecError(
                    f"the disks need {human_bytes(needed)}, but {self.machine.facts.target} has {human_bytes(most)} "
                    f"of {what}",
                    hint="ask for smaller or fewer disks",
                )

    def _attach_kind(self, kind: DiskKind, specs: list[DiskSpec]) -> list[LabDisk]:
        if kind is DiskKind.PHYSICAL:
            return [self._physical(spec) for spec in specs]
        if kind in (DiskKind.FILE, DiskKind.VIRTIO):
            raise SpecError(
                f"{kind} disks cannot be added to {self.machine.facts.target} while it runs",
                hint="use loop, spindle or ram disks",
            )
        if self.machine.facts.is_virtual_time:
            require_time_of(kind)
        own_drives = node_prefix(self.machine) if kind is DiskKind.SPINDLE else ""
        if kind is DiskKind.RAM:
            # A second modprobe would change nothing, and the new disks would be the old ones under other names.
            if any(disk.kind is DiskKind.RAM for disk in self.disks):
                raise SpecError(
                    "the lab already has ram disks, so no more can be added",
                    hint="remove them, then add all that you need in one command",
                )
            disks, plan = ram_attachments(specs)
            self.execute(plan)
            self._attached += disks
            return list(disks)
        self.execute(driver_plan(kind, has_kernel_drives=bool(own_drives)))
        before = len(self._attached)
        for spec, number in zip(specs, self._free_numbers(kind, own_drives), strict=False):
            disk, plan = self._attachment(spec, number, own_drives)
            self._execute_whole(plan)
            self._attached.append(disk)
        made = self._attached[before:]
        if len(made) < len(specs):
            raise LabError(
                f"no free {kind} device is left for {counted(len(specs) - len(made), 'disk')}",
                hint="detach some disks first",
            )
        return made

    def _execute_whole(self, plan: Plan) -> None:
        """Run all steps. After a failure, undo those that were already done."""
        done: list[Step] = []
        try:
            for step in plan.steps:
                self.execute(Plan(plan.title, (step,)))
                done.append(step)
        except BaseException:
            for step in reversed(done):
                if step.undo:
                    self.machine.run(step.undo, check=False)
            raise

    def _attachment(self, spec: DiskSpec, number: int, own_drives: str) -> tuple[LabDisk, Plan]:
        is_embedded = self.machine.facts.is_embedded
        if own_drives:
            return kernel_drive_attachment(spec, number, own_drives)
        if spec.kind is DiskKind.SPINDLE:
            plugin = DRIVE_PLUGIN_EMBEDDED if is_embedded else DRIVE_PLUGIN
            return spindle_attachment(spec, number, drive_plugin=plugin)
        # The embedded kernel's only writable file system is in memory, which does not support direct I/O.
        folder = LOOP_FOLDER_EMBEDDED if is_embedded else LOOP_FOLDER
        return loop_attachment(spec, number, folder=folder, direct=not is_embedded)

    def _free_numbers(self, kind: DiskKind, own_drives: str) -> list[int]:
        names = self.machine.list_dirs(["/sys/block"])["/sys/block"]
        if own_drives == KERNEL_DRIVE_NODE:
            return [number for number in range(MOST_DISKS) if f"drive{number}" not in names]
        prefix = "loop" if kind is DiskKind.LOOP else "nbd"
        offered = [name for name in names if name.startswith(prefix) and digits(name.removeprefix(prefix)) is not None]
        return sorted(int(name.removeprefix(prefix)) for name in absent(self.machine, offered))

    def _physical(self, spec: DiskSpec) -> LabDisk:
        node = resolve_node(self.machine, spec.backing)
        device = read_devices(self.machine).get(node.removeprefix("/dev/"))
        if device is None:
            raise DeviceRefused(f"{spec.backing} is not a whole disk", hint="specify the disk, not a partition of it")
        disk = replace(spec.attached(node, spec.backing, device.serial), size_bytes=device.size_bytes)
        # The list of disks is read only if each disk in it is valid.
        disk.validate()
        probe = Guard(self.machine, [disk])
        probe.check(Step(("true",), "Ask the guard.", writes_devices=(node,)))
        try:
            probe.check_blank([node])
        except DeviceRefused as error:
            # It is not a lab disk yet, so 'disks reset' cannot blank it.
            hint = f"stop what uses it, or type 'wipefs --all {node}' on the machine to erase its signatures"
            raise DeviceRefused(error.message, hint=hint) from None
        return disk

    def detach(self, disks: Sequence[LabDisk]) -> None:
        """Detach disks.

        Raises DeviceRefused if a disk is in use, and SpecError if only some of the ram disks are given.
        """
        left = {disk.name for disk in self.disks if disk.kind is DiskKind.RAM} - {disk.name for disk in disks}
        if left and any(disk.kind is DiskKind.RAM for disk in disks):
            raise SpecError("ram disks can only be removed together", hint=f"remove {', '.join(sorted(left))} as well")
        self.guard.check_blank([disk.node for disk in disks if disk.kind is not DiskKind.PHYSICAL])
        # Ram disks share a driver, so they are detached together.
        ram = [disk for disk in disks if disk.kind is DiskKind.RAM]
        for group in [*([disk] for disk in disks if disk not in ram), *([ram] if ram else [])]:
            self.execute(detach_plan(group))
            self._attached = [disk for disk in self._attached if disk not in group]
        names = {disk.name for disk in disks}
        bared = {disk.backing for disk in disks if disk.kind is DiskKind.SPINDLE}
        again = [disk for disk in virtio_disks(self.machine) if disk.node in bared] if bared - {"memory"} else []
        self.use([*(disk for disk in self.disks if disk.name not in names), *again])

    def check_unused(self, disks: Sequence[LabDisk]) -> None:
        """Raise DeviceRefused if an array, a mount or swap uses a disk."""
        nodes = [disk.node for disk in disks]
        self.guard.check_unused(nodes, hint="stop the array, unmount the file system or run swapoff first")

    def reset(self, disks: Sequence[LabDisk]) -> None:
        """Make disks blank. Raises DeviceRefused if an array, a mount or swap uses a disk."""
        self.check_unused(disks)
        self.execute(self.reset_plan(disks))

    def reset_plan(self, disks: Sequence[LabDisk], *, used: Collection[str] | None = None) -> Plan:
        """Return the plan of ``reset``, without checking whether the disks are in use.

        ``used`` contains the nodes of the disks that belong to arrays. If it is given, other disks without signatures
        count as blank.
        """
        devices = read_devices(self.machine, [disk.kernel_name for disk in disks])
        parted = {disk.name for disk in disks if (found := devices.get(disk.kernel_name)) and found.partitions}
        blank = {disk.node for disk in disks} - {*used, *self._carrying(disks)} if used is not None else set()
        steps = [
            step
            for disk in disks
            for step in reset_plan(disk, has_partitions=disk.name in parted, is_blank=disk.node in blank).steps
        ]
        return Plan.of(f"Make {', '.join(disk.name for disk in disks)} blank", steps)

    def _carrying(self, disks: Iterable[LabDisk]) -> Collection[str]:
        """Return the nodes of the disks that carry signatures, or of all that may hold data if the check fails."""
        nodes = [disk.node for disk in disks if self.guard.can_hold_data(disk.node)]
        try:
            return self.guard.carried(nodes).keys()
        except DeviceRefused:
            return nodes

    def drop_host_cache(self, disks: Iterable[LabDisk]) -> bool:
        """Flush these disks' images and drop them from the page cache. Return False if there are no images here."""
        files = self._with_images(disks)
        for images, name in files:
            images.flush(name, forgets=True)
        return bool(files)

    def start_writing_out(self, disks: Iterable[LabDisk]) -> None:
        """Flush these disks' images to this computer's disk on a separate thread, to avoid a wait later."""
        files = self._with_images(disks)

        def write_out() -> None:
            for images, name in files:
                # The image may have been removed in the meantime.
                with suppress(OSError, LabError):
                    images.flush(name)

        if files:
            threading.Thread(target=write_out, name="raidlab-write-out", daemon=True).start()

    def _with_images(self, disks: Iterable[LabDisk]) -> list[tuple[DiskImages, str]]:
        return [(self.folder.images, disk.name) for disk in disks if self.folder and disk.kind is DiskKind.FILE]

    def release(self, remaining: int = 0) -> None:
        """Detach the disks that this lab attached, the newest first, except for the first ``remaining`` disks."""
        for step in detach_plan(reversed(self._attached[remaining:])).steps:
            self.machine.run(step.argv, check=False)
        del self._attached[remaining:]

    def use(self, disks: Iterable[LabDisk]) -> None:
        """Replace the lab's disks with these, which may have new names."""
        self.disks = tuple(sorted(disks, key=lambda disk: disk.name))
        self.guard.set_disks(self.disks)


def packed(argv: tuple[str, ...], stdin_text: str) -> tuple[tuple[str, ...], str]:
    """Return a command and its input, compressed if it is long, because an embedded kernel's serial line is slow."""
    if len(stdin_text) < _LONG_INPUT_BYTES:
        return argv, stdin_text
    # The exit status of a pipeline is that of its last command, which is the command itself.
    text = base64.b64encode(gzip.compress(stdin_text.encode(), mtime=0)).decode()
    return ("sh", "-c", 'base64 -d | gzip -dc | "$@"', "unpack", *argv), text


def explain(error: CommandFailed, target: str) -> LabError:
    """Return the error for a failed command, which is more specific if the command's output shows the cause."""
    message = error.stderr_tail
    if "Module" in message and "not found" in message:
        module = message.partition("Module ")[2].split()[0]
        return ModuleMissing(
            f"the kernel of {target} has no driver '{module}'",
            hint="install the distribution's extra kernel modules there (Ubuntu: linux-modules-extra-$(uname -r))",
        )
    if "No space left on device" in message:
        return LabError(f"{target} is full: {error.message}", hint="free some space there, then try again")
    return error


SETTLE_SECONDS = 10.0
DRIVE_SERVER_BYTES = 4 * MIB
"""Memory of the machine for each spindle's server, without the medium."""


class Opener(Protocol):
    """A function that opens a lab. Tests supply their own."""

    def __call__(
        self, target: Target, host: Host, /, *, on_notice: Callable[[str], None], on_machine: Callable[[Machine], None]
    ) -> AbstractContextManager[Lab]: ...


@contextmanager
def open_lab(
    target: Target,
    host: Host,
    *,
    wanted: Sequence[DiskSpec] | None = None,
    seed: int | None = None,
    shown: Sequence[Path] = (),
    keeps_logs: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
    on_machine: Callable[[Machine], None] = lambda _: None,
) -> Iterator[Lab]:
    """Open the machine with its lab disks, and always close both at the end.

    Without ``wanted`` this is the persistent lab, which is the named lab of the embedded kernel (``uml:?name=…``, with
    nine file disks when it is new) or the disks that were attached on the machine. With ``wanted`` the lab has exactly
    these disks, blank, and they are removed when it closes. ``file`` then means the machine's plain disks, which are
    virtio disks if it has them, otherwise loop disks. By default each opening has a new ``seed``, because new objects
    in a persistent lab must not have the UUIDs of existing ones. EmbeddedOptions describes ``seed``, ``shown`` and
    ``keeps_logs``.
    """
    if not target.is_embedded:
        with _open_attached(target, host, wanted, on_notice, on_machine) as lab:
            yield lab
        return
    for notice in host.state.sweep():
        on_notice(notice)
    with lab_folder(host.state, target.lab_name) if wanted is None else scratch_folder(host.state, wanted) as folder:
        files = [spec for spec in folder.specs if spec.kind is DiskKind.FILE]
        others = [spec for spec in folder.specs if spec.kind is not DiskKind.FILE]
        folder.images.make(files)
        paths = [folder.images.path(spec.name) for spec in files]
        options = EmbeddedOptions(
            disks=tuple(UbdDisk(path, serial_of(number)) for number, path in enumerate(paths, 1)),
            memory_bytes=embedded_memory_bytes(others, is_virtual_time=target.is_virtual_time),
            seed=secrets.randbits(63) if seed is None else seed,
            held_locks=(folder.lock.fd,),
            shown=tuple(shown),
            keeps_logs=keeps_logs,
        )
        with open_machine(target, host, embedded=options, on_notice=on_notice) as machine:
            on_machine(machine)
            nodes = {disk.serial: disk.node for disk in virtio_disks(machine)}
            lab = Lab(machine, host, folder.lab_disks(files, nodes), folder=folder)
            lab.attach(others)
            try:
                yield lab
            finally:
                _settle(lab)


def embedded_memory_bytes(wanted: Sequence[DiskSpec], *, is_virtual_time: bool = False) -> int:
    """Return the memory that an embedded kernel needs for these disks.

    File disks and, in virtual time, spindles do not count, because their data lie outside the guest.
    """
    outside = (DiskKind.FILE, DiskKind.SPINDLE) if is_virtual_time else (DiskKind.FILE,)
    memory = DEFAULT_MEMORY_BYTES
    for spec in wanted:
        if spec.kind not in outside:
            memory += 0 if spec.backing else spec.size_bytes
            if spec.kind is DiskKind.SPINDLE:
                mechanics = find_drive_model(spec.model).mechanics
                memory += DRIVE_SERVER_BYTES + (mechanics.write_cache_bytes if mechanics else 0)
    return memory


def with_fitting_time(
    target: Target, host: Host, wanted: Sequence[DiskSpec], on_notice: Callable[[str], None]
) -> Target:
    """Return the target, in virtual time if that makes figures exact: for ``uml:`` with only emulated drives.

    A target that specifies a time or a kernel is unchanged. If the kernel for virtual time is missing, ``on_notice`` is
    called with the command that builds it.
    """
    is_open = target.kind is TargetKind.UML and not {"time", "kernel"} & target.options.keys()
    if not is_open or any(spec.kind is not DiskKind.SPINDLE for spec in wanted):
        return target
    found = quickest(target, host.processes, host.files)
    on_notice(
        "this runs in virtual time, which is exact and many times faster than real time; 'uml:?time=real' chooses real "
        "time"
        if found.is_virtual_time
        else "drives are emulated in real time; 'make uml-kernel' builds the kernel that makes their figures exact"
    )
    return found


def _settle(lab: Lab) -> None:
    """Unmount file systems and stop arrays, so that the next start finds clean arrays.

    Does nothing if the machine is lost or does not answer. In virtual time, a program that never waits blocks the
    machine.
    """
    if not lab.machine.is_answering(SETTLE_SECONDS):
        return
    try:
        devices = read_devices(lab.machine)
        for device in devices.values():
            for place in device.mounted_on:
                if place.startswith(f"{MOUNT_FOLDER}/"):
                    lab.machine.run(("umount", place), check=False)
        mapped = [("dmsetup", "remove_all")] if any(name.startswith("dm-") for name in devices) else []
        arrays = [("mdadm", "--stop", "--scan")] if any(name.startswith("md") for name in devices) else []
        # Some mapped devices lie above arrays, others below. Each call removes those that are not in use.
        for argv in (*mapped, *arrays, *mapped):
            lab.machine.run(argv, check=False, timeout_seconds=30)
    except LabError:
        return


@contextmanager
def _open_attached(
    target: Target,
    host: Host,
    wanted: Sequence[DiskSpec] | None,
    on_notice: Callable[[str], None],
    on_machine: Callable[[Machine], None],
) -> Iterator[Lab]:
    with (
        closing(host.state.lock_lab(target.lab_name)),
        open_machine(target, host, on_notice=on_notice) as machine,
        # Allow time for the cleanup, because arrays left on the disks would start with the machine.
        nullcontext() if wanted is None else signals.unhurried(),
    ):
        on_machine(machine)
        # The folder does not exist until the lab's first use after boot. Sockets of spindles are created there.
        machine.run(("mkdir", "-p", RUN_FOLDER))
        attached = read_registry(machine)
        covered = {disk.backing for disk in attached if disk.kind is DiskKind.SPINDLE}
        lab = Lab(machine, host, (*(disk for disk in virtio_disks(machine) if disk.node not in covered), *attached))
        if wanted is None:
            yield lab
            write_registry(machine, [disk for disk in lab.disks if disk.kind is not DiskKind.VIRTIO])
            return
        # This is outside the block that blanks the lab's disks, because before this choice the lab has all of the
        # machine's lab disks.
        _choose_plain_disks(lab, wanted)
        try:
            yield lab
        finally:
            # Blank these disks and those below emulated drives. Otherwise arrays on them would start with the machine.
            own = (DiskKind.VIRTIO, DiskKind.PHYSICAL)
            with suppress(LabError):
                lab.reset([disk for disk in lab.disks if disk.kind in own or disk.backing.startswith("/dev/")])
            lab.release()


def _choose_plain_disks(lab: Lab, wanted: Sequence[DiskSpec]) -> None:
    """Give the lab exactly the requested disks, using the machine's own extra disks as far as possible."""
    own = [disk for disk in lab.disks if disk.kind in (DiskKind.VIRTIO, DiskKind.PHYSICAL)]
    free = free_disks(lab.machine, own)
    can_lie_below = any(disk.kind is DiskKind.VIRTIO for disk in free)
    chosen: list[LabDisk] = []
    missing: list[DiskSpec] = []
    below: list[LabDisk] = []
    for spec in wanted:
        if can_lie_below and needs_backing(spec):
            under = take(free, spec)
            below.append(replace(under, name=f"below-{spec.name}"))
            missing.append(replace(spec, backing=under.node))
            continue
        suited = next((disk for disk in free if disk.size_bytes >= spec.size_bytes), None)
        if spec.kind is not DiskKind.FILE or suited is None:
            kind = DiskKind.LOOP if spec.kind is DiskKind.FILE else spec.kind
            missing.append(replace(spec, kind=kind))
        else:
            free.remove(suited)
            chosen.append(replace(suited, name=spec.name))
    lab.use([*chosen, *below])
    lab.reset([*chosen, *below])
    lab.attach(missing)
