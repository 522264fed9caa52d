"""The conditions under which something is measured: read once, stored with every result."""

from __future__ import annotations

import re

from lab.disks import DiskKind, Lab
from lab.results.record import Conditions, DiskRecord

_VERSION = re.compile(r"(\d+(?:\.\d+)+)")
TUNABLES = ("/proc/sys/dev/raid/speed_limit_min", "/proc/sys/dev/raid/speed_limit_max")


def read_conditions(lab: Lab) -> Conditions:
    """Kernel, tools, processors, disks and tunables of an open lab."""
    facts = lab.machine.facts
    # md's limits are there only once its driver is.
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
        nbdkit_version=_version(lab, "nbdkit") if any(disk.kind is DiskKind.SPINDLE for disk in lab.disks) else "",
        disks=tuple(
            DiskRecord(
                name=disk.name,
                path=disk.node,
                kind=disk.kind.value,
                personality=disk.personality,
                size_bytes=disk.size_bytes,
                write_cache=known.get(f"/sys/block/{disk.kernel_name}/queue/write_cache", ""),
            )
            for disk in lab.disks
        ),
        host_cache_notes=_cache_notes(lab),
        tunables={path: value for path, value in known.items() if "write_cache" not in path},
    )


def _cache_notes(lab: Lab) -> tuple[str, ...]:
    if lab.folder is not None and any(disk.kind is DiskKind.FILE for disk in lab.disks):
        return ("file disks are cached by the computer that runs the embedded kernel",)
    return ()


def _version(lab: Lab, program: str) -> str:
    result = lab.machine.run((program, "--version"), check=False)
    found = _VERSION.search(result.stdout + result.stderr)
    return found[1] if found else ""


def _cpu_model(text: str) -> str:
    """The first model name; the embedded kernel writes the host's as ``host``."""
    names = dict(line.split(":", 1) for line in reversed(text.splitlines()) if ":" in line)
    fields = {key.strip(): value.strip() for key, value in names.items()}
    return fields.get("model name") or fields.get("host", "")
