"""Synthetic traces in fio's own format (fio(1), "Trace file format v2"), generated from a seed, not recorded.

The fingerprint of the addresses of a random load compares two runs. Pure.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from lab.errors import SpecError
from lab.tomlfile import unknown_word
from lab.units import KIB, MIB

_SEEDED_BY_REPEATABLE = (3, 35)
"""First fio version whose ``randrepeat=1`` uses ``randseed``."""
_DEAF_DISTRIBUTIONS = (3, 33)
"""From this version on, distributions such as zipf use the same constant."""
_CONSTANT = "constant"
_OF_ADDRESSES = ("bs", "size", "filesize", "numjobs", "offset_increment", "rw", "readwrite", "rwmixread")
_FINGERPRINT_CHARACTERS = 16


def fingerprint(job_text: str, traces: Sequence[str], fio_version: str) -> str:
    """Equal for two runs of one load on the same addresses, in the same order.

    Empty if addresses are not random, if the seed comes from the system, and for a replay without its traces.

    ``traces``: the replayed traces, if any. ``fio_version``: as printed by fio, such as ``fio-3.33``.
    """
    if traces:
        return _digest("\n".join(traces))
    options = _options(job_text)
    if not _is_random(options):
        return ""
    seed = _effective_seed(options, fio_version)
    if seed is None:
        return ""
    shape = [f"{name}={options[name]}" for name in _OF_ADDRESSES if name in options]
    return _digest("\n".join([seed, options.get("random_distribution", ""), *shape]))


def deaf_jobs(job_text: str, fio_version: str) -> tuple[int, int]:
    """Number of jobs of a random load that use a constant seed, and the number of all jobs."""
    options = _options(job_text)
    jobs = int(options["numjobs"]) if re.fullmatch(r"[0-9]{1,6}", options.get("numjobs", "")) else 1
    return int(_is_random(options) and _is_first_deaf(options, fio_version)), jobs


def _is_random(options: dict[str, str]) -> bool:
    return "read_iolog" not in options and any(options.get(name, "").startswith("rand") for name in ("rw", "readwrite"))


def _is_repeatable(options: dict[str, str]) -> bool:
    return options.get("randrepeat", "1").lower() not in ("0", "false", "no")


def _is_first_deaf(options: dict[str, str], fio_version: str) -> bool:
    is_uniform = options.get("random_distribution", "random") == "random"
    version = _version(fio_version)
    is_old = (0, 0) < version < _SEEDED_BY_REPEATABLE and (is_uniform or version >= _DEAF_DISTRIBUTIONS)
    return _is_repeatable(options) and is_old


def _effective_seed(options: dict[str, str], fio_version: str) -> str | None:
    """The seed of the addresses; ``constant`` if fio uses its own constant, None if it uses a seed from the system."""
    if _is_first_deaf(options, fio_version) and options.get("numjobs", "1") == "1":
        return _CONSTANT
    return options.get("randseed", _CONSTANT if _is_repeatable(options) else None)


def _options(job_text: str) -> dict[str, str]:
    """Options of all sections merged: raidlab's jobs have one section, and those of a recipe differ in what is read."""
    found: dict[str, str] = {}
    for line in job_text.splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.lstrip().startswith(("#", ";", "[")):
            found.setdefault(name.strip().lower(), value.strip())
    return found


def _version(text: str) -> tuple[int, int]:
    """Version from ``fio-3.33`` or ``3.36-12-gabc``; (0, 0) if there is none."""
    numbers = re.search(r"\b([0-9]{1,4})\.([0-9]{1,4})\b", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_FINGERPRINT_CHARACTERS]


LEAST_SPACE_BYTES = 16 * MIB
LEAD_MILLISECONDS = 1000
"""Time for fio to start before the first I/O is due."""
_HEAD_LINES = 3


