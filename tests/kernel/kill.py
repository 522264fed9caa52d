"""One command killed at one moment: its processes, their end, and what they leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.support.report import RAIDLAB
from lab.machine.state_folder import KERNEL_RECORD, memory_folder
from tests.kernel.place import kernel_target

PATIENCE_SECONDS = 240.0
ENDING_SECONDS = 60.0
# Everything with such a name is temporary. The lock for the creation of machine folders does not match and stays.
LEFTOVERS = (".importing-*", ".deleting-*", ".probe-*", ".*.tmp", "*.new", "machines/[0-9]*")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; ``killed`` names the victims that existed."""

    status: int
    stdout: str
    stderr: str
    seconds: float
    killed: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    """The names of the machines that the command left behind, which the next command removes."""


@dataclass(frozen=True, slots=True)
class Place:
    root: Path
    target: str = field(default_factory=lambda: kernel_target().text)

    @property
    def state(self) -> Path:
        return self.root / "state"

    def environment(self) -> dict[str, str]:
        own = {"RAIDLAB_STATE": str(self.state), "RAIDLAB_CONFIG": str(self.root / "config")}
        return {**os.environ, **own, "TMPDIR": str(self.root / "tmp")}

    def start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        (self.root / "tmp").mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            [*RAIDLAB, "--on", self.target, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            start_new_session=True,
        )

    def run(self, words: Sequence[str]) -> Ended:
        return self.run_and_kill(words, (), 0.0)

    def run_and_kill(self, words: Sequence[str], victims: Collection[str], seconds: float) -> Ended:
        """Send SIGKILL to the victims at this time after the start, or as soon as they exist if that is later."""
        begin = time.monotonic()
        process = self.start(words)
        killed: tuple[str, ...] = ()
        if victims:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            # A machine that does not exist yet may still start. A machine that is already gone does not come back.
            while not killed and process.poll() is None:
                killed = self._kill(process.pid, victims)
                time.sleep(0.005)
        try:
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            stderr += f"\n(it did not finish within {PATIENCE_SECONDS:g} s)"
        machines = tuple(path.name for path in (self.state / "machines").glob("[0-9]*"))
        return Ended(process.returncode, stdout, stderr, time.monotonic() - begin, killed, machines)

    def _kill(self, client: int, victims: Collection[str]) -> tuple[str, ...]:
        """Kill all victims, or none if one of them does not exist."""
        found = {"client": client}
        for record in (self.state / "machines").glob(f"*/{KERNEL_RECORD}"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                told = json.loads(record.read_text(encoding="ascii"))
                found |= {"supervisor": told["supervisor"], "kernel": told["kernel_group"]}
        if not set(victims) <= set(found):
            return ()
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[victim], signal.SIGKILL)
        return tuple(victims)

    def leftovers(self, ended: Ended) -> list[str]:
        """What must no longer exist after a later command has ended: processes, folders, incomplete files."""
        memory = [memory_folder(self.state / "machines" / name) for name in ended.machines]
        end = time.monotonic() + ENDING_SECONDS
        while (living := processes_of(self.state)) and time.monotonic() < end:
            time.sleep(0.05)
        left = [f"process {number} {command}" for number, command in living.items()]
        left += [str(path.relative_to(self.root)) for name in LEFTOVERS for path in self.state.rglob(name)]
        left += [f"tmp/{path.name}" for path in (self.root / "tmp").iterdir()]
        return left + [str(path) for path in memory if path.exists()]


def processes_of(state: Path) -> dict[int, str]:
    """Number -> command line of all processes that were started with this state folder, whatever their parent is."""
    word = f"RAIDLAB_STATE={state}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes()
                found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found
