"""Which addresses a random load goes to, as far as two runs can be told apart by it. Pure.

fio draws the addresses of a job from a seed. Its options say which, but not alone: up to 3.34 ``randrepeat=1``, the
default, puts a constant in the seed's place, for the addresses only and in the first job of a section only, not in its
clones (``td_fill_rand_seeds_internal`` in init.c, until commit 95282650; axboe/fio issues 1391 and 1502). So a
fingerprint is one of *effective* seeds, and what is said of fio here is proved with the real one:
tests/unit/workloads/test_addresses.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

_SEEDED_BY_REPEATABLE = (3, 35)
"""The first fio whose ``randrepeat=1`` heeds ``randseed``."""
_DEAF_DISTRIBUTIONS = (3, 33)
"""From here on such as zipf take the same constant."""
_CONSTANT = "constant"
_OF_ADDRESSES = ("bs", "size", "filesize", "numjobs", "offset_increment", "rw", "readwrite", "rwmixread")
_FINGERPRINT_CHARACTERS = 16


def fingerprint(job_text: str, traces: Sequence[str], fio_version: str) -> str:
    """Equal for two runs of one load on the same addresses, in the same order.

    Empty where none are drawn at random, where the system's own seed is taken, and for a replay without its traces.

    ``traces``: what is replayed, if anything is. ``fio_version``: as fio writes it, such as ``fio-3.33``.
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
    """How many of a random load's jobs take a constant for their seed, and how many jobs there are."""
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
    """The seed of the addresses; ``constant`` where fio takes one of its own, None where it takes the system's."""
    if _is_first_deaf(options, fio_version) and options.get("numjobs", "1") == "1":
        return _CONSTANT
    return options.get("randseed", _CONSTANT if _is_repeatable(options) else None)


def _options(job_text: str) -> dict[str, str]:
    """Options of all sections together: a job of ours has one, and those of a recipe differ in what is read."""
    found: dict[str, str] = {}
    for line in job_text.splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.lstrip().startswith(("#", ";", "[")):
            found.setdefault(name.strip().lower(), value.strip())
    return found


def _version(text: str) -> tuple[int, int]:
    """Of ``fio-3.33`` or ``3.36-12-gabc``; (0, 0) if it says nothing."""
    numbers = re.search(r"\b([0-9]{1,4})\.([0-9]{1,4})\b", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_FINGERPRINT_CHARACTERS]
