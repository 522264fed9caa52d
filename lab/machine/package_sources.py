"""Read this computer's package sources (apt) without root.

apt uses separate lists for this, so nothing else on this computer changes. It verifies the lists with the
distribution's keys, and the packages with the lists. On Debian, further suites on the same sites are searched:
backports, stable, testing and sid.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab.errors import LabError, SpecError, ToolMissing
from lab.gates.text import shortened
from lab.host.files import ALONE, HostFiles, create_file, locked
from lab.host.processes import Completed, Processes

T = TypeVar("T")
_TRY_AGAIN = "make sure that this computer can reach its package sources, then try again"
_NO_APT = "specify a file of this computer instead: --on 'qemu:?kernel=PATH' or --on 'uml:?mdadm=FOLDER'"
_VERSION = re.compile(r"\d+(\.\d+)*[\w.+~-]*")
_PREFIX = ".fetch-"
_LIST_SECONDS = 300.0
PACKAGE_SECONDS = 1200.0
"""Time limit for fetching packages, and for unpacking one."""
_FURTHER_SUITES = ("{codename}-backports", "stable", "testing", "sid")
# These options omit translations of the descriptions, and the catalogues of applications.
_LEAN = ("Acquire::Languages=none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false")
_KEYRINGS = tuple(
    f"/usr/share/keyrings/{name}-archive-keyring.{kind}" for name in ("debian", "ubuntu") for kind in ("pgp", "gpg")
)


@dataclass(frozen=True, slots=True)
class Packaged:
    """A program or kernel that suites provide in several versions, and that the user can fetch."""

    what: str
    """The name in messages, with the article, such as "a kernel" or "an mdadm"."""
    command: str
    """The command of raidlab that has the subcommands list and get for it."""
    store: Path
    """The folder that contains one folder for each version that was fetched."""
    versions: Callable[[Apt], list[str]]
    """A function that returns the versions in the lists of a suite."""
    install: Callable[[Apt, str, Path], None]
    """A function that fetches a version into the store, through a temporary folder inside the store."""


def version_key(release: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key for versions that compares the numbers in them by value."""
    return tuple((1, int(word)) if word.isdigit() else (0, word) for word in re.findall(r"\d+|[^\d.]+", release))


def is_version(known: str, version: str) -> bool:
    """Whether a known version is ``version`` or begins with it. 6.12.117 begins with 6.12, but not with 6.1."""
    return re.match(rf"{re.escape(version)}(?!\d)", known) is not None


def find_version(found: Mapping[str, T], chosen: str, what: str, command: str, *, least: str = r"\d") -> T:
    """Return the first value in ``found`` whose version is ``chosen``, or begins with it.

    Raises ToolMissing. Its hint is the command that fetches the version or, if ``chosen`` does not begin with the
    pattern ``least``, the command that lists what can be fetched.
    """
    for version, each in found.items():
        if is_version(version, chosen):
            return each
    name = shortened(chosen)
    raise ToolMissing(
        f"there is no {what} {name} on this computer (available: {', '.join(found) or 'none'})",
        hint=f"{command} get {name}" if re.match(least, chosen) else f"{command} list --all",
    )


def fetchable(kind: Packaged, processes: Processes, files: HostFiles) -> Iterator[tuple[str, str]]:
    """Yield the version and suite of everything that the package sources provide. This needs the network."""
    for suite, sources in _suites(processes, files):
        with _open_apt(processes, sources, kind.store) as (apt, _):
            for version in sorted(kind.versions(apt), key=version_key, reverse=True):
                yield version, suite


def fetch(
    kind: Packaged,
    requested: str,
    processes: Processes,
    files: HostFiles,
    *,
    on_progress: Callable[[str], None] = lambda _: None,
) -> str:
    """Fetch the newest version that begins with ``requested`` from the first suite that has one. Raises SpecError."""
    if not _VERSION.fullmatch(requested):
        raise SpecError(
            f"'{shortened(requested)}' is not a version of {kind.what}",
            hint=f"'{kind.command} list --all' lists the versions that can be fetched",
        )
    for suite, sources in _suites(processes, files):
        on_progress(f"reading the package lists of {suite}")
        with _open_apt(processes, sources, kind.store) as (apt, folder):
            if fitting := [each for each in kind.versions(apt) if is_version(each, requested)]:
                version = max(fitting, key=version_key)
                on_progress(f"fetching {version} from {suite}")
                kind.install(apt, version, folder)
                return version
    raise SpecError(
        f"none of this computer's package sources provides {kind.what} {shortened(requested)}",
        hint=f"'{kind.command} list --all' lists the versions that can be fetched",
    )


def _last_line(done: Completed) -> str:
    return shortened("".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]))


