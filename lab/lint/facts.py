"""What the checks look at, as plain values: a plan, a machine, one measured cell."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """One array as planned."""

    id: str
    level: str
    members: int
    usable_bytes: int | None = None
    """None: not known before it is built."""
    assume_clean: bool = False

    @property
    def has_parity(self) -> bool:
        return self.level.removeprefix("raid") in ("4", "5", "6")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One fio job as planned."""

    id: str
    arrays: tuple[str, ...]
    """On which it runs."""
    reads: bool
    writes: bool
    block_bytes: int
    queue_depth: int
    is_asynchronous: bool
    runtime_seconds: float
    warmup_seconds: float
    total_file_bytes: int | None
    """Over all its jobs; None: the free space decides."""
    recipe: str = ""
    """A literal fio job file."""
    expected_latency_seconds: float | None = None
    """What theory expects at the mean, on the slowest of its arrays; None: theory expects nothing."""
    queue_per_disk: float = 0.0
    """Requests in flight for each disk of that array; 0 where there is only one, whose queue has no other."""
    has_own_seeds: bool = True
    """Whether each repeat has addresses of its own."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """An experiment as written."""

    id: str
    repeats: int
    is_interleaved: bool
    is_cold: bool
    writes_files_first: bool
    disk_kind: str
    disks_start_blank: bool
    arrays: tuple[ArrayFacts, ...]
    jobs: tuple[JobFacts, ...]


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One member, or array, as the machine has it."""

    name: str
    size_bytes: int
    is_counted: bool = True
    """queue/iostats."""
    loop_direct: bool | None = None
    """loop/dio; None: no loop device."""
    holders: tuple[str, ...] = ()
    sync_action: str = ""
    """Of an array."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What is read from the machine right before measuring."""

    devices: tuple[DeviceFacts, ...]
    debug_options: tuple[str, ...] = ()
    """Options of the running kernel that check it while it runs."""
    expected_holders: dict[str, str] = field(default_factory=dict)
    """Device -> the array that should hold it."""


@dataclass(frozen=True, slots=True)
class CellFacts:
    """One measured cell, with what the samples showed meanwhile."""

    name: str
    phase: str
    is_mix: bool
    read_bytes: int = 0
    written_bytes: int = 0
    """What fio moved while the members were watched."""
    member_read_bytes: int | None = None
    member_written_bytes: int | None = None
    sync_actions: frozenset[str] = frozenset()
    steal_fraction: float | None = None
    waited_fraction: float | None = None
    share_measured: float = 1.0
    is_steady: bool | None = None
    steady_words: str = ""
    fewest_ios: int | None = None
    """Of the direction with the fewest; None: no percentiles were given."""
    is_cold: bool = True
    declared_cold: bool = True
