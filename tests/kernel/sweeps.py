"""Sweeps run by the command, as seen from outside: their cells, their processes, their ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernel.kill import processes_of
from tests.waiting import wait_until
from tests.window import RAIDLAB, REPOSITORY, command

PATIENCE_SECONDS = 180.0
FILE = """\
format_version = 2
id = "small"
title = "A small sweep"
question = "Is it the same everywhere?"
[disks]
kind = "spindle"
size_bytes = "16M"
[array]
assume_clean = true
[[jobs]]
workload = "rand-read-4k"
runtime_seconds = 3.0
warmup_seconds = 1.0
[sweep]
level = ["raid0", "raid1", "raid5"]
members = [2, 3, 4]
queue_depth = {depths}
drive = ["hdd-10k"]
"""


@contextmanager
def _not_left_behind(process: subprocess.Popen[str]) -> Iterator[None]:
    """End the sweep if the test fails or is interrupted, since the sweep would otherwise run for minutes."""
    try:
        yield
    except BaseException:
        process.terminate()
        process.wait()
        raise


@dataclass(frozen=True, slots=True)
class Sweeps:
    """A state folder, a sweep file, and the command that runs the sweep."""

    state: Path
    file: Path
    more: Mapping[str, str]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(RAIDLAB, "--json", "sweep", str(self.file), "--dashboard", "none", *words),
            cwd=REPOSITORY,
            env={**os.environ, "RAIDLAB_STATE": str(self.state), **self.more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, status: int = 0) -> dict[str, Any]:
        """Run the sweep to its end and return the JSON document that it prints."""
        process = self.start(*words)
        with _not_left_behind(process):
            printed, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == status, said
        document: dict[str, Any] = json.loads(printed)
        return document

    def files(self) -> dict[str, tuple[int, int]]:
        """Key of every stored cell -> inode and time of its file. Both change if the cell is measured again."""
        found = (self.state / "sweeps/cells").glob("*/*.cell")
        return {path.stem: ((told := path.stat()).st_ino, told.st_mtime_ns) for path in found}

    def progress(self) -> dict[str, Any]:
        """The progress of the running sweep, empty if none runs yet."""
        for path in (self.state / "sweeps/runs").glob("*/progress.json"):
            document: dict[str, Any] = json.loads(path.read_text())
            return document
        return {}

    def until(self, is_so: Callable[[], object], process: subprocess.Popen[str]) -> None:
        def holds() -> object:
            found = is_so()
            assert found or process.poll() is None, process.communicate()[1]
            return found

        with _not_left_behind(process):
            wait_until(holds, PATIENCE_SECONDS, lambda: str(self.progress()))

    def kill(self, name: str, process: subprocess.Popen[str]) -> None:
        """Send SIGKILL to ``client`` or to a worker, given by its name."""
        number = process.pid if name == "client" else int(self.progress()["processes"][name])
        os.kill(number, signal.SIGKILL)

    def until_ended(self) -> None:
        """Wait until no process is left. A worker whose client was killed ends by itself, perhaps after a last cell."""
        wait_until(lambda: not self.left(), PATIENCE_SECONDS, lambda: str(self.left()))

    def kernels(self) -> list[int]:
        found = processes_of(self.state).items()
        return [number for number, words in found if words.partition(" ")[0].endswith("/linux") and "umid=" in words]

    def left(self) -> list[str]:
        """Command lines of all kernels, workers and schedulers of this state folder."""
        return list(processes_of(self.state).values())

    def resumes_after_kill(self, words: Sequence[str], alone: Mapping[str, str], before: Mapping[str, Any]) -> None:
        """Resume; require that no cell of ``before`` is measured again and that all digests are those of ``alone``."""
        after = self.run(*words, "--resume")
        assert after["measured"] == len(alone) - len(before)
        assert digests(after) == alone
        assert {key: self.files()[key] for key in before} == before


def sweeps_in(
    folder: Path, *, depths: tuple[int, ...] = (1,), more: Mapping[str, str] | None = None, table: str = ""
) -> Sweeps:
    """``depths``: eight cells each. ``more``: environment variables. ``table``: the file's table for the cluster."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    file = folder / "small.toml"
    file.write_text(FILE.replace("{depths}", str(list(depths))) + table)
    return Sweeps(state, file, more or {})


def digests(document: Mapping[str, Any]) -> dict[str, str]:
    return {cell["cell"]: cell["digest"] for cell in document["cells"]}
