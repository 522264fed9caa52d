"""Input from users: TOML files and numbers."""

from __future__ import annotations

import pytest

from tests.hardening.test_stored import measured
from tests.hardening.workbench import Bench

pytestmark = [pytest.mark.wide, pytest.mark.slow]

DIGITS = "9" * 5000
EXPERIMENT = """format_version = 2
id = "e"
title = "t"
question = "q"
repeats = {repeats}
sampling_hertz = {sampling_hertz}
seed = {seed}
[disks]
kind = "file"
size_bytes = "64M"
sharing = "shared"
[[arrays]]
id = "r"
title = "R"
level = "raid0"
members = {members}
[[jobs]]
workload = "rand-read-4k"
id = "j"
runtime_seconds = {runtime_seconds}
warmup_seconds = 0.1
file_bytes = {file_bytes}
block_bytes = {block_bytes}
"""
GOOD: dict[str, object] = {"repeats": 3, "sampling_hertz": 4.0, "seed": 1, "members": 2, "runtime_seconds": 2.0}
GOOD |= {"file_bytes": '"1M"', "block_bytes": 4096}


def experiment(bench: Bench, **changes: object) -> str:
    return bench.file("e.toml", EXPERIMENT.format(**{**GOOD, **changes}))


def refused_everywhere(bench: Bench, because: str, **changes: object) -> None:
    file = experiment(bench, **changes)
    for words in (["run", "--plan", file], ["lint", file], ["--json", "run", "--plan", file]):
        bench.run(*words).was_refused(because=because)


def test_a_count_of_disks_members_or_repeats_is_bounded_before_anything_is_made_of_it(bench: Bench) -> None:
    for count in ("99999999999999999999", "65", DIGITS, "-1", "٣"):
        bench.run("disks", "add", "--kind", "file", "--count", count).was_refused(because="--count")
    for count in ("99999999999999999999", "999999999", DIGITS, "65"):
        for option in ("--disks", "--spares"):
            more = ["--disks", "3"] if option == "--spares" else []
            bench.run("array", "create", "--level", "5", *more, option, count, "--plan").was_refused()
        bench.run("array", "grow", "md0", "--members", count, "--plan").was_refused(because="disks")
    bench.run("run", "--plan", experiment(bench)).worked()
    refused_everywhere(bench, "repeats", repeats=999_999_999)
    refused_everywhere(bench, "members", members=9_000_000_000_000_000_000)


def test_a_number_of_thousands_of_digits_is_refused_in_a_sentence_wherever_it_stands(bench: Bench) -> None:
    for words in (
        ["run", "--plan", "antioquia-quick", "--seed", DIGITS],
        ["watch", "--count", DIGITS],
        ["disks", "add", "--kind", "file", "--size", DIGITS],
        ["disks", "add", "--kind", "file", "--size", f"{DIGITS}M"],
        ["array", "create", "--level", "5", "--chunk", DIGITS, "--plan"],
        ["array", "create", "--level", "adapt5", "--utilisation", f"1,{DIGITS}", "--plan"],
        ["array", "speed", "md0", "--min", DIGITS],
        ["array", "corrupt", "md0", "disk01", "--length", DIGITS],
        ["load", "rand-read-4k", "md0", "--runtime", DIGITS],
        ["load", "rand-read-4k", "md0", "--size", DIGITS],
        ["--on", f"uml:?mem={DIGITS}", "disks"],
        ["--on", f"ssh:x?port={DIGITS}", "disks"],
        ["lesson", "start", DIGITS],
        ["lint", DIGITS],
    ):
        bench.run(*words).was_refused()
    for name in ("repeats", "seed", "members", "sampling_hertz", "runtime_seconds", "file_bytes", "block_bytes"):
        refused_everywhere(bench, "", **{name: DIGITS})
    bench.store(measured())
    record = bench.results / measured().id / "record.json"
    record.write_text(record.read_text().replace('"repeat": 1', f'"repeat": {DIGITS}', 1))
    bench.run("results", "show", "latest").was_refused(because="damaged")
    bench.run("lint", str(record)).was_refused(because="damaged")
    bench.run("results").worked()
