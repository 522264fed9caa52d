"""What a benchmark is asked for, and how it reports.

A report is one JSON object on standard output; exit status 1: a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")
SMALL_EXPERIMENT, DRIVES_EXPERIMENT = (Path(__file__).with_name(f"{name}.toml") for name in ("small", "drives"))
"""For scripts that run an experiment: of some seconds, on files in real time and on emulated drives."""


def asked(smoke: Options, argv: Sequence[str] | None = None) -> Options:
    """A script's options as the command line has them; ``argv``: instead of the process's own words.

    Each field of the script's dataclass is an option, its default what ``make bench`` measures with. With ``--smoke``
    what is not asked for otherwise is that of ``smoke``: so little that the script ends in seconds. A type may be
    ``Annotated`` with help; a tuple is written with commas.
    """
    made = type(smoke)
    parser = argparse.ArgumentParser(
        description=sys.modules[made.__module__].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--smoke", action="store_true", help="only see that the script works: its smallest values, in seconds"
    )
    for name, hint in get_type_hints(made, include_extras=True).items():
        kind, about = (get_args(hint) if get_origin(hint) is Annotated else (hint, ""))[:2]
        usual = getattr(made(), name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=partial(_value, kind),
            default=argparse.SUPPRESS,
            metavar=name.upper(),
            help=f"{about or name}; usually {usual}".replace("%", "%%"),
        )
    given = vars(parser.parse_args(argv))
    return replace(smoke if given.pop("smoke") else made(), **given)


def _value(kind: object, text: str) -> object:
    """What a word says that stands for this type."""
    if get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], word) for word in text.split(",") if word)
    if kind not in (int, float):
        return text if kind is str else Path(text)
    try:
        number = int(text) if kind is int else float(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0 of type {getattr(kind, '__name__', kind)}")
    return number


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
