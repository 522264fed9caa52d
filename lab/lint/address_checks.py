"""Whether the repeats of a random load are repeats: each on addresses of its own."""

from __future__ import annotations

from collections.abc import Iterator

from lab.lint.findings import Seen
from lab.results.record import CellRecord, ResultRecord
from lab.workloads.addresses import fingerprint


def same_addresses(record: ResultRecord) -> Iterator[Seen]:
    """One finding for each load whose repeats all went to the same addresses. Older records tell it by their jobs."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for cell in record.cells:
        groups.setdefault((cell.array, cell.workload, cell.phase), []).append(_addresses(cell))
    for key, found in groups.items():
        if len(found) > 1 and found[0] and len(set(found)) == 1:
            yield Seen("/".join(key), f"{len(found)} repeats on one sequence of addresses", "another one for each")


def _addresses(cell: CellRecord) -> str:
    return cell.addresses or fingerprint(cell.job_text, (), cell.figures.fio_version)
