"""The work of a sweep's worker: measure one cell, and describe the computer.

This module is independent of how tasks reach the worker.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

from lab.errors import LabError, RunCancelled, ToolMissing
from lab.experiments.run import RunRequest, run_experiment
from lab.gates.decoding import decode_json
from lab.host.clock import utc_second_text
from lab.host.files import ALONE, locked, open_lock, take_byte
from lab.machine import Host, Target, parse_target
from lab.machine.embedded import LONGEST_INSTANCE, require_fitting_paths
from lab.machine.kernel_image import find_kernel, kernel_cache
from lab.machine.state_folder import FolderLock, Owner, start_ticks
from lab.measure.job import depends_on
from lab.results.record import ResultRecord
from lab.results.store import ResultStore
from lab.sweep.store import CellTask, cell_store, packed, sweeps_folder, toml_of

COMMAND = "raidlab sweep"
ENDING = threading.Event()
"""Set when this process is to end; running work stops as soon as it can."""
_FLAVOUR = "virtual-time"
_CLAIMS, _MAKING = ".claims", ".making"
_LOOK_SECONDS = 0.1


class MeasuredCell(msgspec.Struct, frozen=True):
    """A worker's result for one cell."""

    data: bytes
    """The content of the cell's file."""
    was_there: bool
    """Whether the worker's store already had the cell, possibly added by another process after planning."""


@cache
def computer() -> str:
    """Host name of this computer, with the model and number of its processors."""
    models = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"{os.uname().nodename} ({models[0]}, {len(models)} processors)" if models else os.uname().nodename


def _cpuinfo() -> list[str]:
    return (Host.real().files.read("/proc/cpuinfo") or "").splitlines()


def kernel_path(word: str) -> str:
    """Path of the kernel for a value of the ``kernel`` axis; empty for the installed kernel.

    ``word`` is a version, a path, or empty. Raises ToolMissing, with the build command in its hint, unless exactly one
    built kernel has the version.
    """
    if not word or "/" in word:
        return word
    folders = sorted(kernel_cache().glob(f"{_FLAVOUR}-*"))
    found = [each for each in folders if _is_version(each.name.removeprefix(f"{_FLAVOUR}-"), word)]
    if len(found) != 1:
        there = ", ".join(each.name.removeprefix(f"{_FLAVOUR}-") for each in found or folders)
        raise ToolMissing(
            f"there {'are several kernels' if found else 'is no kernel'} '{word}' with virtual time: {there or 'none'}",
            hint=f"provision/kernel/build-uml.sh {_FLAVOUR} --source {shlex.quote(f'linux-source-{word}.tar.xz')}",
        )
    return str(found[0] / "linux")


def _is_version(version: str, word: str) -> bool:
    return version == word or version.startswith(f"{word}.")


def facts(kernel: str, *, is_virtual_time: bool, file_disks: int = 0) -> dict[str, str]:
    """The conditions on which this computer's figures depend, as name -> value (lab.measure.job).

    ``file_disks`` is the maximum number of disks of kind file in a cell. Raises ToolMissing for a missing program or
    kernel, SpecError if the path of the state folder prevents a machine from starting.
    """
    host, path = Host.real(COMMAND), kernel_path(kernel)
    image = find_kernel(host.processes, host.files, virtual_time=is_virtual_time, chosen=path)
    work = sweeps_folder(host) / "work" / LONGEST_INSTANCE
    require_fitting_paths(host.state.root, work.relative_to(host.state.root), image, file_disks)
    found = depends_on(host, path, virtual_time=is_virtual_time)
    return found if is_virtual_time else {**found, "computer": computer()}


def target_of(task: CellTask) -> Target:
    """The machine that measures a cell on this computer. Raises ToolMissing as ``kernel_path``."""
    target = parse_target("uml:").with_option("time", "virtual" if task.is_virtual_time else "real")
    path = kernel_path(task.kernel)
    return target.with_option("kernel", path) if path else target


def measured(payload: bytes) -> bytes:
    """Measure a cell, or take it from this computer's store; returns ``MeasuredCell`` as msgpack.

    ``payload`` is a CellTask as JSON. A newly measured cell is added to the store first. Raises ToolMissing if this
    computer does not match ``CellTask.depends_on``, and LabError if the run fails.
    """
    task = decode_json(payload, CellTask)
    host = Host.real(COMMAND)
    store = cell_store(host)
    with claimed(task.key, host):
        if was_there := store.load(task.key) is not None:
            data = store.read(task.key) or b""
        else:
            require_same(task)
            data = _measured_now(task, host)
            store.add(task.key, data)
    return msgspec.msgpack.encode(MeasuredCell(data, was_there))


