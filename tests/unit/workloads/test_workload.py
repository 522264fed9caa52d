"""Workloads: the catalogue is sound, and no workload, whoever wrote it, runs fio or dd on anything but its target."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.errors import LabError, SpecError
from lab.experiments.schema import JobPlan
from lab.tomlfile import decode_toml
from lab.units import MIB
from lab.workloads.jobs import (
    FioPhase,
    Invocation,
    JobTarget,
    PathKind,
    dd_invocation,
    fio_invocations,
    prepare_invocation,
)
from lab.workloads.workload import LoadProgram, Workload, all_workloads, changed, find_workload, job_problems
from tests.cases import lines_of
from tests.waiting import PATIENCE_SECONDS

GOOD = """
id = "mine"
title = "Mine"
shows = "Something."
direction = "read"
pattern = "random"
block_bytes = "8K"
"""


def test_each_file_is_named_after_its_id() -> None:
    assert {name: workload.id for name, workload in all_workloads().items()} == {name: name for name in all_workloads()}


def test_workloads_with_several_request_sizes_have_none() -> None:
    # fio reports only the block size of a recipe's last section, and requests of a trace differ.
    sizes = [find_workload(name).request_bytes for name in ("rand-read-4k", "antioquia-literal", "trace-server")]
    assert sizes == [4096, None, None]


@pytest.mark.parametrize("workload", all_workloads().values(), ids=lambda each: each.id)
def test_every_entry_bypasses_the_cache_and_has_a_description(workload: Workload) -> None:
    assert workload.direct or workload.recipe
    assert workload.random_data or workload.recipe
    assert workload.shows.endswith(".")
    assert workload.reads or workload.writes


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(SpecError, match="there is no workload 'rand-raed-4k'") as caught:
        find_workload("rand-raed-4k")
    assert caught.value.hint == "did you mean 'rand-read-4k'?"


def test_a_users_file_is_found_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert find_workload(str(path)).block_bytes == 8192


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("queue_depth = 4\nengine = 'psync'", "depth-without-async"),
        ("runtime_seconds = 1.0", "runtime-short"),
        ("read_percent = 50", "read_percent is required for a mix"),
        ("verify = 'reread'", "require each other"),
        ("jobs = 0", "jobs: 0 is not possible: write 1 or more, and at most 256"),
        ("file_bytes = 512", "less than one block"),
        ("quue_depth = 1", "did you mean 'queue_depth'"),
        ("engine = 5", "engine: Expected `str`"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(GOOD + line + "\n")
    with pytest.raises(SpecError, match=complaint):
        find_workload(str(path))


DEVICE = JobTarget("/dev/md0", PathKind.DEVICE, 100 * MIB)
FIO = find_workload("antioquia-literal")
DD = find_workload("ilsistemista-dd-write")
JOB = "[global]\nfilename={filename}\nsize={size}\ntime_based\nruntime={runtime}\n[a]\nrw=randread\n"
LONG = "#" + "x" * 4094
OUTSIDE = [
    *lines_of(Path(__file__).parents[1] / "lint" / "data" / "reaching.fio", ";"),
    "ioengine=null",
    "filename={filename}:OUT",
    "filename=${HOME}",
    "replay_redirect=OUT",
    "verify=pattern\nverify_pattern='OUT'",
    "verify=crc32c",
    "verify_state_save=1",
    "bssplit=@OUT",
    "profile=tiobench",
    "unlink=1",
    "steadystate=iops:0.1%",
    "numjobs=257",
    "numjobs=$ncpus",
    "numjobs=(1+2)",
    "iodepth=4096\nbs=64m",
    "bs=1t",
    "bs=513",
    "runtime=99999999",
    "rw=trim",
    "cmdprio_percentage=1",
    " \texec_prerun=touch OUT",
    "rw=read;\nexec_prerun=touch OUT",
    "rw=read\rexec_prerun=touch OUT",
    "rw=read\x0bexec_prerun=touch OUT",
    "rw=read\u2028exec_prerun=touch OUT",
    f"{LONG}exec_prerun=touch OUT",
    "[../b]\nrw=read",
    "[global2]\nexec_prerun=touch OUT",
    "[b\nexec_prerun=touch OUT",
    "[b]x\nrw=read",
    "exec_prerun",
    "'exec_prerun'=touch OUT",
    "EXEC_PRERUN=touch OUT",
    "exec_prerun =touch OUT",
    "\n" * 1000,
]


@pytest.mark.parametrize("line", OUTSIDE, ids=lambda each: repr(each)[:40])
def test_no_recipe_of_fio_leads_outside(line: str, tmp_path: Path) -> None:
    line = line.replace("OUT", str(tmp_path / "out"))
    for recipe in (f"{JOB}{line}\n", f"{line}\n{JOB}"):
        with pytest.raises(SpecError, match="foreign-command"):
            changed(FIO, recipe=recipe)
        text = recipe.replace("{filename}", "/dev/md0").replace("{size}", "1m").replace("{runtime}", "1s")
        with pytest.raises(SpecError, match="foreign-command"):
            Invocation(FioPhase.MEASURE, ("fio", "-"), text, DEVICE, 1.0, writes=True)


def test_a_recipe_that_names_no_file_is_refused() -> None:
    with pytest.raises(SpecError, match="names no file"):
        changed(FIO, recipe="[a]\nrw=read\nsize={size}\n")


@pytest.mark.parametrize(
    "recipe",
    [
        "sh -c 'touch /tmp/out'",
        "dd if=/dev/zero of=/etc/passwd bs=2M count={count:1}",
        "dd if=/etc/shadow of={filename} bs=2M count={count:1}",
        "dd if=/dev/zero of={filename} bs=2M count={count:1} ; touch /tmp/out",
        "dd if=/dev/zero of={filename} bs=2M count={count:1} of=/etc/passwd",
        "dd if=/dev/zero of={filename}.bak bs=2M count={count:1}",
        "dd if=/dev/zero of={filename} bs=2M count={count:1} seek=9",
        "dd if=/dev/zero of={filename} bs=2M count={count:1} oflag=append",
        "dd if=/dev/zero of={filename} bs=2M count={count:1} --help",
        "dd if={filename} of=/dev/null bs=2M count={count:1}",
        "dd if={filename} of={filename} bs=2M count={count:1}",
        "dd if=/dev/zero of={filename} bs=1M count={count:1}",
        "dd if=/dev/zero of={filename} bs=2M",
        "dd if=/dev/zero of=${HOME} bs=2M count=1",
        "dd 'if=/dev/zero' of={filename} bs=2M count={count:1}",
        "",
        "dd",
        "/tmp/dd if=/dev/zero of={filename} bs=2M count={count:1}",
    ],
)
def test_no_recipe_of_dd_leads_outside(recipe: str) -> None:
    with pytest.raises(SpecError, match="foreign-command"):
        changed(DD, recipe=recipe)


@pytest.mark.parametrize(
    "argv",
    [
        ("sh", "-c", "touch /tmp/out"),
        ("fio", "--exec", "-"),
        ("fio", "/tmp/job.fio"),
        ("env", "LC_ALL=C", "dd", "if=/dev/zero", "of={filename}", "bs=1M", "count=1"),
        ("env", "LC_ALL=C", "dd", "if=/dev/zero", "of=/dev/md1", "bs=1M", "count=1"),
    ],
)
def test_no_other_command_is_a_start(argv: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match="foreign-command"):
        Invocation(FioPhase.MEASURE, argv, "[a]\nfilename=/dev/md0\n", DEVICE, 1.0, writes=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("engine", "psync\nexec_prerun=touch /tmp/out"),
        ("engine", "exec"),
        ("engine", "/tmp/engine.so"),
        ("distribution", "random\nexec_prerun=touch /tmp/out"),
        ("distribution", "zoned:@/etc/shadow"),
        ("id", "a]\nexec_prerun=touch /tmp/out\n[b"),
        ("id", "global"),
        ("id", "../x"),
        ("trace", "server-1990s\n"),
        ("file_bytes", 0),
        ("file_bytes", -4096),
        ("block_bytes", 1024**4),
        ("block_bytes", 513),
        ("block_bytes", "1T"),
        ("queue_depth", 0),
        ("jobs", 10**30),
        ("runtime_seconds", float("inf")),
        ("runtime_seconds", float("nan")),
        ("warmup_seconds", float("nan")),
        ("seed", -1),
    ],
)
def test_no_value_of_a_workload_becomes_more_than_a_value(key: str, value: object) -> None:
    with pytest.raises(LabError) as caught:
        fio_invocations(changed(find_workload("rand-read-4k"), **{key: value}), DEVICE)
    assert caught.value.hint


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0, 0.0, 1e300])
def test_no_time_is_without_end(seconds: float) -> None:
    with pytest.raises(SpecError):
        fio_invocations(find_workload("rand-read-4k"), DEVICE, runtime_seconds=seconds, warmup_seconds=0.0)


@pytest.mark.parametrize("line", ["file_bytes = 0", 'file_bytes = "512"', 'block_bytes = "1T"', "block_bytes = 513"])
def test_what_an_experiment_changes_is_checked_as_the_workload_is(line: str) -> None:
    with pytest.raises(SpecError):
        decode_toml(f'workload = "rand-read-4k"\n{line}\n', JobPlan).build()


def test_a_workload_that_reads_writes_nothing() -> None:
    with pytest.raises(SpecError, match="the workload declares reads"):
        changed(FIO, direction="read", read_percent=None)


def test_a_start_cannot_be_given_another_text() -> None:
    start = fio_invocations(FIO, replace(DEVICE, file_bytes=MIB))[0]
    with pytest.raises(SpecError, match="foreign-command"):
        replace(start, job_text=f"{start.job_text}exec_prerun=touch /tmp/out\n")
    with pytest.raises(SpecError, match="foreign-command"):
        replace(start, target=replace(DEVICE, path="/dev/md1"))


@pytest.mark.parametrize("kind", PathKind)
@pytest.mark.parametrize("workload", all_workloads().values(), ids=lambda each: each.id)
def test_the_catalogue_passes(workload: Workload, kind: PathKind) -> None:
    target = JobTarget("/mnt/md0" if kind is PathKind.DIRECTORY else "/dev/md0", kind, 4096 * MIB, file_bytes=64 * MIB)
    if workload.program is LoadProgram.DD:
        dd_invocation(workload, target)
    else:
        prepare_invocation(workload, target)
        fio_invocations(workload, target)


WORDS = [
    "exec_prerun=touch OUT",
    "ioengine=sync",
    "\n",
    "[b]",
    "[global]",
    ";",
    "#",
    "{filename}",
    "filename=",
    "bs=4k",
]
PIECES = st.sampled_from(
    [*WORDS, "include OUT", "x" * 600, "=", " ", "'", '"', "\\", "${HOME}", "rw=write", "write_bw_log=OUT"]
)

PLAYED = ("bs=4k\nrw=write\n", "[b]\nfilename={filename}\nsize=64k\nioengine=sync\n")
"""Texts that fio must accept."""


@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join))
@example(f"{LONG}exec_prerun=touch OUT\n")
@example("bs=4k #\nexec_prerun=touch OUT")
@example(PLAYED[0])
@example(PLAYED[1])
def test_whatever_passes_makes_fio_open_nothing_but_its_target(
    tmp_path_factory: pytest.TempPathFactory, more: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fio"
    folder.mkdir(exist_ok=True)
    target = folder / "target"
    target.write_bytes(b"\0" * 65536)
    out = folder / "out"
    text = f"[a]\nfilename={target}\nsize=64k\n{more}".replace("OUT", str(out)).replace("{filename}", str(target))
    if next(job_problems(text, {"filename": (str(target),)}), None) is not None:
        assert more not in PLAYED
        return
    done = subprocess.run(
        ["fio", "--output=/dev/null", "-"],
        input=text,
        text=True,
        cwd=folder,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    assert list(folder.iterdir()) == [target]
    if more in PLAYED:
        # A job that fio refuses would open nothing, whatever it says.
        assert done.returncode == 0, done.stderr
