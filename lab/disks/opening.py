"""Open a lab: the machine with its lab disks. Closing it leaves nothing behind."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from lab.disks.attaching import is_unused, needs_backing, take
from lab.disks.drive_models import find_drive_model
from lab.disks.guard import MOUNT_FOLDER
from lab.disks.inventory import read_devices
from lab.disks.kinds import DiskKind, DiskSpec, LabDisk
from lab.disks.lab import Lab
from lab.disks.lab_files import lab_folder, read_registry, scratch_folder, ubd_disks, virtio_disks, write_registry
from lab.errors import LabError, ToolMissing
from lab.host import signals
from lab.machine import RUN_FOLDER, EmbeddedOptions, Host, Machine, Target, TargetKind, open_machine
from lab.machine.embedded import DEFAULT_MEMORY_BYTES
from lab.machine.kernel_image import find_kernel
from lab.units import MIB

SETTLE_SECONDS = 10.0
DRIVE_SERVER_BYTES = 4 * MIB
"""Memory of the machine for each spindle's server, without the medium."""


class Opener(Protocol):
    """A function that opens a lab; tests supply their own."""

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
    on_notice: Callable[[str], None] = lambda _: None,
    on_machine: Callable[[Machine], None] = lambda _: None,
) -> Iterator[Lab]:
    """Open the machine with its lab disks, and close both in any case.

    Without ``wanted`` this is the persistent lab: the named lab of the embedded kernel (``uml:?name=…``, nine file
    disks when new), or the disks that were attached on the machine. With ``wanted`` the lab has exactly these disks,
    blank, and they are gone when it closes; ``file`` then means the machine's plain disks: virtio if it has them,
    otherwise loop. ``seed``: the seed of all randomness on a machine in virtual time. By default it is new at each
    opening: new objects in a persistent lab must not have the UUIDs of existing ones. ``shown``: files and folders that
    an embedded kernel's guest may read besides the system's.
    """
    if target.kind is not TargetKind.UML:
        with _open_attached(target, host, wanted, on_notice, on_machine) as lab:
            yield lab
        return
    for notice in host.state.sweep():
        on_notice(notice)
    with lab_folder(host.state, target.lab_name) if wanted is None else scratch_folder(host.state, wanted) as folder:
        files = [spec for spec in folder.specs if spec.kind is DiskKind.FILE]
        others = [spec for spec in folder.specs if spec.kind is not DiskKind.FILE]
        folder.images.make(files)
        options = EmbeddedOptions(
            disks=ubd_disks(folder, files),
            memory_bytes=embedded_memory_bytes(others, is_virtual_time=target.is_virtual_time),
            seed=secrets.randbits(63) if seed is None else seed,
            kept_locks=(folder.lock_fd,),
            shown=tuple(shown),
        )
        with open_machine(target, host, embedded=options, on_notice=on_notice) as machine:
            on_machine(machine)
            lab = Lab(machine, host, folder.lab_disks(files), folder=folder)
            lab.attach(others)
            try:
                yield lab
            finally:
                _settle(lab)


def embedded_memory_bytes(wanted: Sequence[DiskSpec], *, is_virtual_time: bool = False) -> int:
    """The memory of an embedded kernel with these disks, which it contains except those of kind ``file``.

    In virtual time it does not contain spindles either: their driver stores them outside the guest's memory.
    """
    outside = (DiskKind.FILE, DiskKind.SPINDLE) if is_virtual_time else (DiskKind.FILE,)
    others = [spec for spec in wanted if spec.kind not in outside]
    memory = DEFAULT_MEMORY_BYTES + sum(spec.size_bytes for spec in others if not spec.backing)
    return memory + sum(_server_bytes(spec) for spec in others if spec.kind is DiskKind.SPINDLE)


def with_fitting_time(
    target: Target, host: Host, wanted: Sequence[DiskSpec], on_notice: Callable[[str], None]
) -> Target:
    """The target in virtual time where that makes figures exact: on the embedded kernel, with emulated drives only.

    A target that names a time or a kernel is unchanged. If the kernel for virtual time is missing, ``on_notice`` is
    called with the command that builds it.
    """
    is_open = target.kind is TargetKind.UML and not {"time", "kernel"} & target.options.keys()
    if not is_open or any(spec.kind is not DiskKind.SPINDLE for spec in wanted):
        return target
    try:
        find_kernel(host.processes, host.files, virtual_time=True)
    except ToolMissing:
        on_notice(
            "drives are emulated in real time; 'make uml-kernel' builds the kernel that makes their figures exact"
        )
        return target
    on_notice("in virtual time: exact, and many times faster than the clock; 'uml:?time=real' chooses real time")
    return target.with_option("time", "virtual")


def _server_bytes(spec: DiskSpec) -> int:
    mechanics = find_drive_model(spec.model).mechanics
    return DRIVE_SERVER_BYTES + (mechanics.write_cache_bytes if mechanics else 0)


def _settle(lab: Lab) -> None:
    """Unmount file systems and stop arrays, so that the next start finds clean arrays.

    Does nothing on a machine that is lost, or whose guest computes endlessly, which nothing preempts in virtual time.
    """
    if not lab.machine.is_answering(SETTLE_SECONDS):
        return
    try:
        devices = read_devices(lab.machine)
        for device in devices.values():
            for place in device.mounted_on:
                if place.startswith(f"{MOUNT_FOLDER}/"):
                    lab.machine.run(("umount", place), check=False)
        # Some mapped devices lie above arrays, others below: each call removes those that are not in use.
        has_mapped = any(name.startswith("dm-") for name in devices)
        if has_mapped:
            lab.machine.run(("dmsetup", "remove_all"), check=False, timeout_seconds=30)
        if any(name.startswith("md") for name in devices):
            lab.machine.run(("mdadm", "--stop", "--scan"), check=False, timeout_seconds=30)
        if has_mapped:
            lab.machine.run(("dmsetup", "remove_all"), check=False, timeout_seconds=30)
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
        # Allow time for the cleanup: arrays left on the disks would start with the machine.
        nullcontext() if wanted is None else signals.unhurried(),
    ):
        on_machine(machine)
        # Absent until the lab's first use after boot; sockets of spindles are created there.
        machine.run(("mkdir", "-p", RUN_FOLDER))
        attached = read_registry(machine)
        covered = {disk.backing for disk in attached if disk.kind is DiskKind.SPINDLE}
        lab = Lab(machine, host, (*(disk for disk in virtio_disks(machine) if disk.node not in covered), *attached))
        if wanted is None:
            yield lab
            write_registry(machine, [disk for disk in lab.disks if disk.kind is not DiskKind.VIRTIO])
            return
        try:
            _choose_plain_disks(lab, wanted)
            yield lab
        finally:
            # Return them blank, as they were: an array left on them would start with the machine.
            with suppress(LabError):
                lab.reset([disk for disk in lab.disks if disk.kind in (DiskKind.VIRTIO, DiskKind.PHYSICAL)])
            lab.release()


def _choose_plain_disks(lab: Lab, wanted: Sequence[DiskSpec]) -> None:
    """Give the lab exactly the requested disks, on the machine's own extra disks as far as there are enough."""
    devices = read_devices(lab.machine)
    free = [disk for disk in lab.disks if disk.kind in (DiskKind.VIRTIO, DiskKind.PHYSICAL)]
    free = [disk for disk in free if is_unused(disk, devices)]
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
