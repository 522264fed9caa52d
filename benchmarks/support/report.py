"""The options of a benchmark, and its report, a JSON object on standard output. Status 1 means a missed bound."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from lab.gates.decoding import decode_json
from lab.host.processes import isolated_python

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")
T = TypeVar("T")
U = TypeVar("U")
One = TypeVar("One", int, str)
RAIDLAB = isolated_python("-c", "import sys; from lab.cli.main import run; sys.exit(run())")
"""The beginning of the command line of raidlab, whose arguments follow."""
SMALL_EXPERIMENT, DRIVES_EXPERIMENT = (Path(__file__).with_name(f"{name}.toml") for name in ("small", "drives"))
"""Experiments of a few seconds for scripts that run one: on files in real time, and on emulated drives."""


def asked(smoke: Options, argv: Sequence[str] | None = None) -> Options:
    """Return a script's options from the command line, or from ``argv`` instead of the process's own arguments.

    Each field of the dataclass is an option, and its default is what ``make bench`` measures with. ``--smoke`` replaces
    the defaults with the values of ``smoke``, with which the script ends in seconds. A type may be ``Annotated`` with
    help. The values of a tuple are separated by commas.
    """
    made = type(smoke)
    parser = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--smoke", action="store_true", help="check only that the script works, with the smallest values"
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


def asked_one(name: str, usual: One, about: str = "", *, smoke: One) -> One:
    """Return the value of a script's only option."""
    options = make_dataclass("Options", [(name, Annotated[type(usual), about], usual)])
    return vars(asked(options(smoke)))[name]  # type: ignore[no-any-return]


def _value(kind: object, text: str) -> object:
    if get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], word) for word in text.split(",") if word)
    if kind not in (int, float):
        return text if kind is str else Path(text)
    try:
        number = int(text) if kind is int else float(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0 of type {getattr(kind, '__name__', kind)}")
    return number


def finish(what: str, measured: float, sign: Literal["<=", ">="], bound: float, /, **details: object) -> None:
    """Print the outcome and exit. ``sign`` says whether the bound is the highest or the lowest permitted value."""
    is_within = measured <= bound if sign == "<=" else measured >= bound
    report = {
        "benchmark": Path(sys.argv[0]).stem,
        "what": what,
        "measured": round(measured, 4),
        "bound": f"{sign} {bound:g}",
        "is_within_bound": is_within,
        **details,
        # The average of the last minute is reported because other work on the computer disturbs a measurement.
        "load_average": round(os.getloadavg()[0], 2),
    }
    json.dump(report, sys.stdout, indent=2)
    print()
    sys.exit(0 if is_within else 1)


def finish_pairs(
    what: str,
    pairs: Sequence[tuple[float, float]],
    sign: Literal["<=", ">="],
    bound: float,
    names: tuple[str, str],
    /,
    **details: object,
) -> None:
    """Finish with the median of the ratios of pairs. Report the spread of both parts under their ``names``."""
    sides = {name: spread(side) for name, side in zip(names, zip(*pairs, strict=True), strict=True)}
    ratio = statistics.median(one / other for one, other in pairs)
    finish(f"{what}, median of pairs", ratio, sign, bound, pairs=len(pairs), **sides, **details)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command of raidlab took and printed. Time and memory include the processes that it started."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def run_raidlab(*words: str) -> Ended:
    """Run raidlab with these arguments. Exit if it fails."""
    begin = time.monotonic()
    with subprocess.Popen([*RAIDLAB, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    if process.returncode:
        sys.exit(f"raidlab {' '.join(words)} ended with {process.returncode}")
    return Ended(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, output)


def notice(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def private_state() -> Iterator[Path]:
    """Use a temporary state folder, so that the user's own remains untouched."""
    with tempfile.TemporaryDirectory(prefix="raidlab-bench-") as name:
        os.environ["RAIDLAB_STATE"] = name
        yield Path(name)


def spread(values: Sequence[float]) -> dict[str, float]:
    return {name: round(of(values), 4) for name, of in (("min", min), ("median", statistics.median), ("max", max))}


class StoredPoints(list[T]):
    """Measured points. If a file is given, it has one per line, and a run that was stopped continues from there."""

    def __init__(self, file: Path | None, kind: type[T]) -> None:
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
        super().__init__(decode_json(line, kind) for line in lines)
        self._file = file

    def measure(self, missing: Sequence[U], minutes: float, one: Callable[[U], Sequence[T]]) -> None:
        """Add what ``one`` measures for each missing cell. Exit after these minutes if cells are left."""
        end = time.monotonic() + 60 * minutes
        for number, each in enumerate(missing):
            if time.monotonic() > end:
                sys.exit(
                    f"{len(missing) - number} measurements are left; run the script again with the same file of points"
                )
            self.add(one(each))
            notice(f"{number + 1} of {len(missing)}: {self[-1]}")

    def add(self, points: Sequence[T]) -> None:
        self += points
        if self._file:
            with self._file.open("ab") as file:
                file.writelines(msgspec.json.encode(point) + b"\n" for point in points)


def rewrite(path: Path, mark: str, table: str) -> None:
    """Put the table between the comments ``MARK: begin`` and ``MARK: end`` of a document. Exit if it lacks them."""
    first, last = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    text = path.read_text(encoding="utf-8")
    head, begin, rest = text.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        sys.exit(f"{path} has no '{first}' and '{last}'")
    path.write_text(f"{head}{first}\n{table}\n{last}{tail}", encoding="utf-8")
