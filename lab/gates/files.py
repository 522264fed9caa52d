"""Check files from outside, files that are executed or loaded, and the lab's own files and folders.

Kernels, drivers, libraries and interpreters must belong to this user or to root. If a file is not shipped with raidlab,
raidlab reports what the file may do before anything in it runs. Only this user can write the lab's own data. A folder
to which another user can write is not used, and no link leads out of the state folder. A damaged, replaced or oversized
file raises LabError.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import zlib
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from lab.errors import LabError, ResultError, SpecError
from lab.gates.text import shortened, visible
from lab.units import MIB, counted, human_bytes

_PACKAGE = Path(__file__).resolve().parents[1]


class FileKind(StrEnum):
    """What a TOML file describes."""

    DRILL = "drill"
    LESSON = "lesson"
    EXPERIMENT = "experiment"
    SWEEP = "sweep"
    WORKLOAD = "workload"
    FLEET = "fleet"


_EMBEDDED_ONLY = (
    "as root, in the embedded machine only, where {they} can read the system's files and write to the disks of this lab"
)
_MAY = {
    FileKind.DRILL: f"runs {{lines}} {_EMBEDDED_ONLY}",
    FileKind.LESSON: f"runs {{lines}} {_EMBEDDED_ONLY}; the rest of it works on arrays of this lab",
    FileKind.EXPERIMENT: "creates arrays and runs fio or dd, as root, on disks that are blanked first",
    FileKind.SWEEP: "creates arrays and runs fio or dd, as root, on disks that are blanked first",
    FileKind.WORKLOAD: "runs fio or dd, as root, on the array or disk that you name",
    FileKind.FLEET: "contains only numbers for a calculation; nothing in it runs",
}


_MAY_WITHOUT_LINES = {
    FileKind.DRILL: "runs no shell lines",
    FileKind.LESSON: "runs no shell lines; it works on arrays of this lab",
}


def is_foreign(path: Path) -> bool:
    """Whether a file is not shipped with raidlab."""
    return _PACKAGE not in path.resolve().parents


def foreign_note(path: Path, kind: FileKind, lines: Sequence[str] = ()) -> str:
    """Return a sentence about what a file with the shell lines ``lines`` may do, or "" for a file of raidlab's own."""
    if not is_foreign(path):
        return ""
    count = len(foreign_lines(lines))
    may = _MAY[kind].format(lines=counted(count, "shell line"), they="it" if count == 1 else "they")
    if not count and kind in _MAY_WITHOUT_LINES:
        may = _MAY_WITHOUT_LINES[kind]
    return f"'{shortened(visible(str(path)), 80)}' does not come with raidlab: this {kind} {may}"


def foreign_lines(lines: Sequence[str]) -> list[str]:
    """Return all shell lines of a file in full, so that the user can read the lines before they run."""
    return [visible(line.rstrip()) for text in lines for line in text.strip().splitlines()]


_FIRST_FREE_GROUP = 100
"""Groups with lower numbers belong to the distribution (Debian Policy, 9.2.2), so root controls who is in them."""
_ACCESS_LIST = "system.posix_acl_access"


class NotTrusted(LabError):
    """Other users may have written a file that was about to be executed."""


def require_trusted(path: Path, what: str, *, again: str = "", has_tree: bool = False) -> None:
    """Raise NotTrusted if another user may have written or replaced the file.

    A missing file passes. ``what`` describes the file, such as "the embedded kernel". ``again`` is the command that
    creates the file again once it has been removed. It is empty for one of the user's own files. With ``has_tree``,
    everything in the folder ``path`` is checked as well.
    """
    inside = (Path(inner, name) for inner, folders, files in os.walk(path) for name in (*folders, *files))
    for place in (*_way_to(path), *(inside if has_tree else ())):
        try:
            found = place.stat(follow_symlinks=False)
        except OSError:
            continue
        if reason := _reason(place, found):
            hint = _hint(path, place, found, again)
            raise NotTrusted(f"{what} {path} is not used: {reason}", hint=hint)


def _reason(place: Path, found: os.stat_result) -> str:
    """Say why other users may have written to ``place``. Return an empty string if they cannot have done so."""
    if found.st_uid not in (0, os.geteuid()):
        return f"{place} belongs to another user (number {found.st_uid})"
    is_shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    # In a sticky folder, users cannot remove each other's files (inode(7)). The mode of a link has no meaning.
    if is_shared or stat.S_ISLNK(found.st_mode):
        return ""
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private_group(place, found)):
        return f"other users may write to {place}"
    return ""


