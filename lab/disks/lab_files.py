"""Where a lab's disks are kept: image files of an embedded kernel's disks, and the list of those attached elsewhere."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from lab.disks.images import DiskImages
from lab.disks.inventory import read_devices
from lab.disks.kinds import DEFAULT_COUNT, SERIAL_PREFIX, DiskKind, DiskSpec, LabDisk, check_specs, serial_of, specs
from lab.errors import LabError, SpecError
from lab.gates.own import decoded_json, read_own_json
from lab.host.files import write_file
from lab.machine import RUN_FOLDER, Machine, UbdDisk
from lab.machine.state_folder import FolderLock, StateFolder
from lab.old_names import with_new_keys

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
        """The folder itself."""
        return self._lock.folder

    def image(self, spec: DiskSpec) -> Path:
        """The image file of one disk."""
        return self.images.path(spec.name)

    def is_never_written(self, spec: DiskSpec) -> bool:
        """Whether nothing can be on the disk."""
        return self.images.is_never_written(spec.name)

    def add(self, further: Sequence[DiskSpec]) -> None:
        """Put disks on the list for the next start. Raises LabError, with nothing changed, if they cannot be."""
        files = [spec.name for spec in further if spec.kind is DiskKind.FILE]
        # A blank image that is on no list is what a killed command left.
        for name in filter(self.images.is_never_written, files):
            self.images.remove(name)
        before = {name for name in files if self.images.find(name)}
        if before:
            raise LabError(
                f"there is an image {self.images.path(min(before))} already, which is on no list",
                hint="move it to another place, where its data stay",
            )
        self.images.make([spec for spec in further if spec.kind is DiskKind.FILE])
        try:
            self.save((*self.specs, *further))
        except BaseException:
            for name in files:
                self.images.remove(name)
            raise

    def save(self, disk_specs: Sequence[DiskSpec]) -> None:
        """Keep another list of disks for the next start; images of dropped disks are removed.

        Raises LabError, with nothing changed, if one of these is no image of the lab's own.
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
        """Write these disks' images out and ask this computer to forget its cached copy of them (posix_fadvise(2)).

        False where none of them has an image.
        """
        files = self._files(names)
        for name in files:
            self.images.flush(name, forgets=True)
        return bool(files)

    def start_writing_out(self, names: Container[str]) -> None:
        """Write these disks' images to this computer's disk, on a thread of its own, so that nobody waits later."""
        files = self._files(names)
        if files:
            threading.Thread(target=self._write_out, args=(files,), name="raidlab-write-out", daemon=True).start()

    def _write_out(self, names: Sequence[str]) -> None:
        """Flush each image; one that was removed meanwhile needs it no more."""
        for name in names:
            with suppress(OSError, LabError):
                self.images.flush(name)

    def _files(self, names: Container[str]) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs if spec.kind is DiskKind.FILE and spec.name in names)

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
    """The lab of this name, locked; one without a list has the disks whose images are there, a new one nine.

    Raises LabError for a list that is damaged or asks for what cannot be: then no disk is touched.
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
        hint = "move that file to another place: the disks whose images are there are then listed anew"
        raise LabError(f"the list of disks {told}", hint=hint) from None


def scratch_folder(state: StateFolder, wanted: Sequence[DiskSpec]) -> LabFolder:
    """A folder for disks that last as long as one command."""
    check_specs(wanted)
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
        listed = decoded_json(text, tuple[LabDisk, ...], converted=with_new_keys)
        for disk in listed:
            disk.validate()
        if len({disk.name for disk in listed}) < len(listed):
            raise SpecError("several disks have one name")
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
    """Keep the list of attached disks on the machine, where it vanishes with them at the next start."""
    machine.write(REGISTRY, msgspec.json.encode(tuple(disks)).decode())


def _save(folder: Path, disk_specs: Sequence[DiskSpec]) -> None:
    data = msgspec.json.format(msgspec.json.encode(tuple(disk_specs)), indent=1)
    write_file(folder / _LAB_FILE, data)
