"""On a worker: what the computer has, and one cell measured. Nothing here knows how the work came."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

from lab.errors import LabError, RunCancelled, ToolMissing
from lab.experiments.service import RunRequest, run_experiment
from lab.gates.decoding import decode_json
from lab.host.clock import utc_second_text
from lab.host.files import ALONE, locked, open_lock, take_byte
from lab.machine import Host, Target, parse_target
from lab.machine.embedded import LONGEST_INSTANCE, require_fitting_paths
from lab.machine.kernel_image import find_kernel, kernel_cache
from lab.machine.state_folder import FolderLock, Owner, start_ticks
from lab.measure.conditions import depends_on
from lab.results.record import ResultRecord
from lab.results.store import ResultStore
from lab.sweep.cells import CellStore, CellTask, packed, toml_of
from lab.sweep.node import ENDING

COMMAND = "raidlab sweep"
_FLAVOUR = "virtual-time"
_CLAIMS, _MAKING = ".claims", ".making"
_LOOK_SECONDS = 0.1


class MeasuredCell(msgspec.Struct, frozen=True):
    """What a worker gives for a cell."""

    data: bytes
    """Its file."""
    was_there: bool
    """In that computer's store, where somebody else may have put it meanwhile."""


def sweeps_folder(host: Host) -> Path:
    """Where sweeps and their cells are kept."""
    return host.state.root / "sweeps"


def cell_store(host: Host) -> CellStore:
    """The cells that this computer has."""
    return CellStore(sweeps_folder(host) / "cells")


@cache
def computer() -> str:
    """This computer's name, and its processor."""
    models = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"{os.uname().nodename} ({models[0]}, {len(models)} processors)" if models else os.uname().nodename


def _cpuinfo() -> list[str]:
    return (Host.real().files.read("/proc/cpuinfo") or "").splitlines()


def kernel_path(word: str) -> str:
    """The kernel that is meant by a word of the axis ``kernel``; empty: the one that is installed.

    Raises ToolMissing with the command that builds it.
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
    """What figures of this computer depend on. ``file_disks``: how many disks of kind file a cell has at most.

    Raises ToolMissing for what is not there, SpecError for a state folder in which no machine can be started.
    """
    host, path = Host.real(COMMAND), kernel_path(kernel)
    image = find_kernel(host.processes, host.files, virtual_time=is_virtual_time, chosen=path)
    work = sweeps_folder(host) / "work" / LONGEST_INSTANCE
    require_fitting_paths(host.state.root, work.relative_to(host.state.root), image, file_disks)
    found = depends_on(host, path, virtual_time=is_virtual_time)
    return found if is_virtual_time else {**found, "computer": computer()}


def target_of(task: CellTask) -> Target:
    """The machine on which a cell is measured, on this computer."""
    target = parse_target("uml:").with_option("time", "virtual" if task.is_virtual_time else "real")
    path = kernel_path(task.kernel)
    return target.with_option("kernel", path) if path else target


def measured(payload: bytes) -> bytes:
    """``MeasuredCell`` as msgpack: from this computer's store, or measured now and put there first.

    Raises LabError for a computer that has something else than the cell depends on, and for what stops a run.
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
                f"it was not done within {task.most_seconds:.0f} s, far more than it should take",
                hint="look at what else that computer does",
            ) from None
    moment = utc_second_text(clock)
    return packed(task, record, measured_utc=moment, computer=computer(), seconds=clock.monotonic_seconds() - begin)


@contextmanager
def claimed(key: str, host: Host) -> Iterator[None]:
    """Hold a cell alone on this computer: whoever else is to measure it waits, and then finds it.

    One byte of one file is locked for each, so that nothing is left of it; a worker may have threads.
    """
    folder = host.state.make(cell_store(host).root, what="the folder for cells")
    descriptor = open_lock(folder / _CLAIMS)
    try:
        while not take_byte(descriptor, int(key[:15], 16), folder / _CLAIMS):
            if ENDING.is_set():
                raise RunCancelled("the work was ended before its time")
            host.clock.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def require_same(task: CellTask) -> None:
    """Raises ToolMissing if this computer would measure something else."""
    here = facts(task.kernel, is_virtual_time=task.is_virtual_time)
    if different := differing(task.depends_on, here):
        raise ToolMissing(f"{computer()} has another {different}", hint="install the same there")


def differing(wanted: dict[str, str], here: dict[str, str]) -> str:
    """What differs of two computers, in words; empty: nothing that matters."""
    names = {"kernel": "embedded kernel", "programs": "fio, mdadm or Python", "raidlab": "raidlab"}
    return ", ".join(words for name, words in names.items() if wanted.get(name) != here.get(name))


def _record(task: CellTask, host: Host, is_cancelled: Callable[[], bool]) -> ResultRecord:
    """The cell's record: without documents, and as any computer would write it."""
    target = target_of(task)
    request = RunRequest(target, host, is_cancelled=is_cancelled, allowed_rules=frozenset(task.allowed_rules))
    record = run_experiment(task.experiment, toml_of(task.experiment), request)
    with suppress(LabError):
        ResultStore(host.state.results).delete(record.id)
    # The kernel's path is this computer's own.
    told = str(target) if not task.kernel else str(target).partition("&kernel=")[0] + f"&kernel={task.kernel}"
    cells = tuple(msgspec.structs.replace(cell, raw_file="") for cell in record.cells)
    conditions = msgspec.structs.replace(record.conditions, target=told)
    return msgspec.structs.replace(record, cells=cells, conditions=conditions)


@contextmanager
def work_folder(host: Host) -> Iterator[Path]:
    """A state folder for one cell's machine, removed afterwards; what killed workers left goes first."""
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
    """A folder that is made and not yet locked is not taken for one that was left."""
    return locked(sweeps_folder(host) / _MAKING, ALONE, waits=True)


def sweep_work(host: Host) -> None:
    """Remove what killed workers left, and end their kernels."""
    for folder in sorted((sweeps_folder(host) / "work").glob("*-*")):
        try:
            with _one_at_a_time(host):
                lock = FolderLock(folder, Owner(os.getpid(), COMMAND))
        except (OSError, LabError):
            # Somebody works there, or another one removes it.
            continue
        try:
            host.state.elsewhere(folder).sweep()
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            lock.close()
