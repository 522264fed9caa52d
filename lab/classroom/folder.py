"""A folder of bundles as tables that are as the folder is now; only what has changed is read, over several processes.

A bundle is unpacked and its signature checked once, and again only when its file changes. Each some seconds what was
read is kept, so whoever interrupts loses no more than that.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from lab.classroom.bundle import SUFFIX
from lab.classroom.columns import CHECKS, FILES, TABLES, Rows, Stamped, read_rows
from lab.classroom.kept import KeptClass, duckdb_module, held, open_kept
from lab.errors import ResultError
from lab.gates.text import visible, visible_name
from lab.host.clock import HostClock
from lab.host.files import storage_error
from lab.host.locks import ALONE, SHARED
from lab.host.pool import processors, spread
from lab.units import MIB

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_PROCESSES = 4
"""That read bundles: with 50 MiB each, and 300 for the queries, far below a GiB."""
_FEW, _FEW_BYTES = 64, 16 * MIB
"""Bundles that one process has read before others have started."""
_AT_ONCE = 10
"""Bundles of a job."""
_KEEP_AFTER, _KEEP_AFTER_SECONDS = 250, 5.0
"""Bundles, and time, after which what was read is kept: whichever comes first."""
Tell = Callable[[str, float], object]
"""Called with what is being done, and which part of it is done."""


def silent(what: str, fraction: float) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True)
class _Changes:
    gone: tuple[str, ...]
    new: tuple[Stamped, ...]


@contextmanager
def open_class(
    folder: Path, cache: Path, *, tell: Tell = silent, processes: int | None = None
) -> Iterator[DuckDBPyConnection]:
    """The bundles of ``folder`` as tables, read as far as they have changed; what is known is kept in ``cache``.

    ``processes`` None: of many bundles as many as there are processors, ``MOST_PROCESSES`` at most. Raises
    RequirementMissing without duckdb, ResultError for no folder, or a cache that cannot be written.
    """
    duckdb = duckdb_module()
    if not folder.is_dir():
        raise ResultError(f"there is no folder '{folder}'", hint="give the folder that holds the bundles")
    place = cache / sha256(f"{CHECKS} {visible(str(folder.resolve()))}".encode()).hexdigest()[:16]
    try:
        with open_kept(place) as kept, ExitStack() as lock:

            def hold(how: int) -> None:
                lock.close()
                lock.enter_context(held(place, how, lambda: tell("another raidlab reads this class", 0.0)))
                kept.reload()

            hold(SHARED)
            if _is_changed(_changes(folder, kept)):
                hold(ALONE)
                # The one that had the lock may have read them.
                _bring_up_to_date(kept, _changes(folder, kept), tell, processes)
            kept.show()
            yield kept.database
    except duckdb.Error as error:
        if refused := _refusal(str(error)):
            raise storage_error(f"what was read of '{folder}' cannot be kept in '{place}'", refused) from None
        raise ResultError(f"the class of '{folder}' cannot be read: {error}", hint=f"delete '{place}'") from None
    except OSError as error:
        raise storage_error(f"'{place}' cannot be used", error) from error


def _refusal(text: str) -> OSError | None:
    """What the system said to DuckDB, which passes on its words alone."""
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
    return next((OSError(each, os.strerror(each)) for each in numbers if os.strerror(each) in text), None)


def _is_changed(changes: _Changes) -> bool:
    return bool(changes.gone or changes.new)


def _changes(folder: Path, kept: KeptClass) -> _Changes:
    """What is known and no longer so, and what is to be read, in the order of the names."""
    there: dict[str, Stamped] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                # A name may have bytes that are no UTF-8, which no column takes.
                there[visible_name(entry.name)] = (Path(entry.path), *_stamp(entry))
    known = kept.known()
    gone = tuple(name for name, stamp in known.items() if name not in there or there[name][1:] != stamp)
    new = tuple(there[name] for name in sorted(there) if known.get(name) != there[name][1:])
    return _Changes(gone, new)


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int]:
    """Size and time of change; of a link that leads nowhere its own."""
    try:
        found = entry.stat()
    except OSError:
        found = entry.stat(follow_symlinks=False)
    return found.st_size, found.st_mtime_ns


def _bring_up_to_date(kept: KeptClass, changes: _Changes, tell: Tell, processes: int | None) -> None:
    """Only for who holds the lock alone."""
    kept.sweep()
    kept.forget(changes.gone)
    is_little = len(changes.new) <= _FEW and sum(size for _, size, _ in changes.new) <= _FEW_BYTES
    helpers = processes or (1 if is_little else min(processors(), MOST_PROCESSES))
    jobs = [changes.new[place : place + _AT_ONCE] for place in range(0, len(changes.new), _AT_ONCE)]
    clock = HostClock()
    done, begun = 0, clock.monotonic_seconds()
    gathered: Rows = _no_rows()
    with spread(read_rows, jobs, min(helpers, len(jobs))) as answers:
        for rows in answers:
            for table, found in rows.items():
                gathered[table] += found
            done += len(rows[FILES])
            if not is_little:
                tell(f"reading {len(changes.new)} bundles", done / len(changes.new))
            now = clock.monotonic_seconds()
            if len(gathered[FILES]) >= _KEEP_AFTER or now - begun >= _KEEP_AFTER_SECONDS:
                kept.add(gathered)
                gathered, begun = _no_rows(), now
    if gathered[FILES]:
        kept.add(gathered)
    kept.join_small()


def _no_rows() -> Rows:
    return {table: [] for table in TABLES}
