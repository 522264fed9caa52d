"""One experiment in virtual time, repeated while the computer does other work: the same to the last bit.

Levels 0, 1, 5, 6 and 10 on drives with mechanics: reads, writes, and for redundant levels a member that fails and is
rebuilt, all of it under load. Meanwhile other processes use processor and memory at random moments. Some runs have one
processor, longer paths, another home, or far more environment variables. The test compares the records (digest of
lab/results/record.py), fio's documents and the timelines, and the checksums of all that the members contain at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.support.report import RAIDLAB
from lab.host.processes import isolated_python
from lab.machine.kernel_image import kernel_cache
from lab.results.record import ResultRecord, differences
from lab.results.store import ResultStore

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.timeout(1200)]
LONGEST_RUN_SECONDS = 600.0
RECORD = "record.json"
# Each process uses a processor for a moment and holds some memory.
BURN = "import time; held = bytearray({bytes}); end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
MOST_BURNING = 2
MOST_BYTES = 256 << 20
EXPERIMENT = """\
format_version = 2
id = "exact-repeat"
title = "Levels 0, 1, 5, 6 and 10 on drives with mechanics"
question = "Is it the same again?"
repeats = 1
seed = 5
file_system = "raw"
writes_files_first = false
[disks]
kind = "spindle"
model = "cheetah-4lp"
size_bytes = "24M"
[[jobs]]
workload = "rand-read-4k"
jobs = 2
queue_depth = 2
runtime_seconds = 2.0
warmup_seconds = 1.0
[[jobs]]
workload = "rand-write-4k"
jobs = 2
queue_depth = 2
runtime_seconds = 2.5
warmup_seconds = 1.0
[rebuild]
arrays = REDUNDANT
minimum_speed_kib_per_second = 2000
[rebuild.under]
workload = "rand-mix-4k"
jobs = 2
queue_depth = 2
file_bytes = "2M"
runtime_seconds = 2.5
warmup_seconds = 1.0
"""
ARRAY = """\
[[arrays]]
id = "{level}"
level = "{level}"
members = {members}
"""
MEMBERS = {"raid0": 2, "raid1": 2, "raid5": 3, "raid6": 4, "raid10": 4}


@dataclass(frozen=True, slots=True)
class Circumstance:
    name: str
    folder: str = "state"
    """Folder for the state of the run."""
    environment: dict[str, str] = field(default_factory=dict)
    has_one_processor: bool = False
    has_own_home: bool = False


CIRCUMSTANCES = (
    Circumstance("as it is"),
    Circumstance("once more"),
    Circumstance("one processor", has_one_processor=True),
    Circumstance("longer paths", folder="/".join(["a-folder-with-a-much-longer-name"] * 6)),
    Circumstance(
        "another home", environment={"TZ": "Pacific/Auckland", "LANG": "C", "USER": "somebody"}, has_own_home=True
    ),
    Circumstance("large environment", environment={f"VARIABLE_{n}": "x" * 4000 for n in range(200)}),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    record: ResultRecord
    files: dict[str, str]
    """The files of the result except for the record: name -> SHA-256."""


def experiment(levels: Sequence[str]) -> str:
    redundant = [level for level in levels if level != "raid0"]
    arrays = "".join(ARRAY.format(level=level, members=MEMBERS[level]) for level in levels)
    return EXPERIMENT.replace("REDUNDANT", json.dumps(redundant)) + arrays


@contextmanager
def busy_computer(seed: int) -> Iterator[None]:
    """Processes of this test that come and go, and use processor and memory."""
    chance, is_over = random.Random(seed), threading.Event()

    def come_and_go() -> None:
        burning: list[subprocess.Popen[bytes]] = []
        while not is_over.wait(chance.uniform(0.1, 2.0)):
            burning = [each for each in burning if each.poll() is None]
            if len(burning) < MOST_BURNING:
                text = BURN.format(bytes=chance.randrange(MOST_BYTES), seconds=chance.uniform(0.2, 4.0))
                burning.append(subprocess.Popen(isolated_python("-c", text)))
        for each in burning:
            each.kill()
            each.wait()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def outcome_of(folder: Path, circumstance: Circumstance, text: str, *more: str) -> Outcome:
    state = folder / circumstance.folder
    state.mkdir(parents=True)
    (folder / "experiment.toml").write_text(text, encoding="utf-8")
    environment = {**os.environ, **circumstance.environment, "RAIDLAB_STATE": str(state)}
    environment["XDG_CACHE_HOME"] = str(kernel_cache().parents[1])
    if circumstance.has_own_home:
        (folder / "home").mkdir()
        environment |= {"HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "home/config")}
    start = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))) if circumstance.has_one_processor else ()
    words = ("--on", "uml:", "--quiet", "run", str(folder / "experiment.toml"), "--json", *more)
    ended = subprocess.run(
        (*start, *RAIDLAB, *words),
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST_RUN_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, f"{circumstance.name}: {ended.stderr}"
    store = ResultStore(state / "results")
    (summary,) = store.list()
    (result,) = (state / "results").glob(f"{summary.id}*")
    files = {
        str(path.relative_to(result)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(result.rglob("*"))
        if path.is_file() and path.name != RECORD
    }
    record = store.load(summary.id)
    assert record.conditions.is_virtual_time
    return Outcome(record, files)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """One ordinary run, then one in each circumstance, two at a time."""
    root, text = tmp_path_factory.mktemp("runs"), experiment(tuple(MEMBERS))
    with busy_computer(seed=1), ThreadPoolExecutor(2) as pool:
        folders = [root / str(number) for number in range(len(CIRCUMSTANCES))]
        return list(pool.map(lambda folder, each: outcome_of(folder, each, text), folders, CIRCUMSTANCES))


@pytest.mark.wide
@pytest.mark.parametrize("number", range(1, len(CIRCUMSTANCES)), ids=[each.name for each in CIRCUMSTANCES[1:]])
def test_it_is_the_same_to_the_last_bit(outcomes: list[Outcome], number: int) -> None:
    first, other = outcomes[0], outcomes[number]
    assert list(differences(first.record, other.record)) == []
    assert other.files == first.files


@pytest.mark.wide
def test_every_member_has_its_checksum(outcomes: list[Outcome]) -> None:
    assert {array.name: len(array.content_sums) for array in outcomes[0].record.arrays} == MEMBERS


FEW = experiment(("raid1", "raid5")).replace("repeats = 1", 'repeats = 1\norder = "interleaved"\ncache = "cold"')
FEW = FEW.replace('size_bytes = "24M"', 'size_bytes = "24M"\nsharing = "shared"')


def test_two_levels_on_shared_drives_are_the_same_on_one_processor_and_in_another_folder(tmp_path: Path) -> None:
    first = outcome_of(tmp_path / "a", Circumstance("first"), FEW).record
    other = outcome_of(tmp_path / "b", Circumstance("other", "another" * 8, has_one_processor=True), FEW).record
    assert list(differences(first, other)) == []
    assert {cell.array for cell in first.cells} == {"raid1", "raid5"}


@pytest.mark.wide
def test_another_seed_gives_other_figures(tmp_path: Path) -> None:
    first, other = (outcome_of(tmp_path / seed, Circumstance(seed), FEW, "--seed", seed).record for seed in "56")
    assert list(differences(first, other)) != []
