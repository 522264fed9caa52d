"""``raidlab disks``: what the lab may write on, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from lab.arrays.discovery import FoundArray
from lab.cli import calibrate
from lab.cli.array_run import BreakArrayFlag, PlanFlag
from lab.cli.context import Context, current
from lab.cli.disk_changes import add_to_folder, add_to_machine, confirm_physical, remove_from_folder
from lab.cli.output import out, out_json, table
from lab.cli.session import open_session, show_plan
from lab.disks import LabDisk, disk_kind
from lab.disks.guard import Refusal
from lab.disks.inventory import BlockDevice, name_is_offer, read_devices
from lab.disks.kinds import DEFAULT_SIZE_BYTES, DiskKind
from lab.disks.personalities import all_personalities
from lab.errors import SpecError
from lab.faults import power
from lab.plans import Plan
from lab.session import plans
from lab.session.session import LabSession
from lab.units import format_bytes, human_bytes, human_seconds, parse_bytes

app = App(name="disks", help="Lab disks, and every refused disk with its reason.", help_format="plaintext")
calibrate.add_to(app)


@app.default
def show() -> None:
    """List the lab's disks, and all others with the reasons why the lab does not write on them."""
    context = current()
    with open_session(context) as session:
        lab = session.lab
        devices = read_devices(lab.machine)
        disk_names = {disk.kernel_name for disk in lab.disks}
        others = [refusal for refusal in lab.guard.refusals() if refusal.device.name not in disk_names]
        # An array on lab disks, and a driver's offer with nothing behind it, are no disks.
        others = [each for each in others if not each.device.members and not name_is_offer(each.device.name)]
        used = {
            disk.name: _uses(disk, devices.get(disk.kernel_name), session.found.holder_of(disk.node))
            for disk in lab.disks
        }
    if context.json:
        out_json(
            {"disks": [_disk_value(disk, used) for disk in lab.disks], "refused": [_refusal(each) for each in others]}
        )
        return
    rows = [
        (disk.name, disk.node, human_bytes(disk.size_bytes), disk.size_bytes, _kind(disk), disk.serial, used[disk.name])
        for disk in lab.disks
    ]
    out(table(("disk", "device", "size", "bytes", "kind", "serial", "used by"), rows, right=("size", "bytes")))
    if others:
        refused = [(each.device.node, human_bytes(each.device.size_bytes), "; ".join(each.reasons)) for each in others]
        out("\n" + table(("refused", "size", "because"), refused, right=("size",)))


def _uses(disk: LabDisk, device: BlockDevice | None, holder: FoundArray | None) -> str:
    if device is None:
        return "not there"
    words = [*device.holders, *device.mounted_on]
    if not words and holder is not None:
        words = [f"{holder.name} (not running)"]
    return ", ".join(words)


def _kind(disk: LabDisk) -> str:
    return f"{disk.kind.value} {disk.personality}".strip()


def _disk_value(disk: LabDisk, used: dict[str, str]) -> dict[str, Any]:
    return {**msgspec.to_builtins(disk), "used_by": used[disk.name]}


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "node": refusal.device.node,
        "size_bytes": refusal.device.size_bytes,
        "serial": refusal.device.serial,
        "reasons": refusal.reasons,
    }


@app.command
def add(
    path: Annotated[str | None, Parameter(help="The disk of kind physical, such as /dev/sdX.")] = None,
    *,
    kind: Annotated[str, Parameter(help="file, spindle, loop, ram or physical.")],
    count: Annotated[int, Parameter(help="How many.")] = 1,
    size: Annotated[str, Parameter(help="Of each, such as 500M.")] = format_bytes(DEFAULT_SIZE_BYTES),
    personality: Annotated[str | None, Parameter(help="Of a spindle: see 'raidlab disks personalities'.")] = None,
    confirm: Annotated[str | None, Parameter(help="The path of a physical disk, typed a second time.")] = None,
) -> None:
    """Add disks to the lab."""
    context, asked = current(), disk_kind(kind)
    if (path is not None) != (asked is DiskKind.PHYSICAL):
        raise SpecError(
            "a path belongs to kind physical, and only to it", hint="raidlab disks add /dev/sdX --kind physical"
        )
    if asked is DiskKind.PHYSICAL and path:
        confirm_physical(path, confirm)
    if asked is DiskKind.SPINDLE and personality is None:
        personality = "hdd-7200"
    wanted = (asked, count, parse_bytes(size), personality or "", path or "")
    made = add_to_folder(context, *wanted) if context.is_embedded else add_to_machine(context, *wanted)
    _tell(context, "added", made)