def _is_private_group(place: Path, found: os.stat_result) -> bool:
    """Whether no other user is in the file's group. It may be a private group, or a system group if root owns the file.

    Debian and its derivatives give each user a private group with write access (usermod(8), login.defs(5),
    USERGROUPS_ENAB).
    """
    with suppress(OSError):
        # With an ACL, the group bits are the mask, which is the maximum that the list grants to anyone (acl(5)).
        os.getxattr(place, _ACCESS_LIST, follow_symlinks=False)
        return False
    if found.st_uid == 0 and found.st_gid < _FIRST_FREE_GROUP:
        return True
    try:
        group, user = grp.getgrgid(found.st_gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == group.gr_gid and not {*group.gr_mem} - {user.pw_name}


def _hint(path: Path, place: Path, found: os.stat_result, again: str) -> str:
    if found.st_uid not in (0, os.geteuid()):
        return f"use one of your own{f': remove {path}, then {again}' if again else ''}"
    made_anew = f"; otherwise remove '{path}', then {again}" if again else ""
    return f"if nobody has changed anything there, run: chmod go-w '{place}'{made_anew}"


def _way_to(path: Path) -> tuple[Path, ...]:
    """Return a path and its parent folders, and the same for the target of each symlink among them."""
    found: dict[Path, None] = {}
    left = [path.absolute()]
    while left:
        place = left.pop()
        if place in found:
            continue
        found[place] = None
        if place.parent != place:
            left.append(place.parent)
        with suppress(OSError):
            left.append(place.parent / place.readlink())
    return tuple(found)


MOST_RECORD_BYTES = 16 * MIB
"""Maximum size of a record. A cell takes about 2 KiB, and the largest experiment of the catalogue has 1,146 cells. A
decoded record may take thirty times this size, which is half of the memory that a computer can be expected to have.
"""
MOST_DOCUMENT_BYTES = 32 * MIB
"""Maximum size of a fio document (about 36 KiB) or a timeline (about 150 bytes per sample), unpacked."""
_MOST_MEMBERS = 64
"""Maximum number of members in a gzip file. The lab writes one member, and reading a million would take hours."""


def open_plain(
    path: Path,
    flags: int = os.O_RDONLY,
    *,
    is_own: bool = False,
    folder_fd: int | None = None,
    error: type[LabError] = ResultError,
) -> int:
    """Open a plain file and return its descriptor.

    With ``is_own``, the file must belong to this user, have no other hard link, and not be a symlink. ``folder_fd`` is
    the descriptor of the folder in which to open the last component of ``path``, which must not be a symlink.

    With O_CREAT a missing file is created, with access for this user only. Raises ``error`` if ``path`` is not such a
    file, and OSError if open(2) fails.
    """
    # Check before opening, because opening a device may have side effects, and again afterwards, as it may be replaced.
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
    """Read a plain file. Raises the errors of ``open_plain``, and ``error`` if it is larger than ``most_bytes``."""
    with open(open_plain(path, is_own=is_own, folder_fd=folder_fd, error=error), "rb") as file:
        # Limit the read, because otherwise it might not end while another process extends the file.
        data = file.read(most_bytes + 1) if os.fstat(file.fileno()).st_size <= most_bytes else None
    if data is None or len(data) > most_bytes:
        raise error(f"'{path}' is larger than {human_bytes(most_bytes)}", hint=hint or "check the path")
    return data


_NO_TEXT = "save it as UTF-8, or check that this is the right file"
_NEXT = {
    errno.ENOENT: "check the name; a relative path starts in the current folder",
    errno.EACCES: "give yourself read permission: chmod u+r FILE, and u+x on its folders",
    errno.ENAMETOOLONG: "shorten the name to at most 255 bytes, and to 4,095 with its folders",
    errno.ELOOP: "specify the file itself, because its links form a loop",
    errno.ENOTDIR: "check the path, because a part of it is a file, not a folder",
}


def read_text(path: Path, most_bytes: int, *, hint: str = "") -> str:
    """Read a plain UTF-8 file that the user specified. Raises SpecError, with ``hint`` if the file is too large."""
    message = f"'{shortened(str(path), 200)}' cannot be read"
    try:
        data = read_plain(path, most_bytes, error=SpecError, hint=hint)
        if (zero := data.find(b"\0")) >= 0:
            raise SpecError(f"{message}: byte {zero + 1} is zero, so the file is not text", hint=_NO_TEXT)
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise SpecError(f"{message}: byte {problem.start + 1} is not UTF-8", hint=_NO_TEXT) from None
    except OSError as problem:
        if problem.errno == errno.ENOENT:
            message = f"there is no file '{shortened(str(path), 200)}'"
        else:
            message = f"{message}: {problem.strerror}"
        hint = _NEXT.get(problem.errno or 0, "check the path, and the disk that it is on")
        raise SpecError(message, hint=hint) from None
    except ValueError:
        raise SpecError(f"{message}: a path cannot contain a zero byte", hint="check the path") from None


def read_inside(folder: Path, name: str, most_bytes: int) -> bytes:
    """Read the plain file ``name``, which may include subfolders, below ``folder``. Symlinks in ``name`` are rejected.

    Raises ResultError if the file is not plain or is larger than ``most_bytes``, and OSError if open(2) fails.
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
    """Decompress gzip data. Raises ResultError if the data are invalid, or unpack to more than ``most_bytes``."""
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
            raise ResultError(f"{what} is truncated", hint="restore it from a copy")
        data = member.unused_data
    return b"".join(found)


def _refuse(path: Path, found: os.stat_result, *, is_own: bool, error: type[LabError]) -> None:
    remove = "move it elsewhere; the lab creates its own files"
    if is_own and stat.S_ISLNK(found.st_mode):
        raise error(f"'{path}' is a link to another file", hint=remove)
    if not stat.S_ISREG(found.st_mode):
        raise error(
            f"'{path}' is {kind_of(found.st_mode)}, not a file", hint="give a plain file" if not is_own else remove
        )
    if is_own and found.st_uid != os.geteuid():
        raise error(f"'{path}' belongs to another user (number {found.st_uid})", hint=remove)
    if is_own and found.st_nlink > 1:
        raise error(f"'{path}' is the same file as another one (a hard link)", hint=remove)


def kind_of(mode: int) -> str:
    """Return the type of a file that is not a plain file, such as ``a pipe``."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}
    return kinds.get(stat.S_IFMT(mode), "a device")


T = TypeVar("T")

MOST_OWN_BYTES = 4 * MIB
"""Maximum size of one of the lab's lists or notes. The largest known is the progress in a lesson, with a few KiB."""
_ELSEWHERE = "choose another folder with RAIDLAB_STATE=FOLDER"


def check_own_folder(path: Path, what: str, *, may_be_link: bool = False) -> None:
    """Raise LabError if the folder is another user's or others may write to it, and OSError if stat(2) fails.

    A missing folder passes, because it may be created. Folders of root are trusted, because root is unrestricted
    anyway. With ``may_be_link``, a symlink is followed, because the user may have configured one. Folders created by
    the lab are never symlinks.
    """
    try:
        found = path.stat(follow_symlinks=may_be_link)
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(found.st_mode):
        raise LabError(
            f"{what} {path} is a link",
            hint=f"remove the link, because the lab creates its own folders; or {_ELSEWHERE}",
        )
    if not stat.S_ISDIR(found.st_mode):
        raise LabError(f"{what} {path} is not a folder", hint=f"move it elsewhere, or {_ELSEWHERE}")
    if found.st_uid not in (os.geteuid(), 0):
        raise LabError(
            f"{what} {path} belongs to another user (number {found.st_uid})",
            hint=f"run raidlab as that user, or {_ELSEWHERE}",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LabError(
            f"other users may write to {what} {path}",
            hint=f"if everything in it is yours, remove their access: chmod -R go-w '{path}'; otherwise {_ELSEWHERE}",
        )


def make_own_folder(path: Path, what: str, *, root: Path | None = None) -> None:
    """Create a folder and its parents for this user only. Check each folder from ``root`` (default ``path``) down.

    The XDG Base Directory Specification requires mode 0700, even for the parents. Raises the errors of
    ``check_own_folder``.
    """
    root = root or path
    if root.is_symlink() and not root.exists():
        raise LabError(
            f"{what} {root} is a link to a missing folder",
            hint=f"create the folder to which it points, or {_ELSEWHERE}",
        )
    for folder in reversed([each for each in (root, *root.parents) if not each.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    check_own_folder(root, what, may_be_link=True)
    folder = root
    for name in path.relative_to(root).parts:
        folder /= name
        check_own_folder(folder, what)
        folder.mkdir(mode=0o700, exist_ok=True)
