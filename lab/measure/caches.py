"""Cold caches: what the kernel and the client's computer hold of the data is written out and dropped before a job."""

from __future__ import annotations

from collections.abc import Sequence

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.disks import Lab, LabDisk
from lab.plans import Plan, Step

DROP_CACHES = "/proc/sys/vm/drop_caches"


def cold_plan(kind: FileSystem, device: str) -> Plan:
    """Unmount, drop the page cache, mount again (kernel: Documentation/admin-guide/sysctl/vm.rst, drop_caches)."""
    drop = Step(("sh", "-c", f"sync; echo 3 > {DROP_CACHES}"), "The kernel forgets its clean pages, inodes and names.")
    if kind is FileSystem.RAW:
        return Plan("Drop caches", (drop,))
    # The folder of the mount stays: making it anew would be two more commands before every job.
    leave, enter = filesystem.unmount(kind, device).steps[0], filesystem.mount(kind, device).steps[-1]
    return Plan("Cold caches", (leave, drop, enter))


def make_cold(lab: Lab, kind: FileSystem, device: str, disks: Sequence[LabDisk]) -> tuple[str, ...]:
    """Make the caches cold for a job on ``disks`` and return what was done, for the result."""
    lab.execute(cold_plan(kind, device))
    events = ["remounted"] if kind is not FileSystem.RAW else []
    events.append("kernel caches dropped")
    if lab.drop_host_cache(disks):
        events.append("host cache of the disk images dropped")
    return tuple(events)
