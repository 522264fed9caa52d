"""Experiments whose arrays take disks of several kinds, and volumes of unequal disks in them."""

from __future__ import annotations

import pytest

from lab.adapt.spec import VolumeSpec
from lab.disks import DiskKind, LabDisk
from lab.errors import LabError, SpecError
from lab.experiments.run import reads_as_zeros_after_reset, tuned
from lab.experiments.schema import check
from lab.units import MIB
from tests.unit.experiments.experiments import experiment

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
ARRAYS = """
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
JOB = '[[jobs]]\nworkload = "rand-read-4k"\n'


def test_the_lab_has_every_disk_of_every_pool() -> None:
    specs = experiment(POOLS, arrays=ARRAYS, jobs=JOB).disk_specs
    assert [spec.name for spec in specs] == ["fast01", "fast02", "fast03", "fast04", "slow01", "slow02", "slow03"]
    assert {(spec.size_bytes // MIB, spec.model) for spec in specs} == {(64, "hdd-10k"), (32, "hdd-7200")}


def test_an_array_takes_the_first_disks_of_each_pool_in_its_order() -> None:
    plans = experiment(POOLS, arrays=ARRAYS, jobs=JOB).arrays
    assert plans[0].disk_names() == ("fast01", "fast02", "slow01", "slow02", "slow03")
    assert plans[1].disk_names() == ("fast01", "fast02", "fast03", "slow01")
    check(experiment(POOLS, arrays=ARRAYS, jobs=JOB))


def test_factors_of_use_are_given_by_pool() -> None:
    text = ARRAYS.replace("stripe_cache_pages = 1024", "utilisation = { slow = 0.3 }")
    plan = experiment(POOLS, arrays=text, jobs=JOB).arrays[0]
    disks = plan.stand_ins(experiment(POOLS, arrays=text, jobs=JOB).disks)
    spec = plan.spec(disks)
    assert isinstance(spec, VolumeSpec)
    assert (spec.name, spec.utilisation) == ("adapt0", (1.0, 1.0, 0.3, 0.3, 0.3))
    assert [disk.size_bytes // MIB for disk in disks] == [64, 64, 32, 32, 32]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("fast = 2, slow = 3", "fast = 9"), "takes 9 of pool 'fast', and fast has 4, slow has 3"),
        (("fast = 2, slow = 3", "new = 2"), "takes 2 of pool 'new'"),
        (("fast = 2, slow = 3", "fast = 2"), "needs at least 3 disks, not 2"),
        (("stripe_cache_pages = 1024", "utilisation = { old = 0.3 }"), "uses pool 'old' and takes nothing from it"),
        (("stripe_cache_pages = 1024", "reference = 9"), "reference stripe of 9 blocks is not possible"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(change: tuple[str, str], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        check(experiment(POOLS, arrays=ARRAYS.replace(*change), jobs=JOB))


def test_pools_need_shared_disks() -> None:
    with pytest.raises(LabError, match="pools need sharing 'shared'"):
        experiment(POOLS.replace('sharing = "shared"', ""), arrays=ARRAYS, jobs=JOB)


def test_the_rebuild_of_a_volume_is_refused() -> None:
    with pytest.raises(SpecError, match="'volume' of experiment 'test' is a volume of several arrays"):
        check(experiment(POOLS, '[rebuild]\narrays = ["volume"]\n', arrays=ARRAYS, jobs=JOB))


def test_each_inner_array_gets_the_stripe_cache_that_is_asked_for() -> None:
    plan = experiment(POOLS, arrays=ARRAYS, jobs=JOB).arrays
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