@dataclass(frozen=True, slots=True)
class TraceKind:
    """Parameters of a synthetic trace.

    Requests arrive in bursts. Most go to a hot part of the data; some are sequential runs of large requests.
    """

    mean_per_second: float
    burst_factor: float
    """Ratio of the request rate within a burst to the mean rate."""
    burst_seconds: float
    write_share: float
    sizes: tuple[tuple[int, float], ...]
    """(bytes, share) of small requests."""
    hot_space_share: float
    hot_request_share: float
    run_share: float
    """Share of the requests that begin a run."""
    run_bytes: int
    run_requests: int


KINDS = {
    # A server with mail, home directories and a small database, as traces of the nineties describe them: requests of
    # 8 KiB in most cases, writes a little more than reads, bursts, a few scans (Ruemmler and Wilkes, "UNIX disk access
    # patterns", USENIX 1993).
    "server-1990s": TraceKind(
        mean_per_second=45.0,
        burst_factor=4.0,
        burst_seconds=0.1,
        write_share=0.57,
        sizes=((2 * KIB, 0.1), (4 * KIB, 0.15), (8 * KIB, 0.55), (16 * KIB, 0.1), (64 * KIB, 0.1)),
        hot_space_share=0.1,
        hot_request_share=0.6,
        run_share=0.01,
        run_bytes=128 * KIB,
        run_requests=8,
    ),
}


def trace_texts(kind: str, streams: int, *, seconds: float, space_bytes: int, seed: int) -> tuple[str, ...]:
    """The trace over the first ``space_bytes`` of a device, with its requests distributed to at most ``streams``.

    Streams without a request are omitted, since fio rejects an empty trace. Raises SpecError for an unknown kind, too
    little space, or a time without any request.
    """
    if kind not in KINDS:
        raise unknown_word("synthetic trace", kind, KINDS)
    if space_bytes < LEAST_SPACE_BYTES:
        raise SpecError(f"a trace needs 16 MiB to work on, not {space_bytes} bytes", hint="use a larger array")
    dealt: list[list[str]] = [["fio version 2 iolog", "data add", "data open"] for _ in range(streams)]
    # Not cryptographic: the same seed must give the same trace.
    requests = _requests(KINDS[kind], seconds, space_bytes, random.Random(seed))
    for number, (milliseconds, is_write, offset, length) in enumerate(requests):
        word = "write" if is_write else "read"
        dealt[number % streams] += [f"data wait {milliseconds} 0", f"data {word} {offset} {length}"]
    texts = tuple("\n".join([*lines, "data close"]) + "\n" for lines in dealt if len(lines) > _HEAD_LINES)
    if not texts:
        raise SpecError(f"no request of trace '{kind}' comes within {seconds:g} s", hint="measure for longer")
    return texts


def _requests(
    kind: TraceKind, seconds: float, space_bytes: int, draw: random.Random
) -> Iterator[tuple[int, bool, int, int]]:
    now = 0.0
    burst_ends = 0.0
    # The rate is burst_factor times the mean within bursts and 0 between them, which gives the requested mean.
    while now < seconds:
        if now >= burst_ends:
            now += draw.expovariate(1 / (kind.burst_seconds * (kind.burst_factor - 1)))
            burst_ends = now + draw.expovariate(1 / kind.burst_seconds)
        now += draw.expovariate(kind.mean_per_second * kind.burst_factor)
        if now >= seconds:
            return
        due = LEAD_MILLISECONDS + int(now * 1000)
        is_write = draw.random() < kind.write_share
        if draw.random() < kind.run_share:
            start = _place(kind, space_bytes - kind.run_bytes * kind.run_requests, kind.run_bytes, draw)
            for number in range(kind.run_requests):
                yield due, is_write, start + number * kind.run_bytes, kind.run_bytes
        else:
            (length,) = draw.choices([size for size, _ in kind.sizes], [share for _, share in kind.sizes])
            yield due, is_write, _place(kind, space_bytes - length, length, draw), length


def _place(kind: TraceKind, space_bytes: int, unit: int, draw: random.Random) -> int:
    is_hot = draw.random() < kind.hot_request_share
    reach = int(space_bytes * kind.hot_space_share) if is_hot else space_bytes
    return draw.randrange(max(1, reach // unit)) * unit
