"""Published recipes that measure with dd: the unmodified command, and the parser of dd's output.

dd (GNU coreutils, dd(1)) prints ``BYTES bytes (...) copied, SECONDS s, ...`` on standard error at its end. It counts
the bytes written to the page cache, unless the recipe has oflag=direct or conv=fdatasync.
"""

from __future__ import annotations

import re

from lab.errors import WorkloadError
from lab.workloads.fio_job import DD_PREFIX, FioPhase, Invocation, JobTarget, PathKind, job_bytes
from lab.workloads.fio_output import DirectionFigures, JobFigures
from lab.workloads.workload import COUNT, Direction, Workload

_COPIED = re.compile(r"^(\d+) bytes.* copied, ([0-9.e+-]+) s", re.MULTILINE)
_LONGEST_SECONDS = 1800.0


def dd_invocation(workload: Workload, target: JobTarget) -> Invocation:
    """The recipe on this target; a count of blocks that does not fit is reduced.

    Raises WorkloadError ``file-exceeds-fs`` if there is no room for a single block.
    """
    size = job_bytes(workload, target)
    is_directory = target.kind is PathKind.DIRECTORY
    path = f"{target.path.rstrip('/')}/raidlab.0" if is_directory else target.path
    fitting = size // workload.block_bytes
    text = COUNT.sub(lambda found: str(min(int(found[1]), fitting)), workload.recipe)
    argv = (*DD_PREFIX, *(word.replace("{filename}", path) for word in text.split()[1:]))
    return Invocation(FioPhase.MEASURE, argv, "", target, _LONGEST_SECONDS, writes=workload.writes)


def parse_dd(text: str, workload: Workload, *, exit_status: int = 0) -> JobFigures:
    """The figures in dd's output: no percentiles, and only a mean time per block.

    Raises WorkloadError if dd failed or did not report how much it copied.
    """
    found = _COPIED.search(text)
    if exit_status or not found or int(found[1]) <= 0 or float(found[2]) <= 0:
        said = text.strip() or "nothing at all"
        raise WorkloadError(f"dd exited with status {exit_status}: {said}", hint="run the recipe by hand to see more")
    copied, seconds = int(found[1]), float(found[2])
    blocks = -(-copied // workload.block_bytes)
    figures = DirectionFigures(
        iops=blocks / seconds,
        bandwidth_bytes_per_second=copied / seconds,
        total_ios=blocks,
        io_bytes=copied,
        runtime_seconds=seconds,
        mean_seconds=seconds / blocks,
    )
    is_read = workload.direction is Direction.READ
    return JobFigures(
        job_name=workload.id, reads=figures if is_read else None, writes=None if is_read else figures, raw_json=""
    )
