"""mdadm's own test suite in a source folder: its tests, upstream's notes on failures, and a copy to run."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from lab.errors import RequirementMissing, SpecError, ToolMissing
from lab.gates.files import read_plain
from lab.gates.text import is_name
from lab.host.files import HostFiles, write_file
from lab.host.processes import Processes
from lab.tomlfile import unknown_word
from lab.units import KIB, MIB

SCRIPT = "test"
FUNCTIONS = "tests/func.sh"
RULES_FOLDER = "udev-rules"
"""In a copy of the suite: mdadm's udev rules, under the names with which its Makefile installs them."""
PROGRAMS = ("mdadm", "mdmon")
MORE_PROGRAMS = ("raid6check", "test_stripe", "swap_super")
"""Programs of single tests. Without them, those tests skip themselves or fail."""
_RULES = {
    "01-md-raid-creating.rules": "udev-md-raid-creating.rules",
    "63-md-raid-arrays.rules": "udev-md-raid-arrays.rules",
    "64-md-raid-assembly.rules": "udev-md-raid-assembly.rules",
}
"""Name in /lib/udev/rules.d -> name in mdadm's sources (target install-udev of its Makefile)."""
PROGRAMS_FOLDER = "/run/raidlab/bin"
"""On the machine: the folder of mdadm and mdmon, first in the agent's PATH."""
_TEST = re.compile(r"[0-9][0-9].+")
_NO_TESTS = (".broken", ".inject_error", "~")
"""Suffixes of other files beside tests: notes on failures, instructions for the suite, backups of editors."""
_PATTERN = re.compile(r"[*?\[]")
_SIZE = "^{name}=([0-9]{{1,9}})$"
_MOST_FILE_BYTES = 32 * MIB
_MOST_NOTE_BYTES = 64 * KIB
_TOOLS = {
    "bash": "bash",
    "lsblk": "util-linux",
    "df": "coreutils",
    "udevadm": "udev",
    "losetup": "mount",
    "mkfs.ext3": "e2fsprogs",
    "mkfs.ext4": "e2fsprogs",
    "fsck": "util-linux",
    "blockdev": "util-linux",
    "dmesg": "util-linux",
    "which": "debianutils",
    "awk": "mawk",
    "pgrep": "procps",
    "hostname": "hostname",
    "modprobe": "kmod",
}
"""Program -> package of Debian and Ubuntu, for programs that the suite checks (check_env in func.sh) or needs."""
_UDEVD = ("/lib/systemd/systemd-udevd", "/usr/lib/systemd/systemd-udevd", "/sbin/udevd")


@dataclass(frozen=True, slots=True)
class Suite:
    """A folder with mdadm's sources."""

    folder: Path
    tests: tuple[str, ...]
    broken: Mapping[str, str]
    """Test -> content of its ``.broken`` file, which says that the test fails sometimes or always."""
    file_kib: tuple[int, int] | None
    """Size of the files for the first eight loop devices, and for the others, in KiB; None if func.sh has none."""

    @property
    def missing_programs(self) -> tuple[str, ...]:
        """The programs that must be built before the tests can run."""
        return tuple(name for name in PROGRAMS if not _is_program(self.folder / name))


def find_suite(folder: Path) -> Suite:
    """The suite in a source folder, built or not. Raises SpecError for a folder without the suite."""
    told = f"'{folder}'"
    if not folder.is_dir():
        raise SpecError(
            f"{told} is not a folder", hint="name one with mdadm's sources, such as a clone of its git repository"
        )
    lacking = [name for name in (SCRIPT, FUNCTIONS, "mdadm.h") if not (folder / name).is_file()]
    if lacking:
        raise SpecError(
            f"{told} has no {lacking[0]}: it is no folder of mdadm's sources",
            hint="name the top folder of a clone of its git repository (github.com/md-raid-utilities/mdadm)",
        )
    names = sorted(path.name for path in (folder / "tests").iterdir())
    tests = tuple(name for name in names if is_test(name) and (folder / "tests" / name).is_file())
    if not tests:
        raise SpecError(f"{told} has no test in 'tests'", hint="take a whole checkout of mdadm")
    notes = {name: folder / "tests" / f"{name}.broken" for name in tests}
    broken = {name: _text(path, _MOST_NOTE_BYTES) for name, path in notes.items() if path.is_file()}
    return Suite(folder, tests, broken, _file_sizes(_text(folder / FUNCTIONS, _MOST_FILE_BYTES)))


