"""Fetch a distribution's kernel through this computer's package sources (apt), without root.

apt uses separate lists for this, so nothing else on this computer changes; it verifies the lists with the
distribution's keys, and packages with the lists. On Debian, further suites on the same sites are searched: backports,
testing and sid.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, SpecError, ToolMissing
from lab.gates.text import shortened
from lab.host.files import ALONE, HostFiles, create_file, locked
from lab.host.processes import Completed, Processes
from lab.machine.stock_kernels import StockKernel, find_stock_kernel, stock_folder, version_key

_TRY_AGAIN = "make sure that this computer can reach its package sources, then try again"
_NO_APT = "name a kernel by its path: --on 'qemu:?kernel=PATH'"
_PREFIX = ".fetch-"
_LIST_SECONDS, _PACKAGE_SECONDS = 300.0, 1200.0
_FURTHER_SUITES = ("{codename}-backports", "testing", "sid")
# Without the descriptions' translations and the catalogues of applications.
_LEAN = ("Acquire::Languages=none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false")
_KEYRINGS = tuple(
    f"/usr/share/keyrings/{name}-archive-keyring.{kind}" for name in ("debian", "ubuntu") for kind in ("pgp", "gpg")
)
_WANTED = re.compile(r"\d+(\.\d+)*[\w.+~-]*")
# Drivers for hardware that no QEMU machine has.
_UNUSED = ("sound", "drivers/gpu", "drivers/media", "drivers/net/wireless", "drivers/staging", "drivers/infiniband")


@dataclass(frozen=True, slots=True)
class KernelPackage:
    """A kernel that can be fetched, and the suite that has it."""

    release: str
    suite: str


def _last_line(done: Completed) -> str:
    return shortened("".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]))


class _Apt:
    """apt with its own lists, for these sources (sources.list(5), one-line style)."""

    def __init__(self, processes: Processes, folder: Path, sources: str) -> None:
        self._processes = processes
        create_file(folder / "sources.list", sources.encode(), is_durable=False)
        for name in ("lists/partial", "archives/partial", "state"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        settings = (
            f"Dir::Etc::sourcelist={folder}/sources.list",
            "Dir::Etc::sourceparts=/dev/null",
            f"Dir::State={folder}/state",
            f"Dir::State::lists={folder}/lists",
            f"Dir::Cache={folder}",
            *_LEAN,
        )
        self._options = [word for setting in settings for word in ("-o", setting)]

    def run(self, program: str, *words: str, seconds: float = _LIST_SECONDS) -> str:
        """Raises ToolMissing without apt, LabError with apt's message."""
        done = self._processes.run([program, "-q", *self._options, *words], timeout_seconds=seconds)
        if done.status == 127:
            raise ToolMissing("apt is not installed", hint=_NO_APT)
        if done.status:
            raise LabError(f"{program} failed: {_last_line(done)}", hint=_TRY_AGAIN)
        return done.stdout

    def fetch(self, names: Sequence[str], folder: Path) -> list[Path]:
        """Download packages to a folder, verified, and return their files."""
        folder.mkdir()
        # apt-get writes them to the current folder.
        there = ("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(folder))
        done = self._processes.run(
            [*there, "apt-get", "-q", *self._options, "download", *names], timeout_seconds=_PACKAGE_SECONDS
        )
        if done.status:
            raise LabError(f"{' '.join(names)} cannot be fetched: {_last_line(done)}", hint=_TRY_AGAIN)
        return list(folder.glob("*.deb"))

    def releases(self) -> list[str]:
        """The releases of the kernel images in the lists."""
        found = self.run("apt-cache", "search", "--names-only", "^linux-image-[0-9]")
        names = re.findall(r"^linux-image-(\d[\w.+~-]*)", found, re.MULTILINE)
        has_numbers = (name for name in names if re.match(r"\d+\.\d+\.\d", name))
        return [name for name in has_numbers if not re.search(r"-(dbg|unsigned|rt|cloud)(-|$)|template", name)]


def fetchable(processes: Processes, files: HostFiles) -> Iterator[KernelPackage]:
    """All kernels in this computer's package sources and, on Debian, in further suites; needs the network."""
    for suite, sources in _suites(processes, files):
        with _apt(processes, sources) as (apt, _):
            for release in sorted(apt.releases(), key=version_key, reverse=True):
                yield KernelPackage(release, suite)


def fetch_kernel(
    wanted: str, processes: Processes, files: HostFiles, *, on_progress: Callable[[str], None] = lambda _: None
) -> StockKernel:
    """Fetch the newest kernel whose release is or begins with ``wanted`` (7.2), and return it.

    A suite is searched only if those before it lack the kernel. Raises SpecError if none has it.
    """
    if not _WANTED.fullmatch(wanted):
        raise SpecError(
            f"'{shortened(wanted)}' is not the release of a kernel", hint="such as 6.12, or 7.2.13+deb14-amd64"
        )
    for suite, sources in _suites(processes, files):
        on_progress(f"reading the package lists of {suite}")
        with _apt(processes, sources) as (apt, folder):
            fitting = [each for each in apt.releases() if re.match(rf"{re.escape(wanted)}(?!\d)", each)]
            if fitting:
                release = max(fitting, key=version_key)
                on_progress(f"fetching Linux {release} from {suite}")
                _install(apt, release, folder, processes)
                return find_stock_kernel(release)
    raise SpecError(
        f"no package source of this computer has a kernel {shortened(wanted)}",
        hint="raidlab kernels list --all lists those that can be fetched",
    )


def _suites(processes: Processes, files: HostFiles) -> Iterator[tuple[str, str]]:
    """Name and source lines of the computer's own suites, then of each further suite."""
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
    yield f"{codename}", "".join(own)
    for further in _FURTHER_SUITES if distribution == "debian" else ():
        suite = further.format(codename=codename)
        yield suite, "".join(_source(site, suite, keys) for site in sites)


def _source(site: str, suite: str, keys: str) -> str:
    return f"deb {f'[signed-by={keys}] ' if keys else ''}{site} {suite} main\n"


@contextmanager
def _apt(processes: Processes, sources: str) -> Iterator[tuple[_Apt, Path]]:
    stock_folder().mkdir(parents=True, exist_ok=True)
    with (
        locked(stock_folder() / ".lock", ALONE, waits=True),
        tempfile.TemporaryDirectory(dir=stock_folder(), prefix=_PREFIX) as name,
    ):
        # Those of clients that were killed.
        for leftover in stock_folder().glob(f"{_PREFIX}*"):
            if leftover.name != Path(name).name:
                shutil.rmtree(leftover, ignore_errors=True)
        apt = _Apt(processes, Path(name), sources)
        apt.run("apt-get", "update")
        yield apt, Path(name)


def _install(apt: _Apt, release: str, folder: Path, processes: Processes) -> None:
    """Unpack the packages of a release below ``folder``, and move the needed files into place in one step."""

    def run(*argv: str, hint: str) -> None:
        done = processes.run(argv, timeout_seconds=_PACKAGE_SECONDS)
        if done.status == 127:
            raise ToolMissing(f"{argv[0]} is not installed", hint=hint)
        if done.status:
            raise LabError(f"{argv[0]} failed: {shortened(done.stderr.strip())}", hint=hint)

    packages, tree, ready = folder / "packages", folder / "tree", folder / "ready"
    for package in apt.fetch(_packages_of(apt, release), packages):
        run("dpkg-deb", "-x", str(package), str(tree), hint="make room on this computer's disk, then try again")
    unpacked = next(
        path for path in (tree / "lib/modules" / release, tree / "usr/lib/modules" / release) if path.is_dir()
    )
    image = next(path for path in (tree / f"boot/vmlinuz-{release}", unpacked / "vmlinuz") if path.is_file())
    modules = ready / "lib/modules" / release
    modules.parent.mkdir(parents=True)
    image.rename(ready / "vmlinuz")
    unpacked.rename(modules)
    for unused in _UNUSED:
        shutil.rmtree(modules / "kernel" / unused, ignore_errors=True)
    run("depmod", "-b", str(ready), release, hint="apt install kmod")
    place = stock_folder() / release
    if place.exists():
        place.rename(folder / "earlier")
    ready.rename(place)


def _packages_of(apt: _Apt, release: str) -> list[str]:
    """The package with a kernel's image, and those with its modules where the modules are packaged separately."""
    names = [f"linux-image-{release}"]
    for name in names:
        needs = re.findall(r"^ +(?:Pre)?Depends: (linux-\w+-\S+)", apt.run("apt-cache", "depends", name), re.MULTILINE)
        names += [each for each in needs if each.endswith(release) and each not in names]
    return names
