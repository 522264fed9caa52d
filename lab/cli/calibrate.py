"""``raidlab disks calibrate``: the model of a real drive, for emulated ones."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from lab.cli.context import current
from lab.cli.output import out, out_json, table
from lab.disks import Lab
from lab.disks.drive_models import require_free_name, save_drive_model
from lab.disks.inventory import BlockDevice, read_devices
from lab.errors import DeviceRefused, LabError
from lab.measure.calibration import Calibration, calibrate, reader
from lab.units import human_seconds


def add_to(app: App) -> None:
    """Add this sub-command to ``raidlab disks``."""
    app.command(calibrate_drive, name="calibrate")


def calibrate_drive(
    device: Annotated[str, Parameter(help="A disk of the machine, such as /dev/sdb; it is only read.")],
    *,
    name: Annotated[str, Parameter(help="Of the new drive model, such as my-drive.")],
) -> None:
    """Measure a drive that rotates, and keep what was found as a model for emulated drives.

    It is read for about half a minute and never written. Nothing else should use it meanwhile.
    """
    context = current()
    require_free_name(name)
    with context.open_lab() as lab:
        found = _device(lab, device)
        model, cache = (f"/sys/block/{found.name}/{file}" for file in ("device/model", "queue/write_cache"))
        told = lab.machine.read([model, cache])
        context.narrator.notice(f"reading {found.node} here and there for about half a minute")
        made = calibrate(
            reader(lab.machine, found.node),
            found.size_bytes,
            title=f"calibrated from {(told[model] or found.node).strip()}",
            has_write_cache=(told[cache] or "").strip() == "write back",
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
        raise DeviceRefused(f"{word} is not a whole disk", hint="name the disk, not a partition of it")
    return found


def _show(made: Calibration) -> None:
    mechanics = made.model.mechanics
    if mechanics is None:
        raise LabError("the calibration found no mechanics")
    seeks = [
        (f"{share:.1%}", human_seconds(seconds), human_seconds(mechanics.seek_seconds(share * mechanics.cylinders)))
        for share, seconds in made.seeks
    ]
    zones = [
        (f"{zone.share:.0%}", f"{mechanics.sequential_bytes_per_second(zone) / 1e6:.1f}") for zone in mechanics.zones
    ]
    facts = [
        ("turns a minute", f"{mechanics.rpm:.1f}"),
        ("overhead", human_seconds(mechanics.overhead_ms / 1000)),
        ("random read, alone", human_seconds(mechanics.mean_random_seconds)),
        ("commands in an order of its own", str(mechanics.queue_depth)),
        ("reads ahead", "yes" if mechanics.read_ahead_bytes else "no"),
        ("write cache", "on; its size is a guess" if mechanics.write_cache_bytes else "off"),
        ("phases alike", f"{made.coherence:.2f} of 1"),
        ("seek curve off by", human_seconds(made.seek_error_seconds)),
    ]
    out(table(("found", ""), facts))
    out("\n" + table(("zone, of the stroke", "MB/s"), zones, right=("MB/s",)))
    out("\n" + table(("seek over", "measured", "curve"), seeks, right=("measured", "curve")))
