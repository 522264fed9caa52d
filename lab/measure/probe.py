"""Probing one disk on its own: the rates that predictions start from.

An emulated drive answers a little later than its table says, by what the computer takes to wake its server up. So its
service time is measured, one request at a time, as in the tables of docs/theory.md.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from lab.arrays.filesystem import FileSystem
from lab.disks import Lab, LabDisk
from lab.disks.personalities import find_personality
from lab.measure.job import MeasureOptions, Place, run_workload
from lab.theory.model import DiskRates, nominal_rates
from lab.workloads.catalogue import find_workload

PROBE_SECONDS = 1.0
SERVICE_PROBE_SECONDS = 3.0
_PROBED_BYTES = 256 * 1024 * 1024


def probe_disk(lab: Lab, disk: LabDisk) -> DiskRates:
    """Sequential rates, measured for a second each way, and of an emulated drive its service time.

    With mechanics the service time is the table's: measured on a few blocks it would be that of short strokes.

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
    drive = find_personality(disk.personality)
    nominal = nominal_rates(drive, sequential=(rates["read"], rates["write"]))
    if drive.mechanics:
        return nominal
    options = MeasureOptions(runtime_seconds=SERVICE_PROBE_SECONDS, warmup_seconds=0.2, file_bytes=file_bytes)
    reads = run_workload(lab, place, find_workload("rand-read-4k-q1"), options).figures.reads
    return replace(nominal, random_read_iops=reads.iops, random_write_iops=reads.iops) if reads else nominal
