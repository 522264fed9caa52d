"""Records that are complete when they are written: one JSON file each, ``<root>/<id>.json``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from lab.errors import ResultError
from lab.gates.names import checked_name
from lab.gates.own import make_own_folder, read_own_json
from lab.host.files import create_file, storage_error
from lab.store.runs import numbered

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class RecordFiles(Generic[T]):
    """The records of one kind below ``root``, which is created with the first; ``noun`` is their name in messages."""

    root: Path
    noun: str
    kind: type[T]
    state_root: Path | None = None
    """The state folder, if ``root`` is inside it: all folders below it must belong to this user."""

    def add(self, first: str, make: Callable[[str], T], *, folder: str = "") -> T:
        """Store the record that ``make`` returns for its id: ``first``, or ``first-2`` and so on if that id is taken.

        ``folder`` is a folder below ``root``. Two concurrent processes get different ids. Raises ResultError if the
        record cannot be stored, LabError for a folder that does not belong to this user.
        """
        place = self.root / checked_name(folder, self.noun) if folder else self.root
        try:
            make_own_folder(place, f"the folder for {self.noun}s", root=self.state_root)
            for name in numbered(checked_name(first, self.noun)):
                record = make(name)
                data = msgspec.json.format(msgspec.json.encode(record), indent=1)
                if create_file(place / f"{name}.json", data):
                    return record
        except OSError as error:
            raise storage_error(f"no {self.noun} can be stored in '{place}'", error) from error
        raise AssertionError("numbers do not end")

    def read(self, pattern: str = "*") -> Iterator[tuple[str, T]]:
        """Id and record of every readable file below ``root``, sorted by path."""
        for path in sorted(self.root.glob(f"{pattern}.json")):
            with suppress(ResultError, OSError):
                yield path.stem, read_own_json(path, self.kind)
