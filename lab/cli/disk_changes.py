"""Adding and removing disks: on a machine at once, in an embedded lab by its list while it is closed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lab.arrays.superblock import SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, parse_superblock
from lab.cli.context import Context, is_terminal
from lab.cli.output import err
from lab.disks import DiskKind, DiskSpec
from lab.disks.lab_files import LabFolder, lab_folder
from lab.errors import DeviceRefused, SpecError
from lab.session.more_disks import add_to_list, new_specs
from lab.tomlfile import unknown_word


def confirm_physical(path: str, again: str | None) -> None:
    """Raises DeviceRefused unless the path of a physical disk was typed twice."""
    if again is None and is_terminal():
        err(f"raidlab: everything on {path} may be lost. Type its path again to go on:")
        again = sys.stdin.readline().strip()
    if again != path:
        told = f"'{again}' is not '{path}'" if again else "it was typed once"
        raise DeviceRefused(
            f"{path} is not taken into the lab: {told}", hint=f"type it twice: disks add {path} … --confirm {path}"
        )


def add_to_machine(
    context: Context, kind: DiskKind, count: int, size_bytes: int, personality: str, path: str
) -> list[str]:
    """Attach disks on a machine that keeps them between commands."""
    with context.open_lab() as lab:
        made = lab.attach(new_specs([disk.name for disk in lab.disks], kind, count, size_bytes, personality, path))
    return [disk.name for disk in made]


def add_to_folder(
    context: Context, kind: DiskKind, count: int, size_bytes: int, personality: str, path: str
) -> list[str]:
    """Put disks on the list of the embedded lab; the next start makes them."""
    with _folder(context) as folder:
        made = add_to_list(folder, kind, count, size_bytes, personality, path)
    if kind is not DiskKind.FILE:
        context.narrator.notice(
            f"{kind} disks live in the embedded kernel's memory: each command starts with blank ones"
        )
    return list(made)


def remove_from_folder(context: Context, names: Sequence[str]) -> list[str]:
    """Take disks off the list of the embedded lab. Raises DeviceRefused for members of arrays."""
    with _folder(context) as folder:
        known = {spec.name: spec for spec in folder.specs}
        for name in names:
            if name not in known:
                raise unknown_word("lab disk", name, known)
            if array := array_on_image(folder, known[name]):
                raise DeviceRefused(
                    f"{name} is a member of array {array}",
                    hint=f"'raidlab array destroy' removes the array, 'raidlab disks reset {name}' makes a disk blank",
                )
        left = [spec for spec in folder.specs if spec.name not in names]
        if not left:
            raise SpecError("a lab needs at least one disk", hint="leave one")
        folder.save(left)
    return list(dict.fromkeys(names))


def array_on_image(folder: LabFolder, spec: DiskSpec) -> str:
    """The array of which this disk's image carries a superblock; empty if none."""
    if spec.kind is not DiskKind.FILE:
        return ""
    try:
        with folder.image(spec).open("rb") as image:
            image.seek(SUPERBLOCK_OFFSET)
            superblock = parse_superblock(image.read(SUPERBLOCK_BYTES))
    except FileNotFoundError:
        return ""
    return superblock.array_name if superblock else ""


def _folder(context: Context) -> LabFolder:
    for notice in context.host.state.sweep():
        context.narrator.notice(notice)
    return lab_folder(context.host.state, context.target.options.get("name", "default"))
