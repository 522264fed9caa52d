"""Records for tests: plain values except those that a test names."""

from __future__ import annotations

from typing import Any

import msgspec

from lab.results.record import (
    ArrayRecord,
    CellRecord,
    Conditions,
    CpuFigures,
    DiskRecord,
    RebuildRecord,
    ResultRecord,
    RunStatus,
)
from lab.workloads.fio_output import DirectionFigures, JobFigures

CONDITIONS = Conditions(
    target="local:",
    host_name="lab",
    kernel_release="6.1.0",
    architecture="x86_64",
    cpu_model="a processor",
    cpu_count=2,
    memory_bytes=2**30,
    is_embedded=False,
    mdadm_version="4.2",
    fio_version="3.33",
    disks=tuple(
        DiskRecord(name=f"disk{n}", path=f"/dev/sd{n}", kind="physical", size_bytes=10**10, write_cache="write through")
        for n in range(4)
    ),
)


def direction(
    iops: float, *, block_bytes: int = 4096, seconds: float = 30.0, p99: float | None = 0.02
) -> DirectionFigures:
    ios = int(iops * seconds)
    return DirectionFigures(
        iops=iops,
        bandwidth_bytes_per_second=iops * block_bytes,
        total_ios=ios,
        io_bytes=ios * block_bytes,
        runtime_seconds=seconds,
        mean_seconds=0.01,
        max_seconds=0.05,
        p50_seconds=None if p99 is None else p99 / 2,
        p95_seconds=None if p99 is None else p99 * 0.9,
        p99_seconds=p99,
    )


def cell(
    array: str,
    workload: str,
    repeat: int,
    *,
    read_iops: float | None = None,
    write_iops: float | None = None,
    cpu_microseconds: float | None = None,
    **changes: Any,
) -> CellRecord:
    cpu = None
    if cpu_microseconds is not None:
        cpu = CpuFigures(
            cpu_seconds_total=1.0,
            md_thread_cpu_seconds=0.1,
            cpu_microseconds_per_io=cpu_microseconds,
            idle_baseline_fraction=0.01,
        )
    made = CellRecord(
        array=array,
        workload=workload,
        phase="healthy",
        repeat=repeat,
        order_index=repeat,
        started_utc="2026-11-21T10:00:01Z",
        figures=JobFigures(
            job_name=workload,
            reads=None if read_iops is None else direction(read_iops),
            writes=None if write_iops is None else direction(write_iops),
            fio_user_cpu_percent=1.0,
            fio_system_cpu_percent=2.0,
            fio_version="fio-3.33",
        ),
        cpu=cpu,
        cache_events=("unmount", "drop_caches", "mount"),
    )
    return msgspec.structs.replace(made, **changes)


def with_figures(cell: CellRecord, **changes: Any) -> CellRecord:
    """The cell with these figures in each of its directions."""
    sections = {
        f"{way}s": msgspec.structs.replace(section, **changes) for way, section in cell.figures.sections.items()
    }
    return msgspec.structs.replace(cell, figures=msgspec.structs.replace(cell.figures, **sections))


def rebuild(array: str, repeat: int, seconds: float, rebuilt_bytes: int = 10**9) -> RebuildRecord:
    return RebuildRecord(
        array=array,
        repeat=repeat,
        rebuild_seconds=seconds,
        rebuilt_bytes=rebuilt_bytes,
        checksum_before="aa",
        checksum_after="aa",
        data_unchanged=True,
    )


def array(name: str, level: str, members: int) -> ArrayRecord:
    return ArrayRecord(
        name=name, level=level, members=tuple(f"/dev/sd{n}" for n in range(members)), size_bytes=10**9 * members
    )


def record(record_id: str = "20261121T100000Z-x", **changes: Any) -> ResultRecord:
    made = ResultRecord(
        id=record_id,
        created_utc="2026-11-21T10:00:00Z",
        raidlab_version="0.1",
        experiment="x",
        experiment_toml="# text\n",
        status=RunStatus.COMPLETE,
        conditions=CONDITIONS,
    )
    return msgspec.structs.replace(made, **changes)
