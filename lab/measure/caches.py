"""Cold caches: what the kernel and the client's computer hold of the data is written out and dropped before a job."""

from __future__ import annotations

from collections.abc import Sequence

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.names import md_path
from lab.disks import Lab, LabDisk
from lab.plans import Plan, Step

DROP_CACHES = "/proc/sys/vm/drop_caches"
_FEWEST_STRIPES = 17
"""The least that md takes for stripe_cache_size (kernel: drivers/md/raid5.c, raid5_set_cache_size)."""
_EMPTY_STRIPES = (
    f'for at; do read -r size <"$at" && echo {_FEWEST_STRIPES} >"$at" && echo "$size" >"$at" || exit 1; done'
)


def cold_plan(kind: FileSystem, device: str) -> Plan:
    """Unmount, drop the page cache, mount again (kernel: Documentation/admin-guide/sysctl/vm.rst, drop_caches)."""
    drop = Step(("sh", "-c", f"sync; echo 3 > {DROP_CACHES}"), "The kernel forgets its clean pages, inodes and names.")
    if kind is FileSystem.RAW:
        return Plan("Drop caches", (drop,))
    # The folder of the mount stays: making it anew would be two more commands before every job.
    leave, enter = filesystem.unmount(kind, device).steps[0], filesystem.mount(kind, device).steps[-1]
    return Plan("Cold caches", (leave, drop, enter))


def empty_stripes_plan(parity_arrays: Sequence[str]) -> Plan:
    """Have md forget all stripes that it keeps but the last 17, by a cache that is small for a moment.

    Kernel: Documentation/admin-guide/md.rst, stripe_cache_size.
    """
    paths = tuple(md_path(name, "stripe_cache_size") for name in parity_arrays)
    why = "md keeps old data and parity of stripes that were used lately; small writes to them would read nothing."
    return Plan("Empty stripe caches", (Step(("sh", "-c", _EMPTY_STRIPES, "empty-stripes", *paths), why),))


def make_cold(
    lab: Lab, kind: FileSystem, device: str, disks: Sequence[LabDisk], parity_arrays: Sequence[str] = ()
) -> tuple[str, ...]:
    """Make the caches cold for a job on ``disks`` and return what was done, for the result.

    ``parity_arrays`` are the md arrays of level 4, 5 or 6 that the job works on: they have caches of their own.
    """
    lab.execute(cold_plan(kind, device))
    events = ["remounted"] if kind is not FileSystem.RAW else []
    events.append("kernel caches dropped")
    if parity_arrays:
        lab.execute(empty_stripes_plan(parity_arrays))
        events.append("md's stripe caches emptied")
    if lab.drop_host_cache(disks):
        events.append("host cache of the disk images dropped")
    return tuple(events)
