"""Every defect of the five studies, by the name of its rule; and recipes without defects raise none."""

from __future__ import annotations

import pytest

from lab.errors import ExperimentError, SpecError
from lab.experiments.linting import lint_experiment, require_sound
from lab.experiments.schema import built_in_names, find_experiment
from lab.lint.fio_checks import lint_fio
from lab.publications.recipes import Publication, find_publication, lint_publication, lint_shell
from lab.publications.recipes import built_in_names as publications
from tests.unit.experiments.experiments import experiment

DEFECTS = {
    "antioquia": {
        "the same loops serve three arrays": "member-reused",
        "its table shows other members than the commands": "topology-mismatch",
        "reads and writes run together": "mixed-directions",
        "a file of 500 MiB does not fit on the mirror": "file-exceeds-fs",
        "RAID 5 has three members, the others two": "unequal-members",
        "loop devices without direct I/O": "loop-buffered",
        "files in memory": "file-fits-cache",
        "the same, seen from the result": "io-not-on-members",
        "all members on one host disk": "shared-backing-disk",
        "rebuild time, latency and CPU promised": "promised-metric-missing",
        "integrity claimed, never checked": "integrity-unchecked",
        "awk over fio's text": "human-output-parsed",
        "one run": "too-few-repeats",
        "no spread": "no-dispersion",
        "--add of an image never created": "device-missing",
        "fails a device that is no member": "not-a-member",
    },
    "louwrentius": {
        "repeats not told": "too-few-repeats",
        "no spread": "no-dispersion",
        "no percentiles": "no-percentiles",
        "the chunk's conclusion holds for 4K only": "claim-outside-grid",
    },
    "linnaeus": {
        "averages over tools and block sizes": "unlike-averaged",
        "disks on a network": "network-backed",
        "the physical half is missing": "arm-missing",
        "two disks against three": "unequal-members",
        "three runs": "too-few-repeats",
        "no spread": "no-dispersion",
    },
    "adaptraid": {"a simulator's result": "simulated-origin", "no spread": "no-dispersion"},
    "ilsistemista": {
        "31.25 GiB, not 64": "volume-mismatch",
        "no direct I/O or fsync": "buffered-writer",
        "zeros": "zero-data",
        "percent over eight threads": "cpu-percent-only",
        "one run": "too-few-repeats",
        "no spread": "no-dispersion",
    },
}
DONE_RIGHT = [
    name
    for name in built_in_names()
    if find_experiment(name)[0].study and not name.endswith(("-as-published", "-quick"))
]


@pytest.mark.parametrize(
    ("study", "defect", "rule"),
    [(study, defect, rule) for study, table in DEFECTS.items() for defect, rule in table.items()],
)
def test_a_defect_of_a_publication_is_named(study: str, defect: str, rule: str) -> None:
    found = {finding.rule_id for finding in lint_publication(find_publication(study))}
    assert rule in found, defect


def test_every_study_has_a_publication_and_its_defects() -> None:
    assert set(publications()) == set(DEFECTS)


@pytest.mark.parametrize("name", [name for name in built_in_names() if name.endswith("-as-published")])
def test_an_experiment_as_published_names_the_defects_of_its_study(name: str) -> None:
    plan = find_experiment(name)[0]
    assert plan.publication
    found = {finding.rule_id for finding in lint_experiment(plan)}
    assert set(DEFECTS[plan.publication].values()) <= found


@pytest.mark.parametrize("name", DONE_RIGHT)
def test_a_study_done_right_breaks_no_rule(name: str) -> None:
    assert lint_experiment(find_experiment(name)[0]) == ()


@pytest.mark.parametrize("name", built_in_names())
def test_no_experiment_that_comes_with_raidlab_would_be_refused(name: str) -> None:
    plan = find_experiment(name)[0]
    require_sound(lint_experiment(plan), plan)


