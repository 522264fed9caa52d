"""Measurement conditions, which are stored with every result; the rates of one disk; cold caches.

An emulated drive completes an I/O slightly later than its model specifies, since the computer must wake up its server.
Its service times are therefore measured at queue depth 1, as in the tables of docs/theory.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.names import md_path
from lab.disks import DiskKind, Lab, LabDisk
from lab.disks.drive_models import find_drive_model
from lab.disks.kernel_drives import is_kernel_drive
from lab.machine import Host, parse_target
from lab.machine.kernel_image import find_kernel
from lab.machine.mdadm_versions import find_mdadm
from lab.measure.job import LoadTarget, Measured, MeasureOptions, run_workload
from lab.plans import Plan, Step
from lab.results.record import Conditions, DiskRecord
from lab.theory.model import DiskRates, nominal_rates
from lab.workloads.fio_output import DirectionFigures
from lab.workloads.workload import AccessPattern, Direction, Workload, changed, find_workload

_VERSION = re.compile(r"(\d+(?:\.\d+)+)")
TUNABLES = ("/proc/sys/dev/raid/speed_limit_min", "/proc/sys/dev/raid/speed_limit_max")


def read_conditions(lab: Lab) -> Conditions:
    """Kernel, tools, processors, disks and tunables of an open lab."""
    facts = lab.machine.facts
    # md's limits exist only after its driver is loaded.
    lab.machine.run(("modprobe", "md_mod"), check=False)
    queue_files = [
        f"/sys/block/{disk.kernel_name}/queue/{name}" for disk in lab.disks for name in ("scheduler", "write_cache")
    ]
    texts = lab.machine.read(["/proc/cpuinfo", *TUNABLES, *queue_files])
    known = {path: text.strip() for path, text in texts.items() if text is not None and path != "/proc/cpuinfo"}
    return Conditions(
        target=facts.target,
        host_name=facts.host_name,
        kernel_release=facts.kernel_release,
        architecture=facts.architecture,
        cpu_model=_cpu_model(texts["/proc/cpuinfo"] or ""),
        cpu_count=facts.cpu_count,
        memory_bytes=facts.memory_bytes,
        is_embedded=facts.is_embedded,
        is_virtual_time=facts.is_virtual_time,
        mdadm_version=_version(lab, "mdadm"),
        fio_version=_version(lab, "fio"),
        nbdkit_version=_version(lab, "nbdkit") if _has_servers(lab) else "",
        disks=tuple(
            DiskRecord(
                name=disk.name,
                path=disk.node,
                kind=disk.kind.value,
                model=disk.model,
                size_bytes=disk.size_bytes,
                write_cache=known.get(f"/sys/block/{disk.kernel_name}/queue/write_cache", ""),
            )
            for disk in lab.disks
        ),
        host_cache_notes=_cache_notes(lab),
        tunables={path: value for path, value in known.items() if "write_cache" not in path},
        depends_on=_depends_on(lab) if facts.is_virtual_time else {},
    )


_PACKAGE = Path(__file__).resolve().parents[1]
# The installed programs, not those that the lab places ahead of them in PATH, and the libraries that they load.
PROGRAMS = """
PATH=/usr/sbin:/usr/bin:/sbin:/bin
own=$(for name in fio mdadm python3; do readlink -f "$(command -v $name)"; done)
sha256sum $own $(ldd $own | grep -o '/[^ :]*' | sort -u)
"""


def _depends_on(lab: Lab) -> dict[str, str]:
    options = parse_target(lab.machine.facts.target).options
    found = depends_on(lab.host, options.get("kernel", ""))
    if "mdadm" in options:
        # Of a fetched one, this is a script that names its version.
        found["mdadm"] = _known_digest(_stamps([find_mdadm(options["mdadm"]) / "mdadm"]))
    return found


def depends_on(host: Host, chosen_kernel: str = "", *, virtual_time: bool = True) -> dict[str, str]:
    """SHA-256 of each input that, with the experiment and its seed, determines the figures in virtual time.

    In real time the figures depend on the computer as well. Raises ToolMissing if there is no such kernel.
    """
    kernel = find_kernel(host.processes, host.files, virtual_time=virtual_time, chosen=chosen_kernel).path
    files = [kernel, *kernel.parent.glob("quick_clock.so"), *kernel.parent.glob("fio/lib*")]
    return {
        "kernel": _known_digest(_stamps(files)),
        "programs": _programs_digest(host),
        "raidlab": own_digest(),
    }


_Stamps = tuple[tuple[Path, int, int], ...]
_programs_known: dict[_Stamps, str] = {}


def _stamps(files: Iterable[Path]) -> _Stamps:
    """Size and mtime of the files, to cache their digest: a worker measures thousands of cells with the same files."""
    return tuple((path, (found := path.stat()).st_size, found.st_mtime_ns) for path in files)


@cache
def _known_digest(stamps: _Stamps) -> str:
    return _digest(path for path, _, _ in stamps)


def _programs_digest(host: Host) -> str:
    """Digest of fio, mdadm and Python with their libraries."""
    for stamps, digest in _programs_known.items():
        with suppress(OSError):
            if stamps and _stamps(path for path, _, _ in stamps) == stamps:
                return digest
    # The embedded kernel's root file system is this computer's, and reading the files here is faster.
    lines = sorted(host.processes.run(("env", "-i", "sh", "-c", PROGRAMS)).stdout.splitlines())
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    with suppress(OSError):
        _programs_known[_stamps(Path(line.partition("  ")[2]) for line in lines)] = digest
    return digest


@cache
def own_digest() -> str:
    """SHA-256 of raidlab's own files, computed once per process."""
    return _digest(path for path in _PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")


def _digest(files: Iterable[Path]) -> str:
    found = sorted((path.name, hashlib.sha256(path.read_bytes()).digest()) for path in files)
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _has_servers(lab: Lab) -> bool:
    return any(disk.kind is DiskKind.SPINDLE and not is_kernel_drive(disk) for disk in lab.disks)


def _cache_notes(lab: Lab) -> tuple[str, ...]:
    # Virtual time does not advance while the computer reads or writes.
    if lab.machine.facts.is_virtual_time:
        return ()
    if lab.folder is not None and any(disk.kind is DiskKind.FILE for disk in lab.disks):
        return ("file disks are cached by the computer that runs the embedded kernel",)
    return ()


def _version(lab: Lab, program: str) -> str:
    result = lab.machine.run((program, "--version"), check=False)
    found = _VERSION.search(result.stdout + result.stderr)
    return found[1] if found else ""


def _cpu_model(text: str) -> str:
    """The first model name; the embedded kernel reports the host's in the field ``host``."""
    names = dict(line.split(":", 1) for line in reversed(text.splitlines()) if ":" in line)
    fields = {key.strip(): value.strip() for key, value in names.items()}
    return fields.get("model name") or fields.get("host", "")


PROBE_SECONDS = 1.0
SERVICE_PROBE_SECONDS = 3.0
_PROBED_BYTES = 256 * 1024 * 1024


def probe_disk(lab: Lab, disk: LabDisk, workloads: Sequence[Workload], *, rebuilds: bool) -> DiskRates:
    """Measure those of a disk's rates that theory needs for these workloads and for rebuilds.

    These are sequential rates, for one second in each direction, and the service times of an emulated drive. A drive
    with mechanics has the service time of its model: on a few blocks only short strokes would be measured. Rates that
    are not needed come from the model, or are 0 for a disk without a model. Overwrites the disk's content.
    """
    target = LoadTarget(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)
    file_bytes = min(_PROBED_BYTES, disk.size_bytes)

    is_random = [each.pattern is AccessPattern.RANDOM or each.direction is Direction.MIX for each in workloads]
    sequential = None
    if rebuilds or not all(is_random):
        options = MeasureOptions(runtime_seconds=PROBE_SECONDS, warmup_seconds=0.0, file_bytes=file_bytes)
        written, read = (
            _probe(lab, target, f"seq-{way}-1m", options).bandwidth_bytes_per_second for way in ("write", "read")
        )
        sequential = (read, written)
    if not disk.model:
        return DiskRates(0.0, 0.0, *(sequential or (0.0, 0.0)))
    drive = find_drive_model(disk.model)
    rates = nominal_rates(drive, sequential=sequential)
    if drive.mechanics or not any(is_random):
        return rates
    options = MeasureOptions(runtime_seconds=SERVICE_PROBE_SECONDS, warmup_seconds=0.2, file_bytes=file_bytes)
    # Separate probes: in the embedded kernel a write takes about 0.4 ms longer than a read.
    if any(each.direction is not Direction.READ for each in workloads):
        rates = replace(rates, random_write_iops=_probe(lab, target, "rand-write-4k", options).iops)
    # Parity writes start with reads.
    return replace(rates, random_read_iops=_probe(lab, target, "rand-read-4k", options).iops)


def _probe(lab: Lab, target: LoadTarget, name: str, options: MeasureOptions) -> DirectionFigures:
    workload = changed(find_workload(name), jobs=1)
    if workload.pattern is AccessPattern.RANDOM:
        workload = changed(workload, queue_depth=1)
    return _direction(run_workload(lab, target, workload, options))


def _direction(measured: Measured) -> DirectionFigures:
    figures = measured.figures.reads or measured.figures.writes
    assert figures
    return figures


DROP_CACHES = "/proc/sys/vm/drop_caches"
_FEWEST_STRIPES = 17
"""The minimum of stripe_cache_size (kernel: drivers/md/raid5.c, raid5_set_cache_size)."""
_EMPTY_STRIPES = (
    f'for at; do read -r size <"$at" && echo {_FEWEST_STRIPES} >"$at" && echo "$size" >"$at" || exit 1; done'
)


def cold_plan(kind: FileSystem, device: str, drives: Sequence[str]) -> Plan:
    """Unmount, drop the page cache, mount again (kernel: Documentation/admin-guide/sysctl/vm.rst, drop_caches).

    A drive with thousands of extents in its write cache writes them out at md's next flush and serves no other request
    for seconds; that time belongs to the previous job. The drives are synced directly: device mapper repeats a flush
    for each target of a volume, and a volume of unequal disks has tens of thousands of targets.
    """
    drop = Step(
        ("sh", "-c", f"sync; sync {' '.join(drives)}; echo 3 > {DROP_CACHES}"),
        "The kernel forgets its clean pages, inodes and names, and drives write out what their caches hold.",
    )
    if kind is FileSystem.RAW:
        return Plan("Drop caches", (drop,))
    # The mount point is kept: creating it again would add two commands before every job.
    leave, enter = filesystem.unmount(kind, device).steps[0], filesystem.mount(kind, device).steps[-1]
    return Plan("Cold caches", (leave, drop, enter))


def empty_stripes_plan(parity_arrays: Sequence[str]) -> Plan:
    """Drop all but 17 stripes from md's stripe caches, by shrinking the caches for a moment.

    Kernel: Documentation/admin-guide/md.rst, stripe_cache_size.
    """
    paths = tuple(md_path(name, "stripe_cache_size") for name in parity_arrays)
    why = "md keeps old data and parity of stripes that were used lately; small writes to them would read nothing."
    return Plan("Empty stripe caches", (Step(("sh", "-c", _EMPTY_STRIPES, "empty-stripes", *paths), why),))


def make_cold(
    lab: Lab, kind: FileSystem, device: str, disks: Sequence[LabDisk], parity_arrays: Sequence[str] = ()
) -> tuple[str, ...]:
    """Drop the caches before a job on ``disks``, and return the cache events for the result.

    ``parity_arrays``: the md arrays of level 4, 5 or 6 that the job uses; each has a stripe cache.
    """
    lab.execute(cold_plan(kind, device, [disk.node for disk in disks]))
    events = ["remounted"] if kind is not FileSystem.RAW else []
    events.append("kernel caches dropped")
    if parity_arrays:
        lab.execute(empty_stripes_plan(parity_arrays))
        events.append("md's stripe caches emptied")
    if lab.drop_host_cache(disks):
        events.append("host cache of the disk images dropped")
    return tuple(events)
