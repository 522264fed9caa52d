"""Client, supervisor, kernel and their pairs killed at random moments of every long command, for ``--seconds``.

Each kill has its own state folder, a copy of one that was prepared once for its command. Then the next command runs,
and the test checks everything: exit statuses, leftovers, stored results, and the data on the array.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.support.report import SMALL_EXPERIMENT
from lab.errors import ExitCode
from tests.conftest import LongRun
from tests.kernel.kill import Ended, Place

pytestmark = [pytest.mark.kernel, pytest.mark.wide]
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
# Only the client exists before a machine starts and after it ends.
ALONE = (("client",),)
DISKS = 6
DISK_BYTES = 32 << 20
CREATE = ("array", "create", "md0", "--level", "5", "--disks", "disk01,disk02,disk03", "--chunk", "64K", "--wait")
MARK, VERIFY = ("array", "mark", "md0"), ("array", "verify", "md0")
MARKED = (CREATE, MARK)
SHOW, LIST = ("--json", "array", "show"), ("--json", "results")
Words = tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """A command to kill, the commands before it, and the next command with a check of its output.

    The words of a command may contain ``{root}``, the folder of the kill, and ``{latest}``, its newest result.
    """

    words: Words
    next: Words
    before: tuple[Words, ...] = ()
    check: Callable[[Place, Ended], str] = lambda place, ended: ""
    """Returns what is wrong, empty if nothing is."""
    statuses: frozenset[int] = frozenset({ExitCode.DONE})
    """Allowed exit statuses of the next command."""
    victims: tuple[tuple[str, ...], ...] = VICTIMS


def all_readable(place: Place, ended: Ended) -> str:
    return "; ".join(f"{each['id']}: {each['problem']}" for each in json.loads(ended.stdout) if each.get("problem"))


def a_whole_archive_or_none(place: Place, ended: Ended) -> str:
    """An export must exist completely or not at all, with no incomplete file beside it."""
    names = [path.name for path in (place.root / "out").iterdir()]
    if names not in ([], ["new.zip"]):
        return f"the folder of the export has {names}"
    if names:
        with zipfile.ZipFile(place.root / "out" / "new.zip") as archive:
            return "" if archive.testzip() is None else "the archive is damaged"
    return all_readable(place, ended)


def unchanged(place: Place, ended: Ended) -> str:
    """A mark that is being replaced may exist or not, but must never report good data as changed."""
    if ended.status == ExitCode.DONE or "contains no known data" in ended.stderr:
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


def new_place(root: Path) -> Place:
    for name in ("out", "state/labs/default"):
        (root / name).mkdir(parents=True)
    disks = [{"name": f"disk{n:02d}", "kind": "file", "size_bytes": DISK_BYTES} for n in range(1, DISKS + 1)]
    (root / "state/labs/default/lab.json").write_text(json.dumps(disks), encoding="ascii")
    (root / "small.toml").write_text(SMALL_EXPERIMENT.read_text("ascii"), encoding="ascii")
    return Place(root)


def in_place(words: Words, place: Place) -> Words:
    latest = max((path.name for path in (place.state / "results").glob("[0-9]*")), default="")
    return tuple(word.format(root=place.root, latest=latest) for word in words)


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)


@contextlib.contextmanager
def copied(source: Path, root: Path) -> Iterator[Place]:
    copy(source, root)
    try:
        yield Place(root)
    finally:
        shutil.rmtree(root)


def done(place: Place, words: Words) -> Ended:
    ended = place.run(in_place(words, place))
    assert ended.status == ExitCode.DONE, f"'{' '.join(words)}' ended with {ended.status}:\n{ended.stderr}"
    return ended


class Preparations:
    """The commands before each scenario, each step run once and then copied."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[Words, ...], Path] = {(): new_place(folder / "prepared-0").root}

    def after(self, steps: tuple[Words, ...]) -> Path:
        """A folder in which these commands have run."""
        if steps not in self._made:
            before = self.after(steps[:-1])
            place = Place(self._folder / f"prepared-{len(self._made)}")
            copy(before, place.root)
            done(place, steps[-1])
            self._made[steps] = place.root
        return self._made[steps]

    def prepare(self, name: str) -> tuple[Path, float]:
        """The folder to copy for a command's kills, and the seconds that the command takes without a kill."""
        scenario = SCENARIOS[name]
        source = self.after(scenario.before)
        with copied(source, self._folder / "trial") as trial:
            return source, done(trial, scenario.words).seconds


def problems_of(scenario: Scenario, place: Place, ended: Ended) -> Iterator[str]:
    # DONE if the command had already ended, or if the client outlived a machine that it no longer needed.
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


def problems_after(
    command: str, victims: tuple[str, ...], chance: random.Random, prepared: tuple[Path, float], root: Path
) -> list[str]:
    """What is wrong after a kill at a random moment. Tries another moment if the victims did not exist."""
    scenario, (folder, longest) = SCENARIOS[command], prepared
    problems: list[str] = []
    root.mkdir()
    for attempt in range(MOMENTS):
        seconds = chance.random() * longest
        with copied(folder, root / str(attempt)) as place:
            ended = place.run_and_kill(in_place(scenario.words, place), victims, seconds)
            # A kill that came too late is checked too, but does not count as a kill.
            found = problems_of(scenario, place, ended)
            problems += [f"{' and '.join(victims)} killed after {seconds:.2f} s: {each}" for each in found]
        if ended.killed:
            return problems
    return [*problems, f"{' and '.join(victims)} were never there to be killed"]


@pytest.fixture(scope="module")
def preparations(tmp_path_factory: pytest.TempPathFactory) -> Preparations:
    return Preparations(tmp_path_factory.mktemp("prepared"))


@pytest.mark.parametrize(("number", "command"), enumerate(SCENARIOS))
def test_after_a_kill_all_is_clean(
    number: int, command: str, preparations: Preparations, tmp_path: Path, long_run: LongRun
) -> None:
    chance, prepared, begun = random.Random(long_run.seed + number), preparations.prepare(command), time.monotonic()
    all_victims = SCENARIOS[command].victims
    # Without a machine a command ends in an instant, so more kills are needed.
    least = 5 if all_victims is ALONE else 1
    for turn in itertools.count():
        if turn >= least and time.monotonic() - begun >= (long_run.seconds or 0.0) / len(SCENARIOS):
            break
        victims = all_victims[(number + turn) % len(all_victims)]
        assert problems_after(command, victims, chance, prepared, tmp_path / str(turn)) == []
