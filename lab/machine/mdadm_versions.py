"""Other mdadm versions for machines that use this computer's files (``mdadm=4.4`` or ``mdadm=FOLDER`` in a target).

A distribution's mdadm is fetched from this computer's package sources, with the libraries of the same suite, because
this computer's libraries may be too old for it. Only machines run this mdadm, and nothing on this computer changes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from lab.errors import LabError, SpecError
from lab.gates.files import require_trusted
from lab.gates.text import shortened
from lab.host.files import create_file
from lab.machine.kernel_image import kernel_cache
from lab.machine.package_sources import Apt, Packaged, find_version, put_in_place, version_key

_COMMAND = "raidlab mdadm"
_PACKAGE = "mdadm"
PROGRAMS = ("mdadm", "mdmon")
_PROGRAMS, _LIBRARIES = "programs", "lib"


def packaged_mdadms() -> Packaged:
    """Return the versions of mdadm that can be fetched."""
    return Packaged("an mdadm", _COMMAND, kernel_cache().parent / _PACKAGE, _versions, _install)


def mdadm_versions() -> list[Path]:
    """Return the folders of the fetched versions, newest first.

    Each folder is named after its version and contains mdadm and mdmon.
    """
    found = (path.parent for path in packaged_mdadms().store.glob(f"*/{_PACKAGE}"))
    return sorted(found, key=lambda folder: version_key(folder.name), reverse=True)


def find_mdadm(chosen: str) -> Path:
    """Return the folder of the mdadm with this version (4.4) or path. Raises ToolMissing, SpecError or NotTrusted."""
    if "/" in chosen:
        folder = Path(chosen).absolute()
        if not os.access(folder / _PACKAGE, os.R_OK):
            raise SpecError(
                f"there is no mdadm in '{shortened(str(Path(chosen)))}'",
                hint=f"give the folder of a built mdadm (make -C FOLDER mdadm mdmon) or a version ({_COMMAND} list)",
            )
    else:
        folder = find_version({each.name: each for each in mdadm_versions()}, chosen, "mdadm", _COMMAND)
    for name in PROGRAMS:
        if (folder / name).is_file():
            require_trusted(folder / name, "the program")
    return folder


def _versions(apt: Apt) -> list[str]:
    output = apt.run("apt-cache", "madison", _PACKAGE).stdout
    found = re.findall(r"^ *\S+ \| +(\S+) +\|", output, re.MULTILINE)
    # A security update appears in two suites.
    return list(dict.fromkeys(found))


def _install(apt: Apt, version: str, folder: Path) -> None:
    """Put the programs and their libraries into place, and write scripts that start the programs with them."""
    tree, ready = folder / "tree", folder / "ready"
    place = packaged_mdadms().store / version.replace(":", "-")
    libraries = apt.with_needs(_PACKAGE, fits=lambda name: name.startswith("lib"))[1:]
    apt.unpack([f"{_PACKAGE}={version}", *libraries], tree)
    for name in (_PROGRAMS, _LIBRARIES):
        (ready / name).mkdir(parents=True)
    for top in ("lib", "usr/lib"):
        # This is Debian's folder for each architecture, without its subfolders of character set converters etc.
        for library in filter(Path.is_file, (tree / top).glob("*-linux-*/*.so*")):
            create_file(ready / _LIBRARIES / library.name, library.read_bytes(), is_durable=False, mode=0o700)
    loader = next((path.name for path in (ready / _LIBRARIES).glob("ld-linux*")), "")
    if not loader:
        hint = f"choose another version: {_COMMAND} list --all"
        raise LabError(f"no package that mdadm {version} needs contains a dynamic loader", hint=hint)
    for name in PROGRAMS:
        program = next(path for path in (tree / "sbin" / name, tree / "usr/sbin" / name) if path.is_file())
        program.rename(ready / _PROGRAMS / name)
        words = f"{place}/{_LIBRARIES}/{loader} --library-path {place}/{_LIBRARIES} {place}/{_PROGRAMS}/{name}"
        create_file(ready / name, f'#!/bin/sh\nexec {words} "$@"\n'.encode(), is_durable=False, mode=0o700)
    put_in_place(ready, place)