def is_test(name: str) -> bool:
    """Whether a file in ``tests`` is a test, by the rules of the suite's loop over ``[0-9][0-9]*``."""
    return is_name(name) and _TEST.fullmatch(name) is not None and not name.endswith(_NO_TESTS)


def chosen_tests(suite: Suite, words: Sequence[str]) -> tuple[str, ...]:
    """The tests that match ``words``, which are names or patterns such as ``'00*'``; all tests without words.

    The order is that of the suite. Raises SpecError, with the nearest name, for a word that matches no test.
    """
    found: set[str] = set()
    for word in words:
        name = word.removeprefix("tests/")
        hits = [test for test in suite.tests if fnmatchcase(test, name)] if _PATTERN.search(name) else [name]
        if not hits or not set(hits) <= set(suite.tests):
            raise unknown_word("test", word, suite.tests)
        found.update(hits)
    return tuple(test for test in suite.tests if not words or test in found)


def require_built(suite: Suite) -> None:
    """Raises RequirementMissing unless mdadm and mdmon have been built."""
    if suite.missing_programs:
        raise RequirementMissing(
            f"{' and '.join(suite.missing_programs)} not built in '{suite.folder}'",
            hint=f"make -C {suite.folder} {' '.join((*PROGRAMS, *MORE_PROGRAMS[:2]))}   "
            "(needs the packages gcc, make, pkg-config and libudev-dev)",
        )


def is_stale(suite: Suite) -> bool:
    """Whether a source file is newer than the built mdadm."""
    built = (suite.folder / "mdadm").stat().st_mtime
    return any(path.stat().st_mtime > built for path in suite.folder.glob("*.[ch]"))


def require_tools(processes: Processes, files: HostFiles) -> str:
    """The path of udev's daemon. Raises ToolMissing if a program that the suite needs is not installed."""
    for tool, package in _TOOLS.items():
        if processes.find(tool) is None:
            raise ToolMissing(f"mdadm's tests call {tool}, which is not installed", hint=f"apt install {package}")
    for path in _UDEVD:
        if os.access(files.path(path), os.X_OK):
            return path
    raise ToolMissing(
        "mdadm's tests need udev's daemon (systemd-udevd), which is not installed",
        hint="apt install udev",
    )


def copy_suite(suite: Suite, destination: Path) -> str:
    """Copy the files that the tests need to a new folder; returns the SHA-256 of all of them.

    Later changes to the checkout do not affect the run. Raises SpecError for a file that is not a regular file.
    """
    sums = []
    for name, data, is_program in _wanted(suite.folder):
        path = destination / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, data, mode=0o700 if is_program else 0o600)
        sums.append(f"{hashlib.sha256(data).hexdigest()} {name}\n")
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def digest_of(suite: Suite) -> str:
    """The digest that ``copy_suite`` returns for this suite."""
    sums = [f"{hashlib.sha256(data).hexdigest()} {name}\n" for name, data, _ in _wanted(suite.folder)]
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def _wanted(folder: Path) -> Iterator[tuple[str, bytes, bool]]:
    """Name, content, and whether it is executable, of all files that the tests need, in a fixed order."""
    yield SCRIPT, _data(folder / SCRIPT), True
    for path in sorted((folder / "tests").rglob("*")):
        # An editor's lock file, for example, is a dangling symbolic link.
        if path.is_file():
            yield path.relative_to(folder).as_posix(), _data(path), False
    for name in (*PROGRAMS, *MORE_PROGRAMS):
        if _is_program(folder / name):
            yield name, _data(folder / name), True
    for name, source in _RULES.items():
        if (folder / source).is_file():
            rules = _data(folder / source).replace(b"BINDIR", PROGRAMS_FOLDER.encode())
            yield f"{RULES_FOLDER}/{name}", rules, False


def _data(path: Path) -> bytes:
    return read_plain(path, _MOST_FILE_BYTES, error=SpecError, hint="take a checkout of mdadm's sources")


def _text(path: Path, most_bytes: int) -> str:
    return read_plain(path, most_bytes, error=SpecError).decode("utf-8", "replace").strip()


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _file_sizes(functions: str) -> tuple[int, int] | None:
    """The values of ``size`` and ``ddfsize`` in func.sh, in KiB; None if either is missing."""
    found = [re.search(_SIZE.format(name=name), functions, re.MULTILINE) for name in ("size", "ddfsize")]
    sizes = [int(match[1]) for match in found if match]
    return (sizes[0], sizes[1]) if len(sizes) == 2 else None
