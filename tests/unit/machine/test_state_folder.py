"""Leftovers of a killed client are recognised by their lock, and nothing in use is removed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.errors import LabError, MachineBusy
from lab.host.clock import HostClock
from lab.host.files import HostFiles
from lab.host.processes import Processes
from lab.machine.state_folder import (
    KERNEL_RECORD,
    FolderLock,
    Owner,
    StateFolder,
    default_state_root,
    kill_recorded_kernel,
    make_folder,
    memory_folder,
    read_owner,
)
from tests.waiting import PATIENCE_SECONDS

DEAD, ALIVE, ZOMBIE = 11, 22, 33


@dataclass
class FakeProcesses(Processes):
    """Records which groups and writers were killed; killing a group closes its descriptors."""

    killed: list[int] = field(default_factory=list)
    writers_below: list[tuple[Path, str, tuple[int, ...]]] = field(default_factory=list)
    held_fds: dict[int, int] = field(default_factory=dict)

    def kill_group(self, group_id: int) -> None:
        self.killed.append(group_id)
        if group_id in self.held_fds:
            os.close(self.held_fds.pop(group_id))

    def kill_writers(self, folder: Path, *, but: str, spared: Collection[int]) -> None:
        self.writers_below.append((folder, but, tuple(spared)))


def stat_line(pid: int, state: str, ticks: int) -> str:
    return f"{pid} (a (name) ) {state} " + " ".join(["0"] * 18) + f" {ticks} 0 0\n"


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    for pid, state in ((ALIVE, "S"), (ZOMBIE, "Z"), (os.getpid(), "R")):
        folder = tmp_path / "computer" / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(stat_line(pid, state, 500))
    return HostFiles(tmp_path / "computer")


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
def state(tmp_path: Path, files: HostFiles, processes: FakeProcesses) -> StateFolder:
    return StateFolder(tmp_path / "state", processes, HostClock(), files=files)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for an orphan for as long as a busy computer needs."""
    monkeypatch.setattr("lab.machine.state_folder._ORPHAN_WAIT_SECONDS", PATIENCE_SECONDS)


def leave(state: StateFolder, owner: Owner, **kernel: int) -> FolderLock:
    """Create an instance like one of another client."""
    lock = state.new_instance()
    lock.close()
    if kernel:
        (lock.folder / KERNEL_RECORD).write_text(json.dumps(kernel))
    return FolderLock(lock.folder, owner)


RECORD = {"supervisor": DEAD, "supervisor_start_ticks": 1, "kernel_group": 77, "kernel_start_ticks": 2}


def test_what_lives_is_left_alone(state: StateFolder) -> None:
    mine = state.new_instance()
    other = leave(state, Owner(ALIVE, "other", 500))
    assert state.sweep() == []
    assert mine.folder.is_dir()
    assert other.folder.is_dir()
    for lock in (mine, other):
        lock.close()


def test_files_of_dead_owners_are_removed_and_reported(state: StateFolder) -> None:
    gone = leave(state, Owner(DEAD, "raidlab run", 5))
    gone.close()
    memory = memory_folder(gone.folder)
    memory.mkdir()
    (memory / "of a kernel that cannot make files without a name").touch()
    assert state.sweep() == [
        f"'raidlab run' (process {DEAD}) ended without closing its machine; removed the files of its machine"
    ]
    assert not gone.folder.exists()
    assert not memory.exists()
    assert state.sweep() == []


