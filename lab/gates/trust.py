"""Executed or loaded files: kernels, drivers, libraries, interpreters.

The guarantee: only root and this user can have written the file, or can replace it. This holds if the file, and each
folder and link of its path, belongs to one of the two and is not writable by others.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lab.errors import LabError

_FIRST_FREE_GROUP = 100
"""Groups below it belong to the distribution (Debian Policy, 9.2.2): root controls their membership."""
_ACCESS_LIST = "system.posix_acl_access"


class NotTrusted(LabError):
    """Other users may have written a file that was about to be executed."""


def require_trusted(path: Path, what: str, *, again: str = "", has_tree: bool = False) -> None:
    """Raises NotTrusted for a file that another user may have written or replaced.

    A missing file passes. ``what``: description of the file, such as "the embedded kernel"; ``again``: the command that
    creates it anew. ``has_tree``: also check everything in the folder ``path``.
    """
    places = _way_to(path)
    for place in (*places, *(_below(path) if has_tree else ())):
        try:
            found = place.stat(follow_symlinks=False)
        except OSError:
            continue
        if reason := _reason(place, found):
            hint = _hint(path, place, found, again)
            raise NotTrusted(f"{what} {path} is not executed: {reason}", hint=hint)


def _reason(place: Path, found: os.stat_result) -> str:
    """Why others may have written there; empty if they cannot."""
    if found.st_uid not in (0, os.geteuid()):
        return f"{place} belongs to another user (number {found.st_uid})"
    is_shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    # In a sticky folder users cannot remove files of other users (inode(7)). The mode of a link has no meaning.
    if is_shared or stat.S_ISLNK(found.st_mode):
        return ""
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private_group(place, found)):
        return f"other users may write in {place}"
    return ""


def _is_private_group(place: Path, found: os.stat_result) -> bool:
    """Whether root and this user are the only members of the group: root's own, or the group of the user's name.

    Debian and its derivatives give each user such a group with write access (usermod(8), login.defs(5),
    USERGROUPS_ENAB).
    """
    with suppress(OSError):
        # With an ACL, the group bits are the mask, the maximum that the list grants to anyone (acl(5)).
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
    made_anew = f"; otherwise remove '{path}'{f', then {again}' if again else ''}"
    return f"if nobody has changed anything there: chmod go-w '{place}'{made_anew}"


def _way_to(path: Path) -> tuple[Path, ...]:
    """A path, all its parent folders, and the same for each link in it."""
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


def _below(folder: Path) -> Iterator[Path]:
    for inner, folders, files in os.walk(folder):
        yield from (Path(inner, name) for name in (*folders, *files))
