"""Axes and their combinations: which are cells, which are impossible, and which mean the same."""

from __future__ import annotations

import pytest

from lab.errors import SpecError
from lab.experiments.linting import lint_experiment, require_sound
from lab.experiments.schema import Experiment
from lab.sweep.cells import key_of, toml_of
from lab.sweep.schema import built_in_names, combinations, decode_sweep, find_sweep
from lab.tomlfile import decode_toml

FILE = """\
format_version = 2
id = "small"
title = "Small"
question = "?"
[disks]
kind = "spindle"
size_bytes = "24M"
[[jobs]]
workload = "rand-read-4k"
runtime_seconds = 4.0
warmup_seconds = 1.0
[sweep]
level = ["raid1", "raid5"]
members = [2, 4]
chunk = ["64K", "512K"]
queue_depth = [1, 8]
drive = ["hdd-7200"]
"""
HERE = {"kernel": "k", "programs": "p", "raidlab": "r"}


def test_cells_are_the_combinations_without_those_that_cannot_be_or_mean_the_same() -> None:
    found = combinations(decode_sweep(FILE, "test"))
    # RAID 1 has no chunk: 2 members x 2 depths. RAID 5 with 2 members is possible for md.
    labels = [cell.label for cell in found.cells]
    assert labels[0] == "raid1, 2 members, queue depth 1, drive hdd-7200"
    assert "raid5, 4 members, chunk 512K, queue depth 8, drive hdd-7200" in labels
    raid1 = [cell for cell in found.cells if cell.experiment.arrays[0].level == "raid1"]
    assert (len(raid1), found.same) == (4, 4)
    assert len(found.cells) + sum(found.impossible.values()) + found.same + found.skipped == 16
    cell = found.cells[-1]
    assert cell.experiment.arrays[0].chunk_bytes == 512 * 1024
    assert cell.experiment.jobs[0].queue_depth == 8
    assert cell.experiment.disks.model == "hdd-7200"


def test_however_a_value_is_written_it_is_the_same_cell() -> None:
    plain = combinations(decode_sweep(FILE, "test"))
    skip = '[[skip]]\nlevel = "{}"\nchunk = {}\n'
    other = FILE.replace('"raid1", "raid5"', '"Mirror", "RAID-5"').replace('"64K", "512K"', '"65536", "512 KiB"')
    sweep = decode_sweep(other, "test")
    assert sweep.sweep.named == decode_sweep(FILE, "test").sweep.named
    assert combinations(sweep).cells == plain.cells
    assert combinations(decode_sweep(FILE + skip.format("raid 5", '["64KB"]'), "test")).skipped == 4
    for word in ("installed", "6", "6.12", "6.12.3", "6.12-rc3", "/opt/linux of mine"):
        assert decode_sweep(FILE.replace("queue_depth = [1, 8]", f'kernel = ["{word}"]'), "test").sweep.kernel == (
            word,
        )


