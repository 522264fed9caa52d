"""The state folder, which contains running machines, lab disks and results, each guarded by a lock.

A lock is an flock(2) on an open file that the embedded kernel inherits. It is free exactly when the client *and* every
process of its kernel are gone. The leftovers of a killed client are recognised in this way, and are reported and
removed.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import platformdirs

from lab.errors import LabError, MachineBusy
from lab.gates.decoding import ProcessId, SizeBytes
from lab.gates.files import check_own_folder, make_own_folder
from lab.gates.text import checked_name
from lab.host.clock import Clock, polls
from lab.host.files import ALONE, HostFiles, advice, create_file, locked, open_lock, replace_file, take
from lab.host.processes import Processes
from lab.store import RecordFile
from lab.units import human_bytes

STATE_VARIABLE = "RAIDLAB_STATE"
KERNEL_RECORD = "kernel.json"
CONSOLE_LOG = "console.log"
OWNER_RECORD = "owner.json"
LOCK = "lock"
_MAKERS_LOCK = ".makers"
_ORPHAN_WAIT_SECONDS = 3.0


def default_state_root() -> Path:
    """Return ``$RAIDLAB_STATE`` or, if that is not set, the user's state folder (``~/.local/state/raidlab``)."""
    chosen = os.environ.get(STATE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_state_path("raidlab")


def make_folder(path: Path, *, what: str, root: Path | None = None) -> Path:
    """Create a folder to which only this user can write, with ``root`` as for make_own_folder. Raises LabError."""
    try:
        make_own_folder(path, what, root=root)
        probe = path / f".probe-{secrets.token_hex(8)}"
        try:
            # Write a block of data, because an empty file can be created even on a full disk.
            create_file(probe, bytes(4096), is_durable=False)
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        fix = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
        raise LabError(
            f"{what} {path} cannot be written: {error.strerror}",
            hint=f"{fix}, or choose another folder with {STATE_VARIABLE}=FOLDER",
        ) from error
    return path


def memory_folder(instance: Path) -> Path:
    """Return the running machine's own folder in shared memory, to which its kernel can write."""
    return Path("/dev/shm") / f"raidlab-{instance.name}"


def memory_room_bytes(folder: Path) -> int:
    """Return the largest memory size of an embedded kernel whose folder is on the file system of ``folder``."""
    return max(executable_room_bytes(place) for place in (memory_folder(folder).parent, folder))


def executable_room_bytes(folder: Path) -> int:
    """Return the free space for an executable file, or 0 if the folder is missing or mounted noexec."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return 0
    return 0 if room.f_flag & os.ST_NOEXEC else room.f_bavail * room.f_frsize


def make_memory_folder(folder: Path, memory_bytes: int) -> Path:
    """Create the folder of the guest's memory file.

    The folder is in shared memory if that is large enough, or else in the state folder. The kernel also maps the file
    for execution, so the file system must not be mounted noexec.
    """
    for candidate in (memory_folder(folder), folder / "memory"):
        with suppress(OSError):
            if executable_room_bytes(candidate.parent) >= memory_bytes:
                candidate.mkdir(mode=0o700)
                return candidate
    raise LabError(
        f"there is not enough space for {human_bytes(memory_bytes)} of guest memory in /dev/shm or {folder}",
        hint="free some space, or give the kernel less memory: --on 'uml:?mem=256M'",
    )


def remove_instance(folder: Path) -> None:
    """Remove all files of a running machine, however it ended."""
    for path in (memory_folder(folder), folder):
        shutil.rmtree(path, ignore_errors=True)


def start_ticks(files: HostFiles, process_id: int) -> int:
    """Return when a process started, in ticks since boot (proc(5), field 22), or 0 if it has ended. Ids are reused."""
    fields = (files.read(f"/proc/{process_id}/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[0] not in ("Z", "X") else 0


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of a lock, as recorded beside the lock."""

    process_id: int
    command: str
    start_ticks: int = 0

    def __str__(self) -> str:
        return f"'{self.command}' (process {self.process_id})"

    def is_alive(self, files: HostFiles) -> bool:
        """Whether this process, and not another one with the same id, is running."""
        ticks = start_ticks(files, self.process_id)
        return ticks != 0 and self.start_ticks in (0, ticks)


class FolderLock:
    """An exclusive lock on a folder, with a record of its owner. Raises BlockingIOError if it is held."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self.folder = folder
        self.fd = open_lock(folder / LOCK, error=LabError)
        try:
            take(self.fd, ALONE, folder / LOCK)
            # The record need not be durable, because a failure of the host ends the owner as well.
            replace_file(folder / OWNER_RECORD, json.dumps(asdict(owner)).encode(), is_durable=False)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock. A kernel that inherited it holds it until the kernel ends."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def discard(self) -> None:
        """Remove all files of the running machine that owns this folder, and release the lock."""
        remove_instance(self.folder)
        self.close()
        _remove_emptied(self.folder)


def _remove_emptied(folder: Path) -> None:
    """Remove the folder. NFS keeps it for as long as a file in it, such as its lock, is open."""
    with suppress(OSError):
        folder.rmdir()


def read_owner(folder: Path) -> Owner | None:
    """Return the current or last holder of the folder, or None if the record is missing or incomplete."""
    return RecordFile(folder / OWNER_RECORD, Owner).read_or(None)


class _KernelRecord(msgspec.Struct, frozen=True):
    """The record that supervisor.py writes."""

    kernel_group: ProcessId
    kernel_start_ticks: SizeBytes
    supervisor: ProcessId
    supervisor_start_ticks: SizeBytes


def kernel_group(folder: Path) -> int | None:
    """Return the process (and group) ID of a folder's kernel, or None if the record is missing or incomplete."""
    record = RecordFile(folder / KERNEL_RECORD, _KernelRecord).read_or(None)
    return record.kernel_group if record else None


def kill_recorded_kernel(folder: Path, processes: Processes, files: HostFiles) -> bool:
    """Kill the kernel in a folder's record, unless its supervisor is alive and is already doing so."""
    record = RecordFile(folder / KERNEL_RECORD, _KernelRecord).read_or(None)
    if record is None:
        return False
    supervisor = Owner(record.supervisor, "supervisor", record.supervisor_start_ticks)
    group = record.kernel_group
    # A group's id is not given to a new process while the group has members. So if a process other than the recorded
    # kernel has the id, no part of the kernel is left.
    if supervisor.is_alive(files) or start_ticks(files, group) not in (0, record.kernel_start_ticks):
        return False
    processes.kill_group(group)
    # A guest program that is no longer traced continues as a process of the host, may leave the group and start others.
    # It inherits the lock and the console. The lock does not distinguish it from a process that tests the lock, so a
    # program that has closed all its descriptors of the console and kept the lock would not be found.
    owner = read_owner(folder)
    processes.kill_writers(folder, but=LOCK, spared=[owner.process_id] if owner else [])
    return True


class StateFolder:
    """All data that raidlab stores between commands."""

    def __init__(
        self,
        root: Path,
        processes: Processes,
        clock: Clock,
        *,
        command: str = "raidlab",
        files: HostFiles | None = None,
    ) -> None:
        self._root = root.absolute()
        self._processes = processes
        self._clock = clock
        self._files = files or HostFiles()
        self._owner = Owner(os.getpid(), command, start_ticks(self._files, os.getpid()))
        self._notices: list[str] = []

    @property
    def root(self) -> Path:
        """The state folder. Raises LabError if it belongs to another user, or if other users may write to it."""
        try:
            check_own_folder(self._root, "the state folder", may_be_link=True)
        except OSError as error:
            raise LabError(
                f"the state folder {self._root} cannot be used: {error.strerror}",
                hint=f"choose another folder with {STATE_VARIABLE}=FOLDER",
            ) from None
        return self._root

    def elsewhere(self, root: Path) -> StateFolder:
        """Return another state folder at ``root``, for data that must be kept separate from this folder's."""
        return StateFolder(root, self._processes, self._clock, command=self._owner.command, files=self._files)

    @property
    def results(self) -> Path:
        return self.root / "results"

    def lab_folder(self, name: str) -> Path:
        """Return the folder of the named lab's disks, and of other data that must outlive a session."""
        return self.root / "labs" / checked_name(name, "lab")

    def make(self, folder: Path, *, what: str) -> Path:
        """Create a folder in the state folder and verify that it is usable. Raises LabError with the reason."""
        return make_folder(folder, what=what, root=self.root)

    def new_instance(self) -> FolderLock:
        """Create a locked, private folder for one machine. Raises LabError if the state folder cannot be used."""
        parent = self.make(self.root / "machines", what="the folder for machines")
        folder = parent / f"{os.getpid()}-{secrets.token_hex(4)}"
        try:
            with self._one_maker():
                folder.mkdir(mode=0o700)
                return FolderLock(folder, self._owner)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise LabError(
                f"the machine's folder could not be created in {parent}: {error.strerror}",
                hint=advice(error, f"choose another folder with {STATE_VARIABLE}=FOLDER"),
            ) from error

    def lock_lab(self, name: str) -> FolderLock:
        """Lock the named lab's folder and disks. Raises MachineBusy if another client has the lab open."""
        folder = self.make(self.lab_folder(name), what="the lab's folder")
        owner = None
        for is_last in polls(self._clock, _ORPHAN_WAIT_SECONDS, 0.02):
            try:
                return FolderLock(folder, self._owner)
            except BlockingIOError:
                owner = read_owner(folder)
            if is_last or (owner and owner.is_alive(self._files)):
                break
            # A killed client's kernel holds the lock until its supervisor, or the sweep, kills it.
            self._notices += self._sweep_all()
        # Machines of other kinds have only one lab.
        other = f", or open another lab: --on 'uml:?name={name}2' or --on 'qemu:?name={name}2'"
        raise MachineBusy(
            f"the lab '{name}' is open in {owner or 'another raidlab'}",
            hint="close it there" + ("" if name.startswith("at-") else other),
        )

    def sweep(self) -> list[str]:
        """Remove the leftovers of killed clients, and return one sentence for each client."""
        notices = self._notices + self._sweep_all()
        self._notices = []
        return notices

    def _sweep_all(self) -> list[str]:
        try:
            entries = os.scandir(self.root / "machines")
            folders = sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []
        return [notice for folder in folders if (notice := self._sweep_one(folder))]

    def _sweep_one(self, folder: Path) -> str | None:
        killed_kernel = False
        owner = None
        try:
            for is_last in polls(self._clock, _ORPHAN_WAIT_SECONDS, 0.02):
                with self._one_maker(), suppress(BlockingIOError):
                    owner = read_owner(folder) or owner
                    with locked(folder / LOCK, ALONE):
                        remove_instance(folder)
                    _remove_emptied(folder)
                    break
                if is_last or (owner and owner.is_alive(self._files)):
                    return None
                killed_kernel = kill_recorded_kernel(folder, self._processes, self._files) or killed_kernel
        except (OSError, LabError):
            # Another client has just swept the folder, or it belongs to another user.
            return None
        what = "removed the files of its machine"
        if killed_kernel:
            what = "killed its embedded kernel and removed its files"
        return f"{owner or 'An earlier raidlab'} ended without closing its machine; {what}"

    def _one_maker(self) -> AbstractContextManager[None]:
        """Make creating and locking a folder atomic for other clients, because they may remove unlocked folders."""
        return locked(self.root / "machines" / _MAKERS_LOCK, ALONE, waits=True)
