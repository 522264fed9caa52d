"""``raidlab disks`` shows and changes the disks that the lab may write to, and shows those that it refuses.

``raidlab disks calibrate`` measures a real drive, and stores a model of it for emulated drives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.actions.arrays import Slow
from lab.arrays import operations
from lab.arrays.discovery import superblocks_in
from lab.cli.arguments import flag, number
from lab.cli.context import Context, current, err, is_terminal, out, out_json, table
from lab.cli.session import BreakArrayFlag, PlanFlag, add_verbs, client_of, show_plan
from lab.disks import DiskKind, DiskSpec, Lab, LabDisk
from lab.disks.attaching import require_time_of
from lab.disks.inventory import (
    ARRAY_METADATA,
    RAID_MEMBER,
    VOLUME_LABEL,
    BlockDevice,
    ends_of_file,
    name_is_offer,
    read_devices,
    signatures_in,
)
from lab.disks.kinds import DEFAULT_SIZE_BYTES, all_drive_models, require_free_name, save_drive_model
from lab.disks.lab import LabFolder, lab_folder
from lab.errors import DeviceRefused, LabError, SpecError
from lab.gates.decoding import DiskCount, parse_bytes
from lab.measure.calibration import Calibration, calibrate, reader
from lab.plans import Plan
from lab.session import breaking
from lab.session.session import LabSession, add_to_list, new_specs, open_session
from lab.tomlfile import known_word, unknown_word
from lab.units import format_bytes, human_bytes, human_seconds

app = App(name="disks", help_format="plaintext")


@app.command(name="calibrate")
def calibrate_drive(
    device: Annotated[str, Parameter(help="A disk of the machine, such as /dev/sdb, which is only read.")],
    *,
    name: Annotated[str, Parameter(help="Name of the new drive model, such as my-drive.")],
) -> None:
    """Measure a rotating drive, and store a model of it for emulated drives.

    The drive is read for about half a minute, and never written to. Nothing else should use it during this time.
    """
    context = current()
    require_free_name(name)
    with context.open_lab() as lab:
        found = _device(lab, device)
        model, cache = (f"/sys/block/{found.name}/{file}" for file in ("device/model", "queue/write_cache"))
        attributes = lab.machine.read([model, cache])
        context.narrator.notice(f"reading {found.node} at many positions for about half a minute")
        made = calibrate(
            reader(lab.machine, found.node),
            found.size_bytes,
            title=f"calibrated from {(attributes[model] or found.node).strip()}",
            has_write_cache=(attributes[cache] or "").strip() == "write back",
        )
    path = save_drive_model(name, made.model)
    if context.json:
        out_json({"name": name, "file": str(path), **msgspec.to_builtins(made)})
        return
    _show(made)
    out(f"\n{path}\nraidlab disks add --kind spindle --model {name}")


def _device(lab: Lab, word: str) -> BlockDevice:
    node = word if word.startswith("/") else lab.disk(word).node
    found = read_devices(lab.machine).get(node.removeprefix("/dev/"))
    if found is None:
        raise DeviceRefused(
            f"{word} is not a whole disk of the machine", hint="specify the disk, not a partition of it"
        )
    return found


def _show(made: Calibration) -> None:
    mechanics = made.model.mechanics
    if mechanics is None:
        raise LabError("the calibrated drive does not behave like a rotating drive")
    seeks = [
        (f"{share:.1%}", human_seconds(seconds), human_seconds(mechanics.seek_seconds(share * mechanics.cylinders)))
        for share, seconds in made.seeks
    ]
    zones = [
        (f"{zone.share:.0%}", f"{mechanics.sequential_bytes_per_second(zone) / 1e6:.1f}") for zone in mechanics.zones
    ]
    facts = [
        ("rotation, rpm", f"{mechanics.rpm:.1f}"),
        ("overhead", human_seconds(mechanics.overhead_ms / 1000)),
        ("single random read", human_seconds(mechanics.mean_random_seconds)),
        ("commands that it may reorder", str(mechanics.queue_depth)),
        ("reads ahead", "yes" if mechanics.read_ahead_bytes else "no"),
        ("write cache", "on; its size is a guess" if mechanics.write_cache_bytes else "off"),
        ("phase coherence", f"{made.coherence:.2f} of 1"),
        ("seek curve off by", human_seconds(made.seek_error_seconds)),
    ]
    out(table(("found", ""), facts))
    out("\n" + table(("zone, of the stroke", "MB/s"), zones, right=("MB/s",)))
    out("\n" + table(("seek over", "measured", "curve"), seeks, right=("measured", "curve")))


@app.default
def show() -> None:
    """List the lab's disks, and say for each other disk why the lab does not write to it."""
    context = current()
    with open_session(client_of(context)) as session:
        lab = session.lab
        devices = read_devices(lab.machine)
        disk_names = {disk.kernel_name for disk in lab.disks}
        others = [refusal for refusal in lab.guard.refusals() if refusal.device.name not in disk_names]
        # Neither an array on lab disks nor a driver's placeholder without a device is a disk.
        others = [each for each in others if not each.device.members and not name_is_offer(each.device.name)]
        used = {disk.name: _uses(disk, devices.get(disk.kernel_name), session) for disk in lab.disks}
        carried = _carried(session, devices)
    if context.json:
        own = [
            {**msgspec.to_builtins(disk), "used_by": used[disk.name], "carries": carried.get(disk.node, ())}
            for disk in lab.disks
        ]
        keys = ("node", "size_bytes", "serial")
        refused = [{key: getattr(each.device, key) for key in keys} | {"reasons": each.reasons} for each in others]
        out_json({"disks": own, "refused": refused})
        return
    rows = []
    for disk in lab.disks:
        carries = _carries_words(session, disk, carried.get(disk.node, ()))
        kind, size = f"{disk.kind} {disk.model}".strip(), human_bytes(disk.size_bytes)
        rows.append((disk.name, disk.node, size, disk.size_bytes, kind, disk.serial, used[disk.name], carries))
    headings = ("disk", "device", "size", "bytes", "kind", "serial", "used by", "carries")
    out(table(headings, rows, right=("size", "bytes")))
    if others:
        refusals = [(each.device.node, human_bytes(each.device.size_bytes), "; ".join(each.reasons)) for each in others]
        out("\n" + table(("refused", "size", "because"), refusals, right=("size",)))