def test_on_nfs_a_folder_is_removed_when_its_lock_has_been_closed(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_files(folder: Path, **_: bool) -> None:
        for path in folder.glob("*"):
            path.unlink()

    gone, mine = leave(state, Owner(DEAD, "raidlab run", 5)), state.new_instance()
    gone.close()
    monkeypatch.setattr("shutil.rmtree", remove_files)
    mine.discard()
    assert len(state.sweep()) == 1
    assert not mine.folder.exists()
    assert not gone.folder.exists()


def test_a_client_killed_before_it_could_lock_is_swept_too(state: StateFolder) -> None:
    state.new_instance().close()
    (state.root / "machines" / "99-half").mkdir()
    assert len(state.sweep()) == 2


@pytest.mark.parametrize("owner", [Owner(DEAD, "x", 5), Owner(ZOMBIE, "x", 500), Owner(ALIVE, "x", 499)])
def test_an_orphaned_kernel_is_killed(state: StateFolder, processes: FakeProcesses, owner: Owner) -> None:
    lock = leave(state, owner, **RECORD)
    processes.held_fds[77] = lock.fd
    (notice,) = state.sweep()
    assert "killed its embedded kernel" in notice
    assert processes.killed == [77]
    assert processes.writers_below == [(lock.folder, "lock", (owner.process_id,))]
    assert not lock.folder.exists()


@pytest.mark.usefixtures("patience")
def test_a_supervisors_own_work_is_awaited(state: StateFolder, processes: FakeProcesses) -> None:
    lock = leave(state, Owner(DEAD, "x", 5), **{**RECORD, "supervisor": ALIVE, "supervisor_start_ticks": 500})
    supervisor = threading.Timer(0.2, lock.close)
    supervisor.start()
    (notice,) = state.sweep()
    assert "removed the files" in notice
    assert processes.killed == []
    supervisor.join()


def test_a_group_id_that_was_used_again_is_not_killed(
    state: StateFolder, processes: FakeProcesses, files: HostFiles
) -> None:
    lock = leave(state, Owner(DEAD, "x", 5), **{**RECORD, "kernel_group": ALIVE})
    assert not kill_recorded_kernel(lock.folder, processes, files)
    assert processes.killed == []
    lock.close()


@pytest.mark.parametrize(
    "record",
    ["", "{}", "[1]", '{"supervisor": null}', "[" * 100_000]
    + [json.dumps({**RECORD, "kernel_group": group}) for group in (-1, 0, 1, 10**30)],
)
def test_a_torn_record_kills_nothing(tmp_path: Path, processes: FakeProcesses, files: HostFiles, record: str) -> None:
    (tmp_path / KERNEL_RECORD).write_text(record)
    assert not kill_recorded_kernel(tmp_path, processes, files)
    (tmp_path / "owner.json").write_text(record)
    assert read_owner(tmp_path) is None


def test_a_link_among_the_machines_leads_nowhere(state: StateFolder, tmp_path: Path) -> None:
    state.new_instance().close()
    precious = tmp_path / "precious"
    precious.mkdir()
    (state.root / "machines" / "link").symlink_to(precious)
    (state.root / "machines" / "file").write_text("no machine")
    assert len(state.sweep()) == 1
    assert precious.is_dir()
    assert not list(precious.iterdir())


@pytest.mark.parametrize("make", [os.mkfifo, lambda lock: lock.symlink_to("/dev/null"), lambda lock: lock.mkdir()])
def test_a_lock_that_is_not_a_regular_file_is_reported(state: StateFolder, make: Callable[[Path], None]) -> None:
    state.lock_lab("default").close()
    lock = state.lab_folder("default") / "lock"
    lock.unlink()
    make(lock)
    with pytest.raises(LabError, match=r"default/lock.*\n.*move it elsewhere"):
        state.lock_lab("default")


@pytest.mark.parametrize("name", ["..", "../x", "", "a/b", "-a", "a" * 129, "a\0"])
def test_a_lab_is_never_elsewhere(state: StateFolder, name: str) -> None:
    with pytest.raises(LabError, match="cannot be the name of a lab"):
        state.lock_lab(name)


def test_a_state_folder_in_which_others_may_write_is_refused_by_whatever_uses_it(state: StateFolder) -> None:
    state.new_instance().close()
    state.root.chmod(0o777)
    uses: list[Callable[[], object]] = [state.sweep, state.new_instance, lambda: state.results]
    for use in uses:
        with pytest.raises(LabError, match="other users may write to the state folder"):
            use()


def test_a_folder_in_the_making_is_never_swept(state: StateFolder, tmp_path: Path, files: HostFiles) -> None:
    sweeper = StateFolder(state.root, FakeProcesses(), HostClock(), files=files)
    notices: list[str] = []
    is_over = threading.Event()

    def sweep_on() -> None:
        while not is_over.is_set():
            notices.extend(sweeper.sweep())

    thread = threading.Thread(target=sweep_on)
    thread.start()
    locks = [state.new_instance() for _ in range(200)]
    is_over.set()
    thread.join()
    assert notices == []
    assert all((lock.folder / "lock").exists() for lock in locks)
    for lock in locks:
        lock.close()


def test_a_lab_is_open_once(state: StateFolder) -> None:
    lock = state.lock_lab("default")
    with pytest.raises(MachineBusy, match=rf"is open in 'raidlab' \(process {os.getpid()}\)\n.*\?name=default2"):
        state.lock_lab("default")
    lock.close()
    state.lock_lab("default").close()


@pytest.mark.usefixtures("patience")
def test_a_lab_of_a_killed_client_opens_as_soon_as_its_kernel_has_ended(
    state: StateFolder, processes: FakeProcesses
) -> None:
    lab = state.lock_lab("default")
    (lab.folder / "owner.json").write_text(json.dumps({"process_id": DEAD, "command": "x", "start_ticks": 5}))
    machine = leave(state, Owner(DEAD, "x", 5), **RECORD)
    processes.held_fds[77] = machine.fd
    threading.Timer(0.1, lab.close).start()
    state.lock_lab("default").close()
    assert len(state.sweep()) == 1


@pytest.mark.parametrize("place", ["proc/raidlab", "etc/passwd/raidlab"])
def test_an_unwritable_state_folder_is_reported(place: str) -> None:
    unusable = StateFolder(Path("/") / place, FakeProcesses(), HostClock())
    assert unusable.sweep() == []
    with pytest.raises(LabError, match=r"cannot be written: .*\n.*RAIDLAB_STATE=FOLDER"):
        unusable.new_instance()
    with pytest.raises(LabError, match="cannot be written: "):
        unusable.lock_lab("default")


def test_the_state_folder_is_private_and_chosen_by_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_folder(tmp_path / "new", what="it").stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    assert default_state_root() == tmp_path
    monkeypatch.delenv("RAIDLAB_STATE")
    assert default_state_root().name == "raidlab"
