"""Whether campaigns find the bugs that were planted in md and in the oracle, and how soon.

Each bug of md (lab/faults/planted.toml) is switched on in the kernel that contains them all. A campaign from the first
seed continues until it finds something, which is shrunk and replayed on a separate machine. Each bug of the oracle
(tests/kernel/oracle_bugs.toml) is planted in the program that plays histories. A campaign on the kernel without bugs
must find those that report errors which do not exist. The controls, which are known damage, must find those that
overlook errors. The unchanged oracle must pass the controls. It must also find nothing in the histories in which bugs
of the first kind were found.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any

from benchmarks.support.report import asked, finish, notice, private_state
from lab.errors import LabError
from lab.faults.campaign import (
    Arena,
    Campaign,
    PlantedBug,
    begun_campaign,
    find_planted_bug,
    history_of,
    planted_bugs,
    replayed,
)
from lab.faults.history import FindingId, parse_id
from lab.faults.place import with_own_kernel
from lab.machine import Host, Target, parse_target
from tests.kernel.oracle_controls import OracleBug, failed_controls, find_oracle_bug, oracle_bugs

ALL = ("all",)
MOST_OPERATIONS = 10


@dataclass(frozen=True, slots=True)
class Options:
    md: Annotated[tuple[str, ...], "planted bugs of md, by name or number"] = ALL
    oracle: Annotated[tuple[str, ...], "bugs of the oracle, by name"] = ALL
    minutes: Annotated[float, "time in minutes for each bug"] = 10.0


SMOKE = Options(md=(), oracle=("row-skipped",))


Hunt = tuple[dict[str, Any], bool]
"""What is known about the hunt for a bug, and whether the bug was found."""


def campaign(arena: Arena, minutes: float, *, shrinks: bool) -> dict[str, Any]:
    """Return the properties of a campaign's first finding, or nothing if it found nothing in time."""
    asked = {"first": 1, "seeds": 0, "seconds": minutes * 60, "planted": arena.planted}
    begin = time.monotonic()
    with begun_campaign(arena.host, str(arena.target), **asked) as journal:
        hunt = Campaign(journal, arena, notice=notice, shrinks=shrinks, stops_at_first=True)
        summary = hunt.run()
    if not summary.findings:
        return {}
    smallest = min(summary.findings, key=lambda each: each.operations)
    return {
        "found_after_seconds": summary.found_after_seconds,
        "seconds": round(time.monotonic() - begin, 1),
        "histories": summary.seeds,
        "finding": smallest.id,
        "kind": smallest.kind,
        "status": smallest.status,
        "operations": smallest.operations,
        "writes": smallest.writes,
    }


def hunt_in_md(bug: PlantedBug, target: Target, host: Host, minutes: float) -> Hunt:
    details = campaign(Arena(target, host, bug.number), minutes, shrinks=True)
    is_small = (
        bool(details) and details["operations"] <= MOST_OPERATIONS and details["status"] in ("shrunk", "confirmed")
    )
    if details:
        # md without the bug must not show what md with the bug shows.
        history, earlier = history_of(parse_id(details["finding"]))
        plain = replayed(Arena(target, host), history, earlier)
        details["without_the_bug"] = sorted(plain.kinds)
        is_small = is_small and details["kind"] not in plain.kinds
    return details, is_small


def hunt_in_oracle(bug: OracleBug, target: Target, host: Host, minutes: float) -> Hunt:
    arena = Arena(target, host, change=bug.change)
    begin = time.monotonic()
    if bug.found_by == "controls":
        try:
            failed = failed_controls(arena)
        except LabError as error:
            failed = [error.message]
        seconds = round(time.monotonic() - begin, 1)
        return {"found_after_seconds": seconds, "controls": failed[:3]}, bool(failed)
    details = campaign(arena, minutes, shrinks=False)
    if details:
        accused: FindingId = parse_id(details["finding"])
        history, earlier = history_of(accused)
        details["true_oracle"] = sorted(replayed(Arena(target, host), history, earlier).kinds)
    return details, bool(details) and not details["true_oracle"]


def main() -> None:
    options = asked(SMOKE)
    in_md = list(planted_bugs()) if options.md == ALL else [find_planted_bug(word) for word in options.md]
    in_oracle = list(oracle_bugs()) if options.oracle == ALL else [find_oracle_bug(word) for word in options.oracle]
    md: dict[str, Hunt] = {}
    oracle: dict[str, Hunt] = {}
    with private_state():
        host = Host.real("benchmark")
        target = with_own_kernel(parse_target("uml:"), host)
        controls = failed_controls(Arena(target, host)) if in_oracle else []
        for bug in in_md:
            md[bug.name] = hunt_in_md(bug, target, host, options.minutes)
            notice(f"{bug.name}: {md[bug.name][0] or 'not found'}")
        for planted in in_oracle:
            oracle[planted.name] = hunt_in_oracle(planted, target, host, options.minutes)
            notice(f"{planted.name}: {oracle[planted.name][0] or 'not found'}")
    missed = [name for found in (md, oracle) for name, (_, is_found) in found.items() if not is_found]
    count = len(md) + len(oracle)
    finish(
        f"planted bugs found within {options.minutes:g} minutes, those of md with {MOST_OPERATIONS} operations at most",
        count - len(missed) if not controls else 0,
        ">=",
        count,
        missed=missed,
        controls_that_the_oracle_fails=controls,
        md={name: details for name, (details, _) in md.items()},
        oracle={name: details for name, (details, _) in oracle.items()},
    )


if __name__ == "__main__":
    main()