@app.command
def remove(*names: Annotated[str, Parameter(help="Names of disks.")]) -> None:
    """Take disks out of the lab; what was on them is gone, except on physical disks."""
    _require(names)
    context = current()
    if context.is_embedded:
        _tell(context, "removed", remove_from_folder(context, names))
        return
    with context.open_lab() as lab:
        chosen = [lab.disk(name) for name in names]
        lab.detach(chosen)
    _tell(context, "removed", [disk.name for disk in chosen])


@app.command
def reset(
    *names: Annotated[str, Parameter(help="Names of disks.")],
    all_disks: Annotated[
        bool, Parameter(name="--all", negative="", show_default=False, help="All disks of the lab, with their arrays.")
    ] = False,
) -> None:
    """Make disks blank."""
    if not all_disks:
        _require(names)
    context = current()
    with open_session(context, start_arrays=not all_disks) as session:
        chosen = [disk.name for disk in session.disks] if all_disks else [session.lab.disk(name).name for name in names]
        session.run(plans.reset_all(session) if all_disks else plans.reset(session, chosen))
        if all_disks:
            session.rescan()
    _tell(context, "blank", chosen)


@app.command
def slow(
    name: str,
    personality: Annotated[str, Parameter(help="See 'raidlab disks personalities'; its own: at its own pace.")],
    *,
    plan: PlanFlag = False,
) -> None:
    """Let a spindle run at the pace of a slower drive, while in use."""
    _act(lambda session: plans.slow(session, name, personality), "pace changed", name, plan=plan)


@app.command
def pull(
    name: str,
    *,
    break_array: BreakArrayFlag = False,
    plan: PlanFlag = False,
) -> None:
    """Let a disk vanish, as if its cable were pulled."""
    _act(lambda session: plans.pull(session, name, breaks_array=break_array), "pulled", name, plan=plan)


@app.command
def plug_in(name: str, *, plan: PlanFlag = False) -> None:
    """Bring a pulled disk back; it joins no array by itself."""
    _act(lambda session: plans.plug_in(session, name), "plugged in", name, plan=plan)


@app.command
def power_cut(name: str, *, plan: PlanFlag = False) -> None:
    """Cut a spindle's power for an instant: what only its write cache held is lost."""
    _act(lambda session: power.cut(session.lab.disk(name)), "power cut", name, plan=plan)


def _act(make: Callable[[LabSession], Plan], what: str, name: str, *, plan: bool) -> None:
    context = current()
    with open_session(context) as session:
        made = make(session)
        if plan:
            show_plan(context, made)
            return
        session.run(made)
        if session.is_embedded:
            context.narrator.notice("emulated drives live in the embedded kernel's memory: this ends with the command")
    _tell(context, what, [name])


@app.command
def personalities() -> None:
    """List what an emulated drive can be like."""
    context, known = current(), all_personalities()
    if context.json:
        out_json({name: {**msgspec.to_builtins(each), "iops": each.iops} for name, each in known.items()})
        return
    rows = [
        (name, human_seconds(each.service_seconds), each.concurrent_requests, f"{each.iops:.0f}", each.title)
        for name, each in known.items()
    ]
    out(table(("personality", "service", "at a time", "IOPS", ""), rows, right=("service", "at a time", "IOPS")))


def _require(names: tuple[str, ...]) -> None:
    if not names:
        raise SpecError("no disk is named", hint="'raidlab disks' lists them")


def _tell(context: Context, what: str, names: list[str]) -> None:
    if context.json:
        out_json({what: names})
    else:
        out(f"{what}: {', '.join(names)}")
