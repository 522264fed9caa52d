"""A byte of a stripe flipped on a member behind md's back, as a plan that can be typed."""

from __future__ import annotations

from lab.arrays.names import md_path
from lab.errors import ArrayError
from lab.gates.numbers import whole
from lab.microscope.picture import StripePicture
from lab.microscope.reading import MappedArray
from lab.plans import Danger, Plan, Step

_FEWEST_STRIPES, _MANY_STRIPES = 17, 256
"""The least that md takes for stripe_cache_size, and enough for new ones to push the last old ones out."""


def parse_place(text: str) -> tuple[str, int]:
    """``disk03:17`` as a disk and a byte. Raises SpecError for other text."""
    disk, _, byte = text.rpartition(":")
    return disk, whole(byte, "byte")


def flip_plan(picture: StripePicture, device: str, byte: int) -> Plan:
    """Turn all eight bits of a byte of the stripe over on the member on ``device``.

    ``byte`` counts from the beginning of the member's part of the stripe: its chunk, or its chunks one after the other.
    Raises ArrayError for a byte that is not in it, or that the picture has not read.
    """
    shape = picture.shape
    member = shape.member(device)
    found = picture.stripe.cell_at(member.slot, byte) if member.slot is not None and byte >= 0 else None
    start = picture.device_sector(found[0]) if found else None
    if found is None or start is None or picture.member_of(found[0]) != member:
        raise ArrayError(
            f"{member.name} has no byte {byte} of stripe {picture.stripe.number}",
            hint=f"each chunk has {picture.stripe.cell_sectors * 512} bytes, counted from 0; "
            "the member must be in sync",
        )
    cell, rest = found
    data = next(seen.data for seen in picture.cells if seen.cell == cell)
    if data is None or not picture.skip_bytes <= rest < picture.skip_bytes + picture.length_bytes:
        raise ArrayError(f"byte {byte} of {member.name} was not read", hint="read the whole chunk first")
    old = data[rest - picture.skip_bytes]
    place = start * 512 + rest
    write = Step(
        ("sh", "-c", _put(device, place, old ^ 0xFF)),
        f"WARNING: byte {rest} of {cell.words} becomes {old ^ 0xFF:02x} instead of {old:02x} behind md's back.",
        ("sh", "-c", _put(device, place, old)),
        Danger.DATA,
        (device,),
    )
    steps = (
        forget_step(device, "The kernel's own copy of the member may be old: it is forgotten before a byte changes."),
        write,
        *empty_stripes(shape),
        forget_step(f"/dev/{shape.name}", "What was read of the array before is forgotten too."),
    )
    return Plan(f"Flip byte {rest} of {cell.words} on {member.name}, silently", steps)


def _put(device: str, place: int, value: int) -> str:
    # Octal, since that is what every shell's printf knows (POSIX, printf).
    return f"printf '\\{value:03o}' | dd of={device} bs=1 seek={place} conv=notrunc,fsync status=none"


def forget_step(device: str, why: str) -> Step:
    """Have the kernel forget what its page cache has of a device (blockdev(8), --flushbufs)."""
    return Step(("blockdev", "--flushbufs", device), why)


def empty_stripes(shape: MappedArray) -> tuple[Step, ...]:
    """Have md forget every stripe that it keeps in memory; nothing on levels without such a cache.

    It lets the oldest go first, and 17 stay: so twice, with new ones in between (raid5_set_cache_size and
    drop_one_stripe in drivers/md/raid5.c).
    """
    size = shape.words["stripe_cache_size"]
    if not shape.is_parity or not size.isdecimal():
        return ()
    path = md_path(shape.name, "stripe_cache_size")
    numbers = f"{_FEWEST_STRIPES} {max(_MANY_STRIPES, int(size))} {_FEWEST_STRIPES} {size}"
    line = f"for size in {numbers}; do echo $size > {path} || exit 1; done"
    return (Step(("sh", "-c", line), "md keeps stripes that were used lately in memory: they are forgotten."),)
