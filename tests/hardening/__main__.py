"""``.venv/bin/python -I -m tests.hardening``: each promise in a line, and whether it holds. Status 1 if not."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.hardening.promises import ALL
from tests.hardening.workbench import Bench, BrokenPromise, Promise


def broken(promise: Promise) -> str:
    """What was seen instead; empty if the promise holds."""
    with tempfile.TemporaryDirectory(prefix="raidlab-hardening-") as folder:
        try:
            promise.check(Bench(Path(folder)))
        except BrokenPromise as seen:
            return str(seen)
    return ""


def main() -> int:
    wanted = sys.argv[1:]
    count = 0
    for number, promise in enumerate(ALL, start=1):
        if wanted and str(number) not in wanted:
            continue
        seen = broken(promise)
        count += bool(seen)
        verdict = f"BROKEN  {promise.says}\n     {seen}" if seen else f"holds   {promise.says}"
        sys.stdout.write(f"{number:2} {verdict}\n")
        sys.stdout.flush()
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