@pytest.mark.parametrize(
    ("old", "new", "message", "count"),
    [
        (
            '"64K", "512K"',
            '"64K", "32M"',
            "raid5 of 4 disks: some disks are too small: with chunk 32 MiB a disk has",
            2,
        ),
        ('"64K", "512K"', '"512K", "4M"', "raid10 of 4 disks: with chunk 4 MiB nothing is left for data", 2),
        ("[1, 8]", '[1]\nblock = ["4K", "64M"]', "raid5 of 4 disks: workload 'rand-read-4k' needs 4 x 64 MiB", 2),
        ("[1, 8]", '[1024]\njobs = [64]\nblock = ["4K", "1M"]', "would take more than", 6),
        ('"24M"', '"900M"\n[array]\nstripe_cache_pages = 32768', "raid5 of 4 disks: workload 'rand-read-4k' takes", 4),
        ("[1, 8]", '[256]\njobs = [64]\nblock = ["16K", "64K"]', "takes 1 GiB of memory", 6),
        ('"24M"', '"13T"', "raid5 of 4 disks: workload 'rand-read-4k' takes 1.22 GiB of memory", 4),
        (
            '"24M"',
            '"900M"\n[array]\nstripe_cache_pages = 32768',
            "takes 536,973,440 bytes of memory with the stripe cache, "
            "but the embedded kernel has only 536,870,912 bytes",
            1,
        ),
        ('"24M"', '"24M"\n[array]\nconsistency_policy = "ppl"', "policy ppl works on raid5 only", 8),
        ('"raid1", "raid5"', '"raid6"', "raid6 of 2 disks", 4),
    ],
)
def test_what_cannot_be_is_left_out_before_a_machine_is_started(old: str, new: str, message: str, count: int) -> None:
    text = FILE.replace(old, new)
    if "raid10" in message:
        text = text.replace('"raid1", "raid5"', '"raid10"').replace('"24M"', '"14M"\n[array]\nlayout = "f2"')
    found = combinations(decode_sweep(text, "test"))
    assert found.cells
    result = {why: number for why, number in found.impossible.items() if message in why}
    assert sum(result.values()) == count, found.impossible


def test_what_arrays_have_in_common_is_left_to_those_that_can_have_it() -> None:
    text = FILE.replace("[[jobs]]", "[array]\nassume_clean = true\nstripe_cache_pages = 512\n[[jobs]]")
    arrays = [cell.experiment.arrays[0] for cell in combinations(decode_sweep(text, "test")).cells]
    assert {(each.level, each.stripe_cache_pages) for each in arrays} == {("raid1", None), ("raid5", 512)}


def test_more_file_disks_than_the_kernel_takes_are_left_out() -> None:
    text = FILE.replace('drive = ["hdd-7200"]', "").replace('"spindle"', '"file"').replace("[2, 4]", "[16, 17]")
    found = combinations(decode_sweep(text, "test"))
    assert {cell.experiment.disk_count for cell in found.cells} == {16}
    assert "raid5 of 17 disks: the embedded kernel accepts at most 16 disks of kind file" in found.impossible


def test_progress_is_reported_while_combinations_are_enumerated() -> None:
    reported: list[float] = []
    combinations(decode_sweep(FILE.replace("[1, 8]", str(list(range(1, 101)))), "test"), reported.append)
    assert reported == sorted(reported)
    assert (reported[0], len(reported)) == (0.0, 4)
    assert reported[-1] < 1