def _uses(disk: LabDisk, device: BlockDevice | None, session: LabSession) -> str:
    if device is None:
        return "not there"
    words = [*device.holders, *device.mounted_on, *device.partition_users, *(["swap"] if device.is_swap else [])]
    holder = session.found.holder_of(disk.node)
    if not words and holder is not None:
        words = [f"{holder.name} (not running)"]
    return ", ".join(words)


def _carried(session: LabSession, devices: Mapping[str, BlockDevice]) -> dict[str, tuple[str, ...]]:
    """Map each node to the types of its signatures. Unused disks that may hold data are also searched with wipefs."""
    guard, found = session.lab.guard, dict(session.found.carried)
    idle = [disk.node for disk in session.disks if (device := devices.get(disk.kernel_name)) and not device.holders]
    try:
        return found | guard.carried([node for node in idle if guard.can_hold_data(node)])
    except DeviceRefused:
        # An unreadable disk is still listed.
        return found


def _carries_words(session: LabSession, disk: LabDisk, types: Sequence[str]) -> str:
    """Describe the contents of a disk. If its metadata belong to an array that is not running, say to which."""
    holder = session.found.holder_of(disk.node)
    array = holder or session.found.former_holder_of(disk.node)
    if holder and holder in session.found.started:
        types = [each for each in types if each not in ARRAY_METADATA]
    named = {RAID_MEMBER: f"{array.metadata_version}, {array.name}", VOLUME_LABEL: array.name} if array else {}
    return ", ".join(f"{each} ({named[each]})" if each in named else each for each in types)


