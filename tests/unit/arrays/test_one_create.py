"""One place knows the command line that creates an md array."""

from __future__ import annotations

from pathlib import Path

from lab.arrays.spec import ArraySpec
from lab.units import KIB, MIB

REPOSITORY = Path(__file__).resolve().parents[3]


def test_no_other_module_writes_mdadm_create() -> None:
    modules = [path for package in ("lab", "tui") for path in (REPOSITORY / package).rglob("*.py")]
    found = {
        path.relative_to(REPOSITORY).as_posix()
        for path in modules
        for line in path.read_text(encoding="utf-8").splitlines()
        # Others look for it in a plan.
        if '"--create"' in line and "==" not in line
    }
    assert found == {"lab/arrays/spec.py"}


def test_every_field_of_an_array_is_in_its_command_line() -> None:
    spec = ArraySpec(
        "raid5",
        ("/dev/a", "/dev/b", "/dev/c"),
        "md7",
        spares=("/dev/d",),
        chunk_bytes=16 * KIB,
        layout="right-symmetric",
        assume_clean=True,
        forces_resync=True,
        size_bytes=5 * MIB,
        data_offset_bytes=2 * MIB,
        uuid="00000000:00000000:00000000:00000001",
        options=("--write-mostly",),
    )
    assert " ".join(spec.create_argv) == (
        "mdadm --create /dev/md7 --run --metadata=1.2 --homehost=any --uuid=00000000:00000000:00000000:00000001 "
        "--level=raid5 --raid-devices=3 --chunk=16 --layout=right-symmetric --data-offset=2048 --size=5120 "
        "--bitmap=none --assume-clean --force --spare-devices=1 --write-mostly /dev/a /dev/b /dev/c /dev/d"
    )
