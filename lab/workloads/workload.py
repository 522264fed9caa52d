"""One workload: its I/O pattern and its purpose. The catalogue contains workloads as TOML files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import (
    BlockBytes,
    JobCount,
    QueueDepth,
    ReadPercent,
    Seconds,
    SecondsOrZero,
    Seed,
    SizeBytes,
    convert,
)
from lab.gates.text import is_name, shortened
from lab.tomlfile import read_toml, unknown_word
from lab.workloads import permitted
from lab.workloads.permitted import SYNCHRONOUS_ENGINES

COUNT = re.compile(r"\{count:([0-9]{1,18})\}")
"""In a dd recipe: this number of blocks, or as many as fit."""


class Direction(StrEnum):
    """Direction of the data transfer."""

    READ = "read"
    WRITE = "write"
    MIX = "mix"
    """Reads and writes at the same time."""
    VERIFY = "verify"
    """Written with checksums, then read back and checked."""


class AccessPattern(StrEnum):
    """Order of the offsets in the file."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"


class Verify(StrEnum):
    """Verification of the data."""

    NONE = "none"
    REREAD = "reread"
    """Write every block once, then read every block."""
    UNDER_LOAD = "under-load"
    """Write and verify shortly afterwards, for the whole runtime: a load that detects corruption during faults."""


class LoadProgram(StrEnum):
    """The program that does the I/O."""

    FIO = "fio"
    DD = "dd"
    """For published recipes only: dd reports only bytes and seconds."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A catalogue entry. Raises ValueError (SpecError through lab.tomlfile) for inconsistent values."""

    id: str
    """Name on the command line, in results, and of the fio job."""
    title: str
    shows: str
    """What students learn from it, in one sentence."""
    direction: Direction
    pattern: AccessPattern
    block_bytes: BlockBytes
    read_percent: ReadPercent | None = None
    """Share of reads, for a mix only."""
    queue_depth: QueueDepth = 1
    """I/Os in flight per job."""
    jobs: JobCount = 1
    """Parallel jobs, each on its own file or region."""
    engine: str = "libaio"
    direct: bool = True
    """O_DIRECT: bypass the page cache."""
    runtime_seconds: Seconds = 30.0
    """Measured time; a verify workload that re-reads ends when its file is covered instead."""
    warmup_seconds: SecondsOrZero = 10.0
    """Time before the measurement, excluded from the figures (fio's ramp_time)."""
    distribution: str = "random"
    """fio's random_distribution, such as ``zipf:1.1``."""
    random_data: bool = True
    """New random data in every buffer: repeated or zero data would not exercise the parity computation."""
    seed: Seed = 20_260
    """Seed of the offsets, equal on every array."""
    vary_seed: bool = True
    """Add the number of the repeat to the seed, so that repeats differ and arrays do not."""
    verify: Verify = Verify.NONE
    file_bytes: SizeBytes | None = None
    """Bytes per job; None: set by the experiment or the free space."""
    recipe: str = ""
    """A published fio job or dd command, run unmodified. Placeholders: {filename}; for fio {size} and {runtime}; for dd
    {count:N}, the published count of blocks or as many as fit."""
    program: LoadProgram = LoadProgram.FIO
    trace: str = ""
    """A synthetic trace by name (lab.workloads.traces), replayed with its timing; ``runtime_seconds`` is its length.

    Its requests are distributed to ``jobs`` synchronous jobs, so at most that many are in flight."""
    source: str = ""
    """Publication of a recipe."""

    def __post_init__(self) -> None:
        for complaint in _complaints(self):
            raise ValueError(f"workload '{self.id}': {complaint}")

    @property
    def reads(self) -> bool:
        """Whether figures for reads are expected."""
        return self.direction is not Direction.WRITE

    @property
    def writes(self) -> bool:
        """Whether it changes data on the array."""
        return self.direction is not Direction.READ

    @property
    def request_bytes(self) -> int | None:
        """The size of every request; None if they may differ."""
        return None if self.recipe or self.trace else self.block_bytes

    @property
    def region_count(self) -> int:
        """Number of files, or of regions of a device: one per job; recipes and traces have one for all jobs."""
        return 1 if self.recipe or self.trace else self.jobs

    @property
    def depth_total(self) -> int:
        """I/Os in flight over all jobs."""
        return self.queue_depth * self.jobs


