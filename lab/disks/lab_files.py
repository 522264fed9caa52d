"""Storage of a lab's disks: image files of an embedded kernel's disks, and the list of disks attached elsewhere."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from lab.disks.inventory import read_devices
from lab.disks.kinds import (
    DEFAULT_COUNT,
    SERIAL_PREFIX,
    DiskKind,
    DiskSpec,
    LabDisk,
    check_specs,
    checked_disk_name,
    serial_of,
    specs,
)
from lab.errors import LabError, SpecError
from lab.gates.decoding import decoded_json, read_own_json
from lab.gates.files import check_own_folder, make_own_folder, open_plain
from lab.host.files import storage_error, write_file
from lab.machine import RUN_FOLDER, Machine, UbdDisk
from lab.machine.state_folder import FolderLock, StateFolder
from lab.tomlfile import with_new_keys
from lab.units import human_bytes

_SUFFIX = ".img"
_ELSEWHERE = "or put the state folder elsewhere with RAIDLAB_STATE=FOLDER"


class DiskImages:
    """The images below ``lab_folder``, by the names of their disks."""

    def __init__(self, lab_folder: Path) -> None:
        self._folder = lab_folder / "disks"

    def path(self, name: str) -> Path:
        """Path of the disk's image, existing or not. Raises SpecError for a name that leads out of the folder."""
        return self._folder / f"{checked_disk_name(name)}{_SUFFIX}"

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """A file descriptor. Raises LabError for a file that is not the lab's own, and OSError (FileNotFoundError)."""
        check_own_folder(self._folder, "the folder for disk images")
        return open_plain(self.path(name), flags, is_own=True, error=LabError)

    def find(self, name: str) -> os.stat_result | None:
        """The result of stat(2) on the image; None if there is none. Raises LabError as ``open``."""
        try:
            descriptor = self.open(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(f"the image {self.path(name)} cannot be opened", error) from None
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def is_never_written(self, name: str) -> bool:
        """Whether the image has no allocated blocks, so that the disk is blank (stat(2), st_blocks)."""
        found = self.find(name)
        return found is not None and found.st_blocks == 0

    def make(self, wanted: Sequence[DiskSpec]) -> None:
        """Create missing images, sparse and of exact size; existing ones keep their data.

        Raises LabError, with nothing created, if the file system refuses them or an existing one has another size.
        """
        try:
            make_own_folder(self._folder, "the folder for disk images")
        except OSError as error:
            raise storage_error(f"no disk image can be made in {self._folder}", error) from None
        missing = []
        for spec in wanted:
            if not self.check(spec):
                missing.append(spec)
        self._require_room(sum(spec.size_bytes for spec in missing))
        made: list[str] = []
        try:
            for spec in missing:
                descriptor = self.open(spec.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                made.append(spec.name)
                try:
                    os.ftruncate(descriptor, spec.size_bytes)
                finally:
                    os.close(descriptor)
        except OSError as error:
            for name in made:
                self.remove(name)
            what = f"an image of {human_bytes(spec.size_bytes)} cannot be made in {self._folder}"
            raise LabError(f"{what}: {error.strerror}", hint=f"ask for smaller disks, {_ELSEWHERE}") from None

    def check(self, spec: DiskSpec) -> bool:
        """Whether the disk has an image. Raises LabError for one of another size, which the lab did not create."""
        found = self.find(spec.name)
        if found and found.st_size != spec.size_bytes:
            raise LabError(
                f"the image {self.path(spec.name)} has {found.st_size} bytes instead of {spec.size_bytes}",
                hint="move the file elsewhere to keep its data; the disk is then made again, blank",
            )
        return found is not None

    def remove(self, name: str) -> None:
        """Remove the image, if it exists. Raises LabError if the file is not an image, or cannot be removed."""
        if self.find(name) is None:
            return
        try:
            self.path(name).unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(f"the image {self.path(name)} cannot be removed", error) from None

    def listed(self) -> tuple[DiskSpec, ...]:
        """The disks that have an image, sorted by name. Raises LabError for a file that is not the lab's own."""
        names = sorted(path.stem for path in self._folder.glob(f"*{_SUFFIX}"))
        found = {name: self.find(name) for name in names}
        return tuple(
            DiskSpec(name=name, kind=DiskKind.FILE, size_bytes=image.st_size) for name, image in found.items() if image
        )

    def flush(self, name: str, *, forgets: bool = False) -> None:
        """Flush an image to this computer's disk; ``forgets``: also drop it from the page cache (posix_fadvise(2))."""
        descriptor = self.open(name, os.O_RDWR)
        try:
            os.fdatasync(descriptor)
            if forgets:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

    def _require_room(self, needed_bytes: int) -> None:
        room = os.statvfs(self._folder)
        available = room.f_bavail * room.f_frsize
        if needed_bytes > available:
            raise LabError(
                f"the disks need up to {human_bytes(needed_bytes)}, and {self._folder} has "
                f"{human_bytes(available)} left",
                hint=f"free some room, ask for smaller or fewer disks, {_ELSEWHERE}",
            )


REGISTRY = f"{RUN_FOLDER}/lab.json"
_LAB_FILE = "lab.json"
_KINDS_TO_LIST = (DiskKind.FILE, DiskKind.LOOP, DiskKind.SPINDLE, DiskKind.RAM)


class LabFolder:
    """A locked folder with the image files of one lab; a scratch folder is removed when it closes."""

    def __init__(self, lock: FolderLock, disk_specs: Sequence[DiskSpec], *, is_scratch: bool) -> None:
        self._lock = lock
        self.images = DiskImages(lock.folder)
        self.specs = tuple(disk_specs)
        self._is_scratch = is_scratch

    @property
    def lock_fd(self) -> int:
        """The lock's descriptor, for an embedded kernel to hold."""
        return self._lock.fd

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_scratch:
            shutil.rmtree(self._lock.folder, ignore_errors=True)
        self._lock.close()

    @property
    def path(self) -> Path:
        return self._lock.folder

    def image(self, spec: DiskSpec) -> Path:
        return self.images.path(spec.name)

    def is_never_written(self, spec: DiskSpec) -> bool:
        """Whether the disk is blank because its image was never written."""
        return self.images.is_never_written(spec.name)

    def add(self, further: Sequence[DiskSpec]) -> None:
        """Add disks to the list for the next start. Raises LabError, with nothing changed, if that is impossible."""
        files = [spec.name for spec in further if spec.kind is DiskKind.FILE]
        # A blank image that is on no list was left by a killed command.
        for name in filter(self.images.is_never_written, files):
            self.images.remove(name)
        before = {name for name in files if self.images.find(name)}
        if before:
            raise LabError(
                f"there is an image {self.images.path(min(before))} already, but no list names it",
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
        """Replace the list of disks for the next start, and remove the images of dropped disks.

        Raises LabError, with nothing changed, if one of these images is not the lab's own.
        """
        check_specs(disk_specs)
        kept = {spec.name for spec in disk_specs if spec.kind is DiskKind.FILE}
        dropped = [spec for spec in self.specs if spec.kind is DiskKind.FILE and spec.name not in kept]
        for spec in dropped:
            self.images.check(spec)
        _save(self._lock.folder, disk_specs)
        for spec in dropped:
            self.images.remove(spec.name)
        self.specs = tuple(disk_specs)

    def drop_host_cache(self, names: Container[str]) -> bool:
        """Flush these disks' images and drop them from this computer's page cache (posix_fadvise(2)).

        False if none of the disks has an image.
        """
        files = self._files(names)
        for name in files:
            self.images.flush(name, forgets=True)
        return bool(files)

    def start_writing_out(self, names: Container[str]) -> None:
        """Flush these disks' images to this computer's disk on a separate thread, to avoid a wait later."""
        files = self._files(names)
        if files:
            threading.Thread(target=self._write_out, args=(files,), name="raidlab-write-out", daemon=True).start()

    def _write_out(self, names: Sequence[str]) -> None:
        """Flush each image; skip those removed in the meantime."""
        for name in names:
            with suppress(OSError, LabError):
                self.images.flush(name)

    def _files(self, names: Container[str]) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs if spec.kind is DiskKind.FILE and spec.name in names)

    def lab_disks(self, file_specs: Sequence[DiskSpec], nodes: Mapping[str, str] = {}) -> tuple[LabDisk, ...]:
        """The disks as the embedded kernel shows them: by serial, else /dev/ubda onwards in order.

        ``nodes``: serial -> node. User Mode Linux has no serials.
        """
        return tuple(
            LabDisk(
                name=spec.name,
                kind=spec.kind,
                node=nodes.get(serial_of(number + 1), f"/dev/ubd{chr(ord('a') + number)}"),
                size_bytes=spec.size_bytes,
                serial=serial_of(number + 1),
                backing=str(self.image(spec)),
            )
            for number, spec in enumerate(file_specs)
        )


def lab_folder(state: StateFolder, name: str) -> LabFolder:
    """The lab with this name, locked; without a list it has the disks whose images exist, or nine disks if it is new.

    Raises LabError for a damaged or invalid list; then no disk is touched.
    """
    lock = state.lock_lab(name)
    path = lock.folder / _LAB_FILE
    try:
        if path.is_symlink() or path.exists():
            return LabFolder(lock, _read_list(path), is_scratch=False)
        listed = DiskImages(lock.folder).listed() or specs(DEFAULT_COUNT, DiskKind.FILE)
        check_specs(listed)
        _save(lock.folder, listed)
        return LabFolder(lock, listed, is_scratch=False)
    except BaseException:
        lock.close()
        raise


def _read_list(path: Path) -> tuple[DiskSpec, ...]:
    try:
        listed = read_own_json(path, tuple[DiskSpec, ...], converted=with_new_keys, error=LabError)
        check_specs(listed)
        odd = next((spec for spec in listed if spec.kind not in _KINDS_TO_LIST or spec.backing), None)
        if odd:
            raise SpecError(f"the embedded kernel has no disk like {odd.name}")
        return listed
    except LabError as error:
        told = error.message if str(path) in error.message else f"'{path}' is damaged: {error.message}"
        hint = "move that file elsewhere: the disks whose images exist are then listed again"
        raise LabError(f"the list of disks {told}", hint=hint) from None


def scratch_folder(state: StateFolder, wanted: Sequence[DiskSpec]) -> LabFolder:
    """A folder for disks that exist for one command only."""
    check_specs(wanted)
    return LabFolder(state.new_instance(), wanted, is_scratch=True)


def ubd_disks(folder: LabFolder, file_specs: Sequence[DiskSpec]) -> tuple[UbdDisk, ...]:
    """The disks with which the embedded kernel is started."""
    return tuple(UbdDisk(folder.image(spec), serial_of(number + 1)) for number, spec in enumerate(file_specs))


def virtio_disks(machine: Machine) -> tuple[LabDisk, ...]:
    """The extra disks of a virtual machine: whole disks with a serial RAIDLAB-NN, named diskNN."""
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


def nodes_by_serial(machine: Machine) -> dict[str, str]:
    """Serial -> node of the machine's disks with a serial RAIDLAB-NN."""
    return {disk.serial: disk.node for disk in virtio_disks(machine)}


def read_registry(machine: Machine) -> tuple[LabDisk, ...]:
    """The disks that earlier commands attached on this machine and that still match their devices."""
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
        told = error.message if isinstance(error, SpecError) else error
        raise LabError(
            f"the list of disks {REGISTRY} on {machine.facts.target} is damaged: {told}",
            hint="remove that file there; disks that it named stay attached until they are detached by hand "
            "(losetup --list), or the machine starts again",
        ) from None
    devices = read_devices(machine)
    kept = []
    for disk in listed:
        device = devices.get(disk.kernel_name)
        is_same = device is not None and device.size_bytes == disk.size_bytes
        if is_same and device is not None and disk.kind is DiskKind.LOOP:
            is_same = device.loop_file == disk.backing
        if is_same:
            kept.append(disk)
    return tuple(kept)


def write_registry(machine: Machine, disks: Sequence[LabDisk]) -> None:
    """Store the list of attached disks on the machine, where it disappears with them at the next boot."""
    machine.write(REGISTRY, msgspec.json.encode(tuple(disks)).decode())


def _save(folder: Path, disk_specs: Sequence[DiskSpec]) -> None:
    data = msgspec.json.format(msgspec.json.encode(tuple(disk_specs)), indent=1)
    write_file(folder / _LAB_FILE, data)
