"""A lab of nine file disks with an array, opened fifty times in virtual time: what real time shows, each time?

Usage: openings.py [--openings N]

The array is made once, in real time, and shown there as JSON. Each opening in virtual time starts it again from its
disks and must show the same, to the last character.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.support.kill import Ended, Place
from benchmarks.support.report import finish, private_state, spread
from lab.errors import ExitCode

OPENINGS = 50
DISKS = 9
MADE = ("array", "create", "md0", "--level", "5", "--disks", str(DISKS), "--chunk", "64K", "--assume-clean")
SHOWN = ("--json", "array", "show")


def done(ended: Ended) -> str:
    """What a command has printed. Ends if it has failed."""
    if ended.status != ExitCode.DONE:
        sys.exit(f"in real time a command ended with {ended.status}:\n{ended.stderr}")
    return ended.stdout


def problem_of(ended: Ended, wanted: str) -> str:
    """What is wrong with an opening; nothing if all is right."""
    if ended.status != ExitCode.DONE:
        return f"ended with {ended.status}: {ended.stderr[-600:]}"
    lines = set(ended.stdout.splitlines()) ^ set(wanted.splitlines())
    return "" if ended.stdout == wanted else f"differs in: {' | '.join(sorted(lines))[:600] or 'the order of lines'}"


def main() -> None:
    """Make, show, open again and again."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--openings", type=int, default=OPENINGS)
    options = parser.parse_args()
    problems: dict[int, str] = {}
    seconds: list[float] = []
    with private_state() as folder:
        (folder / "tmp").mkdir()
        real, virtual = Place(folder), Place(folder, "uml:?time=virtual")
        done(real.run(MADE))
        wanted = done(real.run(SHOWN))
        for number in range(options.openings):
            ended = virtual.run(SHOWN)
            seconds.append(ended.seconds)
            left = virtual.leftovers(ended)
            if problem := problem_of(ended, wanted) or ", ".join(left):
                problems[number] = problem
            print(f"{number}: {ended.seconds:.2f} s {problem or 'the same'}", file=sys.stderr, flush=True)
        if done(real.run(SHOWN)) != wanted:
            problems[options.openings] = "real time shows something else afterwards"
    finish(
        "openings",
        "openings in virtual time that show what real time shows, of all",
        options.openings - len(problems),
        options.openings,
        at_most=False,
        details={
            "problems": problems,
            "seconds_each": spread(seconds),
            "seconds": [round(each, 2) for each in seconds],
        },
    )


if __name__ == "__main__":
    main()