def changed(workload: Workload, **changes: object) -> Workload:
    """The workload with changed values, validated like one that is read from a file. Raises SpecError."""
    try:
        return convert({**msgspec.structs.asdict(workload), **changes}, Workload)
    except msgspec.ValidationError as error:
        raise SpecError(
            f"workload '{workload.id}' cannot be changed so: {error}", hint="choose values that it can have"
        ) from None


def _recipe_problems(workload: Workload) -> Iterator[str]:
    """Violations in a recipe; ``{filename}`` is the placeholder of its target."""
    if workload.program is LoadProgram.DD:
        program, *operands = COUNT.sub(r"\1", workload.recipe).split() or [""]
        if program != "dd":
            yield f"the program '{shortened(program)}' where only dd is run"
        elif workload.direction not in (Direction.READ, Direction.WRITE):
            yield "a dd that is neither a read nor a write"
        else:
            yield from permitted.dd_problems(operands, "{filename}", workload.block_bytes, writes=workload.writes)
    elif workload.recipe:
        text = workload.recipe.replace("{size}", "1m").replace("{runtime}", "1s")
        yield from permitted.job_problems(text, {"filename": ("{filename}",)}, writes=workload.writes)


def _foreign(workload: Workload) -> Iterator[str]:
    if not is_name(workload.id) or workload.id.startswith("global"):
        yield "id may have letters, digits, '-', '_' and '.' only, begins with one of the first three, and not as fio's"
    if workload.engine not in permitted.ENGINES:
        engines = ", ".join(sorted(permitted.ENGINES))
        yield f"{permitted.RULE}: engine '{shortened(workload.engine)}' is not one of {engines}"
    if not permitted.is_distribution(workload.distribution):
        yield f"{permitted.RULE}: distribution '{shortened(workload.distribution)}' is not such as random or zipf:1.1"
    yield from (f"{permitted.RULE}: {problem}" for problem in _recipe_problems(workload))
    yield from permitted.buffer_problems(workload.jobs, workload.queue_depth, workload.block_bytes)


def _complaints(workload: Workload) -> list[str]:
    is_mix = workload.direction is Direction.MIX
    checks = [
        (
            workload.queue_depth > 1 and workload.engine in SYNCHRONOUS_ENGINES,
            f"depth-without-async: engine '{workload.engine}' ignores a queue_depth above 1",
        ),
        (is_mix != (workload.read_percent is not None), "a mix, and nothing else, needs read_percent"),
        (
            (workload.direction is Direction.VERIFY) != (workload.verify is not Verify.NONE),
            "direction 'verify' and a verify mode go together",
        ),
        (
            bool(workload.trace) and (not is_mix or workload.engine not in SYNCHRONOUS_ENGINES),
            "a trace is a mix, replayed by synchronous jobs",
        ),
        (
            workload.runtime_seconds < workload.warmup_seconds,
            "runtime-short: runtime_seconds is less than warmup_seconds",
        ),
        (
            workload.file_bytes is not None and workload.file_bytes < workload.block_bytes,
            "file_bytes is below one block",
        ),
    ]
    return [*_foreign(workload), *(complaint for wrong, complaint in checks if wrong)]


BUILT_IN_FOLDER = Path(__file__).with_name("catalogue")


def load_folder(folder: Path) -> dict[str, Workload]:
    """Every ``*.toml`` of a folder by id, sorted. Raises SpecError for an invalid file or a duplicate id."""
    found: dict[str, Workload] = {}
    for path in sorted(folder.glob("*.toml")):
        workload = read_toml(path, Workload)
        if workload.id in found:
            raise SpecError(f"'{path}' has id '{workload.id}', which another file has too", hint="give each its own id")
        found[workload.id] = workload
    return dict(sorted(found.items()))


@cache
def all_workloads() -> dict[str, Workload]:
    """The built-in workloads by id."""
    return load_folder(BUILT_IN_FOLDER)


def find_workload(name: str) -> Workload:
    """A workload by id, or by the path of a ``.toml`` file.

    Raises SpecError for an unknown name, which names the nearest known one.
    """
    if name.endswith(".toml"):
        return read_toml(Path(name), Workload)
    workloads = all_workloads()
    if name not in workloads:
        raise unknown_word("workload", name, workloads)
    return workloads[name]
