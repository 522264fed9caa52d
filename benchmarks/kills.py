"""Client, supervisor, kernel and their pairs killed at random moments of every long command: was it clean 200 times?

Usage: kills.py [--kills N] [--seed N] [--jobs N] [--only COMMAND] [--on TARGET]

Each kill has a state folder of its own, copied from one that was prepared once for its command. Then the next commands
run, and everything is looked at: exit statuses, what is left behind, stored results, and the data on the array.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.support.kill import Ended, Place
from benchmarks.support.report import finish, private_state
from lab.errors import ExitCode

KILLS = 200
SIGKILLED = -9
MOMENTS = 10
VICTIMS = (
    ("client",),
    ("supervisor",),
    ("kernel",),
    ("client", "supervisor"),
    ("client", "kernel"),
    ("supervisor", "kernel"),
)
# Before the first and after the last moment of a machine there is only the client.
ALONE = (("client",),)
DISKS = 6
DISK_BYTES = 32 << 20
EXPERIMENT = """\
format_version = 2
id = "small"
title = "A small run"
question = "Is it there after a kill?"
repeats = 2
[disks]
kind = "file"
size_bytes = "32M"
[[arrays]]
id = "raid1"
level = "raid1"
members = 2
[[jobs]]
workload = "rand-read-4k"
runtime_seconds = 2.0
warmup_seconds = 0.1
file_bytes = "4M"
"""
CREATE = ("array", "create", "md0", "--level", "5", "--disks", "disk01,disk02,disk03", "--chunk", "64K", "--wait")
MARK, VERIFY = ("array", "mark", "md0"), ("array", "verify", "md0")
MARKED = (CREATE, MARK)
SHOW, LIST = ("--json", "array", "show"), ("--json", "results")
Words = tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """A command to kill, what goes before it, and what comes next with the check of what that says.

    Words of a command may name the folder of the kill as ``{root}``, its newest result as ``{latest}``.
    """

    words: Words
    next: Words
    before: tuple[Words, ...] = ()
    check: Callable[[Place, Ended], str] = lambda place, ended: ""
    """Returns what is wrong, nothing if all is right."""
    statuses: frozenset[int] = frozenset({ExitCode.DONE})
    """What the next command may end with."""
    victims: tuple[tuple[str, ...], ...] = VICTIMS


def results_of(ended: Ended) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(ended.stdout)
    return found


def all_readable(place: Place, ended: Ended) -> str:
    """No stored result has a problem."""
    return "; ".join(f"{each['id']}: {each['problem']}" for each in results_of(ended) if each.get("problem"))


def a_whole_archive_or_none(place: Place, ended: Ended) -> str:
    """An export is there as a whole, or not at all, with nothing half-written beside it."""
    names = [path.name for path in (place.root / "out").iterdir()]
    if names not in ([], ["new.zip"]):
        return f"the folder of the export has {names}"
    if names:
        with zipfile.ZipFile(place.root / "out" / "new.zip") as archive:
            return "" if archive.testzip() is None else "the archive is damaged"
    return all_readable(place, ended)


def unchanged(place: Place, ended: Ended) -> str:
    """A mark that was being replaced is there or not; it never calls good data changed."""
    if ended.status == ExitCode.DONE or "carries no data mark" in ended.stderr:
        return ""
    return f"verify says: {ended.stdout}{ended.stderr}"


RUN = ("run", "{root}/small.toml")
SCENARIOS = {
    "array create": Scenario(CREATE, SHOW),
    "load": Scenario(("load", "rand-mix-4k", "md0", "--runtime", "2", "--size", "8M"), VERIFY, MARKED),
    "run": Scenario(RUN, LIST, check=all_readable),
    "rebuild": Scenario(
        ("array", "add", "md0", "disk04"),
        VERIFY,
        (*MARKED, ("array", "fail", "md0", "disk02"), ("array", "remove", "md0", "disk02")),
    ),
    "grow": Scenario(("array", "grow", "md0", "--members", "disk04"), VERIFY, MARKED),
    "scrub": Scenario(("array", "scrub", "md0"), VERIFY, MARKED),
    "mark": Scenario(MARK, VERIFY, MARKED, unchanged, frozenset({ExitCode.DONE, ExitCode.FAILED})),
    "disks reset": Scenario(("disks", "reset", "disk04", "disk05", "disk06"), VERIFY, MARKED),
    "exec": Scenario(
        ("exec", "--", "dd if=/dev/urandom of=/dev/ubdf bs=1M count=24 oflag=direct; sleep 1"), VERIFY, MARKED
    ),
    "watch": Scenario(("watch", "--count", "3"), VERIFY, MARKED),
    "lesson": Scenario(("lesson", "do"), ("lesson", "show"), (("lesson", "start", "03-mirroring", "--anyway"),)),
    "import": Scenario(
        ("results", "import", "{root}/old.zip"),
        LIST,
        (RUN, ("export", "{latest}", "--to", "{root}/old.zip"), ("results", "delete", "{latest}")),
        all_readable,
        victims=ALONE,
    ),
    "export": Scenario(
        ("export", "{latest}", "--to", "{root}/out/new.zip"), LIST, (RUN,), a_whole_archive_or_none, victims=ALONE
    ),
    "results delete": Scenario(("results", "delete", "{latest}"), LIST, (RUN,), all_readable, victims=ALONE),
}


@dataclass
class Prepared:
    """The folder that a command's kills are copied from, and how long it takes when left alone."""

    folder: Path
    seconds: float


