from __future__ import annotations

import pytest
from msgspec.structs import replace

from lab.adapt.label import (
    LABEL_BYTES,
    LABEL_OFFSET_BYTES,
    copies_in,
    copy_offset_bytes,
    decode,
    encode,
    layout_of,
    newest,
)
from lab.adapt.spec import MAXIMUM_DISKS, VolumeSpec, new_label
from lab.errors import ArrayError
from tests.unit.adapt.volumes import disks_of, ready_label

LABEL = ready_label()


def area(first: bytes, second: bytes) -> bytes:
    """The beginning of a disk with two copies, filled with zeros as the writer does."""
    return bytes(LABEL_OFFSET_BYTES) + first.ljust(LABEL_BYTES, b"\0") + second.ljust(LABEL_BYTES, b"\0")


def test_a_label_reads_back() -> None:
    assert decode(encode(LABEL).encode()) == LABEL
    assert encode(LABEL).count("\n") == 2


def test_the_label_of_most_disks_fits_its_place() -> None:
    label = new_label(VolumeSpec(disks_of(*[100 + number // 32 * 60 for number in range(MAXIMUM_DISKS)])))
    assert len(encode(replace(label, sequence=10**9, own_uuid=label.uuid))) <= LABEL_BYTES


@pytest.mark.parametrize("position", [0, 20, 90, 300])
def test_one_wrong_byte_makes_a_copy_count_for_nothing(position: int) -> None:
    data = bytearray(encode(LABEL).encode())
    data[position] ^= 1
    assert decode(bytes(data)) is None


def test_a_write_cut_short_leaves_the_copy_before_it() -> None:
    older, newer = LABEL, replace(LABEL, sequence=2, own_uuid="x")
    whole = encode(newer).encode()
    for cut in (0, 1, 512, len(whole) - 4):
        torn = whole[:cut] + encode(replace(LABEL, sequence=0, own_uuid="y")).encode()[cut:]
        assert newest(copies_in(area(torn, encode(older).encode()))) == older
    assert newest(copies_in(area(whole, encode(older).encode()))) == newer


def test_successive_labels_go_to_different_places() -> None:
    assert copy_offset_bytes(4) != copy_offset_bytes(5)
    assert copy_offset_bytes(4) == copy_offset_bytes(6) == LABEL_OFFSET_BYTES


def test_a_label_of_a_later_format_is_left_alone() -> None:
    assert decode(encode(replace(LABEL, format=2)).encode()) is None


def test_a_layout_that_would_come_out_differently_is_refused() -> None:
    with pytest.raises(ArrayError, match="another version of raidlab") as caught:
        layout_of(replace(LABEL, layout_checksum="0" * 64))
    assert "nothing was touched" in caught.value.hint


def test_blank_disks_have_no_label() -> None:
    assert copies_in(bytes(30_000)) == (None, None)
    assert copies_in(b"") == (None, None)
