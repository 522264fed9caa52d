"""Time from the command to the app's first frame in a terminal, while the embedded kernel starts as well."""

from __future__ import annotations

import statistics

from benchmarks.support.report import asked_one, finish, private_state, spread
from benchmarks.support.terminal import AppInTerminal, app_in_terminal

BOUND_SECONDS = 0.7
# Titles at the two ends of the Lab screen. Once both have been painted, so has everything in between.
FIRST_FRAME = (b" Rack ", b"Disk menu")
MACHINE_RUNS = b"Nothing is built yet"


def one_start(app: AppInTerminal) -> tuple[float, float, float]:
    """Return the seconds to the first frame, the app's CPU seconds until then, and seconds until the machine ran."""
    app.read_until(lambda text: FIRST_FRAME[0] in text, "a first frame")
    frame, cpu = app.painted[-1][0] - app.started, app.cpu_seconds()["app"]
    app.read_until(lambda text: MACHINE_RUNS in text, "the machine runs")
    return frame, cpu, app.painted[-1][0] - app.started


def main() -> None:
    rounds = asked_one("rounds", 7, "number of starts that count", smoke=1)
    found = []
    for number in range(rounds + 1):
        with private_state() as state, app_in_terminal(state) as app:
            measured = one_start(app)
            if number:
                found.append(measured)
    frames = [frame for frame, _, _ in found]
    finish(
        "seconds from the command to the first frame of the Lab screen, median",
        statistics.median(frames),
        "<=",
        BOUND_SECONDS,
        runs=rounds,
        first_frame_seconds=spread(frames),
        cpu_seconds_of_the_app_until_then=spread([cpu for _, cpu, _ in found]),
        machine_runs_seconds=spread([seconds for _, _, seconds in found]),
    )


if __name__ == "__main__":
    main()
