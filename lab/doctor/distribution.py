"""Which package brings a program on which distribution, and the command that installs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lab.machine.packages import package_of
from lab.seams.files import HostFiles

_INSTALLERS = {"debian": "apt install", "fedora": "dnf install", "suse": "zypper install", "arch": "pacman -S"}
# Only where the name is not the one of Debian.
_OTHER_NAMES = {
    "fedora": {"nbd-client": "nbd", "openssh-client": "openssh-clients", "mount": "util-linux"},
    "suse": {"nbd-client": "nbd", "openssh-client": "openssh-clients", "mount": "util-linux"},
    "arch": {"nbd-client": "nbd", "openssh-client": "openssh", "mount": "util-linux"},
}


@dataclass(frozen=True, slots=True)
class Distribution:
    """A family of distributions; empty if it is not known."""

    family: str
    name: str

    def package(self, program: str) -> str:
        """The package that brings the program."""
        debian = package_of(program)
        return _OTHER_NAMES.get(self.family, {}).get(debian, debian)

    def install_command(self, packages: Iterable[str], *, is_root: bool) -> str:
        """A line to type; empty without packages."""
        listed = " ".join(dict.fromkeys(packages))
        if not listed:
            return ""
        installer = _INSTALLERS.get(self.family)
        if not installer:
            return f"install with your distribution's tools: {listed}"
        return f"{'' if is_root else 'sudo '}{installer} {listed}"


def read_distribution(files: HostFiles) -> Distribution:
    """From /etc/os-release: os-release(5)."""
    return parse_distribution(files.read("/etc/os-release") or "")


def parse_distribution(os_release: str) -> Distribution:
    """The family by ID, else by ID_LIKE."""
    pairs = (line.partition("=") for line in os_release.splitlines())
    fields = {key: value.strip().strip("\"'") for key, _, value in pairs}
    words = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    aliases = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora", "opensuse": "suse"}
    families = [aliases.get(word, word) for word in words]
    family = next((family for family in families if family in _INSTALLERS), "")
    return Distribution(family, fields.get("PRETTY_NAME", "Linux"))
