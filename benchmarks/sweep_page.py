"""How long the page of a sweep of 5,000 cells takes to show its first charts in a browser, and how large the page is.

The time is measured from the command to open the file until every visible chart has its lines. The browser is already
running, and each round has a new one, so that no part of the page is cached.
"""

from __future__ import annotations

import time

from benchmarks.support.browser import browser
from benchmarks.support.report import asked_one, finish, private_state, spread
from benchmarks.support.sweep import made_sweep
from lab.sweep.report import sweep_page

BOUND_SECONDS, BOUND_MEGABYTES = 3.0, 10.0
DRAWN = """(() => {
  const seen = [...document.querySelectorAll(".canvas")].filter((one) => one.getBoundingClientRect().top < innerHeight);
  return seen.length > 0 && seen.every((one) => one.querySelector(".trace path"));
})()"""


def main() -> None:
    rounds = asked_one("rounds", 5, "number of browsers that open the page", smoke=1)
    result = made_sweep()
    with private_state() as state:
        begin = time.monotonic()
        page = state / "sweep.html"
        page.write_text(sweep_page(result), encoding="utf-8")
        written = time.monotonic() - begin
        seconds, heaps = [], []
        for _ in range(rounds):
            with browser() as chromium:
                chromium.resize(1300, 1000)
                begin = time.monotonic()
                chromium.open(page)
                chromium.until(DRAWN)
                seconds.append(time.monotonic() - begin)
                assert not chromium.complaints, chromium.complaints
                heaps.append(chromium.ask("Runtime.getHeapUsage")["usedSize"] / 2**20)
        megabytes = page.stat().st_size / 1e6
    finish(
        f"seconds to the first charts of {result.planned} cells, median of {rounds}; inf: above {BOUND_MEGABYTES:g} MB",
        spread(seconds)["median"] if megabytes < BOUND_MEGABYTES else float("inf"),
        "<=",
        BOUND_SECONDS,
        seconds=spread(seconds),
        rows=len(result.rows),
        page_megabytes=round(megabytes, 2),
        bound_megabytes=BOUND_MEGABYTES,
        written_seconds=round(written, 2),
        heap_mib=spread(heaps),
    )


if __name__ == "__main__":
    main()
