"""Ten thousand inputs over command lines, TOML files, stored results and bundles: how each ended. None may be a bug.

``--seed`` and ``--count`` choose the inputs; one that got no answer is made smaller and kept in ``--keep``, from where
``--again FILE`` repeats it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from benchmarks.support.report import finish
from tests.hardening.fuzzing import load_all, outcome, smaller
from tests.hardening.inputs import case, read_case

_MOST_SHRUNK = 20


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--count", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=13)
    asked.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    asked.add_argument("--again", type=Path)
    chosen = asked.parse_args()
    load_all()
    if chosen.again:
        seen = outcome(read_case(chosen.again.read_text()))
        sys.stderr.write(f"status {seen.status}, {seen.seconds:.1f} s, {seen.problem or 'an answer'}\n{seen.said}")
        sys.exit(1 if seen.problem else 0)
    statuses: Counter[str] = Counter()
    problems: list[str] = []
    longest = 0.0
    for number in range(chosen.count):
        kind, made = case(chosen.seed, number)
        seen = outcome(made)
        statuses[f"{kind}: {seen.status}"] += 1
        longest = max(longest, seen.seconds)
        if not seen.problem:
            continue
        if len(problems) < _MOST_SHRUNK:
            made = smaller(made, seen.problem)
        chosen.keep.mkdir(exist_ok=True)
        file = chosen.keep / f"{chosen.seed}-{number}.json"
        file.write_text(made.written())
        problems.append(f"{file}: {seen.problem}: {' '.join(made.words)[:200]!r}")
        sys.stderr.write(f"{problems[-1]}\n  {seen.said[-300:]}\n")
    details = {"statuses": dict(sorted(statuses.items())), "longest_seconds": round(longest, 2), "found": problems}
    finish("fuzz", f"of {chosen.count} inputs those without an answer", len(problems), 0, at_most=True, details=details)


if __name__ == "__main__":
    main()
