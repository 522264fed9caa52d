"""The number of crash points per second, and whether md keeps its promises at all of them.

At least the given number of points is tried, the same number for each configuration (raidlab fault points --list). If
one recording of each does not suffice, further seeds are used. The benchmark fails if a point breaks a promise, if a
configuration could not be tried, or if the rate is too low. Two machines are used, one for each of two processors.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from benchmarks.support.report import asked, finish, notice, private_state, spread
from lab.faults.crash_points import Exploration, Explored, all_configurations, explore_all
from lab.machine import Host, parse_target

MOST_OF_ONE_RECORDING = 300


@dataclass(frozen=True, slots=True)
class Options:
    points: Annotated[int, "minimum number of crash points in total"] = 20_000
    machines: int = 2
    seed: int = 1
    least: Annotated[float, "required number of points per second"] = 20.0
    only: Annotated[tuple[str, ...], "configurations (raidlab fault points --list), by default all"] = ()
    target: Annotated[str, "the machine, such as qemu:?kernel=7.2"] = "uml:?time=virtual"


SMOKE = Options(points=2, least=0.001, only=("raid1/bitmap/idle/mixed",))


def report(found: list[Explored], seconds: float, least: float) -> None:
    """Print the outcome and exit. If a promise is broken, the rate is 0."""
    tried = sum(each.tally.points for each in found)
    judgements: Counter[str] = Counter()
    for each in found:
        judgements.update({word.value: count for word, count in each.tally.judgements.items()})
    broken = [
        f"{each.configuration.name} seed {each.seed} {one.cut}: {'; '.join(one.reasons)}"
        for each in found
        for one in each.tally.broken
    ]
    errors = [
        f"{each.configuration.name} seed {each.seed} {each.last}: {each.error.message}" for each in found if each.error
    ]
    finish(
        "crash points per second, each judged by what md promises; 0 if a promise is broken",
        0.0 if broken or errors else tried / seconds,
        ">=",
        least,
        points=tried,
        points_per_second=round(tried / seconds, 2),
        seconds=round(seconds, 1),
        configurations=len({each.configuration.name for each in found}),
        recordings=len(found),
        judgements=judgements,
        refused=sum(each.tally.refused for each in found),
        broken=broken,
        errors=errors,
        points_per_second_of_one_machine=spread(
            [each.tally.points / each.seconds for each in found if each.seconds and each.tally.points] or [0.0]
        ),
    )


def main() -> None:
    options = asked(SMOKE)
    known = {each.name: each for each in all_configurations()}
    if unknown := set(options.only) - set(known):
        sys.exit(
            f"there is no configuration {', '.join(sorted(unknown))}; list them with 'raidlab fault points --list'"
        )
    configurations = [known[name] for name in options.only or known]
    each_points = -(-options.points // len(configurations))
    recordings = -(-each_points // MOST_OF_ONE_RECORDING)
    work = [(each, str(options.seed + number)) for number in range(recordings) for each in configurations]
    found: list[Explored] = []
    started = time.monotonic()
    with private_state():
        exploration = Exploration(
            parse_target(options.target), Host.real("benchmark"), points=-(-each_points // recordings)
        )
        for explored in explore_all(exploration, work, machines=options.machines):
            found.append(explored)
            tally = explored.tally
            summary = f"{tally.points} points, {len(tally.broken)} broken"
            if explored.error:
                summary = f"{explored.error.message} after {summary}"
            notice(f"{explored.configuration.name}: {summary}, {explored.seconds:.1f} s")
        report(found, time.monotonic() - started, options.least)


if __name__ == "__main__":
    main()