@dataclass
class Tally:
    """What has come out so far."""

    clean: int = 0
    unclean: list[str] = field(default_factory=list)
    too_late: int = 0
    """Attempts that came when the victims were gone already."""
    by_command: Counter[str] = field(default_factory=Counter)
    by_victims: Counter[str] = field(default_factory=Counter)


def new_place(root: Path, target: str) -> Place:
    """A lab of six small disks, whose syncs take an instant."""
    for name in ("tmp", "out", "state/labs/default"):
        (root / name).mkdir(parents=True)
    disks = [{"name": f"disk{n:02d}", "kind": "file", "size_bytes": DISK_BYTES} for n in range(1, DISKS + 1)]
    (root / "state/labs/default/lab.json").write_text(json.dumps(disks), encoding="ascii")
    (root / "small.toml").write_text(EXPERIMENT, encoding="ascii")
    return Place(root, target)


def in_place(words: Words, place: Place) -> Words:
    """With the names of its folder and of its newest result."""
    latest = max((path.name for path in (place.state / "results").glob("[0-9]*")), default="")
    return tuple(word.format(root=place.root, latest=latest) for word in words)


def copy(source: Path, target: Path) -> None:
    """A copy whose holes stay holes."""
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)


@contextlib.contextmanager
def copied(source: Path, root: Path, target: str) -> Iterator[Place]:
    """A copy that is gone afterwards."""
    copy(source, root)
    try:
        yield Place(root, target)
    finally:
        shutil.rmtree(root)


class Preparations:
    """What goes before commands, each step run once and copied from there on."""

    def __init__(self, folder: Path, target: str) -> None:
        self._folder, self._target = folder, target
        self._made: dict[tuple[Words, ...], Path] = {(): new_place(folder / "prepared-0", target).root}

    def after(self, steps: tuple[Words, ...]) -> Path:
        """A folder in which these commands have run."""
        if steps not in self._made:
            before = self.after(steps[:-1])
            place = Place(self._folder / f"prepared-{len(self._made)}", self._target)
            copy(before, place.root)
            expect_done(place.run(in_place(steps[-1], place)), steps[-1])
            self._made[steps] = place.root
        return self._made[steps]

    def prepare(self, name: str) -> Prepared:
        """For the kills of this command; how long it takes is measured on a copy."""
        scenario = SCENARIOS[name]
        source = self.after(scenario.before)
        with copied(source, self._folder / "trial", self._target) as trial:
            ended = trial.run(in_place(scenario.words, trial))
            expect_done(ended, scenario.words)
        print(f"{name}: {ended.seconds:.1f} s when nobody is killed", file=sys.stderr, flush=True)
        return Prepared(source, ended.seconds)


