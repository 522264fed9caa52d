"""The image files of a lab's file disks: the one place that makes, opens, measures and removes them.

The guarantee: every image that the lab writes, blanks or removes is a file that it created itself, in its own folder,
without other hard links. No link and no name leads to any other file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lab.disks.kinds import DiskKind, DiskSpec, checked_disk_name
from lab.errors import LabError
from lab.gates.files import open_plain
from lab.gates.own import check_own_folder, make_own_folder
from lab.host.files import storage_error
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
        """Whether the image has no allocated block, so that the disk is blank (stat(2), st_blocks)."""
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
                hint="move the file to another place, where its data stay: the disk is then made anew, blank",
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
