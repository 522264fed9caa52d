"""Folders and files for the lab's own data: disks, lists, locks, progress.

The guarantee: only this user writes the lab's data. A folder in which another user can write is not used, no link leads
out of the state folder, and a damaged, replaced or oversized file raises a single error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lab.errors import LabError, ResultError
from lab.gates.decoding import convert
from lab.gates.files import read_plain
from lab.units import MIB

T = TypeVar("T")

MOST_OWN_BYTES = 4 * MIB
"""Of a list or a note of the lab; the largest known, the progress in a lesson, has a few KiB."""
_ELSEWHERE = "choose another place with RAIDLAB_STATE=FOLDER"


def check_own_folder(path: Path, what: str, *, may_be_link: bool = False) -> None:
    """Raises LabError for a folder of another user, or one in which others may write; OSError as stat(2) does.

    A missing folder passes, since it may be created. Folders of root are trusted, since root is unrestricted anyway.
    ``may_be_link``: the user who configured the folder may have made a link to it; folders created by the lab are never
    links.
    """
    try:
        found = path.stat(follow_symlinks=may_be_link)
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(found.st_mode):
        raise LabError(
            f"{what} {path} is a link", hint=f"move the link away: the lab makes its own folders; or {_ELSEWHERE}"
        )
    if not stat.S_ISDIR(found.st_mode):
        raise LabError(f"{what} {path} is no folder", hint=f"move it away, or {_ELSEWHERE}")
    if found.st_uid not in (os.geteuid(), 0):
        raise LabError(
            f"{what} {path} belongs to another user (number {found.st_uid})", hint=f"work as that user, or {_ELSEWHERE}"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LabError(
            f"other users may write in {what} {path}",
            hint=f"if all in it is yours, keep them out: chmod -R go-w '{path}'; otherwise {_ELSEWHERE}",
        )


def make_own_folder(path: Path, what: str, *, root: Path | None = None) -> None:
    """Create a folder for this user alone, with its parents, and check all from ``root`` down (else itself).

    The XDG Base Directory Specification requires mode 0700, also for the parents. Raises LabError as
    ``check_own_folder``, OSError.
    """
    root = root or path
    if root.is_symlink() and not root.exists():
        raise LabError(f"{what} {root} is a link to nothing", hint=f"make the folder that it leads to, or {_ELSEWHERE}")
    for folder in reversed([each for each in (root, *root.parents) if not each.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    check_own_folder(root, what, may_be_link=True)
    folder = root
    for name in path.relative_to(root).parts:
        folder /= name
        check_own_folder(folder, what)
        folder.mkdir(mode=0o700, exist_ok=True)


def read_own_json(
    path: Path,
    kind: type[T],
    *,
    converted: Callable[[Any], Any] = lambda tree: tree,
    error: type[LabError] = ResultError,
) -> T:
    """Read a JSON file of the lab; ``converted`` transforms its tree before it is decoded as ``kind``.

    Raises ``error`` for a file that does not belong to the lab or is damaged, FileNotFoundError.
    """
    try:
        data = read_plain(path, MOST_OWN_BYTES, is_own=True, error=error)
        return decoded_json(data, kind, converted=converted)
    except FileNotFoundError:
        raise
    except OSError as failure:
        raise error(f"'{path}' cannot be read: {failure.strerror}", hint="make it readable for you") from None
    except ValueError as failure:
        raise error(f"'{path}' is damaged: {failure}", hint="move it away: the lab makes another") from None


def decoded_json(data: bytes | str, kind: type[T], *, converted: Callable[[Any], Any] = lambda tree: tree) -> T:
    """Decode JSON. Raises ValueError for invalid JSON, JSON of another type, or JSON nested too deeply."""
    try:
        return convert(converted(msgspec.json.decode(data)), kind)
    except (msgspec.MsgspecError, RecursionError) as failure:
        raise ValueError(str(failure)) from None
