"""How a benchmark reports: one JSON object on standard output, exit status 1 if a bound is not kept."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Size = TypeVar("Size", int, float)
SMALL_EXPERIMENT = Path(__file__).with_name("small.toml")
"""For those that run an experiment: of some seconds, on files."""


def asked(option: str, usual: Size, about: str) -> Size:
    """The one option of a benchmark that has no others: how much is measured. Less is for a look, not for its bound."""
    parser = argparse.ArgumentParser()
    parser.add_argument(option, dest="size", type=type(usual), default=usual, help=f"{about}; usually {usual:g}")
    size: Size = parser.parse_args().size
    if not 0 < size < float("inf"):
        parser.error(f"{option} is above 0")
    return size


def finish(name: str, what: str, measured: float, bound: float, *, at_most: bool, details: dict[str, object]) -> None:
    """Print the outcome and exit."""
    is_within = measured <= bound if at_most else measured >= bound
    report = {
        "benchmark": name,
        "what": what,
        "measured": round(measured, 4),
        "bound": f"{'<=' if at_most else '>='} {bound:g}",
        "is_within_bound": is_within,
        **details,
    }
    json.dump(report, sys.stdout, indent=2)
    print()
    sys.exit(0 if is_within else 1)


def say(line: str) -> None:
    """Tell how far it is. To standard error: standard output is the outcome's."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def private_state() -> Iterator[Path]:
    """A state folder that lasts as long as the benchmark, so that nothing of the user's is touched."""
    with tempfile.TemporaryDirectory(prefix="raidlab-bench-") as name:
        os.environ["RAIDLAB_STATE"] = name
        yield Path(name)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Minimum, median and maximum."""
    return {
        "min": round(min(values), 4),
        "median": round(statistics.median(values), 4),
        "max": round(max(values), 4),
    }
