"""Shared parts of the microscope's tests: tiny arrays with a number in every sector, and their stripes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.arrays.array import OpenArrays
from lab.arrays.geometry import StripeCell
from lab.disks import Lab
from lab.machine import GuestProgram
from lab.microscope.array_map import read_shape
from lab.microscope.picture import StripePicture
from lab.session.session import Client, LabSession
from tests.kernel.place import quick_target
from tests.kernel.rig import DEVICE, NAME, file_disks

BYTES = GuestProgram(Path(__file__).with_name("numbers_program.py"), "numbers")
TARGET = quick_target()
DISKS = file_disks(8, 3)
PPL = "--consistency-policy=ppl"
OFFSET_KIB = 128
MEMBER_KIB = 336
"""Size of each member: 42 rows of 8 KiB, so that every layout rotates over all of its members more than once."""

_SIZE = f"--size={MEMBER_KIB}"
_OFFSET = f"--data-offset={OFFSET_KIB}"
_CHUNK = "--chunk=8"


@pytest.fixture
def session(lab: Lab) -> LabSession:
    """A session without an array."""
    blank(lab)
    return LabSession(Client(TARGET, lab.host), lab)


def blank(lab: Lab) -> None:
    lab.machine.run(("sh", "-c", f"umount {DEVICE}; mdadm --stop {DEVICE}"), check=False)
    lab.machine.call(BYTES, ("blank", *(disk.node for disk in lab.disks)))


def create(arrays: OpenArrays, level: str, members: int, *options: str, without: tuple[int, ...] = ()) -> None:
    """Create an array on part of the first disks, with the smallest data offset; the default chunk is 8 KiB."""
    nodes = ["missing" if slot in without else disk.node for slot, disk in enumerate(arrays.disks[:members])]
    words = " ".join(options)
    wanted = [] if PPL in options or "--metadata=1.0" in options else [_OFFSET]
    wanted += [] if level in ("1", "linear") or "--chunk" in words else [_CHUNK]
    if level not in ("0", "linear"):
        wanted += [_SIZE, "--assume-clean"]
        wanted += [] if "--bitmap" in words or "--consistency" in words else ["--bitmap=none"]
    command = ("mdadm", "--create", DEVICE, f"--level={level}", f"--raid-devices={members}", *wanted, *options)
    arrays.machine.run((*command, "--run", *nodes))


def fill(arrays: OpenArrays) -> None:
    arrays.machine.call(BYTES, ("number", DEVICE, str(read_shape(arrays, NAME).size_sectors), "0"))


def bytes_of(picture: StripePicture) -> dict[tuple[int, int], bytes | None]:
    return {(seen.cell.slot, seen.cell.sector): seen.data for seen in picture.cells}


def device_of(picture: StripePicture, cell: StripeCell) -> str:
    member = picture.member_of(cell)
    assert member is not None
    return member.device
