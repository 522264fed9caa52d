"""The targets ``uml:``, ``qemu:``, ``local:``, ``ssh:HOST`` and ``vagrant:``, with options after '?' as in a URL."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import unquote

from lab.errors import SpecError
from lab.gates.decoding import digits, parse_bytes
from lab.gates.text import is_name, shortened


class TargetKind(StrEnum):
    """Where the md driver runs."""

    UML = "uml"
    QEMU = "qemu"
    LOCAL = "local"
    SSH = "ssh"
    VAGRANT = "vagrant"


MOST_CPUS = 64
ACCELERATORS = ("kvm", "tcg")
"""The ways in which QEMU can run the guest's code: with KVM in the host's kernel, or by translating the code."""
_OPTIONS = {
    TargetKind.UML: ("name", "mem", "time", "kernel", "mdadm", "show"),
    TargetKind.QEMU: ("name", "kernel", "mdadm", "root", "cpus", "memory", "accel", "show"),
    TargetKind.LOCAL: (),
    TargetKind.SSH: ("port", "identity", "config", "known_hosts"),
    TargetKind.VAGRANT: (),
}
_NEED_VALUE = {
    "root": ("an image", "specify its folder or its name, which 'raidlab kernels images' lists"),
    "mdadm": ("a version or folder", "specify a version, such as mdadm=4.4; 'raidlab mdadm list' lists them"),
    "show": ("a file or folder", "specify a path, such as show=$HOME/scripts"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target. ``str`` returns the original text."""

    kind: TargetKind
    host: str = ""
    options: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def __str__(self) -> str:
        return self.text

    @property
    def is_embedded(self) -> bool:
        """Whether the machine is a process on this computer that is started on demand."""
        return self.kind in (TargetKind.UML, TargetKind.QEMU)

    @property
    def is_virtual_time(self) -> bool:
        """Whether the embedded kernel's clock jumps over idle time."""
        return self.options.get("time") == "virtual"

    def with_option(self, key: str, value: str) -> Target:
        """Return the same target with one more option, which is also added to its text."""
        escaped = value.replace("%", "%25").replace("&", "%26")
        joint = "&" if "?" in self.text else "?"
        return replace(self, options={**self.options, key: value}, text=f"{self.text}{joint}{key}={escaped}")

    @property
    def lab_name(self) -> str:
        """The name of the lab on this computer, from an embedded kernel's option or else from the target's text."""
        if self.is_embedded:
            return self.options.get("name", "default")
        name = "at-" + re.sub(r"[^A-Za-z0-9.-]+", "-", str(self)).strip("-")
        if is_name(name):
            return name
        # The name is too long for a folder. A hash keeps the shortened name unique.
        return f"{name[:64]}-{hashlib.sha256(str(self).encode()).hexdigest()[:16]}"

    def is_same_lab(self, other: Target) -> bool:
        """Whether both targets are the same lab on the same kind of machine. Options such as the memory may differ."""
        return (self.kind, self.host, self.lab_name) == (other.kind, other.host, other.lab_name)


def parse_target(text: str) -> Target:
    """Parse a target such as ``uml:?time=virtual&mem=1G``. Raises SpecError if the text is not a target."""
    # Host and options become arguments of ssh and paths, in which a control character is never legitimate.
    if not unquote(text).isprintable():
        raise SpecError(f"'{shortened(text)}' is not a target", hint="write it without control characters")
    head, _, query = text.partition("?")
    word, colon, host = head.partition(":")
    try:
        kind = TargetKind(word.strip().lower())
    except ValueError:
        near = difflib.get_close_matches(word, [kind.value for kind in TargetKind], n=1, cutoff=0.4)
        meant = f"did you mean '{near[0]}:'? " if near else ""
        raise SpecError(
            f"'{shortened(text)}' is not a target",
            hint=f"{meant}targets are uml:, qemu:, local:, vagrant: and ssh:HOST, such as ssh:root@lab1",
        ) from None
    if kind is TargetKind.SSH and (not host or host.startswith("-")):
        raise SpecError(f"'{text}' does not name a host", hint="write ssh:HOST or ssh:USER@HOST")
    if kind is TargetKind.VAGRANT and host and not _is_name(host):
        raise SpecError(f"'{text}' does not name a machine in a Vagrantfile", hint="write vagrant: or vagrant:NAME")
    if kind in (TargetKind.UML, TargetKind.QEMU, TargetKind.LOCAL) and host:
        raise SpecError(
            f"'{text}': {kind}: does not accept a host", hint=f"write '{kind}:' alone, or add options after '?'"
        )
    options = _parse_options(query)
    for key, value in options.items():
        _check_option(text, kind, key, value)
    if "root" in options and (other := options.keys() & {"kernel", "show"}):
        raise SpecError(
            f"'{shortened(text)}': a root image has its own kernel, and its machine cannot see this computer's files",
            hint=f"omit {' and '.join(sorted(other))}=, or root=",
        )
    return Target(kind, host, options, text if colon else text.replace(head, f"{kind}:", 1))


