"""Results as files outside the store, wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import ResultError
from lab.results.journal import RECORD_NAME
from lab.results.record import ResultRecord
from lab.results.store import decode_own, unpacked


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Results as the files of their folders. They are not held in memory: a class has thousands."""

    source: Path
    ids: Sequence[str]
    read: Callable[[str, Iterable[str]], Iterator[bytes]]
    """Lazily reads files of one result's folder, given by path. Raises ResultError."""
    documents: Mapping[str, Collection[str]] | None
    """Paths of each result's documents, if they were checked already; None: they are checked when a result is read."""

    def record(self, result_id: str) -> ResultRecord:
        """Read and check one result.

        Raises ResultError if it is damaged, newer than this raidlab, has another result's id, or lacks a document.
        """
        (data,) = self.read(result_id, [RECORD_NAME])
        return self.checked(result_id, data)

    def checked(self, result_id: str, data: bytes) -> ResultRecord:
        """Like ``record``, from the bytes of the record."""
        record = decode_own(data, result_id, source=f"{self.source}/{result_id}")
        if self.documents is None:
            for name in record.files:
                self.document(result_id, name)
        elif missing := [name for name in record.files if name not in self.documents[result_id]]:
            raise ResultError(
                f"result '{result_id}' in '{self.source}' lacks {', '.join(missing[:3])}", hint="copy it again"
            )
        return record

    def document(self, result_id: str, name: str) -> str:
        """A fio document or a timeline. Raises ResultError."""
        (data,) = self.read(result_id, [name])
        return unpacked(data, f"'{name}' of result '{result_id}' in '{self.source}'")
