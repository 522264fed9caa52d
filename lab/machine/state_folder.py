"""The state folder: running machines, lab disks and results, each guarded by a lock that dies with its holders.

A lock is an flock(2) on an open file that the embedded kernel inherits, so it is free exactly when the client *and* every
process of its kernel are gone. What a killed client left is recognised by that, reported, and removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from lab.errors import LabError, MachineBusy
from lab.seams.clock import Clock
from lab.seams.processes import Processes

STATE_VARIABLE = "RAIDLAB_STATE"
KERNEL_RECORD = "kernel.json"
OWNER_RECORD = "owner.json"
_ORPHAN_WAIT_SECONDS = 3.0


def default_state_root() -> Path:
    """``$RAIDLAB_STATE``, else the user's state folder (``~/.local/state/raidlab``)."""
    chosen = os.environ.get(STATE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_state_path("raidlab")


def make_folder(path: Path, *, what: str) -> Path:
    """Create a private folder, and prove that it can be written in. Raises LabError with the system's reason."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise LabError(
            f"{what} {path} cannot be written: {error.strerror}",
            hint=f"make it writable, or choose another place with {STATE_VARIABLE}=FOLDER",
        ) from error
    return path


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lock, as they wrote it down."""

    process_id: int
    command: str

    def __str__(self) -> str:
        return f"'{self.command}' (process {self.process_id})"


class FolderLock:
    """An exclusive lock on a folder, with its owner's name beside it."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self.folder = folder
        self.fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.fd)
            raise
        record = {"process_id": owner.process_id, "command": owner.command}
        (folder / OWNER_RECORD).write_text(json.dumps(record), encoding="utf-8")

    def release(self) -> None:
        """Let go; a kernel that inherited the lock still holds it until it ends."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def read_owner(folder: Path) -> Owner | None:
    """Who holds, or last held, the folder; None if that was never written or is torn."""
    try:
        data = json.loads((folder / OWNER_RECORD).read_text(encoding="utf-8"))
        return Owner(int(data["process_id"]), str(data["command"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class StateFolder:
    """Everything that raidlab keeps between commands."""

    def __init__(self, root: Path, processes: Processes, clock: Clock, *, command: str = "raidlab") -> None:
        self.root = root.absolute()
        self._processes = processes
        self._clock = clock
        self._owner = Owner(os.getpid(), command)

    @property
    def results(self) -> Path:
        """Where results are stored."""
        return self.root / "results"

    def new_instance(self) -> FolderLock:
        """A locked, private folder for one running machine."""
        parent = make_folder(self.root / "machines", what="the state folder")
        folder = parent / f"{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        return FolderLock(folder, self._owner)

    def lock_lab(self, name: str) -> FolderLock:
        """The named lab's folder (its disks), locked. Raises MachineBusy if another client has it open."""
        folder = make_folder(self.root / "labs" / name, what="the lab's folder")
        try:
            return FolderLock(folder, self._owner)
        except BlockingIOError:
            owner = read_owner(folder)
            raise MachineBusy(
                f"the lab '{name}' is open in {owner or 'another raidlab'}",
                hint=f"close that one, or work beside it in a lab of another name: --on 'uml:?name={name}2'",
            ) from None

    def sweep(self) -> list[str]:
        """Remove what killed clients left behind, and say so: one sentence for each."""
        machines = self.root / "machines"
        if not machines.is_dir():
            return []
        return [notice for folder in sorted(machines.iterdir()) if (notice := self._sweep_one(folder))]

    def _sweep_one(self, folder: Path) -> str | None:
        owner = read_owner(folder)
        if owner and owner.process_id == os.getpid():
            return None
        killed_kernel = False
        try:
            lock = self._take_over(folder)
            if lock is None:
                if owner and self._processes.is_alive(owner.process_id):
                    return None
                killed_kernel = self._kill_orphan(folder)
                lock = self._wait_for_lock(folder)
                if lock is None:
                    return None
        except OSError:
            return None
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        what = "killed its embedded kernel and removed its files" if killed_kernel else "removed the files of its machine"
        return f"{owner or 'An earlier raidlab'} ended without closing its machine; {what}"

    def _take_over(self, folder: Path) -> int | None:
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def _kill_orphan(self, folder: Path) -> bool:
        try:
            record = json.loads((folder / KERNEL_RECORD).read_text(encoding="ascii"))
            group, warden = int(record["kernel_group"]), int(record["warden"])
        except (OSError, ValueError, KeyError):
            return False
        if self._processes.is_alive(warden):
            # The warden has the same duty and is at it.
            return False
        self._processes.kill_group(group)
        return True

    def _wait_for_lock(self, folder: Path) -> int | None:
        deadline = self._clock.monotonic_seconds() + _ORPHAN_WAIT_SECONDS
        while True:
            lock = self._take_over(folder)
            if lock is not None or self._clock.monotonic_seconds() > deadline:
                return lock
            self._clock.sleep(0.02)
