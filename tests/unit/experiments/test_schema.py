"""Experiments as files, with pools of several kinds of disks. Impossible ones are refused before anything starts."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from lab.adapt.spec import VolumeSpec
from lab.disks import LabDisk
from lab.disks.kinds import DiskKind
from lab.errors import LabError, SpecError
from lab.experiments.run import reads_as_zeros_after_reset, tuned
from lab.experiments.schema import Experiment, built_in_names, check, find_experiment
from lab.tomlfile import decode_toml
from lab.units import MIB
from tests.cases import cases
from tests.unit.experiments.experiments import ARRAYS, HEAD, JOBS, REBUILD, experiment

DATA = Path(__file__).with_name("data")
ONE_JOB = '[[jobs]]\nworkload = "rand-read-4k"\n'


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_experiments_are_right(name: str) -> None:
    found, text = find_experiment(name)
    assert found.id == name
    assert f'id = "{name}"' in text
    assert found.question.endswith("?")


def test_an_unknown_experiment_names_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        find_experiment("antioquia-quik")
    assert caught.value.hint == "did you mean 'antioquia-quick'?"


def test_an_experiment_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\n".join((HEAD, "repeats = 3", ARRAYS, JOBS)))
    found, text = find_experiment(str(path))
    assert (found.id, text) == ("test", path.read_text())


def with_addition(text: str) -> Experiment:
    head, bracket, parts = text.partition("[")
    return experiment(head, bracket + parts)


@pytest.mark.parametrize(("text", "complaint"), cases(DATA / "refused.txt"))
def test_an_experiment_that_cannot_be_is_refused_as_it_is_read(text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=re.escape(complaint)):
        with_addition(text)


@pytest.mark.parametrize(("text", "complaint"), cases(DATA / "refused_by_check.txt"))
def test_an_experiment_that_cannot_be_is_refused_before_it_starts(text: str, complaint: str) -> None:
    plan = with_addition(text)
    with pytest.raises(SpecError, match=re.escape(complaint)):
        check(plan)


def test_an_experiment_needs_arrays_something_to_do_and_this_format() -> None:
    with pytest.raises(SpecError, match="it has no arrays"):
        experiment("repeats = 3\narrays = []", arrays="", jobs=ONE_JOB)
    with pytest.raises(SpecError, match="neither jobs nor a rebuild"):
        experiment("repeats = 3\njobs = []", jobs="")
    assert experiment("repeats = 3\njobs = []", REBUILD, jobs="").rebuild
    with pytest.raises(SpecError, match="format_version must be 2"):
        decode_toml("\n".join((HEAD.replace("= 2", "= 3"), "repeats = 3", ARRAYS, JOBS)), Experiment)


@pytest.mark.parametrize(
    ("arrays", "jobs", "complaint"),
    [
        (
            "members = 9000000000000000000",
            "",
            "members: 9,000,000,000,000,000,000 is not possible: write 0 or more, and at most 64",
        ),
        ("members = 60", "", "it needs 120 disks, but at most 64 are possible"),
        ("members = 2", "", "it has 76,000 measurements, but at most 20,000 are possible"),
        ("members = 2", "runtime_seconds = 86400.0", "would measure for"),
    ],
)
def test_no_experiment_is_without_end(arrays: str, jobs: str, complaint: str) -> None:
    count = 190 if "76,000" in complaint else 4
    text = "".join(f'[[arrays]]\nid = "{name}"\nlevel = "raid0"\n{arrays}\n' for name in "ab")
    text += "".join(f'[[jobs]]\nid = "j{n}"\nworkload = "rand-read-4k"\n{jobs}\n' for n in range(count))
    began = time.process_time()
    with pytest.raises(SpecError, match=complaint):
        check(experiment("repeats = 200", arrays=text, jobs=""))
    assert time.process_time() - began < 1


def test_disks_for_arrays_side_by_side_and_in_turn() -> None:
    separate = experiment("repeats = 3", '[disks]\nkind = "loop"\nsize_bytes = "64M"\n').disk_specs
    assert [(spec.name, spec.kind, spec.size_bytes) for spec in separate[-1:]] == [("disk07", DiskKind.LOOP, 64 << 20)]
    shared = experiment("repeats = 3", '[disks]\nsharing = "shared"\n').disk_specs
    assert [spec.name for spec in shared] == ["disk01", "disk02", "disk03"]


def test_a_job_may_change_a_workload_and_its_name() -> None:
    text = '[[jobs]]\nid = "deep"\nworkload = "rand-read-4k"\nqueue_depth = 7\nfile_bytes = "2M"\n'
    workload = experiment(jobs=text).workloads_on("a")[0]
    assert (workload.id, workload.queue_depth, workload.file_bytes) == ("deep", 7, 2 << 20)
    with pytest.raises(SpecError, match="no array of this experiment 'd'"):
        experiment().array("d")


POOLS = """
repeats = 2
[disks]
kind = "spindle"
sharing = "shared"
[[disks.pools]]
id = "fast"
count = 4
size_bytes = "64M"
model = "hdd-10k"
[[disks.pools]]
id = "slow"
count = 3
size_bytes = "32M"
model = "hdd-7200"
"""
UNEQUAL = """
[[arrays]]
id = "volume"
level = "adapt5"
take = { fast = 2, slow = 3 }
stripe_cache_pages = 1024
[[arrays]]
id = "all"
level = "raid5"
take = { fast = 3, slow = 1 }
"""


def test_the_lab_has_every_disk_of_every_pool_and_an_array_takes_the_first_of_each() -> None:
    plan = experiment(POOLS, arrays=UNEQUAL, jobs=ONE_JOB)
    specs = plan.disk_specs
    assert [spec.name for spec in specs] == ["fast01", "fast02", "fast03", "fast04", "slow01", "slow02", "slow03"]
    assert {(spec.size_bytes // MIB, spec.model) for spec in specs} == {(64, "hdd-10k"), (32, "hdd-7200")}
    check(plan)
    assert plan.arrays[0].disk_names() == ("fast01", "fast02", "slow01", "slow02", "slow03")
    assert plan.arrays[1].disk_names() == ("fast01", "fast02", "fast03", "slow01")


def test_factors_of_use_are_given_by_pool() -> None:
    text = UNEQUAL.replace("stripe_cache_pages = 1024", "utilisation = { slow = 0.3 }")
    plan = experiment(POOLS, arrays=text, jobs=ONE_JOB).arrays[0]
    disks = plan.stand_ins(experiment(POOLS, arrays=text, jobs=ONE_JOB).disks)
    spec = plan.spec(disks)
    assert isinstance(spec, VolumeSpec)
    assert (spec.name, spec.utilisation) == ("adapt0", (1.0, 1.0, 0.3, 0.3, 0.3))
    assert [disk.size_bytes // MIB for disk in disks] == [64, 64, 32, 32, 32]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("fast = 2, slow = 3", "fast = 9"), "takes 9 disks from pool 'fast', but fast has 4, slow has 3"),
        (("fast = 2, slow = 3", "new = 2"), "takes 2 disks from pool 'new'"),
        (("fast = 2, slow = 3", "fast = 2"), "needs at least 3 disks, not 2"),
        (("stripe_cache_pages = 1024", "utilisation = { old = 0.3 }"), "of pool 'old', but takes no disks from it"),
        (("stripe_cache_pages = 1024", "reference = 9"), "reference stripe of 9 blocks is not possible"),
    ],
)
def test_impossible_selections_from_pools_are_rejected_before_anything_starts(
    change: tuple[str, str], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        check(experiment(POOLS, arrays=UNEQUAL.replace(*change), jobs=ONE_JOB))


def test_pools_need_shared_disks() -> None:
    with pytest.raises(LabError, match="pools need sharing 'shared'"):
        experiment(POOLS.replace('sharing = "shared"', ""), arrays=UNEQUAL, jobs=ONE_JOB)


def test_the_rebuild_of_a_volume_is_refused() -> None:
    with pytest.raises(SpecError, match="'volume' of experiment 'test' is a volume of several arrays"):
        check(experiment(POOLS, '[rebuild]\narrays = ["volume"]\n', arrays=UNEQUAL, jobs=ONE_JOB))


def test_each_inner_array_gets_the_stripe_cache_that_is_asked_for() -> None:
    plan = experiment(POOLS, arrays=UNEQUAL, jobs=ONE_JOB).arrays
    assert [step.argv[2] for step in tuned(plan[0], ["md100", "md101"]).steps] == [
        "echo 1024 > /sys/block/md100/md/stripe_cache_size",
        "echo 1024 > /sys/block/md101/md/stripe_cache_size",
    ]
    assert tuned(plan[1], ["md0"]).steps == ()


@pytest.mark.parametrize(
    ("kind", "backing", "is_certain"),
    [
        (DiskKind.FILE, "/somewhere/disk01.img", True),
        (DiskKind.SPINDLE, "memory", True),
        (DiskKind.SPINDLE, "/dev/vdb", False),
        (DiskKind.VIRTIO, "", False),
        (DiskKind.PHYSICAL, "", False),
    ],
)
def test_only_images_and_memory_are_surely_blank_after_a_reset(kind: DiskKind, backing: str, is_certain: bool) -> None:
    disk = LabDisk(name="disk01", kind=kind, node="/dev/x", size_bytes=MIB, backing=backing)
    assert reads_as_zeros_after_reset(disk) is is_certain
