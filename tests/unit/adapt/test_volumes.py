"""Labels, tables and plans of a volume: what goes where on each disk, and that nothing else is ever written."""

from __future__ import annotations

from dataclasses import replace as changed
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lab.adapt import operations
from lab.adapt.kind import volumes_in
from lab.adapt.label import (
    LABEL_AREA_BYTES,
    LABEL_BYTES,
    LABEL_OFFSET_BYTES,
    Label,
    VolumeStage,
    copies_in,
    copy_offset_bytes,
    decode,
    encode,
    layout_of,
    newest,
    slice_table,
    slice_tables,
    slices_on,
    volume_bytes,
    volume_table,
    windows_named,
)
from lab.adapt.layout import AdaptLevel, level_out
from lab.adapt.spec import MAXIMUM_DISKS, VolumeSpec, compare_systems, new_label
from lab.disks.inventory import FIRST_BYTES, LAST_BYTES, VOLUME_LABEL, DiskEnds, signatures_in
from lab.errors import ArrayError, SpecError
from lab.plans import Danger, Step
from lab.units import KIB, MIB, SECTOR_BYTES
from tests.unit.adapt.running import EXAMPLE, disks_of, labels_on, ready_label

LABEL = ready_label()


def area(first: bytes, second: bytes) -> bytes:
    """The beginning of a disk with two copies of a label, padded with zeros as the writer pads them."""
    return bytes(LABEL_OFFSET_BYTES) + first.ljust(LABEL_BYTES, b"\0") + second.ljust(LABEL_BYTES, b"\0")


@pytest.mark.parametrize("copies", [(encode(LABEL).encode(), b""), (b"", encode(LABEL).encode())])
def test_a_disk_with_either_copy_of_a_label_is_not_blank(copies: tuple[bytes, bytes]) -> None:
    first = area(*copies).ljust(FIRST_BYTES, b"\0")
    assert signatures_in(DiskEnds(first, bytes(4096), bytes(LAST_BYTES))) == (VOLUME_LABEL,)


