"""The disks of a drill: which ones, what uses them, and how they are copied and restored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lab.disks.inventory import read_devices
from lab.disks.kinds import DiskKind, LabDisk
from lab.drills import images_program
from lab.drills.schema import ReadyDrill
from lab.errors import CommandFailed, DrillError
from lab.machine import GuestProgram, TargetKind
from lab.plans import Step
from lab.session.session import LabSession

MACHINE_FOLDER = "/var/lib/raidlab/drill"


def are_own_files(session: LabSession, disks: Sequence[LabDisk]) -> bool:
    """Whether all of these disks are files on this computer, which can be read and written here."""
    return session.target.kind is TargetKind.UML and all(disk.kind is DiskKind.FILE for disk in disks)


_IMAGES = GuestProgram(Path(images_program.__file__), "disk-images")
_STEP_SECONDS = 300.0
SETTLE = Path(__file__).with_name("settle.bash").read_text(encoding="utf-8")
"""Functions that lines for bash may call, in addition to installed programs."""


def needs_clearing(session: LabSession, drill: ReadyDrill) -> bool:
    """Whether the lab's disks are in use. Raises DrillError if the drill's disks are missing."""
    return bool(_busy(session, drill)) or bool(session.statuses())


def _busy(session: LabSession, drill: ReadyDrill) -> set[str]:
    needed = {disk.name for disk in drill_disks(session, drill)}
    return needed - {disk.name for disk in session.free_disks()}


def require_blank(session: LabSession, drill: ReadyDrill) -> None:
    """Raises DrillError unless the lab has the drill's disks, all of them are free, and no array is running."""
    busy = _busy(session, drill)
    if busy or session.statuses():
        used = f"{', '.join(sorted(busy))} {'is' if len(busy) == 1 else 'are'} in use" if busy else "arrays are running"
        raise DrillError(
            f"drill {drill.id} needs blank disks, and {used}",
            hint=f"'raidlab drill start {drill.id} --reset' makes all disks blank, and deletes their data",
        )


def drill_disks(session: LabSession, drill: ReadyDrill) -> tuple[LabDisk, ...]:
    """The lab's disks that the drill uses. Raises DrillError if some are missing."""
    there = {disk.name: disk for disk in session.disks}
    missing = [name for name in drill.disk_names if name not in there]
    if missing:
        raise DrillError(
            f"drill {drill.id} uses {drill.disk_names[0]} to {drill.disk_names[-1]}, and the lab has no "
            f"{', '.join(missing)}",
            hint=f"add some: raidlab disks add --kind file --count {len(missing)}",
        )
    return tuple(there[name] for name in drill.disk_names)


def environment(nodes: Mapping[str, str], drill: ReadyDrill) -> dict[str, str]:
    """Variables for bash: ``$disk01`` is a device, a value that names disks is their devices, separated by spaces.

    ``nodes``: disk name -> device.
    """
    found = dict(nodes)
    for name, value in drill.values.items():
        words = str(value).split(",")
        is_disks = all(word in nodes for word in words)
        found[name] = " ".join(nodes[word] for word in words) if is_disks else str(value)
    return found


def run_lines(session: LabSession, lines: str, values: dict[str, str]) -> str:
    """Run lines for bash, with ``settle``, as root on the machine; returns the output.

    Raises CommandFailed with the error message of the failed line.
    """
    words = [f"{name}={value}" for name, value in values.items()]
    result = session.machine.run(
        ("env", *words, "bash", "-c", SETTLE + lines), check=False, timeout_seconds=_STEP_SECONDS, stdin_text=""
    )
    if result.status:
        said = (result.stderr or result.stdout).strip()[-1000:]
        raise CommandFailed(("bash", lines.strip().splitlines()[-1][:100]), result.status, said)
    return result.stdout


def release(session: LabSession, disks: Iterable[LabDisk]) -> None:
    """Unmount and stop everything that uses these disks: file systems, volumes, arrays, overlays.

    Raises DrillError if something cannot be stopped.
    """
    machine = session.machine
    roots = {disk.kernel_name for disk in disks}
    held: list[str] = []
    for _ in range(4):
        devices = read_devices(machine)
        held = _above(roots, {name: device.holders for name, device in devices.items()})
        places = [place for name in (*held, *roots) if name in devices for place in devices[name].mounted_on]
        if not held and not places:
            break
        for place in sorted(places, reverse=True):
            machine.run(("umount", place), check=False, timeout_seconds=30)
        for name in held:
            if name.startswith("md"):
                machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=30)
            elif name.startswith("dm-") and name in devices:
                machine.run(("dmsetup", "remove", "--retry", devices[name].mapped_name), check=False)
    else:
        raise DrillError(
            f"{', '.join(held) or 'a mounted disk'} could not be stopped",
            hint="stop what uses it, or restart the machine",
        )
    flush(session, tuple(disks))


def _above(roots: Iterable[str], holders: dict[str, tuple[str, ...]]) -> list[str]:
    """All devices stacked on these, the uppermost first."""
    found: list[str] = []
    edge = list(roots)
    while edge:
        edge = [holder for name in edge for holder in holders.get(name, ())]
        found = [*edge, *(name for name in found if name not in edge)]
    return list(dict.fromkeys(found))


def flush(session: LabSession, disks: Sequence[LabDisk]) -> None:
    """Write the machine's caches to the disks, and invalidate the caches of these disks."""
    session.machine.call(_IMAGES, ["flush", json.dumps([disk.node for disk in disks])], timeout_seconds=60)


def images_of(session: LabSession, own_folder: Path, disks: Sequence[LabDisk], work: str) -> list[list[list[int]]]:
    """Do ``keep``, ``put_back`` or ``changed`` for all disks; on this computer if they are files of the lab's folder.

    In that case the copies are in ``own_folder``. Returns a result for each disk. Raises DrillError, CommandFailed.
    """
    if work == "put_back":
        why = "The disks as they were when the drill began."
        session.lab.guard.check(Step(("true",), why, writes_devices=tuple(disk.node for disk in disks)))
    is_own = are_own_files(session, disks)
    folder = str(own_folder) if is_own else MACHINE_FOLDER
    pairs = [[disk.backing if is_own else disk.node, f"{folder}/{disk.name}.img"] for disk in disks]
    arguments = [work, json.dumps(pairs)]
    try:
        text = (
            images_program.main(arguments, lambda: False)
            if is_own
            else session.machine.call(_IMAGES, arguments, timeout_seconds=600)
        )
    except OSError as error:
        raise DrillError(f"the copies of the disks: {error}", hint="see the room on the disk that holds them") from None
    found: list[list[list[int]]] = json.loads(text)
    return found
