"""What was read of a class, kept in Parquet files. Needs duckdb.

::

    <place>/parts.json             which parts there are; all else in the folder is what a killed call left
    <place>/NNNNNN.TABLE.parquet   rows of some bundles, a file for each table that has some; a bundle is in one part
    <place>/lock                   held alone by who changes something, together by those who look

A part is never changed: what takes its place is written beside it, and counts as soon as parts.json, put in place in
one move, says so. Whatever is interrupted, every bundle is known as a whole or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lab.classroom.columns import FILES, NUMBER, TABLES, TRUTH, WHOLE, Rows
from lab.errors import RequirementMissing
from lab.gates.own import make_own_folder, read_own_json
from lab.host.files import replace_file
from lab.host.locks import locked

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PARTS, _LOCK = "parts.json", "lock"
_MEMORY = "400MiB"
"""For the queries; Python with what it has loaded takes 100 MiB, and each process that reads bundles 50."""
MOST_BUNDLES = 1000
"""Of a part that is joined from small ones: to leave one bundle out of it takes a fraction of a second."""
_MOST_SMALL = 16
"""So many small parts are left as they are; each file costs a view some tenths of a millisecond."""


class KeptPart(msgspec.Struct, frozen=True):
    """One part."""

    number: int
    bundles: int
    tables: tuple[str, ...]
    """Of which it has rows."""


class _PartList(msgspec.Struct, frozen=True):
    parts: tuple[KeptPart, ...] = ()


class KeptClass:
    """The parts in a folder, and a connection that queries them. Its methods raise duckdb.Error and OSError."""

    def __init__(self, place: Path, database: DuckDBPyConnection) -> None:
        self.database = database
        self._place = place
        self.parts: tuple[KeptPart, ...] = ()

    def reload(self) -> None:
        """Take the parts that there are now. Raises ResultError for a list that is damaged."""
        try:
            self.parts = read_own_json(self._place / _PARTS, _PartList).parts
        except FileNotFoundError:
            self.parts = ()

    def sweep(self) -> None:
        """Remove what a killed call left. Only for who holds the lock alone."""
        kept = {path.name for part in self.parts for path in self._paths([part]).values()}
        for path in self._place.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in {*kept, _PARTS, _LOCK}:
                path.unlink()

    def known(self) -> dict[str, tuple[int, int]]:
        """Bundle -> size and time of change in nanoseconds."""
        rows = self.database.execute(f"SELECT file, bytes, changed_ns FROM {self._from(FILES, self.parts)}").fetchall()
        return {name: (size, changed) for name, size, changed in rows}

    def forget(self, names: Collection[str]) -> None:
        """Leave bundles out; only the parts that hold some are written again."""
        if not names:
            return
        self.database.execute("CREATE OR REPLACE TEMP TABLE gone AS SELECT unnest($1) AS file", [list(names)])
        count = "SELECT count(*) FROM {} WHERE file NOT IN (FROM gone)"
        left, changed = [], []
        for part in self.parts:
            (bundles,) = self.database.execute(count.format(self._from(FILES, [part]))).fetchall()[0]
            if bundles == part.bundles:
                left.append(part)
            else:
                changed += [self._joined([part], bundles, "WHERE file NOT IN (FROM gone)")] if bundles else []
        self._replace((*left, *changed))

    def add(self, rows: Rows) -> None:
        """Keep what was read of some bundles."""
        for table, found in rows.items():
            self.database.execute(f"CREATE OR REPLACE TEMP TABLE new_{table} ({_declared(table)})")
            self._append(f"new_{table}", TABLES[table], found)
        part = self._written(len(rows[FILES]), {table: f"FROM new_{table}" for table, found in rows.items() if found})
        self._replace((*self.parts, part))

    def join_small(self) -> None:
        """Make few parts of many small ones."""
        small = [part for part in self.parts if part.bundles <= MOST_BUNDLES // 2]
        if len(small) <= _MOST_SMALL:
            return
        groups: list[list[KeptPart]] = [[]]
        for part in small:
            if sum(each.bundles for each in groups[-1]) + part.bundles > MOST_BUNDLES:
                groups.append([])
            groups[-1].append(part)
        joined = [self._joined(group, sum(each.bundles for each in group)) for group in groups]
        self._replace((*(part for part in self.parts if part not in small), *joined))

    def show(self) -> None:
        """Make a view of every table, over the files themselves."""
        for table in TABLES:
            self.database.execute(f"CREATE VIEW {table} AS FROM {self._from(table, self.parts)}")

    def _joined(self, parts: Sequence[KeptPart], bundles: int, only: str = "") -> KeptPart:
        tables = {table for part in parts for table in part.tables}
        sources = {table: f"FROM {self._from(table, parts)} {only}" for table in TABLES if table in tables}
        return self._written(bundles, sources)

    def _written(self, bundles: int, sources: Mapping[str, str]) -> KeptPart:
        """A new part, which does not count yet; on any error nothing of it is left."""
        used = [int(path.name[:6]) for path in self._place.glob("[0-9]*.parquet")]
        part = KeptPart(max(used, default=0) + 1, bundles, tuple(sources))
        paths = self._paths([part])
        try:
            for (_, path), source in zip(paths.items(), sources.values(), strict=True):
                self.database.execute(f"COPY ({source}) TO {_quoted(path)} (FORMAT parquet)")
        except BaseException:
            _remove(paths.values())
            raise
        return part

    def _replace(self, parts: tuple[KeptPart, ...]) -> None:
        """From here on these are the parts."""
        # On an error new files stay, for the next call to remove: the list may be in place already.
        replace_file(self._place / _PARTS, msgspec.json.encode(_PartList(parts)), is_durable=False)
        gone = [part for part in self.parts if part not in parts]
        self.parts = parts
        _remove(self._paths(gone).values())

    def _paths(self, parts: Sequence[KeptPart]) -> dict[tuple[int, str], Path]:
        return {
            (part.number, table): self._place / f"{part.number:06d}.{table}.parquet"
            for part in parts
            for table in part.tables
        }

    def _from(self, table: str, parts: Sequence[KeptPart]) -> str:
        """What stands behind FROM for a table of these parts."""
        files = [_quoted(_plain(path)) for (_, name), path in self._paths(parts).items() if name == table]
        if not files:
            nothing = ", ".join(f"NULL::{kind} AS {column}" for column, kind in TABLES[table].items())
            return f"(SELECT {nothing} WHERE false)"
        return f"(SELECT {', '.join(TABLES[table])} FROM read_parquet([{', '.join(files)}]))"

    def _append(self, table: str, columns: Mapping[str, str], rows: Sequence[tuple[object, ...]]) -> None:
        """Rows as columns: by the row, thousands of inserts would take a minute."""
        if not rows:
            return
        import numpy as np

        kinds: Mapping[str, Any] = {NUMBER: float, WHOLE: np.int64, TRUTH: bool}
        batch = {
            name: np.array(values, dtype=kinds.get(kind, object))
            for (name, kind), values in zip(columns.items(), zip(*rows, strict=True), strict=True)
        }
        self.database.register("batch", batch)
        self.database.execute(f"INSERT INTO {table} SELECT * FROM batch")
        self.database.unregister("batch")


def _declared(table: str) -> str:
    return ", ".join(f"{column} {kind}" for column, kind in TABLES[table].items())


def _quoted(path: Path | str) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _plain(path: Path) -> str:
    """Where DuckDB takes a pattern of names: this very name."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _remove(paths: Collection[Path]) -> None:
    for path in paths:
        # What stays is not listed, and removed by the next call.
        with suppress(OSError):
            path.unlink(missing_ok=True)


def duckdb_module() -> Any:
    """Raises RequirementMissing without duckdb."""
    try:
        import duckdb
    except ImportError:
        raise RequirementMissing(
            "a class view needs duckdb", hint="install it: pip install 'raidlab[classroom]'"
        ) from None
    return duckdb


@contextmanager
def open_kept(place: Path) -> Iterator[KeptClass]:
    """What is kept in ``place``, which is made if it is not there. Raises LabError, duckdb.Error, OSError."""
    make_own_folder(place, "the folder for a class")
    # Of its own: DuckDB's names in it are the same in every process.
    settings = {"memory_limit": _MEMORY, "temp_directory": str(place / f"spill-{os.getpid()}")}
    with duckdb_module().connect(config=settings) as database:
        yield KeptClass(place, database)


@contextmanager
def held(place: Path, how: int, on_wait: Callable[[], object]) -> Iterator[None]:
    """The lock of ``place``; ``on_wait`` is called if another process has it. Raises OSError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(place / _LOCK, how))
        except BlockingIOError:
            on_wait()
            stack.enter_context(locked(place / _LOCK, how, waits=True))
        yield