def target_words(text: str, *, is_short: bool = False, in_sentence: bool = False) -> str:
    """Describe a target to users, such as ``embedded kernel, virtual time``.

    Text that is not a target is returned unchanged. With ``is_short``, the result is like ``embedded``. With
    ``in_sentence``, it is like ``the embedded kernel …``.
    """
    try:
        target = parse_target(text)
    except SpecError:
        return text
    if not target.is_embedded:
        return f"{target.kind}:{target.host}"
    if target.kind is TargetKind.QEMU:
        name = f"stock kernel{' ' + target.options['kernel'] if 'kernel' in target.options else ''}"
        if "root" in target.options:
            name = f"root image {target.options['root']}"
    else:
        name = "embedded" if is_short else "embedded kernel"
    if is_short:
        return name
    lab = f", lab '{target.options['name']}'" if "name" in target.options else ""
    return f"{'the ' if in_sentence else ''}{name}{lab}{', virtual time' if target.is_virtual_time else ''}"


def _parse_options(query: str) -> dict[str, str]:
    """Parse ``a=1&b=2``. ``%20`` is a space, as in a URL, but ``+`` is a plus sign, because file names contain it."""
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        key, _, value = map(unquote, part.partition("="))
        if key in options:
            raise SpecError(f"'{key}' is given twice: '{shortened(query)}'", hint="give each option only once")
        options[key] = value
    return options


def _check_option(text: str, kind: TargetKind, key: str, value: str) -> None:
    known = _OPTIONS[kind]
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        meant = f"did you mean '{near[0]}'? " if near else ""
        listed = ", ".join(known) or "none"
        raise SpecError(f"'{text}' has an unknown option '{key}'", hint=f"{meant}the options of {kind}: are {listed}")
    if key == "time" and value not in ("real", "virtual"):
        raise SpecError(f"'{text}': time cannot be '{value}'", hint="write time=real or time=virtual")
    if key == "port" and not 0 < (digits(value) or 0) < 65536:
        raise SpecError(f"'{text}': '{value}' is not a port", hint="give a number up to 65535, such as port=2222")
    if key in ("mem", "memory"):
        parse_bytes(value, what=key)
    if key == "cpus" and not 0 < (digits(value) or 0) <= MOST_CPUS:
        raise SpecError(
            f"'{text}': cpus cannot be '{value}'", hint=f"give a number from 1 to {MOST_CPUS}, such as cpus=2"
        )
    if key == "accel" and value not in ACCELERATORS:
        raise SpecError(f"'{text}': accel cannot be '{value}'", hint=f"choose {' or '.join(ACCELERATORS)}")
    if key in _NEED_VALUE and not value:
        what, hint = _NEED_VALUE[key]
        raise SpecError(f"'{text}': {key} needs {what}", hint=hint)
    if key == "name" and not _is_name(value):
        raise SpecError(f"'{text}': '{value}' cannot be the name of a lab", hint="use letters, digits, '-' and '_'")


def _is_name(text: str) -> bool:
    # A dot is not allowed, because the name of a lab is part of the names of its devices.
    return is_name(text) and "." not in text
