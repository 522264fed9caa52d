"""Fingerprint of the addresses of a random load, to compare two runs. Pure.

fio generates the addresses of a job from a seed, which does not depend on its options alone: up to 3.34
``randrepeat=1``, the default, replaces the seed by a constant, for the addresses only and in the first job of a
section only, not in its clones (``td_fill_rand_seeds_internal`` in init.c, until commit 95282650; axboe/fio issues
1391 and 1502). A fingerprint therefore uses *effective* seeds. The statements about fio are tested with the real
program in tests/unit/workloads/test_addresses.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

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