def test_the_label_of_most_disks_fits_its_place() -> None:
    label = new_label(VolumeSpec(disks_of(*[100 + number // 32 * 60 for number in range(MAXIMUM_DISKS)])))
    assert len(encode(replace(label, sequence=10**9, own_uuid=label.uuid))) <= LABEL_BYTES


@pytest.mark.parametrize("position", [0, 20, 90, 300])
def test_one_wrong_byte_makes_a_copy_count_for_nothing(position: int) -> None:
    data = bytearray(encode(LABEL).encode())
    data[position] ^= 1
    assert decode(bytes(data)) is None


def test_a_blank_disk_and_a_later_format_have_no_label() -> None:
    assert decode(encode(replace(LABEL, format=2)).encode()) is None
    assert copies_in(bytes(30_000)) == copies_in(b"") == (None, None)


def test_a_write_cut_short_leaves_the_copy_before_it() -> None:
    older, newer = LABEL, replace(LABEL, sequence=2, own_uuid="x")
    whole = encode(newer).encode()
    assert whole.count(b"\n") == 2
    for cut in (0, 1, 512, len(whole) - 4):
        torn = whole[:cut] + encode(replace(LABEL, sequence=0, own_uuid="y")).encode()[cut:]
        assert newest(copies_in(area(torn, encode(older).encode()))) == older
    assert newest(copies_in(area(whole, encode(older).encode()))) == newer


def test_successive_labels_go_to_different_places() -> None:
    assert copy_offset_bytes(4) != copy_offset_bytes(5)
    assert copy_offset_bytes(4) == copy_offset_bytes(6) == LABEL_OFFSET_BYTES


def test_a_layout_that_would_come_out_differently_is_refused() -> None:
    with pytest.raises(ArrayError, match="a different raidlab version") as caught:
        layout_of(replace(LABEL, layout_checksum="0" * 64))
    assert "nothing was changed" in caught.value.hint


SIZES = st.lists(st.integers(16 * MIB, 80 * MIB).map(lambda size: size - size % SECTOR_BYTES), min_size=3, max_size=7)


def mapped(text: str) -> list[tuple[int, int, str, int]]:
    """Start, length, device and offset of each target in a table, or in several tables in the concise form."""
    found = []
    for table in text.replace("\n", "").split(";") if ",rw," in text else [text.replace("\n", ",")]:
        rows = table.split(",")[4:] if ",rw," in table else table.split(",")
        for row in filter(None, rows):
            start, length, kind, device, offset = row.split()
            assert kind == "linear"
            found.append((int(start), int(length), device, int(offset)))
    return found


@settings(max_examples=150, deadline=None)
@given(SIZES, st.sampled_from(AdaptLevel), st.sampled_from([64 * KIB, 128 * KIB]))
def test_slices_lie_on_their_disk_behind_the_label_and_never_on_each_other(
    sizes: list[int], rule: AdaptLevel, chunk: int
) -> None:
    disks = disks_of(*(size / MIB for size in sizes))
    spec = VolumeSpec(disks, rule=rule, chunk_bytes=chunk)
    # Disks of these sizes always give a volume: nothing is refused here.
    label = new_label(spec)
    for number, disk in enumerate(disks):
        pieces = sorted(
            (offset, length, device)
            for window in slices_on(label, number)
            for _, length, device, offset in mapped(slice_table(label, number, window, disk.node))
        )
        assert {device for *_, device in pieces} <= {disk.node}
        end = LABEL_AREA_BYTES // SECTOR_BYTES
        for offset, length, _ in pieces:
            assert offset >= end
            end = offset + length
        assert end * SECTOR_BYTES <= disk.size_bytes
    names = windows_named(label, ())
    targets = mapped(volume_table(label, names))
    assert targets[0][0] == 0
    assert all(start + length == after for (start, length, *_), (after, *_) in pairwise(targets))
    assert (
        sum(length for _, length, *_ in targets) * SECTOR_BYTES
        == volume_bytes(label)
        == spec.expected_bytes(spec.disks)
    )


def all_steps(label: Label) -> dict[str, list[Step]]:
    nodes, arrays = dict(enumerate(EXAMPLE.devices)), windows_named(label, ("md100", "md102"))
    of_one = {window: arrays[window] for window in slices_on(label, 1)}
    return {
        "create": list(
            operations.create(
                new_label(EXAMPLE), nodes, arrays, bitmap=EXAMPLE.bitmap, assume_clean=EXAMPLE.assume_clean
            ).steps
        ),
        "assemble": list(operations.assemble(label, nodes, arrays).steps),
        "fail": list(operations.fail(label, nodes, 1, of_one)),
        "add": list(operations.add(operations.without(label, 1), nodes, 1, "/dev/ubd09", of_one)),
        "erase": list(operations.erase(label, EXAMPLE.devices)),
    }


@pytest.mark.parametrize("name", ["create", "assemble", "fail", "add", "erase"])
def test_each_step_names_every_device_that_it_writes_or_maps(name: str) -> None:
    for step in all_steps(ready_label())[name]:
        named = set(step.writes_devices)
        if step.argv[0] == "dmsetup":
            assert {device for *_, device, _ in mapped(step.stdin_text)} <= named
        elif step.argv[:2] == ("mdadm", "--create"):
            assert {word for word in step.argv if word.startswith("/dev/mapper/")} <= named
        elif step.argv[0] == "dd" or "write-labels" in step.argv:
            assert named == {word.removeprefix("of=") for word in step.argv if "/dev/ubd" in word}
            assert named


def test_a_plan_to_create_marks_the_disks_first_and_declares_them_ready_last() -> None:
    steps = all_steps(ready_label())["create"]
    assert ('"stage":"creating"' in steps[0].stdin_text, steps[0].danger) == (True, Danger.DATA)
    assert '"stage":"ready"' in steps[-1].stdin_text
    created = [step.argv[2] for step in steps if step.argv[:2] == ("mdadm", "--create")]
    assert created == ["/dev/md101", "/dev/md103", "/dev/md104", "/dev/md105", "/dev/md106"]


@pytest.mark.parametrize("name", ["create", "assemble"])
def test_arrays_inside_are_marked_clean_later_than_md_would(name: str) -> None:
    label = ready_label()
    steps = all_steps(label)[name]
    (number,) = [number for number, step in enumerate(steps) if step.argv[0] == "tee"]
    arrays = windows_named(label, ("md100", "md102")).values()
    assert steps[number].argv[1:] == tuple(f"/sys/block/{array}/md/safe_mode_delay" for array in arrays)
    assert steps[number].stdin_text == "5\n"
    # The next step makes the volume writable.
    assert steps[number + 1].argv[:2] == ("dmsetup", "--verifyudev")


def test_a_rebuild_waits_for_the_one_before() -> None:
    steps = all_steps(ready_label())["add"]
    kinds = ["add" if "--add" in step.argv else "wait" for step in steps if "--add" in step.argv or "wait" in step.argv]
    assert kinds == ["add", "wait"] * 4


def test_a_failed_disk_is_left_out_of_every_array_at_the_next_start() -> None:
    label = operations.without(ready_label(), 1)
    plan = operations.assemble(label, dict(enumerate(EXAMPLE.devices)), windows_named(label, ()))
    assert "d01w" not in " ".join(plan.lines())


def test_a_whole_volume_is_found_and_can_start() -> None:
    (found,) = volumes_in(labels_on(ready_label()))
    assert (found.name, found.level, found.refusal) == ("adapt0", "adapt5", "")
    assert found.devices == EXAMPLE.devices


def test_a_missing_disk_leaves_it_degraded_and_two_stop_it() -> None:
    labels = labels_on(ready_label())
    del labels["/dev/ubd01"]
    (found,) = volumes_in(labels)
    assert (found.refusal, 1 in found.working_slots) == ("", False)
    del labels["/dev/ubd04"]
    (found,) = volumes_in(labels)
    assert found.refusal == "disks 1, 4 are missing or failed, which is more than 1 of its 5 arrays can survive"


def test_a_disk_that_was_replaced_does_not_come_back() -> None:
    old = ready_label()
    labels = labels_on(old)
    put = operations.without(old, 1)
    put = replace(
        put,
        sequence=3,
        disks=tuple(
            replace(disk, uuid="new", is_failed=False) if number == 1 else disk for number, disk in enumerate(put.disks)
        ),
    )
    labels = {**labels_on(put), "/dev/ubd01": labels["/dev/ubd01"], "/dev/ubd09": replace(put, own_uuid="new")}
    (found,) = volumes_in(labels)
    assert found.nodes[1] == "/dev/ubd09"
    assert found.former_devices == ("/dev/ubd01",)


def test_the_newest_label_decides_which_disks_have_failed() -> None:
    labels = labels_on(operations.without(ready_label(), 1)) | {"/dev/ubd01": labels_on(ready_label())["/dev/ubd01"]}
    uuid = next(iter(labels.values())).uuid
    labels["/dev/ubd01"] = replace(labels["/dev/ubd01"], uuid=uuid, own_uuid=labels["/dev/ubd00"].disks[1].uuid)
    (found,) = volumes_in(labels)
    assert found.former_devices == ("/dev/ubd01",)
    assert found.former_nodes == {1: "/dev/ubd01"}
    # Equal volumes count as one in a set, although their nodes are in mappings, which have no hash.
    (again,) = volumes_in(labels)
    assert again is not found
    assert {found, again} == {found}


def test_an_interrupted_creation_and_a_second_volume_of_one_name_do_not_start() -> None:
    (found,) = volumes_in(labels_on(replace(ready_label(), stage=VolumeStage.CREATING)))
    assert "its creation was interrupted" in found.refusal
    other = changed(EXAMPLE, disks=tuple(replace(disk, node=f"{disk.node}x") for disk in EXAMPLE.disks))
    two = volumes_in(labels_on(ready_label()) | labels_on(ready_label(other), other))
    assert sorted(found.refusal for found in two) == ["", "another volume has the name adapt0"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (changed(EXAMPLE, name="md0"), "name 'md0' is not 'adapt' and a number"),
        (changed(EXAMPLE, disks=(*EXAMPLE.disks, EXAMPLE.disks[0])), "/dev/ubd00 is named twice"),
        (changed(EXAMPLE, chunk_bytes=100 * KIB), "not a power of two"),
        (changed(EXAMPLE, reference=5), "a reference stripe of 5 blocks is not possible on 5 disks"),
        (changed(EXAMPLE, utilisation=(1, 1)), "2 utilisation factors for 5 disks"),
        (VolumeSpec(disks_of(60, 60, 1)), "disk02 has 1 MiB but needs 3 MiB"),
        (VolumeSpec(disks_of(60, 50, 40, 30, 20, 10, 5)), "too small: 11 MiB of each disk is reserved for metadata"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(spec: VolumeSpec, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec.geometry()
    assert message in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("fast", [2, 4, 8])
def test_no_text_is_longer_than_dmsetup_reads_and_none_cuts_a_slice(fast: int) -> None:
    nodes = {disk: f"/dev/mapper/{disk:020d}" for disk in range(9)}
    for size in (24_000_000, 900):
        label = new_label(VolumeSpec(disks_of(*(size if disk < fast else size // 2 for disk in range(9)))))
        made = slice_tables(label, nodes)
        several = [each for each in made if each.arguments == ("--concise",)]
        assert max(len(each.text) for each in several) < 65_536
        whole = [line for each in several for line in each.text.rstrip("\n").replace(";", "").splitlines()]
        assert [line.partition(",")[0] for line in whole] == [name for each in several for name in each.names]
        assert all(line.count(",rw,0 2048 linear") == 1 for line in whole)
        names = [name for each in made for name in each.names]
        assert len(set(names)) == len(names) == sum(len(slices_on(label, disk)) for disk in nodes)
        alone = [each for each in made if each not in several]
        assert all(each.arguments == (each.names[0], "--uuid", each.uuid) for each in alone)
        # On disks of 900 MiB, slices follow the pattern line by line; on fast disks they need a text of their own.
        assert alone or size != 900 or fast == 2


def test_drives_of_one_nominal_size_are_one_tier() -> None:
    assert level_out([1000, 1009, 2000, 1011, 2019]) == (1000, 1000, 2000, 1011, 2000)
    assert len(VolumeSpec(disks_of(60, 60.25, 60.5)).geometry().composition.windows) == 1


def test_the_preview_compares_four_systems_behind_their_metadata() -> None:
    found = {each.system: each for each in compare_systems(VolumeSpec(disks_of(600, 600, 600, 600, 300)))}
    disks = disks_of(600, 600, 600, 600, 300)
    assert found["adapt5"].capacity_bytes == VolumeSpec(disks).expected_bytes(disks)
    assert (found["raid5"].capacity_bytes, found["onlyfast"].capacity_bytes) == (1196 * MIB, 1797 * MIB)
    order = sorted(found, key=lambda system: found[system].capacity_bytes)
    assert order == ["raid5", "onlyfast", "adapt5", "shr"]
    assert [found[system].reads_words for system in order] == ["never", "always", "never", "43 %"]
    assert found["adapt5"].array_count == 5


def test_a_single_largest_disk_makes_no_array_of_fast_ones() -> None:
    only = next(each for each in compare_systems(VolumeSpec(disks_of(600, 300, 300))) if each.system == "onlyfast")
    assert only.capacity_bytes == 0
