"""Rebuild rates from stored results of raidlab."""

from __future__ import annotations

from lab.errors import ResultError
from lab.fleet.schema import Measured
from lab.results.store import ResultStore


def measured_in(store: ResultStore) -> Measured:
    """A function that looks up in this store the rebuilds of a result named in a fleet file."""

    def rates(name: str, array: str | None) -> tuple[float, ...]:
        """Bytes per second of each rebuild of an array. Raises ResultError if there is none."""
        record = store.load(name)
        found = tuple(
            each.rebuilt_bytes / each.rebuild_seconds
            for each in record.rebuilds
            if array in (None, "", each.array) and each.rebuild_seconds > 0 and each.rebuilt_bytes > 0
        )
        if not found:
            arrays = sorted({each.array for each in record.rebuilds})
            hint = f"it has rebuilds of: {', '.join(arrays)}" if arrays else "measure one: raidlab run antioquia-quick"
            raise ResultError(f"result '{record.id}' has no rebuild" + (f" of '{array}'" if array else ""), hint=hint)
        return found

    return rates