@app.command
def add(
    path: Annotated[str | None, Parameter(help="A physical disk, such as /dev/sdX.")] = None,
    *,
    kind: Annotated[str, Parameter(help="file, spindle, loop, ram or physical.")],
    count: Annotated[int, number(DiskCount, help="Number of disks.")] = 1,
    size: Annotated[str, Parameter(help="Size of each disk, such as 500M.")] = format_bytes(DEFAULT_SIZE_BYTES),
    model: Annotated[str | None, Parameter(help="Drive model of a spindle (see 'raidlab disks models').")] = None,
    confirm: Annotated[str | None, Parameter(help="The path of a physical disk, typed a second time.")] = None,
) -> None:
    """Add disks to the lab."""
    context, asked = current(), known_word(DiskKind, kind, "kind of disk")
    if (path is not None) != (asked is DiskKind.PHYSICAL):
        raise SpecError(
            "kind 'physical' needs a path, and no other kind takes one",
            hint="give a path only with this kind: raidlab disks add /dev/sdX --kind physical",
        )
    if asked is DiskKind.PHYSICAL and path:
        _confirm_physical(path, confirm)
    if asked is DiskKind.SPINDLE and model is None:
        model = "hdd-7200"
    spec = DiskSpec(name="", kind=asked, size_bytes=parse_bytes(size), model=model or "", backing=path or "")
    add_them = _add_to_folder if context.is_embedded else _add_to_machine
    _report(context, "added", add_them(context, spec, count))


@app.command
def remove(*names: Annotated[str, Parameter(help="Names of disks.")]) -> None:
    """Remove disks from the lab. Their data are lost, except on physical disks."""
    _require(names)
    context = current()
    if context.is_embedded:
        _report(context, "removed", _remove_from_folder(context, names))
        return
    with context.open_lab() as lab:
        chosen = [lab.disk(name) for name in names]
        lab.detach(chosen)
    _report(context, "removed", [disk.name for disk in chosen])


@app.command
def reset(
    *names: Annotated[str, Parameter(help="Names of disks.")],
    all_disks: Annotated[bool, flag("Reset all disks of the lab, and remove their arrays.", "--all")] = False,
) -> None:
    """Make disks blank, so that new arrays can use them."""
    if not all_disks:
        _require(names)
    context = current()
    # A member of any array, even a stopped one, is refused, so the arrays must be known. With --all, they must be known
    # only if some may already be running, which is not the case on a newly started embedded kernel.
    with open_session(client_of(context), start_arrays=not (all_disks and context.is_embedded)) as session:
        chosen = [disk.name for disk in session.disks] if all_disks else [session.lab.disk(name).name for name in names]
        session.run(session.reset_all() if all_disks else session.reset(chosen))
    _report(context, "blank", chosen)


def _slow(context: Context, action: Slow, *, plan: bool = False) -> None:
    _act(context, action.plan, "speed changed", action.disk, plan=plan)


add_verbs(app, (Slow,), _slow)


@app.command
def pull(name: str, *, break_array: BreakArrayFlag = False, plan: PlanFlag = False) -> None:
    """Make a disk disappear, as if its cable had been pulled."""
    _act(current(), lambda session: breaking.pull(session, name, breaks_array=break_array), "pulled", name, plan=plan)


@app.command
def plug_in(name: str, *, plan: PlanFlag = False) -> None:
    """Plug a pulled disk back in. It does not rejoin an array by itself."""
    _act(current(), lambda session: breaking.plug_in(session, name), "plugged in", name, plan=plan)


@app.command
def power_cut(name: str, *, plan: PlanFlag = False) -> None:
    """Cut a spindle's power for an instant. Data that are only in its write cache are lost."""
    _act(current(), lambda session: operations.cut_power(session.lab.disk(name)), "power cut", name, plan=plan)