def _measured_now(task: CellTask, host: Host) -> bytes:
    clock = host.clock
    begin = clock.monotonic_seconds()

    def is_too_late() -> bool:
        return clock.monotonic_seconds() > begin + task.most_seconds

    with work_folder(host) as work:
        try:
            there = replace(host, state=host.state.elsewhere(work))
            record = _record(task, there, lambda: ENDING.is_set() or is_too_late())
        except RunCancelled:
            if not is_too_late():
                raise
            raise LabError(
                f"not finished within {task.most_seconds:.0f} s, far more than it should take",
                hint="check what else that computer is doing",
            ) from None
    moment = utc_second_text(clock)
    return packed(task, record, measured_utc=moment, computer=computer(), seconds=clock.monotonic_seconds() - begin)


@contextmanager
def claimed(key: str, host: Host) -> Iterator[None]:
    """Hold the lock of a cell on this computer. Raises RunCancelled if the process is to end while it waits.

    Another worker that needs the same cell waits, and then finds it in the store. Each cell locks one byte of one
    common file, so no lock files accumulate. The locks also exclude each other between threads.
    """
    folder = host.state.make(cell_store(host).root, what="the folder for cells")
    descriptor = open_lock(folder / _CLAIMS)
    try:
        while not take_byte(descriptor, int(key[:15], 16), folder / _CLAIMS):
            if ENDING.is_set():
                raise RunCancelled("the work was cancelled")
            host.clock.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def require_same(task: CellTask) -> None:
    """Check that this computer gives the figures that were planned. Raises ToolMissing if it does not."""
    here = facts(task.kernel, is_virtual_time=task.is_virtual_time)
    if different := differing(task.depends_on, here):
        raise ToolMissing(f"{computer()} has another {different}", hint="install the same there")


def differing(wanted: dict[str, str], here: dict[str, str]) -> str:
    """The differences between two results of ``facts``, as text for a message; empty if none matters."""
    names = {"kernel": "embedded kernel", "programs": "fio, mdadm or Python", "raidlab": "raidlab"}
    return ", ".join(words for name, words in names.items() if wanted.get(name) != here.get(name))


def _record(task: CellTask, host: Host, is_cancelled: Callable[[], bool]) -> ResultRecord:
    """The cell's record, without raw documents and this computer's paths, so it is the same on any computer."""
    target = target_of(task)
    request = RunRequest(target, host, is_cancelled=is_cancelled, allowed_rules=frozenset(task.allowed_rules))
    record = run_experiment(task.experiment, toml_of(task.experiment), request)
    with suppress(LabError):
        ResultStore(host.state.results).delete(record.id)
    # The path of the kernel is specific to this computer.
    told = str(target) if not task.kernel else str(target).partition("&kernel=")[0] + f"&kernel={task.kernel}"
    cells = tuple(msgspec.structs.replace(cell, raw_file="") for cell in record.cells)
    conditions = msgspec.structs.replace(record.conditions, target=told)
    return msgspec.structs.replace(record, cells=cells, conditions=conditions)


@contextmanager
def work_folder(host: Host) -> Iterator[Path]:
    """A state folder for one cell's machine, removed on exit; folders left by killed workers are removed first."""
    parent = host.state.make(sweeps_folder(host) / "work", what="the folder for work on cells")
    sweep_work(host)
    folder = parent / f"{os.getpid()}-{secrets.token_hex(4)}"
    with _one_at_a_time(host):
        folder.mkdir(mode=0o700)
        lock = FolderLock(folder, Owner(os.getpid(), COMMAND, start_ticks(host.files, os.getpid())))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _one_at_a_time(host: Host) -> AbstractContextManager[None]:
    """Serialize creating and removing work folders, so a new folder without a lock is not taken for a leftover."""
    return locked(sweeps_folder(host) / _MAKING, ALONE, waits=True)


def sweep_work(host: Host) -> None:
    """Remove the work folders of killed workers, and end their kernels."""
    for folder in sorted((sweeps_folder(host) / "work").glob("*-*")):
        try:
            with _one_at_a_time(host):
                lock = FolderLock(folder, Owner(os.getpid(), COMMAND))
        except (OSError, LabError):
            # The folder is in use, or another process is removing it.
            continue
        try:
            host.state.elsewhere(folder).sweep()
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.close()