def test_a_sound_publication_breaks_no_rule() -> None:
    sound = Publication(
        study="sound",
        source="here",
        commands="""
truncate -s 1G a.img
truncate -s 1G b/b.img
losetup --direct-io=on /dev/loop0 a.img
losetup --direct-io=on /dev/loop1 b/b.img
mdadm --create /dev/md0 --level=1 --raid-devices=2 /dev/loop0 /dev/loop1
fio --output-format=json job.fio | jq .
mdadm /dev/md0 --fail /dev/loop1
mdadm /dev/md0 --remove /dev/loop1
mdadm /dev/md0 --add /dev/loop1
dd if=/dev/urandom of=/dev/md0 bs=1M count=100 oflag=direct
""",
        fio_job="[global]\ndirect=1\ntime_based\nruntime=30\nioengine=libaio\niodepth=4\n"
        "[r]\nrw=randread\n[w]\nstonewall\nrw=randwrite\nrefill_buffers\n",
        runs=6,
        shows_spread=True,
        shows_percentiles=True,
        promises=("latency", "integrity"),
        reports=("latency", "integrity"),
        printed_members={"md0": ("loop0", "loop1")},
        members={"raid1": 2, "raid0": 2},
        declared_bytes=100 << 20,
    )
    assert lint_publication(sound) == ()


def test_a_rule_that_refuses_stops_an_experiment_unless_allowed_by_name() -> None:
    plan = experiment("writes_files_first = false")
    found = lint_experiment(plan)
    with pytest.raises(ExperimentError, match="never-written") as caught:
        require_sound(found, plan)
    assert "--allow never-written" in caught.value.hint
    require_sound(found, plan, {"never-written"})
    with pytest.raises(SpecError, match="no rule 'never-writen'"):
        require_sound(found, plan, {"never-writen"})


@pytest.mark.parametrize(
    ("job", "rules"),
    [
        ("[a]\nrw=read\nruntime=9", {"runtime-short"}),
        ("[a]\ntime_based\nruntime=9\niodepth=8\nioengine=sync", {"depth-without-async"}),
        ("[a]\ntime_based\nruntime=9\nrw=write\ndirect=1\nzero_buffers", {"zero-data"}),
        ("[a]\ntime_based\nruntime=9\nrw=write", {"buffered-writer"}),
        ("[a]\ntime_based\nruntime=9\nnumjobs=4", {"jobs-unsummed"}),
        ("[a]\ntime_based\nruntime=9\nbs=1000", {"misaligned"}),
        ("[a]\ntime_based\nruntime=9\nrw=randrw\ndirect=1", set()),
        ("[a]\ntime_based\nruntime=9\nramp_time=10", {"runtime-short"}),
        ("[a]\ntime_based\nruntime=2m\nramp_time=3m", {"runtime-short"}),
        ("[global]\nramp_time=90\ntime_based\n[a]\nruntime=60\n[b]\nstonewall\nruntime=91", {"runtime-short"}),
        ("[a]\ntime_based\nruntime=9\nramp_time=9", set()),
        ("[a]\ntime_based\nruntime=1m\nramp_time=30", set()),
        ("[a]\ntime_based\nruntime=1\nramp_time=500ms", set()),
        ("[a]\ntime_based\nruntime=0\nramp_time=5", set()),
        ("[a]\ntime_based\nruntime=${RUN}\nramp_time=5", set()),
        ("[a]\ntime_based\ntimeout=60\nramp_time=5", set()),
        ("[a]\nioengine=null\ntime_based\nruntime=5\nramp_time=9", set()),
        ("; a comment\n[a]\ntime_based\nruntime=9\n", set()),
        ("", set()),
    ],
)
def test_a_fio_job_file(job: str, rules: set[str]) -> None:
    assert {finding.rule_id for finding in lint_fio(job)} == rules


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("fio a.fio > out.txt\nawk '/IOPS/' out.txt", {"human-output-parsed", "not-analysed"}),
        ("fio --output-format=json a.fio | grep iops", {"not-analysed"}),
        ("mdadm -C /dev/md0 -l 5 -n 3 --assume-clean /dev/sda /dev/sdb /dev/sdc", {"parity-unverified"}),
        ("mdadm --create /dev/md0 --level=0 -n 2 /dev/sda /dev/sdb\nmdadm /dev/md0 -f /dev/sdb", set()),
        ("mdadm --create /dev/md0 --level=0 -n 2 /dev/sda /dev/sdb\nmdadm --fail /dev/md0 /dev/sdx", {"not-a-member"}),
        ("sudo dd if=/dev/urandom of=/mnt/f bs=1M conv=fdatasync && sync", set()),
        ("echo 'a; b' # nothing", set()),
        ("", set()),
    ],
)
def test_a_shell_recipe(text: str, rules: set[str]) -> None:
    assert {finding.rule_id for finding in lint_shell(text)} == rules


def test_a_recipe_with_an_open_quote_is_refused_with_its_line() -> None:
    with pytest.raises(SpecError, match="echo 'open"):
        list(lint_shell("true\necho 'open"))
