"""fio's options: each belongs to a group, values are read as fio reads them, and harmless options have no findings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lab.lint.fio_checks import (
    FioGroup,
    bytes_of,
    fio_table,
    group_of,
    lint_fio,
    lint_job_file,
    number_of,
    seconds_of,
    sizes_of,
)
from lab.workloads.workload import ENGINES, _options
from tests.cases import cases, lines_of

DATA = Path(__file__).with_name("data")
TIMED = "[a]\nfilename=/dev/md0\ndirect=1\ntime_based\nruntime=9\n"


def rules(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in lint_job_file(text):
        found.setdefault(each.rule_id, []).append(f"{each.subject}: {each.observed}")
    return found


def asked(*words: str) -> list[str]:
    return subprocess.run(["fio", *words], capture_output=True, text=True, timeout=30, check=False).stdout.splitlines()


def test_every_option_and_engine_of_this_computers_fio_has_its_group() -> None:
    table = fio_table()
    known = {*table.by_name, *table.aliases}
    engines = [line.strip() for line in asked("--enghelp") if line.startswith("\t")]
    assert {*engines} - {*table.engine_by_name, *ENGINES} == set()
    listed = asked("--cmdhelp=all")
    for engine in engines:
        listed += asked(f"--enghelp={engine}")
    names = {line.partition(":")[0].strip() for line in listed if ":" in line and "fio" not in line.split(":")[0]}
    assert len(names) > 200
    assert names - known == set()


def test_the_table_has_no_duplicates_and_only_known_names() -> None:
    table = fio_table()
    names = [name for each in table.options for name in each.names]
    assert len(names) == len(set(names))
    assert set(table.aliases.values()) <= set(names)
    assert not set(table.aliases) & set(names)
    kinds = [name for each in table.kinds.values() for name in each]
    assert len(kinds) == len(set(kinds))
    assert {each for names in table.kinds.values() for each in names} <= set(names)
    assert all(each.group is FioGroup.REACHES or each.group is FioGroup.CHANGES for each in table.engines)


@pytest.mark.parametrize("name", sorted(_options()))
def test_what_raidlabs_own_loads_have_is_never_accused(name: str) -> None:
    name = fio_table().aliases.get(name, name)
    # A trace and an engine are named: the gate accepts only raidlab's own.
    if name not in ("read_iolog", "ioengine"):
        assert group_of(name, "1")[0] in (FioGroup.PLAYED, FioGroup.SILENT, FioGroup.CHANGES)


@pytest.mark.parametrize("line", lines_of(DATA / "harmless.fio", ";"))
def test_no_harmless_option_is_accused(line: str) -> None:
    assert "foreign-command" not in rules(f"{TIMED}{line}\n")


@pytest.mark.parametrize("line", lines_of(DATA / "reaching.fio", ";"))
def test_options_with_outside_effects_are_refused_and_only_commands_are_called_so(line: str) -> None:
    found = rules(f"{TIMED}{line}\n")
    assert len(found["foreign-command"]) == 1
    assert "line 6" in found["foreign-command"][0]
    runs = line.strip().startswith(("exec_", "program", "ioengine=exec"))
    assert ("runs a command" in found["foreign-command"][0]) is runs


def test_all_that_is_wrong_is_named_in_one_pass() -> None:
    found = rules(
        "[global]\nioengine=sync\niodepth=8\nexec_prerun=a\n[one]\nexec_postrun=b\nbssplit=4k/50:8k/50\n"
        "[two]\nwrite_bw_log=c\nnumjobs=4\nunheard_of=1\nbs=(4k*2)\nsize=${S}\n"
    )
    assert [each.partition(":")[0] for each in found["foreign-command"]] == ["line 4", "line 6", "line 9"]
    assert [each.partition(":")[0] for each in found["not-played-here"]] == ["line 7"]
    assert [each.partition(":")[0] for each in found["not-analysed"]] == ["line 11", "line 12", "line 13"]
    assert {"depth-without-async", "runtime-short", "jobs-unsummed"} <= set(found)


def test_a_comment_ends_a_line_and_a_line_that_fio_cuts_is_two() -> None:
    assert rules(f"{TIMED}bs=4k ; exec_prerun=x\n# exec_prerun=x\n") == {}
    assert "foreign-command" in rules(f"{TIMED}#{'x' * 4094}exec_prerun=x\n")
    assert "foreign-command" not in rules(f"{TIMED}#{'x' * 4093}exec_prerun=x\n")
    assert "foreign-command" in rules("[globalx]\nexec_prerun=x\n[a]\ntime_based\nruntime=1\n")


@pytest.mark.parametrize(("job", "broken"), cases(DATA / "jobs.txt"))
def test_findings_on_foreign_jobs(job: str, broken: str) -> None:
    assert set(rules(f"{job}\n")) == set(broken.split())


@pytest.mark.parametrize("job", ["", "[a]\nioengine=null\ntime_based\nruntime=5\nramp_time=9\n"])
def test_jobs_that_measure_no_device_cause_no_findings(job: str) -> None:
    assert not [*lint_fio(job)]


def test_jobs_with_an_unknown_direction_are_not_reported_as_mixed() -> None:
    job = "[a]\nrw=read\ntime_based\nruntime=1\n[b]\nrw=${RW}\ntime_based\nruntime=1\ndirect=1\n"
    assert "mixed-directions" not in rules(job)
    assert "mixed-directions" in rules(job.replace("${RW}", "write"))
    assert "mixed-directions" not in rules(job.replace("rw=${RW}", "rw=write\nwait_for_previous"))


SIZES = ["512", "4k", "4K", "4kb", "4ki", "4kib", "4KiB", "1m", "1MiB", "0x1000", "1g", "2t"]


def test_sizes_are_read_as_fio_reads_them(tmp_path: Path) -> None:
    words = ["fio", "--output-format=json", "--name=global", "--ioengine=null", "--rw=read", "--number_ios=1"]
    words += [word for size in SIZES for word in (f"--name={size}", f"--size={size}", f"--bs={size}")]
    # There is no memory for a block of 2 TiB, but fio counts it nevertheless.
    printed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False).stdout
    document = json.loads(printed[printed.index("{") :])
    found = {job["jobname"]: job["read"]["io_bytes"] for job in document["jobs"]}
    assert found == {size: bytes_of(size) for size in SIZES}


def test_values() -> None:
    assert (bytes_of("4k"), bytes_of("4kib"), bytes_of("4kib", 1000), bytes_of("4x")) == (4096, 4000, 4096, None)
    assert (sizes_of("128K,"), sizes_of(",8k"), sizes_of("1k-4k,8k"), sizes_of(",")) == (
        *((131072,), (8192,), (1024, 4096, 8192), None),
    )
    assert (seconds_of("10"), seconds_of("2m"), seconds_of("5ms"), seconds_of("1d"), seconds_of("x")) == (
        *(10, 120, 0.005, 86400, None),
    )
    assert (number_of("12"), number_of("0x1f"), number_of("1.5"), number_of("")) == (12, 31, None, None)
