"""Files from outside, and the lab's own files in folders in which other users may have written.

The guarantee: only plain files of bounded size are opened. No pipe or device blocks the lab, no link leads to another
file, no small file expands to a large one in memory, and the lab's own files never belong to another user.
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
"""A cell takes about 2 KiB, and the largest experiment of the catalogue has 1,146 cells. A record of this size may take
thirty times as much once decoded, half of the memory that a computer can be expected to have."""
MOST_DOCUMENT_BYTES = 32 * MIB
"""Of one fio document (about 36 KiB) or one timeline (about 150 bytes per sample), unpacked."""
_MOST_MEMBERS = 64
"""Of a gzip file; the lab writes one. Reading a million members would take hours."""


def open_plain(
    path: Path,
    flags: int = os.O_RDONLY,
    *,
    is_own: bool = False,
    folder_fd: int | None = None,
    error: type[LabError] = ResultError,
) -> int:
    """The descriptor of a plain file.

    ``is_own``: it must belong to this user, have no other hard link, and be no symlink. ``folder_fd``: the descriptor
    of the folder in which the last component of ``path`` is opened; it must be no symlink.

    With O_CREAT a missing file is created, with access for this user only. Raises ``error`` for anything but such a
    file, OSError as open(2) does.
    """
    # Checked before opening, since opening a device may have side effects; and after, in case the file was replaced.
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
    """Read a plain file. Raises ``error`` as ``open_plain`` and for more than ``most_bytes``, OSError."""
    with open(open_plain(path, is_own=is_own, folder_fd=folder_fd, error=error), "rb") as file:
        # A file that grows meanwhile is not read without end.
        data = file.read(most_bytes + 1) if os.fstat(file.fileno()).st_size <= most_bytes else None
    if data is None or len(data) > most_bytes:
        raise error(f"'{path}' is larger than {human_bytes(most_bytes)}", hint=hint or "check the path")
    return data


_NO_TEXT = "save it as UTF-8, or check that it is this file"
_NEXT = {
    errno.ENOENT: "check the name; a relative path starts here",
    errno.EACCES: "let yourself read it: chmod u+r FILE, and u+x on its folders",
    errno.ENAMETOOLONG: "shorten the name: at most 255 bytes, and 4,095 with its folders",
    errno.ELOOP: "name the file itself: its links lead in a circle",
    errno.ENOTDIR: "check the path: a part of it is a file and no folder",
}


def read_text(path: Path, most_bytes: int, *, error: type[LabError] = SpecError, hint: str = "") -> str:
    """Read a plain UTF-8 file named by the user.

    Raises ``error`` with a hint if the file cannot be read for any reason; ``hint`` is for a file that is too large.
    """
    told = f"'{shortened(str(path), 200)}' cannot be read"
    try:
        data = read_plain(path, most_bytes, error=error, hint=hint)
        if (zero := data.find(b"\0")) >= 0:
            raise error(f"{told}: byte {zero + 1} is zero, so it is no text", hint=_NO_TEXT)
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise error(f"{told}: byte {problem.start + 1} is not UTF-8", hint=_NO_TEXT) from None
    except OSError as problem:
        if problem.errno == errno.ENOENT:
            told = f"there is no file '{shortened(str(path), 200)}'"
        else:
            told = f"{told}: {problem.strerror}"
        raise error(told, hint=_NEXT.get(problem.errno or 0, "check the path, and the disk that it is on")) from None
    except ValueError:
        raise error(f"{told}: no name has a zero byte in it", hint="check the path") from None


def read_inside(folder: Path, name: str, most_bytes: int) -> bytes:
    """Read the plain file ``name``, which may be in subfolders of ``folder``. Symlinks in the path are rejected.

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
    """Decompress gzip data. Raises ResultError for more than ``most_bytes`` unpacked, and for invalid gzip data."""
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
            f"'{path}' is {kind_of(found.st_mode)} and no file", hint="name a plain file" if not is_own else remove
        )
    if is_own and found.st_uid != os.geteuid():
        raise error(f"'{path}' belongs to another user (number {found.st_uid})", hint=remove)
    if is_own and found.st_nlink > 1:
        raise error(f"'{path}' is the same file as another one (a hard link)", hint=remove)


def kind_of(mode: int) -> str:
    """The type of a file that is not a plain file, in words: ``a pipe``."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}
    return kinds.get(stat.S_IFMT(mode), "a device")
