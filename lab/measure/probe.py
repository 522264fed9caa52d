"""Probing one disk on its own: the rates that predictions start from."""

from __future__ import annotations

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.disks import Lab, LabDisk
from lab.disks.personalities import find_personality
from lab.measure.job import MeasureOptions, Place, run_workload
from lab.theory.model import DiskRates, nominal_rates
from lab.workloads.catalogue import find_workload

PROBE_SECONDS = 1.0
_PROBED_BYTES = 256 * 1024 * 1024


def probe_disk(lab: Lab, disk: LabDisk) -> DiskRates:
    """Sequential rates measured for a second each way; random rates from the personality, else measured too.

    The disk's content is overwritten.
    """
    place = Place(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)
    file_bytes = min(_PROBED_BYTES, disk.size_bytes)
    options = MeasureOptions(runtime_seconds=PROBE_SECONDS, warmup_seconds=0.0, file_bytes=file_bytes)
    rates: dict[str, float] = {}
    for direction in ("write", "read"):
        workload = msgspec.structs.replace(find_workload(f"seq-{direction}-1m"), jobs=1)
        figures = run_workload(lab, place, workload, options).figures
        section = figures.reads if direction == "read" else figures.writes
        rates[direction] = section.bandwidth_bytes_per_second if section else 0.0
    if not disk.personality:
        return DiskRates(0.0, 0.0, rates["read"], rates["write"])
    return nominal_rates(find_personality(disk.personality), sequential=(rates["read"], rates["write"]))
