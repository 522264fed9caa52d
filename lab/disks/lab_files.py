"""Where a lab's disks are kept: image files of an embedded kernel's disks, and the list of those attached elsewhere."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from lab.disks.inventory import read_devices
from lab.disks.kinds import DEFAULT_COUNT, SERIAL_PREFIX, DiskKind, DiskSpec, LabDisk, serial_of, specs
from lab.errors import LabError
from lab.host.files import write_file
from lab.machine import RUN_FOLDER, Machine, UbdDisk
from lab.machine.state_folder import FolderLock, StateFolder, make_folder
from lab.old_names import with_new_keys
from lab.units import human_bytes

REGISTRY = f"{RUN_FOLDER}/lab.json"
_LAB_FILE = "lab.json"


class LabFolder:
    """A locked folder with the image files of one lab; a scratch folder is removed when it closes."""

    def __init__(self, lock: FolderLock, disk_specs: Sequence[DiskSpec], *, is_scratch: bool) -> None:
        self._lock = lock
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

    def image(self, spec: DiskSpec) -> Path:
        """The image file of one disk."""
        return self._lock.folder / "disks" / f"{spec.name}.img"

    def is_never_written(self, spec: DiskSpec) -> bool:
        """Whether the image has no block at all, so that nothing can be on the disk (stat(2), st_blocks)."""
        return self.image(spec).stat().st_blocks == 0

    def make_files(self, wanted: Sequence[DiskSpec]) -> None:
        """Create missing image files, sparse and of exact size; existing ones keep their data.

        Raises LabError if the file system has no room for them or an existing image has another size.
        """
        folder = make_folder(self._lock.folder / "disks", what="the folder for disk images")
        missing = [spec for spec in wanted if not self.image(spec).exists()]
        _require_room(folder, sum(spec.size_bytes for spec in missing))
        for spec in missing:
            with self.image(spec).open("xb") as file:
                file.truncate(spec.size_bytes)
        for spec in wanted:
            size = self.image(spec).stat().st_size
            if size != spec.size_bytes:
                raise LabError(
                    f"the image {self.image(spec)} has {size} bytes instead of {spec.size_bytes}",
                    hint="remove the file, and the disk with its data is made anew",
                )

    def save(self, disk_specs: Sequence[DiskSpec]) -> None:
        """Keep another list of disks for the next start; images of dropped disks are removed."""
        kept = {spec.name for spec in disk_specs if spec.kind is DiskKind.FILE}
        _save(self._lock.folder, disk_specs)
        for spec in self.specs:
            if spec.kind is DiskKind.FILE and spec.name not in kept:
                self.image(spec).unlink(missing_ok=True)
        self.specs = tuple(disk_specs)

    def drop_host_cache(self, names: Container[str]) -> bool:
        """Write these disks' images out and ask this computer to forget its cached copy of them (posix_fadvise(2)).

        False where none of them has an image.
        """
        images = self._images(names)
        for image in images:
            _flush(image, forgets=True)
        return bool(images)

    def start_writing_out(self, names: Container[str]) -> None:
        """Write these disks' images to this computer's disk, on a thread of its own, so that nobody waits later."""
        images = self._images(names)
        if images:
            threading.Thread(target=_write_out, args=(images,), name="raidlab-write-out", daemon=True).start()

    def _images(self, names: Container[str]) -> tuple[Path, ...]:
        return tuple(self.image(spec) for spec in self.specs if spec.kind is DiskKind.FILE and spec.name in names)

    def lab_disks(self, file_specs: Sequence[DiskSpec]) -> tuple[LabDisk, ...]:
        """The disks as the embedded kernel shows them: /dev/ubda onwards in order."""
        return tuple(
            LabDisk(
                name=spec.name,
                kind=spec.kind,
                node=f"/dev/ubd{chr(ord('a') + number)}",
                size_bytes=spec.size_bytes,
                serial=serial_of(number + 1),
                backing=str(self.image(spec)),
            )
            for number, spec in enumerate(file_specs)
        )


def lab_folder(state: StateFolder, name: str) -> LabFolder:
    """The lab of this name, locked; a new one has nine file disks."""
    lock = state.lock_lab(name)
    try:
        text = (lock.folder / _LAB_FILE).read_bytes()
    except FileNotFoundError:
        wanted = specs(DEFAULT_COUNT, DiskKind.FILE)
        _save(lock.folder, wanted)
        return LabFolder(lock, wanted, is_scratch=False)
    try:
        listed = msgspec.convert(with_new_keys(msgspec.json.decode(text)), tuple[DiskSpec, ...])
        return LabFolder(lock, listed, is_scratch=False)
    except (msgspec.MsgspecError, UnicodeError) as error:
        lock.close()
        path = lock.folder / _LAB_FILE
        raise LabError(
            f"the list of disks {path} is damaged: {error}", hint="remove that file; the images stay"
        ) from None


def scratch_folder(state: StateFolder, wanted: Sequence[DiskSpec]) -> LabFolder:
    """A folder for disks that last as long as one command."""
    for spec in wanted:
        spec.validate()
    return LabFolder(state.new_instance(), wanted, is_scratch=True)


def ubd_disks(folder: LabFolder, file_specs: Sequence[DiskSpec]) -> tuple[UbdDisk, ...]:
    """What the embedded kernel is started with."""
    return tuple(UbdDisk(folder.image(spec), serial_of(number + 1)) for number, spec in enumerate(file_specs))


def virtio_disks(machine: Machine) -> tuple[LabDisk, ...]:
    """The extra disks of a virtual machine: whole disks with a serial RAIDLAB-NN, named disk01 onwards by it."""
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
    """The disks that earlier commands attached on this machine and that are still what they were."""
    text = machine.read([REGISTRY])[REGISTRY]
    if not text:
        return ()
    try:
        listed = msgspec.convert(with_new_keys(msgspec.json.decode(text)), tuple[LabDisk, ...])
    except msgspec.MsgspecError:
        return ()
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
    """Keep the list of attached disks on the machine, where it vanishes with them at the next start."""
    machine.write(REGISTRY, msgspec.json.encode(tuple(disks)).decode())


def _write_out(images: Sequence[Path]) -> None:
    """Flush each image; one that was removed meanwhile needs it no more."""
    for image in images:
        with suppress(OSError):
            _flush(image)


def _flush(image: Path, *, forgets: bool = False) -> None:
    fd = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
        if forgets:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _save(folder: Path, disk_specs: Sequence[DiskSpec]) -> None:
    data = msgspec.json.format(msgspec.json.encode(tuple(disk_specs)), indent=1)
    write_file(folder / _LAB_FILE, data)


def _require_room(folder: Path, needed_bytes: int) -> None:
    room = os.statvfs(folder)
    available = room.f_bavail * room.f_frsize
    if needed_bytes > available:
        raise LabError(
            f"the disks need up to {human_bytes(needed_bytes)}, and {folder} has {human_bytes(available)} left",
            hint="free some room, or put the state folder elsewhere with RAIDLAB_STATE=FOLDER",
        )
