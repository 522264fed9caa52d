"""What a killed command left beside the results, and how nobody takes the work of a living one for that.

Whoever puts a result into the store, takes one out or begins one holds the store's lock, shared; whoever removes what
was left holds it alone. It is an flock(2), which ends with its holder, so what is there while nobody else holds it
is nobody's any more.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.errors import MachineBusy
from lab.gates.own import make_own_folder

IMPORTING_PREFIX, DELETING_PREFIX = ".importing-", ".deleting-"
LOCK_NAME = "lock"
"""In a result's folder: held by the process that writes it."""
_STORE_LOCK = ".changing"
_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp")
_BEGUN = re.compile(r"[0-9]{8}T[0-9]{6}Z-")
_OWN = re.compile(rf"({re.escape(IMPORTING_PREFIX)}|{re.escape(DELETING_PREFIX)})(.+?)(\.[0-9]+)?")


@contextmanager
def changing(root: Path) -> Iterator[None]:
    """Whatever is made or moved in the store meanwhile is no leftover. Raises OSError."""
    make_own_folder(root, "the folder for results")
    with locked(root / _STORE_LOCK, fcntl.LOCK_SH):
        yield


def sweep(root: Path) -> list[str]:
    """Remove what killed commands left in the store; one sentence for each.

    Nothing while another process changes the store (the next command looks again), or where nothing can be removed.
    """
    try:
        if not any(True for _ in _leftovers(root)):
            return []
        with locked(root / _STORE_LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return [sentence for path, sentence in list(_leftovers(root)) if _remove(path)]
    except OSError:
        return []


@contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Hold an flock(2) of a file, which is made if it is not there. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held_alone(path: Path, what: str) -> Iterator[None]:
    """The same, by one at a time. Raises MachineBusy, which tells that ``what`` another raidlab is at."""
    try:
        with locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            yield
    except BlockingIOError:
        raise MachineBusy(f"{what} in another raidlab", hint="wait for it, or end it") from None


def _leftovers(root: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        if found := _OWN.fullmatch(entry.name):
            what = "import" if found[1] == IMPORTING_PREFIX else "delete"
            yield Path(entry), f"removed what a killed {what} of result '{found[2]}' left"
        elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            with suppress(OSError):
                yield from _in_result(Path(entry))
    for path in _temporary(root.parent):
        yield path, f"removed '{path.name}', which a killed command left"


def _in_result(folder: Path) -> Iterator[tuple[Path, str]]:
    """Only a run that is not finished leaves something: its draft is removed last of all."""
    has_record, has_draft = (folder / "record.json").exists(), (folder / "draft.json").exists()
    if has_record and not has_draft:
        return
    inside = [*_temporary(folder), *_temporary(folder / "raw")]
    if not has_record and not has_draft:
        others = {*folder.iterdir(), *(folder / "raw").glob("*")} - {folder / "raw", *inside}
        if _BEGUN.match(folder.name) and not others:
            yield folder, f"removed the empty beginning of result '{folder.name}'"
    elif inside and not _is_written(folder):
        for path in inside:
            yield path, f"removed '{path.name}', which a killed run left in result '{folder.name}'"


def _temporary(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry) for entry in os.scandir(folder) if _TEMPORARY.fullmatch(entry.name))
    except OSError:
        return []


def _is_written(folder: Path) -> bool:
    try:
        with locked(folder / LOCK_NAME, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return False
    except OSError:
        return True


def _remove(path: Path) -> bool:
    with suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path)
        return True
    return False
