"""Files from outside, and files of the lab's own in folders in which somebody else might have written.

The promise: what is opened is a plain file of bounded size. No pipe or device makes the lab wait, no link leads it to
another file, no small file becomes a large one in memory, and of the lab's own files none is another user's.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from contextlib import nullcontext, suppress
from pathlib import Path

from lab.errors import LabError, ResultError, SpecError
from lab.gates.text import shortened
from lab.units import KIB, MIB, human_bytes

MOST_TOML_BYTES = 256 * KIB
"""More than ten times the longest lesson."""
MOST_RECORD_BYTES = 16 * MIB
"""A cell takes some 2 KiB, and the largest experiment of the catalogue has 1,146. One as large as this may take thirty
times as much once it is decoded, which is half of what a computer can be asked for."""
MOST_DOCUMENT_BYTES = 32 * MIB
"""Of one of fio's documents (some 36 KiB), or of a timeline (some 150 bytes a sample), unpacked."""
_MOST_MEMBERS = 64
"""Of a gzip file; the lab writes one. To go through a million would take hours."""


def open_plain(
    path: Path,
    flags: int = os.O_RDONLY,
    *,
    is_own: bool = False,
    folder_fd: int | None = None,
    error: type[LabError] = ResultError,
) -> int:
    """The descriptor of a plain file. ``is_own``: it is this user's, under one name alone, and no link leads there.

    ``folder_fd``: the descriptor of its folder, in which it is looked for by its last name, and is no link.

    With O_CREAT one that is not there is made, for this user alone. Raises ``error`` for anything that is not such a
    file, OSError as open(2) does.
    """
    # Looked at before it is opened, since to open a device may do something; and again, in case it was exchanged.
    has_links = not is_own and folder_fd is None
    name = path if folder_fd is None else path.name
    with suppress(FileNotFoundError) if flags & os.O_CREAT else nullcontext():
        _refuse(path, os.stat(name, dir_fd=folder_fd, follow_symlinks=has_links), is_own=is_own, error=error)
    links = 0 if has_links else os.O_NOFOLLOW
    descriptor = os.open(name, flags | links | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600, dir_fd=folder_fd)
    try:
        _refuse(path, os.fstat(descriptor), is_own=is_own, error=error)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_plain(
    path: Path,
    most_bytes: int,
    *,
    is_own: bool = False,
    folder_fd: int | None = None,
    error: type[LabError] = ResultError,
    hint: str = "",
) -> bytes:
    """All of a plain file. Raises ``error`` as ``open_plain`` and for one of more than ``most_bytes``, OSError."""
    with open(open_plain(path, is_own=is_own, folder_fd=folder_fd, error=error), "rb") as file:
        # One that grows meanwhile is not read on for ever.
        data = file.read(most_bytes + 1) if os.fstat(file.fileno()).st_size <= most_bytes else None
    if data is None or len(data) > most_bytes:
        raise error(f"'{path}' is larger than {human_bytes(most_bytes)}", hint=hint or "check the path")
    return data


_NEXT = {
    errno.ENOENT: "check the name; a relative path starts here",
    errno.EACCES: "let yourself read it: chmod u+r FILE, and u+x on its folders",
    errno.ENAMETOOLONG: "shorten the name: at most 255 bytes, and 4,095 with its folders",
    errno.ELOOP: "name the file itself: its links lead in a circle",
    errno.ENOTDIR: "check the path: a part of it is a file and no folder",
}


def read_text(path: Path, most_bytes: int, *, error: type[LabError] = SpecError, hint: str = "") -> str:
    """All of a plain file of UTF-8 that somebody named.

    Raises ``error`` with what to do next for whatever keeps it from being read; ``hint`` is for one that is too large.
    """
    told = f"'{shortened(str(path), 200)}' cannot be read"
    try:
        return read_plain(path, most_bytes, error=error, hint=hint).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise error(
            f"{told}: byte {problem.start + 1} is not UTF-8", hint="save it as UTF-8, or check that it is this file"
        ) from None
    except OSError as problem:
        if problem.errno == errno.ENOENT:
            told = f"there is no file '{shortened(str(path), 200)}'"
        else:
            told = f"{told}: {problem.strerror}"
        raise error(told, hint=_NEXT.get(problem.errno or 0, "check the path, and the disk that it is on")) from None
    except ValueError:
        raise error(f"{told}: no name has a zero byte in it", hint="check the path") from None


def read_inside(folder: Path, name: str, most_bytes: int) -> bytes:
    """All of the plain file ``name``, which may stand in folders of ``folder``. No link leads out of it on the way.

    Raises ResultError for anything else and for more than ``most_bytes``, OSError as open(2) does.
    """
    where = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in name.split("/")[:-1]:
            inner = os.open(each, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=where)
            os.close(where)
            where = inner
        return read_plain(folder / name, most_bytes, folder_fd=where)
    finally:
        os.close(where)


def gunzip(data: bytes, most_bytes: int, what: str) -> bytes:
    """What was packed with gzip. Raises ResultError for more than ``most_bytes`` unpacked, and for what is no gzip."""
    found: list[bytes] = []
    left = most_bytes
    while data:
        if len(found) == _MOST_MEMBERS:
            raise ResultError(f"{what} is damaged: it has too many parts", hint="restore it from a copy")
        member = zlib.decompressobj(wbits=31)
        try:
            found.append(member.decompress(data, left + 1))
        except zlib.error as error:
            raise ResultError(f"{what} is damaged: {error}", hint="restore it from a copy") from None
        left -= len(found[-1])
        if left < 0:
            raise ResultError(f"{what} is larger than {human_bytes(most_bytes)} unpacked", hint="do not use this file")
        if not member.eof:
            raise ResultError(f"{what} is cut off", hint="restore it from a copy")
        data = member.unused_data
    return b"".join(found)


def _refuse(path: Path, found: os.stat_result, *, is_own: bool, error: type[LabError]) -> None:
    remove = "move it away: the lab makes its own files"
    if is_own and stat.S_ISLNK(found.st_mode):
        raise error(f"'{path}' is a link to another file", hint=remove)
    if not stat.S_ISREG(found.st_mode):
        raise error(
            f"'{path}' is {_kind(found.st_mode)} and no file", hint="name a plain file" if not is_own else remove
        )
    if is_own and found.st_uid != os.geteuid():
        raise error(f"'{path}' belongs to another user (number {found.st_uid})", hint=remove)
    if is_own and found.st_nlink > 1:
        raise error(f"'{path}' is the same file as another one (a hard link)", hint=remove)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}
    return kinds.get(stat.S_IFMT(mode), "a device")