def _act(context: Context, make: Callable[[LabSession], Plan], what: str, name: str, *, plan: bool) -> None:
    with open_session(client_of(context)) as session:
        made = make(session)
        if plan:
            show_plan(context, made)
            return
        session.run(made)
        if session.is_embedded:
            context.narrator.notice(
                "emulated drives exist in the embedded kernel's memory, so the effect ends with the command"
            )
    _report(context, what, [name])


@app.command
def models() -> None:
    """List the drive models for emulated drives."""
    context, known = current(), all_drive_models()
    rows = [
        (name, human_seconds(each.service_seconds), each.concurrent_requests, f"{each.iops:.0f}", each.title)
        for name, each in known.items()
    ]
    value = {name: {**msgspec.to_builtins(each), "iops": each.iops} for name, each in known.items()}
    numbers = ("service", "at a time", "IOPS")
    context.out(value, table(("model", *numbers, ""), rows, right=numbers))


def _require(names: tuple[str, ...]) -> None:
    if not names:
        raise SpecError("no disk was specified", hint="specify at least one; 'raidlab disks' lists them")


def _report(context: Context, what: str, names: list[str]) -> None:
    context.out({what: names}, f"{what}: {', '.join(names)}")


def _confirm_physical(path: str, again: str | None) -> None:
    if again is None and is_terminal():
        err(f"raidlab: everything on {path} may be lost. Type its path again to continue:")
        again = sys.stdin.readline().strip()
    if again != path:
        reason = f"'{again}' is not '{path}'" if again else "it was typed only once"
        raise DeviceRefused(
            f"{path} cannot be added to the lab: {reason}",
            hint=f"type the path twice: raidlab disks add {path} … --confirm {path}",
        )


def _add_to_machine(context: Context, spec: DiskSpec, count: int) -> list[str]:
    with context.open_lab() as lab:
        made = lab.attach(new_specs([disk.name for disk in lab.disks], spec, count))
    return [disk.name for disk in made]


def _add_to_folder(context: Context, spec: DiskSpec, count: int) -> list[str]:
    """Add disks to the list of the embedded lab, which creates them the next time it starts."""
    if context.target.is_virtual_time:
        require_time_of(spec.kind)
    with _folder(context) as folder:
        made = add_to_list(folder, spec, count)
    if spec.kind is not DiskKind.FILE:
        context.narrator.notice(
            f"{spec.kind} disks are in the embedded kernel's memory, so each command starts with blank ones"
        )
    return list(made)


def _remove_from_folder(context: Context, names: Sequence[str]) -> list[str]:
    with _folder(context) as folder:
        known = {spec.name: spec for spec in folder.specs}
        for name in names:
            if name not in known:
                raise unknown_word("lab disk", name, known)
            _require_blank_image(folder, known[name])
        left = [spec for spec in folder.specs if spec.name not in names]
        if not left:
            raise SpecError("a lab needs at least one disk", hint="remove fewer disks")
        folder.save(left)
    return list(dict.fromkeys(names))


def _require_blank_image(folder: LabFolder, spec: DiskSpec) -> None:
    if spec.kind is not DiskKind.FILE:
        return
    try:
        with open(folder.images.open(spec.name), "rb") as image:
            ends = ends_of_file(image.fileno())
    except FileNotFoundError:
        return
    superblock = superblocks_in({spec.name: ends}).get(spec.name)
    types = [each for each in signatures_in(ends) if superblock is None or each != RAID_MEMBER]
    contents = [f"is a member of array {superblock.array_name}"] if superblock else []
    contents += [f"carries {', '.join(types)}"] if types else []
    if contents:
        destroy = "'raidlab array destroy' removes the array; " if superblock or VOLUME_LABEL in types else ""
        raise DeviceRefused(
            f"{spec.name} {' and '.join(contents)}",
            hint=f"{destroy}'raidlab disks reset {spec.name}' makes this disk blank",
        )


def _folder(context: Context) -> LabFolder:
    for notice in context.host.state.sweep():
        context.narrator.notice(notice)
    return lab_folder(context.host.state, context.target.lab_name)
