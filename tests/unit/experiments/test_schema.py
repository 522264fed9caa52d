from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from lab.disks.kinds import DiskKind
from lab.errors import SpecError
from lab.experiments.published import find_published
from lab.experiments.schema import Experiment, built_in_names, check, find_experiment
from lab.tomlfile import decode_toml
from tests.unit.experiments.experiments import ARRAYS, HEAD, JOBS, REBUILD, experiment


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_experiments_are_right(name: str) -> None:
    found, text = find_experiment(name)
    assert found.id == name
    assert f'id = "{name}"' in text
    assert found.question.endswith("?")


def test_there_are_built_in_experiments() -> None:
    assert {"antioquia", "antioquia-quick", "louwrentius-quick", "rebuild"} <= set(built_in_names())


def test_an_unknown_experiment_names_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        find_experiment("antioquia-quik")
    assert caught.value.hint == "did you mean 'antioquia-quick'?"


def test_an_experiment_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\n".join((HEAD, "repeats = 3", ARRAYS, JOBS)))
    found, text = find_experiment(str(path))
    assert (found.id, text) == ("test", path.read_text())


def test_an_unknown_key_names_the_nearest_one() -> None:
    with pytest.raises(SpecError, match="unknown key 'repeat': did you mean 'repeats'"):
        experiment("repeat = 3\nrepeats = 3")
    with pytest.raises(SpecError, match=re.escape("unknown key 'arrays[0].member': did you mean 'members'")):
        experiment(arrays='[[arrays]]\nid = "a"\nlevel = "raid1"\nmembers = 2\nmember = 2\n')


@pytest.mark.parametrize(
    ("head", "parts", "complaint"),
    [
        ("repeats = 3", ('[rebuild]\narrays = ["a", "z"]\n',), "an array 'z' is named, and there are only a, b, c"),
        ("repeats = 3", ('[[jobs]]\nworkload = "rand-read-4k-q1"\narrays = ["y"]',), "an array 'y' is named"),
        ("repeats = 3", ('[[jobs]]\nworkload = "rand-read-4k"\n',), "two jobs have the same id"),
        ("repeats = 3", ('[[arrays]]\nid = "a"\nlevel = "raid0"\nmembers = 2\n',), "two arrays have the same id"),
        (
            "repeats = 3",
            (REBUILD, '[rebuild.under]\nworkload = "rand-read-4k"\n'),
            "the rebuild's load needs an id that no job has",
        ),
    ],
)
def test_contradictions(head: str, parts: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(SpecError, match=f"experiment 'test': {complaint}"):
        experiment(head, *parts)


def test_an_experiment_needs_arrays_something_to_do_and_this_format() -> None:
    with pytest.raises(SpecError, match="it has no arrays"):
        experiment("repeats = 3\narrays = []", arrays="", jobs='[[jobs]]\nworkload = "rand-read-4k"\n')
    with pytest.raises(SpecError, match="neither jobs nor a rebuild"):
        experiment("repeats = 3\njobs = []", jobs="")
    assert experiment("repeats = 3\njobs = []", REBUILD, jobs="").rebuild
    with pytest.raises(SpecError, match="format_version must be 2"):
        find_with(HEAD.replace("= 2", "= 3"))


def find_with(head: str) -> None:
    decode_toml("\n".join((head, "repeats = 3", ARRAYS, JOBS)), Experiment)


@pytest.mark.parametrize(
    ("level", "members", "extra", "complaint"),
    [
        ("raid55", 3, "", "unknown level 'raid55'"),
        ("raid5", 2, "", "raid5"),
        ("raid5", 3, 'layout = "sideways"', "sideways"),
    ],
)
def test_arrays_that_cannot_be_are_refused_before_anything_starts(
    level: str, members: int, extra: str, complaint: str
) -> None:
    wrong = f'[[arrays]]\nid = "a"\nlevel = "{level}"\nmembers = {members}\n{extra}\n'
    with pytest.raises(SpecError, match=complaint):
        check(experiment(arrays=wrong, jobs='[[jobs]]\nworkload = "rand-read-4k"\n'))


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        (('[[jobs]]\nworkload = "rand-raed-4k"\n',), "no workload 'rand-raed-4k'"),
        ((REBUILD, '[rebuild.under]\nworkload = "rand-mux-4k"\n'), "no workload 'rand-mux-4k'"),
        (("[disks]\nsize_bytes = 1000\n",), "disks.size_bytes: 1,000 is not possible"),
        (
            ('[disks]\nsharing = "shared"\n[[disks.pools]]\nid = "../x"\ncount = 1\nsize_bytes = "1M"\n',),
            "matching regex",
        ),
        (('[disks]\nkind = "spindle"\nmodel = "hdd-720"\n',), "no drive model 'hdd-720'"),
        (('[rebuild]\narrays = ["b", "c"]\n',), "array 'c' of experiment 'test' cannot be rebuilt: raid0 has no"),
    ],
)
def test_other_parts_that_cannot_be(parts: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        check(experiment("repeats = 3", *parts))


@pytest.mark.parametrize(
    ("head", "complaint"),
    [
        ("repeats = 0", "repeats: 0 is not possible: write 1 or more, 200 at most"),
        ("repeats = 999999999", "repeats: 999,999,999 is not possible"),
        ("sampling_hertz = 0.0", "sampling_hertz: 0.0 is not possible"),
        ("sampling_hertz = 1e-300", "sampling_hertz: 1e-300 is not possible"),
        ("sampling_hertz = nan", "sampling_hertz: nan is not possible"),
        ("sampling_hertz = 20.5", "sampling_hertz: 20.5 is not possible: write 0.01 or more, 20 at most"),
    ],
)
def test_numbers_are_bounded_and_the_bounds_are_told(head: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        experiment(head)


@pytest.mark.parametrize(
    ("arrays", "jobs", "complaint"),
    [
        (
            "members = 9000000000000000000",
            "",
            "members: 9,000,000,000,000,000,000 is not possible: write 0 or more, 64",
        ),
        ("members = 60", "", "it needs 120 disks, and 64 are possible"),
        ("members = 2", "", "it has 76,000 measurements, and 20,000 are possible"),
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


def test_an_unknown_array_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="no array of this experiment 'd'"):
        experiment().array("d")


def test_published_numbers_of_antioquia() -> None:
    found = find_published("antioquia")
    assert found
    raid0, raid1, raid5 = (found.figures_of(name) for name in ("raid0", "raid1", "raid5"))
    assert raid0
    assert raid1
    assert raid5
    assert round(raid1.read_iops / raid0.read_iops, 2) == 0.75
    assert round(raid1.write_iops / raid0.write_iops, 2) == 0.54
    assert round(raid5.read_iops / raid0.read_iops, 2) == 1.15
    assert round(raid5.write_iops / raid0.write_iops, 2) == 0.33
    assert found.figures_of("raid6") is None
    assert find_published("") is None
    assert find_published("rebuild") is None
