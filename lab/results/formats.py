"""What all files of results have in common that say in which format they are."""

from __future__ import annotations

from lab.errors import ResultError


def refuse_newer(source: object, what: str, version: int, known: int) -> None:
    """Raises ResultError for a file whose format a later raidlab has brought; ``known`` is the newest of this one."""
    if version > known:
        raise ResultError(
            f"'{source}' has {what} format {version}; this raidlab reads up to {known}",
            hint="read it with a newer raidlab",
        )