def test_skipped_are_those_that_match_all_of_a_table() -> None:
    skip = '[[skip]]\nlevel = "raid5"\nmembers = [2, 4]\nqueue_depth = 8\n'
    found = combinations(decode_sweep(FILE + skip, "test"))
    assert found.skipped == 4
    assert not [each for each in found.cells if each.place["level"] == "raid5" and each.place["queue_depth"] == 8]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"raid1", "raid5"', '"raid1", "raid55"', "raid55"),
        ("members = [2, 4]", "members = [2, 2]", "has a value twice"),
        ('"raid1", "raid5"', '"raid5", "RAID 5"', "the axis level has a value twice"),
        ('"64K", "512K"', '"64K", "64KiB"', "the axis chunk has a value twice"),
        ("queue_depth = [1, 8]", 'block = ["4K", "4096"]', "the axis block has a value twice"),
        ("queue_depth = [1, 8]", 'block = ["100"]', "block 100 is not possible"),
        ("queue_depth = [1, 8]", 'kernel = ["a b; rm"]', "kernel 'a b; rm' is neither a version"),
        ("queue_depth = [1, 8]", 'kernel = ["6.12\\n"]', "is neither a version"),
        ("queue_depth = [1, 8]", 'kernel = [""]', "is neither a version"),
        ("[disks]", "[[skip]]\n[disks]", "names no axis would skip everything"),
        ("[disks]", "[[skip]]\nlevel = []\n[disks]", "[[skip]] names no value of level"),
        ("[[jobs]]", '[[jobs]]\nworkload = "rand-read-4k"\n[[jobs]]', "two jobs have the same id"),
        ("[[jobs]]", '[[jobs]]\narrays = ["x"]', "a job names arrays, but a cell has only one"),
        ('"rand-read-4k"', '"mine.toml"', "'mine.toml' is a file, but a sweep's loads come from the catalogue"),
        ("queue_depth = [1, 8]", 'workload = ["./mine.toml"]', "'./mine.toml' is a file"),
        ("members = [2, 4]", "members = []", "the axis members has no values"),
        ('"64K", "512K"', '"64K", "100K"', "power of two"),
        ('drive = ["hdd-7200"]', 'drive = ["hdd-7300"]', "hdd-7300"),
        ('drive = ["hdd-7200"]', "", "names no model"),
        ("[disks]", '[[skip]]\nlevel = ["raid1", "raid5"]\n[disks]', "has no cells"),
        ('"rand-read-4k"', '"rand-read-5k"', "rand-read-5k"),
        ("queue_depth = [1, 8]", "queue_depths = [1, 8]", "queue_depths"),
        ("[disks]", '[[skip]]\nchunks = "64K"\n[disks]', "[[skip]] names 'chunks'"),
        ("[disks]", "[[skip]]\nmembers = 3\n[disks]", "which that axis does not have"),
        ("queue_depth = [1, 8]", f"queue_depth = {list(range(1, 1001))}\njobs = {list(range(1, 257))}", "are allowed"),
    ],
)
def test_what_makes_no_sense_is_named(old: str, new: str, message: str) -> None:
    assert old in FILE
    with pytest.raises(SpecError) as caught:
        combinations(decode_sweep(FILE.replace(old, new), "test"))
    assert message in str(caught.value)


def test_disks_that_the_machine_of_a_cell_cannot_have_are_refused() -> None:
    with pytest.raises(SpecError, match="has no disks of kind virtio"):
        decode_sweep(FILE.replace('drive = ["hdd-7200"]', "").replace('"spindle"', '"virtio"'), "test")


def test_the_key_depends_on_all_that_figures_depend_on_and_on_nothing_else() -> None:
    def keys(text: str = FILE, here: dict[str, str] = HERE, *, is_virtual: bool = True) -> list[str]:
        cells = combinations(decode_sweep(text, "test")).cells
        return [key_of(cell, here, is_virtual_time=is_virtual) for cell in cells]

    first = keys()
    assert len(set(first)) == len(first)
    assert keys(FILE.replace('"Small"', '"Other words"').replace('"small"', '"other"')) == first
    others = [
        keys(FILE.replace("runtime_seconds = 4.0", "runtime_seconds = 5.0")),
        keys(FILE.replace('title = "Small"', 'title = "Small"\nseed = 2')),
        keys(FILE.replace('"24M"', '"25M"')),
        keys(here={**HERE, "kernel": "k2"}),
        keys(here={**HERE, "raidlab": "r2"}),
        keys(is_virtual=False),
    ]
    assert not set(first) & {key for other in others for key in other}
    # In another order, or among more values, a cell is the same cell.
    assert set(keys(FILE.replace("[1, 8]", "[8, 4, 1]"))) > set(first)


def test_a_cells_file_reads_as_the_same_experiment() -> None:
    for name in built_in_names():
        for cell in combinations(find_sweep(name)[0]).cells[:20]:
            assert decode_toml(toml_of(cell.experiment), Experiment) == cell.experiment


def test_built_in_sweeps_can_be_planned() -> None:
    assert {"levels", "chunks"} <= set(built_in_names())
    assert len(combinations(find_sweep("levels")[0]).cells) == 200
    for name in built_in_names():
        for cell in combinations(find_sweep(name)[0]).cells:
            require_sound(lint_experiment(cell.experiment), cell.experiment)
