"""Experiments written for one question at a time."""

from __future__ import annotations

from lab.experiments.schema import Experiment
from lab.tomlfile import decode_toml

HEAD = """
format_version = 2
id = "test"
title = "A test"
question = "Does it work?"
"""


def arrays(**made: str) -> str:
    """TOML of arrays, from id -> level, number of members, and further lines of TOML."""
    return "".join(
        '[[arrays]]\nid = "{}"\nlevel = "{}"\nmembers = {}\n{}\n'.format(name, *f"{words} ".split(" ", 2))
        for name, words in made.items()
    )


ARRAYS = arrays(a="raid1 2", b="raid5 3", c="raid0 2")
JOBS = """
[[jobs]]
workload = "rand-read-4k"
runtime_seconds = 2.0
warmup_seconds = 1.0

[[jobs]]
workload = "rand-write-4k"
arrays = ["b", "c"]
runtime_seconds = 2.0
warmup_seconds = 1.0
"""
REBUILD = """
[rebuild]
arrays = ["a", "b"]
"""
UNDER = """
[rebuild.under]
workload = "rand-mix-4k"
runtime_seconds = 5.0
warmup_seconds = 1.0
"""


def experiment(head: str = "repeats = 3", *parts: str, arrays: str = ARRAYS, jobs: str = JOBS) -> Experiment:
    return decode_toml("\n".join((HEAD, head, arrays, jobs, *parts)), Experiment, source="test.toml")
