"""A command imports nothing from the folder in which it starts, the environment or the user's site-packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cli.app import make_app
from lab.host.processes import isolated_python
from tests.traps import Traps, lay_traps

RAIDLAB = Path(sys.executable).parent / "raidlab"
SECONDS = 120


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    return lay_traps(tmp_path)


def run(traps: Traps, *argv: str | Path, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=traps.folder,
        env=traps.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def commands(app: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and subcommand."""
    yield words
    for name in app.resolved_commands():
        if not name.startswith("-"):
            yield from commands(app[name], (*words, name))


ONE_BY_ONE = """import json, sys
from lab.cli.main import run
for words in json.loads(sys.argv[1]):
    print("STATUS", run(words), words, flush=True)
"""


def require_no_crash(traps: Traps, stderr: str) -> None:
    assert traps.sprung() == {}
    for words in ("Traceback", "Fatal Python", "this should not happen"):
        assert words not in stderr


def statuses(traps: Traps, lines: list[tuple[str, ...]]) -> tuple[dict[tuple[str, ...], int], str]:
    """The status of each command line, and stderr. All run in one process, since each start takes half a second."""
    done = run(traps, *isolated_python("-c", ONE_BY_ONE, json.dumps(lines)))
    require_no_crash(traps, done.stderr)
    assert done.returncode == 0, done.stderr
    found = [int(each) for each in re.findall("^STATUS ([0-9]+) ", done.stdout, re.MULTILINE)]
    return dict(zip(lines, found, strict=True)), done.stderr


def test_every_command_prints_its_help(traps: Traps) -> None:
    every = list(commands(make_app()))
    assert ("array", "create") in every
    found, stderr = statuses(traps, [(*each, "--help") for each in every])
    assert (set(found.values()), stderr) == ({0}, "")


def test_commands_do_what_they_do_elsewhere(traps: Traps) -> None:
    lines = (
        *("workloads", "results", "drill list", "lesson list", "lesson show 1", "run", "run antioquia-quick --plan"),
        *("sweep", "sweep levels --plan", "fault list", "fleet", "fleet school --trials 40000 --workers 2"),
        *("results show nothing", "report nothing", "export nothing --to x.zip", "lint trap.py", "lint nothing.toml"),
        *("class .", "compare a b", "drill verify nothing", "lesson verify nothing", "fault replay nothing", "doctor"),
        *("--on ssh:nothing.invalid disks", "--on vagrant: disks", "--on bogus: disks", "md-tests nothing"),
    )
    found, _ = statuses(traps, [tuple(line.split()) for line in lines])
    assert {line: status for line, status in found.items() if status > 4} == {}


@pytest.mark.parametrize("words", ["--version", "doctor", "sweep levels --plan"])
def test_the_installed_command_is_isolated(traps: Traps, words: str) -> None:
    done = run(traps, RAIDLAB, *words.split())
    require_no_crash(traps, done.stderr)
    assert done.returncode in range(5), done.stderr


@pytest.mark.parametrize("module", ["tui", "lab.sweep.node", "tests.kernel.soak", "benchmarks.fleet"])
def test_modules_that_are_started_by_name_are_the_installed_ones(traps: Traps, module: str) -> None:
    code = f"import importlib.util as find; print(find.find_spec({module!r}).origin)"
    done = run(traps, *isolated_python("-c", code))
    assert traps.sprung() == {}
    assert str(traps.folder) not in done.stdout
    assert done.stdout.strip().endswith(".py"), done.stderr


def test_a_process_of_multiprocessing_is_as_isolated_as_the_one_that_starts_it(traps: Traps) -> None:
    (traps.folder / "program").mkdir()
    code = (
        "from lab.host.pool import spread\n"
        "from tests.traps import flags\n"
        "with spread(flags, range(4), 2) as found:\n"
        "    print(sorted(set(found)))\n"
    )
    done = run(traps, *isolated_python("-c", code))
    assert traps.sprung() == {}
    assert done.stdout.strip() == "[(True, True, True)]", done.stderr


def test_the_traps_catch_an_interpreter_that_is_not_isolated(traps: Traps) -> None:
    """Without this the other tests would prove nothing."""
    environment = traps.environment()
    for name in ("PYTHONHOME", "PYTHONPLATLIBDIR"):
        del environment[name]
    for argv in (("-m", "tui"), ("-c", "import json"), ("-c", "import distributed")):
        subprocess.run(
            [sys.executable, *argv],
            cwd=traps.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    assert {re.sub(r"\..*", "", name) for name in traps.sprung()} >= {"sitecustomize", "tui", "json", "distributed"}
    for note in traps.notes.iterdir():
        note.unlink()
    system = Path(sys.executable).resolve()
    bare = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    subprocess.run([system, "-c", ""], cwd="/", env=bare, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
    assert {re.sub(r"\..*", "", name) for name in traps.sprung()} >= {"pth", "user-usercustomize"}
