"""The programs that a lab uses, their purpose and versions, and their packages on each distribution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Thread

from lab.doctor.report import Check, Outcome
from lab.machine.opening import Host
from lab.machine.remote import package_of

UML, LOCAL, SSH, VAGRANT = EVERY_TARGET = ("uml:", "local:", "ssh:", "vagrant:")
_VERSION_SECONDS = 5.0
_INSTALLERS = {"debian": "apt install", "fedora": "dnf install", "suse": "zypper install", "arch": "pacman -S"}
# Only names that differ from Debian's.
_OTHER_NAMES = {
    "fedora": {"nbd-client": "nbd", "openssh-client": "openssh-clients", "mount": "util-linux"},
    "suse": {"nbd-client": "nbd", "openssh-client": "openssh-clients", "mount": "util-linux"},
    "arch": {"nbd-client": "nbd", "openssh-client": "openssh", "mount": "util-linux"},
}


@dataclass(frozen=True, slots=True)
class Distribution:
    """A family of distributions; empty if unknown."""

    family: str
    name: str

    def package(self, program: str) -> str:
        """The package that contains the program."""
        debian = package_of(program)
        return _OTHER_NAMES.get(self.family, {}).get(debian, debian)

    def install_command(self, packages: Iterable[str], *, is_root: bool) -> str:
        """The command line that installs the packages; empty without packages."""
        listed = " ".join(dict.fromkeys(packages))
        if not listed:
            return ""
        installer = _INSTALLERS.get(self.family)
        if not installer:
            return f"install with your distribution's tools: {listed}"
        return f"{'' if is_root else 'sudo '}{installer} {listed}"


def parse_distribution(os_release: str) -> Distribution:
    """The family by ID, else by ID_LIKE."""
    pairs = (line.partition("=") for line in os_release.splitlines())
    fields = {key: value.strip().strip("\"'") for key, _, value in pairs}
    words = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    aliases = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora", "opensuse": "suse"}
    families = [aliases.get(word, word) for word in words]
    family = next((family for family in families if family in _INSTALLERS), "")
    return Distribution(family, fields.get("PRETTY_NAME", "Linux"))


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the functions that need it."""

    name: str
    version_option: str = "--version"
    is_required: bool = False
    useful_for: tuple[str, ...] = ()


PROGRAMS = (
    Program("mdadm", is_required=True),
    Program("fio", is_required=True),
    Program("modprobe", is_required=True),
    Program("nbdkit", useful_for=("spindle disks",)),
    Program("nbd-client", "-V", useful_for=("spindle disks",)),
    Program("tcc", "-v", useful_for=("spindle disks with mechanics",)),
    Program("mkfs.ext4", "-V", useful_for=("workloads on ext4",)),
    Program("mkfs.xfs", "-V", useful_for=("workloads on XFS",)),
    Program("parted", useful_for=("drill 4",)),
    Program("blkdiscard", useful_for=("giving the space of reset disks back",)),
    Program("dmsetup", "version", useful_for=("arrays of unequal disks (adapt5)",)),
    Program("losetup", useful_for=("loop disks",)),
)


def program_checks(host: Host, distribution: Distribution, *, is_root: bool) -> list[Check]:
    """A check for each of PROGRAMS on this computer."""
    paths = [host.processes.find(program.name) or "" for program in PROGRAMS]
    return [
        # Other machines use their own programs.
        program_check(program, path, version, distribution, targets=(UML, LOCAL), is_root=is_root)
        for program, path, version in zip(PROGRAMS, paths, _versions(host, paths), strict=True)
    ]


def _versions(host: Host, paths: Sequence[str]) -> list[str]:
    """The version of each of PROGRAMS, queried in parallel: each takes long on an emulated processor."""
    versions = [""] * len(paths)

    def ask(number: int) -> None:
        versions[number] = ask_version(host, paths[number], PROGRAMS[number].version_option)

    threads = [Thread(target=ask, args=(number,)) for number, path in enumerate(paths) if path]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return versions


def ask_version(host: Host, path: str, option: str) -> str:
    """The version that a program prints with this option; empty if it prints none."""
    said = host.processes.run([path, option], timeout_seconds=_VERSION_SECONDS)
    return version_in(said.stdout + said.stderr)


def program_check(
    program: Program, found: str, version: str, distribution: Distribution, *, targets: tuple[str, ...], is_root: bool
) -> Check:
    """The check for a program; ``found`` is its path, empty if it is missing."""
    package = distribution.package(program.name)
    return Check(
        name=f"program-{program.name}",
        title=program.name,
        outcome=Outcome.OK if found else Outcome.MISSING,
        detail=(f"{version} ({found})" if version else found) if found else f"{program.name} is not installed",
        fix="" if found else distribution.install_command([package], is_root=is_root),
        packages=() if found else (package,),
        required_for=targets if program.is_required else (),
        useful_for=program.useful_for,
    )


def version_in(text: str) -> str:
    """The first version number in a program's output; empty if there is none."""
    found = re.search(r"(\d+(?:\.\d+)+(?:[-+~.\w]*\w)?)", text) or re.search(r"version (\d+)", text)
    return found[1] if found else ""
