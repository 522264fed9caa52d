"""Cold caches: what the kernel and the client's computer hold of the data is written out and dropped before a job."""

from __future__ import annotations

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.disks import Lab
from lab.plans import Plan, Step

DROP_CACHES = "/proc/sys/vm/drop_caches"


def cold_plan(kind: FileSystem, device: str) -> Plan:
    """Unmount, drop the page cache, mount again (kernel: Documentation/admin-guide/sysctl/vm.rst, drop_caches)."""
    drop = Plan(
        "Drop caches",
        (Step(("sh", "-c", f"sync; echo 3 > {DROP_CACHES}"), "The kernel forgets its clean pages, inodes and names."),),
    )
    if kind is FileSystem.RAW:
        return drop
    return Plan("Cold caches") + filesystem.unmount(kind, device) + drop + filesystem.mount(kind, device)


def make_cold(lab: Lab, kind: FileSystem, device: str) -> tuple[str, ...]:
    """Make the caches cold and return what was done, for the result."""
    lab.execute(cold_plan(kind, device))
    events = ["remounted"] if kind is not FileSystem.RAW else []
    events.append("kernel caches dropped")
    if lab.drop_host_cache():
        events.append("host cache of the disk images dropped")
    return tuple(events)
