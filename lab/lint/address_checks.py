"""Whether the repeats of a random load are repeats: each on addresses of its own."""

from __future__ import annotations

from collections.abc import Iterator

from lab.lint.findings import Seen
from lab.results.record import CellRecord, ResultRecord
from lab.workloads.addresses import deaf_jobs, fingerprint


def same_addresses(record: ResultRecord) -> Iterator[Seen]:
    """One finding for each load whose repeats all went to the same addresses. Older records tell it by their jobs."""
    groups: dict[tuple[str, str, str], list[CellRecord]] = {}
    for cell in record.cells:
        groups.setdefault((cell.array, cell.workload, cell.phase), []).append(cell)
    for key, cells in groups.items():
        if len(cells) < 2:
            continue
        name, wanted = "/".join(key), "another one for each"
        addresses = {_addresses(cell) for cell in cells}
        deaf, jobs = deaf_jobs(cells[0].job_text, cells[0].figures.fio_version)
        if len(addresses) == 1 and addresses != {""}:
            yield Seen(name, f"{len(cells)} repeats on one sequence of addresses", wanted)
        elif deaf and not cells[0].addresses:
            yield Seen(name, f"{deaf} of {jobs} jobs on one sequence of addresses in all {len(cells)} repeats", wanted)


def _addresses(cell: CellRecord) -> str:
    return cell.addresses or fingerprint(cell.job_text, (), cell.figures.fio_version)