def expect_done(ended: Ended, words: Words) -> None:
    if ended.status != ExitCode.DONE:
        sys.exit(f"'{' '.join(words)}' ended with {ended.status} although nobody was killed:\n{ended.stderr}")


def problems_of(scenario: Scenario, place: Place, ended: Ended) -> Iterator[str]:
    """Everything that is not as it should be after a kill."""
    # Where the command was over before, or the client outlived a machine that it no longer needed.
    allowed = {SIGKILLED, ExitCode.DONE} if "client" in ended.killed else {ExitCode.MACHINE_LOST, ExitCode.DONE}
    if ended.status not in (allowed if ended.killed else {ExitCode.DONE}):
        yield f"the killed command ended with {ended.status}: {ended.stderr[-600:]}"
    following = place.run(in_place(scenario.next, place))
    if following.status not in scenario.statuses:
        yield f"the next command ended with {following.status}: {following.stdout[-300:]}{following.stderr[-600:]}"
    elif problem := scenario.check(place, following):
        yield problem
    for text in (ended.stderr, following.stderr):
        if "Traceback" in text or "should not happen" in text:
            yield f"a defect shows: {text[-600:]}"
    if left := place.leftovers(ended):
        yield f"left behind: {', '.join(left)}"


def main() -> None:
    """Prepare, kill, look."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=sorted(SCENARIOS), action="append")
    parser.add_argument("--on", default="uml:", help="an embedded kernel: 'uml:?time=virtual' is the other one")
    options = parser.parse_args()
    print(f"repeat this with --seed {options.seed}", file=sys.stderr, flush=True)
    chance, tally, lock = random.Random(options.seed), Tally(), threading.Lock()
    names = options.only or list(SCENARIOS)
    # Every command in turn; who is killed, and when, is chance. Several moments: the victims may be gone at the first.
    chosen = [names[number % len(names)] for number in range(options.kills)]
    moments = [(chance.choice(SCENARIOS[name].victims), [chance.random() for _ in range(MOMENTS)]) for name in chosen]
    with private_state() as folder:
        preparations = Preparations(folder, options.on)
        prepared = {name: preparations.prepare(name) for name in dict.fromkeys(chosen)}

        def kill(number: int) -> None:
            name, (victims, parts) = chosen[number], moments[number]
            scenario, seconds, attempt = SCENARIOS[name], 0.0, 0
            problems: list[str] = []
            for attempt, part in enumerate(parts):
                seconds = part * prepared[name].seconds
                root = folder / f"kill-{number}-{attempt}"
                with copied(prepared[name].folder, root, options.on) as place:
                    ended = place.run_and_kill(in_place(scenario.words, place), victims, seconds)
                    # What came too late is looked at as well, but is no kill.
                    problems += problems_of(scenario, place, ended)
                if ended.killed:
                    break
            else:
                problems.append("the victims were never there to be killed")
            what = f"{number}: {name}, {' and '.join(victims)} after {seconds:.2f} s"
            with lock:
                tally.by_command[name] += 1
                tally.by_victims[" and ".join(victims)] += 1
                tally.too_late += attempt
                tally.clean += not problems
                tally.unclean += [f"{what}: {problem}" for problem in problems]
                print(f"{what}: {'; '.join(problems) or 'clean'}", file=sys.stderr, flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(kill, range(options.kills)))
    finish(
        "kills",
        "kills that left all clean, of all",
        tally.clean,
        options.kills,
        at_most=False,
        details={
            "seed": options.seed,
            "on": options.on,
            "too_late": tally.too_late,
            "commands": tally.by_command,
            "victims": tally.by_victims,
            "unclean": tally.unclean,
        },
    )


if __name__ == "__main__":
    main()
