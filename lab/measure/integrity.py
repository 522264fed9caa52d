"""Checksums over the data of an array, read past the caches: taken before and after every fault, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lab.errors import LabError
from lab.machine.api import Machine
from lab.units import MIB


class Checksum(StrEnum):
    """How data are summed up."""

    SHA256 = "sha256"
    CRC32 = "crc32"
    """POSIX cksum: three times as fast; finds any damage but one in 2^32."""


_PROGRAMS = {Checksum.SHA256: "sha256sum", Checksum.CRC32: "cksum"}


class Verdict(StrEnum):
    """What became of the data."""

    INTACT = "intact"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    """The array reports an error instead of data: lost, and said so."""


@dataclass(frozen=True, slots=True)
class DataSum:
    """A checksum of some place; ``digest`` is empty where reading failed."""

    digest: str
    error: str = ""


def sum_device(
    machine: Machine,
    device: str,
    length_bytes: int | None = None,
    how: Checksum = Checksum.SHA256,
    *,
    skip_bytes: int = 0,
) -> DataSum:
    """Checksum of a block device, or of ``length_bytes`` of it after ``skip_bytes`` (both whole MiB)."""
    count = f"count={length_bytes // MIB} skip={skip_bytes // MIB}" if length_bytes else ""
    return _sum(machine, f"dd if={device} bs=1M iflag=direct status=none {count}", how)


def sum_files(machine: Machine, folder: str, how: Checksum = Checksum.SHA256) -> DataSum:
    """Checksum of all files directly in a folder, in the order of their names, read with direct I/O."""
    return _sum(
        machine,
        f'for f in {folder}/*; do [ -f "$f" ] || continue; dd if="$f" bs=1M iflag=direct status=none || exit 1; done',
        how,
    )


def _sum(machine: Machine, reader: str, how: Checksum) -> DataSum:
    # Without pipefail a failed read would pass as the checksum of what came before it.
    script = f"set -o pipefail; ( {reader} ) | {_PROGRAMS[how]}"
    result = machine.run(("bash", "-c", script), check=False, timeout_seconds=3600)
    if result.status != 0:
        return DataSum("", result.stderr.strip().splitlines()[-1] if result.stderr.strip() else "reading failed")
    words = result.stdout.split()
    if not words:
        raise LabError(f"{_PROGRAMS[how]} printed nothing", hint="run the command again")
    return DataSum(f"{how}:{words[0]}")


def verdict(before: DataSum, after: DataSum) -> Verdict:
    """Compare two checksums of the same place."""
    if not after.digest or not before.digest:
        return Verdict.UNREADABLE
    return Verdict.INTACT if before.digest == after.digest else Verdict.CHANGED