class Apt:
    """apt with separate lists for the given sources (sources.list(5), one-line style)."""

    def __init__(self, processes: Processes, folder: Path, sources: str) -> None:
        self._processes = processes
        self._lists = folder / "lists"
        self._has_sources = bool(sources)
        create_file(folder / "sources.list", sources.encode(), is_durable=False)
        for name in ("lists/partial", "archives/partial", "state"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        settings = (
            f"Dir::Etc::sourcelist={folder}/sources.list",
            "Dir::Etc::sourceparts=/dev/null",
            f"Dir::State={folder}/state",
            # With this setting, an installed package does not count as available.
            "Dir::State::status=/dev/null",
            f"Dir::State::lists={folder}/lists",
            f"Dir::Cache={folder}",
            *_LEAN,
        )
        self._options = [word for setting in settings for word in ("-o", setting)]

    def update(self) -> None:
        """Fetch the lists. Raises ToolMissing if apt is missing, or LabError if it fails or cannot reach a source."""
        done = self.run("apt-get", "update")
        # If no source can be reached, apt-get only warns. With --error-on=any, it would also fail if only some of
        # several sources cannot be reached.
        if self._has_sources and not any(path.is_file() and path.name != "lock" for path in self._lists.iterdir()):
            reason = done.stderr.partition("\n")[0].removeprefix("W: ")
            raise LabError(f"no package source can be reached: {shortened(reason, 200)}", hint=_TRY_AGAIN)

    def run(self, program: str, *words: str) -> Completed:
        """Run a program of apt. Raises ToolMissing if apt is missing, or LabError with its message if it fails."""
        done = self._processes.run([program, "-q", *self._options, *words], timeout_seconds=_LIST_SECONDS)
        if done.status == 127:
            raise ToolMissing("apt is not installed", hint=_NO_APT)
        if done.status:
            raise LabError(f"{program} failed: {_last_line(done)}", hint=_TRY_AGAIN)
        return done

    def with_needs(self, *names: str, fits: Callable[[str], bool]) -> list[str]:
        """Return these packages, and those of their direct and indirect dependencies whose names ``fits`` accepts."""
        found = list(names)
        for name in found:
            output = self.run("apt-cache", "depends", name.partition("=")[0]).stdout
            needs = re.findall(r"^ +(?:Pre)?Depends: ([^\s<]+)", output, re.MULTILINE)
            found += [each for each in dict.fromkeys(needs) if fits(each) and each not in found]
        return found

    def unpack(self, names: Sequence[str], tree: Path) -> None:
        """Fetch and verify packages, and unpack them below a new folder."""
        folder = tree.with_name(f"{tree.name}-packages")
        folder.mkdir()
        # apt-get writes the packages to the current folder.
        there = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(folder))
        done = self._processes.run(
            [*there, "apt-get", "-q", *self._options, "download", *names], timeout_seconds=PACKAGE_SECONDS
        )
        if done.status:
            raise LabError(f"{' '.join(names)} cannot be fetched: {_last_line(done)}", hint=_TRY_AGAIN)
        for package in folder.glob("*.deb"):
            hint = "free some space on this computer's disk, then try again"
            self.do("dpkg-deb", "-x", str(package), str(tree), hint=hint)

    def do(self, *argv: str, hint: str) -> None:
        """Run a program on this computer. Raises ToolMissing or LabError with this hint."""
        done = self._processes.run(argv, timeout_seconds=PACKAGE_SECONDS)
        if done.status == 127:
            raise ToolMissing(f"{argv[0]} is not installed", hint=hint)
        if done.status:
            raise LabError(f"{argv[0]} failed: {shortened(done.stderr.strip())}", hint=hint)


def _suites(processes: Processes, files: HostFiles) -> Iterator[tuple[str, str]]:
    """Yield the name and the source lines of the computer's own suites, then of each further suite."""
    done = processes.run(
        ["apt-get", "indextargets", "--format", "$(SITE)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"]
    )
    if done.status:
        raise ToolMissing("apt is not installed", hint=_NO_APT)
    os_release = dict(re.findall(r'^(\w+)="?([^"\n]*)', files.read("/etc/os-release") or "", re.MULTILINE))
    distribution, codename = os_release.get("ID", ""), os_release.get("VERSION_CODENAME", "")
    keys = next((path for path in _KEYRINGS if f"/{distribution}-" in path and Path(path).is_file()), "")
    own, sites = [], []
    for line in dict.fromkeys(done.stdout.splitlines()):
        site, release, component = line.split("|")
        if component == "main" and release.startswith(codename):
            own.append(_source(site, release, keys))
            if release == codename:
                sites.append(site)
    yield codename, "".join(own)
    for further in _FURTHER_SUITES if distribution == "debian" else ():
        suite = further.format(codename=codename)
        yield suite, "".join(_source(site, suite, keys) for site in sites)


def _source(site: str, suite: str, keys: str) -> str:
    return f"deb {f'[signed-by={keys}] ' if keys else ''}{site} {suite} main\n"


@contextmanager
def _open_apt(processes: Processes, sources: str, store: Path) -> Iterator[tuple[Apt, Path]]:
    """Yield apt with up-to-date lists for these sources, and a folder in ``store`` for the files of this fetch."""
    store.mkdir(parents=True, exist_ok=True)
    with locked(store / ".lock", ALONE, waits=True), tempfile.TemporaryDirectory(dir=store, prefix=_PREFIX) as name:
        # Remove what killed clients left behind.
        for leftover in store.glob(f"{_PREFIX}*"):
            if leftover.name != Path(name).name:
                shutil.rmtree(leftover, ignore_errors=True)
        apt = Apt(processes, Path(name), sources)
        apt.update()
        yield apt, Path(name)


def put_in_place(ready: Path, place: Path) -> None:
    """Move a folder into place in one step, after moving an existing folder away."""
    if place.exists():
        place.rename(ready.with_name("earlier"))
    ready.rename(place)
